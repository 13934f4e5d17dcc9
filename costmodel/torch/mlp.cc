// The multi-layer perceptron, after MetaSchedule's (see network_model.h): every row is encoded by two layers, rows are
// summed per candidate, two residual layers and a linear one make the score.
#include "costmodel/torch/architecture.h"

namespace tw_torch {
namespace {

template <int64_t hidden>
std::vector<Shape> shapes(int64_t columns) {
  return {{hidden, columns}, {hidden, hidden}, {hidden, hidden}, {hidden, hidden}, {1, hidden}};
}

Tensor forward(const Weights& w, const Rows& rows) {
  const Tensor x = at::relu(linear(w, 0, rows.x));
  return readout(w, 2, sum_rows(at::relu(linear(w, 1, x)), rows));
}

// 256 rank no better and take twice as long (tracewright model eval).
constexpr Architecture ours{shapes<128>, forward},
    reference{.shapes = shapes<256>, .forward = forward, .scales_by_maximum = true};

}  // namespace

const Architecture& mlp() { return ours; }
const Architecture& mlp_reference() { return reference; }

}  // namespace tw_torch
