// Runs tests/golden/**/*.tw. A file holds cases:
//
//   // ---- title
//   program ... { ... }
//   schedule
//     i = get_loops(b)                 one instruction per line
//     lower for cpu -threads=1         or without this last line: the program is not lowered
//   expect
//   program ... { ... }                the whole program afterwards; of a lowered one its last form, for a device its
//                                      source; or the whole message of the Reject:
//   //! split: factors multiply to 21, but loop `i` has extent 128
//
// Each accepted case is checked four more ways: its result parses back, its printed trace replays to it, it is legal
// IR, and the interpreter computes the same before and after; of a lowered case that is the program before it is
// lowered, if it is not huge. TW_BLESS=1 rewrites what is expected.
//
// primitives: a file for each instruction, named as it is; boundaries: extents, ranges and sizes at their limits;
// lowering: what lowering refuses and how it rewrites scheduled programs; slow: cases of primitives that take seconds.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/schedule/state.h"
#include "dsl/text/parse_program.h"
#include "sampler/search/trial.h"
#include "support/golden_cases.h"
#include "support/meaning.h"

namespace tw {
namespace {

std::optional<OwnedProgram> program_of(const std::string& name, const std::string& text) {
  Source source{name, text};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> program = parse_program(source, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return program;
}

std::optional<Trace> trace_of(const std::string& name, const std::string& text) {
  Source source{name, text};
  Diagnostics diagnostics(source);
  std::optional<Trace> trace = parse_schedule(source, diagnostics);
  EXPECT_TRUE(trace) << diagnostics.render();
  return trace;
}

// Limits of sizes are met by programs that the interpreter would run for minutes.
bool is_small(const Program& program) {
  i64 elements = 0;
  for (const Param& param : program.params) elements += elements_of(param.buffer);
  return elements <= 10'000'000;
}

void check_result(const Program& before, const Program& after, const Trace& trace) {
  std::string text = print(after);
  if (std::optional<OwnedProgram> again = program_of("what was printed", text)) {
    EXPECT_EQ(print(again->program), text);
    EXPECT_TRUE(structurally_equal(again->program, after)) << text;
  }
  if (std::optional<Trace> printed = trace_of("the printed trace", trace.print())) {
    Arena arena;
    State state(arena, before);
    Status status = replay(*printed, state);
    EXPECT_TRUE(status) << to_string(status.rejected());
    EXPECT_TRUE(status && structurally_equal(state.program(), after)) << trace.print();
  }
  for (u64 seed = 0; seed < 3 && is_small(before); ++seed) EXPECT_EQ(test::difference(before, after, seed), "");
}

// The target is what the last line says behind "lower for", empty if it is another line.
std::pair<std::string, std::string> schedule_and_target(const std::string& steps) {
  constexpr std::string_view lower = "lower for ";
  std::size_t at = steps.rfind(lower);
  if (at == std::string::npos) return {steps, ""};
  return {steps.substr(0, at), steps.substr(at + lower.size(), steps.size() - at - lower.size() - 1)};
}

// The lowered program: its text after the last pass, for devices their source.
Result<std::string> lowered(Arena& arena, const Program& program, const std::string& target_text) {
  Source source{"target", target_text};
  Diagnostics diagnostics(source);
  std::optional<Target> target = parse_target(target_text, 0, diagnostics);
  EXPECT_TRUE(target) << diagnostics.render();
  if (!target) return std::string();
  if (is_device(*target)) {
    TW_TRY(LoweredGpuProgram kernels, lower_gpu(arena, program, lowering_options(*target), gpu_limits(*target)));
    TW_TRY(Kernel kernel, device_source(kernels, *target, "golden"));
    return kernel.code;
  }
  std::vector<PassDump> dumps;
  TW_TRY_STATUS(lower(arena, program, lowering_options(*target), &dumps));
  return dumps.back().text;
}

// What the case gives: the program afterwards, or the Reject.
std::string run(const std::string& name, const test::GoldenCase& c) {
  auto [schedule, target] = schedule_and_target(c.steps);
  std::optional<OwnedProgram> base = program_of(name, c.program);
  std::optional<Trace> trace = trace_of(name, schedule);
  if (!base || !trace) return "";
  Arena arena;
  State state(arena, base->program);
  Status status = replay(*trace, state);
  if (!status) return cat("//! ", to_string(status.rejected()), "\n");
  check_result(base->program, state.program(), *trace);
  if (target.empty()) return print(state.program());
  Result<std::string> text = lowered(arena, state.program(), target);
  return text ? *text : cat("//! ", to_string(text.rejected()), "\n");
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, File) { test::run_golden_file(GetParam(), "schedule", run); }

// An instruction is described by what it refuses: tests/golden/primitives/NAME.tw holds more cases that NAME rejects
// than cases that give a program. A case that another instruction rejects counts as neither.
TEST(GoldenFiles, EveryInstructionHasMoreRejectsThanSuccesses) {
  const std::map<std::string, std::string> without_rejects = {
      {"enter_postproc", "has no arguments and no conditions: nothing to refuse"},
  };
  for (const InstructionKind* kind : instruction_kinds()) {
    std::string path = cat(TW_SOURCE_DIR "/tests/golden/primitives/", kind->name, ".tw");
    ASSERT_TRUE(std::filesystem::exists(path)) << path;
    int accepted = 0, rejected = 0;
    for (const test::GoldenCase& c : test::golden_cases(path, "schedule")) {
      if (!c.expected.starts_with("//! ")) ++accepted;
      rejected += c.expected.starts_with(cat("//! ", kind->name, ": "));
    }
    EXPECT_GE(accepted, 1) << kind->name;
    EXPECT_TRUE(rejected > accepted || without_rejects.count(kind->name))
        << kind->name << ": " << rejected << " rejects, " << accepted << " successes";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(test::golden_files("golden")),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

}  // namespace
}  // namespace tw
