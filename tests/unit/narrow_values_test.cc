// Graphs with values in 16 bits: which values are narrow, what they compute, and that a kernel which computes something
// else is noticed however many roundings there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

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

TEST(NarrowValues, ATypeThatAProductHasStays) {
  Builder b;
  Graph made = narrow(b.finish(b.add("matmul", {{"to", DType::F32}}, {b.input({16, 32}), b.random({32, 64})})));
  ASSERT_EQ(std::ranges::count(made.nodes, "matmul", &graph::Node::op), 1) << to_string(made);
  const graph::Node& product = *std::ranges::find(made.nodes, "matmul", &graph::Node::op);
  EXPECT_EQ(made.values[product.inputs[1]].type.dtype, DType::BF16) << to_string(made);
  EXPECT_EQ(std::ranges::count(product.arguments, "to", &WorkloadArgument::name), 1) << to_string(made);
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
  // product, softmax, argmax, and a product that gathers its rows
  EXPECT_EQ(stored_types(made), (std::vector<DType>{DType::F32, DType::F32, DType::I64, DType::F32}))
      << to_string(made);
  EXPECT_EQ(std::ranges::count(constant_types(made, 2), DType::BF16), 3) << "the table, too";
}

// As of words and of places in a text, which are added. Smaller ones are computed when the graph is built.
TEST(NarrowValues, TablesOfRowsAreNarrow) {
  Builder b;
  ValueId words = b.builder.input("words", {DType::I64, {16}}), places = b.builder.input("places", {DType::I64, {16}});
  ValueId x = b.add("gather", {{"axis", i64{0}}}, {b.random({3000, 32}), words});
  x = b.add("add", {}, {x, b.add("gather", {{"axis", i64{0}}}, {b.random({2200, 32}), places})});
  Graph made = narrow(b.finish(b.add("matmul", {}, {x, b.random({32, 16})})));
  EXPECT_EQ(constant_types(made, 2), (std::vector<DType>(3, DType::BF16))) << to_string(made);
  EXPECT_EQ(stored_types(made), (std::vector<DType>{DType::BF16, DType::F32})) << to_string(made);
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
      EXPECT_TRUE(off.largest < 0.02 || !off.is_wrong(0.1)) << off.relative << ", output " << i << " of " << what;
    }
  }
}

// ---- compiled

// A network of products and a convolution, and what its library gives.
class CompiledNetwork {
 public:
  explicit CompiledNetwork(DType type, const Graph& network = plain_network()) : made_(narrow(network, type)) {
    target_.threads = 1;
    tasks_ = model_tasks(made_, target_);
    auto plan = compile_model(made_, tasks_, {.library = "net", .target = target_}, error_);
    EXPECT_TRUE(plan) << error_;
    if (plan) plan_ = std::move(*plan);
    inputs_ = random_inputs(made_, 3);
  }

  const ExportPlan& plan() const { return plan_; }
  const Graph& graph() const { return made_; }
  const graph::FusedGraph& fused() const { return tasks_.fused; }

  // Of a library as `plan` has it; `change`: what its outputs are taken for.
  StepCheck check(const ExportPlan& plan, const std::function<void(HostArray&)>& change = {}) const {
    test::TemporaryDirectory folder;
    EXPECT_EQ(write_export(plan, folder.path()).error, "");
    std::string error;
    std::optional<ModelLibrary> library = open_model(folder.path(), error);
    EXPECT_TRUE(library) << error;
    if (!library) return {};
    ModelRun run = run_model(*library, inputs_, 1);
    EXPECT_EQ(run.error, "");
    if (change) change(run.outputs[0]);
    std::optional<StepCheck> found = check_steps({made_, tasks_, plan, *library, inputs_, 1, run.outputs}, error);
    EXPECT_TRUE(found) << error;
    return found ? std::move(*found) : StepCheck{};
  }

 private:
  static Graph plain_network() {
    Builder b;
    ValueId x = b.conv(b.input({1, 16, 8, 8}), b.random({32, 16, 3, 3}));
    x = b.add("relu", {}, {x});
    x = b.add("reshape", {{"R", Ints{32, 64}}}, {x});
    for (int layer = 0; layer < 3; ++layer) {
      x = b.add("matmul", {}, {x, b.random({64, 64})});
      x = b.add("add", {}, {x, b.spread(b.random({64}), {32, 64})});
      x = b.add("softmax", {{"axis", i64{1}}}, {x});
    }
    return b.finish(b.add("matmul", {}, {x, b.random({64, 24})}));
  }

  Graph made_;
  Target target_ = host_target();
  ModelTasks tasks_;
  ExportPlan plan_;
  std::string error_;
  std::vector<HostArray> inputs_;
};

std::size_t wrong_steps(const StepCheck& check) {
  return static_cast<std::size_t>(std::ranges::count(check.steps, true, &StepDifference::is_wrong));
}

TEST(NarrowModel, EachKernelGivesWhatItsNodesGive) {
  for (DType type : {DType::BF16, DType::F16}) {
    CompiledNetwork net(type);
    StepCheck found = net.check(net.plan());
    EXPECT_EQ(found.steps.size(), net.plan().model->steps.size());
    EXPECT_GE(found.steps.size(), 8u);
    for (const StepDifference& step : found.steps) {
      EXPECT_FALSE(step.is_wrong) << step.kernel << ": " << step.found.relative;
      EXPECT_GT(step.found.compared, 0);
    }
    EXPECT_TRUE(found.is_whole_same);
  }
}

// Attention on slices of one product, then a product of two that are joined: rows of each lie apart in the result.
Graph attention_and_joined() {
  Builder b;
  ValueId all = b.add("matmul", {}, {b.input({32, 64}), b.random({64, 192})});
  auto part = [&](i64 n) {
    return b.add("slice", {{"start", Ints{0, 64 * n}}, {"step", Ints{1, 1}}, {"R", Ints{32, 64}}}, {all});
  };
  ValueId scores = b.add("matmul", {}, {part(0), b.add("transpose", {{"order", Ints{1, 0}}}, {part(1)})});
  ValueId x = b.add("matmul", {}, {b.add("softmax", {{"axis", i64{1}}}, {scores}), part(2)});
  ValueId left = b.add("matmul", {}, {x, b.random({64, 32})}), right = b.add("matmul", {}, {x, b.random({64, 64})});
  ValueId joined = b.add("concat", {{"axis", i64{1}}}, {left, right});
  return b.finish(b.add("matmul", {}, {joined, b.random({96, 24})}));
}

TEST(NarrowModel, StepsThatWriteRowsApartAndAttentionAreChecked) {
  for (DType type : {DType::BF16, DType::F16}) {
    CompiledNetwork net(type, attention_and_joined());
    EXPECT_TRUE(std::ranges::any_of(net.fused().parts, [](const graph::Part& part) { return part.rows > 1; }));
    EXPECT_TRUE(std::ranges::any_of(net.fused().groups, [&](const Group& group) {
      return std::ranges::count_if(group.nodes, [&](u32 n) { return net.graph().nodes[n].op == "matmul"; }) == 2;
    })) << "attention is one kernel";
    StepCheck found = net.check(net.plan());
    EXPECT_EQ(found.steps.size(), net.plan().model->steps.size());
    for (const StepDifference& step : found.steps)
      EXPECT_FALSE(step.is_wrong) << step.kernel << ": " << step.found.relative;
    EXPECT_TRUE(found.is_whole_same);
    for (std::size_t g = 0; g < net.fused().groups.size(); ++g) {
      if (net.fused().groups[g].places.back().rows == 1) continue;
      ExportPlan moved = net.plan();
      moved.model->memory_bytes += 64;
      moved.model->steps[g].buffers.back().at += 64;
      StepCheck wrong = net.check(moved);
      EXPECT_GT(wrong_steps(wrong), 0u) << "rows beside their place";
    }
  }
}

TEST(NarrowModel, AWrongKernelIsRefused) {
  CompiledNetwork net(DType::BF16);
  ExportPlan zeros = net.plan();
  std::ranges::fill(zeros.model->weights, '\0');
  StepCheck found = net.check(zeros);
  // What a softmax of zeros gives has been computed of these zeros, so all but it and its neighbours are wrong.
  EXPECT_TRUE(found.steps.front().is_wrong && found.steps.back().is_wrong) << "zeros";
  EXPECT_EQ(found.steps.back().found.relative, 1);
  for (std::size_t at : {std::size_t{1}, net.plan().model->weights.size() / 2 + 1}) {
    ExportPlan flipped = net.plan();
    flipped.model->weights[at] ^= 0x01;  // in the exponent of a bf16: one of thousands is four times as large, or less
    EXPECT_EQ(wrong_steps(net.check(flipped)), 1u) << at;
  }
  ExportPlan moved = net.plan();
  moved.model->memory_bytes += 64;
  moved.model->steps[1].buffers.back().at += 64;
  EXPECT_GT(wrong_steps(net.check(moved)), 0u) << "a step writes beside its place";
}

TEST(NarrowModel, ALibraryThatGivesSomethingElseThanItsStepsIsRefused) {
  CompiledNetwork net(DType::BF16);
  StepCheck found = net.check(net.plan(), [](HostArray& output) { output.bytes[5] ^= 1; });
  EXPECT_EQ(wrong_steps(found), 0u);
  EXPECT_FALSE(found.is_whole_same);
}

// The bound of what a kernel stores: cut off in place of rounded is wrong, a few roundings the other way are right.
TEST(NarrowModel, RoundingsThatGoTheOtherWayAreRight) {
  Rng rng(1);
  HostArray right = HostArray::zeros(DType::BF16, {4096}), other = right, cut = right;
  for (i64 i = 0; i < right.elements(); ++i) {
    double x = rng.normal(), unit = std::exp2(std::floor(std::log2(std::abs(x))) - 7);
    right.set(i, x);
    other.set(i, i % 100 == 0 ? right.get(i) + unit : x);
    cut.set(i, std::trunc(x / unit) * unit);
  }
  EXPECT_FALSE(difference(right, other).is_wrong(most_relative_of_step(DType::BF16)));
  EXPECT_TRUE(difference(right, cut).is_wrong(most_relative_of_step(DType::BF16)));
}

TEST(NarrowModel, WeightsTakeHalfTheFile) {
  CompiledNetwork narrow_net(DType::BF16), wide(DType::F32);
  std::size_t bytes = narrow_net.plan().model->weights.size(), wide_bytes = wide.plan().model->weights.size();
  EXPECT_LT(static_cast<double>(bytes), 0.55 * static_cast<double>(wide_bytes));
  EXPECT_LT(narrow_net.plan().model->memory_bytes, wide.plan().model->memory_bytes);
}

TEST(NarrowModel, TheLargestOfEachRowIsCompared) {
  HostArray a = HostArray::zeros(DType::F32, {3, 4}), b = a;
  for (i64 row = 0; row < 3; ++row) a.set(row * 4 + row, 1), b.set(row * 4 + row, 2);
  EXPECT_EQ(top_one(a, b).rows, 3);
  EXPECT_EQ(top_one(a, b).same, 3);
  b.set(4 + 3, 2.5);
  EXPECT_EQ(top_one(a, b).same, 2);
  HostArray scalar = HostArray::zeros(DType::F32, {});
  EXPECT_EQ(top_one(scalar, scalar).rows, 1);
}

TEST(NarrowModel, RandomGraphsAreCompiledRight) {
  test::Seeds seeds = test::seeds_from_environment(4);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    Graph made = narrow(test::random_graph(Rng(static_cast<u64>(seed))), seed % 2 ? DType::F16 : DType::BF16);
    std::vector<HostArray> inputs = test::random_arrays(made, Rng(static_cast<u64>(seed), 1));
    Target target = host_target();
    target.threads = 1;
    ModelTasks tasks = model_tasks(made, target);
    std::string error;
    auto plan = compile_model(made, tasks, {.library = "net", .target = target}, error);
    ASSERT_TRUE(plan) << error;
    test::TemporaryDirectory folder;
    ASSERT_EQ(write_export(*plan, folder.path()).error, "");
    std::optional<ModelLibrary> library = open_model(folder.path(), error);
    ASSERT_TRUE(library) << error;
    ModelRun run = run_model(*library, inputs, 1);
    auto found = check_steps({made, tasks, *plan, *library, inputs, 1, run.outputs}, error);
    ASSERT_TRUE(found) << error;
    EXPECT_TRUE(found->is_whole_same && !found->is_stopped);
    // What was compared before it was stopped is not lost.
    std::size_t asked = 0;
    auto part = check_steps({made, tasks, *plan, *library, inputs, 1, run.outputs}, error,
                            [&] { return ++asked > (made.nodes.size() + 1) / 2; });
    ASSERT_TRUE(part) << error;
    EXPECT_TRUE(part->is_stopped && part->is_whole_same);
    EXPECT_LE(part->steps.size(), (made.nodes.size() + 1) / 2);
    for (std::size_t i = 0; i < part->steps.size(); ++i) EXPECT_EQ(part->steps[i].value, found->steps[i].value);
    for (const StepDifference& step : found->steps)
      EXPECT_TRUE(!step.is_wrong || step.found.largest < 1e-5)
          << "TW_SEED=" << seed << ": " << step.kernel << " " << step.found.relative << "\n"
          << to_string(made);
  }
}

}  // namespace
}  // namespace tw
