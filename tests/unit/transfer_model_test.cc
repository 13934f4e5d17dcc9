// Transfer: a global model that stays as it is, and a local one that learns what it does not know.
#include "costmodel/transfer_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "costmodel/make_model.h"
#include "tests/support/cost_model_checks.h"

namespace tw {
namespace {

constexpr int kColumns = 64;
constexpr int kHeldOut = 200;  // candidates of a task that nothing learns from

std::unique_ptr<CostModel> ranking(const std::string& name, u64 seed) {
  return make_model(name, kColumns, seed, {.objective = Objective::Rank}).model;
}

// A task of other extents than those that global models learn from, where packing costs what it does not cost there.
Dataset other_task(int number, int candidates, u64 seed) {
  Dataset data =
      synthetic_costs({.groups = 1, .first_group = 20 + number, .per_group = candidates, .columns = kColumns}, seed);
  constexpr int kPacked = 24;
  for (int i = 0; i < data.size(); ++i) {
    if (data.features.row(data.features.first_row[i])[kPacked] > 0) data.seconds[i] *= 2;
  }
  return data;
}

Dataset part(const Dataset& data, int from, int to) {
  std::vector<int> places;
  for (int i = from; i < to; ++i) places.push_back(i);
  return subset(data, places);
}

// Share of the pairs in the right order, mean over tasks and seeds.
struct Pairs {
  double global = 0, scratch = 0, transfer = 0;
};

class Transfer : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!ranking(GetParam(), 1)) GTEST_SKIP() << make_model(GetParam(), kColumns, 1).note;
  }
  static std::unique_ptr<CostModel> trained_globally() {
    auto model = ranking(GetParam(), 7);
    model->update(synthetic_costs({.groups = 8, .per_group = 100, .columns = kColumns}, 3), Effort::Full);
    return model;
  }
  // The bytes of the global model.
  static const std::string& global() {
    static std::map<std::string, std::string> known;
    auto [at, is_new] = known.try_emplace(GetParam());
    if (is_new) at->second = trained_globally()->save();
    return at->second;
  }
  static TransferModel transfer(u64 seed) { return {open_model(global(), kColumns).model, ranking(GetParam(), seed)}; }
  static Pairs pairs_after(int measured) {
    constexpr int kTasks = 4;
    Pairs mean;
    auto general = open_model(global(), kColumns).model;
    for (int task = 0; task < kTasks; ++task) {
      Dataset all = other_task(task, kHeldOut + measured, 5);
      Dataset held_out = part(all, 0, kHeldOut), known = part(all, kHeldOut, all.size());
      auto scratch = ranking(GetParam(), static_cast<u64>(task));
      TransferModel both = transfer(static_cast<u64>(task));
      if (measured > 0) {
        scratch->update(known, Effort::Round);
        both.update(known, Effort::Round);
      }
      mean.global += accuracy_on(*general, held_out).pairwise / kTasks;
      mean.scratch += accuracy_on(*scratch, held_out).pairwise / kTasks;
      mean.transfer += accuracy_on(both, held_out).pairwise / kTasks;
    }
    return mean;
  }
};

TEST_P(Transfer, FewTrialsNeverMakeTheGlobalOrderWorse) {
  for (int measured : {0, 4, 8, 16, 64}) {
    Pairs found = pairs_after(measured);
    EXPECT_GE(found.transfer, found.global - 0.01) << measured;
    EXPECT_GE(found.transfer, found.scratch + (measured <= 16 ? 0.05 : 0)) << measured;
  }
}

TEST_P(Transfer, ManyTrialsTeachAllThatTheyTeachAlone) {
  Pairs found = pairs_after(500);
  EXPECT_GE(found.transfer, found.scratch - 0.01);
  EXPECT_GE(found.transfer, found.global + 0.03) << "the local model learned what is other here";
}

// Scores a candidate by its first number times a factor, and counts whom it scores.
class CountingModel : public CostModel {
 public:
  explicit CountingModel(float factor) : factor_(factor) {}
  const char* name() const override { return "counting"; }
  std::vector<float> predict(const FeatureBatch& batch) const override {
    std::vector<float> scores;
    for (int i = 0; i < batch.size(); ++i) scores.push_back(batch.row(batch.first_row[i])[0] * factor_);
    scored += batch.size();
    return scores;
  }
  TrainReport update(const Dataset& data, Effort) override { return base = data.base, TrainReport{}; }
  std::string save() const override { return std::to_string(factor_); }
  Status load(std::string_view bytes) override { return factor_ = std::stof(std::string(bytes)), ok(); }

  mutable int scored = 0;
  std::vector<float> base;

 private:
  float factor_;
};

FeatureBatch candidates_of(const std::vector<float>& numbers) {
  FeatureBatch batch{.columns = 1};
  for (float number : numbers) batch.add(std::vector<float>{number});
  return batch;
}

class TransferOfCounts : public testing::Test {
 protected:
  static TransferModel counting(float global_factor, CountingModel*& global, CountingModel*& local) {
    auto new_global = std::make_unique<CountingModel>(global_factor), new_local = std::make_unique<CountingModel>(1.0f);
    global = new_global.get(), local = new_local.get();
    return {std::move(new_global), std::move(new_local)};
  }
  CountingModel *global_ = nullptr, *local_ = nullptr;
  TransferModel model_ = counting(10, global_, local_);
};

TEST_F(TransferOfCounts, TheGlobalModelScoresEachCandidateOnce) {
  EXPECT_EQ(model_.predict(candidates_of({1, 2, 1, 3})), (std::vector<float>{11, 22, 11, 33}));
  EXPECT_EQ(model_.predict(candidates_of({4, 3, 2})), (std::vector<float>{44, 33, 22}));
  model_.update({.features = candidates_of({3, 5}), .seconds = {1, 1}, .group = {0, 0}, .base = {0.5f, 0}},
                Effort::Round);
  EXPECT_EQ(local_->base, (std::vector<float>{30.5f, 50}));
  EXPECT_EQ(global_->scored, 5);
  EXPECT_EQ(local_->scored, 7) << "what is learned changes, so it is asked each time";
}

TEST_F(TransferOfCounts, NoScoreOfALoadedModelIsThatOfTheOneBefore) {
  EXPECT_EQ(model_.predict(candidates_of({1, 2})), (std::vector<float>{11, 22}));
  CountingModel *other_global = nullptr, *other_local = nullptr;
  std::string other = counting(100, other_global, other_local).save();
  ASSERT_TRUE(model_.load(other));
  EXPECT_EQ(model_.predict(candidates_of({1, 2})), (std::vector<float>{101, 202}));
}

INSTANTIATE_TEST_SUITE_P(Models, Transfer, testing::Values("tree", "mlp", "xgboost"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tw
