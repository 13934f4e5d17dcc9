// Runs tests/golden/**/*.tw. A file holds cases:
//
//   // ---- title
//   program ... { ... }
//   schedule
//     i, = get_loops(b)                one instruction per line
//   lower for cpu -threads=1           or without this line: the program is not lowered
//   expect
//   program ... { ... }                the whole program afterwards; of a lowered one its last form, for a device its source; or the whole message of the Reject:
//   //! split: factors multiply to 21, but loop `i` has extent 128
//
// Each accepted case is checked four more ways: its result parses back, its printed trace replays to it, it is legal
// IR, and the interpreter computes the same before and after. TW_BLESS=1 rewrites what is expected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/schedule/state.h"
#include "dsl/text/parse_program.h"
#include "sampler/search/trial.h"
#include "support/meaning.h"
#include "support/support.h"

namespace tw {
namespace {

struct Case {
  std::string title, program, schedule, target, expected;  // target: empty = not lowered
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Empty lines at the end of a section do not count.
void strip_end(std::string& text) {
  while (text.size() >= 2 && text.ends_with("\n\n")) text.pop_back();
}

constexpr std::string_view kLower = "lower for ";

std::vector<Case> parse_cases(const std::string& text) {
  std::vector<Case> cases;
  std::string* section = nullptr;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("// ---- ")) {
      cases.push_back({line.substr(8), "", "", "", ""});
      section = &cases.back().program;
    } else if (section && line == "schedule") {
      section = &cases.back().schedule;
    } else if (section && line.starts_with(kLower)) {
      cases.back().target = line.substr(kLower.size());
    } else if (section && line == "expect") {
      section = &cases.back().expected;
    } else if (section) {
      *section += line + "\n";
    }
  }
  for (Case& c : cases) {
    strip_end(c.program);
    strip_end(c.schedule);
    strip_end(c.expected);
  }
  return cases;
}

std::string to_text(const std::vector<Case>& cases) {
  std::string out;
  for (const Case& c : cases) {
    out += cat(out.empty() ? "" : "\n", "// ---- ", c.title, "\n", c.program, "schedule\n", c.schedule,
               c.target.empty() ? "" : cat(kLower, c.target, "\n"), "expect\n", c.expected);
  }
  return out;
}

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
  for (u64 seed = 0; seed < 3; ++seed) EXPECT_EQ(test::difference(before, after, seed), "");
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
std::string run(const std::string& name, const Case& c) {
  std::optional<OwnedProgram> base = program_of(name, c.program);
  std::optional<Trace> trace = trace_of(name, c.schedule);
  if (!base || !trace) return "";
  Arena arena;
  State state(arena, base->program);
  Status status = replay(*trace, state);
  if (!status) return cat("//! ", to_string(status.rejected()), "\n");
  if (!c.target.empty()) {
    Result<std::string> text = lowered(arena, state.program(), c.target);
    return text ? *text : cat("//! ", to_string(text.rejected()), "\n");
  }
  check_result(base->program, state.program(), *trace);
  return print(state.program());
}

void run_file(const std::string& path) {
  std::vector<Case> cases = parse_cases(test::read_file(path));
  ASSERT_FALSE(cases.empty()) << "no cases";
  bool bless = std::getenv("TW_BLESS");
  for (Case& c : cases) {
    SCOPED_TRACE(c.title);
    std::string found = run(cat(path, ": ", c.title), c);
    if (bless)
      c.expected = found;
    else
      EXPECT_EQ(found, c.expected) << "TW_BLESS=1 would write what was found";
  }
  if (bless) test::write_file(path, to_text(cases));
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, File) { run_file(GetParam()); }

std::vector<std::string> files() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TW_SOURCE_DIR "/tests/golden")) {
    if (entry.path().extension() == ".tw") out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(files()),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

}  // namespace
}  // namespace tw
