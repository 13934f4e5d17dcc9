#include "runtime/export/export_device.h"

#include <algorithm>
#include <boost/json.hpp>

#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "runtime/export/device_tables.h"
#include "runtime/export/export_files.h"

namespace tw {
namespace {

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
  std::string out = cat("/* ", task.name, " */\n", kernel_tables(task.target.kind, name, task.kernel, binary));
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
  for (std::size_t i = 0; i < plan.tasks.size(); ++i)
    tasks.push_back(device_task_entry(plan.tasks[i], !binaries[i].empty()));
  boost::json::object out{{"format", 1}, {"tracewright", TW_VERSION}, {"library", plan.library}, {"tasks", tasks}};
  return boost::json::serialize(out) + "\n";
}

}  // namespace

ExportResult write_device_export(const ExportPlan& plan, const std::string& path) {
  TW_CHECK(!plan.tasks.empty(), "an export without tasks");
  ExportResult result;
  ExportFolder folder(path, result);
  TargetKind kind = plan.tasks[0].target.kind;
  bool is_opencl = kind == TargetKind::OpenCl;
  std::vector<std::string> binaries = machine_code(plan, result.note);
  bool good = folder.write("manifest.json", manifest_text(plan, binaries));
  if (result.note.empty()) {
    const Host& host = is_opencl ? kOpenCl : kCuda;
    good = good && folder.write(plan.library + ".h", host_header(host, plan)) &&
           folder.write(plan.library + ".c", host_source(host, plan, binaries)) &&
           folder.write(host.launcher, launcher_text(kind));
  } else {
    result.note = cat("without machine code and launcher: ", result.note);
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
