// Replaying from a shared prefix gives what replaying from the start gives.
#include "sampler/draw/prefix_replay.h"

#include <gtest/gtest.h>

#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "dsl/text/workload.h"
#include "sampler/draw/mutator.h"
#include "sampler/space/space.h"

namespace tw {
namespace {

struct Outcome {
  std::string reject;
  std::vector<Decision> decisions;
  Hash128 program;
  bool operator==(const Outcome&) const = default;
};

Outcome from_the_start(const Trace& trace, const Program& base, std::vector<Decision> decisions, u64 seed,
                       std::size_t last) {
  Arena arena;
  State state(arena, base);
  Rng rng(seed, 0);
  Status status = replay(trace, state, decisions, ReplayMode::Adapt, &rng, 0, last);
  return {status ? "" : to_string(status.rejected()), decisions, structural_hash(state.program())};
}

// Random walks: the next candidate is a draw, a mutant of the last one, the same again, one with an illegal decision,
// or one of which some decisions are open.
void walk(const Sketch& sketch, const Program& base, u64 seed, int& shared) {
  Arena arena;
  PrefixReplay replayer(arena, base);
  Rng rng(seed, 1);
  std::vector<Decision> decisions(sketch.trace.sample_count()), before;
  ASSERT_TRUE(sketch.prior->draw(decisions, rng));
  for (int step = 0; step < 40; ++step) {
    switch (rng.below(5)) {
      case 0:
        decisions.assign(decisions.size(), {}), (void)sketch.prior->draw(decisions, rng);
        break;
      case 1:
      case 2:
        (void)mutate(sketch.trace, *sketch.prior, decisions, rng);
        break;
      case 3:
        if (!decisions.empty()) decisions[rng.below(static_cast<i64>(decisions.size()))] = {};
        break;
      default:
        if (!decisions.empty()) decisions.back().values[0] += 1;
    }
    std::size_t last =
        rng.below(3) == 0
            ? static_cast<std::size_t>(rng.below(static_cast<i64>(sketch.trace.instructions().size() + 1)))
            : SIZE_MAX;
    std::vector<Decision> mine = decisions;
    Rng draws(seed, 0);
    Status status = replayer.replay(sketch.trace, mine, &draws, last);
    Outcome got{status ? "" : to_string(status.rejected()), mine, structural_hash(replayer.state().program())};
    // An open decision is drawn from where the random numbers stand: only the drawn ones may differ.
    std::vector<Decision> given = decisions;
    for (std::size_t i = 0; i < given.size(); ++i)
      if (given[i].open()) given[i] = mine[i];
    Outcome want = from_the_start(sketch.trace, base, given, seed, last);
    ASSERT_EQ(got.reject, want.reject);
    ASSERT_TRUE(got.decisions == want.decisions);
    ASSERT_EQ(got.program, want.program) << print(replayer.state().program());
    shared += !before.empty() && !mine.empty() && mine[0] == before[0];
    if (status) decisions = before = mine;
  }
}

TEST(PrefixReplay, GivesWhatReplayingFromTheStartGives) {
  rules::Library library = rules::Library::built_in();
  int shared = 0;
  const std::vector<std::pair<const char*, WorkloadArguments>> cases = {
      {"matmul", {{"M", i64{12}}, {"N", i64{20}}, {"K", i64{7}}}},
      {"conv2d",
       {{"N", i64{1}},
        {"H", i64{6}},
        {"W", i64{6}},
        {"CI", i64{4}},
        {"CO", i64{20}},
        {"K", i64{3}},
        {"padding", i64{1}}}},
      {"softmax", {{"M", i64{6}}, {"N", i64{20}}}}};
  for (const auto& [op, arguments] : cases) {
    Diagnostics diagnostics(*operator_library().source);
    std::optional<OwnedProgram> made = instantiate(operator_library(), op, arguments, {}, diagnostics);
    ASSERT_TRUE(made) << diagnostics.render();
    for (const char* set : {"cpu", "reference-cpu"}) {
      std::string errors;
      Space space = build_space(made->program, *library.find_set(set), library, {.threads = 2}, errors);
      ASSERT_EQ(errors, "");
      for (std::size_t s = 0; s < space.sketches.size(); ++s) walk(space.sketches[s], made->program, s, shared);
    }
  }
  EXPECT_GT(shared, 200);
}

}  // namespace
}  // namespace tw
