#include "runtime/export/device_tables.h"

#include <boost/json.hpp>

#include "backends/cuda/nvrtc.h"
#include "dsl/base/text.h"
#include "runtime/export/export_files.h"

namespace tw {
namespace {

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

// OpenCL counts a grid in work-items, CUDA in groups; CUDA gives shared memory at the launch.
std::string launch_tables(TargetKind kind, const std::string& name, const std::vector<KernelLaunch>& launches,
                          const char* entry) {
  std::string out, rows;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const KernelLaunch& launch = launches[i];
    std::vector<std::string> pointers;
    for (const KernelLaunch::Pointer& p : launch.pointers)
      pointers.push_back(cat("{", p.is_scratch ? 1 : 0, ", ", p.at, ", ", p.bytes, "}"));
    out += cat("static const ", launcher_prefix(kind), "_pointer ", name, "_", entry, "_", i, "[] = {",
               join(pointers, ", "), "};\n");
    std::array<i64, 3> g = launch.groups;
    const auto& t = launch.threads;
    for (std::size_t d = 0; d < 3 && kind == TargetKind::OpenCl; ++d) g[d] *= t[d];
    rows += cat("    {\"", launch.name, "\", {", g[0], ", ", g[1], ", ", g[2], "}, {", t[0], ", ", t[1], ", ", t[2],
                "}, ", kind == TargetKind::Cuda ? cat(launch.dynamic_shared_bytes, ", ") : "", launch.pointers.size(),
                ", ", name, "_", entry, "_", i, "},\n");
  }
  if (launches.empty()) return "";
  return out +
         cat("static const ", launcher_prefix(kind), "_launch ", name, "_", entry, "_launches[] = {\n", rows, "};\n");
}

}  // namespace

const char* launcher_prefix(TargetKind kind) { return kind == TargetKind::Cuda ? "tw_cuda" : "tw_cl"; }

std::string launcher_text(TargetKind kind) {
  if (kind == TargetKind::Cuda) return embedded_file("runtime/export/cuda_launcher.h");
  return cat(embedded_file("backends/opencl/build_options.h"), embedded_file("backends/opencl/binary_tag.h"),
             embedded_file("runtime/export/opencl_launcher.h"));
}

std::vector<const KernelArgument*> arguments_with(const std::vector<KernelArgument>& arguments, bool packed) {
  std::vector<const KernelArgument*> out;
  for (const KernelArgument& argument : arguments) {
    if ((argument.role == ArgumentRole::Packed) == packed) out.push_back(&argument);
  }
  return out;
}

std::string kernel_tables(TargetKind kind, const std::string& name, const Kernel& kernel, const std::string& binary) {
  const KernelManifest& manifest = kernel.manifest;
  std::vector<std::string> packed;
  for (const KernelArgument* argument : arguments_with(manifest.prepack, true))
    packed.push_back(std::to_string(argument->bytes));
  std::string out = cat(launch_tables(kind, name, manifest.prepack_launches, "prepack"),
                        launch_tables(kind, name, manifest.run_launches, "run"));
  if (!packed.empty()) out += cat("static const size_t ", name, "_packed[] = {", join(packed, ", "), "};\n");
  if (!binary.empty()) out += as_bytes(name + "_code", binary);
  return cat(out, "static const ", launcher_prefix(kind), "_table ", name, "_table = {\n",
             binary.empty() ? as_literals(kernel.code) : cat("    ", name, "_code"), "    ,\n    ",
             manifest.scratch_shared_bytes, ", ", packed.size(), ", ", packed.empty() ? "NULL" : name + "_packed",
             ", {", manifest.prepack_launches.size(), ", ", manifest.run_launches.size(), "}, {",
             manifest.prepack_launches.empty() ? "NULL" : name + "_prepack_launches", ", ", name,
             "_run_launches}};\n\n");
}

std::vector<std::string> machine_code(const ExportPlan& plan, std::string& problem) {
  std::vector<std::string> out(plan.tasks.size());
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const ExportedTask& task = plan.tasks[i];
    if (task.target.kind != TargetKind::Cuda) continue;
    std::optional<cuda::Compiled> compiled = cuda::compile(task.kernel.code, task.target.arch, problem);
    if (!compiled) return std::vector<std::string>(plan.tasks.size());
    out[i] = std::move(compiled->cubin);
  }
  return out;
}

boost::json::object device_task_entry(const ExportedTask& task, bool has_machine_code) {
  const KernelManifest& manifest = task.kernel.manifest;
  const char* extension = task.target.kind == TargetKind::Cuda ? ".cu" : ".cl";
  boost::json::object entry{
      {"name", task.name},
      {"doc", task.doc},
      {"target", to_string(task.target)},
      {"source", cat("sources/", task.name, extension)},
      {"trace", cat("traces/", task.name, ".tw")},
      {"scratch_bytes", manifest.scratch_shared_bytes},
      {"run", {{"buffers", export_arguments(manifest.run)}, {"launches", export_launches(manifest.run_launches)}}},
      {"prepack",
       {{"buffers", export_arguments(manifest.prepack)}, {"launches", export_launches(manifest.prepack_launches)}}}};
  add_work(entry, task);
  if (!task.binary.bytes.empty())
    entry["binary"] = {
        {"file", cat("sources/", task.name, ".bin")}, {"device", task.binary.device}, {"driver", task.binary.driver}};
  if (has_machine_code) entry["cubin"] = cat("cubins/", task.name, ".cubin");
  return entry;
}

}  // namespace tw
