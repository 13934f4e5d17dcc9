// The built-in cost models, their choice by name, and the measures of accuracy. Nothing here loads
// LibTorch: network_test does.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <set>
#include <sstream>

#include "costmodel/make_model.h"
#include "costmodel/model_bytes.h"
#include "costmodel/random_model.h"
#include "costmodel/symmetric_trees.h"
#include "costmodel/tree_model.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "tests/support/cost_model_checks.h"

namespace tw {
namespace {

constexpr double failed = std::numeric_limits<double>::infinity();

const ModelMaker make_tree = [](int columns, u64 seed) { return std::make_unique<TreeModel>(columns, seed); };

// ---- accuracy

TEST(Accuracy, PerfectScoresReachOneInEveryMeasure) {
  const std::vector<double> seconds = {4, 1, 3, 2};
  const Accuracy a = accuracy(std::vector<float>{-4, -1, -3, -2}, seconds, std::vector<i32>(4, 0), 2);
  EXPECT_EQ(a.top1, 1);
  EXPECT_EQ(a.top5, 1);
  EXPECT_EQ(a.pairwise, 1);
  EXPECT_EQ(a.recall, 1);
  EXPECT_EQ(a.groups, 1);
}

TEST(Accuracy, CountsByHand) {
  // Scored best: 3 s, then 1 s, 4 s, failed, 2 s.
  const std::vector<double> seconds = {3, 1, 4, failed, 2};
  const std::vector<float> scores = {9, 8, 7, 6, 5};
  const Accuracy a = accuracy(scores, seconds, std::vector<i32>(5, 0), 2);
  EXPECT_DOUBLE_EQ(a.top1, 1.0 / 3);
  EXPECT_EQ(a.top5, 1);
  EXPECT_DOUBLE_EQ(a.pairwise, 6.0 / 10);  // right: 3-4, 3-failed, 1-4, 1-failed, 1-2, 4-failed
  EXPECT_DOUBLE_EQ(a.recall, 1.0 / 2);     // of 1 s and 2 s only the first
}

TEST(Accuracy, ClearPairsDifferByATenth) {
  // The wrong pair is 1 and 1.09 s; of the second group no pair is clear.
  const std::vector<double> seconds = {1, 1.09, 2, 2.2, failed, 3, 3.2};
  const std::vector<float> scores = {4, 5, 3, 2, 1, 1, 2};
  const Accuracy a = accuracy(scores, seconds, std::vector<i32>{0, 0, 0, 0, 0, 1, 1});
  EXPECT_EQ(a.groups, 2);
  EXPECT_EQ(a.clear_groups, 1);
  EXPECT_DOUBLE_EQ(a.pairwise, (0.9 + 0) / 2);
  EXPECT_DOUBLE_EQ(a.clear_pairs, 1);
  const Accuracy wrong =
      accuracy(std::vector<float>{1, 2, 3}, std::vector<double>{1, 1.05, 1.1}, std::vector<i32>(3, 0));
  EXPECT_DOUBLE_EQ(wrong.clear_pairs, 0) << "1 and 1.1 s";
}

TEST(Accuracy, ConstantScoresGainNothingFromTheOrderOfTheData) {
  const std::vector<double> seconds = {1, 2, 3, 4, 5, 6, failed, failed};
  const Accuracy a = accuracy(std::vector<float>(8, 1.0f), seconds, std::vector<i32>(8, 0), 3);
  EXPECT_EQ(a.top1, 0);
  EXPECT_DOUBLE_EQ(a.top5, 1.0 / 4);
  EXPECT_DOUBLE_EQ(a.pairwise, 0.5);
  EXPECT_EQ(a.recall, 0);
}

TEST(Accuracy, GroupsAreComparedWithinThemselvesAndWeighAlike) {
  // The slow task is scored higher than the fast one throughout: that is no mistake.
  const std::vector<double> seconds = {10, 20, 0.1, 0.2, 5, 5, failed};
  const std::vector<i32> group = {3, 3, -1, -1, 8, 8, 9};
  const Accuracy a = accuracy(std::vector<float>{8, 7, 1, 2, 1, 2, 0}, seconds, group);
  EXPECT_EQ(a.groups, 2);  // group 8 has no two different times, group 9 one candidate
  EXPECT_DOUBLE_EQ(a.pairwise, 0.5);
  EXPECT_DOUBLE_EQ(a.top1, 0.75);
  EXPECT_EQ(accuracy({}, {}, {}).groups, 0);
}

TEST(Accuracy, PrintsOneLine) {
  const Accuracy a{.top1 = 0.9124, .top5 = 1, .pairwise = 0.5, .recall = 0.25, .k = 10, .groups = 1};
  EXPECT_EQ(to_string(a), "top-1 0.912, top-5 1.000, pairs 0.500, recall@10 0.25 (1 task)");
}

TEST(RelativeSpeed, IsAgainstTheFastestOfTheGroupAndZeroForFailures) {
  EXPECT_EQ(relative_speed(std::vector<double>{2, 4, failed, 9, failed}, std::vector<i32>{0, 0, 0, 1, 2}),
            (std::vector<float>{1, 0.5, 0, 1, 0}));
}

// ---- symmetric trees

TEST(SymmetricTrees, FitTwoColumnsThatMatterOnlyTogether) {
  std::vector<float> x, y;
  for (int i = 0; i < 200; ++i) {
    const float a = static_cast<float>(i % 20), b = static_cast<float>(i / 20), constant = 7;
    x.insert(x.end(), {a, constant, b});
    y.push_back((a > 9) != (b > 4) ? 1.0f : -1.0f);
  }
  const MatrixView view{x.data(), 200, 3};
  const auto trees = fit_trees(view, y, std::vector<float>(200, 1.0f), {.column_share = 1}, 1);
  const std::vector<float> fitted = evaluate_trees(trees, view);
  float worst = 0;
  for (int i = 0; i < 200; ++i) worst = std::max(worst, std::abs(fitted[i] - y[i]));
  EXPECT_LT(worst, 0.05);
}

TEST(SymmetricTrees, WeightsDecideBetweenContradictions) {
  const std::vector<float> x = {1, 1, 2, 2};
  const auto trees =
      fit_trees({x.data(), 4, 1}, std::vector<float>{0, 1, 5, 5}, std::vector<float>{30, 10, 20, 20}, {}, 1);
  const std::vector<float> fitted = evaluate_trees(trees, {x.data(), 4, 1});
  EXPECT_NEAR(fitted[0], 0.25, 0.02);
  EXPECT_NEAR(fitted[2], 5, 0.02);
}

TEST(SymmetricTrees, ConstantColumnsGiveNoTrees) {
  const std::vector<float> x(12, 3.0f);
  EXPECT_TRUE(fit_trees({x.data(), 4, 3}, std::vector<float>{1, 2, 3, 4}, std::vector<float>(4, 1.0f), {}, 1).empty());
}

// What a tree costs does not grow with the data: slopes are asked for the rows that it sees, and for no others.
TEST(SymmetricTrees, EachTreeAsksForTheSlopesOfItsRows) {
  constexpr int kRows = 500, kLimit = 40;
  std::vector<float> x;
  for (int i = 0; i < kRows; ++i) x.insert(x.end(), {static_cast<float>(i % 7), static_cast<float>(i % 11)});
  std::set<int> seen;
  auto boosted = [&](float elsewhere) {
    auto slopes = [&](int, std::span<const int> rows, std::span<const float> scores, std::span<float> descent,
                      std::span<float> curvature) {
      EXPECT_EQ(rows.size(), kLimit);
      EXPECT_TRUE(std::ranges::is_sorted(rows));
      seen.insert(rows.begin(), rows.end());
      std::ranges::fill(descent, elsewhere);
      std::ranges::fill(curvature, elsewhere);
      for (int row : rows) descent[row] = x[2 * row] - scores[row], curvature[row] = 1;
    };
    const MatrixView view{x.data(), kRows, 2};
    return evaluate_trees(boost_trees(view, std::vector<float>(kRows, 0.0f), slopes, {.row_limit = kLimit}, 1), view);
  };
  EXPECT_EQ(boosted(0), boosted(1e9f));
  EXPECT_GT(seen.size(), 0.95 * kRows) << "other ones for each tree";
}

// Only rows of one tree are compared with each other.
TEST(TreeModel, LearnsAnOrderFromMoreRowsThanATreeSees) {
  Dataset data;
  data.features.columns = 3;
  Rng rng(1);
  for (int i = 0; i < 6000; ++i) {
    std::vector<float> row = {static_cast<float>(rng.uniform()), static_cast<float>(rng.uniform()), 1};
    data.seconds.push_back(1e-3 * (1 + row[0] + 0.3 * row[1]));
    data.group.push_back(i % 2);
    data.features.add(row);
  }
  TreeModel model(3, 1, Objective::Rank);
  EXPECT_EQ(model.update(data, Effort::Round).problem, "");
  EXPECT_GT(accuracy(model.predict(data.features), data.seconds, data.group).pairwise, 0.9);
}

// ---- objectives

// The slopes are derivatives of the loss, in a group whose pairs all meet.
TEST(Objectives, SlopesAreThoseOfTheLoss) {
  const std::vector<float> speed = {1, 0.5f, 0, 0.5f, 1, 0.2f};
  const std::vector<i32> group = {0, 0, 0, 0, 1, 1};
  const std::vector<int> places = {0, 1, 2, 3, 4, 5};
  const Learned data{speed, group, places};
  const std::vector<float> scores = {0.3f, 0.7f, -0.2f, 0.1f, -1, 2};
  using Function = std::function<void(std::span<const float>, Slopes&)>;
  const Function losses[] = {[&](auto s, Slopes& out) { pairwise_slopes(data, s, 1, 0, out); },
                             [&](auto s, Slopes& out) { squared_slopes(data, s, 0.5f, out); }};
  for (const Function& loss : losses) {
    Slopes at, before, after;
    loss(scores, at);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      std::vector<float> moved = scores;
      moved[i] -= 0.01f;
      loss(moved, before);
      moved[i] += 0.02f;
      loss(moved, after);
      const double scale = &loss == &losses[0] ? 6 : 3;  // mean over 6; half the square
      EXPECT_NEAR(at.gradient[i], scale * (after.loss - before.loss) / 0.02, 2e-3) << i;
      EXPECT_NEAR(at.curvature[i], (after.gradient[i] - before.gradient[i]) / 0.02, 2e-3) << i;
    }
  }
}

TEST(Objectives, WhatDoesNotCountHasNoSlope) {
  const std::vector<float> speed = {1, 0.5f, 0}, scores = {0, 1, 2};
  const std::vector<i32> group = {0, 0, 0};
  const std::vector<int> places = {0, 2};
  Slopes out;
  pairwise_slopes({speed, group, places}, scores, 1, 0, out);
  EXPECT_EQ(out.gradient[1], 0);
  EXPECT_EQ(out.curvature[1], 0);
  EXPECT_LT(out.gradient[0], 0);
  squared_slopes({speed, group, places}, scores, 1, out);
  EXPECT_EQ(out.gradient, (std::vector<float>{-1, 0, 2}));
}

TEST(Objectives, HaveNames) {
  EXPECT_EQ(parse_objective("rank"), Objective::Rank);
  EXPECT_EQ(parse_objective("regression"), Objective::Regression);
  EXPECT_EQ(parse_objective("usual"), Objective::Usual);
  EXPECT_FALSE(parse_objective("Rank"));
  EXPECT_EQ(join(objective_names(), ", "), "usual, rank, regression");
  for (const std::string& name : objective_names()) EXPECT_EQ(name_of(*parse_objective(name)), name);
}

// ---- models

TEST(TreeModel, Learns) { check_learns(make_tree, Effort::Round, 0.92); }
TEST(TreeModel, LearnsWithFullEffort) { check_learns(make_tree, Effort::Full, 0.92); }
TEST(TreeModel, RanksFailedLast) { check_ranks_failed_last(make_tree, Effort::Round, 0.95); }
TEST(TreeModel, RepeatsItself) { check_repeats_itself(make_tree); }
TEST(TreeModel, SavesAndLoads) { check_saves_and_loads(make_tree); }
TEST(TreeModel, RejectsForeignBytes) { check_rejects_foreign_bytes(make_tree); }
TEST(TreeModel, CornerCases) { check_corner_cases(make_tree); }

const ModelMaker make_rank_tree = [](int columns, u64 seed) {
  return make_model("tree", columns, seed, {.objective = Objective::Rank}).model;
};
TEST(TreeModel, LearnsTheOrder) { check_learns(make_rank_tree, Effort::Round, 0.9); }
TEST(TreeModel, LearnsTheOrderAgain) { check_repeats_itself(make_rank_tree); }
TEST(TreeModel, SavesAndLoadsTheOrder) { check_saves_and_loads(make_rank_tree); }
TEST(TreeModel, OrderOfCornerCases) { check_corner_cases(make_rank_tree); }
TEST(TreeModel, RegressionIsWhatItUsuallyDoes) {
  const Dataset data = synthetic_costs({.groups = 1, .per_group = 50, .columns = 64}, 1);
  TreeModel usual(64, 1), regression(64, 1, Objective::Regression);
  usual.update(data, Effort::Round);
  regression.update(data, Effort::Round);
  EXPECT_EQ(usual.save(), regression.save());
}

// A file says what was learned, be it the usual or not.
TEST(TreeModel, IsOpenedWithItsObjective) {
  for (Objective objective : {Objective::Rank, Objective::Regression}) {
    MadeModel made = make_model("tree", 64, 1, {.objective = objective});
    made.model->update(synthetic_costs({.groups = 1, .per_group = 40, .columns = 64}, 1), Effort::Round);
    const std::string bytes = made.model->save();
    EXPECT_EQ(model_header(bytes)->kind, "tree");
    EXPECT_EQ(model_header(bytes)->objective, objective);
    MadeModel opened = open_model(bytes, 64);
    ASSERT_TRUE(opened.model) << opened.note;
    EXPECT_EQ(opened.model->objective(), objective);
    EXPECT_EQ(opened.model->save(), bytes);
  }
  EXPECT_EQ(make_model("random", 64, 1).model->objective(), Objective::Usual) << "it learns nothing";
  std::string unknown = make_model("tree", 64, 1, {.objective = Objective::Rank}).model->save();
  unknown.replace(unknown.find("rank"), 4, "rang");
  EXPECT_FALSE(model_header(unknown)) << "there is no such objective";
}

TEST(TreeModel, SumsOverRowsWhateverTheirOrder) {
  const Dataset data = synthetic_costs({.groups = 1, .per_group = 50, .columns = 64}, 1);
  TreeModel model(64, 1);
  model.update(data, Effort::Round);
  FeatureBatch reversed{.columns = 64};
  for (int c = 0; c < data.size(); ++c) {
    std::vector<float> rows;
    for (i32 r = data.features.first_row[c + 1] - 1; r >= data.features.first_row[c]; --r) {
      rows.insert(rows.end(), data.features.row(r), data.features.row(r) + 64);
    }
    reversed.add(rows);
  }
  EXPECT_EQ(accuracy(model.predict(reversed), data.seconds, data.group).pairwise, accuracy_on(model, data).pairwise);
}

TEST(RandomModel, ScoresDependOnSeedAndFeaturesOnly) {
  const FeatureBatch batch = synthetic_costs({.groups = 1, .per_group = 30, .columns = 64}, 1).features;
  FeatureBatch last{.columns = 64};
  last.add(batch, 29);
  const std::vector<float> scores = RandomModel(64, 5).predict(batch);
  EXPECT_EQ(RandomModel(64, 5).predict(last)[0], scores[29]);
  EXPECT_NE(RandomModel(64, 6).predict(batch), scores);
  RandomModel loaded(64, 6);
  ASSERT_TRUE(loaded.load(RandomModel(64, 5).save()));
  EXPECT_EQ(loaded.predict(batch), scores);
}

// ---- choice by name

class PluginVariable {
 public:
  explicit PluginVariable(const std::string& path) { setenv("TRACEWRIGHT_TORCH_PLUGIN", path.c_str(), 1); }
  ~PluginVariable() { unsetenv("TRACEWRIGHT_TORCH_PLUGIN"); }
};

TEST(MakeModel, KnowsItsNames) {
  EXPECT_STREQ(make_model("tree", 164, 1).model->name(), "tree");
  EXPECT_STREQ(make_model("random", 164, 1).model->name(), "random");
  EXPECT_EQ(make_model("tree", 164, 1).note, "");
  const MadeModel unknown = make_model("trea", 164, 1);
  EXPECT_EQ(unknown.model, nullptr);
  EXPECT_EQ(
      unknown.note,
      "unknown cost model `trea`; did you mean `tree`? (there are: auto, mlp, mlp-reference, treegru, tlp, xgboost, "
      "xgboost-reference, xgboost-relation, xgboost-knobs, tree, draft, random)");
}

TEST(MakeModel, AutoFallsBackToTreeAndSaysWhy) {
  PluginVariable variable("/nowhere/plugin.so");
  const MadeModel made = make_model("auto", 164, 1);
  ASSERT_NE(made.model, nullptr);
  EXPECT_STREQ(made.model->name(), "tree");
  EXPECT_EQ(made.note,
            "using the built-in cost model `tree`: the cost model `mlp` needs the LibTorch plugin, "
            "which did not "
            "open: no file /nowhere/plugin.so");
  EXPECT_EQ(make_model("mlp", 164, 1).model, nullptr);
}

TEST(MakeModel, AFileThatIsNoPluginIsNamedWithTheReason) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("tw_no_plugin_" + std::to_string(getpid()) + ".so");
  std::ofstream(path) << "this is no shared library, but long enough to have a header that a "
                         "loader would read first";
  PluginVariable variable(path);
  const MadeModel made = make_model("auto", 164, 1);
  std::filesystem::remove(path);
  EXPECT_STREQ(made.model->name(), "tree");
  EXPECT_NE(made.note.find(path), std::string::npos) << made.note;
  EXPECT_NE(made.note.find("ELF"), std::string::npos) << made.note;
}

TEST(MakeModel, NothingButTheMlpMapsLibTorch) {
  check_corner_cases(make_tree);
  make_model("random", 164, 1);
  std::ifstream maps("/proc/self/maps");
  std::stringstream text;
  text << maps.rdbuf();
  ASSERT_NE(text.str().find("cost_model_test"), std::string::npos);
  EXPECT_EQ(text.str().find("libtorch"), std::string::npos);
  EXPECT_EQ(text.str().find("tracewright_torch"), std::string::npos);
}

}  // namespace
}  // namespace tw
