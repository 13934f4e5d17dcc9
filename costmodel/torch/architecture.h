// What the networks of the plugin have in common, and where they differ: an Architecture says which weights it has and
// how they make scores of rows. Training, scaling, saving and loading are the same for all (training.h, plugin.cc).
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "costmodel/network_abi.h"

namespace tw_torch {

using at::Tensor;
using Weights = std::vector<Tensor>;  // by layer: weight [out, in], bias [out]

// Some candidates: their rows, one below the other.
struct Rows {
  Tensor x;                        // [rows, columns], scaled
  Tensor owner;                    // [rows], int64: the candidate that a row belongs to; rising
  std::vector<int64_t> first_row;  // candidates + 1 entries
  std::vector<float> structure;    // [rows], the last column as it is, if the architecture has structure
  int64_t candidates() const { return static_cast<int64_t>(first_row.size()) - 1; }
  int64_t rows() const { return first_row.back(); }
};

struct Shape {
  int64_t out, in;
};

struct Architecture {
  // The first layer is applied to the rows; fit_scaling() relies on it.
  std::vector<Shape> (*shapes)(int64_t columns);
  Tensor (*forward)(const Weights& weights, const Rows& rows);  // [candidates]
  bool has_structure = false;      // the last column says how rows belong together, and is no feature
  bool scales_by_maximum = false;  // features are divided by the largest ones, in place of being standardised
};
const Architecture& mlp();
const Architecture& mlp_reference();
const Architecture& tree_gru();
const Architecture& attention();

// Layer `number` of the weights.
inline Tensor linear(const Weights& weights, int number, const Tensor& x) {
  return at::linear(x, weights[2 * number], weights[2 * number + 1]);
}

// Sums of the rows of each candidate, [candidates, columns of x].
inline Tensor sum_rows(const Tensor& x, const Rows& rows) {
  return at::zeros({rows.candidates(), x.size(1)}).index_add(0, rows.owner, x);
}

// The readout of all: two residual layers and a linear one, from layer `first` on; [candidates].
inline Tensor readout(const Weights& weights, int first, Tensor x) {
  for (int layer : {first, first + 1}) x = at::relu(linear(weights, layer, x)) + x;
  return linear(weights, first + 2, x).squeeze(1);
}

}  // namespace tw_torch
