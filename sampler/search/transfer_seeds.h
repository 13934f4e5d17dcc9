// Transfer seeds: the best kernels of the same operator with other extents, with another epilogue, or for another
// target of the same kind, made candidates of a task by carrying over their decisions. What is good for one task is
// near what is good for a similar one. Used by tune.cc before anything is measured.
#pragma once
#include <functional>
#include <span>

#include "sampler/search/task_state.h"

namespace tw {

// A workload without its numbers, which are those of extents, strides and paddings: two with equal texts are one
// operator in two shapes, and their numbers stand in the same places.
struct WorkloadForm {
  std::string text;
  std::vector<i64> numbers;
};
WorkloadForm form_of(const std::string& workload);

// What the text of a workload shares with those of the same operator with other epilogues: the nests up to the last
// reduction, and the types of its buffers. "" without a reduction.
std::string anchor_of(const std::string& workload);

// Notes in each state the traces of the best records of the same operator, those of the nearest shapes first, then
// those of the nearest targets (TaskState::others). Records of the same kind of target only. Errors are those of the
// database.
DatabaseStatus note_transfer_seeds(std::span<TaskState> states, Database& database,
                                   const std::function<bool()>& stop = {});

// Makes candidates of what was noted (TaskState::carried), in the same order, each program once. The space is open.
void carry_transfer_seeds(TaskState& state, TuneObserver& observer, const std::function<bool()>& stop = {});

}  // namespace tw
