// Passes over graphs, one file each. Each gives a graph that computes the same, up to rounding.
#pragma once
#include "graph/rewrites.h"

namespace tw::graph {

// Without nodes and constants that no output needs.
Graph remove_unused(const Graph& graph);
// Scales per channel behind a convolution, as of a batch normalisation, become part of its weights.
Graph fold_scales(const Graph& graph);
// Zeros around an image become the padding of the convolutions that read it.
Graph fold_pads(const Graph& graph);
// A product of many rows with one matrix is one product, however many dimensions the rows have.
Graph join_rows(const Graph& graph);
// Convolutions and pooling with the channels as the last dimension, and with them all that stands between them.
Graph channels_last(const Graph& graph);

// All of them, in order, behind the rewritings: those of the user first, then those that are built in.
Graph simplified(const Graph& graph, const std::vector<const RewriteModule*>& rewrites = {});

}  // namespace tw::graph
