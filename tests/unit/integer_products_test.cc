// Products of integers times scales: that they multiply integers, of which types, and that the results are the same.
// Scales are powers of two, so that nothing is rounded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "dsl/base/text.h"
#include "graph/fusion.h"
#include "graph/passes/passes.h"
#include "support/graph_kit.h"
#include "support/run_groups.h"
#include "tests/unit/onnx_files.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

template <class Of>
HostArray filled(DType type, const Ints& shape, const Of& of) {
  HostArray array = HostArray::zeros(type, shape);
  for (i64 i = 0; i < array.elements(); ++i) array.set(i, static_cast<double>(of(i)));
  return array;
}
HostArray number(DType type, double value) {
  return filled(type, {}, [&](i64) { return value; });
}
// All bytes, if there are 256 elements or more.
HostArray bytes(DType type, const Ints& shape) {
  return filled(type, shape, [&](i64 i) { return (i * 37 + 11) % 256 - (type == DType::I8 ? 128 : 0); });
}
HostArray scales(const Ints& shape) {
  return filled(DType::F32, shape, [](i64 i) { return std::ldexp(1, static_cast<int>(-1 - i % 5)); });
}
const HostArray kHalf = number(DType::F32, 0.5);

class Builder : public tw::test::GraphKit {
 public:
  ValueId constant(HostArray data) { return builder.constant("c", std::move(data)); }
  // As DequantizeLinear is imported. The scale and the zero point, in i32, have shapes that broadcast.
  ValueId dequantized(ValueId q, const HostArray& scale, const std::optional<HostArray>& zero = {}) {
    const Ints shape = builder.type(q).shape;
    ValueId x = add("cast", {{"to", DType::I32}}, {q});
    if (zero) x = add("subtract", {}, {x, spread(constant(*zero), shape)});
    x = add("cast", {{"to", scale.dtype}}, {x});
    return add("multiply", {}, {x, spread(constant(scale), shape)});
  }
  ValueId conv_of_groups(ValueId x, ValueId weights, i64 groups) {
    return add("conv",
               {{"strides", Ints{2, 1}},
                {"before", Ints{1, 1}},
                {"after", Ints{1, 0}},
                {"dilations", Ints{1, 1}},
                {"groups", groups}},
               {x, weights});
  }
  ValueId matmul(ValueId a, ValueId b) { return add("matmul", {}, {a, b}); }
  ValueId reshaped(ValueId x, const Ints& shape) { return add("reshape", {{"R", shape}}, {x}); }
};

Graph integers(const Graph& graph) { return remove_unused(integer_products(graph)); }

// The types of the operands and of the result of each product.
std::string products_of(const Graph& graph) {
  std::vector<std::string> products;
  auto type = [&](ValueId value) { return name_of(graph.values[value].type.dtype); };
  for (const Node& node : graph.nodes) {
    if (node.op == "matmul" || node.op.starts_with("conv"))
      products.push_back(cat(type(node.inputs[0]), " * ", type(node.inputs[1]), " -> ", type(node.outputs[0])));
  }
  return join(products, ", ");
}
constexpr const char* kFloats = "f32 * f32 -> f32";

std::vector<HostArray> inputs_of(const Graph& graph) {
  std::vector<HostArray> inputs;
  for (ValueId input : graph.inputs)
    inputs.push_back(bytes(graph.values[input].type.dtype, graph.values[input].type.shape));
  return inputs;
}

void expect_equal(const Graph& graph, const Graph& other, const std::vector<HostArray>& inputs) {
  std::string error;
  auto expected = evaluate(graph, inputs, error), found = evaluate(other, inputs, error);
  ASSERT_TRUE(expected && found) << error;
  EXPECT_TRUE(*expected == *found) << to_string(graph) << "becomes\n" << to_string(other);
}

// The graph has one product, which becomes one of these types.
void expect_integers(const Graph& graph, const std::string& product) {
  EXPECT_EQ(products_of(graph), kFloats);
  const Graph made = integers(graph), simple = simplified(graph);
  EXPECT_EQ(products_of(made), product) << to_string(made);
  EXPECT_EQ(products_of(simple), product) << to_string(simple);
  const std::vector<HostArray> inputs = inputs_of(graph);
  expect_equal(graph, made, inputs);
  expect_equal(graph, simple, inputs);
  std::string error;
  auto expected = evaluate(simple, inputs, error);
  ASSERT_TRUE(expected) << error;
  EXPECT_TRUE(*expected == tw::test::run_groups(simple, fuse(simple), inputs)) << to_string(simple);
}
void expect_floats(const Graph& graph) {
  Graph made = integers(graph);
  EXPECT_EQ(products_of(made), kFloats) << to_string(made);
}

// With padding, which is 0 behind the zero point.
TEST(IntegerProducts, OfAConvolutionWithAScaleForEachChannel) {
  for (i64 groups : {1, 2}) {
    Builder b;
    ValueId x = b.dequantized(b.input({2, 8, 5, 5}, DType::U8), kHalf, number(DType::I32, 120));
    ValueId weights = b.constant(bytes(DType::I8, {6, 8 / groups, 3, 3}));
    ValueId y = b.conv_of_groups(x, b.dequantized(weights, scales({6, 1, 1, 1}), number(DType::I32, 0)), groups);
    y = b.add("add", {}, {y, b.spread(b.constant(scales({6, 1, 1})), {2, 6, 3, 4})});
    expect_integers(b.finish(b.add("relu", {}, {y})), "i32 * i8 -> i32");
  }
}

// One of 0 is none. Rows of a batch, which become rows of one matrix, and a scale for each column.
TEST(IntegerProducts, OfBytesWithoutAZeroPointReadBytes) {
  Builder b;
  ValueId x = b.dequantized(b.input({2, 3, 16}, DType::U8), kHalf, number(DType::I32, 0));
  ValueId weights = b.dequantized(b.constant(bytes(DType::I8, {16, 24})), scales({24}), number(DType::I32, 0));
  expect_integers(b.finish(b.matmul(x, b.spread(weights, {2, 16, 24}))), "u8 * i8 -> i32");
}

TEST(IntegerProducts, ScalesGoWhereElementsGo) {
  Builder b;
  ValueId x = b.dequantized(b.input({5, 16}, DType::I8), kHalf);
  ValueId weights = b.dequantized(b.constant(bytes(DType::I8, {24, 16})), scales({24, 1}));
  ValueId turned = b.add("transpose", {{"order", Ints{1, 2, 0}}}, {b.reshaped(weights, {24, 2, 8})});
  expect_integers(b.finish(b.matmul(x, b.reshaped(turned, {16, 24}))), "i8 * i8 -> i32");
  // Rows of 16 read as rows of 24: elements with the same scale no longer stand in one column.
  Builder other;
  x = other.dequantized(other.input({5, 16}, DType::I8), kHalf);
  weights = other.dequantized(other.constant(bytes(DType::I8, {24, 16})), scales({24, 1}));
  expect_floats(other.finish(other.matmul(x, other.reshaped(weights, {16, 24}))));
}

TEST(IntegerProducts, ScalesOfRowsAreTurnedWithThem) {
  auto product = [](const HostArray& scale) {
    Builder b;
    ValueId x = b.add("transpose", {{"order", Ints{1, 0}}}, {b.dequantized(b.input({16, 5}, DType::U8), scale)});
    return b.finish(b.matmul(x, b.dequantized(b.input({16, 24}, DType::I8), kHalf)));
  };
  expect_integers(product(scales({1, 5})), "u8 * i8 -> i32");
  expect_floats(product(scales({16, 1})));
}

TEST(IntegerProducts, ScalesOfABatchAndInFrontOfOne) {
  Builder b;
  ValueId x = b.dequantized(b.input({2, 3, 16}, DType::U8), scales({2, 1, 1}));
  expect_integers(b.finish(b.matmul(x, b.dequantized(b.input({2, 16, 24}, DType::I8), kHalf))), "u8 * i8 -> i32");
  Builder other;
  x = other.spread(other.dequantized(other.input({3, 16}, DType::U8), scales({3, 1})), {2, 3, 16});
  ValueId weights = other.dequantized(other.input({2, 16, 24}, DType::I8), kHalf);
  expect_integers(other.finish(other.matmul(x, weights)), "u8 * i8 -> i32");
}

// 200 becomes -56.
TEST(IntegerProducts, BytesThatWereOthersBeforeAreReadAsTheyAre) {
  Builder b;
  ValueId x = b.add("cast", {{"to", DType::I8}}, {b.input({16, 16}, DType::U8)});
  x = b.add("multiply", {}, {b.add("cast", {{"to", DType::F32}}, {x}), b.spread(b.constant(kHalf), {16, 16})});
  ValueId weights = b.dequantized(b.constant(bytes(DType::I8, {16, 24})), scales({24}));
  expect_integers(b.finish(b.matmul(x, weights)), "i8 * i8 -> i32");
}

// Each is twice as large as the one before, which it reads twice.
TEST(IntegerProducts, RangesOfAChainOfDifferencesAreComputedOnce) {
  Builder b;
  ValueId x = b.add("cast", {{"to", DType::I32}}, {b.input({5, 16}, DType::U8)});
  for (int i = 0; i < 60; ++i) x = b.add("subtract", {}, {x, x});
  x = b.add("multiply", {}, {b.add("cast", {{"to", DType::F32}}, {x}), b.spread(b.constant(kHalf), {5, 16})});
  expect_floats(b.finish(b.matmul(x, b.dequantized(b.input({16, 24}, DType::I8), kHalf))));
}

TEST(IntegerProducts, LongChainsOfMovementsStay) {
  auto product = [](int movements) {
    Builder b;
    ValueId x = b.dequantized(b.input({5, 16}, DType::U8), kHalf);
    for (int i = 0; i < movements; ++i) x = b.reshaped(x, i % 2 == 0 ? Ints{80} : Ints{5, 16});
    return products_of(integers(b.finish(b.matmul(x, b.dequantized(b.input({16, 24}, DType::I8), kHalf)))));
  };
  EXPECT_EQ(product(64), "u8 * i8 -> i32");
  EXPECT_EQ(product(66), kFloats);
}

// The types of a product that somebody chose are not those of integers.
TEST(IntegerProducts, NotWithTypesOfTheirOwn) {
  for (const char* argument : {"to", "acc"}) {
    Builder b;
    ValueId x = b.dequantized(b.input({5, 16}, DType::U8), kHalf);
    ValueId weights = b.dequantized(b.input({16, 24}, DType::I8), kHalf);
    expect_floats(b.finish(b.add("matmul", {{argument, DType::F32}}, {x, weights})));
  }
}

// Scales of so few elements are repeated while the graph is built. Nothing else is constant.
TEST(IntegerProducts, OfSmallMatricesWithAScaleForEachRowAndColumn) {
  Builder b;
  ValueId x = b.dequantized(b.input({4, 8}, DType::U8), scales({4, 1}), number(DType::I32, 3));
  ValueId y = b.dequantized(b.input({8, 6}, DType::I8), scales({6}));
  expect_integers(b.finish(b.matmul(x, y)), "i32 * i8 -> i32");
}

TEST(IntegerProducts, ScalesNeedNotBeConstant) {
  Builder b;
  ValueId q = b.add("cast", {{"to", DType::F32}}, {b.input({5, 16}, DType::U8)});
  ValueId scale = b.add("cast", {{"to", DType::F32}}, {b.input({1}, DType::U8)});
  ValueId x = b.add("multiply", {}, {b.spread(scale, {5, 16}), q});
  ValueId each = b.add("cast", {{"to", DType::F32}}, {b.input({24}, DType::U8)});
  ValueId weights = b.add("cast", {{"to", DType::F32}}, {b.input({16, 24}, DType::I8)});
  weights = b.add("multiply", {}, {weights, b.spread(each, {16, 24})});
  Graph graph = b.finish(b.matmul(x, weights)), made = integers(graph);
  EXPECT_EQ(products_of(made), "u8 * i8 -> i32") << to_string(made);
  std::vector<HostArray> inputs = {bytes(DType::U8, {5, 16}), filled(DType::U8, {1}, [](i64) { return 2; }),
                                   filled(DType::U8, {24}, [](i64 i) { return 1 << i % 6; }),
                                   bytes(DType::I8, {16, 24})};
  expect_equal(graph, made, inputs);
}

// Weights without their zero points are constants again, in the narrowest type that they fit into.
TEST(IntegerProducts, ZeroPointsOfConstantsAreTakenAwayOnce) {
  struct Case {
    HostArray zero;
    const char* product;
  };
  auto counted = [](i64 i) { return 100 + i % 3; };
  for (const Case& one :
       {Case{number(DType::I32, 0), "i8 * u8 -> i32"}, Case{number(DType::I32, 128), "i8 * i8 -> i32"},
        Case{number(DType::I32, 100), "i8 * i32 -> i32"}, Case{filled(DType::I32, {24}, counted), "i8 * i32 -> i32"},
        Case{filled(DType::I32, {16, 1}, counted), "i8 * i32 -> i32"}}) {
    Builder b;
    ValueId x = b.dequantized(b.input({5, 16}, DType::I8), kHalf);
    ValueId weights = b.dequantized(b.constant(bytes(DType::U8, {16, 24})), scales({24}), one.zero);
    Graph graph = b.finish(b.matmul(x, weights)), made = integers(graph);
    expect_integers(graph, one.product);
    for (const Node& node : made.nodes) EXPECT_NE(node.op, "subtract") << to_string(made);
  }
}

TEST(IntegerProducts, WhatOthersReadIsThereTooAndComputedOnce) {
  Builder b;
  ValueId x = b.dequantized(b.input({5, 16}, DType::U8), kHalf, number(DType::I32, 3));
  b.builder.output(b.add("relu", {}, {x}), "x");
  ValueId weights = b.dequantized(b.constant(bytes(DType::I8, {16, 24})), kHalf, number(DType::I32, 0));
  Graph graph = b.finish(b.matmul(x, weights)), made = integers(graph);
  expect_integers(graph, "i32 * i8 -> i32");
  EXPECT_EQ(std::ranges::count(made.nodes, "subtract", &Node::op), 1) << to_string(made);
}

TEST(IntegerProducts, NotWhereScalesDifferInASum) {
  auto product = [](const HostArray& left, const HostArray& right) {
    Builder b;
    ValueId x = b.dequantized(b.input({5, 16}, DType::U8), left);
    return b.finish(b.matmul(x, b.dequantized(b.input({16, 24}, DType::I8), right)));
  };
  EXPECT_EQ(products_of(integers(product(scales({5, 1}), scales({1, 24})))), "u8 * i8 -> i32");
  expect_floats(product(scales({16}), kHalf));
  expect_floats(product(kHalf, scales({16, 1})));
  expect_floats(product(kHalf, scales({16, 24})));
  auto convolution = [](const HostArray& left, const HostArray& right) {
    Builder b;
    ValueId x = b.dequantized(b.input({2, 8, 5, 5}, DType::U8), left);
    return b.finish(b.conv(x, b.dequantized(b.input({8, 8, 3, 3}, DType::I8), right)));
  };
  EXPECT_EQ(products_of(integers(convolution(scales({2, 1, 1, 1}), scales({8, 1, 1, 1})))), "u8 * i8 -> i32");
  expect_floats(convolution(scales({8, 1, 1}), kHalf));
  expect_floats(convolution(kHalf, scales({1, 8, 1, 1})));
  expect_floats(convolution(kHalf, scales({3, 1})));
}

// 255 * 255 * 33025 is less than 2^31.
TEST(IntegerProducts, NotWhereASumMayBeLargerThanI32) {
  auto product = [](i64 terms, DType right, const std::optional<HostArray>& zero = {}) {
    Builder b;
    ValueId x = b.dequantized(b.input({1, terms}, DType::U8), kHalf);
    return products_of(integers(b.finish(b.matmul(x, b.dequantized(b.input({terms, 1}, right), kHalf, zero)))));
  };
  EXPECT_EQ(product(33025, DType::U8), "u8 * u8 -> i32");
  EXPECT_EQ(product(33026, DType::U8), kFloats);
  EXPECT_EQ(product(50000, DType::I8), "u8 * i8 -> i32");
  EXPECT_EQ(product(50000, DType::I8, number(DType::I32, 100)), kFloats);
}

TEST(IntegerProducts, NotOfWhatIsNoSmallInteger) {
  auto product = [](DType left, const HostArray& right) {
    Builder b;
    return b.finish(b.matmul(b.dequantized(b.input({5, 16}, left), kHalf), b.constant(right)));
  };
  auto multiples = [](double step) {
    return filled(DType::F32, {16, 24}, [=](i64 i) { return step * static_cast<double>(i % 7 - 3); });
  };
  EXPECT_EQ(products_of(integers(product(DType::U8, multiples(1)))), "u8 * i8 -> i32");
  expect_floats(product(DType::U8, multiples(0.5)));
  expect_floats(product(DType::I32, multiples(1)));
  Builder b;
  const HostArray half = number(DType::F64, 0.5);
  ValueId x = b.dequantized(b.input({5, 16}, DType::U8), half), y = b.dequantized(b.input({16, 24}, DType::U8), half);
  EXPECT_EQ(products_of(integers(b.finish(b.matmul(x, y)))), "f64 * f64 -> f64");
}

// ---- ONNX files with QuantizeLinear and DequantizeLinear

class OnnxIntegerProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (onnx_operators().empty()) GTEST_SKIP() << "built without libonnx";
  }
};

// A model of `x`, in u8, with these constants, that gives `y`.
Graph imported(const std::string& nodes, const Ints& shape, const std::map<std::string, HostArray>& constants) {
  ImportOptions options;
  std::string values = test::part(11, test::value_info("x", DType::U8, shape)) + test::part(12, test::untyped("y"));
  for (const auto& [name, array] : constants) {
    values += test::part(11, test::value_info(name, array.dtype, array.shape));
    options.constants[name] = array;
  }
  auto made = test::import_bytes(test::model(nodes + test::part(2, "g") + values), options);
  auto* problems = std::get_if<ImportProblems>(&made);
  EXPECT_FALSE(problems) << join(problems ? problems->lines : std::vector<std::string>(), "\n");
  return problems ? Graph() : std::get<Graph>(made);
}
std::string step(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
                 const std::string& attributes = "") {
  return test::part(1, test::node(op, inputs, {output}, attributes));
}

TEST_F(OnnxIntegerProducts, AConvolutionBetweenThemIsAsQLinearConv) {
  const std::map<std::string, HostArray> constants = {{"x_scale", number(DType::F32, 1.0 / 16)},
                                                      {"x_zero", number(DType::U8, 120)},
                                                      {"w", bytes(DType::I8, {6, 8, 3, 3})},
                                                      {"w_scale", scales({6})},
                                                      {"w_zero", HostArray::zeros(DType::I8, {6})},
                                                      {"y_scale", number(DType::F32, 16)},
                                                      {"y_zero", number(DType::U8, 128)}};
  std::string pads = test::integers("pads", {1, 1, 1, 1});
  Graph graph =
      imported(step("DequantizeLinear", {"x", "x_scale", "x_zero"}, "a") +
                   step("DequantizeLinear", {"w", "w_scale", "w_zero"}, "b", test::integer("axis", 0)) +
                   step("Conv", {"a", "b"}, "c", pads) + step("QuantizeLinear", {"c", "y_scale", "y_zero"}, "y"),
               {2, 8, 5, 5}, constants);
  expect_integers(graph, "i32 * i8 -> i32");
  Graph linear = imported(
      step("QLinearConv", {"x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"}, "y", pads),
      {2, 8, 5, 5}, constants);
  expect_equal(linear, integers(graph), inputs_of(linear));
}

TEST_F(OnnxIntegerProducts, OfMatricesWithScalesForColumns) {
  struct Case {
    const char* op;
    Ints x, weights;
    i64 axis;
    std::string attributes;
  };
  for (const Case& one : {Case{"MatMul", {2, 3, 16}, {16, 24}, -1, ""}, Case{"MatMul", {6, 16}, {16, 24}, 1, ""},
                          Case{"Gemm", {6, 16}, {24, 16}, 0, test::integer("transB", 1)}}) {
    const std::map<std::string, HostArray> constants = {{"x_scale", kHalf},
                                                        {"x_zero", number(DType::U8, 0)},
                                                        {"w", bytes(DType::I8, one.weights)},
                                                        {"w_scale", scales({24})},
                                                        {"w_zero", HostArray::zeros(DType::I8, {24})}};
    Graph graph =
        imported(step("DequantizeLinear", {"x", "x_scale", "x_zero"}, "a") +
                     step("DequantizeLinear", {"w", "w_scale", "w_zero"}, "b", test::integer("axis", one.axis)) +
                     step(one.op, {"a", "b"}, "y", one.attributes),
                 one.x, constants);
    SCOPED_TRACE(one.op);
    expect_integers(graph, "u8 * i8 -> i32");
  }
}

// Rows of a batch are joined for the product: the scales repeat (axis 1), or several rows in a row have one (axis 0).
TEST_F(OnnxIntegerProducts, OfRowsOfABatchWithScalesOfTheirOwn) {
  for (i64 axis : {0, 1, 2}) {
    const i64 extent = Ints{2, 3, 16}[static_cast<std::size_t>(axis)];
    const std::map<std::string, HostArray> constants = {{"x_scale", scales({extent})},
                                                        {"x_zero", HostArray::zeros(DType::U8, {extent})},
                                                        {"w", bytes(DType::I8, {16, 24})},
                                                        {"w_scale", scales({24})},
                                                        {"w_zero", HostArray::zeros(DType::I8, {24})}};
    Graph graph = imported(step("DequantizeLinear", {"x", "x_scale", "x_zero"}, "a", test::integer("axis", axis)) +
                               step("DequantizeLinear", {"w", "w_scale", "w_zero"}, "b", test::integer("axis", 1)) +
                               step("MatMul", {"a", "b"}, "y"),
                           {2, 3, 16}, constants);
    SCOPED_TRACE(axis);
    if (axis < 2)
      expect_integers(graph, "u8 * i8 -> i32");
    else
      expect_floats(graph);
  }
}

// Three dimensions are joined, then split in another way; the scales are those of the middle one.
TEST(IntegerProducts, ScalesOfADimensionThatWasJoined) {
  auto product = [](const Ints& parted) {
    Builder b;
    ValueId x = b.dequantized(b.input({2, 3, 2, 8}, DType::U8), scales({3, 1, 1}));
    x = b.reshaped(b.reshaped(b.reshaped(x, {12, 8}), parted), {12, 8});
    return b.finish(b.matmul(x, b.dequantized(b.input({8, 6}, DType::I8), kHalf)));
  };
  expect_integers(product({2, 6, 8}), "u8 * i8 -> i32");
  expect_integers(product({96}), "u8 * i8 -> i32");
  expect_floats(product({4, 3, 8}));  // four rows have two scales
}

}  // namespace
}  // namespace tw::graph
