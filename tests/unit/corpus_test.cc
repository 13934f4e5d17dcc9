// The corpus: a trace file for each operator under the sets of the processor, for one or two
// operators under every other set, and for each kind of instruction, with the hash of the program
// that it gives. Rules may change, and so may the spaces; what a stored trace means may not. Each
// file of tests/corpus begins with `# ir HASH` (the hash that `tracewright replay --hash` calls that
// of the program); those of the other sets go on with `# lowered HASH` (the text after the last pass)
// or, for devices, `# source HASH` (as `replay --emit source --hash`).
//
// TW_BLESS=1 adds files that are missing, from the rules and golden cases of today, and writes the
// second line anew where lowering has changed; it changes no hash of a program. A wanted change of
// one shows in the diff: delete the file first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "backends/device_form.h"
#include "backends/meaning.h"
#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/parse_program.h"
#include "dsl/text/workload.h"
#include "runtime/store/trace_file.h"
#include "sampler/search/check_rule.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"
#include "support/golden_cases.h"
#include "support/parsed.h"
#include "support/support.h"
#include "tests/unit/byte_products.h"

namespace tw {
namespace {

const std::string folder = TW_SOURCE_DIR "/tests/corpus";
constexpr const char* kCpu = "cpu -mcpu=znver3 -threads=2";
constexpr const char* kVnni = "cpu -mcpu=cascadelake -threads=1";
constexpr const char* kArm = "cpu -triple=aarch64-linux-gnu -mcpu=cortex-a76 -threads=1";
constexpr const char* kCuda = "cuda -arch=sm_80";

// One file of a set that is not `cpu` or `reference-cpu`.
struct Row {
  const char* set;
  const char* target;
  const char* use;
  const char* holds = "";  // a text that the trace has
};
const Row kRows[] = {
    {"opencl", "opencl", "dense(M = 16, N = 64, K = 13)"},
    {"opencl", "opencl", "softmax(M = 16, N = 61)"},
    {"cuda", kCuda, "dense(M = 64, N = 64, K = 13)"},
    {"cuda", kCuda, "matmul(M = 64, N = 64, K = 32, T = f16)"},
    {"cuda", kCuda, "batch_matmul(B = 2, M = 32, N = 64, K = 16)", "min_blocks"},
    {"cuda", kCuda, "conv2d(N = 1, H = 4, W = 4, CI = 16, CO = 16, K = 3, padding = 1, T = f16)",
     "v_3 = sample_categorical([32, 64, 128, 256, 512, 1024]) @ 2"},  // a sum in parts, the second kernel with 128
                                                                      // work-items
    {"cuda", kCuda, "transpose_batch_matmul(B = 1, S = 16, H = 2, D = 32, T = bf16)", "stage_epilogue"},
    {"cuda", kCuda, "depthwise_conv2d(N = 1, H = 6, W = 6, C = 8, K = 3, padding = 1)"},
    {"cuda", kCuda, "softmax(M = 16, N = 61)"},
    {"reference-cuda", kCuda, "dense(M = 64, N = 64, K = 13)"},
    {"reference-cuda", kCuda, "softmax(M = 16, N = 61)"},
    {"reference-cuda-tensorcore", kCuda, "matmul(M = 64, N = 64, K = 32, T = f16)"},
    {"reference-cpu-vnni", kVnni, "bytes(M = 16, N = 64, K = 32, A = u8, B = i8)"},
    {"reference-arm-dotprod", kArm, "bytes(M = 16, N = 64, K = 32, A = i8, B = i8)"},
};
using test::kBytes;

std::string operator_of(const std::string& use) { return use.substr(0, use.find('(')); }

std::string path_of(const std::string& name) { return cat(folder, "/", name, ".tw"); }

OwnedProgram program_of(const std::string& text) {
  static const Source bytes{"bytes", kBytes};
  static Diagnostics of_bytes(bytes);
  static const WorkloadModule module = parse_workloads(bytes, of_bytes);
  Source source{"use", text};
  Diagnostics diagnostics(source);
  std::optional<WorkloadUse> use = parse_use(source, diagnostics);
  TW_CHECK(use, "a use that cannot be read");
  const WorkloadModule& from = use->workload == "bytes" ? module : operator_library();
  Diagnostics inner(*from.source);
  std::optional<OwnedProgram> program = instantiate(from, use->workload, use->arguments, {}, inner);
  TW_CHECK(program, "a workload that cannot be made");
  return std::move(*program);
}

std::string ir_line(const Program& program) { return cat("# ir ", to_hex(structural_hash(program)), "\n"); }

// "# lowered HASH" or "# source HASH", with the end of the line.
Result<std::string> code_line(const Program& program, const Target& target) {
  Arena arena;
  Kernel kernel;
  if (is_device(target)) {
    TW_TRY(LoweredGpuProgram lowered, lower_gpu(arena, program, lowering_options(target), gpu_limits(target)));
    TW_TRY(kernel, device_source(lowered, target, "kernel"));
  } else {
    std::vector<PassDump> dumps;
    TW_TRY_STATUS(lower(arena, program, lowering_options(target), &dumps));
    kernel.code = dumps.back().text;
  }
  return cat(is_device(target) ? "# source " : "# lowered ", to_hex(object_hash(kernel)), "\n");
}

// One draw of one sketch, replayed, as the text of a trace file with its hash, or hashes. One that has the text
// `holds`.
std::string make_file(const OwnedProgram& program, const char* set, const char* target_text, u64 seed, bool with_code,
                      const char* holds = "") {
  static const rules::Library library = rules::Library::built_in();
  Target target = test::parsed_target(target_text);
  std::string errors;
  CandidateSpace space = make_candidate_space(program.program, *library.find_set(set), library, target, errors);
  EXPECT_EQ(errors, "");
  CandidateBuilder builder(space);
  Rng rng(seed);
  for (int attempt = 0; attempt < 100; ++attempt) {
    Candidate candidate;
    int sketch = static_cast<int>(rng.below(static_cast<i64>(space.space.sketches.size())));
    if (!builder.draw(sketch, candidate, rng)) continue;
    Result<Program> built = builder.build(candidate, &rng);
    if (!built) continue;
    Result<std::string> code = with_code ? code_line(*built, target) : Result<std::string>(std::string());
    Result<Trace> trace = full_trace(space, candidate);
    if (!trace || !code) continue;
    std::string text = print_trace_file({TW_VERSION, to_string(target), program, *trace});
    if (text.find(holds) != std::string::npos) return cat(ir_line(*built), *code, text);
  }
  ADD_FAILURE() << "no draw of " << set << " with `" << holds << "`";
  return "";
}

void add_missing(const std::string& name, const std::function<std::string()>& make) {
  if (!std::filesystem::exists(path_of(name))) test::write_file(path_of(name), make());
}

void add_missing_draws() {
  u64 seed = 1;
  for (const TrialProgram& trial : trial_programs()) {
    for (const char* set : {"cpu", "reference-cpu"}) {
      add_missing(cat(set, "_", operator_of(trial.use)),
                  [&] { return make_file(trial.program, set, kCpu, seed, false); });
      ++seed;
    }
  }
  for (const Row& row : kRows) {
    add_missing(cat(row.set, "_", operator_of(row.use)),
                [&] { return make_file(program_of(row.use), row.set, row.target, seed, true, row.holds); });
  }
}

void for_each_file(const std::function<void(const std::string& name, const std::string& text)>& visit) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) visit(std::filesystem::path(path).filename().string(), test::read_file(path));
}

std::set<std::string> kinds_in_corpus() {
  std::set<std::string> kinds;
  for_each_file([&](const std::string&, const std::string& text) {
    TraceFile file = test::parsed_trace_file(text);
    if (!file.program.program.body) return;  // it could not be read
    for (const Instruction& instruction : file.trace.instructions()) kinds.insert(instruction.kind->name);
  });
  return kinds;
}

// The shortest accepted golden case of the instruction.
std::string file_of_golden_case(const std::string& kind) {
  const test::GoldenCase* shortest = nullptr;
  std::vector<test::GoldenCase> cases =
      test::golden_cases(cat(TW_SOURCE_DIR "/tests/golden/primitives/", kind, ".tw"), "schedule");
  for (const test::GoldenCase& c : cases) {
    bool usable = !c.expected.starts_with("//!") && c.steps.find("lower for") == std::string::npos &&
                  c.steps.find(kind + "(") != std::string::npos;
    if (usable && (!shortest || c.program.size() < shortest->program.size())) shortest = &c;
  }
  if (!shortest) return ADD_FAILURE() << "no golden case of " << kind, "";
  Source program_source{kind, shortest->program}, trace_source{kind, shortest->steps};
  Diagnostics of_program(program_source), of_trace(trace_source);
  std::optional<OwnedProgram> program = parse_program(program_source, of_program);
  std::optional<Trace> trace = parse_schedule(trace_source, of_trace);
  if (!program || !trace) return ADD_FAILURE() << of_program.render() << of_trace.render(), "";
  Arena arena;
  State state(arena, program->program);
  Status status = replay(*trace, state);
  EXPECT_TRUE(status) << to_string(status.rejected());
  return cat(ir_line(state.program()), print_trace_file({TW_VERSION, kCpu, *program, *trace}));
}

void add_missing_kinds() {
  std::set<std::string> there = kinds_in_corpus();
  for (const InstructionKind* kind : instruction_kinds()) {
    if (!there.count(kind->name))
      add_missing(cat("instruction_", kind->name), [&] { return file_of_golden_case(kind->name); });
  }
}

// The file without its lines of hashes.
std::string without_hashes(std::string text) {
  while (text.starts_with("# ")) text.erase(0, text.find('\n') + 1);
  return text;
}

void expect_hashes(const std::string& name, const std::string& text, const TraceFile& file, const Program& program) {
  std::string found = ir_line(program), rest = without_hashes(text);
  EXPECT_EQ(text.substr(0, text.find('\n') + 1), found) << name;
  if (text.find("\n# ") < text.find("\ntracewright")) {
    Result<std::string> code = code_line(program, test::parsed_target(file.target));
    ASSERT_TRUE(code) << to_string(code.rejected());
    found += *code;
  }
  if (std::getenv("TW_BLESS") && text.starts_with(ir_line(program)))
    return test::write_file(folder + "/" + name, found + rest);
  EXPECT_EQ(text.substr(0, text.size() - rest.size()), found) << name << ": TW_BLESS=1 would write the second line";
}

TEST(Corpus, EveryTraceGivesItsProgram) {
  if (std::getenv("TW_BLESS")) {
    add_missing_draws();
    add_missing_kinds();
  }
  int files = 0;
  for_each_file([&](const std::string& name, const std::string& text) {
    SCOPED_TRACE(name);
    ++files;
    TraceFile file = test::parsed_trace_file(text);
    if (!file.program.program.body) return;  // it could not be read
    Arena arena;
    State state(arena, file.program.program);
    Status status = replay(file.trace, state);
    ASSERT_TRUE(status) << to_string(status.rejected());
    EXPECT_EQ(without_hashes(text), print_trace_file(file));
    EXPECT_EQ(Judge(file.program.program, 1, 1e-4).difference(state.program()), "");
    expect_hashes(name, text, file, state.program());
  });
  EXPECT_GE(files, 79);
}

// As the interpreter runs what comes out of lowering, or why there is nothing.
Result<LoweredProgram> lowered_for(Arena& arena, const Program& program, const Target& target) {
  if (!is_device(target)) return lower(arena, program, lowering_options(target));
  TW_TRY(LoweredGpuProgram kernels, lower_gpu(arena, program, lowering_options(target), gpu_limits(target)));
  TW_TRY_STATUS(device_source(kernels, target, "kernel"));
  return as_interpreted(arena, kernels);
}

// One trace is a kernel everywhere: what was bound for a device runs on a processor, and the other way round.
TEST(Corpus, EveryTraceIsAKernelForEveryTarget) {
  // A buffer between two kernels in registers; a tile of 16 registers for a processor that has as many.
  std::set<std::string> refused,
      expected = {"instruction_cache_inplace.tw for opencl", "instruction_cache_inplace.tw for cuda -arch=sm_80",
                  cat("opencl_dense.tw for ", kCpu)};
  for_each_file([&](const std::string& name, const std::string& text) {
    TraceFile file = test::parsed_trace_file(text);
    if (!file.program.program.body) return;  // it could not be read
    for (const char* target : {kCpu, "opencl", kCuda}) {
      SCOPED_TRACE(cat(name, " for ", target));
      Arena arena;
      State state(arena, file.program.program);
      ASSERT_TRUE(replay(file.trace, state));
      Result<LoweredProgram> kernel = lowered_for(arena, state.program(), test::parsed_target(target));
      if (kernel)
        EXPECT_EQ(Judge(file.program.program, 1, 1e-4).difference(*kernel), "");
      else
        refused.insert(cat(name, " for ", target));
    }
  });
  EXPECT_EQ(refused, expected);
}

TEST(Corpus, EveryOperatorAndSetHasATrace) {
  for (const TrialProgram& trial : trial_programs()) {
    for (const char* set : {"cpu", "reference-cpu"})
      EXPECT_TRUE(std::filesystem::exists(path_of(cat(set, "_", operator_of(trial.use))))) << set << " " << trial.use;
  }
  for (const Row& row : kRows) {
    std::string path = path_of(cat(row.set, "_", operator_of(row.use)));
    ASSERT_TRUE(std::filesystem::exists(path)) << row.set << " " << row.use;
    EXPECT_NE(test::read_file(path).find(row.holds), std::string::npos) << path << " without `" << row.holds << "`";
  }
}

TEST(Corpus, EveryKindOfInstructionOccurs) {
  std::set<std::string> there = kinds_in_corpus();
  for (const InstructionKind* kind : instruction_kinds()) EXPECT_TRUE(there.count(kind->name)) << kind->name;
}

}  // namespace
}  // namespace tw
