// Whatever an instruction would make that exceeds a limit is rejected and leaves the program as it was: in a program
// that embeds the library, and in every command that reads a rule or a trace.
#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "dsl/schedule/schedule.h"
#include "support/parsed.h"
#include "support/run_program.h"
#include "support/scheduled.h"
#include "support/support.h"

namespace tw {
namespace {

using test::Finished;

constexpr const char* kProduct = "matmul(M = 8, N = 8, K = 8)";
constexpr int kMany = 100;  // more than kMostNesting

std::string many(const std::string& line) {
  std::string out;
  for (int i = 0; i < kMany; ++i) out += cat("  u", i, " = ", line, "\n");
  return out;
}

// Adds statements around others until it is rejected.
template <class Step>
void expect_a_floor(const Step& step) {
  test::Scheduled base(kProduct, {}, "");
  Arena arena;
  Schedule schedule(base.program());
  BlockId block = *schedule.get_block("C");
  int steps = 0;
  for (;; ++steps) {
    ASSERT_LT(steps, kMany);
    std::string before = print(schedule.program());
    Status status = step(schedule, block);
    if (!status) {
      EXPECT_NE(
          to_string(status.rejected()).find("the program would have more than 90 statements inside of one another"),
          std::string::npos)
          << to_string(status.rejected());
      EXPECT_EQ(print(schedule.program()), before);
      break;
    }
    // It can be written down and read again.
    ASSERT_LE(nesting_of(schedule.program().body), kMostNesting);
    EXPECT_TRUE(structurally_equal(test::parsed(print(schedule.program())).program, schedule.program()));
  }
  EXPECT_GT(steps, kMostNesting / 4);
}

TEST(Nesting, EndsForAProgramThatEmbedsTheLibrary) {
  expect_a_floor([](Schedule& schedule, BlockId block) -> Status {
    TW_TRY(LoopId loop, schedule.add_unit_loop({.block = block}));
    (void)loop;
    return ok();
  });
  expect_a_floor([](Schedule& schedule, BlockId block) -> Status {
    TW_TRY(auto loops, schedule.get_loops(block));
    static constexpr i64 factors[] = {1, Factors::kHole};
    TW_TRY(auto parts, schedule.split(loops[0], {factors}));
    (void)parts;
    return ok();
  });
}

// ---- commands

class Commands : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    test::write_file(folder.path() + "/" + name, text);
  }
  void write_trace(const std::string& schedule) const {
    test::Scheduled base(kProduct, {}, "");
    write("t.tw", cat("tracewright 1 \"0.1.0\"\ntarget \"cpu -mcpu=znver3 -threads=1\"\n", print(base.program()),
                      "schedule {\n", schedule, "}\n"));
  }
  void write_rule(const std::string& body) const {
    write("m.tw", cat("rule deep(b: block)\n  when is_reduction(b)\n{\n", body, "}\nrules mine { deep }\n"));
    write("l.yaml",
          "version: 1\ntarget: {kind: cpu, threads: 1}\nbudget: {trials: 2, seconds: 5}\ndatabase: l.db\nmodules: "
          "[m.tw]\nrules: mine\ntasks:\n"
          "  - {name: g, op: matmul, args: {M: 8, N: 8, K: 8}}\n");
  }
  // What they print, together.
  std::string answers(const std::vector<std::vector<std::string>>& commands) const {
    std::string out;
    for (const std::vector<std::string>& words : commands) {
      Finished finished = test::tracewright(words, {.folder = folder.path()});
      EXPECT_LE(finished.code, 3) << join(words, " ") << "\n" << finished.err;
      out += finished.out + finished.err;
    }
    return out;
  }
  static inline const std::vector<std::vector<std::string>> of_traces = {
      {"replay", "t.tw"},
      {"replay", "t.tw", "--check"},
      {"replay", "t.tw", "--target", "cuda -arch=sm_80", "--emit", "source"},
      {"reduce", "t.tw"},
      {"export", "t.tw", "--output", "out"}};
  static inline const std::vector<std::vector<std::string>> of_rules = {
      {"check", "m.tw", "--op", "dense", "--draws", "5"},
      {"space", "l.yaml"},
      {"explain", "l.yaml", "--draws", "5"},
      {"tune", "l.yaml", "--dry-run"},
      {"tune", "l.yaml"}};

  test::TemporaryDirectory folder;
};

TEST_F(Commands, RejectATraceThatNestsTooDeep) {
  for (const char* line : {"add_unit_loop(b)", "add_unit_loop(i)"}) {
    write_trace(cat("  b = get_block(\"C\")\n  i, j, k = get_loops(b)\n", many(line)));
    std::string said = answers(of_traces);
    EXPECT_NE(said.find("add_unit_loop: the program would have more than 90 statements inside of one another"),
              std::string::npos)
        << said;
  }
}

TEST_F(Commands, RejectARuleThatNestsTooDeep) {
  write_rule("  l = loops(b)[0]\n" + many("add_unit_loop(l)"));
  std::string said = answers(of_rules);
  EXPECT_NE(said.find("add_unit_loop: the program would have more than 90 statements inside of one another"),
            std::string::npos)
      << said;
}

// The interpreter would need hundreds of gigabytes to compare such a program.
TEST_F(Commands, RejectBuffersThatNoMachineHas) {
  write_rule("  pad_einsum(b, [1099511627776, 1, 64])\n");
  std::string said = answers(of_rules);
  EXPECT_NE(said.find("pad_einsum: `X_pad` would have more than 35184372088832 elements"), std::string::npos) << said;
  write_rule("  pad_einsum(b, [2147483647, 1, 1])\n");
  said = answers({of_rules[0]});
  EXPECT_NE(said.find("the interpreter cannot compare: gave up: its arrays have "), std::string::npos) << said;
}

// Two billion steps for sixteen elements.
TEST_F(Commands, AScheduleThatTheInterpreterGivesUpOnIsNotCalledWrong) {
  write_rule("  i0, i1 = split(loops(b)[0], [_, 2147483647])\n");
  std::string said = answers({of_rules[0]});
  EXPECT_NE(said.find("15 draws ran: 15 rejected, 0 computed something else"), std::string::npos) << said;
  EXPECT_NE(said.find("times: the interpreter cannot compare: block `Y`: gave up after "), std::string::npos) << said;
  EXPECT_EQ(said.find("computes something else"), std::string::npos) << said;
  // And it does not wait for hundreds of them.
  said = answers({{"check", "m.tw", "--op", "dense", "--rule", "deep"}});
  EXPECT_NE(said.find("30 draws ran: 30 rejected, 0 computed something else"), std::string::npos) << said;
}

}  // namespace
}  // namespace tw
