// Each kernel of a compiled model by itself, on what the kernels before it gave. So what they are wrong by does not add
// up from kernel to kernel, bounds stay narrow however deep a model is, and a kernel is found whose errors no output
// shows. Of an entry of a library that is not for a device.
//
//   judge_steps  beside its workload on the same operands, as trials are judged (judged_program): for models in f32
//   check_steps  beside what its nodes make of the same in f64: for values in 16 bits, of which some are rounded the
//                other way
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/export/export.h"
#include "runtime/export/model_library.h"
#include "runtime/measure/elements.h"
#include "sampler/models/check_model.h"
#include "sampler/tasks/model_tasks.h"

namespace tw {

// `graph`: what was compiled to `library` by `plan`; `outputs`: what the library as a whole gave for these inputs.
struct CheckedRun {
  const graph::Graph& graph;
  const ModelTasks& tasks;
  const ExportPlan& plan;
  const ModelLibrary& library;
  const std::vector<HostArray>& inputs;
  int threads;
  const std::vector<HostArray>& outputs;
};

struct StepDifference {
  std::string kernel, value;  // what runs, and what it makes
  ModelDifference found;
  bool is_wrong = false;
};

struct JudgedStep {
  std::string kernel, value;
  OperandType type;  // of the value
  Comparison found;
};

// What was found of the steps.
template <class Step>
struct StepsFound {
  std::vector<Step> steps;  // what they make, in the order in which they run
  // Does the library as a whole give what its steps give one after the other?
  bool is_whole_same = true;
  bool is_stopped = false;  // `stop` was true before all were compared
};
using StepCheck = StepsFound<StepDifference>;
using StepJudgement = StepsFound<JudgedStep>;

// Both: nothing, and why in `error`, if the steps or what they are compared with cannot be run. `stop` is asked before
// each node or step; what was compared until it is true is there. Steps that
// only copy a value are looked at by judge_steps alone.
std::optional<StepCheck> check_steps(const CheckedRun& run, std::string& error, const std::function<bool()>& stop = {});
std::optional<StepJudgement> judge_steps(const CheckedRun& run, std::string& error,
                                         const std::function<bool()>& stop = {});

// What counts as wrong for what check_steps compares: where it is rounded to 16 bits, a quarter of what rounding may
// change.
double most_relative_of_step(DType type);

}  // namespace tw
