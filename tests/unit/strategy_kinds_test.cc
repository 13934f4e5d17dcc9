// Each strategy, selection and acquisition is good at what it is for.
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "dsl/base/text.h"
#include "sampler/draw/mutator.h"
#include "sampler/strategies/metropolis.h"
#include "sampler/strategies/proposer.h"
#include "tests/unit/strategies_kit.h"

namespace tw {
namespace {

double mean_score(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.score;
  return sum / static_cast<double>(candidates.size());
}

// ---- grid

// All of a space that many draws reach, and nothing twice.
TEST(Grid, VisitsEveryPointOnce) {
  Rounds grid(small_space("open"), {.strategy = "grid"}), random(small_space("open"), {.strategy = "random"});
  for (std::size_t before = 1; before > 0;) {
    std::vector<Candidate> batch = grid.next(37);
    before = batch.size();
    grid.measure(batch);
  }
  for (int round = 0; round < 40; ++round) random.measure(random.next(100));
  EXPECT_EQ(grid.measured.size(), random.measured.size());
  for (const Hash128& program : random.measured) EXPECT_TRUE(grid.measured.contains(program));
  EXPECT_GT(grid.measured.size(), 60u);
}

TEST(Grid, TheOrderIsFixed) {
  Rounds whole(small_space("open"), {.strategy = "grid"}, 1), parts(small_space("open"), {.strategy = "grid"}, 2, 3);
  whole.measure(whole.next(60));
  for (int round = 0; round < 4; ++round) parts.measure(parts.next(15));
  ASSERT_EQ(parts.tried.size(), whole.tried.size());
  for (std::size_t i = 0; i < whole.tried.size(); ++i) EXPECT_EQ(parts.tried[i].program, whole.tried[i].program);
}

// ---- scoring traces

class TracesScored : public testing::Test {
 protected:
  TracesScored() { space_.features = FeatureKind::Tokens; }
  // What `work` gives in a round with a model of tokens.
  template <class Work>
  std::vector<Candidate> in_round(int threads, Work work) {
    KnownCandidates known;
    RoundOptions how{.keep_features = true, .threads = threads};
    Rng rng(9);
    Round round{space_, {}, {}, {}, &model_, {}, 8, rng, known, stats_, how};
    Proposer proposer(round);
    return work(proposer);
  }
  std::vector<Candidate> best_of(int count, int wanted, int threads) {
    return in_round(threads, [&](Proposer& proposer) {
      EXPECT_TRUE(proposer.scores_traces());
      return proposer.build_best(
          count, wanted, 1, [&](int, Candidate& candidate, Rng& rng) { return proposer.draw_any(candidate, rng); });
    });
  }

  CandidateSpace space_ = small_space("dense");
  HashModel model_;
  SearchStats stats_;
};

// Only the draws that the model scores highest are built; the number of threads makes no difference.
TEST_F(TracesScored, OnlyTheBestAreBuilt) {
  std::vector<Candidate> all = in_round(1, [&](Proposer& proposer) {
    std::vector<Candidate> built = proposer.build_new(
        400, 1, [&](int, Candidate& candidate, Rng& rng) { return proposer.draw_any(candidate, rng); });
    proposer.score(built);
    return built;
  });
  ASSERT_GT(all.size(), 200u);
  std::ranges::stable_sort(all, has_higher_score);
  stats_ = {};
  std::vector<Candidate> best = best_of(400, 20, 1);
  EXPECT_GE(best.size(), 10u);
  EXPECT_LE(stats_.candidates + stats_.rejected + stats_.repeats, 20 + 400 - static_cast<i64>(all.size()));
  for (const Candidate& candidate : best) EXPECT_GE(candidate.score, all[19].score);
  std::vector<Candidate> again = best_of(400, 20, 3);
  ASSERT_EQ(again.size(), best.size());
  for (std::size_t i = 0; i < best.size(); ++i) EXPECT_EQ(again[i].program, best[i].program);
}

// Evolution chooses its children so: far more of them have high scores than where programs are needed.
TEST_F(TracesScored, EvolutionBuildsTheBestOfMoreChildren) {
  auto share_of_high = [&](FeatureKind kind) {
    Rounds rounds(small_space("dense"), {.strategy = "evolutionary", .settings = {{"generations", 1}, {"draws", 64}}});
    rounds.space.features = kind;
    rounds.model = &model_;
    rounds.next(16);
    return static_cast<double>(
               std::ranges::count_if(rounds.pooled, [](const Candidate& c) { return c.score > 0.75; })) /
           static_cast<double>(rounds.pooled.size());
  };
  double by_traces = share_of_high(FeatureKind::Tokens), by_programs = share_of_high(FeatureKind::Stores);
  EXPECT_GT(by_traces, 1.3 * by_programs);
}

// ---- annealing

// A smooth score: the mean of all features.
class MeanModel : public HashModel {
 public:
  std::vector<float> predict(const FeatureBatch& batch) const override {
    std::vector<float> scores;
    for (int i = 0; i < batch.size(); ++i) {
      const float *begin = batch.row(batch.first_row[i]), *end = batch.row(batch.first_row[i + 1]);
      scores.push_back(std::accumulate(begin, end, 0.0f) /
                       static_cast<float>(std::max<std::ptrdiff_t>(1, end - begin)));
    }
    return scores;
  }
};

class Annealing : public testing::Test {
 protected:
  Rounds rounds(std::map<std::string, double> settings) {
    settings.insert({{"chains", 24}, {"unproven_share", 1}, {"epsilon", 0}});
    Rounds out(small_space("dense"), {.strategy = "annealing", .settings = settings});
    out.model = &model_;
    return out;
  }
  // So many, scored by the model.
  std::vector<Candidate> draws(int count) {
    Rounds random(small_space("dense"), {.strategy = "random"});
    std::vector<Candidate> drawn = random.next(count);
    CandidateBuilder builder(random.space);
    FeatureBatch batch{.columns = feature_columns()};
    for (Candidate& candidate : drawn) {
      std::vector<float> rows;
      EXPECT_TRUE(builder.build(candidate, nullptr, &rows));
      batch.add(rows);
    }
    std::vector<float> scores = model_.predict(batch);
    for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i].score = scores[i];
    return drawn;
  }
  static double deviation(const std::vector<Candidate>& candidates) {
    double mean = mean_score(candidates), square = 0;
    for (const Candidate& candidate : candidates) square += std::pow(candidate.score - mean, 2);
    return std::sqrt(square / static_cast<double>(candidates.size()));
  }
  MeanModel model_;
};

// Against as many draws.
TEST_F(Annealing, ClimbsWhereDrawsDoNot) {
  double unit = deviation(draws(200));
  Rounds chains = rounds({{"steps", 60}, {"early_stop", 60}, {"temperature", unit / 2}});
  std::vector<Candidate> best = chains.next(16), drawn = draws(static_cast<int>(chains.stats.candidates));
  ASSERT_GE(drawn.size(), chains.pooled.size() * 3 / 4);
  EXPECT_GT(mean_score(chains.pooled), mean_score(drawn) + unit / 2);
  std::ranges::stable_sort(drawn, has_higher_score);
  drawn.resize(best.size());
  EXPECT_GT(mean_score(best), mean_score(drawn) + unit / 2);
}

TEST_F(Annealing, ChainsGoOnInTheNextRound) {
  double unit = deviation(draws(200));
  std::map<std::string, double> settings{{"steps", 15}, {"temperature", unit / 10}};
  Rounds on = rounds(settings), anew = rounds(settings);
  for (int round = 0; round < 4; ++round) {
    on.next(16);
    anew.restart();
    anew.next(16);
  }
  EXPECT_GT(mean_score(on.pooled), mean_score(anew.pooled) + unit / 2);
}

// One chain of one step meets little that is new, and the search goes on all the same.
TEST(Chains, GoOnAtDrawsWhereTheyMetNothingNew) {
  for (const char* strategy : {"annealing", "metropolis"}) {
    Rounds rounds(small_space("open"), {.strategy = strategy, .settings = {{"chains", 1}, {"steps", 1}}});
    for (int round = 0; round < 60; ++round) {
      std::vector<Candidate> batch = rounds.next(1);
      ASSERT_FALSE(batch.empty()) << strategy << ", round " << round;
      rounds.measure(batch);
    }
  }
}

// ---- metropolis

constexpr const char* kWeights = R"(b = get_block("C")
i, j, k = get_loops(b)
x, y = sample_perfect_tile(i, 2, 64)
i0, i1 = split(i, [x, y])
unroll(i1)
v = sample_categorical([2, 4, 8], [1, 2, 6])
u = sample_categorical([2, 4, 8, 16])
j0, j1 = split(j, [_, v])
k0, k1 = split(k, [_, u])
)";

// Each program's part of prior * exp(score / temperature), by trying all points. Both sketches are equally likely.
std::map<u64, double> posterior(const CandidateSpace& space, const HashModel& model, double temperature) {
  std::map<u64, double> out;
  CandidateBuilder builder(space);
  auto add = [&](Candidate candidate, double prior) {
    std::vector<float> rows;
    ASSERT_TRUE(builder.build(candidate, nullptr, &rows));
    FeatureBatch batch{.columns = feature_columns()};
    batch.add(rows);
    out[candidate.program.low] += prior * std::exp(model.predict(batch)[0] / temperature);
  };
  add({.sketch = 0}, 0.5);
  const double weights[] = {1, 2, 6};
  for (i64 tile = 0; tile < 4; ++tile) {
    for (i64 v = 0; v < 3; ++v) {
      for (i64 u = 0; u < 4; ++u) {
        Decision factors{{8 >> tile, 1 << tile}, 2};
        add({.sketch = 1, .decisions = {factors, Decision::of(v), Decision::of(u)}}, 0.5 / 4 * weights[v] / 9 / 4);
      }
    }
  }
  double sum = 0;
  for (const auto& [program, weight] : out) sum += weight;
  for (auto& [program, weight] : out) weight /= sum;
  return out;
}

TEST(Metropolis, VisitsAreThoseOfThePosterior) {
  constexpr double kTemperature = 0.4;
  CandidateSpace space = space_of("matmul", {{"M", i64{8}}, {"N", i64{32}}, {"K", i64{32}}}, "untuned", kWeights);
  HashModel model;
  std::map<u64, double> expected = posterior(space, model, kTemperature);
  ASSERT_EQ(expected.size(), 1 + 4 * 12u);
  Metropolis strategy({.chains = 64, .steps = 12, .temperature = kTemperature});
  KnownCandidates known;
  SearchStats stats;
  RoundOptions options;
  std::map<u64, double> visits;
  double all = 0;
  for (u64 number = 0; number < 160; ++number) {
    Rng rng(7, number);
    Round round{space, {}, {}, {}, &model, {}, 1, rng, known, stats, options};
    strategy.propose(round);
    if (number < 10) continue;
    for (const Candidate& candidate : strategy.chains().candidates()) ++visits[candidate.program.low], ++all;
  }
  double chi_square = 0, degrees = static_cast<double>(expected.size()) - 1;
  for (const auto& [program, part] : expected) {
    double want = part * all, got = visits[program];
    chi_square += (got - want) * (got - want) / want;
  }
  EXPECT_LT(chi_square, degrees + 5 * std::sqrt(2 * degrees));
  EXPECT_GT(chi_square, degrees - 5 * std::sqrt(2 * degrees)) << "visits that are no draws";
}

// A space of 49 programs, of which the least likely comes once in 288 draws.
TEST(Chains, EndWhereDrawsGiveNothingNew) {
  for (const char* strategy : {"annealing", "metropolis"}) {
    CandidateSpace space = space_of("matmul", {{"M", i64{8}}, {"N", i64{32}}, {"K", i64{32}}}, "untuned", kWeights);
    Rounds rounds(std::move(space), {.strategy = strategy, .settings = {{"chains", 1}, {"steps", 1}}});
    std::vector<Candidate> batch;
    for (int round = 0; round < 60; ++round) rounds.measure(batch = rounds.next(1));
    EXPECT_TRUE(batch.empty()) << strategy;
    EXPECT_GE(rounds.tried.size(), 45u) << strategy;
    EXPECT_LE(rounds.tried.size(), 49u) << strategy;
  }
}

// ---- genetic

// The part of the decisions that are the first of one parent and the last of another.
double inherited(const std::vector<Candidate>& children, const std::vector<Candidate>& parents) {
  double kept = 0, all = 0;
  for (const Candidate& child : children) {
    std::size_t most = 0;
    for (const Candidate& first : parents) {
      if (first.sketch != child.sketch) continue;
      for (const Candidate& last : parents) {
        if (last.sketch != child.sketch) continue;
        std::size_t point = 0, same = 0;
        while (point < child.decisions.size() && child.decisions[point] == first.decisions[point]) ++point;
        for (std::size_t i = point; i < child.decisions.size(); ++i) same += child.decisions[i] == last.decisions[i];
        most = std::max(most, point + same);
      }
    }
    kept += static_cast<double>(most), all += static_cast<double>(child.decisions.size());
  }
  return kept / all;
}

TEST(Genetic, ChildrenHaveTheDecisionsOfParents) {
  auto next = [](const std::string& strategy, const std::map<std::string, double>& settings, auto look) {
    Rounds rounds(small_space("dense"), {.strategy = strategy, .settings = settings});
    rounds.measure(rounds.next(40));
    std::vector<Candidate> parents = rounds.fastest();
    return look(rounds.next(40), parents);
  };
  std::map<std::string, double> few{{"population", 40}, {"elites", 0}, {"mutate_probability", 0.05}};
  double children = next("genetic", few, inherited), draws = next("random", {}, inherited);
  EXPECT_GT(children, draws + 0.15);
  EXPECT_LT(children, 1) << "some mutate";
  few["mutate_probability"] = 0.5;
  EXPECT_LT(next("genetic", few, inherited), children - 0.1);
}

TEST(Genetic, TheFastestHaveMostChildren) {
  Rounds rounds(small_space("dense"),
                {.strategy = "genetic", .settings = {{"population", 60}, {"elites", 0}, {"mutate_probability", 0.02}}});
  std::vector<Candidate> first = rounds.next(60);
  rounds.measure(first);
  for (Candidate& candidate : first)
    rounds.times[candidate.program] = candidate.sketch == first[0].sketch ? 1e-6 : 1e-4;
  auto of_sketch = [&](const std::vector<Candidate>& list) {
    return static_cast<double>(std::ranges::count(list, first[0].sketch, &Candidate::sketch)) /
           static_cast<double>(list.size());
  };
  double before = of_sketch(first), after = of_sketch(rounds.next(60));
  ASSERT_LT(before, 0.6);
  EXPECT_GT(after, 0.8);
}

// ---- reference

TEST(Reference, ScoresAreRandomUntilEnoughIsMeasured) {
  class Counting : public HashModel {
   public:
    std::vector<float> predict(const FeatureBatch& batch) const override { return ++calls, HashModel::predict(batch); }
    mutable int calls = 0;
  } model;
  Rounds rounds(small_space("dense"), {.strategy = "reference"});
  rounds.model = &model;
  EXPECT_EQ(rounds.strategy->batch(), 64);
  for (int round = 0; round < 2; ++round) rounds.measure(rounds.next(64));
  EXPECT_EQ(model.calls, 0);
  rounds.measure(rounds.next(64));
  EXPECT_EQ(model.calls, 5) << "the first population and four generations";
  EXPECT_EQ(rounds.tried.size(), 3 * 64u);
}

// Of children that differ from a parent in one decision: nine in ten tries change a tile, three in a hundred how far to
// unroll. mutate() of the other strategies would change the latter in a third of them.
TEST(Reference, ChildrenHaveItsProbabilities) {
  constexpr int kPopulation = 256;
  Rounds rounds(space_of("dense", {{"M", i64{96}}, {"N", i64{192}}, {"K", i64{120}}}, "reference-cpu"),
                {.strategy = "reference",
                 .settings = {{"population", kPopulation},
                              {"measured_ratio", 1},
                              {"min_unmeasured", 0},
                              {"generations", 1},
                              {"mutate_probability", 1},
                              {"epsilon", 0}}});
  while (rounds.fastest().size() < kPopulation) rounds.measure(rounds.next(kPopulation));
  const std::vector<Candidate> parents = rounds.fastest();
  double tiles = 0, others = 0;
  for (const Candidate& child : rounds.next(kPopulation)) {
    std::set<std::size_t> changed;  // the only difference to a parent
    for (const Candidate& parent : parents) {
      if (parent.sketch != child.sketch) continue;
      std::vector<std::size_t> different;
      for (std::size_t i = 0; i < child.decisions.size(); ++i)
        if (!(parent.decisions[i] == child.decisions[i])) different.push_back(i);
      if (different.size() == 1) changed.insert(different[0]);
    }
    if (changed.size() != 1) continue;
    const Trace& trace = rounds.space.space.sketches[static_cast<std::size_t>(child.sketch)].trace;
    const bool is_tile = std::ranges::count(samples_that_draw(trace, Meaning::Draws::Divisors), *changed.begin(),
                                            &SampleSite::sample) > 0;
    ++(is_tile ? tiles : others);
  }
  EXPECT_GT(tiles + others, 100);
  EXPECT_NEAR(others / (tiles + others), 0.03 / 0.93, 0.05);
}

// ---- selection

// Two decisions each; the score falls with the number.
std::vector<Candidate> ranked(int count) {
  std::vector<Candidate> out;
  for (int i = 0; i < count; ++i) {
    Candidate candidate{.decisions = {Decision::of(i / 8), Decision::of(i % 8)}, .score = static_cast<float>(-i)};
    candidate.program.low = static_cast<u64>(i + 1);
    out.push_back(candidate);
  }
  return out;
}

std::size_t different_values(const std::vector<Candidate>& candidates) {
  std::set<std::pair<std::size_t, i64>> values;
  for (const Candidate& candidate : candidates) {
    for (std::size_t i = 0; i < candidate.decisions.size(); ++i) values.emplace(i, candidate.decisions[i].values[0]);
  }
  return values.size();
}

class Selecting : public testing::Test {
 protected:
  std::vector<Candidate> select(int count, const SelectionOptions& options) {
    CandidateSpace none;
    KnownCandidates known;
    SearchStats stats;
    RoundOptions how;
    Rng rng(3);
    Round round{none, {}, {}, {}, nullptr, {}, count, rng, known, stats, how};
    return select_batch(ranked(64), round, options);
  }
};

TEST_F(Selecting, ADiverseBatchHasMoreDifferentDecisions) {
  SelectionOptions greedy{.epsilon = 0, .unproven_share = 1}, diverse = greedy;
  diverse.is_diverse = true, diverse.lambda = 4, diverse.alpha = 4;
  std::vector<Candidate> best = select(8, greedy), spread = select(8, diverse);
  ASSERT_EQ(best.size(), 8u);
  ASSERT_EQ(spread.size(), 8u);
  EXPECT_EQ(different_values(best), 1u + 8u);
  EXPECT_GE(different_values(spread), 11u) << "of 12 that 32 candidates have";
  for (const Candidate& candidate : spread) EXPECT_GT(candidate.score, -32) << "not among the best lambda * b";
}

TEST_F(Selecting, AlphaWeighsCoverageAgainstScore) {
  std::size_t before = 0;
  for (double alpha : {0.0, 0.5, 2.0, 8.0}) {
    std::vector<Candidate> batch =
        select(8, {.is_diverse = true, .epsilon = 0, .unproven_share = 1, .lambda = 8, .alpha = alpha});
    if (alpha == 0) {
      for (int i = 0; i < 8; ++i) EXPECT_EQ(batch[i].score, -i);
    }
    EXPECT_GE(different_values(batch), before) << alpha;
    before = different_values(batch);
  }
  EXPECT_EQ(before, 16u);
}

// A crowd of neighbours of the best, which differ from it in one decision of eight, with scores close to its own, and
// draws from all over the space with scores a little below. Of them a batch is chosen.
class Crowd : public testing::Test {
 protected:
  static constexpr int kDecisions = 8, kValues = 16;
  static std::vector<Candidate> pool(int neighbours, int others) {
    Rng rng(5);
    std::vector<Candidate> all;
    auto add = [&](double mean, const std::function<i64(int)>& value) {
      Candidate candidate{.score = static_cast<float>(mean + 0.3 * rng.normal())};
      for (int i = 0; i < kDecisions; ++i) candidate.decisions.push_back(Decision::of(value(i)));
      candidate.program.low = all.size() + 1;
      all.push_back(std::move(candidate));
    };
    for (int i = 0; i < neighbours; ++i)
      add(1, [&](int sample) { return sample == i % kDecisions ? rng.below(kValues) : 0; });
    for (int i = 0; i < others; ++i) add(0, [&](int) { return rng.below(kValues); });
    return all;
  }
  static int differ(const Candidate& a, const Candidate& b) {
    int count = 0;
    for (std::size_t i = 0; i < a.decisions.size(); ++i) count += !(a.decisions[i] == b.decisions[i]);
    return count;
  }
  // How many of a batch have a neighbour in it, or in flight: one that differs in two decisions at most.
  static double crowded(const std::vector<Candidate>& batch, std::span<const Candidate> in_flight) {
    auto is_near = [](const Candidate& a, const Candidate& b) { return &a != &b && differ(a, b) <= 2; };
    auto count = std::ranges::count_if(batch, [&](const Candidate& one) {
      auto is_neighbour = [&](const Candidate& other) { return is_near(one, other); };
      return std::ranges::any_of(batch, is_neighbour) || std::ranges::any_of(in_flight, is_neighbour);
    });
    return static_cast<double>(count) / static_cast<double>(batch.size());
  }
  static std::vector<Candidate> select(int count, std::size_t together, std::span<const Candidate> in_flight = {}) {
    CandidateSpace none;
    KnownCandidates known;
    SearchStats stats;
    RoundOptions how;
    Rng rng(3);
    Round round{none, {}, {}, {}, nullptr, {}, count, rng, known, stats, how};
    round.together = together, round.in_flight = in_flight;
    return select_batch(pool(400, 1600), round, {.epsilon = 0, .unproven_share = 1});
  }
};

TEST_F(Crowd, ManyMachinesDoNotMeasureNeighbours) {
  std::vector<double> shares;
  for (std::size_t together : {0, 32, 64, 128, 256, 512}) shares.push_back(crowded(select(64, together), {}));
  EXPECT_EQ(shares[1], shares[0]) << "a usual batch is what it was";
  EXPECT_GT(shares[0], 0.9) << "else there is no crowd";
  for (std::size_t i = 2; i < shares.size(); ++i) EXPECT_LE(shares[i], shares[i - 1]) << i;
  EXPECT_LT(shares.back(), 0.4);
}

TEST_F(Crowd, WhatIsInFlightIsKeptAwayFrom) {
  std::vector<Candidate> in_flight = pool(64, 0);
  double alone = crowded(select(64, 256), in_flight), beside = crowded(select(64, 256, in_flight), in_flight);
  EXPECT_LT(beside, alone / 2);
}

// The best is measured in any case.
TEST_F(Crowd, TheBestIsInEveryBatch) {
  for (std::size_t together : {0, 64, 512}) {
    std::vector<Candidate> all = pool(400, 1600), batch = select(64, together);
    auto best = std::ranges::max_element(all, {}, &Candidate::score);
    EXPECT_TRUE(std::ranges::any_of(batch, [&](const Candidate& c) { return c.program == best->program; })) << together;
  }
}

TEST_F(Selecting, SomeAreRandomWithEpsilon) {
  std::vector<Candidate> batch = select(16, {.is_diverse = true, .epsilon = 0.5, .unproven_share = 1, .lambda = 1});
  ASSERT_EQ(batch.size(), 16u);
  HashSet different;
  int beyond = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    EXPECT_TRUE(different.insert(batch[i].program).second);
    EXPECT_TRUE(i >= 8 || batch[i].score > -8);
    beyond += batch[i].score <= -8;
  }
  EXPECT_EQ(beyond, 8);
}

// ---- acquisition

TEST(Acquisition, Values) {
  Acquisition mean, ei{Acquisition::Kind::ExpectedImprovement}, ucb{Acquisition::Kind::UpperConfidenceBound, 2};
  EXPECT_EQ(acquisition_of(mean, {0.5f, 3}, 1.0f), 0.5f);
  EXPECT_EQ(acquisition_of(ucb, {0.5f, 3}, 1.0f), 6.5f);
  EXPECT_NEAR(acquisition_of(ei, {1, 1}, 1.0f), 0.39894, 1e-4);  // of a standard normal above 0
  EXPECT_NEAR(acquisition_of(ei, {0, 1}, 1.0f), 0.08332, 1e-4);
  EXPECT_NEAR(acquisition_of(ei, {5, 1}, 1.0f), 4, 1e-3);
  EXPECT_EQ(acquisition_of(ei, {0.5f, 0}, 1.0f), -0.5f);
  EXPECT_EQ(acquisition_of(ei, {0.5f, 3}, std::nullopt), 0.5f) << "nothing is measured";
}

// Of candidates with equal means those that the models differ about come first.
TEST(Acquisition, UncertainOnesComeFirst) {
  HashModel model;
  model.is_flat = true;
  auto mean_deviation = [&](const std::string& acquisition) {
    Rounds rounds(small_space("dense"),
                  {.acquisition = acquisition, .settings = {{"epsilon", 0}, {"unproven_share", 1}}});
    rounds.model = &model;
    rounds.measure(rounds.next(4));
    CandidateBuilder builder(rounds.space);
    FeatureBatch batch{.columns = feature_columns()};
    for (Candidate candidate : rounds.next(24)) {
      std::vector<float> rows;
      EXPECT_TRUE(builder.build(candidate, nullptr, &rows));
      batch.add(rows);
    }
    double sum = 0;
    for (const Prediction& prediction : model.predict_with_deviation(batch)) sum += prediction.deviation;
    return sum / batch.size();
  };
  EXPECT_LT(mean_deviation("mean"), 0.7);
  EXPECT_GT(mean_deviation("ei"), 0.9);
  EXPECT_GT(mean_deviation("ucb"), 0.9);
}

}  // namespace
}  // namespace tw
