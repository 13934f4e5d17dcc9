// An exported library as others use it: written by the real command from a database, compiled as
// strict C99, linked without tracewright, run from two threads at once.
#include <gtest/gtest.h>

#include <filesystem>

#include "backends/target.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/text/workload.h"
#include "runtime/database.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using test::Finished;

// Each task with the recipe that its record holds. The first packs its constant, the second runs in
// parallel.
constexpr const char* list_text = R"yaml(version: 1
target: {kind: cpu, threads: 1}
database: layers.db
tasks:
  - {name: ffn, op: dense, args: {M: 24, N: 36, K: 40}, epilogue: [bias, relu]}
  - {name: twice, workload: twice.tw, use: "twice(M = 32, N = 64)", target: {kind: cpu, threads: 2}}
)yaml";
constexpr const char* workload_file =
    "workload twice(M: int, N: int) {\n  input A: f32[M, N]\n  output B[i: M, j: N] = A[i, j] * "
    "2\n}\n";
constexpr const char* ffn_schedule = R"(b = get_block("Y")
i, j, k = get_loops(b)
j0, jv = split(j, [_, 8])
reorder([i, j0, k, jv])
q = cache_read(b, 1, "global")
transform_layout(q, 0, "write", (p0, p1) -> (p1 // 8, p0, p1 % 8))
annotate(q, "prepack", 1)
vectorize(jv)
)";
constexpr const char* twice_schedule = R"(b = get_block("B")
i, j = get_loops(b)
parallel(i)
vectorize(j)
)";

class Export : public testing::Test {
 protected:
  void SetUp() override {
    test::write_file(at("layers.yaml"), list_text);
    test::write_file(at("twice.tw"), workload_file);
    DatabaseResult<Database> opened = Database::open(at("layers.db"), DatabaseMode::Write);
    ASSERT_TRUE(opened) << opened.error();
    add(*opened, "ffn", operator_library(), "dense",
        {{"M", i64{24}}, {"N", i64{36}}, {"K", i64{40}}}, {"bias", "relu"}, 1, ffn_schedule);
    Source source{"twice.tw", workload_file};
    Diagnostics diagnostics(source);
    WorkloadModule module = parse_workloads(source, diagnostics);
    add(*opened, "twice", module, "twice", {{"M", i64{32}}, {"N", i64{64}}}, {}, 2, twice_schedule);
  }
  std::string at(const std::string& name) const { return folder.path() + "/" + name; }

  void add(Database& database, const char* task, const WorkloadModule& module, const char* workload,
           const WorkloadArguments& arguments, const std::vector<std::string>& epilogues,
           int threads, const char* schedule) {
    Diagnostics diagnostics(*module.source);
    std::optional<OwnedProgram> program =
        instantiate(module, workload, arguments, epilogues, diagnostics);
    ASSERT_TRUE(program) << diagnostics.render();
    Record record{.workload = to_hex(structural_hash(program->program)),
                  .status = "ok",
                  .seconds = 1e-6,
                  .task = task,
                  .trace = schedule};
    Target target = host_target();
    target.threads = threads;
    record.target = to_string(target);
    record.program = std::string(32, '0');
    ASSERT_TRUE(database.add_workload(record.workload, workload_text(program->program)));
    DatabaseResult<i64> id = database.add_record(record);
    ASSERT_TRUE(id) << id.error();
  }
  Finished export_library(std::vector<std::string> more = {}) {
    std::vector<std::string> words{"export", "layers.yaml", "--output", "out"};
    words.insert(words.end(), more.begin(), more.end());
    return test::tracewright(words, {.folder = folder.path()});
  }
  // Compiles a program of tests/c99 against the export and runs it.
  void build_and_run(const std::string& program, std::vector<std::string> parts) {
    std::vector<std::string> words{
        "cc",        "-std=c99",   "-Wall", "-Wextra", "-Werror",
        "-pedantic", "-pthread",   "-I",    at("out"), TW_SOURCE_DIR "/tests/c99/" + program,
        "-o",        at("program")};
    words.insert(words.end(), parts.begin(), parts.end());
    words.insert(words.end(), {"-lm", "-Wl,-rpath," + at("out")});
    Finished built = test::run_program(words);
    ASSERT_EQ(built.code, 0) << built.err;
    Finished ran = test::run_program({at("program")});
    EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
    Finished needed = test::run_program({"ldd", at("program")});
    EXPECT_EQ(needed.out.find("libtracewright"), std::string::npos) << needed.out;
  }

  test::TemporaryDirectory folder;
};

TEST_F(Export, AStrictCProgramGetsTheRightNumbersFromTwoThreads) {
  Finished exported = export_library();
  ASSERT_EQ(exported.code, 0) << exported.err;
  build_and_run("use_library.c", {at("out/liblayers.a")});
  build_and_run("use_library.c", {at("out/liblayers.so")});
}

TEST_F(Export, TheShippedThreadPoolRunsAParallelKernel) {
  Finished exported = export_library({"--static"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_FALSE(std::filesystem::exists(at("out/liblayers.so")));
  Finished pool = test::run_program({"cc", "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-c",
                                     at("out/tw_thread_pool.c"), "-o", at("pool.o")});
  ASSERT_EQ(pool.code, 0) << pool.err;
  build_and_run("use_pool.c", {at("pool.o"), at("out/liblayers.a")});
}

TEST_F(Export, TheTracesBesideTheLibraryGiveTheSameCodeAgain) {
  ASSERT_EQ(export_library().code, 0);
  for (const char* task : {"ffn", "twice"}) {
    Finished from_trace =
        test::tracewright({"replay", at(cat("out/traces/", task, ".tw")), "--hash", "--json"});
    Finished from_database = test::tracewright(
        {"replay", "layers.yaml", "--task", task, "--hash", "--json"}, {.folder = folder.path()});
    ASSERT_EQ(from_trace.code, 0) << from_trace.err;
    auto hash = [](const std::string& text) { return text.substr(text.find("\"ir_hash\"")); };
    EXPECT_EQ(hash(from_trace.out), hash(from_database.out));
  }
}

// A macro that is defined twice is an error of the strict compiler here.
TEST_F(Export, TasksWhoseNamesDifferInCapitalsHaveMacrosOfTheirOwn) {
  test::write_file(at("layers.yaml"),
                   "version: 1\ndatabase: layers.db\ntarget: {kind: cpu, threads: 1}\ntasks:\n"
                   "  - {name: ffn, op: dense, args: {M: 24, N: 36, K: 40}, epilogue: [bias, relu]}\n"
                   "  - {name: FFN, op: dense, args: {M: 24, N: 36, K: 40}, epilogue: [bias, relu]}\n");
  Finished exported = export_library();
  ASSERT_EQ(exported.code, 0) << exported.err;
  test::write_file(at("both.c"), "#include \"layers.h\"\nint main(void) { return (int)(LAYERS_ffn_SCRATCH_BYTES(1) - LAYERS_FFN_SCRATCH_BYTES(1)); }\n");
  Finished built = test::run_program({"cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I", at("out"), at("both.c"), "-o", at("both")});
  EXPECT_EQ(built.code, 0) << built.err;
}

TEST_F(Export, ATaskWithoutAKernelIsNamed) {
  test::write_file(at("layers.yaml"),
                   "version: 1\ndatabase: layers.db\ntasks:\n  - {name: other, op: matmul, args: "
                   "{M: 8, N: 8, K: 8}}\n");
  Finished exported = export_library();
  EXPECT_EQ(exported.code, 1);
  EXPECT_EQ(exported.err,
            "tracewright: other: no kernel in layers.db; `tracewright tune` finds some\n");
}

}  // namespace
}  // namespace tw
