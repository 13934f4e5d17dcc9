// Spaces whose forks multiply: what is built beforehand, what is built when it is asked for, and that both are the same
// sketches.
#include "sampler/space/other_sketches.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "backends/meaning.h"
#include "dsl/passes/widen.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/workload.h"
#include "sampler/search/trial.h"
#include "sampler/strategies/evolutionary.h"
#include "tests/unit/transformer.h"

namespace tw {
namespace {

// Three products in a row: forks of one do not depend on those of the others.
constexpr const char* kChain = R"(
workload chain(M: int) {
  input X: f32[M, 24], W1: f32[24, 32], W2: f32[32, 40], W3: f32[40, 16]
  A[i: M, j: 32] = sum(k: 24) X[i, k] * W1[k, j]
  B[i: M, j: 40] = sum(k: 32) A[i, k] * W2[k, j]
  output C: f32[i: M, j: 16] = sum(k: 40) B[i, k] * W3[k, j]
}
)";

class OtherSketches : public testing::Test {
 protected:
  // A set of rules of its own, "s", or one of the library.
  CandidateSpace space_of(const char* workloads, const char* use, const WorkloadArguments& arguments,
                          const std::string& rules, const char* set) {
    Source source{"workload.tw", workloads};
    Diagnostics diagnostics(source);
    WorkloadModule module = parse_workloads(source, diagnostics);
    programs_.push_back(*instantiate(module, use, arguments, {}, diagnostics));
    if (!rules.empty()) {
      auto text = std::make_shared<Source>(Source{"my.tw", rules});
      Diagnostics wrong(*text);
      EXPECT_TRUE(library_.add(rules::parse_module(text, wrong), wrong)) << wrong.render();
    }
    std::string errors;
    CandidateSpace space =
        make_candidate_space(programs_.back().program, *library_.find_set(set), library_, host_target(), errors);
    EXPECT_EQ(errors, "");
    return space;
  }
  CandidateSpace transformer() {
    return space_of(test::kTransformer, "block", {{"S", i64{12}}, {"D", i64{24}}}, "", "cpu");
  }

  // `ways` ways at each reduction.
  CandidateSpace forks(int ways, const std::string& more = "") {
    std::string alternatives;
    for (int i = 1; i <= ways; ++i)
      alternatives += "or n in [" + std::to_string(i) +
                      "] { i = spatial_loops(b)[0]; split(i, [_, sample_categorical([n, 2 * n])]) } ";
    return space_of(kChain, "chain", {{"M", i64{12}}},
                    "rule fork(b: block) when is_reduction(b) { either " + alternatives.substr(3) + " }\n" + more +
                        "rules s { fork }\n",
                    "s");
  }

  rules::Library library_ = rules::Library::built_in();
  std::vector<OwnedProgram> programs_;
};

std::vector<int> taken(const Sketch& sketch) {
  std::vector<int> out;
  for (const Fork& fork : sketch.forks) out.push_back(fork.taken);
  return out;
}

Hash128 hash_of(const Sketch& sketch) {
  return sketch.trace.with_decisions(std::vector<Decision>(sketch.trace.sample_count())).hash();
}

TEST_F(OtherSketches, ASmallSpaceHasAllOfThem) {
  CandidateSpace space = forks(4);
  ASSERT_EQ(space.space.sketches.size(), 64u);
  EXPECT_TRUE(space.space.is_whole);
  std::set<std::vector<int>> all;
  for (const Sketch& sketch : space.space.sketches) all.insert(taken(sketch));
  EXPECT_EQ(all.size(), 64u);
  // Asking for others finds those that are there: one fork differs, as wanted.
  for (int s = 0; s < 64; ++s) {
    for (std::size_t fork = 0; fork < 3; ++fork) {
      for (int way = 0; way < 4; ++way) {
        int found = with_fork(space, s, fork, way);
        ASSERT_GE(found, 0);
        std::vector<int> wanted = taken(space.space.sketches[static_cast<std::size_t>(s)]);
        wanted[fork] = way;
        EXPECT_EQ(taken(space.space.sketches[static_cast<std::size_t>(found)]), wanted);
      }
    }
  }
  EXPECT_EQ(space.space.sketches.size(), 64u);
}

TEST_F(OtherSketches, OfALargeOneTheNumberIsKnownAndTheFirstWaysAreThere) {
  CandidateSpace space = forks(30);
  EXPECT_EQ(space.space.sketches.size(), static_cast<std::size_t>(kFirstSketches));
  EXPECT_FALSE(space.space.is_whole);
  EXPECT_NEAR(space.space.count, 30 * 30 * 30, 1e-6 * 27000) << "the forks do not depend on each other";
  EXPECT_EQ(taken(space.space.sketches[0]), (std::vector<int>{0, 0, 0}));
  std::set<std::vector<int>> all;
  for (const Sketch& sketch : space.space.sketches) all.insert(taken(sketch));
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kFirstSketches));
}

// A fork that is there only where another one went one way: the estimate is one, no more.
TEST_F(OtherSketches, ForksThatDependOnOthersAreCountedAboutRight) {
  CandidateSpace space = space_of(kChain, "chain", {{"M", i64{12}}},
                                  "mark wide: int \"w\"\nrule fork(b: block) when is_reduction(b) { either n in "
                                  "range(10) { annotate(b, \"wide\", n) } }\n"
                                  "rule more(b: block) when is_reduction(b) and mark(b, \"wide\") < 5 { either n in "
                                  "range(6) { annotate(b, \"wide\", 20 + n) } }\n"
                                  "rules s { fork; more }\n",
                                  "s");
  double exact = std::pow(5 * 6 + 5, 3);
  EXPECT_GT(space.space.count, exact / 3);
  EXPECT_LT(space.space.count, exact * 3);
}

// From the first sketch to any other, one fork after the other; what is built so is what rules and choices alone
// decide.
TEST_F(OtherSketches, EveryOneIsReachedAndIsTheSameFromWhereverItIsReached) {
  CandidateSpace space = forks(30);
  Rng rng(5);
  for (int n = 0; n < 20; ++n) {
    std::vector<int> wanted;
    for (int i = 0; i < 3; ++i) wanted.push_back(static_cast<int>(rng.below(30)));
    int forwards = 0, backwards = static_cast<int>(rng.below(kFirstSketches));
    for (std::size_t fork = 0; fork < 3; ++fork) {
      forwards = with_fork(space, forwards, fork, wanted[fork]);
      backwards = with_fork(space, backwards, 2 - fork, wanted[2 - fork]);
      ASSERT_GE(forwards, 0);
      ASSERT_GE(backwards, 0);
    }
    EXPECT_EQ(forwards, backwards);
    EXPECT_EQ(taken(space.space.sketches[static_cast<std::size_t>(forwards)]), wanted);
  }
}

TEST_F(OtherSketches, DecisionsStayWhereTheySay) {
  CandidateSpace space = forks(30);
  Rng rng(2);
  Candidate candidate;
  CandidateBuilder builder(space);
  ASSERT_TRUE(builder.draw(0, candidate, rng) && builder.build(candidate, &rng));
  for (std::size_t fork = 0; fork < 3; ++fork) {
    for (int way : {7, 11}) {
      Candidate other = candidate;
      int sketch = with_fork(space, 0, fork, way);
      ASSERT_TRUE(move_to_sketch(space, other, sketch, rng));
      EXPECT_EQ(other.sketch, sketch);
      EXPECT_TRUE(builder.build(other, &rng));
      // One sample for each reduction, in the order of the forks.
      for (std::size_t sample = 0; sample < 3; ++sample) {
        EXPECT_TRUE(sample == fork || other.decisions[sample] == candidate.decisions[sample]);
      }
    }
  }
}

// Three random forks away from one of the first sketches.
int random_walk(CandidateSpace& space, int sketch, Rng& rng) {
  for (int step = 0; step < 3 && sketch >= 0; ++step) {
    const Sketch& from = space.space.sketches[static_cast<std::size_t>(sketch)];
    EXPECT_GE(from.forks.size(), 8u);
    EXPECT_NE(std::find(from.rules.begin(), from.rules.end(), "register_tiling"), from.rules.end());
    auto fork = static_cast<std::size_t>(rng.below(static_cast<i64>(from.forks.size())));
    sketch = with_fork(space, sketch, fork, static_cast<int>(rng.below(from.forks[fork].count)));
  }
  return sketch;
}

// No instruction refuses a draw that its conditions allow, whatever the tile, where stages reshape what a product
// gives.
TEST_F(OtherSketches, DrawsOfATransformerBlockAreNotRefused) {
  CandidateSpace space = transformer();
  CandidateBuilder builder(space);
  Rng rng(5);
  int first = static_cast<int>(space.space.sketches.size());
  for (int n = 0; n < 60; ++n) {
    int sketch = random_walk(space, n % first, rng);
    ASSERT_GE(sketch, 0);
    Candidate candidate;
    ASSERT_TRUE(builder.draw(sketch, candidate, rng));
    Result<Program> program = builder.build(candidate, &rng);
    EXPECT_TRUE(program) << to_string(program.rejected());
  }
}

// A transformer's block with the set `cpu`: register_tiling is there, random sketches compute the right thing, and a
// stored trace is found again.
TEST_F(OtherSketches, ATransformerBlockHasASpace) {
  CandidateSpace space = transformer();
  EXPECT_GT(space.space.count, 1e4);
  // In doubles: how much a sum in another order rounds depends on the processor whose vectors the draws are for.
  Arena arena;
  Judge judge(widen_to_f64(arena, space.base), 1, 1e-9);
  CandidateBuilder builder(space);
  Rng rng(3);
  for (int n = 0; n < 4; ++n) {
    int sketch = random_walk(space, n, rng);
    ASSERT_GE(sketch, 0);
    Candidate candidate;
    ASSERT_TRUE(builder.draw(sketch, candidate, rng));
    Result<Program> program = builder.build(candidate, &rng);
    ASSERT_TRUE(program) << to_string(program.rejected());
    EXPECT_EQ(judge.difference(widen_to_f64(arena, *program)), "");
    Result<Trace> whole = full_trace(space, candidate);
    ASSERT_TRUE(whole);
    Source source{"stored.tw", whole->print()};
    Diagnostics diagnostics(source);
    std::optional<Trace> stored = parse_schedule(source, diagnostics);
    ASSERT_TRUE(stored) << diagnostics.render();
    CandidateSpace fresh = transformer();
    std::optional<Candidate> found = find_candidate(fresh, *stored);
    ASSERT_TRUE(found);
    EXPECT_EQ(hash_of(fresh.space.sketches[static_cast<std::size_t>(found->sketch)]),
              hash_of(space.space.sketches[static_cast<std::size_t>(sketch)]));
    EXPECT_EQ(found->decisions, candidate.decisions);
  }
}

// What no way of the rules leads to is not found.
TEST_F(OtherSketches, AForeignTraceIsOfNoSketch) {
  CandidateSpace space = transformer();
  std::size_t known = space.space.sketches.size();
  Trace trace = space.space.sketches[0].trace;
  std::vector<bool> most(trace.instructions().size(), true);
  std::size_t last = most.size() - 1;
  while (trace.instructions()[last].kind->pure) --last;
  most[last] = false;
  EXPECT_EQ(find_sketch(space, trace.keeping(most)), -1);
  EXPECT_EQ(space.space.sketches.size(), known);
}

// The same seed gives the same candidates, however many threads build them; forks are changed.
TEST_F(OtherSketches, TheSearchChangesForks) {
  auto search = [&](int threads, std::size_t& sketches) {
    CandidateSpace space = transformer();
    KnownCandidates known;
    SearchStats stats;
    RoundOptions how{.threads = threads};
    Evolutionary strategy(
        {.population = 16, .draws = 32, .generations = 2, .fork_probability = 0.5, .new_sketches = 4});
    Rng rng(4);
    Round round{space, {}, {}, {}, nullptr, {}, kFullBatch, rng, known, stats, how};
    std::vector<Hash128> programs;
    for (const Candidate& candidate : strategy.propose(round)) programs.push_back(candidate.program);
    sketches = space.space.sketches.size();
    return programs;
  };
  std::size_t once = 0, again = 0;
  std::vector<Hash128> programs = search(1, once);
  EXPECT_EQ(programs, search(3, again));
  EXPECT_FALSE(programs.empty());
  EXPECT_GT(once, static_cast<std::size_t>(kFirstSketches));
  EXPECT_LE(once, static_cast<std::size_t>(kFirstSketches) + 8);
  EXPECT_EQ(once, again);
}

}  // namespace
}  // namespace tw
