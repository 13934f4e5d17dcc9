#include "runtime/export/export_device.h"

#include <algorithm>
#include <boost/json.hpp>

#include "backends/cuda/nvrtc.h"
#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "runtime/export/export_files.h"

namespace tw {
namespace {

std::vector<const KernelArgument*> arguments_with(const std::vector<KernelArgument>& arguments, bool packed) {
  std::vector<const KernelArgument*> out;
  for (const KernelArgument& argument : arguments) {
    if ((argument.role == ArgumentRole::Packed) == packed) out.push_back(&argument);
  }
  return out;
}

// What OpenCL and CUDA hosts write differently.
struct Host {
  const char* prefix;  // of the launcher's names
  const char* launcher;
  const char *result, *memory, *queue;  // types; the queue with its name
  const char *create, *create_arguments;
  const char *binary_create, *binary_arguments;  // of `create_from_binary`; null: there is none
  const char* about;                             // how to use the library
  const char* include;
  const char* on_create;  // what `create` does
  bool counts_items;      // grids in work-items, not in groups
  bool has_dynamic;       // launches say how much shared memory they give
};
constexpr Host kOpenCl = {
    .prefix = "tw_cl",
    .launcher = "tw_opencl_launcher.h",
    .result = "cl_int",
    .memory = "cl_mem",
    .queue = "cl_command_queue queue",
    .create = "cl_context context, cl_device_id device, cl_int* error",
    .create_arguments = "context, device, NULL, 0, error",
    .binary_create = "cl_context context, cl_device_id device, const void* bytes, size_t size, cl_int* error",
    .binary_arguments = "context, device, bytes, size, error",
    .about =
        "OpenCL kernels. Compile %.c into your program and link it with -lOpenCL.\n * Buffers are cl_mem objects of "
        "the bytes stated, "
        "dense and row-major.",
    .include = "#ifndef CL_TARGET_OPENCL_VERSION\n#define CL_TARGET_OPENCL_VERSION 120\n#endif\n#include <CL/cl.h>\n",
    .on_create = "Compiles for a device. NULL with an OpenCL error code in *error.",
    .counts_items = true,
    .has_dynamic = false,
};
constexpr Host kCuda = {
    .prefix = "tw_cuda",
    .launcher = "tw_cuda_launcher.h",
    .result = "CUresult",
    .memory = "CUdeviceptr",
    .queue = "CUstream queue",
    .create = "CUresult* error",
    .create_arguments = "error",
    .binary_create = nullptr,
    .binary_arguments = nullptr,
    .about =
        "CUDA kernels. Compile %.c into your program and link it with -lcuda.\n * Buffers are device memory of the "
        "bytes stated, dense and "
        "row-major, aligned as cuMemAlloc does.",
    .include = "#include <cuda.h>\n",
    .on_create = "Loads the machine code into the current context. NULL with the driver's code in *error.",
    .counts_items = false,
    .has_dynamic = true,
};

// ", cl_mem X, cl_mem Y": what the caller passes; packed operands belong to the kernel object.
std::string parameters_of(const Host& host, const std::vector<KernelArgument>& arguments) {
  std::string out;
  for (const KernelArgument* argument : arguments_with(arguments, false))
    out += cat(", ", host.memory, " ", argument->name);
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

// A C array of bytes, aligned as machine code wants to be.
std::string as_bytes(const std::string& name, const std::string& bytes) {
  std::string out = cat("static const unsigned char ", name, "[] __attribute__((aligned(16))) = {");
  for (std::size_t i = 0; i < bytes.size(); ++i)
    out += cat(i % 32 == 0 ? "\n    " : "", static_cast<int>(static_cast<unsigned char>(bytes[i])), ",");
  return out + "\n};\n";
}

std::string launch_tables(const Host& host, const std::string& name, const std::vector<KernelLaunch>& launches,
                          const char* entry) {
  std::string out, rows;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const KernelLaunch& launch = launches[i];
    std::vector<std::string> pointers;
    for (const KernelLaunch::Pointer& p : launch.pointers)
      pointers.push_back(cat("{", p.is_scratch ? 1 : 0, ", ", p.at, ", ", p.bytes, "}"));
    out += cat("static const ", host.prefix, "_pointer ", name, "_", entry, "_", i, "[] = {", join(pointers, ", "),
               "};\n");
    std::array<i64, 3> g = launch.groups;
    const auto& t = launch.threads;
    for (std::size_t d = 0; d < 3 && host.counts_items; ++d) g[d] *= t[d];
    rows += cat("    {\"", launch.name, "\", {", g[0], ", ", g[1], ", ", g[2], "}, {", t[0], ", ", t[1], ", ", t[2],
                "}, ", host.has_dynamic ? cat(launch.dynamic_shared_bytes, ", ") : "", launch.pointers.size(), ", ",
                name, "_", entry, "_", i, "},\n");
  }
  if (launches.empty()) return "";
  return out + cat("static const ", host.prefix, "_launch ", name, "_", entry, "_launches[] = {\n", rows, "};\n");
}

std::string entry_function(const Host& host, const std::string& name, const KernelManifest& manifest, bool is_run) {
  const std::vector<KernelArgument>& arguments = is_run ? manifest.run : manifest.prepack;
  std::vector<std::string> memory;
  for (const KernelArgument& argument : arguments) {
    bool is_packed = argument.role == ArgumentRole::Packed;
    memory.push_back(is_packed ? cat("kernel->inner->packed[", packed_place(manifest, argument.name), "]")
                               : argument.name);
  }
  return cat(host.result, " ", name, is_run ? "_run" : "_prepack", "(", name, "* kernel, ", host.queue,
             parameters_of(host, arguments), ") {\n  const ", host.memory, " arguments[] = {", join(memory, ", "),
             "};\n  return ", host.prefix, "_launch_all(kernel->inner, ", is_run ? 1 : 0,
             ", queue, arguments);\n}\n\n");
}

// Makes a kernel object; `suffix` is that of the function's name.
std::string create_function(const Host& host, const std::string& name, const char* suffix, const char* parameters,
                            const char* arguments) {
  return cat(
      name, "* ", name, suffix, "(", parameters, ") {\n  ", name, "* kernel = (", name,
      "*)calloc(1, sizeof *kernel);\n  if (kernel) kernel->inner = ", host.prefix, "_create(&", name, "_table, ",
      arguments,
      ");\n  if (kernel && !kernel->inner) {\n    free(kernel);\n    kernel = NULL;\n  }\n  return kernel;\n}\n\n");
}

std::string create_functions(const Host& host, const std::string& name) {
  std::string out = create_function(host, name, "_create", host.create, host.create_arguments);
  if (!host.binary_create) return out;
  return cat(out, create_function(host, name, "_create_from_binary", host.binary_create, host.binary_arguments), "int ",
             name, "_is_from_binary(const ", name, "* kernel) { return kernel->inner->is_from_binary; }\n\n");
}

// `binary`: machine code of the task; empty: its source is compiled by the driver.
std::string task_source(const Host& host, const ExportPlan& plan, const ExportedTask& task, const std::string& binary) {
  const KernelManifest& manifest = task.kernel.manifest;
  std::string name = cat(plan.library, "_", task.name);
  std::vector<std::string> packed;
  for (const KernelArgument* argument : arguments_with(manifest.prepack, true))
    packed.push_back(std::to_string(argument->bytes));
  std::string out = cat("/* ", task.name, " */\n", launch_tables(host, name, manifest.prepack_launches, "prepack"),
                        launch_tables(host, name, manifest.run_launches, "run"));
  if (!packed.empty()) out += cat("static const size_t ", name, "_packed[] = {", join(packed, ", "), "};\n");
  if (!binary.empty()) out += as_bytes(name + "_code", binary);
  out +=
      cat("static const ", host.prefix, "_table ", name, "_table = {\n",
          binary.empty() ? as_literals(task.kernel.code) : cat("    ", name, "_code"), "    ,\n    ",
          manifest.scratch_shared_bytes, ", ", packed.size(), ", ", packed.empty() ? "NULL" : name + "_packed", ", {",
          manifest.prepack_launches.size(), ", ", manifest.run_launches.size(), "}, {",
          manifest.prepack_launches.empty() ? "NULL" : name + "_prepack_launches", ", ", name, "_run_launches}};\n\n");
  out += cat("struct ", name, " {\n  ", host.prefix, "_kernel* inner;\n};\n\n", create_functions(host, name));
  if (!manifest.prepack.empty()) out += entry_function(host, name, manifest, false);
  out += entry_function(host, name, manifest, true);
  return out + cat("void ", name, "_free(", name, "* kernel) {\n  if (kernel) ", host.prefix,
                   "_free(kernel->inner);\n  free(kernel);\n}\n\n");
}

std::string host_header(const Host& host, const ExportPlan& plan) {
  std::string about = host.about;
  about.replace(about.find('%'), 1, plan.library);
  std::string out =
      cat("/* Written by tracewright export: ", about, " */\n#ifndef TW_", plan.library, "_H\n#define TW_",
          plan.library, "_H\n", host.include, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  for (const ExportedTask& task : plan.tasks) {
    const KernelManifest& manifest = task.kernel.manifest;
    std::string name = cat(plan.library, "_", task.name);
    out += cat("/* ", task.name, ": ", task.doc, " */\ntypedef struct ", name, " ", name, ";\n/* ", host.on_create,
               " */\n", name, "* ", name, "_create(", host.create, ");\n");
    if (host.binary_create) {
      out += cat("/* The same from the bytes of sources/", task.name,
                 ".bin, without compiling. From the source where there are none, or those of another\n * device or "
                 "driver, or damaged ones; _is_from_binary tells. */\n",
                 name, "* ", name, "_create_from_binary(", host.binary_create, ");\nint ", name,
                 "_is_from_binary(const ", name, "* kernel);\n");
    }
    if (!manifest.prepack.empty()) {
      out += cat("/* Enqueues the packing of constants: once before the first run, and whenever they change.\n",
                 argument_comment(manifest.prepack), " */\n", host.result, " ", name, "_prepack(", name, "* kernel, ",
                 host.queue, parameters_of(host, manifest.prepack), ");\n");
    }
    out += cat("/* Enqueues the kernels, in order; does not wait.\n", argument_comment(manifest.run), " */\n",
               host.result, " ", name, "_run(", name, "* kernel, ", host.queue, parameters_of(host, manifest.run),
               ");\nvoid ", name, "_free(", name, "* kernel);\n\n");
  }
  return out + "#ifdef __cplusplus\n}\n#endif\n#endif\n";
}

std::string host_source(const Host& host, const ExportPlan& plan, const std::vector<std::string>& binaries) {
  std::string out = cat("/* Written by tracewright export. */\n#include \"", plan.library, ".h\"\n#include \"",
                        host.launcher, "\"\n\n");
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) out += task_source(host, plan, plan.tasks[i], binaries[i]);
  return out;
}

std::string manifest_text(const ExportPlan& plan, const std::vector<std::string>& binaries) {
  boost::json::array tasks;
  const char* extension = plan.tasks[0].target.kind == TargetKind::Cuda ? ".cu" : ".cl";
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const ExportedTask& task = plan.tasks[i];
    const KernelManifest& manifest = task.kernel.manifest;
    boost::json::object row{
        {"name", task.name},
        {"doc", task.doc},
        {"target", to_string(task.target)},
        {"source", cat("sources/", task.name, extension)},
        {"trace", cat("traces/", task.name, ".tw")},
        {"scratch_bytes", manifest.scratch_shared_bytes},
        {"run", {{"buffers", export_arguments(manifest.run)}, {"launches", export_launches(manifest.run_launches)}}},
        {"prepack",
         {{"buffers", export_arguments(manifest.prepack)}, {"launches", export_launches(manifest.prepack_launches)}}}};
    add_measurement(row, task);
    if (!task.binary.bytes.empty())
      row["binary"] = {
          {"file", cat("sources/", task.name, ".bin")}, {"device", task.binary.device}, {"driver", task.binary.driver}};
    if (!binaries[i].empty()) row["cubin"] = cat("cubins/", task.name, ".cubin");
    tasks.push_back(std::move(row));
  }
  boost::json::object out{{"format", 1}, {"tracewright", TW_VERSION}, {"library", plan.library}, {"tasks", tasks}};
  return boost::json::serialize(out) + "\n";
}

// Machine code of every task for `cuda`, empty strings for others. Where NVRTC fails `problem` says why, and all are
// empty.
std::vector<std::string> machine_code(const ExportPlan& plan, std::string& problem) {
  std::vector<std::string> out(plan.tasks.size());
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const ExportedTask& task = plan.tasks[i];
    if (task.target.kind != TargetKind::Cuda) continue;
    std::optional<cuda::Compiled> compiled = cuda::compile(task.kernel.code, task.target.arch, problem);
    if (!compiled)
      return problem = cat("without machine code and launcher: ", problem), std::vector<std::string>(plan.tasks.size());
    out[i] = std::move(compiled->cubin);
  }
  return out;
}

std::string launcher_of(bool is_opencl) {
  if (!is_opencl) return std::string(embedded_file("runtime/export/cuda_launcher.h"));
  return cat(embedded_file("backends/opencl/build_options.h"), embedded_file("backends/opencl/binary_tag.h"),
             embedded_file("runtime/export/opencl_launcher.h"));
}

}  // namespace

ExportResult write_device_export(const ExportPlan& plan, const std::string& path) {
  TW_CHECK(!plan.tasks.empty(), "an export without tasks");
  ExportResult result;
  ExportFolder folder(path, result);
  bool is_opencl = plan.tasks[0].target.kind == TargetKind::OpenCl;
  std::vector<std::string> binaries = machine_code(plan, result.note);
  bool good = folder.write("manifest.json", manifest_text(plan, binaries));
  if (result.note.empty()) {
    const Host& host = is_opencl ? kOpenCl : kCuda;
    good = good && folder.write(plan.library + ".h", host_header(host, plan)) &&
           folder.write(plan.library + ".c", host_source(host, plan, binaries)) &&
           folder.write(host.launcher, launcher_of(is_opencl));
  }
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const ExportedTask& task = plan.tasks[i];
    good = good && folder.write(cat("traces/", task.name, ".tw"), task.trace_file) &&
           folder.write(cat("sources/", task.name, is_opencl ? ".cl" : ".cu"), task.kernel.code);
    if (!task.binary.bytes.empty()) good = good && folder.write(cat("sources/", task.name, ".bin"), task.binary.bytes);
    if (!binaries[i].empty()) good = good && folder.write(cat("cubins/", task.name, ".cubin"), binaries[i]);
  }
  if (good) folder.publish();
  return result;
}

}  // namespace tw
