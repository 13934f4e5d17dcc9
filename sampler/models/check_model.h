// What a graph gives by other means than its kernels: each node's own program, computed in f64, one after the other.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tw {

// Those of runtime/export/model_library.h, for the inputs of a graph.
std::vector<HostArray> random_inputs(const graph::Graph& graph, u64 seed);

// The outputs of the nodes as they were imported. Each is rounded to its type. Nothing, and why in `error`.
std::optional<std::vector<HostArray>> reference_outputs(const graph::Graph& graph, const std::vector<HostArray>& inputs,
                                                        std::string& error);

struct ModelDifference {
  double largest = 0;   // of |found - expected|
  double relative = 0;  // length of the vector of differences, by that of the expected one
  double cosine = 1;    // between the two
  i64 different = 0;    // elements that must be equal and are not: integers, NaN beside a number
  i64 compared = 0;     // expected elements that are finite numbers
  // Rounding in another order gives about 1e-6 in f32, and more the deeper a network is.
  bool is_wrong(double most_relative) const { return different > 0 || !(relative <= most_relative); }
};
ModelDifference difference(const HostArray& expected, const HostArray& found);
// What counts as wrong for a type.
double most_relative(DType type);

}  // namespace tw
