// Rewritings of graphs: their text, that each is right, where they fit and where they must not.
#include "graph/rewrites.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "graph/passes/passes.h"
#include "support/graph_kit.h"
#include "tests/unit/parsed_rewrites.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

using test::parsed;
using Parsed = test::ParsedRewrites;

TEST(Rewrites, TheBuiltInOnesHaveNoErrors) {
  EXPECT_EQ(parsed(std::string(*embedded_text("graph/rewrites.tw"))).errors, "");
}

TEST(Rewrites, EachBuiltInOneIsProvedByRunning) {
  for (const Rewrite& rewrite : built_in_rewrites().rewrites)
    EXPECT_EQ(check_rewrite(built_in_rewrites(), rewrite), "") << rewrite.name;
}

TEST(Rewrites, AWrongOneIsRefused) {
  for (const char* text :
       {"rewrite r(x: value) { power(x, 3) -> x * x }",
        "rewrite r(x: value, a: ints) { reduce_sum(x, axes = a) -> reduce_max(x, axes = a) }",
        "rewrite r(x: value, n: number, a: ints) { reduce_sum(x, axes = a) / n -> reduce_sum(x, axes = a) }",
        "rewrite r(x: value) { absolute(x) -> copy(x) }", "rewrite r(x: value) { relu(x) -> copy(x) }",
        "rewrite r(x: value) { square_root(x * x) -> copy(x) }", "rewrite r(x: value, n: number) { x * n -> copy(x) }",
        "rewrite r(x: value) { x + 0.00001 -> copy(x) }"}) {
    Parsed own = parsed(text);
    ASSERT_EQ(own.errors, "") << text;
    EXPECT_NE(check_rewrite(own.module, own.module.rewrites[0]), "") << text;
  }
}

// What is not finite says nothing of the replacement.
TEST(Rewrites, OneThatIsNeverComparedIsRefused) {
  for (const char* text : {"rewrite r(x: value) { logarithm(negate(exponential(x))) -> copy(x) }",
                           "rewrite r(x: value) { reciprocal(x - x) -> copy(x) }"}) {
    Parsed own = parsed(text);
    ASSERT_EQ(own.errors, "") << text;
    EXPECT_NE(check_rewrite(own.module, own.module.rewrites[0]).find("so nothing was compared"), std::string::npos)
        << text;
  }
  // Positive operands are enough.
  Parsed some = parsed("rewrite r(x: value) { exponential(logarithm(x)) -> copy(x) }");
  EXPECT_EQ(check_rewrite(some.module, some.module.rewrites[0]), "");
}

TEST(Rewrites, ErrorsSayWhatAndWhere) {
  EXPECT_NE(parsed("rewrite r(x: value) { powr(x, 3) -> x }").errors.find("did you mean `power`?"), std::string::npos);
  EXPECT_NE(parsed("rewrite r(x: value) { power(y, 3) -> x }").errors.find("unknown name `y`"), std::string::npos);
  EXPECT_NE(parsed("rewrite r(x: thing) { power(x, 3) -> x }").errors.find("expected `value`, `number` or `ints`"),
            std::string::npos);
  EXPECT_NE(parsed("rewrite r(x: value) { }").errors.find("there is no `pattern -> replacement`"), std::string::npos);
  for (auto [text, message] :
       {std::pair("rewrite r(x: value) { d = d + x; d * x -> d }", "unknown name `d`"),
        std::pair("rewrite r(x: value, a: ints) { x + a -> x }", "`a` is a list, and no operand"),
        std::pair("rewrite r(x: value, y: value) { x * x -> x * y }", "does not say what `y` is"),
        std::pair("rewrite r(x: value) { softmax(x, axis = 0) -> x }", "expected a parameter of kind `ints`"),
        std::pair("rewrite r(x: value) { relu(x % 3) -> x }", "expected an operator, a name or a number")})
    EXPECT_NE(parsed(text).errors.find(message), std::string::npos) << text << "\n" << parsed(text).errors;
  EXPECT_NE(parsed("rewrite r(x: value) { x % 3 -> x }").errors.find("a pattern begins with an operator"),
            std::string::npos);
}

class Builder : public tw::test::GraphKit {
 public:
  ValueId number(double value, const Ints& shape) {
    HostArray array = HostArray::zeros(DType::F32, {});
    array.set(0, value);
    return spread(builder.constant("n", std::move(array)), shape);
  }
  std::vector<std::string> rewritten(ValueId output) {
    std::vector<std::string> ops;
    for (const Node& node : apply_rewrites(finish(output), {&built_in_rewrites()}).nodes) ops.push_back(node.op);
    return ops;
  }
};

// Mean, difference, mean of squares, root, quotient: as exporters write a layer normalisation without an operator for
// it. The mean of rows may be laid along their length, or along the columns.
std::vector<std::string> normalisation(bool along_rows, double count) {
  Builder b;
  Ints shape{6, 6};
  ValueId x = b.input(shape);
  auto mean = [&](ValueId of) {
    ValueId sums = b.add("reduce_sum", {{"axes", Ints{1}}}, {of});
    if (along_rows) sums = b.add("reshape", {{"R", Ints{6, 1}}}, {sums});
    ValueId made = b.add("divide", {}, {sums, b.number(count, along_rows ? Ints{6, 1} : Ints{6})});
    return b.add("broadcast", {{"R", shape}}, {made});
  };
  ValueId centred = b.add("subtract", {}, {x, mean(x)});
  ValueId variance = mean(b.add("power", {}, {centred, b.number(2, shape)}));
  ValueId deviation = b.add("square_root", {}, {b.add("add", {}, {variance, b.number(1e-5, shape)})});
  return b.rewritten(b.add("divide", {}, {centred, deviation}));
}

TEST(Rewrites, ALayerNormalisationIsFoundInItsParts) {
  EXPECT_EQ(normalisation(true, 6), (std::vector<std::string>{"standardize"}));
}

TEST(Rewrites, MeansThatAreLaidAlongColumnsAreSomethingElse) {
  std::vector<std::string> ops = normalisation(false, 6);
  EXPECT_EQ(std::ranges::count(ops, "standardize"), 0) << join(ops, " ");
}

TEST(Rewrites, ADivisorThatIsNotTheLengthIsSomethingElse) {
  std::vector<std::string> ops = normalisation(true, 5);
  EXPECT_EQ(std::ranges::count(ops, "standardize"), 0) << join(ops, " ");
}

// x over the root of the mean of its squares, as exporters write it: by a quotient, a reciprocal, or 1 over the root,
// which stands before or behind x.
TEST(Rewrites, ANormalisationByTheRootMeanSquareIsFoundInItsParts) {
  for (const std::string form : {"divide", "reciprocal", "one_over"}) {
    for (bool is_first : {true, false}) {
      Builder b;
      Ints shape{6, 8}, rows{6, 1};
      ValueId x = b.input(shape);
      ValueId sums = b.add("reduce_sum", {{"axes", Ints{1}}}, {b.add("power", {}, {x, b.number(2, shape)})});
      ValueId mean = b.add("divide", {}, {b.add("reshape", {{"R", rows}}, {sums}), b.number(8, rows)});
      ValueId root = b.add("square_root", {}, {b.add("add", {}, {mean, b.number(1e-6, rows)})}), y = root;
      if (form == "reciprocal") y = b.add("reciprocal", {}, {root});
      if (form == "one_over") y = b.add("divide", {}, {b.number(1, rows), root});
      y = b.spread(y, shape);
      std::vector<ValueId> operands = is_first || form == "divide" ? std::vector{x, y} : std::vector{y, x};
      y = b.add(form == "divide" ? "divide" : "multiply", {}, operands);
      EXPECT_EQ(b.rewritten(y), (std::vector<std::string>{"divide_by_rms"})) << form << is_first;
    }
  }
}

// As PyTorch's exporters write GELU, and hard-swish before there was an operator for it.
TEST(Rewrites, ActivationsHaveNoDivisionsByConstants) {
  using Names = std::vector<std::string>;
  Ints shape{4, 5};
  {
    Builder b;
    ValueId x = b.input(shape);
    ValueId erf = b.add("error_function", {}, {b.add("divide", {}, {x, b.number(1.4142135381698608, shape)})});
    ValueId y = b.add("multiply", {}, {x, b.add("add", {}, {erf, b.number(1, shape)})});
    EXPECT_EQ(b.rewritten(b.add("multiply", {}, {y, b.number(0.5, shape)})),
              (Names{"multiply", "error_function", "add", "multiply", "multiply"}));
  }
  for (int form : {0, 1, 2}) {
    Builder b;
    ValueId x = b.input(shape), half = b.number(0.5, shape);
    ValueId gate = b.add("add", {}, {b.number(1, shape), b.add("hyperbolic_tangent", {}, {x})});
    auto times = [&](ValueId left, ValueId right) { return b.add("multiply", {}, {left, right}); };
    ValueId y = form == 0   ? times(times(x, half), gate)
                : form == 1 ? times(times(x, gate), half)
                            : times(x, times(half, gate));
    EXPECT_EQ(b.rewritten(y), (Names{"add", "logistic", "multiply"})) << form;
  }
  for (bool is_product_first : {true, false}) {
    Builder b;
    ValueId x = b.input(shape), six = b.number(6, shape);
    ValueId y = b.add("clamp", {}, {b.add("add", {}, {x, b.number(3, shape)}), b.number(0, {}), b.number(6, {})});
    if (is_product_first) y = b.add("divide", {}, {b.add("multiply", {}, {x, y}), six});
    if (!is_product_first) y = b.add("multiply", {}, {x, b.add("divide", {}, {y, six})});
    EXPECT_EQ(b.rewritten(y), (Names{"add", "clamp", "multiply", "multiply"})) << is_product_first;
  }
}

// A gate of channels is smaller than what it is multiplied with; the limits of a clamp are scalars.
TEST(Rewrites, AHardGateOfChannelsHasNoDivision) {
  Builder b;
  Ints shape{1, 8, 5, 5};
  ValueId gate = b.add("clamp", {}, {b.input({1, 8, 1, 1}), b.number(0, {}), b.number(6, {})});
  ValueId y = b.add("multiply", {}, {b.builder.input("y", {DType::F32, shape}), b.spread(gate, shape)});
  std::vector<std::string> ops = b.rewritten(b.add("divide", {}, {y, b.number(6, shape)}));
  EXPECT_EQ(std::ranges::count(ops, "divide"), 0) << join(ops, " ");
  EXPECT_EQ(std::ranges::count(ops, "multiply"), 2) << join(ops, " ");
}

// A product with 1 between a product of matrices and what follows would keep the two apart.
TEST(Rewrites, WhatChangesNothingGoesAway) {
  Builder b;
  Ints shape{4, 16};
  ValueId y = b.add("matmul", {}, {b.input({4, 8}), b.builder.constant("c", HostArray::zeros(DType::F32, {8, 16}))});
  y = b.add("multiply", {}, {b.add("add", {}, {y, b.number(0, shape)}), b.number(1, shape)});
  EXPECT_EQ(b.rewritten(b.add("relu", {}, {y})), (std::vector<std::string>{"matmul", "relu"}));
}

TEST(Rewrites, PowersBecomeProducts) {
  Builder b;
  ValueId x = b.input({4, 5});
  EXPECT_EQ(b.rewritten(b.add("power", {}, {x, b.number(3, {4, 5})})),
            (std::vector<std::string>{"multiply", "multiply"}));
}

TEST(Rewrites, AUsersRewritingComesFirst) {
  Parsed own = parsed("rewrite r(x: value) { power(x, 3) -> negate(x) }");
  Builder b;
  ValueId x = b.input({4});
  b.builder.output(b.add("power", {}, {x, b.number(3, {4})}), "y");
  Graph made = apply_rewrites(b.builder.finish(), {&own.module, &built_in_rewrites()});
  ASSERT_EQ(made.nodes.size(), 1u);
  EXPECT_EQ(made.nodes[0].op, "negate");
}

// What is summed up is as large as its broadcast, and the second of two sums goes by what the first one left.
TEST(Rewrites, BroadcastsAreSeenThroughElementByElementOnly) {
  Parsed own = parsed(
      "rewrite r(x: value, y: value, a: ints) { reduce_sum(x + y * y, axes = a) -> "
      "reduce_sum(x, axes = a) + reduce_sum(y * y, axes = a) }\n"
      "rewrite s(x: value, a: ints, b: ints) { reduce_sum(reduce_sum(x, axes = a), axes = b) -> "
      "negate(reduce_sum(reduce_sum(x, axes = a), axes = b)) }");
  ASSERT_EQ(own.errors, "");
  Builder b;
  ValueId x = b.input({40, 4}), y = b.builder.input("y", {DType::F32, {1, 4}});
  ValueId wide = b.add("broadcast", {{"R", Ints{40, 4}}}, {b.add("multiply", {}, {y, y})});
  b.builder.output(b.add("reduce_sum", {{"axes", Ints{0}}}, {b.add("add", {}, {x, wide})}), "sum");
  ValueId cube = b.builder.input("z", {DType::F32, {2, 3, 3}});
  ValueId once = b.add("reduce_sum", {{"axes", Ints{0}}}, {cube});
  b.builder.output(b.add("reduce_sum", {{"axes", Ints{1}}}, {once}), "twice");
  Graph graph = b.builder.finish(), made = apply_rewrites(graph, {&own.module});
  std::vector<HostArray> inputs;
  for (ValueId input : graph.inputs) {
    inputs.push_back(HostArray::zeros(DType::F32, graph.values[input].type.shape));
    for (i64 i = 0; i < inputs.back().elements(); ++i) inputs.back().set(i, static_cast<double>(i % 7) - 2);
  }
  std::string error;
  auto expected = evaluate(graph, inputs, error), found = evaluate(made, inputs, error);
  ASSERT_TRUE(expected && found) << error;
  for (std::size_t n = 0; n < expected->size(); ++n) {
    for (i64 i = 0; i < (*expected)[n].elements(); ++i)
      EXPECT_EQ((*expected)[n].get(i), (*found)[n].get(i)) << to_string(made);
  }
}

// Whether a value is smaller than the pattern's is asked once for each part, however often it stands in others.
TEST(Rewrites, PartsOfPartsAreLookedThroughOnce) {
  std::string text = "rewrite r(w: value, z: value) {\n  y0 = z + z\n";
  for (int i = 1; i < 40; ++i) text += cat("  y", i, " = y", i - 1, " + y", i - 1, "\n");
  Parsed own = parsed(text + "  multiply(relu(w), y39) -> multiply(y39, absolute(w))\n}");
  ASSERT_EQ(own.errors, "");
  Builder b;
  ValueId y = b.input({4, 4}), w = b.builder.input("w", {DType::F32, {4}});
  for (int i = 0; i < 40; ++i) y = b.add("add", {}, {y, y});
  b.builder.output(b.add("multiply", {}, {b.spread(b.add("relu", {}, {w}), {4, 4}), y}), "y");
  std::vector<std::string> ops;
  for (const Node& node : apply_rewrites(b.builder.finish(), {&own.module}).nodes) ops.push_back(node.op);
  EXPECT_EQ(std::ranges::count(ops, "add"), 40) << join(ops, " ");
  EXPECT_EQ(std::ranges::count(ops, "absolute"), 1) << join(ops, " ");
  EXPECT_EQ(std::ranges::count(ops, "relu"), 0) << join(ops, " ");
}

// Two that undo each other come to an end.
TEST(Rewrites, GoingInCirclesEnds) {
  Parsed own = parsed("rewrite a(x: value) { relu(x) -> absolute(x) }\nrewrite b(x: value) { absolute(x) -> relu(x) }");
  ASSERT_EQ(own.errors, "");
  Builder b;
  b.builder.output(b.add("relu", {}, {b.input({4})}), "y");
  EXPECT_EQ(apply_rewrites(b.builder.finish(), {&own.module}).nodes.size(), 1u);
}

// ---- texts that ask for too much

TEST(LargeRewrites, PartsInsideOfPartsHaveALimit) {
  auto chain = [](int parts) {
    std::string text = "rewrite r(x: value) {\n  p0 = relu(x)\n";
    for (int i = 1; i < parts; ++i) text += cat("  p", i, " = relu(p", i - 1, ")\n");
    return cat(text, "  relu(p", parts - 1, ") -> relu(x)\n}\n");
  };
  Parsed some = parsed(chain(400));
  EXPECT_EQ(some.errors, "");
  Builder b;
  Graph graph = b.finish(b.add("relu", {}, {b.input({2, 3})}));
  EXPECT_EQ(apply_rewrites(graph, {&some.module}).nodes.size(), 1u);
  for (int parts : {600, 40000}) {
    EXPECT_NE(parsed(chain(parts)).errors.find("with its parts this has more than 500 levels"), std::string::npos)
        << parts;
  }
}

// Each sum has two equal operands, so it matches in two ways; all 2^30 of them fail at the end.
TEST(LargeRewrites, WaysToMatchHaveALimit) {
  constexpr int kSums = 30;
  std::string parameters = "x: value", pattern = "power(x, 77)";
  for (int i = 0; i < kSums; ++i) {
    parameters += cat(", v", i, ": value");
    pattern = cat("add(v", i, ", ", pattern, ")");
  }
  Parsed own = parsed(cat("rewrite r(", parameters, ") { ", pattern, " -> relu(x) }"));
  ASSERT_EQ(own.errors, "");
  Builder b;
  ValueId sum = b.input({2, 3});
  for (int i = 0; i < kSums; ++i) sum = b.add("add", {}, {sum, sum});
  EXPECT_EQ(apply_rewrites(b.finish(sum), {&own.module}).nodes.size(), static_cast<std::size_t>(kSums));
}

TEST(LargeRewrites, GraphsGrowUpToALimit) {
  Parsed own = parsed("rewrite r(x: value) { relu(x) -> relu(relu(relu(relu(relu(relu(relu(relu(x)))))))) }");
  ASSERT_EQ(own.errors, "");
  EXPECT_EQ(check_rewrite(own.module, own.module.rewrites[0]), "");
  Builder b;
  Graph made = apply_rewrites(b.finish(b.add("relu", {}, {b.input({2, 3})})), {&own.module});
  EXPECT_GT(made.nodes.size(), 64u);
  EXPECT_LE(made.nodes.size(), 400u);  // 16 + 256, and what the round still adds
}

TEST(LargeRewrites, WhatIsTriedIsSmall) {
  auto problem = [](const std::string& text) {
    Parsed own = parsed(text);
    EXPECT_EQ(own.errors, "") << text;
    return own.errors.empty() ? check_rewrite(own.module, own.module.rewrites[0]) : own.errors;
  };
  EXPECT_EQ(problem("rewrite r(x: value) { relu(x) -> relu(broadcast(x, R = [1000000000] + [d for d in x])) }"),
            "the replacement has more than 1048576 elements");
  std::string slow = problem(
      "rewrite r(x: value) { relu(x) -> reduce_max(broadcast(relu(x), R = [100000] + [d for d in x]), axes = [0]) }");
  EXPECT_NE(slow.find("it takes more than 200000 steps"), std::string::npos) << slow;
  // Constants of the replacement count, too.
  slow = problem(
      "rewrite r(x: value) { x + 0 -> x + reshape(max_pool(reshape(0, R = [1, 1, 1]), window = [300000], strides = "
      "[1], "
      "before = [299999], after = [0], dilations = [1]), R = [1]) }");
  EXPECT_NE(slow.find("it takes more than 200000 steps"), std::string::npos) << slow;
}

TEST(LargeRewrites, StepsOfAllNodesCount) {
  constexpr i64 kMost = 3000;
  for (int nodes : {1, 100}) {
    Builder b;
    ValueId x = b.input({4, 4});
    for (int i = 0; i < nodes; ++i) x = b.add("relu", {}, {x});
    std::string error;
    EXPECT_EQ(evaluate(b.finish(x), {HostArray::zeros(DType::F32, {4, 4})}, error, kMost).has_value(), nodes == 1);
  }
}

TEST(LargeRewrites, WhatTakesTooManyStepsIsNotBegun) {
  Builder b;
  Graph graph = b.finish(b.number(1, {i64{1} << 40}));
  std::string error;
  EXPECT_FALSE(evaluate(graph, {}, error, 1000));
  EXPECT_NE(error.find("it takes more than 1000 steps"), std::string::npos) << error;
}

// What reads a float would not take an integer in its place.
TEST(Rewrites, TheTypeStays) {
  Parsed own = parsed("rewrite r(x: value) { x * 0 -> cast(x * 0, to = i32) }");
  ASSERT_EQ(own.errors, "");
  EXPECT_EQ(check_rewrite(own.module, own.module.rewrites[0]), "the types of the results differ");
  Builder b;
  ValueId x = b.input({2, 3});
  Graph graph = b.finish(b.add("add", {}, {b.add("multiply", {}, {x, b.number(0, {2, 3})}), x}));
  EXPECT_EQ(apply_rewrites(graph, {&own.module}).nodes.size(), 2u);
}

}  // namespace
}  // namespace tw::graph
