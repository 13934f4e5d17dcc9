// The corpus: a trace file for each operator and rule set, with the hash of the program that it
// gives. Rules may change, and so may the spaces; what a stored trace means may not. Each file of
// tests/corpus begins with `# ir HASH` (the hash that `tracewright replay
// --hash` calls that of the program).
//
// TW_BLESS=1 adds files that are missing, from the rules of today; it changes none that is there. A
// wanted change of a hash shows in the diff: delete the file first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "backends/meaning.h"
#include "dsl/base/text.h"
#include "runtime/trace_file.h"
#include "sampler/search/candidate.h"
#include "sampler/search/check_rule.h"
#include "support/support.h"

namespace tw {
namespace {

const std::string folder = TW_SOURCE_DIR "/tests/corpus";
constexpr const char* target_text = "cpu -mcpu=znver3 -threads=2";

std::string operator_of(const TrialProgram& program) {
  return program.use.substr(0, program.use.find('('));
}

std::optional<TraceFile> parsed(const std::string& name, const std::string& text) {
  Source source{name, text};
  Diagnostics diagnostics(source);
  std::optional<TraceFile> file = parse_trace_file(source, diagnostics);
  EXPECT_TRUE(file) << diagnostics.render();
  return file;
}

// One draw of one sketch, replayed, as the text of a trace file with its hash.
std::string make_file(const TrialProgram& trial, const char* set, u64 seed) {
  static const rules::Library library = rules::Library::built_in();
  Source source{"target", target_text};
  Diagnostics diagnostics(source);
  Target target = *parse_target(target_text, 0, diagnostics);
  std::string errors;
  CandidateSpace space =
      make_candidate_space(trial.program.program, *library.find_set(set), library, target, errors);
  EXPECT_EQ(errors, "");
  CandidateBuilder builder(space);
  Rng rng(seed);
  for (int attempt = 0; attempt < 100; ++attempt) {
    Candidate candidate;
    int sketch = static_cast<int>(rng.below(static_cast<i64>(space.space.sketches.size())));
    if (!builder.draw(sketch, candidate, rng)) continue;
    Result<Program> program = builder.build(candidate, &rng);
    if (!program) continue;
    Result<Trace> trace = full_trace(space, candidate);
    if (!trace) continue;
    return cat("# ir ", to_hex(structural_hash(*program)), "\n",
               print_trace_file({TW_VERSION, target_text, trial.program, *trace}));
  }
  ADD_FAILURE() << trial.use << ": no draw of " << set;
  return "";
}

void add_missing() {
  u64 seed = 1;
  for (const TrialProgram& trial : trial_programs()) {
    for (const char* set : {"cpu", "reference-cpu"}) {
      std::string path = cat(folder, "/", set, "_", operator_of(trial), ".tw");
      if (!std::filesystem::exists(path)) test::write_file(path, make_file(trial, set, seed));
      ++seed;
    }
  }
}

TEST(Corpus, EveryTraceGivesItsProgram) {
  if (std::getenv("TW_BLESS")) add_missing();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::string name = entry.path().filename().string(),
                text = test::read_file(entry.path().string());
    SCOPED_TRACE(name);
    ++files;
    std::optional<TraceFile> file = parsed(name, text);
    if (!file) continue;
    Arena arena;
    State state(arena, file->program.program);
    Status status = replay(file->trace, state);
    ASSERT_TRUE(status) << to_string(status.rejected());
    EXPECT_EQ(text.substr(0, text.find('\n')),
              cat("# ir ", to_hex(structural_hash(state.program()))));
    EXPECT_EQ(text.substr(text.find('\n') + 1), print_trace_file(*file));
    EXPECT_EQ(Judge(file->program.program, 1, 1e-4).difference(state.program()), "");
  }
  EXPECT_GE(files, 34);
}

TEST(Corpus, EveryOperatorAndSetHasATrace) {
  for (const TrialProgram& trial : trial_programs()) {
    for (const char* set : {"cpu", "reference-cpu"})
      EXPECT_TRUE(std::filesystem::exists(cat(folder, "/", set, "_", operator_of(trial), ".tw")))
          << set << " " << trial.use;
  }
}

}  // namespace
}  // namespace tw
