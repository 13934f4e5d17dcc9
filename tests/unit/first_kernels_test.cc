// The kernels that are chosen without a measurement.
#include "sampler/search/first_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "dsl/base/text.h"
#include "sampler/strategies/evolutionary.h"
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

class FirstKernels : public testing::Test {
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
  static std::vector<Hash128> programs_of(const std::vector<Candidate>& candidates) {
    std::vector<Hash128> programs;
    for (const Candidate& candidate : candidates) programs.push_back(candidate.program);
    return programs;
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
  TuneTask task_ = task_of("dense", {{"M", i64{96}}, {"N", i64{192}}, {"K", i64{120}}});
  CandidateSpace space_ = space_of(library_, task_);
};

TEST_F(FirstKernels, DraftsComeFastestFirstAndEachOnce) {
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

TEST_F(FirstKernels, AreOfDifferentBodiesWithTheFewestCyclesFirst) {
  std::vector<Candidate> best = drafts(), ordered = ordered_by_code(space_, best, task_.target, 1, {});
  ASSERT_GT(ordered.size(), 2u);
  EXPECT_LE(ordered.size(), kCompiledDrafts);
  std::set<double> bodies;
  std::vector<double> seconds;
  for (const Candidate& candidate : ordered) {
    EXPECT_TRUE(bodies.insert(std::round(issued(candidate))).second) << "a body that is there already";
    seconds.push_back(seconds_by_code(candidate));
  }
  EXPECT_TRUE(std::is_sorted(seconds.begin(), seconds.end()));
  EXPECT_LT(seconds.front(), 0.9 * seconds.back()) << "code tells them apart";
  std::vector<Hash128> programs = programs_of(ordered);
  bool has_best = std::find(programs.begin(), programs.end(), best[0].program) != programs.end();
  EXPECT_TRUE(has_best || std::isinf(seconds_by_code(best[0])));
  EXPECT_EQ(programs_of(ordered_by_code(space_, best, task_.target, 2, {})), programs) << "threads do not matter";
}

TEST_F(FirstKernels, CompileIfAnyDraftDoes) {
  Candidate refused = uncompilable(), other = drafts()[0];
  EXPECT_EQ(programs_of(ordered_by_code(space_, {refused, other}, task_.target, 1, {})), programs_of({other}));
  EXPECT_EQ(programs_of(ordered_by_code(space_, {refused}, task_.target, 1, {})), programs_of({refused}));
  EXPECT_TRUE(ordered_by_code(space_, {}, task_.target, 1, {}).empty());
}

TEST_F(FirstKernels, OfDevicesAreTheDraftsAsTheyAre) {
  Target device = task_.target;
  device.kind = TargetKind::OpenCl;
  std::vector<Candidate> best = drafts();
  std::reverse(best.begin(), best.end());
  EXPECT_EQ(programs_of(ordered_by_code(space_, best, device, 1, {})), programs_of(best));
}

}  // namespace
}  // namespace tw
