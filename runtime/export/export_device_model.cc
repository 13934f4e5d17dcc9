#include "runtime/export/export_device_model.h"

#include <algorithm>
#include <boost/json.hpp>

#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "runtime/export/c_text.h"
#include "runtime/export/device_library.h"
#include "runtime/export/device_tables.h"
#include "runtime/export/export_files.h"

namespace tw {
namespace {

// The file that everything but the tables is in.
std::string runtime_name(TargetKind kind) { return cat(launcher_prefix(kind), "_model.h"); }

std::string runtime_text(TargetKind kind) {
  bool is_cuda = kind == TargetKind::Cuda;
  return cat(embedded_file(is_cuda ? "runtime/export/cuda_driver.h" : "runtime/export/opencl_driver.h"),
             launcher_text(kind), is_cuda ? embedded_file("runtime/export/cuda_graph.h") : "",
             embedded_file("runtime/export/map_weights.h"), embedded_file("runtime/export/device_model.h"),
             embedded_file("runtime/export/device_times.h"));
}

// Launches of an entry point whose parts of scratch memory are arguments behind its own: `parts` gets them, each once.
std::vector<KernelLaunch> without_scratch(std::vector<KernelLaunch> launches, std::size_t arguments,
                                          std::vector<KernelLaunch::Pointer>& parts) {
  for (KernelLaunch& launch : launches) {
    for (KernelLaunch::Pointer& pointer : launch.pointers) {
      if (!pointer.is_scratch) continue;
      auto same = std::ranges::find_if(
          parts, [&](const auto& part) { return part.at == pointer.at && part.bytes == pointer.bytes; });
      i64 index = same - parts.begin();
      if (same == parts.end()) parts.push_back(pointer);
      pointer = {.is_scratch = false, .at = static_cast<i64>(arguments) + index, .bytes = pointer.bytes};
    }
  }
  return launches;
}

class ModelText {
 public:
  ModelText(const ExportPlan& plan, const Target& target) : plan_(plan), model_(*plan.model), target_(target) {}

  std::string source(const std::vector<std::string>& binaries) {
    std::string tables;
    for (std::size_t i = 0; i < plan_.tasks.size(); ++i) tables += task_tables(plan_.tasks[i], binaries[i]);
    return cat("#define _POSIX_C_SOURCE 200809L\n/* The model ", plan_.library, " for a device. */\n#include \"",
               plan_.library, ".h\"\n#include \"", runtime_name(target_.kind), "\"\n\n", tables,
               steps_table("packings", model_.packings, false), steps_table("steps", model_.steps, true), model_table(),
               device_definitions(plan_, target_));
  }

 private:
  std::string kernel_name(const ExportedTask& task) const { return cat(plan_.library, "_", task.name); }

  std::string task_tables(const ExportedTask& task, const std::string& binary) {
    Kernel kernel = task.kernel;
    KernelManifest& manifest = kernel.manifest;
    Scratch& scratch = scratch_.emplace_back();
    manifest.prepack_launches = without_scratch(manifest.prepack_launches, manifest.prepack.size(), scratch.of_prepack);
    manifest.run_launches = without_scratch(manifest.run_launches, manifest.run.size(), scratch.of_run);
    manifest.prepack.clear();  // what is packed belongs to the model, not to a kernel
    manifest.scratch_shared_bytes = 0;
    return cat("/* ", task.name, " */\n", kernel_tables(target_.kind, kernel_name(task), kernel, binary));
  }

  std::string place_text(const ModelPlace& place, i64 bytes) const {
    switch (place.where) {
      case ModelPlace::Where::Input:
        return cat("{TW_INPUTS + ", place.at, ", 0, ", bytes, "}");
      case ModelPlace::Where::Output:
        return cat("{TW_INPUTS + ", model_.inputs.size() + static_cast<std::size_t>(place.at), ", 0, ", bytes, "}");
      case ModelPlace::Where::Weights:
        return cat("{TW_WEIGHTS, ", place.at - kWeightsHeaderBytes, ", ", bytes, "}");
      case ModelPlace::Where::Packed:
        return cat("{TW_PACKED, ", place.at, ", ", bytes, "}");
      case ModelPlace::Where::Sources:
        return cat("{TW_SOURCES, ", place.at, ", ", bytes, "}");
      case ModelPlace::Where::Memory:
        break;
    }
    return cat("{TW_MEMORY, ", place.at, ", ", bytes, "}");
  }

  std::string steps_table(const std::string& name, const std::vector<ModelStep>& steps, bool is_run) const {
    std::string out, rows;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const ModelStep& step = steps[i];
      const KernelManifest& manifest = plan_.tasks[step.task].kernel.manifest;
      const std::vector<KernelArgument>& arguments = is_run ? manifest.run : manifest.prepack;
      TW_CHECK(arguments.size() == step.buffers.size(), "a step with other buffers than its kernel");
      std::vector<std::string> places;
      for (std::size_t b = 0; b < arguments.size(); ++b)
        places.push_back(place_text(step.buffers[b], arguments[b].bytes));
      for (const KernelLaunch::Pointer& part : is_run ? scratch_[step.task].of_run : scratch_[step.task].of_prepack)
        places.push_back(cat("{TW_SCRATCH, ", part.at, ", ", part.bytes, "}"));
      out += cat("static const tw_place ", name, "_", i, "[] = {", join(places, ", "), "};\n");
      rows +=
          cat("    {\"", comment_text(step.name), "\", ", step.task, ", ", places.size(), ", ", name, "_", i, "},\n");
    }
    return steps.empty() ? "" : cat(out, "static const tw_step ", name, "[] = {\n", rows, "};\n\n");
  }

  std::string results() const {
    std::vector<ModelPlace> places;
    for (std::size_t i = 0; i < model_.outputs.size(); ++i)
      places.push_back({ModelPlace::Where::Output, static_cast<i64>(i)});
    for (const ModelCopy& copy : model_.copies) places[copy.output] = copy.from;
    // A copy of an output that is itself a copy of something.
    for (ModelPlace& place : places) {
      if (place.where == ModelPlace::Where::Output) place = places[static_cast<std::size_t>(place.at)];
    }
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < places.size(); ++i) texts.push_back(place_text(places[i], model_.outputs[i].bytes));
    return join(texts, ",\n    ");
  }

  std::string model_table() const {
    i64 scratch = 0;
    std::vector<std::string> kernels, inputs;
    for (const ExportedTask& task : plan_.tasks) {
      scratch = std::max(scratch, task.kernel.manifest.scratch_shared_bytes);
      kernels.push_back(cat("&", kernel_name(task), "_table"));
    }
    for (const KernelArgument& input : model_.inputs) inputs.push_back(std::to_string(input.bytes));
    kernels.push_back("NULL"), inputs.push_back("0");  // C has no empty arrays
    i64 weights = static_cast<i64>(model_.weights.size()) - model_.source_bytes;
    return cat("static const ", launcher_prefix(target_.kind), "_table* const kernels[] = {\n    ",
               join(kernels, ",\n    "), "};\nstatic const size_t input_bytes[] = {", join(inputs, ", "),
               "};\nstatic const tw_place results[] = {\n    ", results(),
               "};\n\nstatic const tw_model model = {\n    \"", weights_header(model_.weights).c_str(), "\",\n    ",
               kWeightsHeaderBytes, ",\n    {", model_.memory_bytes, ", ", weights, ", ", model_.packed_bytes, ", ",
               model_.source_bytes, ", ", scratch, "},\n    ", model_.inputs.size(), ", ", model_.outputs.size(),
               ", input_bytes, results,\n    ", plan_.tasks.size(), ", kernels,\n    {", model_.packings.size(), ", ",
               model_.steps.size(), "},\n    {", model_.packings.empty() ? "NULL" : "packings", ", ",
               model_.steps.empty() ? "NULL" : "steps", "}};\n\n");
  }

  struct Scratch {
    std::vector<KernelLaunch::Pointer> of_prepack, of_run;
  };
  const ExportPlan& plan_;
  const ModelPlan& model_;
  const Target& target_;
  std::vector<Scratch> scratch_;  // of each task
};

std::string manifest_text(const ExportPlan& plan, const Target& target) {
  boost::json::array tasks;
  for (const ExportedTask& task : plan.tasks) tasks.push_back(device_task_entry(task, target.kind == TargetKind::Cuda));
  boost::json::object out{{"format", 1},
                          {"tracewright", TW_VERSION},
                          {"library", plan.library},
                          {"header", plan.library + ".h"},
                          {"target", to_string(target)},
                          {"tasks", std::move(tasks)},
                          {"model", model_manifest(plan)}};
  return boost::json::serialize(out) + "\n";
}

}  // namespace

ExportResult write_device_model(const ExportPlan& plan, const Target& target, const std::string& path) {
  TW_CHECK(plan.model && is_device(target), "an export for devices without a model");
  ExportResult result;
  std::vector<std::string> binaries = machine_code(plan, result.error);
  if (!result.error.empty()) return result;
  ExportFolder folder(path, result);
  bool is_cuda = target.kind == TargetKind::Cuda;
  ModelText text(plan, target);
  bool good = folder.write(plan.library + ".h", device_header(plan, target)) &&
              folder.write(plan.library + ".c", text.source(binaries)) &&
              folder.write(runtime_name(target.kind), runtime_text(target.kind)) &&
              folder.write("tw_kernel_abi.h", embedded_file("backends/kernel_abi.h")) &&
              folder.write("manifest.json", manifest_text(plan, target)) &&
              folder.write(plan.library + ".weights", weights_header(plan.model->weights) + plan.model->weights);
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const ExportedTask& task = plan.tasks[i];
    good = good && folder.write(cat("traces/", task.name, ".tw"), task.trace_file) &&
           folder.write(cat("sources/", task.name, is_cuda ? ".cu" : ".cl"), task.kernel.code);
    if (is_cuda) good = good && folder.write(cat("cubins/", task.name, ".cubin"), binaries[i]);
  }
  if (good) make_libraries(plan, {}, {"-ldl", "-lpthread"}, folder, result);
  if (good && result.error.empty()) folder.publish();
  return result;
}

}  // namespace tw
