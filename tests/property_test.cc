// Random small programs under random schedules drawn from every registered primitive compute what they did before, bit
// for bit, and so do the lowered programs; their traces replay to the same program. TW_SEED=n repeats one case,
// TW_PRINT=1 shows it, TW_CASES=n runs more of them, from TW_FIRST=n on.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>

#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "support/meaning.h"
#include "support/random_program.h"
#include "support/random_schedule.h"
#include "support/support.h"

namespace tw {
namespace {

using test::Acceptance;

struct Lowered {
  int programs = 0;
  std::map<std::string, int> rejects;
};

std::string check(const Program& before, const Program& after, u64 seed, Lowered& count) {
  std::string wrong = test::difference(before, after, seed);
  if (!wrong.empty() || std::getenv("TW_NO_LOWERING")) return wrong;
  Arena arena;
  std::vector<PassDump> dumps;
  Result<LoweredProgram> lowered = lower(arena, after, {}, &dumps);
  if (!lowered) {
    ++count.rejects[lowered.rejected().reason];
    return "";
  }
  ++count.programs;
  wrong = test::difference(before, *lowered, seed);
  return wrong.empty() || dumps.empty() ? wrong : cat(wrong, "\nafter the last pass:\n", dumps.back().text);
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
    Lowered ignored;
    std::string wrong = check(base, state.program(), seed, ignored);
    if (!wrong.empty()) {
      return cat("wrong after: ", trace.print_instruction(trace.instructions()[length - 1]), "\n", wrong,
                 "\nbefore it:\n", previous, "after it:\n", print(state.program()));
    }
    previous = print(state.program());
  }
  return "cannot be repeated by replaying";
}

// What the trace gives where it is replayed, as another machine would.
std::string replayed(const Program& base, const Trace& trace) {
  Arena arena;
  State state(arena, base);
  Status status = replay(trace, state);
  return status ? print(state.program()) : to_string(status.rejected());
}

// Of 100,000 cases every instruction is to be accepted in 500. Fewer cases vary more: half of their share.
i64 wanted_acceptances(i64 cases) { return cases >= 100000 ? cases / 200 : cases / 400; }

void run_case(u64 seed, Acceptance& acceptance, Lowered& lowered) {
  Rng rng(seed);
  std::string use;
  OwnedProgram base = test::random_program(rng, use);
  Schedule schedule(base.program, seed);
  static const std::vector<const InstructionKind*> kinds = test::changing_kinds();
  static const std::vector<const InstructionKind*> others = test::other_kinds();
  Rng aside(~seed);  // samples and queries draw from their own numbers
  i64 steps = 1 + rng.below(20);
  for (i64 i = 0; i < steps; ++i) {
    if (aside.below(4) == 0)
      test::apply_random(schedule, *others[static_cast<std::size_t>(aside.below(static_cast<i64>(others.size())))],
                         aside, acceptance);
    const InstructionKind* kind = kinds[static_cast<std::size_t>(rng.below(static_cast<i64>(kinds.size())))];
    test::apply_random(schedule, *kind, rng, acceptance);
  }
  if (std::getenv("TW_PRINT"))
    std::cout << use << "\n" << schedule.trace().without_dead_code().print() << print(schedule.program()) << std::flush;
  std::string wrong = check(base.program, schedule.program(), seed, lowered);
  ASSERT_TRUE(wrong.empty()) << wrong << "\nTW_SEED=" << seed << "  " << use << "\n"
                             << schedule.trace().without_dead_code().print()
                             << first_wrong_step(base.program, schedule.trace().without_dead_code(), seed);
  ASSERT_EQ(replayed(base.program, schedule.trace()), print(schedule.program())) << "TW_SEED=" << seed << "\n"
                                                                                 << schedule.trace().print();
}

TEST(Property, SchedulesKeepTheMeaningOfPrograms) {
  Acceptance acceptance;
  Lowered lowered;
  const auto [first, end, is_one_case] = test::seeds_from_environment(6000);
  for (i64 i = first; i < end && !HasFailure(); ++i) run_case(static_cast<u64>(i), acceptance, lowered);
  if (is_one_case) return;
  std::cout << "  lowered: " << lowered.programs << "\n";
  for (const auto& [reason, count] : lowered.rejects) std::cout << "  not lowered: " << count << "  " << reason << "\n";
  for (const auto& [name, tried] : acceptance) {
    int total = tried.accepted + tried.rejected;
    std::cout << cat("  ", name, ": ", tried.accepted, " of ", total, " accepted (",
                     100 * tried.accepted / std::max(total, 1), " %)\n");
    EXPECT_GE(50 * tried.accepted, total) << name << " is hardly ever accepted: it is not tested here";
    EXPECT_GE(tried.accepted, wanted_acceptances(end - first)) << name;
    if (!std::getenv("TW_REASONS")) continue;
    for (const auto& [reason, count] : tried.reasons) std::cout << cat("      ", count, "  ", reason, "\n");
  }
  EXPECT_EQ(acceptance.size(), instruction_kinds().size());
  i64 accepted = 0;
  for (const InstructionKind* kind : test::changing_kinds()) accepted += acceptance[kind->name].accepted;
  double steps = static_cast<double>(accepted) / static_cast<double>(std::max<i64>(end - first, 1));
  std::cout << "  " << steps << " accepted instructions in a schedule\n";
  EXPECT_GE(steps, 4);
}

}  // namespace
}  // namespace tw
