// The kernel that is chosen without a measurement.
#include "sampler/search/first_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "dsl/base/text.h"
#include "sampler/strategies/evolutionary.h"
#include "tests/support/parsed.h"
#include "tests/unit/search_kit.h"

namespace tw {
namespace {

// A product on 16 registers of 8 elements: tiles of up to 24 vectors, which lowering refuses from 16 on.
constexpr const char* kRules = R"(
rule tiles(b: block) when is_reduction(b) {
  i, j, k = loops(b)
  r ~ [1, 2, 3, 4, 6]; v ~ [8, 16, 32]; u ~ [1, 2, 4, 8]
  i0, i1 = split(i, [_, r]); j0, j1 = split(j, [_, v]); k0, k1 = split(k, [_, u])
  either { reorder([i0, j0, k0, k1, i1, j1]) } or { reorder([j0, i0, k0, k1, i1, j1]) }
  promote(b, 0, k0); unroll(k1); unroll(i1); vectorize(j1)
}
rules tiled { tiles }
)";

class FirstKernel : public testing::Test {
 protected:
  static CandidateSpace space_of(rules::Library& library, const TuneTask& task) {
    auto text = std::make_shared<Source>(Source{"my.tw", kRules});
    Diagnostics wrong(*text);
    EXPECT_TRUE(library.add(rules::parse_module(text, wrong), wrong)) << wrong.render();
    std::string errors;
    CandidateSpace space =
        make_candidate_space(task.program.program, *library.find_set("tiled"), library, task.target, errors);
    EXPECT_EQ(errors, "");
    return space;
  }
  std::vector<Candidate> drafts() {
    KnownCandidates known;
    SearchStats stats;
    HashSet measured;
    Rng rng(3);
    RoundOptions how;
    Round round{space_, {}, measured, {}, nullptr, {}, 1, rng, known, stats, how};
    return best_drafts(round, {});
  }
  Hash128 chosen(const std::vector<Candidate>& drafts, const Target& target, int threads) const {
    return choose_first_kernel(space_, drafts, target, threads, {})->program;
  }
  double seconds_by_code(Candidate candidate) const {
    CandidateBuilder builder(space_);
    Result<Program> program = builder.build(candidate, nullptr);
    EXPECT_TRUE(program);
    Arena arena;
    Result<LoweredProgram> lowered = lower(arena, *program, lowering_options(task_.target));
    if (!lowered) return std::numeric_limits<double>::infinity();
    Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(task_.target));
    return DraftModel(space_.feature_target).sum(*program).seconds_with(*compiler->cycles(*lowered, "kernel"));
  }
  double issued(Candidate candidate) const {
    CandidateBuilder builder(space_);
    Result<Program> program = builder.build(candidate, nullptr);
    EXPECT_TRUE(program);
    return DraftModel(space_.feature_target).sum(*program).issued();
  }
  // A draw that lowering refuses.
  Candidate uncompilable() const {
    CandidateBuilder builder(space_);
    Rng rng(1);
    for (int i = 0; i < 5000; ++i) {
      Candidate candidate;
      int sketch = i % static_cast<int>(space_.space.sketches.size());
      if (!builder.draw(sketch, candidate, rng)) continue;
      Result<Program> program = builder.build(candidate, &rng);
      Arena arena;
      if (program && !can_be_lowered(arena, *program, task_.target)) return candidate;
    }
    ADD_FAILURE() << "every draw can be lowered";
    return {};
  }

  rules::Library library_ = rules::Library::built_in();
  static TuneTask task() {
    TuneTask made = task_of("dense", {{"M", i64{96}}, {"N", i64{192}}, {"K", i64{120}}});
    made.target = test::parsed_target("cpu -mcpu=rocketlake -threads=1");  // the same code on every machine
    made.target.vector_bits = 256, made.target.vector_registers = 16;
    return made;
  }
  TuneTask task_ = task();
  CandidateSpace space_ = space_of(library_, task_);
};

TEST_F(FirstKernel, DraftsComeFastestFirstAndEachOnce) {
  std::vector<Candidate> best = drafts();
  ASSERT_GT(best.size(), kCompiledDrafts);
  HashSet programs;
  for (std::size_t i = 0; i < best.size(); ++i) {
    EXPECT_TRUE(programs.insert(best[i].program).second);
    EXPECT_LE(best[i == 0 ? 0 : i - 1].draft, best[i].draft);
  }
  CandidateBuilder builder(space_);
  Rng rng(99);
  for (int i = 0; i < 200; ++i) {
    Candidate drawn;
    int sketch = i % static_cast<int>(space_.space.sketches.size());
    if (!builder.draw(sketch, drawn, rng) || !builder.build(drawn, &rng)) continue;
    EXPECT_LE(best[0].draft, drawn.draft);
  }
}

TEST_F(FirstKernel, HasTheFewestCyclesOfTheBestDraftsOfDifferentBodies) {
  std::vector<Candidate> best = drafts(), different;
  std::set<double> bodies;
  for (const Candidate& draft : best) {
    if (different.size() < kCompiledDrafts && bodies.insert(std::round(issued(draft))).second)
      different.push_back(draft);
  }
  auto is_faster = [&](const Candidate& a, const Candidate& b) { return seconds_by_code(a) < seconds_by_code(b); };
  const auto [fastest, slowest] = std::minmax_element(different.begin(), different.end(), is_faster);
  EXPECT_NE(fastest->program, best[0].program) << "the draft model alone chooses another one";
  EXPECT_LT(seconds_by_code(*fastest), 0.9 * seconds_by_code(*slowest)) << "code tells them apart";
  EXPECT_EQ(chosen(best, task_.target, 1), fastest->program);
  EXPECT_EQ(chosen(best, task_.target, 2), fastest->program) << "threads do not matter";
}

// Sums unrolled by other numbers issue the same, and to the draft model they are the same.
TEST_F(FirstKernel, TriesOtherUnrollingsOfTheBestBodies) {
  std::vector<Candidate> best = drafts(), alike;
  for (const Candidate& draft : best) {
    bool is_alike = std::abs(issued(draft) / issued(best[0]) - 1) < 1e-9 && draft.draft < 1.005 * best[0].draft;
    if (is_alike && alike.size() < 24) alike.push_back(draft);
  }
  std::vector<std::pair<double, Candidate>> rated;
  for (const Candidate& draft : alike) rated.push_back({seconds_by_code(draft), draft});
  std::sort(rated.begin(), rated.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  ASSERT_GT(rated.front().first, 1.02 * rated.back().first) << "code tells them apart";
  std::vector<Candidate> slowest_first;
  for (const auto& [seconds, draft] : rated) slowest_first.push_back(draft);
  std::optional<Candidate> chosen = choose_first_kernel(space_, slowest_first, task_.target, 1, {});
  ASSERT_TRUE(chosen);
  EXPECT_LT(seconds_by_code(*chosen), 1.01 * rated.back().first);
}

// A preferred program is taken where it is hardly slower, and only there.
TEST_F(FirstKernel, IsAPreferredOneIfThatIsAsFast) {
  std::vector<Candidate> best = drafts();
  auto with = [&](const std::set<Hash128>& preferred) {
    return *choose_first_kernel(space_, best, task_.target, 1, {},
                                [&](const Program& program) { return preferred.contains(normalized_hash(program)); });
  };
  Candidate fastest = with({});
  EXPECT_EQ(fastest.program, chosen(best, task_.target, 1));
  double seconds = seconds_by_code(fastest);
  int taken = 0, left = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(best.size(), 40); ++i) {
    double ratio = seconds_by_code(best[i]) / seconds;
    bool is_taken = with({best[i].program}).program == best[i].program;
    EXPECT_EQ(is_taken, ratio <= kPreferredSlower) << ratio;
    (is_taken ? taken : left) += 1;
  }
  EXPECT_GT(taken, 1);
  EXPECT_GT(left, 1);
}

TEST_F(FirstKernel, CompilesIfAnyDraftDoes) {
  Candidate refused = uncompilable(), other = drafts()[0];
  EXPECT_EQ(chosen({refused, other}, task_.target, 1), other.program);
  EXPECT_EQ(chosen({refused}, task_.target, 1), refused.program);
  EXPECT_FALSE(choose_first_kernel(space_, {}, task_.target, 1, {}));
}

TEST_F(FirstKernel, OfADeviceIsTheFirstDraft) {
  Target device = task_.target;
  device.kind = TargetKind::OpenCl;
  std::vector<Candidate> best = drafts();
  std::reverse(best.begin(), best.end());
  EXPECT_EQ(chosen(best, device, 1), best[0].program);
}

}  // namespace
}  // namespace tw
