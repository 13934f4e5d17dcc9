// The joint prior: draws have the frequencies that weights, `prefer` and `require` give, whatever the size of a group,
// and a redraw changes what it is asked to and little else.
#include "sampler/draw/joint_prior.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "dsl/analysis/affine.h"
#include "dsl/base/text.h"
#include "sampler/space/candidate.h"
#include "support/drawn_kernels.h"
#include "support/parsed.h"
#include "support/scheduled.h"

namespace tw {
namespace {

using test::parsed_schedule;

// Number each sample has in a decision list; samples are categorical.
std::vector<i64> indices_of(const std::vector<Decision>& decisions) {
  std::vector<i64> out;
  for (const Decision& decision : decisions) out.push_back(decision.values[0]);
  return out;
}

constexpr const char* kSmallGroup = R"(a = sample_categorical([1, 2, 4, 8], [4, 3, 2, 1])
b = sample_categorical([1, 2, 4, 8])
c = sample_categorical([1, 2, 3])
require(a * b <= 16)
require(a != b)
require(b + c != 3)
prefer(a * c)
)";
constexpr std::size_t kSmallSamples = 3;

// Every valid assignment of the small group with its probability, by trying all.
std::map<std::vector<i64>, double> small_prior() {
  const i64 powers[] = {1, 2, 4, 8}, weights[] = {4, 3, 2, 1};
  std::map<std::vector<i64>, double> out;
  double sum = 0;
  for (i64 i = 0; i < 4; ++i) {
    for (i64 j = 0; j < 4; ++j) {
      for (i64 k = 0; k < 3; ++k) {
        i64 a = powers[i], b = powers[j], c = k + 1;
        if (a * b > 16 || a == b || b + c == 3) continue;
        sum += out[{i, j, k}] = static_cast<double>(weights[i] * a * c);
      }
    }
  }
  for (auto& [assignment, weight] : out) weight /= sum;
  return out;
}

// By the table, and by rejection, which a limit of no steps leaves.
class Frequencies : public testing::TestWithParam<i64> {};
INSTANTIATE_TEST_SUITE_P(JointPrior, Frequencies, testing::Values(JointPrior::kMaxSteps, i64{0}));

TEST_P(Frequencies, AreThoseOfWeightsPreferencesAndConditions) {
  JointPrior prior(parsed_schedule(kSmallGroup), {}, GetParam());
  std::map<std::vector<i64>, double> expected = small_prior();
  std::map<std::vector<i64>, int> seen;
  constexpr int kDraws = 40000;
  Rng rng(3);
  for (int i = 0; i < kDraws; ++i) {
    std::vector<Decision> decisions(kSmallSamples);
    ASSERT_TRUE(prior.draw(decisions, rng));
    ++seen[indices_of(decisions)];
  }
  ASSERT_EQ(seen.size(), expected.size());
  double chi_squared = 0;
  for (const auto& [assignment, probability] : expected) {
    double mean = kDraws * probability;
    chi_squared += (seen[assignment] - mean) * (seen[assignment] - mean) / mean;
  }
  auto freedom = static_cast<double>(expected.size() - 1);
  EXPECT_LT(chi_squared, freedom + 4 * std::sqrt(2 * freedom));
}

TEST_P(Frequencies, RedrawsReachEveryValidAssignmentAndNoOther) {
  JointPrior prior(parsed_schedule(kSmallGroup), {}, GetParam());
  std::map<std::vector<i64>, double> expected = small_prior();
  std::set<std::vector<i64>> seen;
  Rng rng(4);
  std::vector<Decision> decisions(kSmallSamples);
  ASSERT_TRUE(prior.draw(decisions, rng));
  for (int i = 0; i < 3000; ++i) {
    auto sample = static_cast<std::size_t>(rng.below(kSmallSamples));
    i64 before = decisions[sample].values[0];
    if (!prior.redraw(sample, decisions, rng)) continue;
    EXPECT_NE(decisions[sample].values[0], before);
    ASSERT_TRUE(expected.count(indices_of(decisions))) << join(indices_of(decisions), " ");
    seen.insert(indices_of(decisions));
  }
  EXPECT_EQ(seen.size(), expected.size());
}

// 4^12 combinations, 16 million: a chain of conditions on neighbours. How often the first sample has each value follows
// from products of matrices of 4 x 4.
TEST(JointPrior, ALargeGroupHasItsPrior) {
  constexpr int kSamples = 12;
  std::string text;
  for (int i = 0; i < kSamples; ++i) text += cat("v", i, " = sample_categorical([1, 2, 4, 8], [1, 2, 3, 4])\n");
  for (int i = 0; i + 1 < kSamples; ++i)
    text += cat("require(v", i, " * v", i + 1, " <= 16)\nprefer(v", i, " + v", i + 1, ")\n");
  JointPrior prior(parsed_schedule(text));
  const double powers[] = {1, 2, 4, 8};
  double rest[4] = {1, 2, 3, 4};  // weight of all that follows a value, its own included
  for (int i = 0; i + 1 < kSamples; ++i) {
    double next[4] = {0, 0, 0, 0};
    for (int a = 0; a < 4; ++a) {
      for (int b = 0; b < 4; ++b)
        next[a] += powers[a] * powers[b] <= 16 ? (a + 1) * (powers[a] + powers[b]) * rest[b] : 0;
    }
    std::copy(next, next + 4, rest);
  }
  constexpr int kDraws = 20000;
  int seen[4] = {0, 0, 0, 0};
  Rng rng(5);
  for (int i = 0; i < kDraws; ++i) {
    std::vector<Decision> decisions(kSamples);
    ASSERT_TRUE(prior.draw(decisions, rng));
    ASSERT_TRUE(prior.satisfied(decisions));
    ++seen[decisions[0].values[0]];
  }
  double all = rest[0] + rest[1] + rest[2] + rest[3];
  for (int a = 0; a < 4; ++a) {
    double p = rest[a] / all;
    EXPECT_NEAR(seen[a], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << "value " << powers[a];
  }
}

Target opencl_target() {
  Target target = test::cuda_target();
  target.kind = TargetKind::OpenCl;
  return target;
}

struct SetCase {
  std::string set;
  Target target;
};

std::vector<SetCase> sets_with_targets(const rules::Library& library) {
  std::vector<SetCase> cases;
  for (const std::string& set : library.set_names()) {
    bool is_cuda = set.find("cuda") != std::string::npos || set.find("gpu") != std::string::npos;
    cases.push_back({set, is_cuda                                   ? test::cuda_target()
                          : set.find("opencl") != std::string::npos ? opencl_target()
                                                                    : host_target()});
  }
  return cases;
}

const char* const kWorkloads[] = {"matmul(M = 512, N = 512, K = 512)", "matmul(M = 512, N = 512, K = 512, T = f16)",
                                  "dense(M = 100, N = 300, K = 70, T = bf16)",
                                  "conv2d(N = 1, H = 14, W = 14, CI = 64, CO = 64, K = 3, padding = 1)",
                                  "softmax(M = 64, N = 512)"};

// visit(space, sketch, name of set and workload) for each sketch of each set on its target.
template <class Visit>
void for_each_sketch(Visit visit) {
  const rules::Library library = rules::Library::built_in();
  for (const auto& [set, target] : sets_with_targets(library)) {
    for (const char* use : kWorkloads) {
      test::Scheduled plain(use, {}, "");
      std::string errors;
      CandidateSpace space = make_candidate_space(plain.program(), *library.find_set(set), library, target, errors);
      ASSERT_EQ(errors, "");
      for (const Sketch& sketch : space.space.sketches) visit(space, sketch, cat(set, " ", use));
    }
  }
}

// What is drawn without a replay is what a replay accepts as it stands, and what is fitted is what a replay in adapting
// mode makes of it.
TEST(JointPrior, TilesAreDrawnAndFittedAsReplayDoes) {
  i64 drawn = 0, fitted = 0;
  for_each_sketch([&](const CandidateSpace& space, const Sketch& sketch, const std::string& what) {
    Rng rng(8);
    // Up to the last sample. What a condition refuses there, fit() refuses, too.
    auto replayed = [&](std::vector<Decision> given) {
      Arena arena;
      State state(arena, space.base);
      Status status = replay(sketch.trace, state, given, ReplayMode::Adapt, &rng, 0, sketch.decided);
      EXPECT_TRUE(status || std::string_view(status.rejected().instruction) != "require" || !sketch.prior->fit(given))
          << what;
      return given;
    };
    for (int draw = 0; draw < 4; ++draw) {
      std::vector<Decision> decisions(sketch.trace.sample_count());
      ASSERT_TRUE(sketch.prior->draw(decisions, rng)) << what;
      std::vector<Decision> after = replayed(decisions);
      for (std::size_t sample = 0; sample < decisions.size(); ++sample) {
        if (decisions[sample].open()) continue;
        EXPECT_EQ(after[sample], decisions[sample]) << what << ", sample " << sample;
        drawn += sketch.prior->draws_tile(sample);
      }
      std::vector<Decision> wrong = after;
      for (std::size_t sample = 0; sample < wrong.size(); ++sample) {
        if (!sketch.prior->draws_tile(sample)) continue;
        for (int part = 0; part < wrong[sample].count; ++part) wrong[sample].values[part] = 1 + rng.below(70);
      }
      std::vector<Decision> by_fit = wrong;
      if (wrong == after || !sketch.prior->fit(by_fit)) continue;
      std::vector<Decision> by_replay = replayed(wrong);
      for (std::size_t sample = 0; sample < wrong.size(); ++sample) {
        if (!sketch.prior->draws_tile(sample)) continue;
        EXPECT_EQ(by_fit[sample], by_replay[sample]) << what << ", sample " << sample;
        ++fitted;
      }
    }
  });
  EXPECT_GT(drawn, 1000);
  EXPECT_GT(fitted, 1000);
}

// Are there two serial loops directly inside each other that count up one iter as a single loop would?
bool has_a_needless_split(const Program& program) {
  bool found = false;
  for_each<Block>(program.body, [&](const Block* block) {
    Arena arena;
    Path path = *State(arena, program).path_to(block->id);
    std::vector<const For*> loops;
    for (int i = 0; i < path.size(); ++i) {
      const For* loop = as<For>(path[i]);
      if (loop && loop->extent > 1) loops.push_back(loop);
    }
    for (std::size_t i = 0; i + 1 < loops.size(); ++i) {
      if (loops[i]->loop_kind != LoopKind::Serial || loops[i + 1]->loop_kind != LoopKind::Serial) continue;
      for (const Expr* binding : block->bindings) {
        std::optional<LinearForm> form = linear_form(binding);
        i64 outer = form ? form->coefficient(loops[i]->var) : 0,
            inner = form ? form->coefficient(loops[i + 1]->var) : 0;
        found |= outer != 0 && outer == inner * loops[i + 1]->extent;
      }
    }
  });
  return found;
}

// Different decisions of the main rule for products give different programs: a search does not build one twice. Nor
// does it cut a loop for nothing, where no threads share the outer one.
TEST(JointPrior, RegisterTilingDrawsEachOrderOfLoopsOnce) {
  const rules::Library library = rules::Library::built_in();
  Rng shapes(17);
  auto size = [&] { return 1 + shapes.below(40) * (1 + shapes.below(8)); };
  int programs = 0, decisions = 0, needless = 0;
  for (int workload = 0; workload < 24; ++workload) {
    std::string use = workload % 2 ? cat("matmul(M = ", size(), ", N = ", size(), ", K = ", size(), ")")
                                   : cat("conv2d(N = 1, H = ", 3 + shapes.below(40), ", W = ", 3 + shapes.below(40),
                                         ", CI = ", size(), ", CO = ", size(), ", K = 3)");
    test::Scheduled plain(use, {}, "");
    Target target = host_target();
    target.vector_bits = workload % 4 < 2 ? 512 : 256;
    target.threads = 1 + workload % 3;
    std::string errors;
    CandidateSpace space = make_candidate_space(plain.program(), *library.find_set("cpu"), library, target, errors);
    CandidateBuilder builder(space);
    std::unordered_set<u64> keys;
    HashSet different;
    Rng rng(18);
    for (int draw = 0; draw < 400; ++draw) {
      Candidate candidate;
      if (!builder.draw(draw % static_cast<int>(space.space.sketches.size()), candidate, rng) ||
          !keys.insert(decision_key(candidate)).second)
        continue;
      Result<Program> program = builder.build(candidate, &rng);
      if (!program) continue;
      different.insert(candidate.program);
      ++decisions;
      needless += target.threads == 1 && has_a_needless_split(*program);
    }
    programs += static_cast<int>(different.size());
  }
  EXPECT_GT(decisions, 5000);
  EXPECT_GE(programs, decisions * 0.97);
  EXPECT_EQ(needless, 0);
}

// Each sketch of each set is drawn and changed, also where conditions tie nearly a million combinations (warp_mma,
// warp_tiling).
TEST(JointPrior, AMutantKeepsMostDecisionsInEverySketchOfEverySet) {
  i64 changes = 0;
  for_each_sketch([&](const CandidateSpace&, const Sketch& sketch, const std::string& what) {
    std::size_t samples = sketch.trace.sample_count();
    Rng rng(6);
    for (int draw = 0; draw < 5; ++draw) {
      std::vector<Decision> decisions(samples);
      ASSERT_TRUE(sketch.prior->draw(decisions, rng)) << what;
      ASSERT_TRUE(sketch.prior->satisfied(decisions));
      for (std::size_t sample = 0; sample < samples; ++sample) {
        if (sketch.prior->candidates(sample).size() < 2) continue;
        std::vector<Decision> mutant = decisions;
        if (!sketch.prior->redraw(sample, mutant, rng)) continue;
        std::size_t changed = 0;
        for (std::size_t i = 0; i < samples; ++i) changed += !(mutant[i] == decisions[i]);
        EXPECT_FALSE(mutant[sample] == decisions[sample]);
        EXPECT_TRUE(sketch.prior->satisfied(mutant));
        EXPECT_LE(changed, (samples + 1) / 2) << what << ": sample " << sample << " of " << samples;
        ++changes;
      }
    }
  });
  EXPECT_GT(changes, 1000);
}

}  // namespace
}  // namespace tw
