// Transpositions of constants: their bytes are moved when a graph is made, however many they are.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/passes/orders.h"
#include "graph/passes/passes.h"
#include "support/graph_kit.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

HostArray counted(const Ints& shape) {
  HostArray array = HostArray::zeros(DType::F32, shape);
  for (i64 i = 0; i < array.elements(); ++i) array.set(i, static_cast<double>(i % 97));
  return array;
}

class Builder : public test::GraphKit {
 public:
  ValueId constant(const Ints& shape) { return builder.constant("c", counted(shape)); }
  ValueId turned(ValueId value, const Ints& order) { return add("transpose", {{"order", order}}, {value}); }
};

// `graph` behind the pass has no transposition, and computes the same of an input.
void expect_none_left(const Graph& graph, Graph (*pass)(const Graph&)) {
  Graph made = remove_unused(pass(graph));
  EXPECT_EQ(std::ranges::count(made.nodes, "transpose", &Node::op), 0) << to_string(made);
  std::vector<HostArray> inputs{counted(graph.values[graph.inputs[0]].type.shape)};
  std::string error;
  auto expected = evaluate(graph, inputs, error), found = evaluate(made, inputs, error);
  ASSERT_TRUE(expected && found) << error;
  EXPECT_TRUE(*expected == *found) << to_string(made);
}

TEST(Orders, ATransposedArrayIsWhatTheOperatorGives) {
  Ints shape{3, 1, 4, 5};
  for (const Ints& order : {Ints{0, 1, 2, 3}, Ints{2, 0, 3, 1}, Ints{3, 2, 1, 0}, Ints{1, 3, 0, 2}}) {
    Builder b;
    Graph graph = b.finish(b.turned(b.input(shape), order));
    std::string error;
    auto expected = evaluate(graph, {counted(shape)}, error);
    ASSERT_TRUE(expected) << error;
    HostArray made = transposed(counted(shape), order);
    EXPECT_TRUE(made == (*expected)[0]);
    EXPECT_TRUE(transposed(made, inverse(order)) == counted(shape));
  }
}

// Of more elements than the builder of a graph computes: a node would move them in every run.
TEST(Orders, NoLargeConstantBetweenTranspositionsIsMovedInEveryRun) {
  Builder b;
  ValueId y = b.turned(b.input({400, 260}), {1, 0});
  y = b.add("multiply", {}, {b.add("add", {}, {y, b.constant({260, 400})}), b.constant({260, 400})});
  expect_none_left(b.finish(b.turned(y, {1, 0})), join_transposes);
  Builder repeated;
  y = repeated.turned(repeated.input({2, 260, 300}), {0, 2, 1});
  y = repeated.add("add", {}, {y, repeated.spread(repeated.constant({1, 300, 260}), {2, 300, 260})});
  expect_none_left(repeated.finish(repeated.turned(y, {0, 2, 1})), join_transposes);
}

// What is added has the order of the convolution.
TEST(Orders, NoLargeConstantBehindAConvolutionIsMovedInEveryRun) {
  Builder b;
  ValueId y =
      b.add("add", {}, {b.conv(b.input({1, 1, 300, 250}), b.constant({2, 1, 3, 3})), b.constant({1, 2, 300, 250})});
  Graph last = remove_unused(channels_last(b.finish(y)));
  for (const Node& node : last.nodes) {
    bool is_of_constant = node.op == "transpose" && last.values[node.inputs[0]].data;
    EXPECT_FALSE(is_of_constant) << to_string(last);
  }
}

}  // namespace
}  // namespace tw::graph
