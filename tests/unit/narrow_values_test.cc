// Graphs with values in 16 bits: which values are narrow, what they compute, and that a kernel which computes something
// else is noticed however many roundings there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "dsl/base/text.h"
#include "graph/fusion.h"
#include "graph/passes/passes.h"
#include "runtime/export/model_library.h"
#include "sampler/models/check_model.h"
#include "sampler/models/check_steps.h"
#include "sampler/models/compile_model.h"
#include "support/graph_kit.h"
#include "support/random_graph.h"
#include "support/run_groups.h"
#include "support/support.h"

namespace tw {
namespace {

using graph::FusedGraph;
using graph::Graph;
using graph::Group;
using graph::ValueId;
using Ints = std::vector<i64>;

class Builder : public test::GraphKit {
 public:
  ValueId random(const Ints& shape) {
    HostArray array = HostArray::zeros(DType::F32, shape);
    for (i64 i = 0; i < array.elements(); ++i) array.set(i, 0.3 * rng_.normal());
    return builder.constant("c", std::move(array));
  }
  ValueId scalar(double value) {
    HostArray array = HostArray::zeros(DType::F32, {});
    array.set(0, value);
    return builder.constant("s", std::move(array));
  }
  ValueId conv(ValueId x, ValueId weights) {
    return add("conv",
               {{"strides", Ints{1, 1}},
                {"before", Ints{1, 1}},
                {"after", Ints{1, 1}},
                {"dilations", Ints{1, 1}},
                {"groups", i64{1}}},
               {x, weights});
  }

 private:
  Rng rng_{7};
};

// The types of what kernels give, in order.
std::vector<DType> stored_types(const Graph& graph) {
  std::vector<DType> types;
  for (const Group& group : graph::fuse(graph).groups) {
    for (ValueId output : group.outputs) types.push_back(graph.values[output].type.dtype);
  }
  return types;
}

// The types of constants with so many dimensions that are read.
std::vector<DType> constant_types(const Graph& graph, std::size_t rank) {
  std::vector<DType> types;
  for (const graph::Value& value : graph.values) {
    if (value.data && value.type.shape.size() == rank) types.push_back(value.type.dtype);
  }
  return types;
}

Graph narrow(const Graph& graph, DType type = DType::BF16) { return graph::simplified(graph, {}, type); }

TEST(NarrowValues, WeightsAndWhatKernelsHandOnAreNarrow) {
  Builder b;
  ValueId x = b.input({1, 4, 6, 6});
  ValueId y = b.conv(x, b.random({8, 4, 3, 3}));
  y = b.add("add", {}, {y, b.spread(b.random({8, 1, 1}), {1, 8, 6, 6})});
  y = b.add("relu", {}, {y});
  ValueId z = b.conv(y, b.random({8, 8, 3, 3}));
  z = b.add("relu", {}, {b.add("add", {}, {z, y})});
  z = b.conv(z, b.random({2, 8, 3, 3}));
  Graph plain = b.finish(z), wide = graph::simplified(plain);
  for (DType type : {DType::BF16, DType::F16}) {
    Graph made = narrow(plain, type);
    EXPECT_EQ(made.values[made.inputs[0]].type.dtype, DType::F32);
    EXPECT_EQ(made.values[made.outputs[0]].type.dtype, DType::F32);
    std::vector<DType> stored = stored_types(made), weights = constant_types(made, 4);
    ASSERT_EQ(stored.size(), stored_types(wide).size()) << "conversions are in the kernels" << to_string(made);
    EXPECT_EQ(stored[0], type);
    EXPECT_EQ(stored[1], type);
    EXPECT_EQ(stored.back(), DType::F32) << "the model's output";
    EXPECT_EQ(std::ranges::count(weights, type), 3) << to_string(made);
    for (DType bias : constant_types(made, 1)) EXPECT_EQ(bias, DType::F32) << "of the shift";
    // Inside of a kernel nothing is rounded: what is narrow is stored, a view of it, or a constant.
    FusedGraph fused = graph::fuse(made);
    for (const Group& group : fused.groups) {
      for (u32 n : group.nodes) {
        for (ValueId output : made.nodes[n].outputs) {
          bool is_stored = std::ranges::count(group.outputs, output) > 0;
          EXPECT_TRUE(is_stored || !is_half(made.values[output].type.dtype)) << made.values[output].name;
        }
      }
    }
  }
}

TEST(NarrowValues, StatisticsStayWide) {
  Builder b;
  ValueId x = b.add("matmul", {}, {b.input({16, 32}), b.random({32, 64})});
  ValueId sums = b.add("reduce_sum", {{"axes", Ints{1}}}, {x});
  ValueId wide = b.spread(b.add("reshape", {{"R", Ints{16, 1}}}, {sums}), {16, 64});
  Graph made = narrow(b.finish(b.add("divide", {}, {x, wide})));
  EXPECT_EQ(stored_types(made), (std::vector<DType>{DType::BF16, DType::F32, DType::F32})) << to_string(made);
}

// The places of what is largest, or the parts of a number that becomes an index.
TEST(NarrowValues, WhatIndicesAreMadeOfStaysWide) {
  Builder b;
  ValueId table = b.random({64, 8});
  ValueId x = b.add("matmul", {}, {b.input({4, 300}), b.random({300, 64})});
  ValueId places = b.add("argmax", {{"axis", i64{1}}}, {b.add("softmax", {{"axis", i64{1}}}, {x})});
  ValueId rows = b.add("gather", {{"axis", i64{0}}}, {table, places});
  ValueId y = b.add("matmul", {}, {rows, b.random({8, 16})});
  Graph made = narrow(b.finish(y));
  // product, softmax, argmax, gather and product
  EXPECT_EQ(stored_types(made), (std::vector<DType>{DType::F32, DType::F32, DType::I64, DType::BF16, DType::F32}))
      << to_string(made);
  EXPECT_EQ(std::ranges::count(constant_types(made, 2), DType::BF16), 3) << "the table, too";
}

TEST(NarrowValues, WhatTheModelMakesOfIntegersStaysWide) {
  Builder b;
  ValueId mask = b.builder.input("mask", {DType::I64, {4, 1}});
  ValueId x = b.builder.input("x", {DType::F32, {4, 32}});
  ValueId numbers = b.add("cast", {{"to", DType::F32}}, {mask});
  numbers = b.add("multiply", {}, {numbers, b.spread(b.scalar(-1000), {4, 1})});
  ValueId y = b.add("add", {}, {b.add("matmul", {}, {x, b.random({32, 32})}), b.spread(numbers, {4, 32})});
  ValueId z = b.add("add", {}, {b.add("matmul", {}, {y, b.random({32, 32})}), b.spread(numbers, {4, 32})});
  Graph made = narrow(b.finish(z));
  EXPECT_EQ(stored_types(made), (std::vector<DType>{DType::F32, DType::BF16, DType::F32})) << to_string(made);
}

// Rounded to bf16 the lowest f32 is -inf, and softmax of nothing else is NaN.
TEST(NarrowValues, ARowThatIsMaskedHasNumbers) {
  for (DType type : {DType::BF16, DType::F16}) {
    Builder b;
    ValueId mask = b.builder.input("mask", {DType::Bool, {4, 32}});
    ValueId x = b.builder.input("x", {DType::F32, {4, 32}});
    ValueId low = b.spread(b.scalar(-3.4028234663852886e38), {4, 32});
    ValueId y = b.add("where", {}, {mask, b.add("matmul", {}, {x, b.random({32, 32})}), low});
    Graph made =
        narrow(b.finish(b.add("matmul", {}, {b.add("softmax", {{"axis", i64{1}}}, {y}), b.random({32, 8})})), type);
    EXPECT_EQ(stored_types(made)[0], type) << to_string(made);
    std::vector<HostArray> inputs{HostArray::zeros(DType::Bool, {4, 32}), random_inputs(made, 1)[1]};
    std::string error;
    auto found = evaluate(made, inputs, error);
    ASSERT_TRUE(found) << error;
    for (i64 i = 0; i < (*found)[0].elements(); ++i) EXPECT_TRUE(std::isfinite((*found)[0].get(i)));
  }
}

// A cell's own state goes from step to step.
TEST(NarrowValues, KernelsWithSeveralResultsKeepTheirTypes) {
  Builder b;
  ValueId c = b.builder.input("c", {DType::F32, {2, 8}}), g = b.builder.input("g", {DType::F32, {2, 32}});
  std::string error;
  std::vector<ValueId> states{c, c};
  for (int step = 0; step < 2; ++step) {
    ValueId r = b.add("matmul", {}, {states[0], b.random({8, 32})});
    auto made =
        b.builder.add("lstm_cell", {{"f", i64{0}}, {"g", i64{1}}, {"h", i64{1}}}, {states[1], g, r}, "cell", error);
    ASSERT_TRUE(made) << error;
    states = *made;
  }
  Graph made = narrow(b.finish(states[0]));
  std::vector<DType> stored = stored_types(made);
  EXPECT_EQ(std::ranges::count(stored, DType::BF16), 2) << "the products " << to_string(made);
  EXPECT_EQ(std::ranges::count(stored, DType::F32), 4);
}

TEST(NarrowValues, AGraphWithoutFloatsIsAsItWas) {
  Builder b;
  ValueId x = b.input({4, 4}, DType::I64);
  Graph plain = b.finish(b.add("add", {}, {x, x}));
  EXPECT_EQ(to_string(narrow(plain)), to_string(graph::simplified(plain)));
}

TEST(NarrowValues, RandomGraphsComputeNearlyTheSame) {
  test::Seeds seeds = test::seeds_from_environment(200);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    Graph graph = test::random_graph(Rng(static_cast<u64>(seed)));
    std::vector<HostArray> inputs = test::random_arrays(graph, Rng(static_cast<u64>(seed), 1));
    std::string error;
    Graph simple = graph::simplified(graph), made = narrow(graph);
    auto expected = evaluate(simple, inputs, error), found = evaluate(made, inputs, error);
    ASSERT_TRUE(expected && found) << error;
    std::string what = cat("TW_SEED=", seed, "\n", to_string(simple), "becomes\n", to_string(made));
    EXPECT_EQ(stored_types(made).size(), stored_types(simple).size()) << what;
    std::vector<HostArray> fused = test::run_groups(made, graph::fuse(made), inputs);
    for (std::size_t i = 0; i < expected->size(); ++i) {
      EXPECT_EQ((*found)[i].dtype, (*expected)[i].dtype);
      EXPECT_EQ((*found)[i].bytes, fused[i].bytes) << "fused, " << what;
      ModelDifference off = difference((*expected)[i], (*found)[i]);
      if (off.relative > 0.02) printf("%ld %zu: %g %g\n", seed, i, off.relative, off.largest);
    }
  }
}

}  // namespace
}  // namespace tw
