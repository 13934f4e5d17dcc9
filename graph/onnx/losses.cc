// Losses that compare scores of classes with the wanted class.
#include <algorithm>
#include <numeric>

#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

ValueId total(NodeImport& node, ValueId x) {
  if (node.rank(x) == 0) return x;
  Ints axes(static_cast<std::size_t>(node.rank(x)));
  std::iota(axes.begin(), axes.end(), 0);
  return node.add("reduce_sum", {{"axes", axes}}, {x});
}

// -log_scores[n, wanted[n, d..], d..] times the weight of the class, and their sum or weighted mean; log_scores[N, C,
// D..].
ValueId likelihood_loss(NodeImport& node, ValueId log_scores, ValueId wanted, bool has_weights, ValueId weights) {
  Ints shape = node.shape(wanted), with_class = shape;
  if (shape.empty()) return node.fail("it needs a batch"), log_scores;
  with_class.insert(with_class.begin() + 1, 1);
  DType type = node.dtype(log_scores);
  ValueId weight = node.number(1, node.broadcast(node.scalar(0, type), shape)), chosen = wanted;
  if (node.has("ignore_index")) {
    ValueId ignored =
        node.add("equal", {}, {wanted, node.number(static_cast<double>(node.integer("ignore_index", 0)), wanted)});
    chosen = node.add("where", {}, {ignored, node.number(0, wanted), wanted});
    weight = node.add("where", {}, {ignored, node.number(0, weight), weight});
  }
  if (has_weights) weight = node.add("multiply", {}, {weight, gathered(node, weights, chosen, 0)});
  ValueId picked = gathered_elements(node, log_scores, node.reshape(chosen, with_class), 1);
  ValueId loss = node.add("multiply", {}, {node.add("negate", {}, {node.reshape(picked, shape)}), weight});
  std::string how = node.text("reduction", "mean");
  if (how == "none") return loss;
  ValueId sum = total(node, loss);
  return how == "sum" ? sum : node.add("divide", {}, {sum, total(node, weight)});
}

void negative_log_likelihood(NodeImport& node) {
  bool has_weights = node.has_input(2);
  node.result(0, likelihood_loss(node, node.input(0), node.input(1), has_weights, has_weights ? node.input(2) : 0));
}

void softmax_cross_entropy(NodeImport& node) {
  ValueId logs = node.add("log_softmax", {{"axis", i64{1}}}, {node.input(0)});
  bool has_weights = node.has_input(2);
  node.result(0, likelihood_loss(node, logs, node.input(1), has_weights, has_weights ? node.input(2) : 0));
  node.result(1, logs);
}

}  // namespace

void add_losses(Converters& table) {
  table["NegativeLogLikelihoodLoss"] = negative_log_likelihood;
  table["SoftmaxCrossEntropyLoss"] = softmax_cross_entropy;
}

}  // namespace tw::graph::onnx
