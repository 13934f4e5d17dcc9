// An exported library as others use it: written by the real command from a database, compiled as
// strict C99, linked without tracewright, run from two threads at once.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "backends/target.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/text/workload.h"
#include "runtime/export/finalist_files.h"
#include "runtime/store/database.h"
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
    add(*opened, "ffn", operator_library(), "dense", {{"M", i64{24}}, {"N", i64{36}}, {"K", i64{40}}}, {"bias", "relu"},
        1, ffn_schedule);
    Source source{"twice.tw", workload_file};
    Diagnostics diagnostics(source);
    WorkloadModule module = parse_workloads(source, diagnostics);
    add(*opened, "twice", module, "twice", {{"M", i64{32}}, {"N", i64{64}}}, {}, 2, twice_schedule);
  }
  std::string at(const std::string& name) const { return folder.path() + "/" + name; }

  void add(Database& database, const char* task, const WorkloadModule& module, const char* workload,
           const WorkloadArguments& arguments, const std::vector<std::string>& epilogues, int threads,
           const char* schedule) {
    Diagnostics diagnostics(*module.source);
    std::optional<OwnedProgram> program = instantiate(module, workload, arguments, epilogues, diagnostics);
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
    record.host = host_description();
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
    std::vector<std::string> words{"cc",        "-std=c99",   "-Wall", "-Wextra", "-Werror",
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
  Finished pool = test::run_program(
      {"cc", "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-c", at("out/tw_thread_pool.c"), "-o", at("pool.o")});
  ASSERT_EQ(pool.code, 0) << pool.err;
  build_and_run("use_pool.c", {at("pool.o"), at("out/liblayers.a")});
}

TEST_F(Export, TheTracesBesideTheLibraryGiveTheSameCodeAgain) {
  ASSERT_EQ(export_library().code, 0);
  for (const char* task : {"ffn", "twice"}) {
    Finished from_trace = test::tracewright({"replay", at(cat("out/traces/", task, ".tw")), "--hash", "--json"});
    Finished from_database =
        test::tracewright({"replay", "layers.yaml", "--task", task, "--hash", "--json"}, {.folder = folder.path()});
    ASSERT_EQ(from_trace.code, 0) << from_trace.err;
    auto hash = [](const std::string& text) { return text.substr(text.find("\"ir_hash\"")); };
    EXPECT_EQ(hash(from_trace.out), hash(from_database.out));
  }
}

// The records say one microsecond. A kernel from a trace file was measured nowhere.
TEST_F(Export, TheManifestSaysOperationsAndWhereItIsKnownTheSpeed) {
  auto tasks = [&](const std::string& library) {
    return boost::json::parse(test::read_file(at(library + "/manifest.json"))).at("tasks").as_array();
  };
  ASSERT_EQ(export_library().code, 0);
  boost::json::array measured = tasks("out");
  ASSERT_EQ(measured.size(), 2u);
  for (const boost::json::value& task : measured) {
    double flops = task.at("flops").to_number<double>();
    EXPECT_GE(flops, task.at("name") == "ffn" ? 2.0 * 24 * 36 * 40 : 32 * 64) << task;
    EXPECT_NEAR(task.at("microseconds").to_number<double>(), 1, 1e-9);
    EXPECT_NEAR(task.at("gflops").to_number<double>(), flops * 1e-3, flops * 1e-9) << task;
  }
  Finished unmeasured = test::tracewright({"export", "out/traces/ffn.tw", "--output", "of_trace", "--name", "lib"},
                                          {.folder = folder.path()});
  ASSERT_EQ(unmeasured.code, 0) << unmeasured.err;
  boost::json::object task = tasks("of_trace")[0].as_object();
  EXPECT_EQ(task.at("flops"), measured[0].at("flops"));
  for (const char* key : {"record", "microseconds", "gflops"}) EXPECT_FALSE(task.contains(key)) << key;
}

// A macro that is defined twice is an error of the strict compiler here.
TEST_F(Export, TasksWhoseNamesDifferInCapitalsHaveMacrosOfTheirOwn) {
  test::write_file(at("layers.yaml"),
                   "version: 1\ndatabase: layers.db\ntarget: {kind: cpu, threads: 1}\ntasks:\n"
                   "  - {name: ffn, op: dense, args: {M: 24, N: 36, K: 40}, epilogue: [bias, relu]}\n"
                   "  - {name: FFN, op: dense, args: {M: 24, N: 36, K: 40}, epilogue: [bias, relu]}\n");
  Finished exported = export_library();
  ASSERT_EQ(exported.code, 0) << exported.err;
  test::write_file(at("both.c"),
                   "#include \"layers.h\"\nint main(void) { return (int)(LAYERS_ffn_SCRATCH_BYTES(1) - "
                   "LAYERS_FFN_SCRATCH_BYTES(1)); }\n");
  Finished built = test::run_program(
      {"cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I", at("out"), at("both.c"), "-o", at("both")});
  EXPECT_EQ(built.code, 0) << built.err;
}

// ---- several at once

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Exports of two kinds into one folder, three processes for each, again and again. Meanwhile somebody reads: each file
// is whole, the one or the other, and under the folder's lock all are of one export.
void expect_whole_files(const std::string& folder, const std::vector<std::string> (&exports)[2],
                        const std::vector<std::string>& files) {
  std::map<std::string, std::string> whole[2];
  for (int i = 0; i < 2; ++i) {
    std::vector<std::string> words = exports[i];
    words.insert(words.end(), {"--output", cat("alone", i)});
    Finished finished = test::tracewright(words, {.folder = folder});
    ASSERT_EQ(finished.code, 0) << finished.err;
    for (const std::string& file : files) whole[i][file] = bytes_of(cat(folder, "/alone", i, "/", file));
  }
  for (const std::string& file : files) ASSERT_NE(whole[0][file], whole[1][file]) << file;
  std::atomic<int> running = 6;
  std::vector<std::thread> exporters;
  for (int i = 0; i < 6; ++i) {
    exporters.emplace_back([&, words = exports[i % 2]]() mutable {
      words.insert(words.end(), {"--output", "out"});
      for (int round = 0; round < 3; ++round) {
        Finished finished = test::tracewright(words, {.folder = folder});
        EXPECT_EQ(finished.code, 0) << finished.err;
      }
      --running;
    });
  }
  int seen = 0;
  while (running > 0) {
    for (const std::string& file : files) {
      std::string text = bytes_of(cat(folder, "/out/", file));
      EXPECT_TRUE(text.empty() || text == whole[0][file] || text == whole[1][file])
          << file << " has " << text.size() << " bytes";
    }
    int lock = open((folder + "/out/.tracewright-lock").c_str(), O_RDONLY | O_CLOEXEC);
    if (lock >= 0 && flock(lock, LOCK_SH) == 0) {
      std::map<std::string, std::string> together;
      for (const std::string& file : files) together[file] = bytes_of(cat(folder, "/out/", file));
      bool is_empty =
          std::all_of(together.begin(), together.end(), [](const auto& file) { return file.second.empty(); });
      EXPECT_TRUE(is_empty || together == whole[0] || together == whole[1]);
      seen += !is_empty;
    }
    if (lock >= 0) close(lock);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (std::thread& exporter : exporters) exporter.join();
  EXPECT_GT(seen, 0);
  EXPECT_FALSE(std::filesystem::exists(folder + "/out/.tracewright-new"));
}

TEST_F(Export, LibrariesThatAreExportedAtOnceAreNeverReadByHalves) {
  test::write_file(at("one.yaml"),
                   "version: 1\ndatabase: layers.db\ntarget: {kind: cpu, threads: 1}\ntasks:\n"
                   "  - {name: ffn, op: dense, args: {M: 24, N: 36, K: 40}, epilogue: [bias, relu]}\n");
  const std::vector<std::string> exports[2] = {{"export", "one.yaml", "--name", "lib"},
                                               {"export", "layers.yaml", "--name", "lib"}};
  expect_whole_files(folder.path(), exports, {"lib.h", "lib.c", "manifest.json", "liblib.a", "liblib.so"});
}

TEST_F(Export, KernelsForDevicesThatAreExportedAtOnceAreNeverReadByHalves) {
  const std::string corpus = TW_SOURCE_DIR "/tests/corpus/";
  const std::vector<std::string> exports[2] = {{"export", corpus + "opencl_dense.tw", "--name", "lib"},
                                               {"export", corpus + "opencl_softmax.tw", "--name", "lib"}};
  expect_whole_files(folder.path(), exports, {"lib.h", "lib.c", "manifest.json"});
}

// Digests in the manifest are those of the machine code beside it.
TEST(Finalists, OfSearchesThatEndAtOnceAreNeverReadByHalves) {
  test::TemporaryDirectory folder;
  auto finalists = [](int search) {
    FinalistFile file{.task = "t",
                      .workload = std::string(32, 'a'),
                      .program = std::string(32, 'b'),
                      .target = "cuda -arch=sm_80",
                      .device = "a100",
                      .emulation = "right"};
    file.kernel.code = std::string(200000, static_cast<char>('0' + search));
    file.kernel.manifest.symbol = "f";
    file.kernel.manifest.run_launches = {{.name = "f", .groups = {1, 1, 1}, .threads = {1, 1, 1}}};
    file.trace_file = cat("trace ", search);
    return std::vector{file};
  };
  std::vector<pid_t> writers;
  for (int search = 0; search < 4; ++search) {
    writers.push_back(fork());
    if (writers.back() != 0) continue;
    bool good = true;
    for (int round = 0; round < 25; ++round) good &= write_finalists(finalists(search), folder.path()).error.empty();
    _exit(good ? 0 : 1);
  }
  int seen = 0;
  for (std::size_t left = writers.size(); left > 0;) {
    int status = 0;
    if (waitpid(-1, &status, WNOHANG) > 0) {
      EXPECT_EQ(status, 0);
      --left;
    }
    if (!std::filesystem::exists(folder.path() + "/manifest.json")) continue;  // none is there yet
    std::string error;
    std::optional<std::vector<FinalistFile>> read = read_finalists(folder.path(), error);
    ASSERT_TRUE(read) << error;
    ASSERT_EQ(read->size(), 1u);
    EXPECT_EQ((*read)[0].trace_file, cat("trace ", (*read)[0].kernel.code[0]));
    ++seen;
  }
  EXPECT_GT(seen, 0);
}

TEST_F(Export, OneThatFailsChangesNothing) {
  ASSERT_EQ(export_library({"--name", "lib"}).code, 0);
  std::string header = bytes_of(at("out/lib.h")), library = bytes_of(at("out/liblib.so"));
  test::write_file(at("layers.yaml"),
                   "version: 1\ndatabase: layers.db\ntarget: {kind: cpu, threads: 1}\ntasks:\n"
                   "  - {name: other, op: dense, args: {M: 24, N: 36, K: 40}, epilogue: [bias, relu]}\n");
  std::filesystem::create_directory(at("bin"));
  std::filesystem::create_symlink("/bin/false", at("bin/cc"));
  std::filesystem::create_directory(at("out/.tracewright-new"));  // as an export leaves it that is killed
  test::write_file(at("out/.tracewright-new/lib.h"), "half");
  Finished failed =
      test::tracewright({"export", "layers.yaml", "--output", "out", "--name", "lib"},
                        {.folder = folder.path(), .environment = {cat("PATH=", at("bin"), ":", std::getenv("PATH"))}});
  EXPECT_EQ(failed.code, 3) << failed.err;
  EXPECT_EQ(failed.out, "");
  EXPECT_EQ(bytes_of(at("out/lib.h")), header);
  EXPECT_EQ(bytes_of(at("out/liblib.so")), library);
  EXPECT_FALSE(std::filesystem::exists(at("out/traces/other.tw")));
  EXPECT_FALSE(std::filesystem::exists(at("out/.tracewright-new")));
  EXPECT_EQ(export_library({"--name", "lib"}).code, 0);
  EXPECT_NE(bytes_of(at("out/lib.h")), header);
}

TEST_F(Export, AFolderThatCannotBeLockedIsSaid) {
  std::filesystem::create_directories(at("out/.tracewright-lock"));
  Finished finished = export_library();
  EXPECT_EQ(finished.code, 3);
  EXPECT_EQ(finished.err, "tracewright: cannot lock out/.tracewright-lock: Is a directory\n");
}

TEST_F(Export, ATaskWithoutAKernelIsNamed) {
  test::write_file(at("layers.yaml"),
                   "version: 1\ndatabase: layers.db\ntasks:\n  - {name: other, op: matmul, args: "
                   "{M: 8, N: 8, K: 8}}\n");
  Finished exported = export_library();
  EXPECT_EQ(exported.code, 1);
  EXPECT_EQ(exported.err, "tracewright: other: no kernel in layers.db; `tracewright tune` finds some\n");
}

}  // namespace
}  // namespace tw
