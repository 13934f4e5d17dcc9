// The choice of layouts by costs: it is the cheapest of all assignments, and each assignment computes the same. And the
// costs that are used for compiled models.
#include "graph/passes/layouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "dsl/base/text.h"
#include "graph/fusion.h"
#include "graph/passes/minimum_cut.h"
#include "graph/passes/passes.h"
#include "sampler/search/first_kernel.h"
#include "sampler/tasks/drafted_layouts.h"
#include "support/graph_kit.h"
#include "support/random_graph.h"
#include "support/support.h"
#include "tests/support/parsed.h"
#include "tests/unit/plan_walk.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;
using Layouts = std::vector<Layout>;

constexpr double kMicrosecond = 1e-6, kRounding = 1e-8;

// Random costs of whole microseconds, which follow from the seed. Some transpositions cost nothing.
class PlantedCosts : public LayoutCosts {
 public:
  explicit PlantedCosts(u64 seed) : seed_(seed) {}
  double window(const Graph&, const Node& node, Layout layout) override {
    return drawn(node.outputs[0], layout == Layout::RowMajor ? 1 : 2, 12) * kMicrosecond;
  }
  double conversion(const OperandType& type) override {
    return (drawn(static_cast<u64>(elements_of(type)), 3, 6) - 1) * kMicrosecond;
  }

 private:
  double drawn(u64 of, u64 what, i64 most) const { return static_cast<double>(1 + Rng(seed_, of, what).below(most)); }
  u64 seed_;
};

// The same costs everywhere.
class UniformCosts : public LayoutCosts {
 public:
  UniformCosts(double row_major, double last, double conversion)
      : row_major_(row_major), last_(last), conversion_(conversion) {}
  double window(const Graph&, const Node&, Layout layout) override {
    return layout == Layout::RowMajor ? row_major_ : last_;
  }
  double conversion(const OperandType&) override { return conversion_; }

 private:
  double row_major_, last_, conversion_;
};

class Builder : public test::GraphKit {
 public:
  ValueId constant(const Ints& shape) { return builder.constant("c", HostArray::zeros(DType::F32, shape)); }
  ValueId conv_to(ValueId x, i64 channels) { return conv(x, constant({channels, builder.type(x).shape[1], 3, 3})); }
};

// What an assignment costs, as layouts.h defines it.
class Assignments {
 public:
  Assignments(const Graph& graph, LayoutCosts& costs) : graph_(graph), costs_(costs), makers_(makers_of(graph)) {
    std::vector<bool> may_be_last(graph.values.size(), false);
    for (const Node& node : graph.nodes) {
      roles_.push_back(layout_role(graph, node));
      const bool follows = std::ranges::any_of(node.inputs, [&](ValueId input) { return may_be_last[input]; });
      const bool has_choice = roles_.back() == LayoutRole::Window || (roles_.back() == LayoutRole::Follower && follows);
      if (!has_choice) continue;
      may_be_last[node.outputs[0]] = true;
      free_.push_back(roles_.size() - 1);
    }
  }

  // Positions of the nodes that have a choice.
  const std::vector<std::size_t>& free() const { return free_; }
  Layouts uniform(Layout layout) const {
    Layouts layouts(graph_.nodes.size(), Layout::RowMajor);
    for (std::size_t n : free_) layouts[n] = layout;
    return layouts;
  }
  double seconds(const Layouts& layouts) const {
    std::vector<Layout> made(graph_.values.size(), Layout::RowMajor);
    std::vector<std::set<Layout>> wanted(graph_.values.size());
    double sum = 0;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const LayoutRole role = roles_[n];
      if (role == LayoutRole::Window)
        sum += costs_.window(graph_, node, layouts[n]) * (layouts[n] == Layout::RowMajor ? kClearlyFaster : 1);
      made[node.outputs[0]] = layouts[n];
      for (std::size_t i = 0; i < node.inputs.size() && role != LayoutRole::Reducer; ++i) {
        const bool is_own = role == LayoutRole::Follower || (role == LayoutRole::Window && i == 0);
        wanted[node.inputs[i]].insert(is_own ? layouts[n] : Layout::RowMajor);
      }
    }
    for (ValueId output : graph_.outputs) wanted[output].insert(Layout::RowMajor);
    for (ValueId value = 0; value < graph_.values.size(); ++value) {
      wanted[value].erase(made[value]);
      if (!wanted[value].empty()) sum += transposed(value);
    }
    return sum;
  }

 private:
  double transposed(ValueId value) const {
    Ints shape = graph_.values[value].type.shape;
    const Node* maker = makers_[value];
    const ValueId source = maker && maker->op == "broadcast" ? maker->inputs[0] : value;
    const Ints& own = graph_.values[source].type.shape;
    if (graph_.values[source].data || shape.size() < 3) return 0;
    shape.assign(shape.size() - own.size(), 1);
    shape.insert(shape.end(), own.begin(), own.end());
    const bool is_one_pixel = std::all_of(shape.begin() + 2, shape.end(), [](i64 extent) { return extent == 1; });
    return shape[1] == 1 || is_one_pixel ? 0 : costs_.conversion({graph_.values[source].type.dtype, shape});
  }

  const Graph& graph_;
  LayoutCosts& costs_;
  std::vector<const Node*> makers_;
  std::vector<LayoutRole> roles_;
  std::vector<std::size_t> free_;
};

double cheapest_by_trying_all(const Graph& graph, const Assignments& assignments) {
  double least = std::numeric_limits<double>::infinity();
  for (u64 number = 0; number < u64{1} << assignments.free().size(); ++number) {
    Layouts layouts(graph.nodes.size(), Layout::RowMajor);
    for (std::size_t i = 0; i < assignments.free().size(); ++i) {
      if (number >> i & 1) layouts[assignments.free()[i]] = Layout::ChannelsLast;
    }
    least = std::min(least, assignments.seconds(layouts));
  }
  return least;
}

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes) ops.push_back(node.op);
  return ops;
}
i64 count_of(const Graph& graph, const std::string& op) { return std::ranges::count(ops_of(graph), op); }

TEST(MinimumCut, IsTheCheapestOfAllWithTheFewestPointsOnTheSecondSide) {
  test::Seeds seeds = test::seeds_from_environment(300);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    Rng rng(static_cast<u64>(seed));
    struct Edge {
      u32 from, to;
      i64 cost;
    };
    std::vector<Edge> edges;
    MinimumCut cut;
    const u32 points = 2 + static_cast<u32>(rng.below(7));
    for (u32 p = 2; p < points; ++p) EXPECT_EQ(cut.add_point(), p);
    for (i64 count = rng.below(24); count > 0; --count) {
      const u32 from = static_cast<u32>(rng.below(points)), to = static_cast<u32>(rng.below(points));
      edges.push_back({from, to, rng.below(6)});
      cut.add_edge(from, to, edges.back().cost);
    }
    auto cost_of = [&](auto is_second) {
      i64 cost = 0;
      for (const Edge& edge : edges) cost += !is_second(edge.from) && is_second(edge.to) ? edge.cost : 0;
      return cost;
    };
    i64 least = std::numeric_limits<i64>::max(), fewest = 0;
    for (u32 number = 0; number < u32{1} << (points - 2); ++number) {
      const i64 cost = cost_of([&](u32 p) { return p == 1 || (p > 1 && (number >> (p - 2) & 1)); });
      const i64 count = std::popcount(number);
      if (cost < least || (cost == least && count < fewest)) least = cost, fewest = count;
    }
    const std::vector<bool> is_second = cut.second_side();
    EXPECT_FALSE(is_second[MinimumCut::kFirst]);
    EXPECT_TRUE(is_second[MinimumCut::kSecond]);
    EXPECT_EQ(cost_of([&](u32 p) { return is_second[p]; }), least) << "TW_SEED=" << seed;
    EXPECT_EQ(std::ranges::count(is_second, true) - 1, fewest) << "TW_SEED=" << seed;
  }
}

// On all graphs: chains, and those with values that several nodes read.
TEST(Layouts, AreTheCheapestOfAllAssignments) {
  test::Seeds seeds = test::seeds_from_environment(200);
  int mixed = 0;
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    for (auto make : {test::random_graph, test::random_joined_graph}) {
      const Graph graph = remove_unused(make(Rng(static_cast<u64>(seed))));
      PlantedCosts costs(static_cast<u64>(seed));
      const Assignments assignments(graph, costs);
      if (assignments.free().size() > 12) continue;
      const Layouts found = cheapest_layouts(graph, costs);
      const std::string what = cat("TW_SEED=", seed, "\n", to_string(graph));
      EXPECT_NEAR(assignments.seconds(found), cheapest_by_trying_all(graph, assignments), kRounding) << what;
      const Layouts all_last = assignments.uniform(Layout::ChannelsLast), none = assignments.uniform(Layout::RowMajor);
      for (std::size_t n = 0; n < found.size(); ++n)
        EXPECT_TRUE(found[n] == Layout::RowMajor || all_last[n] == Layout::ChannelsLast) << "node " << n << what;
      mixed += found != all_last && found != none;
    }
  }
  EXPECT_TRUE(seeds.is_one_case || mixed > 10) << mixed;
}

// A dynamic program along the chain: the least cost up to each node for both of its layouts.
TEST(Layouts, OfALongChainCostWhatADynamicProgramFinds) {
  Builder b;
  Rng rng(5);
  ValueId x = b.input({1, 2, 6, 6});
  for (int i = 0; i < 60; ++i) x = rng.below(3) == 0 ? b.add("relu", {}, {x}) : b.conv_to(x, 2 + rng.below(3));
  const Graph graph = b.finish(x);
  PlantedCosts costs(5);
  double row_major = 0, last = std::numeric_limits<double>::infinity();
  for (const Node& node : graph.nodes) {
    const double moved = costs.conversion(graph.values[node.inputs[0]].type);
    const double to_row = std::min(row_major, last + moved), to_last = std::min(last, row_major + moved);
    row_major = to_row, last = to_last;
    if (node.op != "conv") continue;
    row_major += kClearlyFaster * costs.window(graph, node, Layout::RowMajor);
    last += costs.window(graph, node, Layout::ChannelsLast);
  }
  const double least = std::min(row_major, last + costs.conversion(graph.values[graph.outputs[0]].type));
  EXPECT_NEAR(Assignments(graph, costs).seconds(cheapest_layouts(graph, costs)), least, kRounding);
}

TEST(Layouts, AreNeverWorseThanOneForAll) {
  for (u64 seed = 0; seed < 20; ++seed) {
    Builder b;
    Rng rng(seed);
    std::vector<ValueId> values{b.input({1, 4, 8, 8})};
    for (int i = 0; i < 40; ++i) {  // residual blocks, and branches that are joined
      const ValueId x = values[static_cast<std::size_t>(std::max(rng.below(i + 1), rng.below(i + 1)))],
                    y = values.back();
      const i64 kind = rng.below(4);
      values.push_back(kind == 0   ? b.add("add", {}, {x, y})
                       : kind == 1 ? b.conv_to(b.add("concat", {{"axis", i64{1}}}, {x, y}), 4)
                                   : b.conv_to(x, 4));
    }
    const Graph graph = b.finish(values.back());
    PlantedCosts costs(seed);
    const Assignments assignments(graph, costs);
    const double found = assignments.seconds(cheapest_layouts(graph, costs)) - kRounding;
    EXPECT_LE(found, assignments.seconds(assignments.uniform(Layout::RowMajor)));
    EXPECT_LE(found, assignments.seconds(assignments.uniform(Layout::ChannelsLast)));
  }
}

void expect_same(const Graph& graph, const Graph& made, i64 seed) {
  std::vector<HostArray> inputs = test::random_arrays(graph, Rng(static_cast<u64>(seed), 1));
  const std::string what = cat("TW_SEED=", seed, "\n", to_string(graph), "becomes\n", to_string(made));
  std::string error;
  auto expected = evaluate(graph, inputs, error), found = evaluate(made, inputs, error);
  ASSERT_TRUE(expected && found) << error << what;
  EXPECT_TRUE(test::are_same(*expected, *found)) << what;
  ASSERT_EQ(graph.inputs.size(), made.inputs.size());
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    EXPECT_EQ(graph.values[graph.inputs[i]].type.shape, made.values[made.inputs[i]].type.shape) << "row-major" << what;
}

// Also one that no costs would give: entries of nodes without a choice are drawn, too.
TEST(Layouts, AnyAssignmentComputesTheSame) {
  test::Seeds seeds = test::seeds_from_environment(40);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    for (auto make : {test::random_graph, test::random_joined_graph}) {
      const Graph graph = make(Rng(static_cast<u64>(seed)));
      Rng rng(static_cast<u64>(seed), 2);
      Layouts layouts;
      for (std::size_t n = 0; n < graph.nodes.size(); ++n)
        layouts.push_back(rng.below(2) == 0 ? Layout::RowMajor : Layout::ChannelsLast);
      expect_same(graph, with_layouts(graph, layouts), seed);
    }
  }
}

TEST(Layouts, SimplifiedGraphsComputeTheSameWhateverIsCheap) {
  test::Seeds seeds = test::seeds_from_environment(200);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    const Graph graph = test::random_graph(Rng(static_cast<u64>(seed)));
    PlantedCosts costs(static_cast<u64>(seed)), again(static_cast<u64>(seed));
    const Graph made = simplified(graph, {}, DType::F32, &costs);
    expect_same(graph, made, seed);
    EXPECT_EQ(to_string(made), to_string(simplified(graph, {}, DType::F32, &again)));
  }
}

TEST(Layouts, LibrariesOfMixedLayoutsGiveWhatTheInterpreterGives) {
  test::Seeds seeds = test::seeds_from_environment(4);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    const Graph graph = test::random_joined_graph(Rng(static_cast<u64>(seed)));
    std::vector<HostArray> inputs = test::random_arrays(graph, Rng(static_cast<u64>(seed), 1));
    PlantedCosts costs(static_cast<u64>(seed));
    const Graph made = simplified(graph, {}, DType::F32, &costs);
    std::string error;
    auto expected = evaluate(graph, inputs, error);
    ASSERT_TRUE(expected) << error;
    EXPECT_TRUE(test::are_same(*expected, test::outputs_of(test::compiled(made), inputs))) << "TW_SEED=" << seed << "\n"
                                                                                           << to_string(made);
  }
}

Graph two_layers() {
  Builder b;
  ValueId x = b.add("relu", {}, {b.conv_to(b.input({1, 4, 6, 6}), 8)});
  return b.finish(b.add("relu", {}, {b.conv_to(x, 8)}));
}

TEST(Layouts, NearTiesHaveTheirChannelsLastAsWithoutCosts) {
  const Graph graph = two_layers();
  UniformCosts close(10 * kMicrosecond, 12 * kMicrosecond, 0);
  EXPECT_EQ(to_string(in_cheapest_layouts(graph, close)), to_string(channels_last(graph)));
  UniformCosts clear(10 * kMicrosecond, 13 * kMicrosecond, 0);
  EXPECT_EQ(ops_of(in_cheapest_layouts(graph, clear)), (std::vector<std::string>{"conv", "relu", "conv", "relu"}));
}

TEST(Layouts, UnknownCostsLeaveTheChannelsLast) {
  const Graph graph = two_layers();
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  UniformCosts untried(kUnknown, 1, kMicrosecond), unknown(kMicrosecond, kUnknown, kMicrosecond),
      none(kUnknown, kUnknown, kMicrosecond);
  for (LayoutCosts* costs : std::initializer_list<LayoutCosts*>{&untried, &unknown, &none})
    EXPECT_EQ(to_string(in_cheapest_layouts(graph, *costs)), to_string(channels_last(graph)));
}

TEST(Layouts, WhatTranspositionsCostKeepsAWindowRowMajor) {
  const Graph graph = two_layers();
  UniformCosts costs(10 * kMicrosecond, 9 * kMicrosecond, 100 * kMicrosecond);
  EXPECT_EQ(count_of(in_cheapest_layouts(graph, costs), "transpose"), 0);
}

// What follows a window keeps its layout, so that it is computed in the window's kernel.
TEST(Layouts, ATranspositionStandsBehindWhatFollowsAWindow) {
  class FirstRowMajor : public UniformCosts {
   public:
    FirstRowMajor() : UniformCosts(kMicrosecond, kMicrosecond, kMicrosecond) {}
    double window(const Graph& graph, const Node& node, Layout layout) override {
      const bool is_first = node.inputs[0] == graph.inputs[0];
      return is_first == (layout == Layout::RowMajor) ? kMicrosecond : 1;
    }
  };
  FirstRowMajor costs;
  const Graph made = remove_unused(in_cheapest_layouts(two_layers(), costs));
  EXPECT_EQ(ops_of(made), (std::vector<std::string>{"conv", "relu", "transpose", "conv_last", "relu", "transpose"}))
      << to_string(made);
}

TEST(Layouts, AWindowAloneHasNoTranspositions) {
  Builder b;
  const Graph graph = b.finish(b.conv_to(b.input({1, 4, 6, 5}), 8));
  const Graph last = window_alone(graph, graph.nodes[0], Layout::ChannelsLast);
  EXPECT_EQ(ops_of(last), (std::vector<std::string>{"conv_last"})) << to_string(last);
  EXPECT_EQ(last.values[last.inputs[0]].type.shape, (Ints{1, 6, 5, 4}));
  EXPECT_EQ(last.values[last.outputs[0]].type.shape, (Ints{1, 6, 5, 8}));
  const Graph row_major = window_alone(graph, graph.nodes[0], Layout::RowMajor);
  EXPECT_EQ(ops_of(row_major), (std::vector<std::string>{"conv"}));
}

// The estimates of a processor with 8 lanes, which are the same on every machine.
class DraftedLayouts : public testing::Test {
 protected:
  static Target target_of_8_lanes() {
    Target target = test::parsed_target("cpu -mcpu=rocketlake -threads=1");
    target.vector_bits = 256, target.vector_registers = 16;
    return target;
  }
  static WorkloadArguments arguments(std::size_t dims, i64 margin, i64 groups = 1) {
    return {{"strides", Ints(dims, 1)},
            {"before", Ints(dims, margin)},
            {"after", Ints(dims, margin)},
            {"dilations", Ints(dims, 1)},
            {"groups", groups}};
  }
  // A convolution whose result has these channels.
  static Graph conv(const Ints& image, const Ints& weights, i64 margin = 0, i64 groups = 1) {
    Builder b;
    return b.finish(b.add("conv", arguments(image.size() - 2, margin, groups), {b.input(image), b.constant(weights)}));
  }
  double seconds(const Graph& graph, Layout layout) const {
    const Graph alone = window_alone(graph, graph.nodes[0], layout);
    rules::Library library = rules::Library::built_in();
    double sum = 0;
    for (const Group& group : fuse(alone).groups) {
      OwnedProgram program = program_of(alone, group);
      std::string error;
      CandidateSpace space = make_candidate_space(program.program, *library.find_set("cpu"), library, target_, error);
      EXPECT_EQ(error, "");
      sum += estimated_seconds(space, target_, {}, Rng(0));
    }
    return sum;
  }

  Target target_ = target_of_8_lanes();
};

TEST_F(DraftedLayouts, AConvolutionOfOneChannelOverALongRowIsRowMajor) {
  for (i64 margin : {0, 4}) {
    const Graph graph = conv({1, 1, 8192}, {1, 1, 9}, margin);
    EXPECT_EQ(ops_of(simplified_for(graph, target_)), (std::vector<std::string>{"conv"}));
  }
}

TEST_F(DraftedLayouts, OneOf64ChannelsHasThemLast) {
  DraftedLayoutCosts costs(target_);
  const Graph made = simplified(conv({1, 64, 14, 14}, {64, 64, 3, 3}, 1), {}, DType::F32, &costs);
  EXPECT_EQ(count_of(made, "conv_last"), 1) << to_string(made);
  EXPECT_EQ(costs.rated(), 0u) << "a row-major kernel cannot be clearly faster";
}

TEST_F(DraftedLayouts, FollowFromProgramsAlone) {
  Builder b;
  ValueId x = b.add("relu", {}, {b.conv_to(b.input({1, 2, 32, 32}), 2)});
  const Graph graph = b.finish(b.conv_to(b.conv_to(x, 2), 2));
  DraftedLayoutCosts one(target_, 1), two(target_, 2);
  const Graph made = simplified(graph, {}, DType::F32, &one);
  EXPECT_EQ(to_string(made), to_string(simplified(graph, {}, DType::F32, &two))) << "threads do not matter";
  EXPECT_EQ(one.rated(), 2u) << "equal convolutions are rated once in each layout";
  for (std::size_t n : {0u, 2u, 3u}) {
    for (Layout layout : {Layout::RowMajor, Layout::ChannelsLast})
      EXPECT_EQ(one.window(graph, graph.nodes[n], layout), two.window(graph, graph.nodes[n], layout));
  }
}

// Windows that are not tried row-major would not be clearly faster.
TEST_F(DraftedLayouts, WhatIsNotTriedIsNotFaster) {
  const Graph graphs[] = {conv({1, 1, 24, 24}, {8, 1, 3, 3}, 1), conv({1, 16, 12, 12}, {16, 16, 3, 3}, 1),
                          conv({1, 16, 14, 14}, {16, 1, 3, 3}, 1, 16), conv({1, 16, 16, 16}, {32, 16, 1, 1})};
  for (const Graph& graph : graphs) {
    DraftedLayoutCosts costs(target_);
    EXPECT_FALSE(costs.may_be_row_major(graph, graph.nodes[0])) << to_string(graph);
    EXPECT_EQ(costs.window(graph, graph.nodes[0], Layout::RowMajor), std::numeric_limits<double>::infinity());
    EXPECT_GE(kClearlyFaster * seconds(graph, Layout::RowMajor), seconds(graph, Layout::ChannelsLast))
        << to_string(graph);
  }
}

TEST_F(DraftedLayouts, AreTriedWhereChannelsLeaveLanesEmpty) {
  const DraftedLayoutCosts costs(target_);
  auto is_tried = [&](const Graph& graph) { return costs.may_be_row_major(graph, graph.nodes[0]); };
  EXPECT_TRUE(is_tried(conv({1, 64, 14, 14}, {3, 64, 3, 3})));
  EXPECT_TRUE(is_tried(conv({1, 64, 14, 14}, {9, 64, 3, 3}))) << "9 of 16 lanes";
  EXPECT_FALSE(is_tried(conv({1, 64, 14, 14}, {13, 64, 3, 3}))) << "13 of 16 lanes";
  EXPECT_TRUE(is_tried(conv({1, 64, 14, 14}, {64, 4, 3, 3}, 0, 16))) << "4 channels of a group";
  EXPECT_FALSE(is_tried(conv({1, 64, 14, 14}, {64, 1, 3, 3}, 0, 64))) << "each channel by itself";
  EXPECT_FALSE(is_tried(conv({1, 64, 3, 3}, {3, 64, 3, 3}))) << "one pixel: both layouts are the same";
}

TEST_F(DraftedLayouts, TranspositionsOfLargerValuesTakeLonger) {
  DraftedLayoutCosts costs(target_);
  EXPECT_EQ(costs.conversion({DType::F32, {1, 0, 4, 4}}), 0);
  double before = 0;
  for (i64 pixels = 4; pixels <= 1024; pixels *= 2) {
    const double now = costs.conversion({DType::F32, {1, 16, pixels, pixels}});
    EXPECT_GT(now, 3.9 * before);
    before = now;
  }
}

TEST_F(DraftedLayouts, OfDevicesAreChannelsLast) {
  const Graph graph = conv({1, 1, 8192}, {1, 1, 9});
  const Graph made = simplified_for(graph, test::parsed_target("opencl -device=0"));
  EXPECT_EQ(to_string(made), to_string(simplified(graph)));
}

}  // namespace
}  // namespace tw::graph
