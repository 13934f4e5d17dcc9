// Products of ONNX files: a batch times one matrix is one product of all rows, and vectors, batches and matrices of all
// ranks give what loops give.
#include <gtest/gtest.h>

#include <algorithm>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "graph/fusion.h"
#include "graph/passes/passes.h"
#include "support/run_groups.h"
#include "support/support.h"
#include "tests/unit/onnx_files.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

class OnnxProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (onnx_operators().empty()) GTEST_SKIP() << "built without libonnx";
  }
};

struct Operand {
  std::string name;
  HostArray data;
  bool is_constant = false;
};

std::string step(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
  return test::part(1, test::node(op, inputs, {output}));
}

// A model with these operands that gives `y`.
Graph imported(const std::string& nodes, const std::vector<Operand>& operands) {
  ImportOptions options;
  std::string values = test::part(12, test::untyped("y"));
  for (const Operand& operand : operands) {
    values += test::part(11, test::value_info(operand.name, operand.data.dtype, operand.data.shape));
    if (operand.is_constant) options.constants[operand.name] = operand.data;
  }
  auto made = test::import_bytes(test::model(nodes + test::part(2, "g") + values), options);
  auto* problems = std::get_if<ImportProblems>(&made);
  EXPECT_FALSE(problems) << join(problems ? problems->lines : std::vector<std::string>(), "\n");
  return problems ? Graph() : std::get<Graph>(made);
}

// Whole numbers, so that all types sum them up exactly.
HostArray numbers(DType type, const Ints& shape, i64 k = 1) {
  HostArray array = HostArray::zeros(type, shape);
  for (i64 i = 0; i < array.elements(); ++i)
    array.set(i, static_cast<double>((i * 7 + k * 5) % 9 - (type == DType::U8 ? 0 : 4)));
  return array;
}
Operand x(const Ints& shape, DType type = DType::F32) { return {"x", numbers(type, shape, 1)}; }
Operand w(const Ints& shape, bool is_constant = false, DType type = DType::F32) {
  return {"w", numbers(type, shape, 2), is_constant};
}

std::vector<HostArray> inputs_of(const std::vector<Operand>& operands) {
  std::vector<HostArray> inputs;
  for (const Operand& operand : operands) {
    if (!operand.is_constant) inputs.push_back(operand.data);
  }
  return inputs;
}

// The shapes of the operands of each product.
std::string products_of(const Graph& graph) {
  std::vector<std::string> products;
  auto shape = [&](ValueId value) { return cat("[", join(graph.values[value].type.shape, ", "), "]"); };
  for (const Node& node : graph.nodes) {
    if (node.op == "matmul") products.push_back(cat(shape(node.inputs[0]), " * ", shape(node.inputs[1])));
  }
  return join(products, ", ");
}
bool has_broadcast(const Graph& graph) { return std::ranges::count(graph.nodes, "broadcast", &Node::op) > 0; }

TEST_F(OnnxProducts, ManyRowsTimesOneMatrixAreOneProductWithoutCopies) {
  struct Case {
    std::string op;
    Operand left, right;
    std::string products;
    Ints result;
  };
  for (const Case& one : {
           Case{"MatMul", x({2, 3, 5, 7}), w({7, 4}), "[30, 7] * [7, 4]", {2, 3, 5, 4}},
           Case{"MatMul", x({2, 3, 5, 7}), w({7, 4}, true), "[30, 7] * [7, 4]", {2, 3, 5, 4}},
           Case{"MatMul", x({2, 3, 5, 7}), w({1, 1, 7, 4}, true), "[30, 7] * [7, 4]", {2, 3, 5, 4}},
           Case{"MatMul", x({5, 7}), w({1, 7, 4}, true), "[5, 7] * [7, 4]", {1, 5, 4}},
           Case{"MatMul", x({1, 5, 7}), w({7, 4}), "[5, 7] * [7, 4]", {1, 5, 4}},
           Case{"MatMul", x({6, 1, 7}), w({7, 4}), "[6, 7] * [7, 4]", {6, 1, 4}},
           Case{"MatMul", x({2, 3, 7}), w({7}), "[6, 7] * [7, 1]", {2, 3}},
           Case{"MatMul", x({5, 7}), w({7, 4}), "[5, 7] * [7, 4]", {5, 4}},
           Case{"Gemm", x({5, 7}), w({7, 4}), "[5, 7] * [7, 4]", {5, 4}},
           Case{"MatMulInteger", x({2, 3, 7}, DType::U8), w({7, 4}, true, DType::I8), "[6, 7] * [7, 4]", {2, 3, 4}},
       }) {
    Graph graph = imported(step(one.op, {"x", "w"}, "y"), {one.left, one.right});
    EXPECT_EQ(products_of(graph), one.products) << to_string(graph);
    EXPECT_FALSE(has_broadcast(graph)) << to_string(graph);
    ASSERT_EQ(graph.outputs.size(), 1u);
    EXPECT_EQ(graph.values[graph.outputs[0]].type.shape, one.result) << to_string(graph);
  }
}

// Of both operands, or of the right one alone.
TEST_F(OnnxProducts, MatricesOfABatchStayApart) {
  auto products = [](const Ints& left, const Ints& right) {
    return products_of(imported(step("MatMul", {"x", "w"}, "y"), {x(left), w(right)}));
  };
  EXPECT_EQ(products({2, 3, 5, 7}, {2, 3, 7, 4}), "[2, 3, 5, 7] * [2, 3, 7, 4]");
  EXPECT_EQ(products({2, 3, 5, 7}, {3, 7, 4}), "[2, 3, 5, 7] * [2, 3, 7, 4]");
  EXPECT_EQ(products({5, 7}, {3, 7, 4}), "[3, 5, 7] * [3, 7, 4]");
  EXPECT_EQ(products({1, 1, 5, 7}, {1, 1, 7, 4}), "[1, 1, 5, 7] * [1, 1, 7, 4]");
}

// Keys and values that all heads share, and one head of a batch of 1: both products keep the batch of the softmax.
TEST_F(OnnxProducts, AttentionStaysOneKernel) {
  for (i64 heads : {1, 3}) {
    const std::vector<Operand> operands{{"q", numbers(DType::F32, {1, heads, 40, 16})},
                                        {"k", numbers(DType::F32, {1, 1, 16, 48})},
                                        {"v", numbers(DType::F32, {1, 1, 48, 16})}};
    std::string nodes = step("MatMul", {"q", "k"}, "s") + step("Softmax", {"s"}, "p") + step("MatMul", {"p", "v"}, "y");
    Graph graph = imported(nodes, operands), simple = simplified(graph);
    EXPECT_EQ(products_of(simple), cat("[1, ", heads, ", 40, 16] * [1, ", heads, ", 16, 48], [1, ", heads,
                                       ", 40, 48] * [1, ", heads, ", 48, 16]"))
        << to_string(simple);
    EXPECT_EQ(fuse(simple).groups.size(), 1u) << to_string(simple);
  }
}

TEST_F(OnnxProducts, WhatFollowsRowsTimesOneMatrixIsInTheSameKernel) {
  const std::vector<Operand> operands{
      x({5, 1, 8}), w({8, 16}, true), {"b", numbers(DType::F32, {16}), true}, {"r", numbers(DType::F32, {5, 1, 16})}};
  Graph graph = imported(step("MatMul", {"x", "w"}, "p") + step("Add", {"p", "b"}, "q") + step("Add", {"q", "r"}, "s") +
                             step("Relu", {"s"}, "y"),
                         operands);
  Graph simple = simplified(graph);
  FusedGraph fused = fuse(simple);
  ASSERT_EQ(fused.groups.size(), 1u) << to_string(simple);
  EXPECT_EQ(fused.groups[0].name, "matmul_add_add_relu");
  EXPECT_EQ(simple.values[fused.groups[0].outputs[0]].type.shape, (Ints{5, 16}));
  std::string error;
  auto expected = evaluate(graph, inputs_of(operands), error);
  ASSERT_TRUE(expected) << error;
  EXPECT_TRUE(*expected == tw::test::run_groups(simple, fused, inputs_of(operands))) << to_string(simple);
}

// As numpy.matmul.
HostArray by_loops(const HostArray& a, const HostArray& b, DType to) {
  Ints left = a.shape, right = b.shape, batch;
  const bool is_row = left.size() == 1, is_column = right.size() == 1;
  if (is_row) left.insert(left.begin(), 1);
  if (is_column) right.push_back(1);
  const i64 m = left.end()[-2], k = left.back(), n = right.back();
  while (left.size() < right.size()) left.insert(left.begin(), 1);
  while (right.size() < left.size()) right.insert(right.begin(), 1);
  i64 batches = 1;
  for (std::size_t d = 0; d + 2 < left.size(); ++d) {
    batch.push_back(std::max(left[d], right[d]));
    batches *= batch.back();
  }
  // The number of an operand's matrix for a place of the batch.
  auto matrix = [&](const Ints& shape, i64 place) {
    i64 number = 0, step = 1;
    for (std::size_t d = batch.size(); d-- > 0; place /= batch[d], step *= shape[d])
      number += place % batch[d] % shape[d] * step;
    return number;
  };
  Ints result = batch;
  if (!is_row) result.push_back(m);
  if (!is_column) result.push_back(n);
  HostArray out = HostArray::zeros(to, result);
  for (i64 place = 0; place < batches; ++place) {
    for (i64 i = 0; i < m * n; ++i) {
      double sum = 0;
      for (i64 j = 0; j < k; ++j)
        sum += a.get((matrix(left, place) * m + i / n) * k + j) * b.get((matrix(right, place) * k + j) * n + i % n);
      out.set(place * m * n + i, sum);
    }
  }
  return out;
}

struct Drawn {
  std::string op;
  Operand left, right;
  DType result;
};

// Operands of up to five dimensions. Each has some of the last dimensions of a batch, some of them with extent 1.
Drawn drawn(Rng& rng) {
  struct Kind {
    const char* op;
    DType left, right, result;
  };
  const Kind kinds[] = {{"MatMul", DType::F32, DType::F32, DType::F32},
                        {"MatMul", DType::F64, DType::F64, DType::F64},
                        {"MatMul", DType::I32, DType::I32, DType::I32},
                        {"MatMulInteger", DType::U8, DType::I8, DType::I32},
                        {"MatMulInteger", DType::I8, DType::U8, DType::I32}};
  const Kind& kind = kinds[rng.below(std::ssize(kinds))];
  auto extent = [&] { return rng.below(4) == 0 ? i64{1} : 1 + static_cast<i64>(rng.below(4)); };
  Ints batch;
  for (i64 d = static_cast<i64>(rng.below(4)); d > 0; --d) batch.push_back(extent());
  const i64 m = extent(), k = extent(), n = extent();
  auto shape = [&](i64 rows, i64 columns) {
    if (rng.below(8) == 0) return Ints{k};
    Ints own(batch.end() - static_cast<i64>(rng.below(std::ssize(batch) + 1)), batch.end());
    for (i64& one : own) one = rng.below(3) == 0 ? 1 : one;
    own.insert(own.end(), {rows, columns});
    return own;
  };
  const Ints left = shape(m, k), right = shape(k, n);
  return {kind.op, x(left, kind.left), w(right, rng.below(2) == 0, kind.right), kind.result};
}

TEST_F(OnnxProducts, OfRandomShapesAreThoseOfLoops) {
  tw::test::Seeds seeds = tw::test::seeds_from_environment(150);
  for (i64 seed = seeds.first; seed < seeds.end && !HasFailure(); ++seed) {
    Rng rng(static_cast<u64>(seed));
    const Drawn one = drawn(rng);
    Graph graph = imported(step(one.op, {"x", "w"}, "y"), {one.left, one.right}), simple = simplified(graph);
    const std::string what = cat("TW_SEED=", seed, "\n", to_string(graph), "becomes\n", to_string(simple));
    const std::vector<HostArray> inputs = inputs_of({one.left, one.right});
    const std::vector<HostArray> expected{by_loops(one.left.data, one.right.data, one.result)};
    std::string error;
    auto found = evaluate(graph, inputs, error), found_simple = evaluate(simple, inputs, error);
    ASSERT_TRUE(found && found_simple) << error << what;
    EXPECT_TRUE(*found == expected) << what;
    EXPECT_TRUE(*found_simple == expected) << what;
    EXPECT_TRUE(tw::test::run_groups(simple, fuse(simple), inputs) == expected) << what;
    EXPECT_FALSE(has_broadcast(graph) && one.right.data.shape.size() <= 2) << what;
  }
}

}  // namespace
}  // namespace tw::graph
