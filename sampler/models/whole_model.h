// What tuning has done for a model as a whole, beside what its kernels alone take.
#pragma once
#include <optional>
#include <string>

#include "sampler/models/compile_model.h"

namespace tw {

// Seconds of one call, on random inputs.
struct WholeModelTimes {
  double first = 0;    // with the kernels that were measured first, without trials
  double best = 0;     // with the fastest ones; both are medians, taken in turn
  double gain = 0;     // the median of first / best
  double kernels = 0;  // the shortest times of the steps of the latter, together
};

// With the kernels of `options.database`, by libraries in temporary folders. Takes about `seconds` beside compiling.
// Nothing, and why in `error`.
std::optional<WholeModelTimes> time_whole_model(const graph::Graph& graph, const ModelTasks& tasks,
                                                const ModelOptions& options, double seconds, std::string& error);

}  // namespace tw
