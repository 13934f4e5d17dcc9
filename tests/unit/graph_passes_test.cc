// Passes over graphs and fusion: what they are for, and that what they give computes the same, on random graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "dsl/base/text.h"
#include "graph/fusion.h"
#include "graph/node_form.h"
#include "graph/passes/passes.h"
#include "sampler/models/check_model.h"
#include "support/graph_kit.h"
#include "support/random_graph.h"
#include "support/run_groups.h"
#include "support/support.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

using test::run_groups;

void expect_same(const std::vector<HostArray>& expected, const std::vector<HostArray>& found, const std::string& what) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i].shape, found[i].shape) << what;
    ModelDifference off = difference(expected[i], found[i]);
    // Where all terms of a sum cancel, nothing but rounding is left.
    EXPECT_TRUE(off.largest < 1e-5 || !off.is_wrong(1e-3))
        << what << ", output " << i << ": relative " << off.relative << ", largest " << off.largest;
  }
}

void expect_passes_keep(Graph (*make)(Rng)) {
  test::Seeds seeds = test::seeds_from_environment(200);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    Graph graph = make(Rng(static_cast<u64>(seed)));
    std::vector<HostArray> inputs = test::random_arrays(graph, Rng(static_cast<u64>(seed), 1));
    std::string error;
    auto expected = evaluate(graph, inputs, error);
    ASSERT_TRUE(expected) << error;
    Graph simple = simplified(graph);
    auto found = evaluate(simple, inputs, error);
    ASSERT_TRUE(found) << error;
    std::string what = cat("TW_SEED=", seed, "\n", to_string(graph), "becomes\n", to_string(simple));
    expect_same(*expected, *found, what);
    expect_same(*found, run_groups(simple, fuse(simple), inputs), cat("fused, ", what));
    expect_same(*found, run_groups(simple, fuse(simple, InPlace::Yes), inputs), cat("in place, ", what));
  }
}

TEST(GraphPasses, RandomGraphsComputeTheSame) { expect_passes_keep(test::random_graph); }
TEST(GraphPasses, RandomGraphsOfJoinedValuesComputeTheSame) { expect_passes_keep(test::random_joined_graph); }

class Builder : public test::GraphKit {
 public:
  ValueId constant(const Ints& shape) { return builder.constant("c", HostArray::zeros(DType::F32, shape)); }
};

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes) ops.push_back(node.op);
  return ops;
}
std::vector<std::string> names_of(const FusedGraph& fused) {
  std::vector<std::string> names;
  for (const Group& group : fused.groups) names.push_back(group.name);
  return names;
}

HostArray counted(const Ints& shape, double step) {
  HostArray array = HostArray::zeros(DType::F32, shape);
  for (i64 i = 0; i < array.elements(); ++i) array.set(i, 1 + step * static_cast<double>(i % 7));
  return array;
}

// Every node and constant twice. Each twin reads either twin of what the node reads.
Graph doubled(const Graph& graph, Rng rng) {
  GraphBuilder builder("doubled");
  std::vector<std::array<ValueId, 2>> twins(graph.values.size());
  for (ValueId input : graph.inputs)
    twins[input].fill(builder.input(graph.values[input].name, graph.values[input].type));
  for (ValueId value = 0; value < graph.values.size(); ++value) {
    for (ValueId& twin : twins[value]) {
      if (graph.values[value].data) twin = builder.constant("c", HostArray(*graph.values[value].data));
    }
  }
  for (const Node& node : graph.nodes) {
    for (std::size_t twin : {0u, 1u}) {
      std::vector<ValueId> operands;
      for (ValueId input : node.inputs) operands.push_back(twins[input][static_cast<std::size_t>(rng.below(2))]);
      std::string error;
      auto made = builder.add(node.op, node.arguments, operands, node.op, error);
      EXPECT_TRUE(made) << error;
      for (std::size_t i = 0; made && i < made->size(); ++i) twins[node.outputs[i]][twin] = (*made)[i];
    }
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    for (std::size_t twin : {0u, 1u})
      builder.output(twins[graph.outputs[i]][twin], cat(graph.output_names[i], twin == 0 ? "" : "_again"));
  }
  return builder.finish();
}

TEST(CommonSubexpressions, OfAGraphThatIsThereTwiceOneIsLeft) {
  auto computing = [](const Graph& graph) {
    return std::ranges::count_if(graph.nodes, [&](const Node& node) { return !form_of(graph, node).is_movement; });
  };
  test::Seeds seeds = test::seeds_from_environment(200);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    Graph graph = test::random_graph(Rng(static_cast<u64>(seed)));
    Graph twice = doubled(graph, Rng(static_cast<u64>(seed), 2));
    Graph once = remove_unused(common_subexpressions(twice));
    std::string what = cat("TW_SEED=", seed, "\n", to_string(twice), "becomes\n", to_string(once));
    EXPECT_EQ(computing(once), computing(remove_unused(common_subexpressions(graph)))) << what;
    EXPECT_LE(once.nodes.size(), twice.nodes.size()) << what;
    EXPECT_EQ(once.output_names, twice.output_names) << what;
    std::vector<HostArray> inputs = test::random_arrays(graph, Rng(static_cast<u64>(seed), 1));
    std::string error;
    auto expected = evaluate(twice, inputs, error), found = evaluate(once, inputs, error);
    ASSERT_TRUE(expected && found) << error;
    EXPECT_TRUE(*expected == *found) << what;
  }
}

TEST(CommonSubexpressions, DifferentConstantsAndArgumentsAreDifferent) {
  Builder b;
  ValueId x = b.input({4, 4}), first = b.constant({4, 4});
  ValueId other = b.builder.constant("c", counted({4, 4}, 1));
  std::vector<ValueId> made{b.add("matmul", {}, {x, first}),
                            b.add("matmul", {}, {x, other}),
                            b.add("matmul", {}, {x, b.constant({4, 4})}),
                            b.add("matmul", {}, {first, x}),
                            b.add("softmax", {{"axis", i64{0}}}, {x}),
                            b.add("softmax", {{"axis", i64{1}}}, {x})};
  for (std::size_t i = 0; i < made.size(); ++i) b.builder.output(made[i], cat("y", i));
  Graph once = common_subexpressions(b.builder.finish());
  EXPECT_EQ(once.nodes.size(), 5u) << to_string(once);
  EXPECT_EQ(once.outputs[0], once.outputs[2]);
}

// Equal nodes behind equal movements become one; a movement that both products take in stays with each.
TEST(CommonSubexpressions, MovementsStayWithTheirReaders) {
  Builder b;
  ValueId x = b.input({8, 4});
  auto turned = [&] { return b.add("transpose", {{"order", Ints{1, 0}}}, {x}); };
  ValueId sum = b.add("add", {}, {b.add("relu", {}, {turned()}), b.add("relu", {}, {turned()})});
  b.builder.output(sum, "sum");
  b.builder.output(b.add("matmul", {}, {turned(), b.constant({8, 16})}), "y");
  Graph once = remove_unused(common_subexpressions(b.finish(b.add("matmul", {}, {turned(), b.constant({8, 3})}))));
  EXPECT_EQ(names_of(fuse(once)),
            (std::vector<std::string>{"transpose_relu_add", "transpose_matmul", "transpose_matmul"}))
      << to_string(once);
}

// A normalisation whose difference is written twice is found all the same.
TEST(CommonSubexpressions, ComeBeforeRewritings) {
  Builder b;
  Ints shape{6, 8};
  ValueId x = b.input(shape);
  auto number = [&](double value) {
    HostArray array = HostArray::zeros(DType::F32, {});
    array.set(0, value);
    return b.builder.constant("n", std::move(array));
  };
  auto mean = [&](ValueId of) {
    ValueId sums = b.add("reshape", {{"R", Ints{6, 1}}}, {b.add("reduce_sum", {{"axes", Ints{1}}}, {of})});
    return b.spread(b.add("divide", {}, {sums, b.spread(number(8), {6, 1})}), shape);
  };
  auto centred = [&] { return b.add("subtract", {}, {x, mean(x)}); };
  ValueId variance = mean(b.add("power", {}, {centred(), b.spread(number(2), shape)}));
  ValueId deviation = b.add("square_root", {}, {b.add("add", {}, {variance, b.spread(number(1e-5), shape)})});
  Graph simple = simplified(b.finish(b.add("divide", {}, {centred(), deviation})));
  EXPECT_EQ(ops_of(simple), (std::vector<std::string>{"standardize"})) << to_string(simple);
}

TEST(FoldScales, ABatchNormalisationIsPartOfTheWeights) {
  Builder b;
  Ints shape{1, 8, 6, 6};
  ValueId y = b.conv(b.input({1, 4, 6, 6}), b.constant({8, 4, 3, 3}));
  y = b.add("subtract", {}, {y, b.spread(b.constant({8, 1, 1}), shape)});
  y = b.add("multiply", {}, {y, b.spread(b.constant({8, 1, 1}), shape)});
  y = b.add("add", {}, {y, b.spread(b.constant({8, 1, 1}), shape)});
  Graph folded = remove_unused(fold_scales(b.finish(b.add("relu", {}, {y}))));
  // All constants are zero, so nothing is left to add.
  EXPECT_EQ(ops_of(folded), (std::vector<std::string>{"conv", "relu"}));
}

TEST(FoldScales, WhatWasAddedIsScaledToo) {
  Builder b;
  Ints shape{1, 3, 4, 4};
  auto constant = [&](const Ints& of, double step) { return b.builder.constant("c", counted(of, step)); };
  ValueId y = b.conv(b.input({1, 2, 4, 4}), constant({3, 2, 3, 3}, 0.1));
  y = b.add("add", {}, {y, b.spread(constant({3, 1, 1}, 0.5), shape)});
  y = b.add("multiply", {}, {y, b.spread(constant({3, 1, 1}, 0.25), shape)});
  y = b.add("subtract", {}, {y, b.spread(constant({3, 1, 1}, 0.75), shape)});
  y = b.add("divide", {}, {y, b.spread(constant({3, 1, 1}, 0.4), shape)});
  Graph graph = b.finish(y), folded = fold_scales(graph);
  std::vector<std::string> ops = ops_of(folded);
  EXPECT_EQ(std::ranges::count(ops, "multiply") + std::ranges::count(ops, "divide"), 0);
  std::vector<HostArray> inputs{counted({1, 2, 4, 4}, 0.3)};
  std::string error;
  expect_same(*evaluate(graph, inputs, error), *evaluate(folded, inputs, error), to_string(folded));
}

// A constant over a convolution is no scale of it, and a channel over 0 is not finite.
TEST(FoldScales, OtherQuotientsStay) {
  Builder b;
  Ints shape{1, 3, 4, 4};
  auto conv = [&] { return b.conv(b.input({1, 2, 4, 4}), b.builder.constant("c", counted({3, 2, 3, 3}, 0.1))); };
  b.builder.output(b.add("divide", {}, {b.spread(b.constant({3, 1, 1}), shape), conv()}), "over");
  Graph folded = fold_scales(b.finish(b.add("divide", {}, {conv(), b.spread(b.constant({3, 1, 1}), shape)})));
  std::vector<std::string> ops = ops_of(folded);
  EXPECT_EQ(std::ranges::count(ops, "divide"), 2) << to_string(folded);
}

// The results may be finite all the same.
TEST(FoldScales, WeightsAndShiftsStayFinite) {
  auto ops_with = [](const std::string& op, double weight, double number, double shift = 0) {
    Builder b;
    Ints shape{1, 3, 4, 4};
    auto filled = [&](const Ints& of, double value) {
      HostArray array = HostArray::zeros(DType::F32, of);
      for (i64 i = 0; i < array.elements(); ++i) array.set(i, value);
      return b.builder.constant("c", std::move(array));
    };
    ValueId y = b.conv(b.input({1, 2, 4, 4}), filled({3, 2, 3, 3}, weight));
    if (shift != 0) y = b.add("add", {}, {y, b.spread(filled({3, 1, 1}, shift), shape)});
    return ops_of(fold_scales(b.finish(b.add(op, {}, {y, b.spread(filled({3, 1, 1}, number), shape)}))));
  };
  EXPECT_EQ(std::ranges::count(ops_with("divide", 1, 1e-39), "divide"), 1);
  EXPECT_EQ(std::ranges::count(ops_with("divide", 1, 1e-30), "divide"), 0);
  EXPECT_EQ(std::ranges::count(ops_with("multiply", 1e20, 1e20), "multiply"), 1);
  EXPECT_EQ(std::ranges::count(ops_with("multiply", 1e-20, 1e20), "multiply"), 0);
  EXPECT_EQ(std::ranges::count(ops_with("multiply", 1, 1e20, 1e20), "multiply"), 1);
}

// What somebody else reads, too, must stay as it is.
TEST(FoldScales, AConvolutionWithAnotherReaderKeepsItsWeights) {
  Builder b;
  Ints shape{1, 8, 6, 6};
  ValueId conv = b.conv(b.input({1, 4, 6, 6}), b.constant({8, 4, 3, 3}));
  ValueId scaled = b.add("multiply", {}, {conv, b.spread(b.constant({8, 1, 1}), shape)});
  Graph folded = fold_scales(b.finish(b.add("add", {}, {conv, scaled})));
  std::vector<std::string> ops = ops_of(folded);
  EXPECT_EQ(std::ranges::count(ops, "multiply"), 1);
}

i64 transposes_in(const Graph& graph) { return std::ranges::count(ops_of(graph), std::string("transpose")); }

// x in the order of images, what is done to it in that of a network with the channels last, and back.
TEST(JoinTransposes, WithElementwiseNodesBetweenThemTheyVanish) {
  Builder b;
  Ints first{1, 4, 6, 6}, last{1, 6, 6, 4};
  ValueId x = b.add("transpose", {{"order", Ints{0, 2, 3, 1}}}, {b.input(first)});
  ValueId y = b.add("add", {}, {x, b.spread(b.builder.constant("c", counted({4}, 0.5)), last)});
  y = b.add("multiply", {}, {y, b.add("logistic", {}, {y})});
  y = b.add("subtract", {}, {y, b.builder.constant("c", counted(last, 0.25))});
  y = b.add("transpose", {{"order", Ints{0, 3, 1, 2}}}, {y});
  Graph graph = b.finish(b.conv(y, b.builder.constant("c", counted({8, 4, 3, 3}, 0.1))));
  Graph joined = remove_unused(join_transposes(graph));
  auto is_of_input = [&](const Node& node) { return node.op == "transpose" && !joined.values[node.inputs[0]].data; };
  EXPECT_EQ(std::ranges::count_if(joined.nodes, is_of_input), 0) << to_string(joined);
  std::vector<HostArray> inputs{counted(first, 0.3)};
  std::string error;
  expect_same(*evaluate(graph, inputs, error), *evaluate(joined, inputs, error), to_string(joined));
}

TEST(JoinTransposes, TwoBecomeOne) {
  Builder b;
  ValueId x = b.add("transpose", {{"order", Ints{1, 2, 0}}}, {b.input({2, 3, 4})});
  Graph graph = b.finish(b.add("transpose", {{"order", Ints{0, 2, 1}}}, {b.add("relu", {}, {x})}));
  Graph joined = remove_unused(join_transposes(graph));
  EXPECT_EQ(ops_of(joined), (std::vector<std::string>{"relu", "transpose"})) << to_string(joined);
  std::vector<HostArray> inputs{counted({2, 3, 4}, 0.3)};
  std::string error;
  expect_same(*evaluate(graph, inputs, error), *evaluate(joined, inputs, error), to_string(joined));
}

// As exporters write it, with transpositions around every convolution.
TEST(JoinTransposes, ANetworkWithItsChannelsLastHasNone) {
  Builder b;
  Ints last{1, 6, 6, 4}, to_first{0, 3, 1, 2}, to_last{0, 2, 3, 1};
  auto conv = [&](ValueId x) {
    ValueId made =
        b.conv(b.add("transpose", {{"order", to_first}}, {x}), b.builder.constant("c", counted({4, 4, 3, 3}, 0.1)));
    return b.add("transpose", {{"order", to_last}}, {made});
  };
  ValueId y = b.add("add", {}, {conv(b.input(last)), b.spread(b.builder.constant("c", counted({4}, 0.5)), last)});
  Graph graph = b.finish(conv(b.add("relu", {}, {y}))), simple = simplified(graph);
  EXPECT_EQ(names_of(fuse(simple)), (std::vector<std::string>{"conv_last_add_relu", "conv_last"})) << to_string(simple);
  std::vector<HostArray> inputs{counted(last, 0.3)};
  std::string error;
  expect_same(*evaluate(graph, inputs, error), *evaluate(simple, inputs, error), to_string(simple));
}

// What another node reads in the order between them would be computed twice.
TEST(JoinTransposes, WhatOthersReadStays) {
  Builder b;
  auto turned = [&](ValueId value) { return b.add("transpose", {{"order", Ints{1, 0}}}, {value}); };
  ValueId y = b.add("relu", {}, {turned(b.input({4, 6}))});
  b.builder.output(b.add("softmax", {{"axis", i64{1}}}, {y}), "rows");
  Graph graph = b.finish(turned(y));
  EXPECT_EQ(ops_of(remove_unused(join_transposes(graph))), ops_of(graph));
}

// Chains of transpositions and element-wise nodes that read each other, repeated rows and constants.
TEST(JoinTransposes, OfRandomChainsThereAreNeverMore) {
  const std::vector<Ints> orders = {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  test::Seeds seeds = test::seeds_from_environment(200);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    Rng rng(static_cast<u64>(seed));
    Builder b;
    std::vector<ValueId> values{b.input({2, 3, 4})};
    for (int step = 0; step < 8; ++step) {
      ValueId x =
          values[static_cast<std::size_t>(std::max(rng.below(std::ssize(values)), rng.below(std::ssize(values))))];
      Ints shape = b.builder.type(x).shape;
      std::vector<ValueId> alike{b.spread(b.builder.constant("c", counted({shape[2]}, 0.5)), shape)};
      for (ValueId value : values) {
        if (b.builder.type(value).shape == shape) alike.push_back(value);
      }
      ValueId other = alike[static_cast<std::size_t>(rng.below(std::ssize(alike)))];
      switch (rng.below(4)) {
        case 0:
          values.push_back(b.add("hyperbolic_tangent", {}, {x}));
          break;
        case 1:
          values.push_back(b.add("subtract", {}, {x, other}));
          break;
        default:
          values.push_back(b.add("transpose", {{"order", orders[static_cast<std::size_t>(rng.below(5))]}}, {x}));
      }
    }
    Graph graph = remove_unused(b.finish(values.back())), joined = remove_unused(join_transposes(graph));
    std::vector<HostArray> inputs = test::random_arrays(graph, Rng(static_cast<u64>(seed), 1));
    std::string what = cat("TW_SEED=", seed, "\n", to_string(graph), "becomes\n", to_string(joined)), error;
    auto expected = evaluate(graph, inputs, error), found = evaluate(joined, inputs, error);
    ASSERT_TRUE(expected && found) << error;
    expect_same(*expected, *found, what);
    EXPECT_LE(transposes_in(joined), transposes_in(graph)) << what;
  }
}

TEST(ChannelsLast, OnlyTheEndsAreTransposed) {
  Builder b;
  ValueId x = b.input({1, 4, 6, 6}), first = b.conv(x, b.constant({8, 4, 3, 3}));
  first = b.add("add", {}, {first, b.spread(b.constant({8, 1, 1}), {1, 8, 6, 6})});
  ValueId second = b.add("relu", {}, {b.conv(b.add("relu", {}, {first}), b.constant({8, 8, 3, 3}))});
  Graph last = remove_unused(channels_last(b.finish(b.add("add", {}, {first, second}))));
  std::vector<std::string> ops = ops_of(last);
  EXPECT_EQ(std::ranges::count(ops, "transpose"), 2) << to_string(last);
  EXPECT_EQ(std::ranges::count(ops, "conv_last"), 2);
}

TEST(ChannelsLast, PoolingOverTheWholeImageEndsIt) {
  Builder b;
  ValueId y = b.conv(b.input({2, 4, 6, 6}), b.constant({8, 4, 3, 3}));
  Graph last = remove_unused(channels_last(b.finish(b.add("reduce_sum", {{"axes", Ints{2, 3}}}, {y}))));
  std::vector<std::string> ops = ops_of(last);
  EXPECT_EQ(std::ranges::count(ops, "transpose"), 1) << to_string(last);
}

// As layers are imported, and as exporters write them: rows joined for the product, parted behind it.
TEST(JoinRows, ReshapesBetweenAProductAndItsEpilogueAreNotInTheWay) {
  Builder b;
  ValueId x = b.input({2, 5, 8});
  auto layer = [&](ValueId from, i64 rows, i64 width) {
    ValueId joined = b.add("reshape", {{"R", Ints{10, rows}}}, {from});
    ValueId y = b.add("matmul", {}, {joined, b.constant({rows, width})});
    return b.add("reshape", {{"R", Ints{2, 5, width}}}, {y});
  };
  ValueId hidden = layer(x, 8, 16);
  hidden = b.add("multiply", {}, {hidden, b.add("logistic", {}, {hidden})});
  ValueId y = b.add("add", {}, {layer(hidden, 16, 8), x});
  Graph original = b.finish(y), graph = remove_unused(join_rows(original));
  FusedGraph fused = fuse(graph);
  EXPECT_EQ(names_of(fused), (std::vector<std::string>{"matmul_logistic_multiply", "matmul_add"})) << to_string(graph);
  std::vector<HostArray> inputs{counted({2, 5, 8}, 0.1)};
  std::string error;
  expect_same(*evaluate(original, inputs, error), run_groups(graph, fused, inputs), to_string(graph));
}

TEST(JoinRows, AMatrixThatIsRepeatedForABatchIsOne) {
  Builder b;
  ValueId x = b.input({2, 3, 5, 8});
  ValueId repeated = b.add("broadcast", {{"R", Ints{2, 3, 8, 4}}}, {b.constant({8, 4})});
  Graph original = b.finish(b.add("matmul", {}, {x, repeated})), graph = remove_unused(join_rows(original));
  EXPECT_TRUE(std::ranges::none_of(graph.nodes, [](const Node& node) { return node.op == "broadcast"; }))
      << to_string(graph);
  std::vector<HostArray> inputs{counted({2, 3, 5, 8}, 0.1)};
  std::string error;
  expect_same(*evaluate(original, inputs, error), run_groups(graph, fuse(graph), inputs), to_string(graph));
}

// A convolution of single pixels, and what follows it element by element, is a product of rows. Its tiles go on over
// the ends of an image's rows, which matters where these are short.
TEST(JoinRows, AConvolutionOfPixelsIsAProduct) {
  auto image = [](Ints window, Ints strides, Ints before, i64 groups) {
    Builder b;
    ValueId x = b.input({2, 3, 5, 4});
    ValueId weights = b.builder.constant("c", counted({8, 4 / groups, window[0], window[1]}, 0.3));
    ValueId y = b.add("conv_last",
                      {{"strides", strides},
                       {"before", before},
                       {"after", Ints{0, 0}},
                       {"dilations", Ints{1, 1}},
                       {"groups", groups}},
                      {x, weights});
    Ints shape = b.builder.type(y).shape;
    ValueId bias = b.add("broadcast", {{"R", shape}}, {b.builder.constant("c", counted({8}, 0.2))});
    y = b.add("logistic", {}, {b.add("add", {}, {y, bias})});
    return b.finish(b.add("add", {}, {y, b.input(shape)}));
  };
  auto joined = [](const Graph& original) {
    Graph graph = remove_unused(join_rows(original));
    FusedGraph fused = fuse(graph);
    std::vector<HostArray> inputs;
    for (ValueId input : original.inputs) inputs.push_back(counted(original.values[input].type.shape, 0.1));
    std::string error;
    expect_same(*evaluate(original, inputs, error), run_groups(graph, fused, inputs), to_string(graph));
    return names_of(fused);
  };
  EXPECT_EQ(joined(image({1, 1}, {1, 1}, {0, 0}, 1)), std::vector<std::string>{"matmul_add_logistic_add"});
  for (const Graph& other : {image({1, 1}, {2, 1}, {0, 0}, 1), image({1, 1}, {1, 1}, {0, 1}, 1),
                             image({1, 1}, {1, 1}, {0, 0}, 2), image({1, 2}, {1, 1}, {0, 0}, 1)})
    EXPECT_EQ(joined(other), std::vector<std::string>{"conv_last_add_logistic_add"});
}

// Heads of an attention are parts of rows: products read them where they are.
TEST(Fusion, ASliceInAnotherShapeIsReadInPlace) {
  Builder b;
  ValueId x = b.input({6, 24});
  auto heads = [&](i64 from, Ints order) {
    ValueId part = b.add("slice", {{"start", Ints{0, from}}, {"step", Ints{1, 1}}, {"R", Ints{6, 8}}}, {x});
    return b.add("transpose", {{"order", order}}, {b.add("reshape", {{"R", Ints{6, 2, 4}}}, {part})});
  };
  Graph graph = b.finish(b.add("matmul", {}, {heads(0, {1, 0, 2}), heads(8, {1, 2, 0})}));
  FusedGraph fused = fuse(graph);
  ASSERT_EQ(fused.groups.size(), 1u) << to_string(graph);
  std::vector<HostArray> inputs{counted({6, 24}, 0.1)};
  std::string error;
  expect_same(*evaluate(graph, inputs, error), run_groups(graph, fused, inputs), to_string(graph));
}

TEST(Fusion, AResidualBlockIsTwoKernels) {
  Builder b;
  Ints shape{1, 8, 6, 6};
  ValueId x = b.input({1, 6, 6, 8});
  auto conv = [&](ValueId from) {
    ValueId made = b.add("conv_last",
                         {{"strides", Ints{1, 1}},
                          {"before", Ints{1, 1}},
                          {"after", Ints{1, 1}},
                          {"dilations", Ints{1, 1}},
                          {"groups", i64{1}}},
                         {from, b.constant({8, 8, 3, 3})});
    return b.add("add", {}, {made, b.spread(b.constant({8}), {1, 6, 6, 8})});
  };
  ValueId second = conv(b.add("relu", {}, {conv(x)}));
  Graph graph = b.finish(b.add("relu", {}, {b.add("add", {}, {second, x})}));
  EXPECT_EQ(names_of(fuse(graph)), (std::vector<std::string>{"conv_last_add_relu", "conv_last_add_add_relu"}));
}

TEST(Fusion, WhatIsMadeOfAValueTwiceStaysWithIt) {
  Builder b;
  ValueId y = b.add("matmul", {}, {b.input({4, 8}), b.constant({8, 16})});
  Graph graph = b.finish(b.add("multiply", {}, {y, b.add("logistic", {}, {y})}));
  EXPECT_EQ(names_of(fuse(graph)), (std::vector<std::string>{"matmul_logistic_multiply"}));
}

// Two values whose readers come together crosswise: neither may take away what the other one needs.
TEST(Fusion, ReadersOfTwoProductsThatCross) {
  Builder b;
  ValueId x = b.input({4, 8}), c = b.constant({8, 16});
  ValueId p = b.add("matmul", {}, {x, c}), q = b.add("matmul", {}, {b.add("relu", {}, {x}), c});
  ValueId left = b.add("logistic", {}, {p}), both = b.add("add", {}, {p, q}), right = b.add("logistic", {}, {q});
  ValueId product = b.add("multiply", {}, {left, both});
  Graph graph = b.finish(b.add("add", {}, {product, right}));
  FusedGraph fused = fuse(graph);  // which checks that each group's operands are made before it
  EXPECT_EQ(fused.groups.size(), 2u);
  std::vector<HostArray> inputs{counted({4, 8}, 0.1)};
  std::string error;
  expect_same(*evaluate(graph, inputs, error), run_groups(graph, fused, inputs), to_string(graph));
}

// Rows that a sum reads are read again behind it: the value has to be there.
TEST(Fusion, AReaderThatReducesKeepsTheValueInMemory) {
  Builder b;
  ValueId y = b.add("matmul", {}, {b.input({4, 8}), b.constant({8, 16})});
  ValueId sums = b.add("reduce_sum", {{"axes", Ints{1}}}, {y});
  ValueId wide = b.spread(b.add("reshape", {{"R", Ints{4, 1}}}, {sums}), {4, 16});
  Graph graph = b.finish(b.add("subtract", {}, {y, wide}));
  EXPECT_EQ(names_of(fuse(graph)), (std::vector<std::string>{"matmul", "reduce_sum", "subtract"}));
}

TEST(Fusion, AResultOfTheGraphIsWritten) {
  Builder b;
  ValueId y = b.add("matmul", {}, {b.input({4, 8}), b.constant({8, 16})});
  b.builder.output(y, "hidden");
  Graph graph = b.finish(b.add("relu", {}, {y}));
  EXPECT_EQ(names_of(fuse(graph)), (std::vector<std::string>{"matmul", "relu"}));
}

// A repeated constant is nowhere as a whole, so what shows it in another shape has to be computed.
TEST(Fusion, ARepeatedConstantInAnotherShape) {
  Builder b;
  ValueId c = b.builder.constant("c", counted({3}, 1));
  b.builder.output(b.add("reshape", {{"R", Ints{120}}}, {b.spread(c, {40, 3})}), "shown");
  ValueId x = b.input({120});
  Graph graph = b.finish(b.add("add", {}, {x, b.add("reshape", {{"R", Ints{120}}}, {b.spread(c, {40, 3})})}));
  std::vector<HostArray> inputs{counted({120}, 2)};
  std::string error;
  auto expected = evaluate(graph, inputs, error);
  ASSERT_TRUE(expected) << error;
  expect_same(*expected, run_groups(graph, fuse(graph), inputs), to_string(graph));
}

TEST(NodeForm, SaysWhatAnOperatorReadsWhere) {
  Builder b;
  ValueId x = b.input({2, 3, 4, 4}), small = b.constant({4});
  b.add("relu", {}, {x});
  b.add("broadcast", {{"R", Ints{2, 3, 4, 4}}}, {small});
  b.conv(x, b.constant({8, 3, 3, 3}));
  b.add("reshape", {{"R", Ints{6, 16}}}, {x});
  b.add("transpose", {{"order", Ints{1, 0, 2, 3}}}, {x});
  b.add("triangle", {{"upper", i64{1}}, {"offset", i64{0}}}, {x});
  b.add("reshape", {{"R", Ints{2, 3, 4, 4}}}, {x});
  Graph graph = b.finish(x);
  std::vector<NodeForm> forms;
  for (const Node& node : graph.nodes) forms.push_back(form_of(graph, node));
  EXPECT_TRUE(forms[0].is_elementwise && !forms[0].is_movement && forms[0].same_place[0]);
  EXPECT_TRUE(!forms[1].is_elementwise && forms[1].is_movement && !forms[1].same_place[0]);
  EXPECT_TRUE(forms[2].has_reduction && forms[2].has_reuse);
  EXPECT_TRUE(is_view(graph, graph.nodes[3]) && !is_view(graph, graph.nodes[4]));
  // The value depends on its place; and what an argument says of the dimensions.
  EXPECT_TRUE(forms[5].same_place[0] && !forms[5].is_elementwise);
  EXPECT_FALSE(forms[6].is_elementwise);
}

}  // namespace
}  // namespace tw::graph
