#include "sampler/models/check_steps.h"

#include <map>

namespace tw {
namespace {

// The buffers that the steps of an entry write, and the values that these are. What only copies is left out.
struct Written {
  std::vector<StepOutput> buffers;
  std::vector<graph::ValueId> values;
};
Written written_by(const graph::Graph& graph, const ModelTasks& tasks, const ExportPlan& plan,
                   const ModelLibrary& library) {
  Written out;
  const ModelEntry& entry = *entries_of(*plan.model)[static_cast<std::size_t>(library.entry)];
  for (std::size_t step = 0; step < entry.steps.size(); ++step) {
    const graph::Group& group = tasks.fused.groups[step];
    if (group.copied) continue;
    const std::vector<KernelArgument>& arguments = plan.tasks[entry.steps[step].task].kernel.manifest.run;
    std::size_t next = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].role != ArgumentRole::Output) continue;
      const graph::Part& part = group.places[group.inputs.size() + group.constants.size() + next];
      out.values.push_back(group.outputs[next++]);
      const OperandType& type = graph.values[out.values.back()].type;
      KernelArgument dense{arguments[i].name, ArgumentRole::Output, type.dtype, type.shape, graph::bytes_of(type)};
      out.buffers.push_back({step, i, dense, part.rows, part.pitch * bytes_of(type.dtype)});
    }
  }
  return out;
}

}  // namespace

std::optional<StepCheck> check_steps(const graph::Graph& graph, const ModelTasks& tasks, const ExportPlan& plan,
                                     const ModelLibrary& library, const std::vector<HostArray>& inputs, int threads,
                                     const std::vector<HostArray>& outputs, std::string& error,
                                     const std::function<bool()>& stop) {
  Written written = written_by(graph, tasks, plan, library);
  std::vector<HostArray> arrays = outputs_of_steps(library, inputs, threads, written.buffers, error);
  if (!error.empty()) return std::nullopt;
  std::map<graph::ValueId, std::size_t> buffer_of;
  for (std::size_t i = 0; i < written.values.size(); ++i) buffer_of[written.values[i]] = i;
  StepCheck out;
  auto compare = [&](graph::ValueId value, HostArray& made) {
    auto at = buffer_of.find(value);
    if (at == buffer_of.end()) return;
    HostArray& own = arrays[at->second];
    ModelDifference found = difference(made, own);
    out.steps.push_back({library.steps[written.buffers[at->second].step].kernel, graph.values[value].name, found,
                         found.is_wrong(most_relative_of_step(made.dtype))});
    made = std::move(own);
  };
  std::optional<std::vector<HostArray>> whole = reference_outputs(graph, inputs, error, compare, stop);
  out.is_stopped = !whole && stop && stop();
  if (!whole && !out.is_stopped) return std::nullopt;
  for (std::size_t i = 0; whole && i < whole->size(); ++i) out.is_whole_same &= (*whole)[i].bytes == outputs[i].bytes;
  return out;
}

double most_relative_of_step(DType type) {
  return type == DType::BF16 ? 0x1p-10 : type == DType::F16 ? 0x1p-13 : most_relative(type);
}

}  // namespace tw
