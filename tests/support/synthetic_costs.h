// A made-up cost problem with known structure, for tests of cost models: tiled matrix products on
// an imaginary machine with caches, registers, vectors and cores, whose time follows from the
// tiling by a formula plus noise; some tiles are too large for it and fail. Rows and columns look
// like those of real programs: a few stores per candidate, counts on a log scale, one-hots,
// constant and redundant columns.
#pragma once
#include "costmodel/cost_model.h"

namespace tw {

struct SyntheticOptions {
  int groups = 4;       // matrix products of different extents
  int first_group = 0;  // number of the first; other numbers are other extents
  int per_group = 100;  // candidates each
  int columns = 164;    // at least 40
  double noise = 0.03;  // standard deviation of log time
};

// The same options and seed give the same data.
Dataset synthetic_costs(const SyntheticOptions& options, u64 seed);

// The candidates of `data` at the given places.
Dataset subset(const Dataset& data, const std::vector<int>& places);

// Every `n`th candidate held out; the others to learn from.
struct Split {
  Dataset learn, held_out;
};
Split hold_out(const Dataset& data, int n);

}  // namespace tw
