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

INSTANTIATE_TEST_SUITE_P(Models, Transfer, testing::Values("tree", "mlp", "xgboost"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tw
