// The analytic GPU model against what an H100 measured: 230 random programs of four tasks (products of 2048^3 in f32
// and bf16, a convolution in f16, softmax; docs/log/2026-11-27-gpu.md), and 324 programs that searches tried of four
// products in bf16 and a convolution in f16, most of them by wgmma (docs/log/2026-11-27-gpu-2.md), and 240 random ones
// of two products and two convolutions in halves, 141 of them by wgmma (docs/log/2026-11-27-gpu-3.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "costmodel/accuracy.h"
#include "dsl/base/text.h"
#include "runtime/store/database_exchange.h"
#include "sampler/tasks/model_data.h"
#include "sampler/tasks/model_terms.h"
#include "support/support.h"

namespace tw {
namespace {

constexpr double kLeastRank = 0.8;

ModelData h100_records(const std::string& folder, const char* name = "h100_records") {
  ModelData data;
  std::string error;
  std::optional<std::string> text = read_exchange_file(cat(TW_SOURCE_DIR "/tests/data/", name, ".jsonl.gz"), error);
  auto database = Database::open(folder + "/records.db", DatabaseMode::Write);
  EXPECT_TRUE(text && database) << error;
  std::istringstream lines(*text);
  EXPECT_TRUE(import_records(*database, lines));
  EXPECT_TRUE(add_model_data(data, *database));
  EXPECT_EQ(data.left_out, 0) << data.first_left_out;
  return data;
}

Accuracy accuracy_of(const ModelData& data, std::size_t task, const std::vector<float>& scores) {
  std::vector<float> own;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (data.data.group[i] != static_cast<i32>(task)) continue;
    own.push_back(scores[i]), seconds.push_back(data.data.seconds[i]);
  }
  return accuracy(own, seconds, std::vector<i32>(own.size(), 0));
}

TEST(GpuRecords, TheModelRanksWhatAnH100Measured) {
  test::TemporaryDirectory folder;
  ModelData data = h100_records(folder.path());
  ASSERT_EQ(data.tasks.size(), 4u);
  for (std::size_t task = 0; task < data.tasks.size(); ++task) {
    EXPECT_GE(data.tasks[task].candidates, 20);
    Accuracy model = accuracy_of(data, task, data.draft);
    EXPECT_GE(model.rank, kLeastRank) << data.tasks[task].name << ": " << to_string(model);
    // A model that sees nothing, or the wrong way round, does not pass.
    EXPECT_EQ(accuracy_of(data, task, std::vector<float>(data.draft.size(), 1)).rank, 0);
    std::vector<float> turned = data.draft;
    for (float& score : turned) score = -score;
    EXPECT_LE(accuracy_of(data, task, turned).rank, -kLeastRank);
  }
}

// Its seconds are rough, but no guess: half of them are within a third.
TEST(GpuRecords, ItsSecondsAreNotFarOff) {
  test::TemporaryDirectory folder;
  ModelData data = h100_records(folder.path());
  std::vector<double> ratios;
  for (std::size_t i = 0; i < data.draft.size(); ++i)
    ratios.push_back(std::exp(-static_cast<double>(data.draft[i])) / data.data.seconds[i]);
  std::sort(ratios.begin(), ratios.end());
  EXPECT_GT(ratios[ratios.size() / 4], 0.75);
  EXPECT_LT(ratios[ratios.size() * 3 / 4], 1.35);
  EXPECT_NEAR(ratios[ratios.size() / 2], 1, 0.15);
}

// Of kernels by instructions of four warps, beside some by those of one, the model prefers one that is nearly the best,
// and its seconds are near.
TEST(GpuRecords, TheModelKnowsInstructionsOfFourWarps) {
  test::TemporaryDirectory folder;
  ModelData data = h100_records(folder.path(), "h100_wgmma_records");
  ASSERT_EQ(data.tasks.size(), 5u);
  for (std::size_t task = 0; task < data.tasks.size(); ++task) {
    EXPECT_GE(data.tasks[task].candidates, 40);
    Accuracy model = accuracy_of(data, task, data.draft);
    EXPECT_GE(model.top1, 0.9) << data.tasks[task].name << ": " << to_string(model);
    EXPECT_GE(model.rank, 0.65) << data.tasks[task].name << ": " << to_string(model);
    std::vector<double> ratios;
    for (std::size_t i = 0; i < data.draft.size(); ++i) {
      if (data.data.group[i] == static_cast<i32>(task))
        ratios.push_back(std::exp(-static_cast<double>(data.draft[i])) / data.data.seconds[i]);
    }
    std::sort(ratios.begin(), ratios.end());
    EXPECT_GT(ratios[ratios.size() / 4], 0.85) << data.tasks[task].name;
    EXPECT_LT(ratios[ratios.size() * 3 / 4], 1.5) << data.tasks[task].name;
  }
}

// So it is with random programs of two products and two convolutions in halves, whose windows reach into padding.
TEST(GpuRecords, TheModelRanksRandomProgramsOfFourWarps) {
  test::TemporaryDirectory folder;
  ModelData data = h100_records(folder.path(), "h100_wgmma_random_records");
  ASSERT_EQ(data.tasks.size(), 4u);
  for (std::size_t task = 0; task < data.tasks.size(); ++task) {
    Accuracy all = accuracy_of(data, task, data.draft);
    EXPECT_GE(all.rank, 0.85) << data.tasks[task].name << ": " << to_string(all);
    std::vector<float> scores;
    std::vector<double> seconds;
    for (std::size_t i = 0; i < data.draft.size(); ++i) {
      if (data.data.group[i] != static_cast<i32>(task) || data.rules[i] != "warpgroup_mma") continue;
      scores.push_back(data.draft[i]), seconds.push_back(data.data.seconds[i]);
    }
    ASSERT_GE(scores.size(), 30u);
    Accuracy own = accuracy(scores, seconds, std::vector<i32>(scores.size(), 0));
    EXPECT_GE(own.rank, 0.7) << data.tasks[task].name << ": " << to_string(own);
  }
}

// Each rule of each task has a row. A term that the model takes too little of is found, and one that it takes too much
// of.
TEST(GpuRecords, TheTermThatIsOffIsFound) {
  test::TemporaryDirectory folder;
  ModelData data = h100_records(folder.path());
  std::vector<RuleTerms> rows = model_terms(data);
  std::set<std::string> tasks, rules;
  for (const RuleTerms& row : rows) {
    tasks.insert(row.task), rules.insert(row.rule);
    EXPECT_GE(row.programs, kFewestPrograms);
    EXPECT_EQ(row.terms.size(), 7u);
  }
  EXPECT_EQ(tasks.size(), data.tasks.size());
  EXPECT_GE(rules.size(), 2u);
  for (double exponent : {0.5, -0.5}) {
    ModelData planted = data;
    for (std::size_t i = 0; i < data.draft.size(); ++i) {
      double shared = 0, predicted = std::exp(-static_cast<double>(data.draft[i]));
      for (const KernelEstimate& kernel : data.estimates[i])
        shared += kernel.shared * static_cast<double>(kernel.blocks());
      planted.data.seconds[i] = predicted * std::pow(std::max(shared, 1.0) / predicted, exponent);
    }
    for (const RuleTerms& row : model_terms(planted)) {
      ASSERT_STREQ(row.terms[0].name, "shared memory and L1") << row.task << ", " << row.rule;
      EXPECT_GT(row.terms[0].correlation * exponent, 0.45) << row.task << ", " << row.rule;
    }
  }
}

}  // namespace
}  // namespace tw
