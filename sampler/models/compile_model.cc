#include "sampler/models/compile_model.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "dsl/base/text.h"
#include "runtime/export/export_device_model.h"
#include "runtime/measure/aligned_bytes.h"
#include "runtime/measure/object_loader.h"
#include "sampler/models/device_packings.h"
#include "sampler/models/memory_plan.h"
#include "sampler/models/zero_trial.h"
#include "sampler/space/parallel_for.h"
#include "sampler/tasks/export_task.h"

namespace tw {
namespace {

using graph::Group;
using graph::ValueId;

// Of places in memory and weights.
std::size_t alignment_for(const Target& target) { return is_device(target) ? kDeviceAlignment : TW_ALIGNMENT; }

// Constants in the file of weights, each once.
class WeightFile {
 public:
  WeightFile(const graph::Graph& graph, const graph::FusedGraph& fused, const Target& target)
      : graph_(graph), fused_(fused), is_for_device_(is_device(target)), alignment_(alignment_for(target)) {}

  // A constant as the graph has it.
  i64 raw(ValueId value) {
    ValueId memory = fused_.memory[value];
    auto [at, is_new] = raw_.try_emplace(memory, 0);
    const std::vector<u8>& bytes = graph_.values[memory].data->bytes;
    if (is_new) at->second = add(bytes.data(), bytes.size());
    return at->second;
  }

  // Offsets of what a kernel's prepack makes of a group's constants.
  std::optional<std::vector<i64>> packed(const Group& group, std::size_t task, const Kernel& kernel,
                                         std::string& error) {
    std::vector<ValueId> sources;
    for (const KernelArgument& argument : kernel.manifest.prepack) {
      if (argument.role != ArgumentRole::Packed)
        sources.push_back(fused_.memory[group.constants[constant_index(argument)]]);
    }
    auto known = packed_.find({task, sources});
    if (known != packed_.end()) return known->second;
    if (is_for_device_) {
      std::vector<const HostArray*> arrays;
      for (ValueId source : sources) arrays.push_back(graph_.values[source].data.get());
      const std::string& name = graph_.values[group.outputs[0]].name;
      return packed_[{task, sources}] = packings_.add(name, task, kernel.manifest, arrays);
    }
    LoadedObject object = load_object(kernel.code, error);
    if (!error.empty()) return std::nullopt;
    std::vector<AlignedBytes> memory;
    std::vector<void*> buffers;
    for (const KernelArgument& argument : kernel.manifest.prepack) {
      memory.emplace_back(argument.bytes);
      buffers.push_back(memory.back().get());
      if (!buffers.back()) return error = "there is not enough memory to pack the weights", std::nullopt;
      if (argument.role == ArgumentRole::Packed) continue;
      const std::vector<u8>& bytes = graph_.values[sources[buffers.size() - 1]].data->bytes;
      std::memcpy(buffers.back(), bytes.data(), bytes.size());
    }
    if (object.prepack(kernel.manifest.symbol)(buffers.data()) != 0)
      return error = cat(kernel.manifest.symbol, ": packing failed"), std::nullopt;
    std::vector<i64> offsets;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const KernelArgument& argument = kernel.manifest.prepack[i];
      if (argument.role == ArgumentRole::Packed)
        offsets.push_back(add(buffers[i], static_cast<std::size_t>(argument.bytes)));
    }
    packed_.emplace(std::pair(task, sources), offsets);
    return offsets;
  }

  // W3 -> 3
  static std::size_t constant_index(const KernelArgument& argument) {
    return static_cast<std::size_t>(std::stoul(argument.name.substr(1)));
  }

  void finish(ModelPlan& plan) {
    plan.weights = std::move(bytes_);
    packings_.finish(plan);
  }

 private:
  // Offsets count from the begin of the file, where the header is.
  i64 add(const void* bytes, std::size_t count) {
    std::size_t at = bytes_.size();
    bytes_.append(static_cast<const char*>(bytes), count);
    bytes_.resize((bytes_.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
    return static_cast<i64>(at) + kWeightsHeaderBytes;
  }

  const graph::Graph& graph_;
  const graph::FusedGraph& fused_;
  bool is_for_device_;
  std::size_t alignment_;
  DevicePackings packings_;
  std::map<ValueId, i64> raw_;
  std::map<std::pair<std::size_t, std::vector<ValueId>>, std::vector<i64>> packed_;
  std::string bytes_;
};

class Planner {
 public:
  Planner(const graph::Graph& graph, const ModelTasks& tasks, const std::vector<ExportedTask>& kernels,
          const Target& target)
      : graph_(graph),
        tasks_(tasks),
        fused_(tasks.fused),
        kernels_(kernels),
        target_(target),
        weights_(graph, tasks.fused, target) {}

  std::optional<ModelPlan> run(std::string& error) {
    for (ValueId input : graph_.inputs) plan_.inputs.push_back(argument(input, ArgumentRole::Input));
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      plan_.outputs.push_back(argument(graph_.outputs[i], ArgumentRole::Output));
      plan_.outputs.back().name = graph_.output_names[i];
    }
    place_ends();
    place_memory();
    for (std::size_t g = 0; g < fused_.groups.size(); ++g) {
      if (!add_step(g, error)) return std::nullopt;
    }
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ModelPlace from = place(graph_.outputs[i]);
      if (from.where == ModelPlace::Where::Output && from.at == static_cast<i64>(i)) continue;
      plan_.copies.push_back({from, i});
    }
    weights_.finish(plan_);
    return std::move(plan_);
  }

 private:
  KernelArgument argument(ValueId value, ArgumentRole role) const {
    const graph::Value& of = graph_.values[value];
    return {of.name, role, of.type.dtype, of.type.shape, graph::bytes_of(of.type)};
  }

  // Inputs are where the caller has them; so are outputs that a group makes.
  void place_ends() {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
      places_[graph_.inputs[i]] = {ModelPlace::Where::Input, static_cast<i64>(i)};
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      ValueId memory = fused_.memory[graph_.outputs[i]];
      if (!graph_.values[memory].data)
        places_.try_emplace(memory, ModelPlace{ModelPlace::Where::Output, static_cast<i64>(i)});
    }
  }

  // Everything else in one piece of memory.
  void place_memory() {
    std::map<ValueId, StorageNeed> needs;
    for (std::size_t g = 0; g < fused_.groups.size(); ++g) {
      i64 now = static_cast<i64>(g);
      for (ValueId output : fused_.groups[g].outputs) {
        if (!places_.count(output)) needs[output] = {{now, now}, graph::bytes_of(graph_.values[output].type)};
      }
      for (ValueId input : fused_.groups[g].inputs) {
        auto need = needs.find(fused_.memory[input]);
        if (need != needs.end()) need->second.lifetime.last = now;
      }
    }
    std::vector<StorageNeed> list;
    for (const auto& [value, need] : needs) list.push_back(need);
    i64 alignment = static_cast<i64>(alignment_for(target_));
    StoragePlan storage = plan_memory(list, alignment);
    std::size_t next = 0;
    for (const auto& [value, need] : needs) places_[value] = {ModelPlace::Where::Memory, storage.offsets[next++]};
    plan_.memory_bytes = storage.bytes;
    plan_.least_memory_bytes = least_bytes(list, alignment);
  }

  ModelPlace place(ValueId value) {
    ValueId memory = fused_.memory[value];
    if (graph_.values[memory].data) return {ModelPlace::Where::Weights, weights_.raw(memory)};
    return places_.at(memory);
  }

  bool add_step(std::size_t g, std::string& error) {
    const Group& group = fused_.groups[g];
    std::size_t task = tasks_.task_of[g];
    const Kernel& kernel = kernels_[task].kernel;
    ModelStep step{graph_.values[group.outputs[0]].name, task, {}};
    std::vector<i64> packed;
    if (!kernel.manifest.prepack.empty()) {
      std::optional<std::vector<i64>> offsets = weights_.packed(group, task, kernel, error);
      if (!offsets) return false;
      packed = std::move(*offsets);
    }
    std::size_t next_packed = 0, next_output = 0;
    for (const KernelArgument& argument : kernel.manifest.run) {
      std::size_t index = argument.role == ArgumentRole::Input || argument.role == ArgumentRole::Constant
                              ? WeightFile::constant_index(argument)
                              : 0;
      switch (argument.role) {
        case ArgumentRole::Input:
          step.buffers.push_back(place(group.inputs[index]));
          break;
        case ArgumentRole::Constant:
          step.buffers.push_back(place(group.constants[index]));
          break;
        case ArgumentRole::Packed:
          step.buffers.push_back(
              {is_device(target_) ? ModelPlace::Where::Packed : ModelPlace::Where::Weights, packed[next_packed++]});
          break;
        case ArgumentRole::Output:
          step.buffers.push_back(place(group.outputs[next_output++]));
          break;
      }
    }
    plan_.steps.push_back(std::move(step));
    return true;
  }

  const graph::Graph& graph_;
  const ModelTasks& tasks_;
  const graph::FusedGraph& fused_;
  const std::vector<ExportedTask>& kernels_;
  const Target& target_;
  WeightFile weights_;
  std::map<ValueId, ModelPlace> places_;  // by memory
  ModelPlan plan_;
};

}  // namespace

std::optional<ExportPlan> compile_model(const graph::Graph& graph, const ModelTasks& tasks, const ModelOptions& options,
                                        std::string& error) {
  ExportPlan plan;
  plan.library = options.library;
  std::vector<std::optional<ExportedTask>> kernels(tasks.tasks.size());
  std::vector<std::string> errors(kernels.size());
  if (options.database) {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      std::string message;
      kernels[i] = export_task(*options.database, tasks.tasks[i], options.library, message, options.which);
    }
  }
  rules::Library library = rules::Library::built_in();
  parallel_for(static_cast<int>(kernels.size()), options.threads, [&](int item, int) {
    std::size_t i = static_cast<std::size_t>(item);
    if (kernels[i] || (options.stop && options.stop())) return;
    kernels[i] = zero_trial_kernel(tasks.tasks[i], library, options, errors[i]);
  });
  if (options.stop && options.stop()) return error = "interrupted", std::nullopt;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (!kernels[i]) return error = cat(tasks.tasks[i].name, ": ", errors[i]), std::nullopt;
    plan.tasks.push_back(std::move(*kernels[i]));
  }
  plan.model = Planner(graph, tasks, plan.tasks, options.target).run(error);
  if (!plan.model) return std::nullopt;
  return plan;
}

}  // namespace tw
