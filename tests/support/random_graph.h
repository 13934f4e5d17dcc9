// Random graphs that are valid by construction (NNSmith, ASPLOS 2023): networks of a few layers as importers make them,
// small enough for the interpreter. Values stay finite.
#pragma once
#include "dsl/base/rng.h"
#include "graph/graph.h"

namespace tw::test {

graph::Graph random_graph(Rng rng);
// The same with many concatenations, slices and paddings, of extents that lie at aligned addresses.
graph::Graph random_joined_graph(Rng rng);
// Normal numbers for each input.
std::vector<HostArray> random_arrays(const graph::Graph& graph, Rng rng);

}  // namespace tw::test
