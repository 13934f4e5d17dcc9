// What every strategy and selection has to keep: no candidate twice, the same seed the same candidates, resumable, any
// number of threads. How good each is at what it is for stands in strategy_kinds_test.cc.
#include "sampler/strategies/strategies.h"

#include <set>

#include "dsl/base/text.h"
#include "tests/unit/strategies_kit.h"

namespace tw {
namespace {

// Small enough that a test has several rounds of each.
SearchChoice small_choice(const std::string& strategy) {
  std::map<std::string, double> settings;
  if (strategy == "evolutionary") settings = {{"population", 64}, {"draws", 96}};
  if (strategy == "reference") settings = {{"population", 64}, {"min_unmeasured", 20}, {"warmup", 20}};
  if (strategy == "annealing") settings = {{"chains", 24}, {"steps", 12}, {"batch", 12}};
  if (strategy == "metropolis") settings = {{"chains", 24}, {"steps", 12}, {"batch", 12}};
  if (strategy == "genetic") settings = {{"population", 20}};
  return {.strategy = strategy, .settings = settings};
}

struct Case {
  std::string task;
  SearchChoice choice;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* task : {"softmax", "open", "dense"}) {
    for (const StrategyKind& kind : strategies()) {
      if (kind.name == std::string("grid") && task == std::string("dense")) continue;  // too large
      out.push_back({task, small_choice(kind.name)});
    }
  }
  for (const char* acquisition : {"mean", "ei", "ucb"}) {
    for (const char* select : {"greedy", "diverse"}) {
      Case one{"open", small_choice("evolutionary")};
      one.choice.select = select, one.choice.acquisition = acquisition;
      out.push_back(one);
    }
  }
  return out;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const SearchChoice& choice = info.param.choice;
  return cat(info.param.task, "_", choice.strategy, choice.select.empty() ? "" : "_", choice.select,
             choice.acquisition.empty() ? "" : "_", choice.acquisition);
}

constexpr int kBatch = 12, kRounds = 4;

class EveryStrategy : public testing::TestWithParam<Case> {
 protected:
  // Programs in the order in which they were measured. A model is there from the second round on.
  std::vector<Hash128> run(u64 seed, int threads) {
    Rounds rounds(small_space(GetParam().task), GetParam().choice, seed, threads);
    for (int round = 0; round < kRounds; ++round) {
      rounds.model = round > 0 ? &model_ : nullptr;
      rounds.measure(rounds.next(kBatch));
    }
    std::vector<Hash128> programs;
    for (const Candidate& candidate : rounds.tried) programs.push_back(candidate.program);
    return programs;
  }
  bool is_small() const { return GetParam().task == "softmax"; }

  HashModel model_;
};

TEST_P(EveryStrategy, TheSeedAloneDecidesWhatIsMeasured) {
  std::vector<Hash128> one = run(1, 1);
  EXPECT_EQ(run(1, 3), one);
  EXPECT_GE(one.size(), is_small() ? 14u : static_cast<std::size_t>(kBatch * kRounds * 3 / 4));
  // A small space may be measured by its scores alone.
  if (!is_small() && GetParam().choice.strategy != "grid") {
    EXPECT_NE(run(2, 1), one);
  }
}

// Rounds::measure checks that nothing is proposed twice.
TEST_P(EveryStrategy, ARunThatIsContinuedMeasuresNothingTwice) {
  Rounds rounds(small_space(GetParam().task), GetParam().choice);
  for (int round = 0; round < 2; ++round) rounds.measure(rounds.next(is_small() ? 4 : kBatch));
  std::size_t before = rounds.measured.size();
  rounds.restart();
  rounds.model = &model_;
  for (int round = 0; round < 2; ++round) rounds.measure(rounds.next(kBatch));
  EXPECT_GT(rounds.measured.size(), before);
}

TEST_P(EveryStrategy, EveryCandidateIsBuiltAsItIs) {
  Rounds rounds(small_space(GetParam().task), GetParam().choice);
  rounds.model = &model_;
  for (int round = 0; round < 2; ++round) rounds.measure(rounds.next(kBatch));
  CandidateBuilder builder(rounds.space);
  for (const Candidate& candidate : rounds.tried) {
    Candidate copy = candidate;
    ASSERT_TRUE(builder.build(copy, nullptr)) << "a decision is open, or rejected";
    EXPECT_EQ(copy.program, candidate.program);
    EXPECT_TRUE(copy.decisions == candidate.decisions);
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, EveryStrategy, testing::ValuesIn(cases()), name_of_case);

// ---- in the tuner

class TunedBy : public Search, public testing::WithParamInterface<std::string> {
 protected:
  TuneOptions by_strategy(int threads, i64 trials) const {
    TuneOptions how = options(1, threads, trials);
    how.search = small_choice(GetParam());
    return how;
  }
};

TEST_P(TunedBy, ResumesAndGivesTheSameWithAnyThreads) {
  if (GetParam() == "grid") tasks_.erase(tasks_.begin());  // the space of dense is too large
  auto stored = [&](const std::string& name, int threads) {
    Database file = database(name);
    FakeMeasurer measurer, again;
    Watcher watcher;
    run(by_strategy(threads, 10), file, &measurer, watcher);
    TuneResult result = run(by_strategy(threads, 30), file, &again, watcher);
    EXPECT_EQ(result.error, "");
    for (const TaskProgress& task : result.tasks) {
      EXPECT_EQ(task.problem, "");
      EXPECT_EQ(task.trials, trials_of(task.name, 30)) << task.name;
    }
    std::set<std::string> programs;
    for (const Record& record : records(file))
      EXPECT_TRUE(programs.insert(record.program).second) << "measured twice: record " << record.id;
    return traces(file);
  };
  EXPECT_EQ(stored("one", 1), stored("three", 3));
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const StrategyKind& kind : strategies()) names.push_back(kind.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Strategies, TunedBy, testing::ValuesIn(all_names()),
                         [](const auto& info) { return info.param; });

TEST_F(Search, AGridThatIsTooLargeIsRefusedInWords) {
  Database file = database("grid");
  FakeMeasurer measurer;
  Watcher watcher;
  TuneOptions how = options();
  how.search = {.strategy = "grid", .settings = {{"limit", 500}}};
  TuneResult result = run(how, file, &measurer, watcher);
  EXPECT_EQ(result.tasks[0].problem,
            "the strategy `grid` is for spaces of at most 500 points, and this one has more; choose another strategy, "
            "or a larger `limit`");
  EXPECT_EQ(result.tasks[1].trials, kSoftmaxSpace);
  EXPECT_EQ(measurer.calls, kSoftmaxSpace);
}

TEST_F(Search, SeveralModelsLearnAndAreKept) {
  Database file = database("ensemble");
  FakeMeasurer measurer;
  Watcher watcher;
  TuneOptions how = options();
  how.search = {.acquisition = "ucb", .settings = {{"models", 3}}};
  how.keep_model = true;
  TuneResult result = run(how, file, &measurer, watcher);
  EXPECT_GT(result.profile.training, 0);
  EXPECT_NE(result.model_bytes, "");
  how.model_bytes = result.model_bytes;
  how.more = 8;
  Watcher second;
  run(how, file, &measurer, second);
  for (const std::string& message : second.messages) EXPECT_EQ(message.find("it begins anew"), std::string::npos);
}

TEST_F(Search, AChoiceThatIsNoneEndsTheRunAtOnce) {
  Database file = database("none");
  FakeMeasurer measurer;
  Watcher watcher;
  TuneOptions how = options();
  how.search.strategy = "anealing";
  EXPECT_EQ(run(how, file, &measurer, watcher).error, "the search: unknown strategy `anealing`");
  EXPECT_EQ(measurer.calls, 0);
}

}  // namespace
}  // namespace tw
