// The MLP in its LibTorch plugin. Skipped, with the reason, where the plugin was not built.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "costmodel/make_model.h"
#include "costmodel/mlp_abi.h"
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

// Predictions in chunks are the same as one by one, up to the rounding of differently shaped matrix
// products.
TEST_F(Mlp, ACandidatesScoreDoesNotDependOnItsNeighbours) {
  const Dataset data = synthetic_costs({.groups = 2, .per_group = 150, .columns = 64}, 1);
  const auto model = make_mlp(64, 1);
  model->update(data, Effort::Round);
  const std::vector<float> together = model->predict(data.features);
  for (int c : {0, 127, 128, 299}) {
    FeatureBatch alone{.columns = 64};
    alone.add(data.features, c);
    EXPECT_NEAR(model->predict(alone)[0], together[c], 1e-3 * (1 + std::abs(together[c]))) << c;
  }
}

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
  const auto open = reinterpret_cast<tw_mlp_open_function>(dlsym(library, "tw_mlp_open"));
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(open(TW_MLP_ABI_VERSION + 1), nullptr);
  EXPECT_EQ(open(TW_MLP_ABI_VERSION)->version, static_cast<uint32_t>(TW_MLP_ABI_VERSION));
}

TEST_F(Mlp, ErrorsOfLibTorchComeBackAsText) {
  void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  ASSERT_NE(library, nullptr) << dlerror();
  const tw_mlp_api* api = reinterpret_cast<tw_mlp_open_function>(dlsym(library, "tw_mlp_open"))(TW_MLP_ABI_VERSION);
  tw_mlp_error error{};
  EXPECT_EQ(api->create(-5, 1, &error), nullptr);
  EXPECT_STRNE(error.text, "");
}

}  // namespace
}  // namespace tw
