#include "sampler/models/compile_model.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "backends/gpu_source/source.h"
#include "dsl/base/text.h"
#include "graph/input_ranges.h"
#include "runtime/export/export_device_model.h"
#include "runtime/measure/aligned_bytes.h"
#include "runtime/measure/object_loader.h"
#include "sampler/models/device_packings.h"
#include "sampler/models/memory_plan.h"
#include "sampler/models/packings.h"
#include "sampler/models/weight_file.h"
#include "sampler/models/zero_trial.h"
#include "sampler/space/parallel_for.h"
#include "sampler/tasks/export_task.h"

namespace tw {
namespace {

using graph::Group;
using graph::ValueId;

// Of places in memory and weights.
i64 alignment_for(const Target& target) { return is_device(target) ? kDeviceAlignment : TW_ALIGNMENT; }

// The constants of a graph as they get into the file of weights.
class PackedConstants {
 public:
  // `packings`: of a device, else null.
  PackedConstants(const graph::Graph& graph, const graph::FusedGraph& fused, WeightFile& file, DevicePackings* packings)
      : graph_(graph), fused_(fused), file_(file), packings_(packings) {}

  // A constant as the graph has it.
  i64 raw(ValueId value) {
    ValueId memory = fused_.parts[value].memory;
    auto [at, is_new] = raw_.try_emplace(memory, 0);
    const std::vector<u8>& bytes = graph_.values[memory].data->bytes;
    if (is_new) at->second = file_.add(bytes.data(), bytes.size());
    return at->second;
  }

  // Offsets of what a kernel's prepack makes of a group's constants.
  std::optional<std::vector<i64>> packed(const Group& group, std::size_t task, const Kernel& kernel,
                                         std::string& error) {
    std::vector<ValueId> sources;
    for (const KernelArgument& argument : kernel.manifest.prepack) {
      if (argument.role != ArgumentRole::Packed)
        sources.push_back(fused_.parts[group.constants[constant_index(argument)]].memory);
    }
    auto known = packed_.find({task, sources});
    if (known != packed_.end()) return known->second;
    if (packings_) {
      std::vector<const HostArray*> arrays;
      for (ValueId source : sources) arrays.push_back(graph_.values[source].data.get());
      const std::string& name = graph_.values[group.outputs[0]].name;
      return packed_[{task, sources}] = packings_->add(name, task, kernel.manifest, arrays);
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
        offsets.push_back(file_.add(buffers[i], static_cast<std::size_t>(argument.bytes)));
    }
    packed_.emplace(std::pair(task, sources), offsets);
    return offsets;
  }

  // W3 -> 3
  static std::size_t constant_index(const KernelArgument& argument) {
    return static_cast<std::size_t>(std::stoul(argument.name.substr(1)));
  }

 private:
  const graph::Graph& graph_;
  const graph::FusedGraph& fused_;
  WeightFile& file_;
  DevicePackings* packings_;
  std::map<ValueId, i64> raw_;
  std::map<std::pair<std::size_t, std::vector<ValueId>>, std::vector<i64>> packed_;
};

class Planner {
 public:
  // `kernels`: of the whole library; `kernel_of`: which of them a group has; `packings`: of a device, else null.
  Planner(const EntryGraph& entry, const std::vector<ExportedTask>& kernels, const std::vector<std::size_t>& kernel_of,
          const Target& target, WeightFile& file, DevicePackings* packings)
      : graph_(entry.graph),
        tasks_(entry.tasks),
        fused_(tasks_.fused),
        kernels_(kernels),
        kernel_of_(kernel_of),
        target_(target),
        weights_(graph_, fused_, file, packings) {}

  std::optional<ModelEntry> run(std::string& error) {
    plan_.inputs = graph::input_arguments(graph_);
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const OperandType& type = graph_.values[graph_.outputs[i]].type;
      plan_.outputs.push_back(
          {graph_.output_names[i], ArgumentRole::Output, type.dtype, type.shape, graph::bytes_of(type)});
    }
    place_ends();
    place_memory();
    for (std::size_t g = 0; g < fused_.groups.size(); ++g) {
      if (!add_step(g, error)) return std::nullopt;
    }
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ModelPlace from = place(fused_.parts[graph_.outputs[i]]);
      if (from.where == ModelPlace::Where::Output && from.at == static_cast<i64>(i)) continue;
      plan_.copies.push_back({from, i});
    }
    return std::move(plan_);
  }

 private:
  // Inputs are where the caller has them; so are outputs that a group makes.
  void place_ends() {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
      places_[graph_.inputs[i]] = {ModelPlace::Where::Input, static_cast<i64>(i)};
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      ValueId memory = fused_.parts[graph_.outputs[i]].memory;
      if (!graph_.values[memory].data)
        places_.try_emplace(memory, ModelPlace{ModelPlace::Where::Output, static_cast<i64>(i)});
    }
  }

  // Everything else in one piece of memory.
  void place_memory() {
    std::map<ValueId, StorageNeed> needs;
    for (std::size_t g = 0; g < fused_.groups.size(); ++g) {
      i64 now = static_cast<i64>(g);
      // What a group makes may be a part of what is there, as others of it are.
      for (const graph::Part& part : fused_.groups[g].places) {
        const graph::Value& memory = graph_.values[part.memory];
        if (places_.count(part.memory) > 0 || memory.data) continue;
        auto need = needs.try_emplace(part.memory, StorageNeed{{now, now}, graph::bytes_of(memory.type)}).first;
        need->second.lifetime.last = now;
      }
    }
    std::vector<StorageNeed> list;
    std::map<ValueId, std::size_t> index_of;
    for (const auto& [value, need] : needs) {
      index_of[value] = list.size();
      list.push_back(need);
    }
    auto [storage, least] = place_values(list, successors(index_of), alignment_for(target_));
    if (is_device(target_)) {
      // There loads wait for stores if buffers may overlap, so results in place have to save memory.
      StoragePlan apart = plan_memory(list, alignment_for(target_));
      if (apart.bytes <= storage.bytes) storage = std::move(apart);
    }
    for (const auto& [value, index] : index_of) places_[value] = {ModelPlace::Where::Memory, storage.offsets[index]};
    plan_.memory_bytes = storage.bytes;
    plan_.least_memory_bytes = least;
  }

  // Pairs of these values that a kernel allows to share memory. Both fill their memory, and the kernel reads the
  // operand through one argument only.
  std::vector<Successor> successors(const std::map<ValueId, std::size_t>& index_of) const {
    std::vector<Successor> out;
    for (std::size_t g = 0; g < fused_.groups.size(); ++g) {
      const Group& group = fused_.groups[g];
      const KernelManifest& manifest = kernels_[kernel_of_[g]].kernel.manifest;
      for (const Overwrite& pair : manifest.overwrites) {
        const graph::Part &read = place_of(group, manifest, pair.input), &made = place_of(group, manifest, pair.output);
        auto operand = index_of.find(read.memory), result = index_of.find(made.memory);
        if (operand == index_of.end() || result == index_of.end()) continue;
        if (!is_all_of_memory(read, manifest.run[pair.input]) || !is_all_of_memory(made, manifest.run[pair.output]))
          continue;
        if (std::ranges::count(group.places, read.memory, &graph::Part::memory) != 1) continue;
        out.push_back({operand->second, result->second});
      }
    }
    return out;
  }
  bool is_all_of_memory(const graph::Part& part, const KernelArgument& argument) const {
    return part.offset == 0 && part.rows == 1 && argument.bytes == graph::bytes_of(graph_.values[part.memory].type);
  }
  // Where an input or output of the kernel lies.
  static const graph::Part& place_of(const Group& group, const KernelManifest& manifest, std::size_t argument) {
    if (manifest.run[argument].role == ArgumentRole::Input)
      return group.places[PackedConstants::constant_index(manifest.run[argument])];
    std::size_t outputs_before = 0;
    for (std::size_t i = 0; i < argument; ++i) outputs_before += manifest.run[i].role == ArgumentRole::Output;
    return group.places[group.inputs.size() + group.constants.size() + outputs_before];
  }

  ModelPlace place(const graph::Part& part) {
    const graph::Value& memory = graph_.values[part.memory];
    if (memory.data) return {ModelPlace::Where::Weights, weights_.raw(part.memory)};
    ModelPlace place = places_.at(part.memory);
    i64 offset = part.offset * bytes_of(memory.type.dtype);
    (place.where == ModelPlace::Where::Memory ? place.at : place.offset) += offset;
    return place;
  }

  bool add_step(std::size_t g, std::string& error) {
    const Group& group = fused_.groups[g];
    std::size_t task = kernel_of_[g];
    const Kernel& kernel = kernels_[task].kernel;
    ModelStep step{graph_.values[group.outputs[0]].name, task, {}};
    std::vector<i64> packed;
    if (!kernel.manifest.prepack.empty()) {
      std::optional<std::vector<i64>> offsets = weights_.packed(group, task, kernel, error);
      if (!offsets) return false;
      packed = std::move(*offsets);
    }
    std::size_t next_packed = 0, next_output = group.inputs.size() + group.constants.size();
    for (const KernelArgument& argument : kernel.manifest.run) {
      std::size_t index = argument.role == ArgumentRole::Input || argument.role == ArgumentRole::Constant
                              ? PackedConstants::constant_index(argument)
                              : 0;
      switch (argument.role) {
        case ArgumentRole::Input:
          step.buffers.push_back(place(group.places[index]));
          break;
        case ArgumentRole::Constant:
          step.buffers.push_back(place(group.places[group.inputs.size() + index]));
          break;
        case ArgumentRole::Packed:
          step.buffers.push_back(
              {is_device(target_) ? ModelPlace::Where::Packed : ModelPlace::Where::Weights, packed[next_packed++]});
          break;
        case ArgumentRole::Output:
          step.buffers.push_back(place(group.places[next_output++]));
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
  const std::vector<std::size_t>& kernel_of_;
  const Target& target_;
  PackedConstants weights_;
  std::map<ValueId, ModelPlace> places_;  // by memory
  ModelEntry plan_;
};

// The kernels of a library, entry after entry.
class Kernels {
 public:
  explicit Kernels(const ModelOptions& options) : options_(options) {}

  // From the database, else without trials; those that entries before have are theirs. Gives which of all kernels each
  // group has. Nothing, and why in `error`, if one cannot be made.
  std::optional<std::vector<std::size_t>> add(const EntryGraph& entry, std::string& error) {
    std::vector<std::size_t> kernel_of;
    std::vector<Wanted> missing;
    for (std::size_t g = 0; g < entry.tasks.fused.groups.size(); ++g) {
      std::size_t task = entry.tasks.task_of[g];
      Wanted wanted{task, entry.tasks.tasks[task].name, graph::pitches_of(entry.graph, entry.tasks.fused.groups[g])};
      auto [at, is_new] = known_.try_emplace({wanted.name, wanted.pitches}, kernels_.size() + missing.size());
      kernel_of.push_back(at->second);
      if (!is_new) continue;
      if (!wanted.pitches.empty()) wanted.name = cat(wanted.name, "_part_", ++parts_of_[wanted.name]);
      missing.push_back(std::move(wanted));
    }
    std::optional<std::vector<ExportedTask>> made = make(entry, missing, error);
    if (!made) return std::nullopt;
    std::ranges::move(*made, std::back_inserter(kernels_));
    return kernel_of;
  }

  const std::vector<ExportedTask>& get() const { return kernels_; }
  std::vector<ExportedTask> take() { return std::move(kernels_); }
  // What packs a constant as a kernel of this entry does is preferred in those that follow.
  void note_packings(const EntryGraph& entry, const std::vector<std::size_t>& kernel_of) {
    packings_.add(entry, kernel_of, kernels_);
  }

 private:
  struct Wanted {
    std::size_t task;
    std::string name;
    std::vector<graph::Pitch> pitches;
  };

  std::optional<std::vector<ExportedTask>> make(const EntryGraph& entry, const std::vector<Wanted>& missing,
                                                std::string& error) {
    std::vector<std::optional<ExportedTask>> made(missing.size());
    std::vector<std::string> errors(missing.size());
    std::vector<Preferred> preferred;
    for (const Wanted& wanted : missing) preferred.push_back(preference(entry, wanted.task));
    std::vector<TuneTask> tasks;
    std::vector<OwnedProgram> placed;
    for (const Wanted& wanted : missing) {
      tasks.push_back(entry.tasks.tasks[wanted.task]);
      tasks.back().name = wanted.name;
      placed.push_back(graph::with_pitches(tasks.back().program.program, wanted.pitches));
    }
    for (std::size_t m = 0; m < missing.size() && options_.database; ++m) {
      std::string message;
      made[m] = export_task(*options_.database, tasks[m], options_.library, message, options_.which, &placed[m]);
    }
    parallel_for(static_cast<int>(missing.size()), options_.threads, [&](int item, int) {
      std::size_t m = static_cast<std::size_t>(item);
      if (made[m] || (options_.stop && options_.stop())) return;
      made[m] = zero_trial_kernel(tasks[m], library_, options_, errors[m], preferred[m], &placed[m]);
    });
    if (options_.stop && options_.stop()) return error = "interrupted", std::nullopt;
    std::vector<ExportedTask> kernels;
    for (std::size_t m = 0; m < missing.size(); ++m) {
      if (!made[m]) return error = cat(missing[m].name, ": ", errors[m]), std::nullopt;
      if (!missing[m].pitches.empty()) made[m]->doc += "; of some buffers the rows lie apart";
      kernels.push_back(std::move(*made[m]));
    }
    return kernels;
  }

  Preferred preference(const EntryGraph& entry, std::size_t task) {
    std::set<Hash128> wanted = packings_.of(entry, task);
    if (wanted.empty()) return {};
    return [wanted = std::move(wanted)](const Program& scheduled) { return wanted.contains(packing_of(scheduled)); };
  }

  const ModelOptions& options_;
  rules::Library library_ = rules::Library::built_in();
  std::vector<ExportedTask> kernels_;
  std::map<std::pair<std::string, std::vector<graph::Pitch>>, std::size_t> known_;  // by the task's name
  std::map<std::string, int> parts_of_;                                             // kernels with pitches, by it
  KnownPackings packings_;
};

// Allows it in the sources of kernels that some step runs with a result in the place of an operand.
void allow_overwrites(const std::vector<ModelEntry>& entries, SourceLanguage language,
                      std::vector<ExportedTask>& kernels) {
  std::map<std::size_t, std::vector<Overwrite>> used;  // by kernel
  for (const ModelEntry& entry : entries) {
    for (const ModelStep& step : entry.steps) {
      for (const Overwrite& pair : kernels[step.task].kernel.manifest.overwrites) {
        if (is_in_place(step, pair)) used[step.task].push_back(pair);
      }
    }
  }
  for (const auto& [kernel, pairs] : used) allow_overwrites(kernels[kernel].kernel, language, pairs);
}

// The entries by what a run of them computes: how constants are packed matters most where most is done with them.
std::vector<std::size_t> largest_first(const std::vector<EntryGraph>& entries) {
  std::vector<double> work;
  std::vector<std::size_t> order;
  for (const EntryGraph& entry : entries) {
    order.push_back(work.size());
    work.push_back(0);
    for (const TuneTask& task : entry.tasks.tasks) work.back() += task.weight * count_flops(task.program.program);
  }
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return work[i]; });
  return order;
}

}  // namespace

std::optional<ExportPlan> compile_model(const std::vector<EntryGraph>& entries, const ModelOptions& options,
                                        std::string& error) {
  Kernels kernels(options);
  std::vector<std::vector<std::size_t>> kernel_of(entries.size());
  for (std::size_t i : largest_first(entries)) {
    std::optional<std::vector<std::size_t>> own = kernels.add(entries[i], error);
    if (!own) return std::nullopt;
    kernel_of[i] = std::move(*own);
    if (entries.size() > 1) kernels.note_packings(entries[i], kernel_of[i]);
  }
  bool is_for_device = is_device(options.target);
  WeightFile weights(alignment_for(options.target));
  DevicePackings packings;
  std::vector<ModelEntry> made;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::optional<ModelEntry> entry =
        Planner(entries[i], kernels.get(), kernel_of[i], options.target, weights, is_for_device ? &packings : nullptr)
            .run(error);
    if (!entry) return std::nullopt;
    made.push_back(std::move(*entry));
  }
  ExportPlan plan{.library = options.library, .tasks = kernels.take()};
  bool is_cuda = options.target.kind == TargetKind::Cuda;
  if (is_for_device) allow_overwrites(made, is_cuda ? SourceLanguage::CudaC : SourceLanguage::OpenClC, plan.tasks);
  plan.model.emplace(ModelPlan{std::move(made[0]), {}, weights.take()});
  plan.model->further.assign(std::make_move_iterator(made.begin() + 1), std::make_move_iterator(made.end()));
  packings.finish(*plan.model);
  return plan;
}

std::optional<ExportPlan> compile_model(const graph::Graph& graph, const ModelTasks& tasks, const ModelOptions& options,
                                        std::string& error) {
  return compile_model({{graph, tasks}}, options, error);
}

}  // namespace tw
