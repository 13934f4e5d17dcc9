// From a task list for a GPU that is not there to records, as real processes: `tune --compile-only` (where NVRTC is
// installed) and `run-manifest` against a driver that fails on demand (tests/cuda_stub). What a real GPU would say is
// not tested here.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "backends/cuda/cubin.h"
#include "dsl/base/sanitizer.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "runtime/emulation/emulation.h"
#include "runtime/export/finalist_files.h"
#include "support/nvrtc.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

constexpr const char* kTimeout = TW_SANITIZED ? "5" : "0.2";  // seconds

constexpr const char* kList = R"yaml(version: 1
target: {kind: cuda, arch: sm_80}
tasks:
  - {name: mm, op: matmul, args: {M: 64, N: 64, K: 32}}
)yaml";

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// A folder of finalists, made once for all tests.
class RunManifest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
    static const Made made;
    ASSERT_EQ(made.finished.code, 0) << made.finished.err;
    std::filesystem::copy(made.folder.path(), folder_.path(), std::filesystem::copy_options::recursive);
    output_ = made.finished.out;
  }

  struct Made {
    Made() {
      test::write_file(folder.path() + "/list.yaml", kList);
      finished = test::tracewright({"tune", "list.yaml", "--compile-only", "--finalists", "3", "--output", "out"},
                                   {.folder = folder.path()});
    }
    test::TemporaryDirectory folder;
    test::Finished finished;
  };

  // run-manifest with the stub as the driver.
  test::Finished run(std::vector<std::string> environment, const char* stub = "cuda_stub") {
    environment.push_back(cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/", stub));
    environment.push_back("TW_STUB_GEMM=64,64,32");
    environment.push_back(cat("TW_STUB_ONCE=", folder_.path(), "/once"));
    return test::tracewright({"run-manifest", "out", "--timeout", kTimeout, "--json"},
                             {.folder = folder_.path(), .environment = environment});
  }
  void once() { test::write_file(folder_.path() + "/once", "x"); }

  // The status of each finalist, in their order.
  static std::vector<std::string> statuses(const test::Finished& finished) {
    std::vector<std::string> out;
    boost::json::error_code code;
    boost::json::value json = boost::json::parse(finished.out, code);
    if (code) return {cat("no JSON: ", finished.out, finished.err)};
    for (const auto& row : json.at("rows").as_array()) out.emplace_back(row.at("status").as_string());
    return out;
  }

  test::TemporaryDirectory folder_;
  std::string output_;
};

using Statuses = std::vector<std::string>;

TEST_F(RunManifest, FinalistsAreWrittenWhole) {
  std::string error;
  std::optional<std::vector<FinalistFile>> finalists = read_finalists(folder_.path() + "/out", error);
  ASSERT_TRUE(finalists) << error;
  ASSERT_EQ(finalists->size(), 3u);
  for (const FinalistFile& finalist : *finalists) {
    EXPECT_EQ(finalist.task, "mm");
    EXPECT_EQ(finalist.target, "cuda -arch=sm_80");
    EXPECT_GT(finalist.predicted_seconds, 0);
    EXPECT_EQ(finalist.emulation, "right");
    std::string base = cat(folder_.path(), "/out/mm/0", finalist.rank);
    EXPECT_NE(read(base + ".cu").find(finalist.kernel.manifest.run_launches.at(0).name), std::string::npos);
    EXPECT_NE(read(base + ".ptx").find(".target sm_80"), std::string::npos);
    std::optional<std::vector<cuda::CubinKernel>> code = cuda::read_cubin(finalist.kernel.code, error);
    ASSERT_TRUE(code) << error;
    for (const cuda::CubinKernel& kernel : *code) EXPECT_EQ(kernel.count("STL"), 0);
    // The trace rebuilds the source.
    test::Finished again = test::tracewright({"replay", base + ".tw", "--emit", "source"}, {.folder = folder_.path()});
    EXPECT_EQ(again.code, 0) << again.err;
    // Replay of a trace names kernels after the workload, a task after itself.
    EXPECT_EQ(std::regex_replace(again.out, std::regex("\\bmatmul_(run|prepack)_"), "mm_$1_"), read(base + ".cu"));
  }
  EXPECT_LE((*finalists)[0].predicted_seconds, (*finalists)[1].predicted_seconds);
  EXPECT_NE((*finalists)[0].program, (*finalists)[1].program);
  EXPECT_NE(output_.find("tracewright run-manifest out"), std::string::npos) << output_;
}

TEST_F(RunManifest, TheManifestSaysWhatMachineCodeHolds) {
  boost::json::value manifest = boost::json::parse(read(folder_.path() + "/out/manifest.json"));
  for (const boost::json::value& finalist : manifest.at("finalists").as_array()) {
    std::string error;
    std::optional<std::vector<cuda::CubinKernel>> code =
        cuda::read_cubin(read(cat(folder_.path(), "/out/", finalist.at("cubin").as_string().c_str())), error);
    ASSERT_TRUE(code) << error;
    const boost::json::array& kernels = finalist.at("kernels").as_array();
    ASSERT_EQ(kernels.size(), code->size());
    for (const boost::json::value& kernel : kernels) {
      auto is_its_code = [&](const cuda::CubinKernel& each) { return each.name == kernel.at("name").as_string(); };
      auto found = std::find_if(code->begin(), code->end(), is_its_code);
      ASSERT_NE(found, code->end());
      EXPECT_EQ(kernel.at("registers").as_int64(), found->registers);
      EXPECT_EQ(kernel.at("register_conflicts").as_int64(), found->register_conflicts);
      EXPECT_EQ(kernel.at("opcodes").at("FFMA").as_int64(), found->count("FFMA"));
      EXPECT_GT(kernel.at("predicted_us").as_double(), 0);
    }
  }
}

TEST_F(RunManifest, SaysThatThereIsNoDriver) {
  if (test::has_cuda_driver()) GTEST_SKIP() << "this machine has a driver";
  test::Finished finished =
      test::tracewright({"run-manifest", "out"}, {.folder = folder_.path(), .environment = {"LD_LIBRARY_PATH="}});
  EXPECT_NE(finished.err.find("there is no CUDA driver (libcuda.so.1)"), std::string::npos) << finished.err;
  EXPECT_EQ(finished.code, 3);
  EXPECT_EQ(finished.out, "");
}

TEST_F(RunManifest, RecordsAreStored) {
  test::Finished finished = run({});
  EXPECT_EQ(finished.code, 0) << finished.err;
  for (const std::string& status : statuses(finished)) EXPECT_TRUE(status == "ok" || status == "noisy") << status;
  test::Finished best = test::tracewright({"show", "out/records.db", "--json"}, {.folder = folder_.path()});
  EXPECT_EQ(best.code, 0) << best.err;
  EXPECT_NE(best.out.find("cuda -arch=sm_80"), std::string::npos) << best.out;
}

// Shared memory beyond what a kernel may declare: its launches give what the manifest says, and only after the driver
// was asked.
TEST_F(RunManifest, LaunchesGiveSharedMemory) {
  std::string path = folder_.path() + "/out/manifest.json", text = read(path);
  const std::string none = "\"dynamic_shared_bytes\":0";
  for (std::size_t at = text.find(none); at != std::string::npos; at = text.find(none))
    text.replace(at, none.size(), "\"dynamic_shared_bytes\":98304");
  test::write_file(path, text);
  for (const std::string& status : statuses(run({"TW_STUB_SHARED=98304"})))
    EXPECT_TRUE(status == "ok" || status == "noisy") << status;
  for (const std::string& status : statuses(run({"TW_STUB_SHARED=0"}))) EXPECT_EQ(status, "build error");
  text.replace(text.find("98304"), 5, "200000");  // more than the device has
  test::write_file(path, text);
  test::Finished finished = run({});
  EXPECT_EQ(statuses(finished).front(), "build error");
  EXPECT_NE(finished.out.find("cannot have 200000 bytes of shared memory"), std::string::npos) << finished.out;
}

// The records are those of the list's tasks: export finds them.
TEST_F(RunManifest, RecordsBecomeAnExport) {
  ASSERT_EQ(run({}).code, 0);
  test::write_file(folder_.path() + "/list.yaml", kList);
  test::Finished exported =
      test::tracewright({"export", "list.yaml", "--database", "out/records.db", "--output", "kernels", "--name", "lib"},
                        {.folder = folder_.path()});
  EXPECT_EQ(exported.code, 0) << exported.err;
  for (const char* name : {"lib.h", "lib.c", "tw_cuda_launcher.h", "cubins/mm.cubin", "sources/mm.cu", "traces/mm.tw"})
    EXPECT_NE(exported.out.find(name), std::string::npos) << name << "\n" << exported.out;
}

// Nothing has been measured: what the model thinks best, with its launcher.
TEST_F(RunManifest, FinalistsBecomeAnExportWithoutADevice) {
  auto exported = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "export");
    return test::tracewright(words, {.folder = folder_.path()});
  };
  test::Finished all = exported({"out", "--output", "kernels", "--name", "lib"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(read(folder_.path() + "/kernels/traces/mm.tw"), read(folder_.path() + "/out/mm/01.tw"));
  EXPECT_NE(read(folder_.path() + "/kernels/lib.h").find("lib_mm_run"), std::string::npos);
  EXPECT_FALSE(read(folder_.path() + "/kernels/cubins/mm.cubin").empty());
  boost::json::value task = boost::json::parse(read(folder_.path() + "/kernels/manifest.json")).at("tasks").at(0);
  EXPECT_FALSE(task.as_object().contains("microseconds")) << "nobody has measured it";
  test::Finished one = exported({"out/mm/02.tw", "--output", "second", "--name", "lib"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(read(folder_.path() + "/second/lib.h").find("lib_matmul_run"), std::string::npos);
  EXPECT_NE(exported({"out", "--output", "x", "--static"}).err.find("--static and --shared are for processors"),
            std::string::npos);
  EXPECT_NE(exported({"kernels/sources", "--output", "x"}).err.find("manifest.json cannot be read"), std::string::npos);
}

// Where the program is started does not change what a target is called.
TEST_F(RunManifest, ADescriptionOfADeviceHasOnePath) {
  std::filesystem::create_directory(folder_.path() + "/lists");
  test::write_file(folder_.path() + "/lists/mine.yaml", read(cat(TW_SOURCE_DIR, "/costmodel/devices/a100.yaml")));
  std::string list = kList;
  list.replace(list.find("arch: sm_80"), 11, "arch: sm_80, device: mine.yaml");
  test::write_file(folder_.path() + "/lists/list.yaml", list);
  auto target = [&](const std::string& file, const std::string& from) {
    test::Finished finished = test::tracewright(
        {"tune", file, "--compile-only", "--finalists", "1", "--seconds", "1", "--output", "found"}, {.folder = from});
    EXPECT_EQ(finished.code, 0) << finished.err;
    return std::string(
        boost::json::parse(read(from + "/found/manifest.json")).at("finalists").at(0).at("target").as_string());
  };
  EXPECT_EQ(target("list.yaml", folder_.path() + "/lists"), target("lists/list.yaml", folder_.path()));
}

TEST_F(RunManifest, AnotherSearchReplacesTheFilesOfTheOneBefore) {
  test::write_file(folder_.path() + "/out/mm/notes.txt", "mine");
  test::Finished again = test::tracewright(
      {"tune", "list.yaml", "--compile-only", "--finalists", "1", "--seconds", "1", "--output", "out"},
      {.folder = folder_.path()});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/out/mm/01.cu"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/out/mm/02.cu"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/out/mm/notes.txt"));
}

// The same worker measures for `tune`; a fault of one trial is a record, and the search goes on.
TEST_F(RunManifest, TuneMeasuresOnADevice) {
  std::string list = kList;
  list.replace(list.find("tasks:"), 6, "budget: {trials: 6}\ndatabase: tuned.db\ntasks:");
  test::write_file(folder_.path() + "/list.yaml", list);
  once();
  test::Finished finished = test::tracewright(
      {"tune", "list.yaml", "--json", "--model", "random"},
      {.folder = folder_.path(),
       .environment = {cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/cuda_stub"), "TW_STUB_GEMM=64,64,32",
                       "TW_STUB_FAULT=illegal", cat("TW_STUB_ONCE=", folder_.path(), "/once")}});
  ASSERT_EQ(finished.code, 0) << finished.err;
  boost::json::value task = boost::json::parse(finished.out).at("tasks").at(0);
  EXPECT_EQ(task.at("trials").as_int64(), 6);
  EXPECT_EQ(task.at("failed").as_int64(), 1) << finished.out;
  EXPECT_GT(task.at("best_us").to_number<double>(), 0);
}

TEST_F(RunManifest, FaultsAreRecordedAndTheNextOneRuns) {
  struct Row {
    const char *fault, *status;
  };
  for (const Row& row : {Row{"illegal", "crash"}, Row{"crash", "crash"}, Row{"hang", "timeout"},
                         Row{"wrong", "wrong result"}, Row{"outside", "out of bounds"}}) {
    once();
    test::Finished finished = run({cat("TW_STUB_FAULT=", row.fault)});
    std::vector<std::string> found = statuses(finished);
    ASSERT_EQ(found.size(), 3u) << row.fault << ": " << found[0];
    EXPECT_EQ(found[0], row.status) << row.fault << ": " << finished.out;
    for (std::size_t i = 1; i < found.size(); ++i)
      EXPECT_TRUE(found[i] == "ok" || found[i] == "noisy") << row.fault << ": " << found[i];
    EXPECT_EQ(finished.code, std::string(row.status).find("wrong") == 0 || std::string(row.fault) == "outside" ? 4 : 0)
        << row.fault;
  }
}

// Not all codes that end a context are those of a kernel, and some come when a kernel has been checked and timed: the
// next one has a worker that works.
TEST_F(RunManifest, ADeadContextIsNoFailureOfTheNextKernel) {
  for (const char* when : {"TW_STUB_CODE=226", "TW_STUB_CODE=810", "TW_STUB_CODE=1", "TW_STUB_COUNTS=alone"}) {
    once();
    test::Finished finished = run({"TW_STUB_FAULT=illegal", when});
    std::vector<std::string> found = statuses(finished);
    ASSERT_EQ(found.size(), 3u) << when << finished.out;
    EXPECT_EQ(found[0], "crash") << when << finished.out;
    for (std::size_t i = 1; i < found.size(); ++i)
      EXPECT_TRUE(found[i] == "ok" || found[i] == "noisy") << when << ": " << found[i];
    EXPECT_NE(finished.out.find("the device answers no more"), std::string::npos) << when << finished.out;
  }
}

// Said before anything is stored: it is no failure of the kernels.
TEST_F(RunManifest, ADeviceThatDoesNotRunThemIsSaidFirst) {
  struct Row {
    std::vector<std::string> environment, words;
    const char* message;
  };
  std::filesystem::remove(folder_.path() + "/once");
  for (const Row& row : {Row{{"TW_STUB_ARCH=90"}, {}, "kernels for sm_80 do not run on device 0 "},
                         Row{{}, {"--device", "3"}, "there is no CUDA device 3"},
                         Row{{"TW_STUB_CUDA=11080"}, {}, "machine code of NVRTC 1"}}) {
    std::vector<std::string> words = {"run-manifest", "out", "--database", "none.db"}, environment = row.environment;
    words.insert(words.end(), row.words.begin(), row.words.end());
    environment.insert(environment.end(),
                       {cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/cuda_stub"), "TW_STUB_GEMM=64,64,32"});
    test::Finished finished = test::tracewright(words, {.folder = folder_.path(), .environment = environment});
    EXPECT_EQ(finished.code, 3) << finished.out << finished.err;
    EXPECT_NE(finished.err.find(row.message), std::string::npos) << finished.err;
    EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/none.db"));
  }
}

// A kernel that does nothing any more once it has run a few times: its cold calls come last and find poison in the
// output.
TEST_F(RunManifest, WorkLeftOutLaterIsFound) {
  std::filesystem::remove(folder_.path() + "/once");
  test::Finished finished =
      test::tracewright({"run-manifest", "out", "--json"},
                        {.folder = folder_.path(),
                         .environment = {cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/cuda_stub"),
                                         "TW_STUB_GEMM=64,64,32", "TW_STUB_FAULT=idle", "TW_STUB_AFTER=3"}});
  EXPECT_EQ(statuses(finished).front(), "wrong result") << finished.out;
  EXPECT_NE(finished.out.find("expected"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("with cold caches"), std::string::npos) << finished.out;
}

// An idle GPU has a low clock: kernels are timed once it has risen, however slowly it does.
TEST_F(RunManifest, TimesAreTakenWhenTheClockHasRisen) {
  std::string clocks = folder_.path() + "/clocks";
  for (const char* rise : {"400", "20"}) {
    std::filesystem::remove(clocks);
    test::Finished finished = test::tracewright(
        {"run-manifest", "out", "--json"},
        {.folder = folder_.path(),
         .environment = {cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/cuda_stub"), "TW_STUB_GEMM=64,64,32",
                         cat("TW_STUB_CLOCK=", clocks), cat("TW_STUB_RISE=", rise)}});
    EXPECT_EQ(statuses(finished).front(), "ok") << finished.out;
    EXPECT_NE(test::read_file(clocks).find("1980"), std::string::npos) << rise << ": " << test::read_file(clocks);
  }
}

// Guard bands are a mebibyte wide: kernels whose indices are off by a row write far from their data.
TEST_F(RunManifest, WritesFarBesideTheDataAreSeen) {
  test::Finished finished = test::tracewright(
      {"run-manifest", "out", "--json"},
      {.folder = folder_.path(),
       .environment = {cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/cuda_stub"), "TW_STUB_GEMM=64,64,32",
                       "TW_STUB_FAULT=outside", cat("TW_STUB_OUTSIDE=", (1 << 20) / sizeof(float) - 1)}});
  EXPECT_EQ(finished.code, 4) << finished.err;
  EXPECT_EQ(statuses(finished).front(), "out of bounds") << finished.out;
}

// Machine code of one source may differ from one compilation to the next, so the source tells what is the same.
TEST_F(RunManifest, RecordsNameTheSource) {
  std::string error;
  auto finalists = read_finalists(folder_.path() + "/out", error);
  ASSERT_TRUE(finalists) << error;
  for (const FinalistFile& finalist : *finalists) {
    std::string source = read(cat(folder_.path(), "/out/mm/0", finalist.rank, ".cu"));
    EXPECT_EQ(finalist.object, to_hex(hash_bytes(source)));
  }
  ASSERT_EQ(run({}).code, 0);
  std::string records = test::tracewright({"db", "export", "out/records.db"}, {.folder = folder_.path()}).out;
  for (const FinalistFile& finalist : *finalists)
    EXPECT_NE(records.find(finalist.object), std::string::npos) << finalist.rank;
}

TEST_F(RunManifest, AHotDeviceIsNamed) {
  test::Finished finished = test::tracewright(
      {"run-manifest", "out", "--json"}, {.folder = folder_.path(),
                                          .environment = {cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/cuda_stub"),
                                                          "TW_STUB_GEMM=64,64,32", "TW_STUB_SLOWDOWN=64"}});
  EXPECT_EQ(statuses(finished).front(), "noisy") << finished.out;
  EXPECT_NE(finished.out.find("the device is slowed down by heat"), std::string::npos) << finished.out;
}

// What became the best was timed with cold caches, too, and everything that shows its time shows that one.
TEST_F(RunManifest, TuneTimesItsBestWithColdCaches) {
  std::string list = kList;
  list.replace(list.find("tasks:"), 6, "budget: {trials: 6}\ndatabase: tuned.db\ntasks:");
  test::write_file(folder_.path() + "/list.yaml", list);
  test::Finished finished =
      test::tracewright({"tune", "list.yaml", "--json", "--model", "random"},
                        {.folder = folder_.path(),
                         .environment = {cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/cuda_stub"),
                                         "TW_STUB_GEMM=64,64,32", "TW_STUB_COLD=20000", "TW_STUB_SERIAL=500"}});
  ASSERT_EQ(finished.code, 0) << finished.err;
  boost::json::value task = boost::json::parse(finished.out).at("tasks").at(0);
  ASSERT_TRUE(task.as_object().contains("cold_us")) << finished.out;
  EXPECT_GE(task.at("cold_us").to_number<double>(), 20000);
  EXPECT_LT(task.at("best_us").to_number<double>(), 20000);
  auto json_of = [&](std::vector<std::string> words) {
    return boost::json::parse(test::tracewright(words, {.folder = folder_.path()}).out);
  };
  EXPECT_NEAR(json_of({"show", "tuned.db", "--json"}).at("tasks").at(0).at("cold_us").to_number<double>(),
              task.at("cold_us").to_number<double>(), 1e-5);
  std::string id = std::to_string(task.at("record").as_int64());
  EXPECT_GE(json_of({"show", "tuned.db", "--record", id, "--json"}).at("cold_us").to_number<double>(), 20000);
  EXPECT_NE(test::tracewright({"show", "tuned.db"}, {.folder = folder_.path()}).out.find(", cold "), std::string::npos);
  // Each trial has one.
  boost::json::array history = json_of({"show", "tuned.db", "--history", "--json"}).at("trials").as_array();
  for (const boost::json::value& row : history)
    EXPECT_TRUE(row.as_object().contains("cold_us")) << boost::json::serialize(history);
  boost::json::value untuned = json_of({"show", "tuned.db", "--record", "2", "--json"});
  EXPECT_EQ(untuned.at("trace").as_string(), "");
  EXPECT_GT(untuned.at("cold_us").to_number<double>(), 0);
}

TEST_F(RunManifest, ADriverThatCannotBeUsedIsSaid) {
  struct Row {
    const char *fault, *message;
  };
  std::filesystem::remove(folder_.path() + "/once");
  for (const Row& row :
       {Row{"init", "the CUDA driver does not start"}, Row{"none", "the CUDA driver finds no device"}}) {
    once();
    test::Finished finished = run({cat("TW_STUB_FAULT=", row.fault)});
    EXPECT_EQ(finished.code, 3);
    EXPECT_NE(finished.err.find(row.message), std::string::npos) << finished.err;
  }
  test::Finished old = run({}, "cuda_stub_old");
  EXPECT_EQ(old.code, 3);
  EXPECT_NE(old.err.find("libcuda.so.1 has no cuLaunchKernelEx; a driver for CUDA 12 or newer is needed"),
            std::string::npos)
      << old.err;
  once();
  test::Finished memory = run({"TW_STUB_FAULT=memory"});
  EXPECT_EQ(memory.code, 1);
  EXPECT_NE(memory.err.find("the device has no memory for `A`"), std::string::npos) << memory.err;
  EXPECT_EQ(statuses(memory), (std::vector<std::string>{"out of memory", "out of memory", "out of memory"}))
      << memory.out;
}

TEST_F(RunManifest, DamagedManifestsAreRefused) {
  std::string path = folder_.path() + "/out/manifest.json", good = read(path);
  struct Row {
    const char *from, *to, *message;
  };
  const Row rows[] = {
      {"\"rank\":1", "\"rank\":\"one\"", "finalists[0].rank: expected an integer from 1 to 1000000, found \"one\""},
      {"\"format\":2", "\"format\":1", "format: expected an integer from 2 to 2, found 1"},
      {"\"groups\":[", "\"groups\":[0,", "finalists[0].run.launches[0].groups: expected three integers, found"},
      {"\"buffer\":2", "\"buffer\":7", "expected an integer from 0 to 2, found 7"},
      {"\"bytes\":8192", "\"bytes\":8190",
       "finalists[0].run.buffers[0].bytes: expected 8192 bytes, as shape and type say, found 8190"},
      {"\"dtype\":\"f32\"", "\"dtype\":\"f31\"",
       "finalists[0].run.buffers[0].dtype: expected an element type, found \"f31\""},
      {"\"cubin\":\"mm/01.cubin\"", "\"cubin\":\"../01.cubin\"", "finalists[0].cubin: expected a file in this folder"},
      {"\"cubin\":\"mm/01.cubin\"", "\"cubin\":\"mm/02.cubin\"",
       "mm/02.cubin is not what the manifest was written for (its digest differs)"},
      {"\"symbol\"", "\"cymbol\"", "finalists[0].symbol: missing"},
      {"{\"format\"", "{\"format", "is no JSON"},
  };
  for (const Row& row : rows) {
    std::string text = good;
    std::size_t at = text.find(row.from);
    ASSERT_NE(at, std::string::npos) << row.from;
    test::write_file(path, text.replace(at, std::string(row.from).size(), row.to));
    test::Finished finished = run({});
    EXPECT_EQ(finished.code, 2) << row.to;
    EXPECT_NE(finished.err.find(row.message), std::string::npos) << row.to << "\n" << finished.err;
  }
  std::filesystem::remove(path);
  EXPECT_NE(
      run({}).err.find("out/manifest.json cannot be read; `tracewright tune --compile-only` writes such a folder"),
      std::string::npos);
}

// Needs neither NVRTC nor a driver.
TEST(CompileOnly, SaysWhatItCannotDo) {
  test::TemporaryDirectory folder;
  struct Row {
    const char *target, *message;
    int code;
  };
  const Row rows[] = {
      {"{kind: cpu, threads: 1}", "--compile-only is for `cuda` targets, but mm is for", 2},
      {"{kind: cuda, arch: sm_81}", "unknown arch `sm_81`", 2},
      {"{kind: cuda, device: a10}", "unknown device `a10`", 2},
      {"{kind: cuda, arch: sm_80, device: none.yaml}", "none.yaml of a device cannot be read", 3},
      {"{kind: cuda, arch: sm_80, device: ./none}", "none of a device cannot be read", 3},
      {"{kind: cuda, arch: sm_80, device: ./}", "of a device cannot be read", 3},
  };
  bool has_nvrtc = test::missing_for_nvrtc().empty();
  for (const Row& row : rows) {
    if (row.code == 3 && !has_nvrtc) continue;
    std::string list = kList;
    list.replace(list.find("{kind: cuda, arch: sm_80}"), 25, row.target);
    test::write_file(folder.path() + "/list.yaml", list);
    test::Finished finished = test::tracewright({"tune", "list.yaml", "--compile-only"}, {.folder = folder.path()});
    EXPECT_EQ(finished.code, row.code) << finished.err;
    EXPECT_NE(finished.err.find(row.message), std::string::npos) << finished.err;
  }
  test::write_file(folder.path() + "/list.yaml", kList);
  test::write_file(folder.path() + "/afile", "");
  test::Finished nowhere =
      test::tracewright({"tune", "list.yaml", "--compile-only", "--output", "afile"}, {.folder = folder.path()});
  EXPECT_EQ(nowhere.code, 3);
  EXPECT_EQ(nowhere.out, "") << "nothing is searched";
  EXPECT_NE(nowhere.err.find("cannot make the folder afile"), std::string::npos) << nowhere.err;
  if (test::has_cuda_driver()) GTEST_SKIP() << "this machine has a driver";
  test::Finished measured =
      test::tracewright({"tune", "list.yaml"}, {.folder = folder.path(), .environment = {"LD_LIBRARY_PATH="}});
  EXPECT_EQ(measured.code, 3);
  EXPECT_NE(measured.err.find("`tracewright tune --compile-only` searches without a device"), std::string::npos)
      << measured.err;
}

// A driver whose only device is of another kind than `arch`: nothing is searched for it.
TEST(TuneOnCuda, AnArchThatTheDeviceDoesNotRunIsSaidFirst) {
  struct Case {
    const char *arch, *device, *said;
  };
  for (Case c : {Case{"sm_80", "90", "kernels for sm_80 do not run on device 0 "},
                 Case{"sm_90a", "80", "kernels for sm_90a do not run on device 0 "},
                 Case{"sm_89", "86", "`arch: sm_86`"}, Case{"sm_90", "80", "kernels for sm_90 do not run"},
                 Case{"sm_80", "90", "write `device: auto` or `arch: sm_90a`"}}) {
    test::TemporaryDirectory folder;
    test::write_file(folder.path() + "/list.yaml",
                     cat("version: 1\ntarget: {kind: cuda, arch: ", c.arch,
                         "}\ntasks:\n  - {name: mm, op: dense, args: {M: 32, N: 48, K: 24}}\n"));
    test::Finished tuned = test::tracewright(
        {"tune", "list.yaml", "--database", "list.db"},
        {.folder = folder.path(),
         .environment = {cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/cuda_stub"), cat("TW_STUB_ARCH=", c.device)}});
    EXPECT_EQ(tuned.code, 3) << tuned.out << tuned.err;
    EXPECT_NE(tuned.err.find(c.said), std::string::npos) << tuned.err;
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/list.db"));
  }
}

// The trace of the second of two trials; the stub computes nothing, so they fail.
std::string trace_of_second_trial(int side) {
  test::TemporaryDirectory folder;
  test::write_file(folder.path() + "/list.yaml",
                   cat("version: 1\ntarget: {kind: cuda, arch: sm_80}\ntasks:\n  - {name: mm, op: matmul, args: {M: ",
                       side, ", N: ", side, ", K: ", side, "}}\n"));
  test::tracewright(
      {"tune", "list.yaml", "--database", "list.db", "--trials", "2"},
      {.folder = folder.path(), .environment = {cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/cuda_stub")}});
  int trials = 0;
  std::istringstream lines(test::tracewright({"db", "export", "list.db"}, {.folder = folder.path()}).out);
  for (std::string line; std::getline(lines, line);) {
    boost::json::value row = boost::json::parse(line);
    if (const boost::json::value* trace = row.as_object().if_contains("trace"); trace && ++trials == 2)
      return std::string(trace->as_string());
  }
  return "no record";
}

// On a GPU the untuned program is one thread. It comes behind the zero-trial kernel where that takes a moment, and
// never where it would take minutes.
TEST(TuneOnCuda, TheUntunedProgramIsNotWaitedFor) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  EXPECT_EQ(trace_of_second_trial(64), "");
  EXPECT_NE(trace_of_second_trial(512).find("bind("), std::string::npos);
}

}  // namespace
}  // namespace tw
