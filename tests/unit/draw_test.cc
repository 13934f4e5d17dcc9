// Samples, the joint prior and the mutators, on schedules in text.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "dsl/base/text.h"
#include "dsl/schedule/state.h"
#include "dsl/text/workload.h"
#include "sampler/draw/extents.h"
#include "sampler/draw/mutator.h"
#include "sampler/strategies/reference_mutators.h"
#include "support/parsed.h"

namespace tw {
namespace {

using test::parsed_schedule;

OwnedProgram matmul(i64 m, i64 n, i64 k, const std::vector<std::string>& epilogues = {}) {
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> made =
      instantiate(operator_library(), "matmul", {{"M", m}, {"N", n}, {"K", k}}, epilogues, diagnostics);
  EXPECT_TRUE(made) << diagnostics.render();
  return std::move(*made);
}

// Replays on a fresh state; what was taken is written into `decisions`. The reject as text, "" if there is none.
std::string replayed(const Program& program, const Trace& trace, std::vector<Decision>& decisions, ReplayMode mode,
                     Rng* rng) {
  Arena arena;
  State state(arena, program);
  Status status = replay(trace, state, decisions, mode, rng);
  return status ? "" : to_string(status.rejected());
}

std::vector<i64> values(const Decision& decision) { return {decision.values, decision.values + decision.count}; }

Decision decision_of(const std::vector<i64>& list) {
  Decision decision;
  for (i64 value : list) decision.values[decision.count++] = value;
  return decision;
}

// One sample instruction on the loop `i` of extent M.
class OneSample {
 public:
  OneSample(i64 extent, const std::string& sample)
      : program_(matmul(extent, 4, 4)),
        trace_(parsed_schedule("b = get_block(\"C\")\ni, j, k = get_loops(b)\n" + sample + "\n")) {}

  std::vector<i64> draw(Rng& rng) const {
    std::vector<Decision> decisions(1);
    EXPECT_EQ(replayed(program_.program, trace_, decisions, ReplayMode::Strict, &rng), "");
    return values(decisions[0]);
  }
  // What strict replay says of a decision.
  std::string strict(const std::vector<i64>& given) const {
    std::vector<Decision> decisions{decision_of(given)};
    return replayed(program_.program, trace_, decisions, ReplayMode::Strict, nullptr);
  }
  // What adapting replay makes of a decision.
  std::vector<i64> adapted(const std::vector<i64>& given) const {
    std::vector<Decision> decisions{decision_of(given)};
    EXPECT_EQ(replayed(program_.program, trace_, decisions, ReplayMode::Adapt, nullptr), "");
    return values(decisions[0]);
  }

 private:
  OwnedProgram program_;
  Trace trace_;
};

TEST(PerfectTile, FactorsMultiplyToTheExtentAndTheLastIsBounded) {
  Rng rng(1);
  for (i64 extent : {1, 2, 13, 16, 97, 360, 1009}) {
    OneSample sample(extent, "t0, t1, t2 = sample_perfect_tile(i, 3, max_innermost = 8)");
    std::set<std::vector<i64>> seen;
    for (int i = 0; i < 2000; ++i) {
      std::vector<i64> tile = sample.draw(rng);
      ASSERT_EQ(tile.size(), 3u);
      ASSERT_EQ(tile[0] * tile[1] * tile[2], extent);
      ASSERT_LE(tile[2], 8);
      seen.insert(tile);
    }
    if (extent == 97) {
      EXPECT_EQ(seen, (std::set<std::vector<i64>>{{97, 1, 1}, {1, 97, 1}}));
    }
    if (extent == 360) {
      EXPECT_GT(seen.size(), 50u);
    }
  }
}

TEST(PerfectTile, EveryFactorisationIsEquallyLikely) {
  Rng rng(2);
  OneSample sample(12, "t0, t1, t2 = sample_perfect_tile(i, 3, max_innermost = 0)");
  std::map<std::vector<i64>, int> counts;
  const int draws = 20000;
  for (int i = 0; i < draws; ++i) ++counts[sample.draw(rng)];
  ASSERT_EQ(counts.size(), 18u);  // 6 ways to place 2 * 2, times 3 to place 3
  double expected = draws / 18.0, chi_square = 0;
  for (const auto& [tile, count] : counts) chi_square += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_square, 50);  // 17 degrees of freedom: exceeded once in 30,000 seeds
}

// Counted by hand, also for squares of primes and tiles of exactly the limit.
TEST(PerfectTile, EveryFactorisationWithinTheLimitIsDrawn) {
  Rng rng(15);
  for (i64 extent : {4, 9, 36, 49, 60}) {
    for (i64 limit : {2, 4, 9, 12}) {
      std::set<std::vector<i64>> expected, drawn;
      for (i64 inner = 1; inner <= limit; ++inner) {
        if (extent % inner == 0) expected.insert({extent / inner, inner});
      }
      OneSample sample(extent, cat("t0, t1 = sample_perfect_tile(i, 2, max_innermost = ", limit, ")"));
      for (int i = 0; i < 1000; ++i) drawn.insert(sample.draw(rng));
      EXPECT_EQ(drawn, expected) << extent << " within " << limit;
    }
  }
}

TEST(PerfectTile, IllegalDecisions) {
  OneSample sample(12, "t0, t1, t2 = sample_perfect_tile(i, 3, max_innermost = 16)");
  EXPECT_EQ(sample.strict({2, 2, 3}), "");
  EXPECT_EQ(sample.strict({2, 2, 2}),
            "sample_perfect_tile: the factors of the decision do not multiply to 12, the extent of loop `i`");
  EXPECT_EQ(sample.strict({4, 3}), "sample_perfect_tile: decision has 2 factors, expected 3");
  // From the innermost outwards: a tile that does not divide what is left takes all of it; the first takes the rest.
  EXPECT_EQ(sample.adapted({2, 2, 3}), (std::vector<i64>{2, 2, 3}));
  EXPECT_EQ(sample.adapted({2, 2, 2}), (std::vector<i64>{3, 2, 2}));
  EXPECT_EQ(sample.adapted({4, 5, 3}), (std::vector<i64>{1, 4, 3}));
  EXPECT_EQ(sample.adapted({7, 2, 8}), (std::vector<i64>{1, 1, 12}));
}

TEST(PartitionedTile, TheInnerPartIsAMultipleAndEveryFactorisationEquallyLikely) {
  Rng rng(12);
  OneSample sample(48, "t0, t1, t2 = sample_partitioned_tile(i, 3, 1, 8)");
  std::map<std::vector<i64>, int> counts;
  const int draws = 20000;
  for (int i = 0; i < draws; ++i) ++counts[sample.draw(rng)];
  for (const auto& [tile, count] : counts) {
    EXPECT_EQ(tile[0] * tile[1] * tile[2], 48);
    EXPECT_EQ(tile[1] * tile[2] % 8, 0);
  }
  ASSERT_EQ(counts.size(), 27u);  // 2^4 with at most one 2 outside: 5 + 4 ways, times 3 to place 3
  double expected = draws / 27.0, chi_square = 0;
  for (const auto& [tile, count] : counts) chi_square += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_square, 65);  // 26 degrees of freedom: exceeded once in 30,000 seeds
}

TEST(PartitionedTile, IllegalDecisionsAndExtents) {
  OneSample sample(48, "t0, t1, t2 = sample_partitioned_tile(i, 3, 1, 8)");
  EXPECT_EQ(sample.strict({2, 3, 8}), "");
  std::string wrong =
      "sample_partitioned_tile: the factors of the decision are none of loop `i` of extent 48 with an inner part of "
      "multiples of 8";
  EXPECT_EQ(sample.strict({12, 2, 2}), wrong);
  EXPECT_EQ(sample.strict({2, 2, 8}), wrong);
  EXPECT_EQ(sample.strict({-2, -3, 8}), wrong);
  EXPECT_EQ(sample.strict({6, 8}), "sample_partitioned_tile: decision has 2 factors, expected 3");
  EXPECT_EQ(sample.adapted({2, 3, 8}), (std::vector<i64>{2, 3, 8}));
  EXPECT_EQ(sample.adapted({12, 2, 2}), (std::vector<i64>{6, 8, 1}));
  // No multiple: everything is outermost.
  Rng rng(13);
  OneSample prime(13, "t0, t1, t2 = sample_partitioned_tile(i, 3, 2, 4)");
  EXPECT_EQ(prime.draw(rng), (std::vector<i64>{13, 1, 1}));
  EXPECT_EQ(prime.adapted({1, 13, 1}), (std::vector<i64>{13, 1, 1}));
  OneSample whole(12, "t0, t1 = sample_partitioned_tile(i, 2, 0, 4)");
  EXPECT_EQ(whole.adapted({5, 5}), (std::vector<i64>{12, 1}));
  EXPECT_EQ(OneSample(12, "t0, t1 = sample_partitioned_tile(i, 2, 2, 4)").strict({12, 1}),
            "sample_partitioned_tile: expected the inner part to begin at one of 2 factors, found 2");
  EXPECT_EQ(OneSample(12, "t0, t1 = sample_partitioned_tile(i, 2, -1, 4)").strict({12, 1}),
            "sample_partitioned_tile: expected the inner part to begin at one of 2 factors, found -1");
  EXPECT_EQ(OneSample(12, "t0, t1 = sample_partitioned_tile(i, 2, 1, 0)").strict({12, 1}),
            "sample_partitioned_tile: the factor of the inner part is 0, expected a positive one");
}

TEST(Tile, CoversTheExtentWithAnyFactor) {
  Rng rng(3);
  for (i64 extent : {1, 17, 48}) {
    OneSample sample(extent, "t0, t1, t2 = sample_tile(i, 3, max_innermost = 16)");
    std::set<i64> innermost;
    for (int i = 0; i < 2000; ++i) {
      std::vector<i64> tile = sample.draw(rng);
      ASSERT_EQ(sample.strict(tile), "");
      i64 blocks = (extent + tile[2] - 1) / tile[2];
      ASSERT_LE(tile[1], blocks);
      ASSERT_EQ(tile[0], (blocks + tile[1] - 1) / tile[1]);
      innermost.insert(tile[2]);
    }
    EXPECT_EQ(static_cast<i64>(innermost.size()), std::min<i64>(extent, 16));
    EXPECT_EQ(*innermost.begin(), 1);
    EXPECT_EQ(*innermost.rbegin(), std::min<i64>(extent, 16));
  }
}

TEST(Tile, AboutHalfArePerfectByDesign) {
  Rng rng(16);
  OneSample sample(48, "t0, t1 = sample_tile(i, 2)");
  int perfect = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<i64> tile = sample.draw(rng);
    perfect += tile[0] * tile[1] == 48;
  }
  // All of one half; of the other, log-uniform one the divisors have 53 %.
  EXPECT_NEAR(perfect, 4000 * (0.5 + 0.5 * 0.535), 150);
}

TEST(Tile, IllegalDecisions) {
  OneSample sample(17, "t0, t1 = sample_tile(i, 2, max_innermost = 8)");
  EXPECT_EQ(sample.strict({3, 6}), "");
  EXPECT_EQ(sample.strict({2, 6}), "sample_tile: the factors of the decision do not fit loop `i` of extent 17");
  EXPECT_EQ(sample.adapted({2, 6}), (std::vector<i64>{3, 6}));
  EXPECT_EQ(sample.adapted({1, 17}), (std::vector<i64>{3, 8}));
  EXPECT_EQ(sample.adapted({5, 0}), (std::vector<i64>{17, 1}));
}

TEST(Categorical, FollowsItsWeights) {
  Rng rng(4);
  OneSample sample(8, "v = sample_categorical([10, 20, 30], weights = [1, 2, 5])");
  std::vector<double> counts(3);
  for (int i = 0; i < 16000; ++i) ++counts.at(sample.draw(rng).at(0));
  EXPECT_NEAR(counts[0], 2000, 200);  // about five standard deviations each
  EXPECT_NEAR(counts[1], 4000, 270);
  EXPECT_NEAR(counts[2], 10000, 300);
  EXPECT_EQ(sample.strict({3}), "sample_categorical: decision 3 is out of range: there are 3 candidates");
  EXPECT_EQ(sample.adapted({3}), std::vector<i64>{2});
  EXPECT_EQ(sample.adapted({-1}), std::vector<i64>{0});
}

TEST(Categorical, TheValueIsTheCandidateOfTheIndex) {
  OwnedProgram program = matmul(8, 4, 4);
  Trace trace = parsed_schedule("v = sample_categorical([10, 20, 30]) @ 1");
  Arena arena;
  State state(arena, program.program);
  ASSERT_TRUE(replay(trace, state));
  EXPECT_EQ(state.values().back().payload, 20);
}

// r registers by v vectors fit into 16.
class RegisterPrior : public testing::Test {
 protected:
  static bool fits(i64 r, i64 v) { return r * v + v + 1 <= 16; }
  using Pair = std::pair<i64, i64>;
  static Pair pair_of(const std::vector<Decision>& d) { return {d[0].values[0] + 1, d[1].values[0] + 1}; }
  static std::set<Pair> all_valid() {
    std::set<Pair> valid;
    for (i64 r = 1; r <= 14; ++r) {
      for (i64 v = 1; v <= 4; ++v) {
        if (fits(r, v)) valid.insert({r, v});
      }
    }
    return valid;
  }

  Trace trace_ = parsed_schedule(
      "r = sample_categorical([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14])\n"
      "v = sample_categorical([1, 2, 3, 4])\n"
      "require(r * v + v + 1 <= 16)\n");
  JointPrior prior_{trace_};
};

TEST_F(RegisterPrior, DrawsEveryValidPairAndNoOther) {
  Rng rng(5);
  OwnedProgram program = matmul(4, 4, 4);
  std::set<Pair> drawn;
  for (int i = 0; i < 5000; ++i) {
    std::vector<Decision> decisions(2);
    ASSERT_TRUE(prior_.draw(decisions, rng));
    ASSERT_TRUE(prior_.satisfied(decisions));
    ASSERT_EQ(replayed(program.program, trace_, decisions, ReplayMode::Strict, nullptr), "");
    drawn.insert(pair_of(decisions));
  }
  EXPECT_EQ(drawn, all_valid());
  EXPECT_NEAR(prior_.log10_groups(), std::log10(static_cast<double>(all_valid().size())), 1e-12);
}

TEST_F(RegisterPrior, RejectsAnInvalidPair) {
  OwnedProgram program = matmul(4, 4, 4);
  std::vector<Decision> decisions{Decision::of(13), Decision::of(3)};  // 14 by 4
  EXPECT_FALSE(prior_.satisfied(decisions));
  EXPECT_EQ(replayed(program.program, trace_, decisions, ReplayMode::Strict, nullptr),
            "require: the condition does not hold for these decisions");
}

TEST_F(RegisterPrior, RedrawChangesTheSampleAndStaysValid) {
  Rng rng(6);
  for (int i = 0; i < 2000; ++i) {
    std::vector<Decision> before(2);
    ASSERT_TRUE(prior_.draw(before, rng));
    std::size_t sample = static_cast<std::size_t>(rng.below(2)), other = 1 - sample;
    std::vector<Decision> after = before;
    ASSERT_TRUE(prior_.redraw(sample, after, rng));
    auto [r, v] = pair_of(after);
    ASSERT_TRUE(fits(r, v)) << r << " by " << v;
    ASSERT_FALSE(after[sample] == before[sample]);
    // Some other value fits without touching the other sample, except for v where r leaves no choice.
    bool can_stay = sample == 0 || fits(pair_of(before).first, pair_of(before).second == 1 ? 2 : 1);
    if (can_stay) {
      ASSERT_TRUE(after[other] == before[other]);
    }
  }
}

TEST(JointPrior, NoDrawIfNothingIsValid) {
  Rng rng(7);
  Trace trace = parsed_schedule("r = sample_categorical([1, 2])\nrequire(r > 2)\n");
  std::vector<Decision> decisions(1);
  EXPECT_FALSE(JointPrior(trace).draw(decisions, rng));
}

TEST(JointPrior, WeightsOfTiedSamplesMultiply) {
  Rng rng(14);
  Trace trace = parsed_schedule(
      "r = sample_categorical([1, 2, 3], weights = [1, 2, 5])\nv = sample_categorical([1, 2], weights = [3, "
      "1])\nrequire(r + v <= 4)\n");
  JointPrior prior(trace);
  std::map<std::pair<i64, i64>, double> counts;
  for (int i = 0; i < 27000; ++i) {
    std::vector<Decision> decisions(2);
    ASSERT_TRUE(prior.draw(decisions, rng));
    ++counts[{decisions[0].values[0] + 1, decisions[1].values[0] + 1}];
  }
  const std::map<std::pair<i64, i64>, double> weights = {
      {{1, 1}, 3}, {{2, 1}, 6}, {{3, 1}, 15}, {{1, 2}, 1}, {{2, 2}, 2}};  // together 27
  EXPECT_EQ(counts.size(), weights.size());
  for (const auto& [pair, weight] : weights)
    EXPECT_NEAR(counts[pair], 1000 * weight, 410) << pair.first << ", " << pair.second;
}

TEST(JointPrior, ARedrawnFreeSampleChanges) {
  Rng rng(18);
  Trace trace = parsed_schedule("r = sample_categorical([1, 2, 3])\n");
  JointPrior prior(trace);
  for (i64 old = 0; old < 3; ++old) {
    std::set<i64> drawn;
    for (int i = 0; i < 100; ++i) {
      std::vector<Decision> decisions{Decision::of(old)};
      ASSERT_TRUE(prior.redraw(0, decisions, rng));
      drawn.insert(decisions[0].values[0]);
    }
    std::set<i64> others{0, 1, 2};
    others.erase(old);
    EXPECT_EQ(drawn, others);
  }
}

TEST(JointPrior, PreferWeighsTheDraw) {
  Rng rng(11);
  Trace trace = parsed_schedule(
      "r = sample_categorical([1, 2, 3])\nv = sample_categorical([1, 2])\nrequire(r + v <= 4)\nprefer(r * v)\nprefer(4 "
      "- v)\n");
  JointPrior prior(trace);
  std::map<std::pair<i64, i64>, double> counts;
  for (int i = 0; i < 19000; ++i) {
    std::vector<Decision> decisions(2);
    ASSERT_TRUE(prior.draw(decisions, rng));
    ++counts[{decisions[0].values[0] + 1, decisions[1].values[0] + 1}];
  }
  // r * v * (4 - v) of the five valid pairs: 3, 6, 9, 4, 8; together 30. About five standard deviations each.
  const std::map<std::pair<i64, i64>, double> weights = {
      {{1, 1}, 3}, {{2, 1}, 6}, {{3, 1}, 9}, {{1, 2}, 4}, {{2, 2}, 8}};
  EXPECT_EQ(counts.size(), weights.size());
  for (const auto& [pair, weight] : weights)
    EXPECT_NEAR(counts[pair], 19000 * weight / 30, 320) << pair.first << ", " << pair.second;
}

TEST(JointPrior, PreferWithoutWeightExcludes) {
  Rng rng(12);
  OwnedProgram program = matmul(4, 4, 4);
  Trace trace = parsed_schedule("r = sample_categorical([0, 1, 2])\nprefer(r)\n");
  JointPrior prior(trace);
  for (int i = 0; i < 200; ++i) {
    std::vector<Decision> decisions(1);
    ASSERT_TRUE(prior.draw(decisions, rng));
    ASSERT_NE(decisions[0].values[0], 0);
  }
  std::vector<Decision> excluded{Decision::of(0)};
  EXPECT_FALSE(prior.satisfied(excluded));
  EXPECT_EQ(replayed(program.program, trace, excluded, ReplayMode::Strict, nullptr),
            "prefer: the weight of these decisions is 0; expected at least 1");
}

// Two perfect tiles whose middle factors are work-items, as the reference's rules for GPUs draw them.
class TiedTiles : public testing::Test {
 protected:
  static bool fits(i64 ti, i64 tj) { return ti * tj >= 4 && ti * tj <= 8; }
  OwnedProgram program_ = matmul(24, 16, 4);
  // The extents are read off the decisions that a recorded trace has.
  Trace trace_ = parsed_schedule(
      "c = get_block(\"C\")\ni, j, k = get_loops(c)\n"
      "i0, i1, i2 = sample_perfect_tile(i, n = 3, max_innermost = 8) @ [24, 1, 1]\n"
      "j0, j1, j2 = sample_perfect_tile(j, n = 3, max_innermost = 8) @ [16, 1, 1]\n"
      "require(i1 * j1 >= 4)\nrequire(i1 * j1 <= 8)\n");
};

TEST_F(TiedTiles, DrawsEveryValidPairAndNoOther) {
  JointPrior prior(trace_);
  EXPECT_TRUE(prior.draws_tile(0) && prior.draws_tile(1));
  std::set<std::vector<i64>> valid, drawn;
  for (i64 i1 = 1; i1 <= 24; ++i1) {
    for (i64 i2 = 1; i2 <= 8; ++i2) {
      for (i64 j1 = 1; j1 <= 16 && 24 % (i1 * i2) == 0; ++j1) {
        for (i64 j2 = 1; j2 <= 8; ++j2) {
          if (16 % (j1 * j2) == 0 && fits(i1, j1)) valid.insert({i1, i2, j1, j2});
        }
      }
    }
  }
  Rng rng(31);
  for (int n = 0; n < 8000; ++n) {
    std::vector<Decision> decisions(2);
    ASSERT_TRUE(prior.draw(decisions, rng));
    ASSERT_TRUE(prior.satisfied(decisions));
    ASSERT_EQ(replayed(program_.program, trace_, decisions, ReplayMode::Strict, nullptr), "");
    drawn.insert({decisions[0].values[1], decisions[0].values[2], decisions[1].values[1], decisions[1].values[2]});
  }
  EXPECT_EQ(drawn, valid);
}

TEST_F(TiedTiles, MutantsStayValid) {
  JointPrior prior(trace_);
  Rng rng(32);
  std::vector<Decision> decisions(2);
  ASSERT_TRUE(prior.draw(decisions, rng));
  int changed = 0;
  for (int n = 0; n < 2000; ++n) {
    changed += mutate_tile_size(trace_, prior, decisions, rng);
    ASSERT_TRUE(fits(decisions[0].values[1], decisions[1].values[1]));
  }
  EXPECT_GT(changed, 1900);
}

TEST(JointPrior, TilesWithoutAValidDrawAreNotDrawn) {
  Trace trace = parsed_schedule(
      "c = get_block(\"C\")\ni, j, k = get_loops(c)\ni0, i1 = sample_perfect_tile(i, n = 2) @ [7, 1]\nrequire(i1 == "
      "3)\n");
  std::vector<Decision> decisions(1);
  Rng rng(33);
  EXPECT_FALSE(JointPrior(trace).draw(decisions, rng));
}

TEST(JointPrior, ATileWhoseExtentADrawDecidesIsLeftToReplay) {
  Trace trace = parsed_schedule(
      "c = get_block(\"C\")\ni, j, k = get_loops(c)\nv = sample_categorical([2, 4]) @ 0\ni0, i1 = split(i, [_, v])\n"
      "t0, t1 = sample_perfect_tile(i0, n = 2) @ [12, 1]\nrequire(t1 >= 2)\n");
  EXPECT_FALSE(JointPrior(trace).draws_tile(1));
}

// The extents that a trace's loops have by arithmetic are those that they have in the program, behind splits, fusions
// and padding.
TEST(Extents, AreThoseOfTheProgram) {
  OwnedProgram program = matmul(61, 50, 12);
  Trace trace = parsed_schedule(
      "c = get_block(\"C\")\ni, j, k = get_loops(c)\nv = sample_categorical([4, 8, 16])\n"
      "a, b, crop = pad_einsum(c, [v, 1, 5])\ni0, i1 = split(i, [_, 3])\nj0, j1, j2 = split(j, [2, _, v])\nk0, k1 = "
      "split(k, [_, v])\n"
      "f = fuse([i0, i1])\nf0, f1 = split(f, [v, _])\n");
  for (i64 index = 0; index < 3; ++index) {
    Arena arena;
    State state(arena, program.program);
    std::vector<Decision> decisions{Decision::of(index)};
    ASSERT_TRUE(replay(trace, state, decisions, ReplayMode::Strict, nullptr));
    std::vector<LoopId> loops;
    for (const Value& value : state.values())
      loops.push_back(value.tag == Value::Tag::Loop ? LoopId{static_cast<u32>(value.payload)} : LoopId{});
    Extents extents(trace, program.program, loops);
    int known = 0;
    for (u32 value = 0; value < loops.size(); ++value) {
      Result<const For*> loop = loops[value].value ? state.loop(loops[value]) : Result<const For*>(reject("no loop"));
      if (!loop) continue;  // it was split or fused
      ASSERT_TRUE(extents.of(value)) << trace.name_of_value(value);
      EXPECT_EQ(*state.integer(*extents.of(value)), (*loop)->extent) << trace.name_of_value(value);
      ++known;
    }
    EXPECT_EQ(known, 7);
  }
}

TEST(Permutation, EveryOrderIsEquallyLikely) {
  Rng rng(13);
  OneSample sample(8, "x, y, z = sample_permutation([i, j, k])");
  std::map<std::vector<i64>, double> counts;
  for (int i = 0; i < 12000; ++i) ++counts[sample.draw(rng)];
  EXPECT_EQ(counts.size(), 6u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 2000, 210);
  EXPECT_EQ(sample.strict({0, 0, 1}), "sample_permutation: the decision is no permutation of 0 to 2");
  EXPECT_EQ(sample.strict({0, 1}), "sample_permutation: the decision is no permutation of 0 to 2");
  EXPECT_EQ(sample.strict({0, 1, 3}), "sample_permutation: the decision is no permutation of 0 to 2");
  EXPECT_EQ(sample.adapted({2, 2, 2}), (std::vector<i64>{0, 1, 2}));
}

// Places of block `name` of a small product with epilogues: what is drawn, and what a given decision becomes ("" =
// rejected).
class Places {
 public:
  Places(i64 rows, i64 columns, const std::vector<std::string>& epilogues, const std::string& name)
      : program_(matmul(rows, columns, 4, epilogues)),
        trace_(parsed_schedule(cat("b = get_block(\"", name, "\")\nat = sample_compute_location(b)\n"))) {}
  std::set<i64> drawn() const {
    Rng rng(19);
    std::set<i64> places;
    for (int i = 0; i < 200; ++i) {
      std::vector<Decision> decisions(1);
      EXPECT_EQ(replayed(program_.program, trace_, decisions, ReplayMode::Strict, &rng), "");
      places.insert(decisions[0].values[0]);
    }
    return places;
  }
  std::string strict(i64 place) const {
    std::vector<Decision> decisions{Decision::of(place)};
    return replayed(program_.program, trace_, decisions, ReplayMode::Strict, nullptr);
  }
  i64 adapted(i64 place) const {
    std::vector<Decision> decisions{Decision::of(place)};
    EXPECT_EQ(replayed(program_.program, trace_, decisions, ReplayMode::Adapt, nullptr), "");
    return decisions[0].values[0];
  }

 private:
  OwnedProgram program_;
  Trace trace_;
};

TEST(ComputeLocation, LegalPlacesAreDrawnAndOthersBecomeTheNearestSmallerOne) {
  Places sum(8, 6, {"relu"}, "C");  // a reduction cannot be inlined
  EXPECT_EQ(sum.drawn(), (std::set<i64>{-1, 0, 1}));
  EXPECT_EQ(sum.strict(1), "");
  EXPECT_NE(sum.strict(-2), "");
  EXPECT_NE(sum.strict(2), "");
  EXPECT_EQ(sum.adapted(7), 1);
  EXPECT_EQ(sum.adapted(0), 0);
  EXPECT_EQ(sum.adapted(-2), -1);
  Places column(8, 1, {"relu"}, "C");  // loops of extent 1 are no places
  EXPECT_EQ(column.drawn(), (std::set<i64>{-1, 0}));
  EXPECT_EQ(column.adapted(1), 0);
  Places stage(8, 6, {"relu", "gelu"}, "relu");
  EXPECT_EQ(stage.drawn(), (std::set<i64>{-2, -1, 0, 1}));
  EXPECT_EQ(stage.strict(-2), "");
}

// Something for every mutator.
const char* const kTiled =
    "c = get_block(\"C\")\n"
    "y = get_block(\"relu\")\n"
    "i, j = get_loops(y)\n"
    "t0, t1, t2 = sample_perfect_tile(i, 3, max_innermost = 8)\n"
    "i0, i1, i2 = split(i, [t0, t1, t2])\n"
    "u0, u1 = sample_tile(j, 2)\n"
    "j0, j1 = split(j, [u0, u1])\n"
    "v0, v1 = sample_partitioned_tile(j0, 2, 1, 1)\n"
    "reorder([i0, j0, i1, i2, j1])\n"
    "parallel(i0)\n"
    "o0, o1 = sample_permutation([i1, i2])\n"
    "reorder([o0, o1])\n"
    "n = sample_categorical([0, 16, 64])\n"
    "annotate(y, \"unroll\", n)\n"
    "at = sample_compute_location(c)\n"
    "compute_at(c, at, 1)\n";

TEST(Mutators, GiveDecisionsThatReplay) {
  OwnedProgram program = matmul(24, 20, 8, {"relu"});
  Trace trace = parsed_schedule(kTiled);
  JointPrior prior(trace);
  Rng rng(8);
  for (const Mutator& mutator : mutators()) {
    int applied = 0;
    for (int i = 0; i < 300; ++i) {
      std::vector<Decision> before(trace.sample_count());
      ASSERT_EQ(replayed(program.program, trace, before, ReplayMode::Strict, &rng), "");
      std::vector<Decision> after = before;
      if (!mutator.mutate(trace, prior, after, rng)) {
        ASSERT_EQ(after, before) << mutator.name << " changed something and said that it did not";
        continue;
      }
      ++applied;
      ASSERT_NE(after, before) << mutator.name;
      ASSERT_EQ(replayed(program.program, trace, after, ReplayMode::Adapt, &rng), "") << mutator.name;
      ASSERT_EQ(replayed(program.program, trace, after, ReplayMode::Strict, nullptr), "")
          << mutator.name << ": adapted decisions are not legal";
    }
    EXPECT_GT(applied, 100) << mutator.name;
  }
}

TEST(Mutators, AreTriedAsOftenAsTheirWeightsSay) {
  OwnedProgram program = matmul(24, 20, 8, {"relu"});
  Trace trace = parsed_schedule(kTiled);
  JointPrior prior(trace);
  Rng rng(20);
  std::vector<Decision> before(trace.sample_count());
  ASSERT_EQ(replayed(program.program, trace, before, ReplayMode::Strict, &rng), "");
  std::vector<double> changed(before.size());
  const int mutations = 4000;
  for (int i = 0; i < mutations; ++i) {
    std::vector<Decision> after = before;
    ASSERT_TRUE(mutate(trace, prior, after, rng));
    for (std::size_t sample = 0; sample < after.size(); ++sample) changed[sample] += !(after[sample] == before[sample]);
  }
  // Samples: three tiles, an order, a categorical that says how far to unroll, a place. Weights together: 1.05.
  EXPECT_NEAR((changed[0] + changed[1] + changed[2]) / mutations, (0.5 + 0.02) / 1.05, 0.04);
  EXPECT_NEAR(changed[3] / mutations, 0.05 / 1.05, 0.02);
  EXPECT_NEAR(changed[4] / mutations, (0.4 + 0.03) / 1.05, 0.04);
  EXPECT_NEAR(changed[5] / mutations, 0.05 / 1.05, 0.02);
}

// What the reference's space draws: a tile, how far to unroll, a place.
const char* const kAsReference =
    "c = get_block(\"C\")\n"
    "y = get_block(\"relu\")\n"
    "i, j = get_loops(y)\n"
    "t0, t1, t2 = sample_perfect_tile(i, 3, max_innermost = 8)\n"
    "i0, i1, i2 = split(i, [t0, t1, t2])\n"
    "n = sample_categorical([0, 16, 64])\n"
    "annotate(y, \"unroll\", n)\n"
    "at = sample_compute_location(c)\n"
    "compute_at(c, at, 1)\n";

// How often each sample changes; the last number is that of tries that change nothing.
std::vector<double> changed_as_reference(const Trace& trace, int tries) {
  OwnedProgram program = matmul(24, 20, 8, {"relu"});
  JointPrior prior(trace);
  Rng rng(21);
  std::vector<Decision> before(trace.sample_count());
  EXPECT_EQ(replayed(program.program, trace, before, ReplayMode::Strict, &rng), "");
  std::vector<double> changed(before.size() + 1);
  for (int i = 0; i < tries; ++i) {
    std::vector<Decision> after = before;
    if (!mutate_as_reference(trace, prior, after, rng)) {
      changed.back() += 1.0 / tries;
      continue;
    }
    for (std::size_t sample = 0; sample < after.size(); ++sample)
      changed[sample] += after[sample] == before[sample] ? 0 : 1.0 / tries;
  }
  return changed;
}

TEST(Mutators, OfTheReferenceHaveItsProbabilities) {
  std::vector<double> changed = changed_as_reference(parsed_schedule(kAsReference), 8000);
  EXPECT_NEAR(changed[0], 0.9, 0.02) << "the tile";
  EXPECT_NEAR(changed[1], 0.03, 0.01) << "how far to unroll";
  EXPECT_NEAR(changed[2], 0.05, 0.012) << "the place";
  EXPECT_NEAR(changed[3], 0.02, 0.01) << "tries that found nothing";
  // An order of loops is nothing that the reference draws: it changes as in any other strategy.
  EXPECT_NEAR(changed_as_reference(parsed_schedule(kTiled), 4000)[3], 0.05 / 1.05, 0.02);
}

const Mutator& mutator_named(const std::string& name) {
  for (const Mutator& mutator : mutators()) {
    if (mutator.name == name) return mutator;
  }
  ADD_FAILURE() << "no mutator " << name;
  return mutators()[0];
}

TEST(Mutators, UnrollChangesOnlyWhatIsUnrolled) {
  Trace trace = parsed_schedule(
      "c = get_block(\"C\")\nm = sample_categorical([1, 2, 3])\nrequire(m <= 3)\nn = sample_categorical([0, 16, "
      "64])\nannotate(c, \"unroll\", n)\n");
  JointPrior prior(trace);
  Rng rng(21);
  for (int i = 0; i < 100; ++i) {
    std::vector<Decision> before{Decision::of(1), Decision::of(1)}, after = before;
    ASSERT_TRUE(mutator_named("mutate_unroll").mutate(trace, prior, after, rng));
    EXPECT_EQ(after[0], before[0]);
    EXPECT_NE(after[1], before[1]);
  }
}

TEST(Mutators, ParallelNeedsAParallelLoop) {
  std::string tiles =
      "c = get_block(\"C\")\ni, j, k = get_loops(c)\nt0, t1 = sample_tile(i, 2)\ni0, i1 = split(i, [t0, t1])\n";
  Trace serial = parsed_schedule(tiles), parallel = parsed_schedule(tiles + "parallel(i0)\n");
  Rng rng(22);
  int changed = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<Decision> decisions{decision_of({4, 6})};
    EXPECT_FALSE(mutator_named("mutate_parallel").mutate(serial, JointPrior(serial), decisions, rng));
    changed += mutator_named("mutate_parallel").mutate(parallel, JointPrior(parallel), decisions, rng);
  }
  EXPECT_GT(changed, 50);
}

// A moved factor keeps the product, the limit of the innermost tile and the inner part.
TEST(Mutators, MovedFactorsKeepWhatTheSamplePromises) {
  OwnedProgram program = matmul(48, 4, 4);
  Trace perfect = parsed_schedule(
      "b = get_block(\"C\")\ni, j, k = get_loops(b)\nt0, t1, t2 = sample_perfect_tile(i, 3, max_innermost = 4)\n");
  Trace partitioned = parsed_schedule(
      "b = get_block(\"C\")\ni, j, k = get_loops(b)\nt0, t1, t2 = sample_partitioned_tile(i, 3, 1, 8)\n");
  Rng rng(23);
  for (int i = 0; i < 500; ++i) {
    for (const Trace* trace : {&perfect, &partitioned}) {
      JointPrior prior(*trace);
      std::vector<Decision> decisions(1);
      ASSERT_EQ(replayed(program.program, *trace, decisions, ReplayMode::Strict, &rng), "");
      if (!mutator_named("mutate_tile_size").mutate(*trace, prior, decisions, rng)) continue;
      const i64* tile = decisions[0].values;
      EXPECT_EQ(tile[0] * tile[1] * tile[2], 48);
      EXPECT_TRUE(trace == &perfect ? tile[2] <= 4 : tile[1] * tile[2] % 8 == 0)
          << tile[0] << " " << tile[1] << " " << tile[2];
    }
  }
}

TEST(Mutators, LeaveATraceWithoutSamplesAlone) {
  Trace trace =
      parsed_schedule("c = get_block(\"C\")\ni, j, k = get_loops(c)\ni0, i1 = split(i, [_, 4])\nparallel(i0)\n");
  JointPrior prior(trace);
  Rng rng(9);
  std::vector<Decision> decisions;
  for (const Mutator& mutator : mutators()) EXPECT_FALSE(mutator.mutate(trace, prior, decisions, rng)) << mutator.name;
  EXPECT_FALSE(mutate(trace, prior, decisions, rng));
}

}  // namespace
}  // namespace tw
