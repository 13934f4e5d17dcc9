// What a graph gives by other means than its kernels: each node's own program, computed in f64, one after the other.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tw {

// Those of runtime/export/model_library.h, for the inputs of a graph.
std::vector<HostArray> random_inputs(const graph::Graph& graph, u64 seed);

// Gets what a node has made of a value, and may put something else in its place.
using OnMade = std::function<void(graph::ValueId value, HostArray& made)>;
// The outputs of a graph, by its nodes. What a node gives is rounded to its type, and kept in memory until the last
// node that reads it was computed. Nothing, and why in `error`, also if `stop`, which is asked before each node, was
// true.
std::optional<std::vector<HostArray>> reference_outputs(const graph::Graph& graph, const std::vector<HostArray>& inputs,
                                                        std::string& error, const OnMade& on_made = {},
                                                        const std::function<bool()>& stop = {});

struct ModelDifference {
  double largest = 0;   // of |found - expected|
  double relative = 0;  // length of the vector of differences, by that of the expected one
  double cosine = 1;    // between the two
  i64 different = 0;    // elements that must be equal and are not: integers, NaN beside a number
  i64 compared = 0;     // expected elements that are finite numbers
  // Rounding in another order gives about 1e-6 in f32, and more the deeper a network is.
  bool is_wrong(double most_relative) const { return different > 0 || !(relative <= most_relative); }
};
// `is_quantized`: integers of up to 32 bits stand for numbers, and are compared as such.
ModelDifference difference(const HostArray& expected, const HostArray& found, bool is_quantized = false);
// What counts as wrong for a type.
double most_relative(DType type);

// Does it round to integers, as quantized models do? Another order of roundings before that makes a value near the
// middle of two integers the other one, and the layers behind add to that: outputs say little, kernels that are judged
// on their own inputs (check_steps.h) more.
bool is_quantized(const graph::Graph& graph);
inline constexpr double kMostRelativeOfQuantized = 0.1;  // what counts as wrong, beside most_relative()

// Rows of a tensor along its last dimension.
struct TopOne {
  i64 rows = 0;
  i64 same = 0;  // whose largest element is at the same place in both, the first of equal ones
};
TopOne top_one(const HostArray& expected, const HostArray& found);

}  // namespace tw
