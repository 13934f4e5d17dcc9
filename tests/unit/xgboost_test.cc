// The cost models in XGBoost. Those that need the library are skipped where it is not installed.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <thread>

#include "costmodel/features.h"
#include "costmodel/make_model.h"
#include "costmodel/xgboost_api.h"
#include "costmodel/xgboost_model.h"
#include "dsl/base/text.h"
#include "support/run_program.h"
#include "support/support.h"
#include "tests/support/cost_model_checks.h"
#if __has_include(<xgboost/c_api.h>)
#include <xgboost/c_api.h>
#endif

namespace tw {
namespace {

ModelMaker maker(std::string name, Objective objective = Objective::Usual) {
  return [=](int columns, u64 seed) {
    MadeModel made = make_model(name, columns, seed, {.objective = objective});
    EXPECT_NE(made.model, nullptr) << made.note;
    return std::move(made.model);
  };
}
const ModelMaker make_rank = maker("xgboost", Objective::Rank);
const ModelMaker make_regression = maker("xgboost", Objective::Regression);
const ModelMaker make_reference = maker("xgboost-reference");

class Xgboost : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!xgboost::open_api(&why)) GTEST_SKIP() << why;
  }
};

TEST_F(Xgboost, LearnsTheOrder) { check_learns(make_rank, Effort::Round, 0.9); }
TEST_F(Xgboost, LearnsTheOrderWithFullEffort) { check_learns(make_rank, Effort::Full, 0.9); }
TEST_F(Xgboost, LearnsSpeeds) { check_learns(make_regression, Effort::Round, 0.88); }
TEST_F(Xgboost, LearnsSpeedsAsTheyAre) { check_learns_speed(make_regression, Effort::Full, 0.15); }

// Its failed candidates weigh nothing, so it does not learn to keep away from them.
TEST_F(Xgboost, ReferenceLearns) {
  const Split split = hold_out(synthetic_costs({.groups = 4, .per_group = 400}, 3), 4);
  const auto model = make_reference(split.learn.features.columns, 1);
  EXPECT_GT(model->update(split.learn, Effort::Round).passes, 10);
  const Accuracy known = accuracy_on(*model, split.held_out);
  EXPECT_GE(known.pairwise, 0.77) << to_string(known);
  EXPECT_GE(known.top5, 0.9) << to_string(known);
}

// Those on other rows: the form is the same, files are not.
TEST_F(Xgboost, OnOtherRowsIsAModelOfItsOwn) {
  for (const char* name : {"xgboost-relation", "xgboost-knobs"}) {
    check_learns(maker(name), Effort::Round, 0.9);
    check_learns_speed(maker(name, Objective::Regression), Effort::Full, 0.15);
    check_repeats_itself(maker(name));
    check_saves_and_loads(maker(name));
    check_rejects_foreign_bytes(maker(name));
    Status other = maker(name)(64, 1)->load(make_rank(64, 1)->save());
    ASSERT_FALSE(other);
    EXPECT_EQ(to_string(other.rejected()), cat("the saved model is of another kind than ", name));
  }
}

TEST_F(Xgboost, RanksFailedLast) { check_ranks_failed_last(make_rank, Effort::Round, 0.9); }
TEST_F(Xgboost, RepeatsItself) { check_repeats_itself(make_rank); }
TEST_F(Xgboost, SavesAndLoads) {
  for (const ModelMaker& make : {make_rank, make_regression, make_reference}) check_saves_and_loads(make);
}
TEST_F(Xgboost, RejectsForeignBytes) { check_rejects_foreign_bytes(make_rank); }
TEST_F(Xgboost, CornerCases) {
  check_corner_cases(make_rank);
  check_corner_cases(make_regression);
}

TEST_F(Xgboost, RankIsWhatItUsuallyDoes) {
  const Dataset data = synthetic_costs({.groups = 2, .per_group = 40, .columns = 64}, 1);
  const auto usual = maker("xgboost")(64, 1), rank = make_rank(64, 1), regression = make_regression(64, 1);
  for (CostModel* model : {usual.get(), rank.get(), regression.get()}) model->update(data, Effort::Round);
  EXPECT_EQ(usual->save(), rank->save());
  EXPECT_NE(usual->save(), regression->save());
}

TEST_F(Xgboost, ReferenceWaitsForItsFirstHundred) {
  const Dataset data = synthetic_costs({.groups = 1, .per_group = 100, .columns = 64}, 1);
  std::vector<int> places(99);
  for (int i = 0; i < 99; ++i) places[i] = i;
  const auto model = make_reference(64, 1);
  EXPECT_EQ(model->update(subset(data, places), Effort::Round).passes, 0);
  EXPECT_EQ(model->predict(data.features), std::vector<float>(100, 0.0f));
  EXPECT_GT(model->update(data, Effort::Round).passes, 0);
}

// Candidates beyond the limit of a round are left out, not learned from in more time; all tasks stay.
TEST_F(Xgboost, ARoundOfManyCandidatesIsBounded) {
  const Split split = hold_out(synthetic_costs({.groups = 4, .per_group = 1500}, 3), 4);
  const auto model = make_rank(split.learn.features.columns, 1);
  const TrainReport report = model->update(split.learn, Effort::Round);
  EXPECT_EQ(report.candidates, 4500);
  EXPECT_GE(accuracy_on(*model, split.held_out).pairwise, 0.9);
}

TEST_F(Xgboost, SumsOverRowsWhateverIsBesideThem) {
  const Dataset data = synthetic_costs({.groups = 2, .per_group = 80, .columns = 64}, 1);
  const auto model = make_rank(64, 1);
  model->update(data, Effort::Round);
  const std::vector<float> together = model->predict(data.features);
  for (int c : {0, 63, 64, 159}) {
    FeatureBatch alone{.columns = 64};
    alone.add(data.features, c);
    EXPECT_EQ(model->predict(alone)[0], together[c]) << c;
  }
}

std::string learned_bytes() {
  const auto model = make_rank(64, 1);
  model->update(synthetic_costs({.groups = 2, .per_group = 80, .columns = 64}, 1), Effort::Round);
  return model->save();
}

TEST_F(Xgboost, LearnsTheSameWhateverTheThreads) {
  const std::string alone = learned_bytes();
  if (void* openmp = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD)) {
    const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(openmp, "omp_set_num_threads"));
    ASSERT_NE(set_threads, nullptr);
    set_threads(4);
    EXPECT_EQ(learned_bytes(), alone);
  }
  std::string beside[3];
  std::vector<std::thread> threads;
  for (std::string& bytes : beside) threads.emplace_back([&bytes] { bytes = learned_bytes(); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& bytes : beside) EXPECT_EQ(bytes, alone);
}

TEST_F(Xgboost, AnyChangedByteIsFound) {
  const std::string bytes = learned_bytes();
  const auto model = make_rank(64, 1);
  ASSERT_TRUE(model->load(bytes));
  for (std::size_t at = 0; at < bytes.size(); at += at < 100 ? 1 : bytes.size() / 50) {
    std::string changed = bytes;
    changed[at] ^= 0x15;
    EXPECT_FALSE(model->load(changed)) << "byte " << at;
  }
}

TEST_F(Xgboost, FeaturesThatAreNoNumbersAreAProblemAndChangeNothing) {
  Dataset data = synthetic_costs({.groups = 1, .per_group = 40, .columns = 64}, 1);
  const auto model = make_rank(64, 1);
  model->update(data, Effort::Round);
  const std::string before = model->save();
  data.features.values[70] = std::numeric_limits<float>::infinity();
  const TrainReport report = model->update(data, Effort::Round);
  EXPECT_NE(report.problem.find("XGBoost: "), std::string::npos) << report.problem;
  EXPECT_NE(report.problem.find("inf"), std::string::npos) << report.problem;
  EXPECT_EQ(model->save(), before);
}

TEST_F(Xgboost, TunesAndIsKept) {
  test::TemporaryDirectory folder;
  test::write_file(folder.path() + "/small.yaml", R"yaml(version: 1
target: {kind: cpu, threads: 1}
budget: {trials: 40, min_gain: 0}
database: small.db
tasks:
  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}
)yaml");
  const auto tune = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {TW_BINARY_DIR "/tracewright", "tune", "small.yaml", "--model", "xgboost"});
    return test::run_program(words, {.folder = folder.path()});
  };
  test::Finished learned = tune({"--objective", "regression", "--model-file", "kept.model"});
  EXPECT_EQ(learned.code, 0) << learned.err;
  const auto model = make_rank(feature_columns(), 1);
  EXPECT_TRUE(model->load(test::read_file(folder.path() + "/kept.model")));
  test::Finished wrong = tune({"--objective", "order"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("--objective: expected usual, rank, regression, found `order`"), std::string::npos)
      << wrong.err;
}

#if __has_include(<xgboost/c_api.h>)
TEST(XgboostApi, IsDeclaredAsInItsHeader) {
  using Api = xgboost::Api;
  static_assert(std::is_same_v<decltype(&XGBoostVersion), decltype(Api::version)>);
  static_assert(std::is_same_v<decltype(&XGBGetLastError), decltype(Api::last_error)>);
  static_assert(std::is_same_v<decltype(&XGDMatrixCreateFromMat_omp), decltype(Api::create_matrix)>);
  static_assert(std::is_same_v<decltype(&XGDMatrixFree), decltype(Api::free_matrix)>);
  static_assert(std::is_same_v<decltype(&XGBoosterCreate), decltype(Api::create_booster)>);
  static_assert(std::is_same_v<decltype(&XGBoosterFree), decltype(Api::free_booster)>);
  static_assert(std::is_same_v<decltype(&XGBoosterSetParam), decltype(Api::set_parameter)>);
  static_assert(std::is_same_v<decltype(&XGBoosterBoostOneIter), decltype(Api::boost)>);
  static_assert(std::is_same_v<decltype(&XGBoosterPredictFromDMatrix), decltype(Api::predict)>);
  static_assert(std::is_same_v<decltype(&XGBoosterPredictFromDense), decltype(Api::predict_dense)>);
  static_assert(std::is_same_v<decltype(&XGBoosterSaveModelToBuffer), decltype(Api::save)>);
  static_assert(std::is_same_v<decltype(&XGBoosterLoadModelFromBuffer), decltype(Api::load)>);
}
#endif

// ---- without the library

class LibraryVariable {
 public:
  explicit LibraryVariable(const std::string& path) { setenv("TRACEWRIGHT_XGBOOST", path.c_str(), 1); }
  ~LibraryVariable() { unsetenv("TRACEWRIGHT_XGBOOST"); }
};

TEST(NoXgboost, IsSaidWithWhatToInstall) {
  LibraryVariable variable("/nowhere/libxgboost.so");
  for (const char* name : {"xgboost", "xgboost-reference", "xgboost-relation", "xgboost-knobs"}) {
    const MadeModel made = make_model(name, 164, 1);
    EXPECT_EQ(made.model, nullptr);
    EXPECT_EQ(made.note, cat("the cost model `", name,
                             "` needs XGBoost, which did not open: /nowhere/libxgboost.so: cannot open shared object "
                             "file: No such file or directory (sudo apt install libxgboost0, or set "
                             "TRACEWRIGHT_XGBOOST to the library)"));
  }
}

TEST(NoXgboost, AnotherLibraryIsRefused) {
  LibraryVariable variable("libm.so.6");
  const MadeModel made = make_model("xgboost", 164, 1);
  EXPECT_EQ(made.model, nullptr);
  EXPECT_NE(made.note.find("libm.so.6 is no XGBoost of version 1.6 or newer: it has no XGBoostVersion"),
            std::string::npos)
      << made.note;
}

TEST(NoXgboost, AFileThatIsNoLibraryIsRefused) {
  test::TemporaryDirectory folder;
  const std::string path = folder.path() + "/libxgboost.so";
  test::write_file(path, std::string(200, 'x'));
  LibraryVariable variable(path);
  const MadeModel made = make_model("xgboost", 164, 1);
  EXPECT_EQ(made.model, nullptr);
  EXPECT_NE(made.note.find(path), std::string::npos) << made.note;
  EXPECT_NE(made.note.find("ELF"), std::string::npos) << made.note;
}

TEST(NoXgboost, AutoDoesNotAskForIt) {
  LibraryVariable variable("/nowhere/libxgboost.so");
  setenv("TRACEWRIGHT_TORCH_PLUGIN", "/nowhere/plugin.so", 1);
  const MadeModel made = make_model("auto", 164, 1);
  unsetenv("TRACEWRIGHT_TORCH_PLUGIN");
  EXPECT_STREQ(made.model->name(), "tree");
  EXPECT_EQ(made.note.find("XGBoost"), std::string::npos) << made.note;
}

}  // namespace
}  // namespace tw
