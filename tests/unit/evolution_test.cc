// Evolution of candidates in one round, and which task a round goes to.
#include <set>

#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "sampler/search/task_scheduler.h"
#include "sampler/strategies/evolutionary.h"
#include "sampler/strategies/selection.h"
#include "tests/unit/search_kit.h"

namespace tw {
namespace {

class Evolve : public testing::Test {
 protected:
  std::vector<Candidate> run(const EvolutionOptions& options, const SelectionOptions& selection, int count,
                             const std::vector<Candidate>& elites = {}, const CostModel* model = nullptr,
                             u64 seed = 3) {
    KnownCandidates known;
    SearchStats stats;
    HashSet measured;
    for (const Candidate& elite : elites) measured.insert(elite.program);
    Rng rng(seed);
    RoundOptions how;
    Round round{space_, elites, measured, {}, model, {}, count, rng, known, stats, how};
    return select_batch(Evolutionary(options).propose(round), round, selection);
  }
  Candidate any_candidate(u64 seed = 17) const {
    Rng rng(seed);
    Candidate candidate;
    CandidateBuilder builder(space_);
    EXPECT_TRUE(builder.draw(0, candidate, rng));
    EXPECT_TRUE(builder.build(candidate, &rng));
    return candidate;
  }

  rules::Library library_ = rules::Library::built_in();
  TuneTask task_ = task_of("dense", {{"M", i64{96}}, {"N", i64{192}}, {"K", i64{120}}});
  CandidateSpace space_ = [this] {
    std::string errors;
    task_.target.threads = 2;  // then orders of loops, and so sketches, are more
    CandidateSpace space =
        make_candidate_space(task_.program.program, *library_.find_set("cpu"), library_, task_.target, errors);
    EXPECT_EQ(errors, "");
    return space;
  }();
};

// A program that other decisions gave before is not scored again, and gets the same draft.
TEST_F(Evolve, AKnownProgramIsNotScoredAgain) {
  KnownCandidates known;
  CandidateBuilder first(space_), again(space_);
  Rng rng(5);
  int programs = 0;
  for (int i = 0; i < 200; ++i) {
    Candidate candidate;
    ASSERT_TRUE(first.draw(i % static_cast<int>(space_.space.sketches.size()), candidate, rng));
    std::vector<float> rows, more;
    if (!first.build(candidate, &rng, &rows)) continue;
    Candidate copy = candidate;
    copy.draft = 0;
    if (known.add_program(candidate.program, candidate.draft)) ++programs;
    known.keep_features(candidate.program, rows);
    ASSERT_TRUE(again.decide(copy, nullptr));
    ASSERT_TRUE(again.finish(copy, &more, &known));
    EXPECT_EQ(copy.draft, candidate.draft);
    EXPECT_TRUE(more.empty());
  }
  EXPECT_GT(programs, 50);
  EXPECT_EQ(again.seconds().features, 0);
}

// What a model thinks of a sketch that it has seen nothing of is a guess: no such sketch takes a whole batch.
TEST_F(Evolve, SketchesWithoutMeasurementsShareABatch) {
  ASSERT_GE(space_.space.sketches.size(), 4u);
  auto most_of_one_sketch = [](const std::vector<Candidate>& batch) {
    std::map<int, int> counts;
    int most = 0;
    for (const Candidate& candidate : batch) most = std::max(most, ++counts[candidate.sketch]);
    return most;
  };
  std::vector<Candidate> shared = run({}, {.epsilon = 0}, 40), free = run({}, {.epsilon = 0, .unproven_share = 1}, 40);
  ASSERT_EQ(shared.size(), 40u);
  EXPECT_LE(most_of_one_sketch(shared), 10);
  EXPECT_GT(most_of_one_sketch(free), 10) << "else nothing is to be shared";
  for (std::size_t i = 1; i < shared.size(); ++i) EXPECT_GE(shared[i - 1].score, shared[i].score);
  // Of one that was measured there may be more.
  std::vector<Candidate> more = run({}, {.epsilon = 0}, 40, {free[0]});
  EXPECT_GT(most_of_one_sketch(more), 10);
}

TEST_F(Evolve, TheBestComeFirstThenSomeAtRandom) {
  std::vector<Candidate> best = run({}, {.epsilon = 0, .unproven_share = 1}, 64),
                         mixed = run({}, {.epsilon = 0.25, .unproven_share = 1}, 64);
  ASSERT_EQ(best.size(), 64u);
  ASSERT_EQ(mixed.size(), 64u);
  for (std::size_t i = 1; i < best.size(); ++i) EXPECT_GE(best[i - 1].score, best[i].score);
  HashSet top;
  for (const Candidate& candidate : best) top.insert(candidate.program);
  int random = 0;
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    EXPECT_TRUE(i >= 48 || mixed[i].program == best[i].program) << i;
    random += top.count(mixed[i].program) == 0;
  }
  EXPECT_GT(random, 8) << "of 16 that come from the whole pool";
  // By the draft model the best of the search is far better than a draw.
  EXPECT_LT(best[0].draft, any_candidate().draft);
}

// Half of what is kept has a draft that few draws have; the last quarter of the places is for any.
TEST_F(Evolve, TheBestDraftsSurvive) {
  constexpr EvolutionOptions all = {.population = 512, .draws = 512, .generations = 0},
                             few = {.population = 32, .draws = 512, .generations = 0};
  auto drafts_of = [&](const EvolutionOptions& options) {
    std::vector<double> drafts;
    for (const Candidate& candidate : run(options, {.epsilon = 0, .unproven_share = 1}, kFullBatch))
      drafts.push_back(candidate.draft);
    std::sort(drafts.begin(), drafts.end());
    return drafts;
  };
  std::vector<double> drawn;
  CandidateBuilder builder(space_);
  Rng rng(8);
  for (int i = 0; i < 256; ++i) {
    Candidate candidate;
    if (builder.draw(i % static_cast<int>(space_.space.sketches.size()), candidate, rng) &&
        builder.build(candidate, &rng))
      drawn.push_back(candidate.draft);
  }
  std::sort(drawn.begin(), drawn.end());
  std::vector<double> kept = drafts_of(few);
  ASSERT_GE(kept.size(), 16u);
  EXPECT_LT(kept[kept.size() / 2], drawn[drawn.size() / 8]);
  EXPECT_EQ(kept[0], drafts_of(all)[0]) << "the best of all is among them";
}

TEST_F(Evolve, WhatIsMeasuredIsNotProposed) {
  Candidate elite = any_candidate();
  for (const Candidate& candidate : run({}, {}, 1 << 20, {elite})) EXPECT_NE(candidate.program, elite.program);
}

TEST_F(Evolve, EveryGenerationDrawsAnew) {
  constexpr int all = 1 << 20;
  std::size_t one = run({.population = 128, .draws = 128, .generations = 1, .mutate_probability = 0}, {}, all).size();
  std::size_t four = run({.population = 128, .draws = 128, .generations = 4, .mutate_probability = 0}, {}, all).size();
  EXPECT_GT(four, one * 3 / 2);
}

// 1 for candidates with these features, 0 for all others.
class OneIsGood : public CostModel {
 public:
  explicit OneIsGood(std::vector<float> features) : features_(std::move(features)) {}
  const char* name() const override { return "one is good"; }
  std::vector<float> predict(const FeatureBatch& batch) const override {
    std::vector<float> scores;
    for (int i = 0; i < batch.size(); ++i) {
      std::vector<float> features(batch.row(batch.first_row[i]), batch.row(batch.first_row[i + 1]));
      scores.push_back(features == features_ ? 1.0f : 0.0f);
    }
    return scores;
  }
  TrainReport update(const Dataset&, Effort) override { return {}; }
  std::string save() const override { return ""; }
  Status load(std::string_view) override { return Unit{}; }

 private:
  std::vector<float> features_;
};

// One decision differs, or none.
bool is_relative(const Candidate& a, const Candidate& b) {
  if (a.sketch != b.sketch) return false;
  int different = 0;
  for (std::size_t i = 0; i < a.decisions.size(); ++i) different += !(a.decisions[i] == b.decisions[i]);
  return different <= 1;
}

// Of several, for the draft model may drop the children of one.
TEST_F(Evolve, GoodOnesHaveMoreChildren) {
  int with = 0, without = 0;
  for (u64 seed = 1; seed <= 6; ++seed) {
    Candidate elite = any_candidate(seed);
    std::vector<float> features;
    CandidateBuilder builder(space_);
    ASSERT_TRUE(builder.build(elite, nullptr, &features));
    OneIsGood model(features);
    auto relatives = [&](const std::vector<Candidate>& elites) {
      int count = 0;
      for (const Candidate& candidate : run({.population = 256, .draws = 256}, {}, 1 << 20, elites, &model, seed))
        count += is_relative(candidate, elite);
      return count;
    };
    with += relatives({elite}), without += relatives({});
  }
  EXPECT_GT(with, 2 * without);
}

TEST(TaskScheduler, EachTaskHasARoundFirst) {
  std::vector<TaskHistory> tasks(3);
  EXPECT_EQ(next_task(tasks), 0);
  tasks[0].best = {1e-6};
  EXPECT_EQ(next_task(tasks), 1);
  tasks[1].best = {1.0};
  EXPECT_EQ(next_task(tasks), 2);
  tasks[2].alive = false;
  EXPECT_EQ(next_task(tasks), 1);
}

TEST(TaskScheduler, ATaskInFlightWaitsWhereOthersAreAlive) {
  std::vector<TaskHistory> tasks(2);
  tasks[0].in_flight = true;
  EXPECT_EQ(next_task(tasks), 1);
  tasks[1].best = {1e-6, 1e-6};
  EXPECT_EQ(next_task(tasks), 1) << "with more rounds, too";
  tasks[1].alive = false;
  EXPECT_EQ(next_task(tasks), 0) << "rather than nothing";
}

// Many batches may be in flight before the first one ends.
TEST(TaskScheduler, ATaskWithoutResultsWaitsForThem) {
  std::vector<TaskHistory> tasks(2);
  tasks[0].in_flight = 3;
  tasks[1].in_flight = 1, tasks[1].best = {1};
  EXPECT_EQ(next_task(tasks), 1);
}

TEST(TaskScheduler, ThenTheLargerWeightedGain) {
  std::vector<TaskHistory> tasks{{.weight = 1, .best = {1, 1}}, {.weight = 3, .best = {1, 1}}};
  EXPECT_EQ(next_task(tasks), 1);  // same times, larger weight
  tasks[0].weight = 4;
  EXPECT_EQ(next_task(tasks), 0);
  tasks = {{.weight = 1, .best = {1.2, 1}}, {.weight = 1, .best = {8, 1}}};
  EXPECT_EQ(next_task(tasks), 1);  // same weight and time, more improvement lately
  tasks[1].alive = false;
  EXPECT_EQ(next_task(tasks), 0);
  tasks[0].alive = false;
  EXPECT_EQ(next_task(tasks), -1);
}

}  // namespace
}  // namespace tw
