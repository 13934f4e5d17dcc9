// Graphs: the operators as text, graphs that are built of them, and what the interpreter makes of these.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include "dsl/base/text.h"

namespace tw::graph {
namespace {

TEST(GraphOperators, HaveNoErrors) {
  Source source{"graph/operators", operators_text()};
  Diagnostics diagnostics(source);
  parse_workloads(source, diagnostics);
  EXPECT_EQ(diagnostics.render(), "");
}

HostArray numbers(const std::vector<i64>& shape, const std::vector<double>& values) {
  HostArray data = HostArray::zeros(DType::F32, shape);
  for (std::size_t i = 0; i < values.size(); ++i) data.set(static_cast<i64>(i), values[i]);
  return data;
}

TEST(GraphBuilder, ConstantsOfConstantsAreComputedWhereTheyStaySmall) {
  GraphBuilder builder("g");
  std::string error;
  ValueId small = builder.constant("c", numbers({2, 3}, {1, 2, 3, 4, 5, 6}));
  auto turned = builder.add("transpose", {{"order", std::vector<i64>{1, 0}}}, {small}, "t", error);
  ASSERT_TRUE(turned) << error;
  ASSERT_TRUE(builder.data((*turned)[0]));
  EXPECT_EQ(builder.data((*turned)[0])->get(1), 4);
  // What a kernel would rather read as it is.
  auto wide = builder.add("broadcast", {{"R", std::vector<i64>{100, 2, 3}}}, {small}, "w", error);
  ASSERT_TRUE(wide) << error;
  EXPECT_FALSE(builder.data((*wide)[0]));
}

// Else a file could keep its import busy for hours.
TEST(GraphBuilder, ConstantsThatTakeLongStayOperators) {
  GraphBuilder builder("g");
  std::string error;
  ValueId a = builder.constant("a", HostArray::zeros(DType::F32, {256, 4096}));
  ValueId b = builder.constant("b", HostArray::zeros(DType::F32, {4096, 256}));
  auto product = builder.add("matmul", {}, {a, b}, "p", error);
  ASSERT_TRUE(product) << error;
  EXPECT_FALSE(builder.data((*product)[0]));
  EXPECT_EQ(builder.finish().nodes.size(), 1u);
}

TEST(GraphBuilder, NamesAreUnique) {
  GraphBuilder builder("g");
  std::vector<ValueId> values;
  for (const char* name : {"x", "x_1", "x", "x", "", ""}) values.push_back(builder.input(name, {DType::F32, {1}}));
  Graph graph = builder.finish();
  std::vector<std::string> names;
  for (ValueId value : values) names.push_back(graph.values[value].name);
  EXPECT_EQ(join(names, " "), "x x_1 x_2 x_3 v v_1");
}

TEST(GraphBuilder, SaysWhatAnOperatorDoesNotTake) {
  GraphBuilder builder("g");
  std::string error;
  ValueId a = builder.input("a", {DType::F32, {2, 3}}), b = builder.input("b", {DType::F32, {3}});
  EXPECT_FALSE(builder.add("add", {}, {a, b}, "y", error));
  EXPECT_EQ(error, "expected f32[2, 3] for `B`, found f32[3]");
  EXPECT_FALSE(builder.add("no_such", {}, {a}, "y", error));
  EXPECT_EQ(error, "unknown workload `no_such`");
  EXPECT_FALSE(builder.add("reshape", {{"R", std::vector<i64>{7}}}, {a}, "y", error));
  EXPECT_NE(error.find("the shapes have different numbers of elements"), std::string::npos) << error;
}

TEST(GraphEvaluation, GoesThroughTheNodesAndNamesTheOneThatFails) {
  GraphBuilder builder("g");
  std::string error;
  ValueId x = builder.input("x", {DType::I64, {2}}), by = builder.input("by", {DType::I64, {2}});
  auto parts = builder.add("divide", {}, {x, by}, "parts", error);
  ASSERT_TRUE(parts) << error;
  auto twice = builder.add("add", {}, {(*parts)[0], (*parts)[0]}, "twice", error);
  ASSERT_TRUE(twice) << error;
  builder.output((*twice)[0], "y");
  Graph graph = builder.finish();
  HostArray divided = HostArray::zeros(DType::I64, {2}), divisor = divided;
  divided.set(0, 14), divided.set(1, 12), divisor.set(0, 2), divisor.set(1, 3);
  auto found = evaluate(graph, {divided, divisor}, error);
  ASSERT_TRUE(found) << error;
  EXPECT_EQ((*found)[0].get(0), 14);
  EXPECT_EQ((*found)[0].get(1), 8);
  EXPECT_FALSE(evaluate(graph, {divided, HostArray::zeros(DType::I32, {2})}, error));
  EXPECT_EQ(error.substr(0, 7), "parts: ") << error;
}

}  // namespace
}  // namespace tw::graph
