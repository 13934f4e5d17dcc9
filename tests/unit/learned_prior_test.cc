// Draws that go by what good programs decided.
#include "sampler/strategies/learned_prior.h"

#include <cmath>
#include <set>

#include "sampler/strategies/evolutionary.h"
#include "tests/unit/strategies_kit.h"

namespace tw {
namespace {

std::vector<Candidate> some(const CandidateSpace& space, int wanted, u64 seed) {
  CandidateBuilder builder(space);
  std::vector<Candidate> out;
  Rng rng(seed);
  for (int i = 0; i < 1000 && static_cast<int>(out.size()) < wanted; ++i) {
    Candidate candidate;
    int sketch = static_cast<int>(rng.below(static_cast<i64>(space.space.sketches.size())));
    if (builder.draw(sketch, candidate, rng) && builder.build(candidate, &rng)) out.push_back(candidate);
  }
  return out;
}

// A share of the decisions that two candidates of a sketch have in common.
double alike(const Candidate& a, const Candidate& b) {
  double same = 0;
  for (std::size_t i = 0; i < a.decisions.size(); ++i) same += a.decisions[i] == b.decisions[i];
  return same / static_cast<double>(a.decisions.size());
}

class LearnedPriorOf : public testing::TestWithParam<const char*> {};

// Draws are nearer to the good program than those of the rules' prior, each is valid, and every decision that the
// rules' prior takes in another way is taken in other ways here, too.
TEST_P(LearnedPriorOf, OneProgram) {
  CandidateSpace space = small_space(GetParam());
  std::vector<Candidate> good = some(space, 1, 3);
  ASSERT_EQ(good.size(), 1u);
  LearnedPrior learned(good);
  CandidateBuilder builder(space);
  Rng rng(7);
  double by_learned = 0, by_rules = 0;
  int built = 0;
  constexpr int kDraws = 200;
  std::vector<std::set<std::vector<i64>>> values(good[0].decisions.size()), usual = values;
  auto note = [](std::vector<std::set<std::vector<i64>>>& to, const Candidate& from) {
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i].insert({from.decisions[i].values, from.decisions[i].values + from.decisions[i].count});
  };
  for (int i = 0; i < kDraws; ++i) {
    Candidate candidate, plain;
    ASSERT_TRUE(learned.draw(space, candidate, rng));
    EXPECT_EQ(candidate.sketch, good[0].sketch);
    EXPECT_TRUE(space.space.sketches[static_cast<std::size_t>(candidate.sketch)].prior->satisfied(candidate.decisions));
    if (builder.build(candidate, &rng)) ++built, by_learned += alike(candidate, good[0]), note(values, candidate);
    ASSERT_TRUE(builder.draw(good[0].sketch, plain, rng));
    if (builder.build(plain, &rng)) by_rules += alike(plain, good[0]) / kDraws, note(usual, plain);
  }
  EXPECT_GT(built, kDraws / 2);
  by_learned /= built;
  EXPECT_GT(by_learned, by_rules + 0.3 * (1 - by_rules)) << by_rules;
  EXPECT_LT(by_learned, 0.95);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_GE(values[i].size(), std::min<std::size_t>(usual[i].size(), 2)) << "sample " << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Spaces, LearnedPriorOf, testing::Values("dense", "softmax", "open"));

// The better a program, the more often its decisions are taken.
TEST(LearnedPrior, TheFirstCountMost) {
  CandidateSpace space = small_space("dense");
  std::vector<Candidate> good = some(space, 40, 5);
  ASSERT_EQ(good.size(), 40u);
  LearnedPrior learned(good);
  Rng rng(1);
  std::map<int, int> drawn;
  for (int i = 0; i < 2000; ++i) {
    Candidate candidate;
    ASSERT_TRUE(learned.draw(space, candidate, rng));
    ++drawn[candidate.sketch];
  }
  std::map<int, double> expected;
  double all = 0;
  for (std::size_t rank = 0; rank < LearnedPrior::kMost; ++rank) {
    expected[good[rank].sketch] += 1.0 / static_cast<double>(rank + 1);
    all += 1.0 / static_cast<double>(rank + 1);
  }
  for (const auto& [sketch, weight] : expected)
    EXPECT_NEAR(drawn[sketch], 2000 * weight / all, 4 * std::sqrt(2000 * weight / all) + 1) << "sketch " << sketch;
}

TEST(LearnedPrior, NothingLearnedDrawsNothing) {
  CandidateSpace space = small_space("softmax");
  Candidate candidate;
  Rng rng(1);
  EXPECT_FALSE(LearnedPrior({}).draw(space, candidate, rng));
}

// Without generations a round proposes its draws: they are nearer to the best program where it is learned from.
TEST(LearnedPrior, EvolutionDrawsByIt) {
  auto nearness = [](double share) {
    SearchChoice choice;
    choice.settings = {{"generations", 0}, {"measured_ratio", 0}, {"learned_draws", share}};
    Rounds rounds(small_space("dense"), choice);
    std::vector<Candidate> first = rounds.next(8);
    rounds.measure(first);
    std::vector<Candidate> best = rounds.fastest();
    rounds.next(8);
    std::vector<double> near;
    for (const Candidate& candidate : rounds.pooled)
      near.push_back(candidate.sketch == best[0].sketch ? alike(candidate, best[0]) : 0);
    double sum = 0;
    for (double each : near) sum += each / static_cast<double>(near.size());
    return sum;
  };
  EXPECT_GT(nearness(1), 1.5 * nearness(0));
  EXPECT_GT(nearness(0.5), 1.1 * nearness(0));
}

}  // namespace
}  // namespace tw
