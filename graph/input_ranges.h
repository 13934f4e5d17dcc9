// What random integers a graph can be tried on.
#pragma once
#include <vector>

#include "backends/kernel.h"
#include "graph/graph.h"

namespace tw::graph {

// Values for each input, in order, by what becomes of it; {0, 0} for floats. Indices lie in all that they look up, from
// 0 on. Where an index is computed of them, or a large factor is chosen by them, as in masks, and where they only
// decide something, they are 0 or 1. Else they are all values of i8 and u8; [-8, 8) where a wider type becomes a float,
// so that its exp is finite; or [-100, 101).
std::vector<IndexRange> input_ranges(const Graph& graph);
// The inputs as those of a library, with these ranges.
std::vector<KernelArgument> input_arguments(const Graph& graph);

}  // namespace tw::graph
