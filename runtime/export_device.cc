#include "runtime/export_device.h"

#include <algorithm>
#include <boost/json.hpp>

#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "runtime/export_files.h"

namespace tw {
namespace {

std::vector<const KernelArgument*> arguments_with(const std::vector<KernelArgument>& arguments, bool packed) {
  std::vector<const KernelArgument*> out;
  for (const KernelArgument& argument : arguments) {
    if ((argument.role == ArgumentRole::Packed) == packed) out.push_back(&argument);
  }
  return out;
}

// "cl_mem X, cl_mem Y": what the caller passes; packed operands belong to the kernel object.
std::string parameters_of(const std::vector<KernelArgument>& arguments) {
  std::string out;
  for (const KernelArgument* argument : arguments_with(arguments, false)) out += cat(", cl_mem ", argument->name);
  return out;
}

// What prepack writes, in its order: the places of packed operands in the kernel object.
int packed_place(const KernelManifest& manifest, const std::string& name) {
  std::vector<const KernelArgument*> packed = arguments_with(manifest.prepack, true);
  auto found = std::find_if(packed.begin(), packed.end(),
                            [&](const KernelArgument* argument) { return argument->name == name; });
  TW_CHECK(found != packed.end(), "a packed operand that nothing packs");
  return static_cast<int>(found - packed.begin());
}

std::string argument_comment(const std::vector<KernelArgument>& arguments) {
  std::string out;
  for (const KernelArgument* argument : arguments_with(arguments, false)) {
    std::string shape;
    for (i64 extent : argument->shape) shape += cat("[", extent, "]");
    out += cat(" *   ", argument->name, ": ", name_of(argument->role), ", ", name_of(argument->dtype), " ", shape,
               ", row-major, ", argument->bytes, " bytes\n");
  }
  return out;
}

// C string literals, one per line of text.
std::string as_literals(const std::string& text) {
  std::string out, line;
  for (char c : text) {
    if (c == '\\' || c == '"') line += '\\';
    if (c != '\n') {
      line += c;
      continue;
    }
    out += cat("    \"", line, "\\n\"\n");
    line.clear();
  }
  return line.empty() ? out : out + cat("    \"", line, "\"\n");
}

std::string launch_tables(const std::string& name, const std::vector<KernelLaunch>& launches, const char* entry) {
  std::string out, rows;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const KernelLaunch& launch = launches[i];
    std::vector<std::string> pointers;
    for (const KernelLaunch::Pointer& p : launch.pointers)
      pointers.push_back(cat("{", p.is_scratch ? 1 : 0, ", ", p.at, ", ", p.bytes, "}"));
    out += cat("static const tw_cl_pointer ", name, "_", entry, "_", i, "[] = {", join(pointers, ", "), "};\n");
    const auto &g = launch.groups, &t = launch.threads;
    rows += cat("    {\"", launch.name, "\", {", g[0] * t[0], ", ", g[1] * t[1], ", ", g[2] * t[2], "}, {", t[0], ", ",
                t[1], ", ", t[2], "}, ", launch.pointers.size(), ", ", name, "_", entry, "_", i, "},\n");
  }
  if (launches.empty()) return "";
  return out + cat("static const tw_cl_launch ", name, "_", entry, "_launches[] = {\n", rows, "};\n");
}

std::string entry_function(const std::string& name, const KernelManifest& manifest, bool is_run) {
  const std::vector<KernelArgument>& arguments = is_run ? manifest.run : manifest.prepack;
  std::vector<std::string> memory;
  for (const KernelArgument& argument : arguments) {
    bool is_packed = argument.role == ArgumentRole::Packed;
    memory.push_back(is_packed ? cat("kernel->inner->packed[", packed_place(manifest, argument.name), "]")
                               : argument.name);
  }
  return cat("cl_int ", name, is_run ? "_run" : "_prepack", "(", name, "* kernel, cl_command_queue queue",
             parameters_of(arguments), ") {\n  const cl_mem arguments[] = {", join(memory, ", "),
             "};\n  return tw_cl_launch_all(kernel->inner, ", is_run ? 1 : 0, ", queue, arguments);\n}\n\n");
}

std::string task_source(const ExportPlan& plan, const ExportedTask& task) {
  const KernelManifest& manifest = task.kernel.manifest;
  std::string name = cat(plan.library, "_", task.name);
  std::vector<std::string> packed;
  for (const KernelArgument* argument : arguments_with(manifest.prepack, true))
    packed.push_back(std::to_string(argument->bytes));
  std::string out = cat("/* ", task.name, " */\n", launch_tables(name, manifest.prepack_launches, "prepack"),
                        launch_tables(name, manifest.run_launches, "run"));
  if (!packed.empty()) out += cat("static const size_t ", name, "_packed[] = {", join(packed, ", "), "};\n");
  out +=
      cat("static const tw_cl_table ", name, "_table = {\n", as_literals(task.kernel.code), "    ,\n    ",
          manifest.scratch_shared_bytes, ", ", packed.size(), ", ", packed.empty() ? "NULL" : name + "_packed", ", {",
          manifest.prepack_launches.size(), ", ", manifest.run_launches.size(), "}, {",
          manifest.prepack_launches.empty() ? "NULL" : name + "_prepack_launches", ", ", name, "_run_launches}};\n\n");
  out += cat("struct ", name, " {\n  tw_cl_kernel* inner;\n};\n\n", name, "* ", name,
             "_create(cl_context context, cl_device_id device, cl_int* error) {\n  ", name, "* kernel = (", name,
             "*)calloc(1, sizeof *kernel);\n  if (kernel) kernel->inner = tw_cl_create(&", name,
             "_table, context, device, error);\n  if (kernel && !kernel->inner) {\n    free(kernel);\n    kernel = "
             "NULL;\n  }\n  return kernel;\n}\n\n");
  if (!manifest.prepack.empty()) out += entry_function(name, manifest, false);
  out += entry_function(name, manifest, true);
  return out + cat("void ", name, "_free(", name,
                   "* kernel) {\n  if (kernel) tw_cl_free(kernel->inner);\n  free(kernel);\n}\n\n");
}

}  // namespace

std::string opencl_header(const ExportPlan& plan) {
  std::string out = cat("/* Written by tracewright export: OpenCL kernels. Compile ", plan.library,
                        ".c into your program and link it with -lOpenCL.\n",
                        " * Buffers are cl_mem objects of the bytes stated, dense and row-major. */\n#ifndef TW_",
                        plan.library, "_H\n#define TW_", plan.library,
                        "_H\n#ifndef CL_TARGET_OPENCL_VERSION\n#define CL_TARGET_OPENCL_VERSION 120\n#endif\n#include "
                        "<CL/cl.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  for (const ExportedTask& task : plan.tasks) {
    const KernelManifest& manifest = task.kernel.manifest;
    std::string name = cat(plan.library, "_", task.name);
    out += cat("/* ", task.name, ": ", task.doc, " */\ntypedef struct ", name, " ", name,
               ";\n/* Compiles for a device. NULL with an OpenCL error code in *error. */\n", name, "* ", name,
               "_create(cl_context context, cl_device_id device, cl_int* error);\n");
    if (!manifest.prepack.empty()) {
      out += cat("/* Enqueues the packing of constants: once before the first run, and whenever they change.\n",
                 argument_comment(manifest.prepack), " */\ncl_int ", name, "_prepack(", name,
                 "* kernel, cl_command_queue queue", parameters_of(manifest.prepack), ");\n");
    }
    out += cat("/* Enqueues the kernels on an in-order queue; does not wait.\n", argument_comment(manifest.run),
               " */\ncl_int ", name, "_run(", name, "* kernel, cl_command_queue queue", parameters_of(manifest.run),
               ");\nvoid ", name, "_free(", name, "* kernel);\n\n");
  }
  return out + "#ifdef __cplusplus\n}\n#endif\n#endif\n";
}

std::string opencl_source(const ExportPlan& plan) {
  std::string out = cat("/* Written by tracewright export. */\n#include \"", plan.library,
                        ".h\"\n#include \"tw_opencl_launcher.h\"\n\n");
  for (const ExportedTask& task : plan.tasks) out += task_source(plan, task);
  return out;
}

std::string device_manifest(const ExportPlan& plan) {
  boost::json::array tasks;
  const char* extension = plan.tasks[0].target.kind == TargetKind::Cuda ? ".cu" : ".cl";
  for (const ExportedTask& task : plan.tasks) {
    const KernelManifest& manifest = task.kernel.manifest;
    tasks.push_back(
        {{"name", task.name},
         {"doc", task.doc},
         {"target", to_string(task.target)},
         {"record", task.record},
         {"microseconds", task.seconds * 1e6},
         {"source", cat("sources/", task.name, extension)},
         {"trace", cat("traces/", task.name, ".tw")},
         {"scratch_bytes", manifest.scratch_shared_bytes},
         {"run", {{"buffers", export_arguments(manifest.run)}, {"launches", export_launches(manifest.run_launches)}}},
         {"prepack",
          {{"buffers", export_arguments(manifest.prepack)}, {"launches", export_launches(manifest.prepack_launches)}}}});
  }
  boost::json::object out{{"format", 1}, {"tracewright", TW_VERSION}, {"library", plan.library}, {"tasks", tasks}};
  return boost::json::serialize(out) + "\n";
}

ExportResult write_device_export(const ExportPlan& plan, const std::string& path) {
  TW_CHECK(!plan.tasks.empty(), "an export without tasks");
  ExportResult result;
  ExportFolder folder(path, result);
  bool is_opencl = plan.tasks[0].target.kind == TargetKind::OpenCl;
  bool good = folder.make({"", "traces", "sources"}) && folder.write("manifest.json", device_manifest(plan));
  if (is_opencl) {
    good = good && folder.write(plan.library + ".h", opencl_header(plan)) &&
           folder.write(plan.library + ".c", opencl_source(plan)) &&
           folder.write("tw_opencl_launcher.h", embedded_file("runtime/opencl_launcher.h"));
  }
  for (const ExportedTask& task : plan.tasks) {
    good = good && folder.write(cat("traces/", task.name, ".tw"), task.trace_file) &&
           folder.write(cat("sources/", task.name, is_opencl ? ".cl" : ".cu"), task.kernel.code);
  }
  return result;
}

}  // namespace tw
