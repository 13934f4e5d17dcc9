// Passes over graphs, one file each. Each gives a graph that computes the same, up to rounding.
#pragma once
#include "graph/passes/layouts.h"
#include "graph/rewrites.h"

namespace tw::graph {

// Without nodes and constants that no output needs.
Graph remove_unused(const Graph& graph);
// Nodes with the same operator, arguments and operands, constants by their bytes, become one. Those that only move
// elements stay until nobody reads them.
Graph common_subexpressions(const Graph& graph);
// Scales per channel behind a convolution, as of a batch normalisation, become part of its weights.
Graph fold_scales(const Graph& graph);
// Zeros around an image become the padding of the convolutions that read it.
Graph fold_pads(const Graph& graph);
// Products and convolutions in f32 of integers times scales multiply the integers, if their sums fit into i32, and
// the sums are scaled. A scale is one number for all, or one for each place of a dimension that the result has.
Graph integer_products(const Graph& graph);
// Two transpositions with only element-wise nodes between them, which nobody else reads, are one or none.
Graph join_transposes(const Graph& graph);
// What follows a product of matrices element by element is computed on its rows, however many dimensions a reshape
// parts these into.
Graph join_rows(const Graph& graph);
// Convolutions and pooling with the channels as the last dimension, and with them all that stands between them.
Graph channels_last(const Graph& graph);
// The same for those nodes alone that have their channels last in `layouts`. It has an entry for each node; entries of
// nodes that have no choice are ignored.
Graph with_layouts(const Graph& graph, const std::vector<Layout>& layouts);
// The same with cheapest_layouts(). Where no window is row-major in these it is channels_last(), whose transpositions
// undo those of the graph itself where they can, which costs do not count.
Graph in_cheapest_layouts(const Graph& graph, LayoutCosts& costs);

// Values between kernels, and weights, in a narrow type, bf16 or f16. Inputs and outputs keep theirs, and kernels
// compute in f32. What stays f32 says docs/models.md. For a simplified graph; others may come in more kernels than
// before.
Graph narrow_values(const Graph& graph, DType type);

// All of them, in order, behind the rewritings: those of the user first, then those that are built in. With f32 for
// `precision` all values have the types that they come with. Without `costs` all windows have their channels last.
Graph simplified(const Graph& graph, const std::vector<const RewriteModule*>& rewrites = {},
                 DType precision = DType::F32, LayoutCosts* costs = nullptr);

}  // namespace tw::graph
