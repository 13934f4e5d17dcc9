// Random small programs under random schedules drawn from every registered primitive compute what they did before, bit for bit, and so do the
// lowered programs. TW_SEED=n repeats one case, TW_CASES=n runs more of them.
#include <gtest/gtest.h>

#include <cstdlib>

#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "support/random_program.h"
#include "support/random_schedule.h"
#include "tests/unit/evaluate.h"

namespace tw {
namespace {

using test::Acceptance;

i64 from_environment(const char* name, i64 fallback) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : fallback;
}

std::string check(const Program& before, const Program& after, u64 seed) {
  if (outputs_of(before, seed) != outputs_of(after, seed)) return "differs";
  return "";
}

// The first instruction after which the program is wrong, with the program before it and after it.
std::string first_wrong_step(const Program& base, const Trace& trace, u64 seed) {
  std::string previous = print(base);
  for (std::size_t length = 1; length <= trace.instructions().size(); ++length) {
    Arena arena;
    State state(arena, base);
    std::vector<Decision> decisions = trace.decisions();
    Status status = replay(trace, state, decisions, ReplayMode::Strict, nullptr, 0, length);
    if (!status) return "replay rejects: " + to_string(status.rejected());
    std::string wrong = check(base, state.program(), seed);
    if (!wrong.empty()) {
      return cat("wrong after: ", trace.print_instruction(trace.instructions()[length - 1]), "\n", wrong, "\nbefore it:\n", previous, "after it:\n",
                 print(state.program()));
    }
    previous = print(state.program());
  }
  return "cannot be repeated by replaying";
}

void run_case(u64 seed, Acceptance& acceptance) {
  Rng rng(seed);
  std::string use;
  OwnedProgram base = test::random_program(rng, use);
  Schedule schedule(base.program, seed);
  static const std::vector<const InstructionKind*> kinds = test::changing_kinds();
  i64 steps = 1 + rng.below(12);
  for (i64 i = 0; i < steps; ++i) {
    const InstructionKind* kind = kinds[static_cast<std::size_t>(rng.below(static_cast<i64>(kinds.size())))];
    test::apply_random(schedule, *kind, rng, acceptance);
  }
  std::string wrong = check(base.program, schedule.program(), seed);
  ASSERT_EQ(wrong, "") << "TW_SEED=" << seed << "  " << use << "\n" << schedule.trace().without_dead_code().print()
                       << first_wrong_step(base.program, schedule.trace().without_dead_code(), seed);
}

TEST(Property, SchedulesKeepTheMeaningOfPrograms) {
  Acceptance acceptance;
  i64 seed = from_environment("TW_SEED", -1), cases = from_environment("TW_CASES", 3000);
  if (seed >= 0) return run_case(static_cast<u64>(seed), acceptance);
  for (i64 i = 0; i < cases && !HasFailure(); ++i) run_case(static_cast<u64>(i), acceptance);
  for (const auto& [name, tried] : acceptance) {
    int total = tried.accepted + tried.rejected;
    std::cout << cat("  ", name, ": ", tried.accepted, " of ", total, " accepted (", 100 * tried.accepted / std::max(total, 1), " %)\n");
    if (std::getenv("TW_REASONS")) for (const auto& [reason, count] : tried.reasons) std::cout << cat("      ", count, "  ", reason, "\n");
  }
}

}  // namespace
}  // namespace tw
