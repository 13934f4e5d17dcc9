// A GRU over trees, after AutoTVM's TreeGRU (NeurIPS 2018, appendix): the context vector of each node is embedded, and
// the state of a node is that of a GRU cell whose input is the embedding and whose state before is the sum of the
// children's. Nodes of all candidates are done together, level by level. Readout: the states of all nodes are summed,
// and the same layers as in the perceptron make the score; the paper scatters the states into slots by attention
// instead.
#include <algorithm>

#include "costmodel/torch/architecture.h"

namespace tw_torch {
namespace {

constexpr int64_t hidden = 64;

std::vector<Shape> shapes(int64_t columns) {
  return {{hidden, columns},    {hidden, hidden},      // embedding
          {3 * hidden, hidden}, {3 * hidden, hidden},  // the cell: of the input, of the state before
          {hidden, hidden},     {hidden, hidden},     {1, hidden}};
}

// The nodes of one level and, beside them, their places among the nodes of the next levels.
struct Level {
  std::vector<int64_t> nodes, parents;
};

// Nodes by height: leaves first. `parent`: of each row; the row itself, for roots.
std::vector<Level> levels_of(const std::vector<int64_t>& parent) {
  std::vector<int64_t> height(parent.size(), 0);
  int64_t most = -1;
  for (std::size_t node = 0; node < parent.size(); ++node) {  // children come before their parents
    most = std::max(most, height[node]);
    int64_t& above = height[parent[node]];
    if (parent[node] != static_cast<int64_t>(node)) above = std::max(above, height[node] + 1);
  }
  std::vector<Level> levels(static_cast<std::size_t>(most + 1));
  for (std::size_t node = 0; node < parent.size(); ++node) {
    Level& level = levels[height[node]];
    level.nodes.push_back(static_cast<int64_t>(node));
    level.parents.push_back(parent[node]);
  }
  return levels;
}

std::vector<int64_t> parents_of(const Rows& rows) {
  std::vector<int64_t> parent(rows.structure.size());
  for (std::size_t c = 0; c + 1 < rows.first_row.size(); ++c) {
    const int64_t last = rows.first_row[c + 1] - 1;
    for (int64_t row = rows.first_row[c]; row <= last; ++row) {
      const float distance = rows.structure[row];
      // What points outside of its candidate is a root: data that are no trees have a score, too.
      const bool has_parent = distance >= 1 && distance <= static_cast<float>(last - row);
      parent[row] = row + (has_parent ? static_cast<int64_t>(distance) : 0);
    }
  }
  return parent;
}

Tensor forward(const Weights& w, const Rows& rows) {
  const std::vector<int64_t> parent = parents_of(rows);
  const Tensor embedded = at::relu(linear(w, 1, at::relu(linear(w, 0, rows.x))));
  Tensor of_children = at::zeros({rows.rows(), hidden});
  Tensor sums = at::zeros({rows.candidates(), hidden});
  for (const Level& level : levels_of(parent)) {
    const Tensor nodes = at::tensor(level.nodes);
    const Tensor state =
        at::gru_cell(embedded.index_select(0, nodes), of_children.index_select(0, nodes), w[4], w[6], w[5], w[7]);
    sums = sums.index_add(0, rows.owner.index_select(0, nodes), state);
    // A root adds to itself, when it has been read.
    of_children = of_children.index_add(0, at::tensor(level.parents), state);
  }
  return readout(w, 4, sums);
}

constexpr Architecture architecture{shapes, forward, true};

}  // namespace

const Architecture& tree_gru() { return architecture; }

}  // namespace tw_torch
