// A network on sequences, after TLP (ASPLOS 2023): rows are embedded, one layer of self-attention lets them see each
// other, a residual layer follows, rows are summed, and the same layers as in the perceptron make the score.
#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/torch/architecture.h"

namespace tw_torch {
namespace {

constexpr int64_t hidden = 64, heads = 4;

std::vector<Shape> shapes(int64_t columns) {
  return {{hidden, columns},    {hidden, hidden},                    // embedding
          {3 * hidden, hidden}, {hidden, hidden}, {hidden, hidden},  // attention, and the layer behind it
          {hidden, hidden},     {hidden, hidden}, {1, hidden}};
}

// For each candidate the places of its rows from 1 on, filled up with 0; [candidates, longest].
Tensor places_of(const Rows& rows) {
  int64_t longest = 1;
  for (std::size_t c = 0; c + 1 < rows.first_row.size(); ++c)
    longest = std::max(longest, rows.first_row[c + 1] - rows.first_row[c]);
  std::vector<int64_t> places(static_cast<std::size_t>(rows.candidates() * longest), 0);
  for (std::size_t c = 0; c + 1 < rows.first_row.size(); ++c) {
    for (int64_t row = rows.first_row[c]; row < rows.first_row[c + 1]; ++row)
      places[static_cast<int64_t>(c) * longest + row - rows.first_row[c]] = row + 1;
  }
  return at::tensor(places).view({rows.candidates(), longest});
}

// x: [candidates, rows, hidden]; is_row: [candidates, rows]. The same shape.
Tensor attend(const Weights& w, const Tensor& x, const Tensor& is_row) {
  const int64_t candidates = x.size(0), length = x.size(1);
  const Tensor parts = linear(w, 2, x).view({candidates, length, 3, heads, hidden / heads}).permute({2, 0, 3, 1, 4});
  const Tensor query = parts[0], key = parts[1], value = parts[2];  // [candidates, heads, rows, hidden / heads]
  Tensor match = at::matmul(query, key.transpose(2, 3)) / std::sqrt(static_cast<double>(hidden / heads));
  match = match.masked_fill(is_row.logical_not().view({candidates, 1, 1, length}), -1e9);
  const Tensor mixed = at::matmul(at::softmax(match, 3), value).transpose(1, 2).reshape({candidates, length, hidden});
  return linear(w, 3, mixed);
}

Tensor forward(const Weights& w, const Rows& rows) {
  const Tensor embedded = at::relu(linear(w, 1, at::relu(linear(w, 0, rows.x))));
  const Tensor places = places_of(rows), is_row = places.gt(0);
  const Tensor with_none = at::cat({at::zeros({1, hidden}), embedded});
  Tensor x = with_none.index_select(0, places.flatten()).view({places.size(0), places.size(1), hidden});
  x = x + attend(w, x, is_row);
  x = x + at::relu(linear(w, 4, x));
  return readout(w, 5, (x * is_row.unsqueeze(2)).sum(1));
}

constexpr Architecture architecture{shapes, forward};

}  // namespace

const Architecture& attention() { return architecture; }

}  // namespace tw_torch
