#include "sampler/models/check_steps.h"

#include <cmath>
#include <map>

#include "dsl/base/text.h"
#include "sampler/models/reference_runner.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

using graph::Group;
using graph::ValueId;

// A buffer that a step of an entry writes.
struct Written {
  StepOutput buffer;
  ValueId value;  // of a copy, that which is copied
  graph::Part part;
};

std::vector<Written> written_by(const CheckedRun& run) {
  std::vector<Written> out;
  const ModelEntry& entry = *entries_of(*run.plan.model)[static_cast<std::size_t>(run.library.entry)];
  for (std::size_t step = 0; step < entry.steps.size(); ++step) {
    const Group& group = run.tasks.fused.groups[step];
    const std::vector<KernelArgument>& arguments = run.plan.tasks[entry.steps[step].task].kernel.manifest.run;
    std::size_t next = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].role != ArgumentRole::Output) continue;
      const graph::Part& part = group.places[group.inputs.size() + group.constants.size() + next];
      ValueId value = group.copied ? run.graph.nodes[group.nodes.back()].inputs[*group.copied] : group.outputs[next];
      ++next;
      const OperandType& type = run.graph.values[value].type;
      KernelArgument dense{arguments[i].name, ArgumentRole::Output, type.dtype, type.shape, graph::bytes_of(type)};
      out.push_back({{step, i, dense, part.rows, part.pitch * bytes_of(type.dtype)}, value, part});
    }
  }
  return out;
}

// Begins to run the steps; gives what these buffers hold behind them.
StepOutputs begin_steps(const CheckedRun& run, const std::vector<Written>& written) {
  std::vector<StepOutput> buffers;
  for (const Written& one : written) buffers.push_back(one.buffer);
  return StepOutputs(run.library, run.inputs, run.threads, std::move(buffers));
}

const std::string& kernel_of(const CheckedRun& run, const Written& written) {
  return run.library.steps[written.buffer.step].kernel;
}

// The values of a graph as the steps of a library leave them, in the places that fusion has for them.
class ValueMemory {
 public:
  explicit ValueMemory(const CheckedRun& run) : graph_(run.graph), last_(run.graph.values.size(), 0) {
    for (std::size_t i = 0; i < run.inputs.size(); ++i) arrays_[graph_.inputs[i]] = run.inputs[i];
    const std::vector<Group>& groups = run.tasks.fused.groups;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const graph::Part& part : groups[g].places) last_[part.memory] = g;
    }
    for (ValueId output : graph_.outputs) last_[run.tasks.fused.parts[output].memory] = groups.size();
  }

  HostArray read(const graph::Part& part, const OperandType& type) const {
    const std::shared_ptr<const HostArray>& constant = graph_.values[part.memory].data;
    return read_part(constant ? *constant : arrays_.at(part.memory), part, type);
  }
  void write(const graph::Part& part, const HostArray& value) {
    auto [at, is_new] = arrays_.try_emplace(part.memory);
    const OperandType& type = graph_.values[part.memory].type;
    if (is_new) at->second = HostArray::zeros(type.dtype, type.shape);
    write_part(at->second, part, value);
  }
  // Drops what only groups until this one read.
  void end_step(std::size_t group) {
    std::erase_if(arrays_, [&](const auto& entry) { return last_[entry.first] <= group; });
  }

 private:
  const graph::Graph& graph_;
  std::map<ValueId, HostArray> arrays_;  // by memory
  std::vector<std::size_t> last_;        // group that has to do with a memory
};

// Results that are beyond the numbers of their type are infinite in it: masks that are added up.
void bring_into(DType type, HostArray& wide) {
  if (!is_float(type) || type == wide.dtype) return;
  HostArray narrow = HostArray::zeros(type, {1});
  for (i64 i = 0; i < wide.elements(); ++i) {
    narrow.set(0, wide.get(i));
    if (!std::isfinite(narrow.get(0))) wide.set(i, narrow.get(0));
  }
}

// Judges results of kernels. Those of one task share the reference.
class KernelJudge {
 public:
  KernelJudge(const ModelTasks& tasks, ReferenceRunner& runner) : tasks_(tasks), runner_(runner) {}

  // Runs the reference of a task on these operands. False, and why in `error`.
  bool prepare(std::size_t task, const std::vector<const HostArray*>& operands, std::string& error) {
    const Program& program = tasks_.tasks[task].program.program;
    auto [at, is_new] = references_.try_emplace(task);
    reference_ = &at->second;
    if (is_new) at->second = {build_reference(program, host_target(), runner_.compiler()), tolerance_of(program)};
    if (!reference_->built.kernel) return error = reference_->built.problem, false;
    results_.clear();  // not in memory together with the next ones
    std::optional<ReferenceRunner::Results> results = runner_.run(*reference_->built.kernel, operands, error);
    if (results) results_ = std::move(*results);
    return results.has_value();
  }

  // Compares an output, by name, of the task that was prepared last.
  Comparison judge(const std::string& name, const HostArray& actual) {
    HostArray& expected = results_.find(name)->second;
    auto variances = results_.find(cat(name, kVarianceSuffix));
    bring_into(actual.dtype, expected);
    return judged_result(actual, expected, variances == results_.end() ? nullptr : &variances->second,
                         reference_->tolerance);
  }

 private:
  struct Reference {
    BuiltKernel built;
    Tolerance tolerance;
  };
  const ModelTasks& tasks_;
  ReferenceRunner& runner_;
  std::map<std::size_t, Reference> references_;
  const Reference* reference_ = nullptr;
  ReferenceRunner::Results results_;
};

}  // namespace

std::optional<StepCheck> check_steps(const CheckedRun& run, std::string& error, const std::function<bool()>& stop) {
  std::vector<Written> written = written_by(run);
  std::erase_if(written,
                [&](const Written& one) { return run.tasks.fused.groups[one.buffer.step].copied.has_value(); });
  StepOutputs outputs = begin_steps(run, written);
  StepCheck out;
  std::string why;  // outputs.next() gives no more
  auto compare = [&, next = std::size_t{0}](ValueId value, HostArray& made) mutable {
    // Steps run in the order of the nodes that make what they write.
    if (next == written.size() || written[next].value != value || !why.empty()) return;
    std::optional<HostArray> own = outputs.next(why);
    if (!own) return;
    ModelDifference found = difference(made, *own, is_quantized(run.graph));
    out.steps.push_back({kernel_of(run, written[next++]), run.graph.values[value].name, found,
                         found.is_wrong(most_relative_of_step(made.dtype))});
    made = std::move(*own);
  };
  auto ends = [&] { return !why.empty() || (stop && stop()); };
  std::optional<std::vector<HostArray>> whole = reference_outputs(run.graph, run.inputs, error, compare, ends);
  out.is_stopped = !whole && stop && stop();
  if (out.is_stopped) return out;
  if (!why.empty()) return error = why, std::nullopt;
  if (!whole || !outputs.end(error)) return std::nullopt;
  TW_CHECK(out.steps.size() == written.size(), "a step writes what no node makes");
  for (std::size_t i = 0; i < whole->size(); ++i) out.is_whole_same &= (*whole)[i].bytes == run.outputs[i].bytes;
  return out;
}

std::optional<StepJudgement> judge_steps(const CheckedRun& run, std::string& error, const std::function<bool()>& stop) {
  std::vector<Written> written = written_by(run);
  StepOutputs outputs = begin_steps(run, written);  // forks, so before there are threads
  std::unique_ptr<ReferenceRunner> runner = ReferenceRunner::create(error);
  if (!runner) return std::nullopt;
  KernelJudge judge(run.tasks, *runner);
  ValueMemory memory(run);
  StepJudgement out;
  std::size_t next = 0;
  for (std::size_t g = 0; g < run.tasks.fused.groups.size(); ++g) {
    out.is_stopped = stop && stop();
    if (out.is_stopped) return out;
    const Group& group = run.tasks.fused.groups[g];
    std::vector<ValueId> values = group.inputs;
    values.insert(values.end(), group.constants.begin(), group.constants.end());
    std::vector<HostArray> operands;
    for (std::size_t i = 0; i < values.size(); ++i)
      operands.push_back(memory.read(group.places[i], run.graph.values[values[i]].type));
    std::vector<const HostArray*> pointers;
    for (const HostArray& operand : operands) pointers.push_back(&operand);
    if (!judge.prepare(run.tasks.task_of[g], pointers, error))
      return error = cat(run.library.steps[g].kernel, ": ", error), std::nullopt;
    for (; next < written.size() && written[next].buffer.step == g; ++next) {
      const Written& one = written[next];
      std::optional<HostArray> own = outputs.next(error);
      if (!own && stop && stop()) return out.is_stopped = true, out;
      if (!own) return std::nullopt;
      const graph::Value& value = run.graph.values[one.value];
      out.steps.push_back({kernel_of(run, one), value.name, value.type, judge.judge(one.buffer.tensor.name, *own)});
      memory.write(one.part, *own);
    }
    memory.end_step(g);
  }
  if (!outputs.end(error)) return std::nullopt;
  for (std::size_t i = 0; i < run.outputs.size(); ++i) {
    ValueId output = run.graph.outputs[i];
    out.is_whole_same &=
        memory.read(run.tasks.fused.parts[output], run.graph.values[output].type).bytes == run.outputs[i].bytes;
  }
  return out;
}

double most_relative_of_step(DType type) {
  if (!is_float(type)) return 3e-3;  // a few of them became the other one of two integers
  return type == DType::BF16 ? 0x1p-10 : type == DType::F16 ? 0x1p-13 : most_relative(type);
}

}  // namespace tw
