// The networks in their LibTorch plugin. Skipped, with the reason, where the plugin was not built.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

#include "costmodel/make_model.h"
#include "costmodel/network_abi.h"
#include "dsl/base/rng.h"
#include "tests/support/cost_model_checks.h"

namespace tw {
namespace {

const std::string plugin = TW_BINARY_DIR "/libtracewright_torch.so";

const ModelMaker make_mlp = [](int columns, u64 seed) {
  MadeModel made = make_model("mlp", columns, seed);
  EXPECT_NE(made.model, nullptr) << made.note;
  return std::move(made.model);
};

class Mlp : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(plugin)) GTEST_SKIP() << "the LibTorch plugin was not built: " << plugin;
  }
};

TEST_F(Mlp, IsWhatAutoChoosesAndIsMappedThen) {
  const MadeModel made = make_model("auto", 164, 1);
  ASSERT_STREQ(made.model->name(), "mlp") << made.note;
  EXPECT_EQ(made.note, "");
  std::stringstream maps;
  maps << std::ifstream("/proc/self/maps").rdbuf();
  EXPECT_NE(maps.str().find("libtracewright_torch.so"), std::string::npos);
  EXPECT_NE(maps.str().find("libtorch_cpu"), std::string::npos);
}

TEST_F(Mlp, Learns) { check_learns(make_mlp, Effort::Round, 0.8); }
TEST_F(Mlp, LearnsMoreWithFullEffort) { check_learns(make_mlp, Effort::Full, 0.88); }
TEST_F(Mlp, RanksFailedLast) { check_ranks_failed_last(make_mlp, Effort::Full, 0.8); }
TEST_F(Mlp, RepeatsItself) { check_repeats_itself(make_mlp); }
TEST_F(Mlp, SavesAndLoads) { check_saves_and_loads(make_mlp); }
TEST_F(Mlp, RejectsForeignBytes) { check_rejects_foreign_bytes(make_mlp); }
TEST_F(Mlp, CornerCases) { check_corner_cases(make_mlp); }

const ModelMaker make_regression = [](int columns, u64 seed) {
  return make_model("mlp", columns, seed, {.objective = Objective::Regression}).model;
};

TEST_F(Mlp, LearnsSpeedsAsTheyAre) {
  check_learns(make_regression, Effort::Full, 0.85);
  check_learns_speed(make_regression, Effort::Full, 0.25);
}

TEST_F(Mlp, RoundsAddUp) {
  const Split split = hold_out(synthetic_costs({.groups = 2, .per_group = 400}, 3), 4);
  const auto model = make_mlp(split.learn.features.columns, 1);
  std::vector<double> pairwise;
  for (int known : {60, 200, 400, 600}) {
    std::vector<int> places;
    for (int i = 0; i < known; ++i) places.push_back(i % 2 * 300 + i / 2);
    const TrainReport report = model->update(subset(split.learn, places), Effort::Round);
    EXPECT_FALSE(report.from_scratch);
    pairwise.push_back(accuracy_on(*model, split.held_out).pairwise);
  }
  EXPECT_GT(pairwise[1], pairwise[0]);
  EXPECT_GT(pairwise[3], pairwise[1]);
}

// Predictions in chunks are the same as one by one, up to the rounding of differently shaped matrix products.
void expect_scores_without_neighbours(CostModel& model) {
  const Dataset data = synthetic_costs({.groups = 2, .per_group = 150, .columns = 64}, 1);
  model.update(data, Effort::Round);
  const std::vector<float> together = model.predict(data.features);
  for (int c : {0, 127, 128, 299}) {
    FeatureBatch alone{.columns = 64};
    alone.add(data.features, c);
    EXPECT_NEAR(model.predict(alone)[0], together[c], 1e-3 * (1 + std::abs(together[c]))) << c;
  }
}

TEST_F(Mlp, ACandidatesScoreDoesNotDependOnItsNeighbours) { expect_scores_without_neighbours(*make_mlp(64, 1)); }

TEST_F(Mlp, FeaturesThatAreNoNumbersAreAProblemAndChangeNothing) {
  Dataset data = synthetic_costs({.groups = 1, .per_group = 40, .columns = 64}, 1);
  const auto model = make_mlp(64, 1);
  model->update(data, Effort::Round);
  const std::string before = model->save();
  data.features.values[70] = std::numeric_limits<float>::quiet_NaN();
  const TrainReport report = model->update(data, Effort::Round);
  EXPECT_NE(report.problem.find("no numbers"), std::string::npos) << report.problem;
  EXPECT_EQ(model->save(), before);
}

TEST_F(Mlp, ThePluginRefusesAnotherVersion) {
  void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto open = reinterpret_cast<tw_network_open_function>(dlsym(library, "tw_network_open"));
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(open(TW_NETWORK_ABI_VERSION + 1), nullptr);
  EXPECT_EQ(open(TW_NETWORK_ABI_VERSION)->version, static_cast<uint32_t>(TW_NETWORK_ABI_VERSION));
}

TEST_F(Mlp, ErrorsOfLibTorchComeBackAsText) {
  void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  ASSERT_NE(library, nullptr) << dlerror();
  const tw_network_api* api =
      reinterpret_cast<tw_network_open_function>(dlsym(library, "tw_network_open"))(TW_NETWORK_ABI_VERSION);
  tw_network_error error{};
  EXPECT_EQ(api->create(TW_NETWORK_MLP, -5, 1, &error), nullptr);
  EXPECT_STRNE(error.text, "");
  EXPECT_EQ(api->create(77, 8, 1, &error), nullptr);
  EXPECT_STREQ(error.text, "there is no such kind of network");
}

// ---- MetaSchedule's form

const ModelMaker make_reference = [](int columns, u64 seed) {
  return make_model("mlp-reference", columns, seed).model;
};

class MlpReference : public Mlp {};

TEST_F(MlpReference, Learns) {
  const Split split = hold_out(synthetic_costs({.groups = 4, .per_group = 400}, 3), 4);
  for (Effort effort : {Effort::Round, Effort::Full}) {
    const auto model = make_reference(split.learn.features.columns, 1);
    EXPECT_EQ(model->update(split.learn, effort).problem, "");
    const Accuracy known = accuracy_on(*model, split.held_out);
    EXPECT_GE(known.pairwise, 0.78) << to_string(known);
    EXPECT_GE(known.top5, 0.9) << to_string(known);
  }
}

TEST_F(MlpReference, RepeatsItself) { check_repeats_itself(make_reference); }
TEST_F(MlpReference, SavesAndLoads) { check_saves_and_loads(make_reference); }
TEST_F(MlpReference, RejectsForeignBytes) { check_rejects_foreign_bytes(make_reference); }
TEST_F(MlpReference, CornerCases) { check_corner_cases(make_reference); }
TEST_F(MlpReference, ACandidatesScoreDoesNotDependOnItsNeighbours) {
  expect_scores_without_neighbours(*make_reference(64, 1));
}

// All epochs while a batch of 64 is a fifth of what is known, or nothing was learned.
TEST_F(MlpReference, HasFewEpochsBetweenLaterRounds) {
  const Dataset data = synthetic_costs({.groups = 2, .per_group = 200, .columns = 64}, 1);
  auto first = [&](int count) {
    std::vector<int> places(static_cast<std::size_t>(count));
    std::iota(places.begin(), places.end(), 0);
    return subset(data, places);
  };
  const auto model = make_reference(64, 1), late = make_reference(64, 1);
  EXPECT_EQ(model->update(first(256), Effort::Round).passes, 50);
  EXPECT_EQ(model->update(first(319), Effort::Round).passes, 50);
  EXPECT_EQ(model->update(first(320), Effort::Round).passes, 5);
  EXPECT_EQ(late->update(first(400), Effort::Round).passes, 50);
}

// Within each task the features tell nothing, but those of one task are nearly all slow.
TEST_F(MlpReference, ComparesCandidatesOfAllTasks) {
  Dataset data;
  data.features.columns = 2;
  for (int i = 0; i < 300; ++i) {
    const bool is_slow = i % 2 == 0;
    data.features.add(std::vector<float>{is_slow ? 1.0f : 0.0f, 1});
    data.seconds.push_back(is_slow && i > 0 ? 1e-2 : 1e-3);
    data.group.push_back(is_slow ? 0 : 1);
  }
  auto lead = [&](CostModel& model) {
    EXPECT_GT(model.update(data, Effort::Round).passes, 0) << model.name();
    const std::vector<float> scores = model.predict(data.features);
    return scores[1] - scores[0];
  };
  EXPECT_GT(lead(*make_reference(2, 1)), 1);
  EXPECT_LT(std::abs(lead(*make_model("mlp", 2, 1).model)), 0.5) << "others do not";
}

// The loss of known scores: an untrained network adds nothing to its base.
TEST_F(MlpReference, ItsLossIsLambdaRank) {
  void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  ASSERT_NE(library, nullptr) << dlerror();
  const tw_network_api* api =
      reinterpret_cast<tw_network_open_function>(dlsym(library, "tw_network_open"))(TW_NETWORK_ABI_VERSION);
  const std::vector<float> speed = {0.2f, 1, 0, 0.7f, 0.7f}, scores = {0.5f, -1, 2, 0.25f, 3}, values = {1, 2, 3, 4, 5};
  const std::vector<std::int32_t> first_row = {0, 1, 2, 3, 4, 5}, group = {0, 1, 0, 1, 2};
  const std::vector<std::size_t> order = {4, 2, 0, 3, 1};  // by score
  double best = 0, expected = 0;
  auto gain = [](double v) { return std::exp2(v) - 1; };
  auto discount = [](std::size_t place) { return 1 / std::log2(2.0 + static_cast<double>(place)); };
  for (std::size_t place = 0; double v : {1.0, 0.7, 0.7, 0.2, 0.0}) best += gain(v) * discount(place++);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      const std::size_t fast = order[i], slow = order[j];
      if (speed[fast] <= speed[slow]) continue;
      const double change =
          std::abs(discount(i) - discount(j)) * std::abs(gain(speed[fast]) - gain(speed[slow])) / best;
      expected += change * std::log2(1 + std::exp(scores[slow] - scores[fast]));
    }
  }
  tw_network_error error{};
  tw_network* network = api->create(TW_NETWORK_MLP_REFERENCE, 1, 1, &error);
  ASSERT_NE(network, nullptr) << error.text;
  const tw_network_data data{{values.data(), first_row.data(), 5}, speed.data(), group.data(), scores.data()};
  const tw_network_training options{.objective = TW_NETWORK_LAMBDA_RANK,
                                    .from_scratch = 1,
                                    .max_epochs = 1,
                                    .patience = 0,
                                    .held_out_every = 5,
                                    .batch_size = 128,
                                    .learning_rate = 1e-6f,
                                    .weight_decay = 0,
                                    .clip_norm = 0.5f,
                                    .seed = 1};
  tw_network_report report{};
  EXPECT_EQ(api->train(network, &data, &options, &report, &error), 0) << error.text;
  EXPECT_NEAR(report.loss, expected, 1e-5);
  api->destroy(network);
}

// ---- the other networks

struct Case {
  const char* name;
  double round, full;  // pairs in order that they must reach on the synthetic problem
};

class Networks : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(plugin)) GTEST_SKIP() << "the LibTorch plugin was not built: " << plugin;
  }
  ModelMaker maker(Objective objective = Objective::Usual) const {
    return [=, name = GetParam().name](int columns, u64 seed) {
      MadeModel made = make_model(name, columns, seed, {.objective = objective});
      EXPECT_NE(made.model, nullptr) << made.note;
      return std::move(made.model);
    };
  }
};

TEST_P(Networks, Learn) { check_learns(maker(), Effort::Round, GetParam().round); }
TEST_P(Networks, LearnMoreWithFullEffort) { check_learns(maker(), Effort::Full, GetParam().full); }
TEST_P(Networks, LearnSpeedsAsTheyAre) { check_learns_speed(maker(Objective::Regression), Effort::Full, 0.3); }
TEST_P(Networks, RepeatThemselves) { check_repeats_itself(maker()); }
TEST_P(Networks, SaveAndLoad) { check_saves_and_loads(maker()); }
TEST_P(Networks, RejectForeignBytes) {
  check_rejects_foreign_bytes(maker());
  std::unique_ptr<CostModel> own = maker()(64, 1);
  Status other = own->load(make_mlp(64, 1)->save());
  ASSERT_FALSE(other);
  EXPECT_EQ(to_string(other.rejected()), std::string("the saved model is of another kind than ") + GetParam().name);
}
TEST_P(Networks, CornerCases) { check_corner_cases(maker()); }

// Candidates have different numbers of rows, so those of a chunk are filled up.
TEST_P(Networks, ACandidatesScoreDoesNotDependOnItsNeighbours) { expect_scores_without_neighbours(*maker()(64, 1)); }

INSTANTIATE_TEST_SUITE_P(All, Networks, testing::Values(Case{"treegru", 0.75, 0.85}, Case{"tlp", 0.75, 0.85}),
                         [](const auto& info) { return std::string(info.param.name); });

// Trees of the same nodes: only who is whose child tells the fast ones. Each has `pairs` leaves of two kinds, and inner
// nodes above two leaves each; the time is the number of inner nodes whose leaves are of the same kind.
Dataset trees_of_equal_nodes(int candidates, u64 seed) {
  constexpr int kPairs = 4, kColumns = 4;  // leaf kind a, leaf kind b, root, parent
  Dataset data;
  data.features.columns = kColumns;
  Rng rng(seed);
  for (int c = 0; c < candidates; ++c) {
    std::vector<int> kinds;
    for (int i = 0; i < 2 * kPairs; ++i) kinds.push_back(i % 2);
    for (i64 i = 2 * kPairs; i > 1; --i) std::swap(kinds[i - 1], kinds[rng.below(i)]);
    std::vector<float> rows;
    int same = 0;
    for (int pair = 0; pair < kPairs; ++pair) {
      int a = kinds[2 * pair], b = kinds[2 * pair + 1];
      same += a == b;
      for (int leaf = 0; leaf < 2; ++leaf) {
        int kind = leaf == 0 ? a : b;
        rows.insert(rows.end(), {kind == 0 ? 1.0f : 0.0f, kind == 1 ? 1.0f : 0.0f, 0, leaf == 0 ? 2.0f : 1.0f});
      }
      rows.insert(rows.end(), {0, 0, 0, static_cast<float>(3 * (kPairs - pair) - 2)});
    }
    rows.insert(rows.end(), {0, 0, 1, 0});
    data.features.add(rows);
    data.seconds.push_back(1e-3 * (1 + same));
    data.group.push_back(0);
  }
  return data;
}

class TreeGru : public Mlp {};

TEST_F(TreeGru, LearnsWhatOnlyTheTreeSays) {
  const Dataset learn = trees_of_equal_nodes(300, 1), held_out = trees_of_equal_nodes(200, 2);
  const auto tree = make_model("treegru", 4, 1).model, rows = make_mlp(4, 1);
  tree->update(learn, Effort::Full);
  rows->update(learn, Effort::Full);
  EXPECT_GE(accuracy_on(*tree, held_out).pairwise, 0.95);
  EXPECT_LE(accuracy_on(*rows, held_out).pairwise, 0.7) << "the rows are the same for all";
}

class Tlp : public Mlp {};

// Sequences of equal tokens in another order: each has a place, and the time is how often one of the first kind stands
// directly before one of the second.
TEST_F(Tlp, LearnsWhichTokensMeet) {
  auto sequences = [](int candidates, u64 seed) {
    constexpr int kTokens = 6;
    Dataset data;
    data.features.columns = 2 + kTokens;
    Rng rng(seed);
    for (int c = 0; c < candidates; ++c) {
      std::vector<int> kinds = {0, 0, 0, 1, 1, 1};
      for (i64 i = kTokens; i > 1; --i) std::swap(kinds[i - 1], kinds[rng.below(i)]);
      std::vector<float> rows;
      int met = 0;
      for (int place = 0; place < kTokens; ++place) {
        std::vector<float> row(2 + kTokens);
        row[kinds[place]] = row[2 + place] = 1;
        rows.insert(rows.end(), row.begin(), row.end());
        met += place > 0 && kinds[place - 1] == 0 && kinds[place] == 1;
      }
      data.features.add(rows);
      data.seconds.push_back(1e-3 * (1 + met));
      data.group.push_back(0);
    }
    return data;
  };
  const auto model = make_model("tlp", 8, 1).model;
  model->update(sequences(600, 1), Effort::Full);
  EXPECT_GE(accuracy_on(*model, sequences(200, 2)).pairwise, 0.95);
}

TEST(NoPlugin, IsSaidOfEveryNetwork) {
  setenv("TRACEWRIGHT_TORCH_PLUGIN", "/nowhere/plugin.so", 1);
  for (const char* name : {"mlp", "mlp-reference", "treegru", "tlp"}) {
    const MadeModel made = make_model(name, 64, 1);
    EXPECT_EQ(made.model, nullptr);
    EXPECT_EQ(made.note, std::string("the cost model `") + name +
                             "` needs the LibTorch plugin, which did not open: no file /nowhere/plugin.so");
  }
  unsetenv("TRACEWRIGHT_TORCH_PLUGIN");
}

}  // namespace
}  // namespace tw
