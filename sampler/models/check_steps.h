// Each kernel of a compiled model by itself: what it makes of what the kernels before it gave, beside what its nodes
// make of the same in f64. So roundings to 16 bits, of which some go the other way in the one and in the other, do not
// add up from kernel to kernel, and bounds stay narrow however deep a model is.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/export/export.h"
#include "runtime/export/model_library.h"
#include "sampler/models/check_model.h"
#include "sampler/tasks/model_tasks.h"

namespace tw {

struct StepDifference {
  std::string kernel, value;  // what runs, and what it makes
  ModelDifference found;
  bool is_wrong = false;
};

struct StepCheck {
  std::vector<StepDifference> steps;  // in the order in which they run
  // Does the library as a whole give what its steps give one after the other?
  bool is_whole_same = true;
  bool is_stopped = false;  // `stop` was true before all were compared
};

// Of an entry of a library that was made by `plan`, not for a device. `graph`: what was compiled; `outputs`: what the
// library as a whole gave for these inputs. Nothing, and why in `error`, if either cannot be run. `stop` is asked
// before each node; what was compared until it is true is there.
std::optional<StepCheck> check_steps(const graph::Graph& graph, const ModelTasks& tasks, const ExportPlan& plan,
                                     const ModelLibrary& library, const std::vector<HostArray>& inputs, int threads,
                                     const std::vector<HostArray>& outputs, std::string& error,
                                     const std::function<bool()>& stop = {});

// What counts as wrong for what a kernel stores: where it is rounded to 16 bits, a quarter of what rounding may change.
double most_relative_of_step(DType type);

}  // namespace tw
