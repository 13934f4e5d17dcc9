// gpu-day against a driver that runs nothing (tests/cuda_stub), with each thing going wrong that can: its other steps
// are done, and what went wrong is named. What a GPU says is not tested here.
#include <gtest/gtest.h>

#include <filesystem>

#include "dsl/base/text.h"
#include "support/nvrtc.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

namespace fs = std::filesystem;
using test::Finished;

constexpr const char* kTask = "  - {name: mm, op: matmul, args: {M: 64, N: 64, K: 32}}\n";

std::string list_of(const std::string& target, const std::string& more = "") {
  return cat("version: 1\ntarget: {kind: cuda, ", target, "}\n", more, "tasks:\n", kTask);
}

class GpuDay : public ::testing::Test {
 protected:
  // The folder of the bundle with one small task, and its kernels.
  static void SetUpTestSuite() {
    if (!test::missing_for_nvrtc().empty()) return;
    bundle_ = std::make_unique<test::TemporaryDirectory>();
    fs::copy(TW_SOURCE_DIR "/bench/gpu/gpu-day", bundle_->path() + "/gpu-day");
    test::write_file(bundle_->path() + "/tasks.yaml", list_of("arch: sm_80"));
    test::write_file(bundle_->path() + "/gemm_tune.yaml",
                     list_of("device: auto", "budget: {trials: 8}\ndatabase: none.db\n"));
    test::write_file(bundle_->path() + "/pytorch_times.py", "print('{}')\n");
    Finished made =
        test::tracewright({"tune", "tasks.yaml", "--compile-only", "--finalists", "2", "--output", "finalists"},
                          {.folder = bundle_->path()});
    ASSERT_EQ(made.code, 0) << made.err;
    fs::copy(bundle_->path() + "/finalists", bundle_->path() + "/checked", fs::copy_options::recursive);
  }
  static void TearDownTestSuite() { bundle_.reset(); }

  void SetUp() override {
    if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  }

  Finished day(const std::string& steps, std::vector<std::string> environment = {}, const std::string& seconds = "400",
               const char* driver = "cuda_stub") {
    std::vector<std::string> words = {bundle_->path() + "/gpu-day", "day", seconds};
    for (const std::string& step : split(steps, ' ')) words.push_back(step);
    environment.insert(environment.end(),
                       {cat("LD_LIBRARY_PATH=" TW_BINARY_DIR "/tests/", driver), "TW_STUB_GEMM=64,64,32",
                        "TRACEWRIGHT_BIN=" TW_BINARY_DIR, cat("PATH=", folder_.path(), "/bin:/usr/bin:/bin")});
    return test::run_program(words, {.folder = folder_.path(), .environment = environment});
  }
  bool is_done(const std::string& step) const { return fs::exists(folder_.path() + "/day/" + step + ".done"); }
  std::string result(const std::string& name) const { return test::read_file(folder_.path() + "/day/" + name); }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
  void make_program(const std::string& name, const std::string& text) {
    fs::create_directories(folder_.path() + "/bin");
    test::write_file(folder_.path() + "/bin/" + name, "#!/bin/sh\n" + text);
    fs::permissions(folder_.path() + "/bin/" + name, fs::perms::owner_all);
  }

  static inline std::unique_ptr<test::TemporaryDirectory> bundle_;
  test::TemporaryDirectory folder_;
};

TEST_F(GpuDay, AllStepsAreDoneOnce) {
  Finished finished = day("doctor tasks manifest tune terms");
  EXPECT_EQ(finished.code, 0) << finished.out << finished.err;
  for (const char* step : {"doctor", "tasks", "manifest", "tune", "terms"}) EXPECT_TRUE(is_done(step)) << step;
  EXPECT_TRUE(has(result("tasks.json"), "\"complete\":true"));
  EXPECT_TRUE(has(result("doctor.log"), "Stub GPU"));
  EXPECT_TRUE(fs::exists(folder_.path() + "/day/tune.db"));
  EXPECT_TRUE(fs::exists(folder_.path() + "/day/manifest.db"));
  finished = day("doctor tasks manifest tune", {"TW_STUB_FAULT=none"});
  EXPECT_EQ(finished.code, 0) << finished.out;
  EXPECT_TRUE(has(finished.out, "tasks: done before")) << finished.out;
}

// A second visit does what the first one could not.
TEST_F(GpuDay, ASecondVisitGoesOn) {
  EXPECT_EQ(day("tasks", {"TW_STUB_FAULT=wrong"}).code, 1);
  EXPECT_FALSE(is_done("tasks"));
  EXPECT_TRUE(has(result("tasks.json"), "differs from the result in f64"));
  EXPECT_EQ(day("tasks").code, 0);
  EXPECT_TRUE(is_done("tasks"));
}

TEST_F(GpuDay, AFaultInTheMiddle) {
  test::write_file(folder_.path() + "/once", "x");
  Finished finished = day("tasks manifest", {"TW_STUB_FAULT=illegal", "TW_STUB_COUNTS=loads",
                                             cat("TW_STUB_ONCE=", folder_.path(), "/once")});
  const std::string said = cat(finished.out, result("tasks.log"), result("tasks.json"), result("manifest.log"));
  EXPECT_TRUE(has(result("tasks.json"), "illegal memory access")) << said;
  EXPECT_TRUE(has(result("tasks.json"), "\"task\":\"mm\"")) << said << "the other kernel";
  EXPECT_TRUE(is_done("manifest")) << said;
}

TEST_F(GpuDay, AKernelThatHangs) {
  Finished finished = day("tasks doctor", {"TW_STUB_FAULT=hang", "GPU_DAY_TASKS=8"});
  EXPECT_EQ(finished.code, 1) << finished.out;
  EXPECT_FALSE(is_done("tasks"));
  EXPECT_TRUE(is_done("doctor"));
  EXPECT_TRUE(has(result("steps.txt"), "tasks: exit code ")) << finished.out;
}

TEST_F(GpuDay, NoMemory) {
  Finished finished = day("tasks tune doctor", {"TW_STUB_FAULT=memory"});
  EXPECT_EQ(finished.code, 1) << finished.out;
  EXPECT_TRUE(has(result("tasks.json"), "no memory")) << result("tasks.json");
  EXPECT_TRUE(is_done("doctor"));
}

TEST_F(GpuDay, ADriverThatIsTooOldOrMissing) {
  for (const char* driver : {"cuda_stub_old", "nowhere"}) {
    Finished finished = day("tasks doctor", {}, "400", driver);
    EXPECT_EQ(finished.code, 1) << finished.out;
    EXPECT_TRUE(has(result("tasks.log"), "libcuda.so.1")) << result("tasks.log");
    EXPECT_TRUE(is_done("doctor"));
  }
}

// What was compiled before needs no compiler.
TEST_F(GpuDay, WithoutNvrtc) {
  Finished finished = day("tasks conformance", {"TRACEWRIGHT_NVRTC=/nowhere/libnvrtc.so"});
  EXPECT_TRUE(is_done("tasks")) << result("tasks.log");
  EXPECT_FALSE(is_done("conformance"));
  EXPECT_TRUE(has(result("conformance.json"), "nowhere")) << result("conformance.json");
}

TEST_F(GpuDay, TimeIsOver) {
  Finished finished = day("doctor tasks", {}, "3");
  EXPECT_EQ(finished.code, 1);
  EXPECT_TRUE(has(finished.out, "tasks: no time is left")) << finished.out;
  EXPECT_TRUE(has(result("steps.txt"), "doctor: no time is left"));
}

// What nvidia-smi says of the clock, and of others: told, and nothing else changes.
TEST_F(GpuDay, ASlowClockAndOthersAreNamed) {
  make_program("nvidia-smi", R"(case "$*" in
  *compute-apps*) echo "77, other" ;;
  *mig.mode*) echo Enabled ;;
  *ecc.errors*) echo 3 ;;
  *clocks.max.sm*) echo 1980 ;;
  *-lms*) echo "now, 1980, 2619, 300.0, 50, 0x0000000000000000"; echo "now, 345, 2619, 70.0, 33, 0x0000000000000001"
          echo "now, 705, 2619, 690.0, 80, 0x000000000000000c" ;;
esac
)");
  Finished finished = day("doctor");
  EXPECT_EQ(finished.code, 0) << finished.out << finished.err;
  std::string text = result("steps.txt");
  EXPECT_TRUE(has(text, "another process is on the GPU: 77, other")) << text;
  EXPECT_TRUE(has(text, "MIG is on")) << text;
  EXPECT_TRUE(has(text, "memory errors that ECC did not correct: 3")) << text;
  EXPECT_TRUE(has(text, "SM clock under load: 705 to 1980 MHz, the limit is 1980; held down by ")) << text;
  EXPECT_TRUE(has(text, "the power limit")) << text;
  EXPECT_TRUE(has(text, "a hardware slowdown")) << text;
}

// A profiler that may not read counters ends its own step.
TEST_F(GpuDay, CountersMayNotBeRead) {
  make_program("ncu", "echo ERR_NVGPUCTRPERM >&2; exit 9\n");
  Finished finished = day("profile doctor");
  EXPECT_EQ(finished.code, 1) << finished.out;
  EXPECT_TRUE(has(result("profile.log"), "ERR_NVGPUCTRPERM"));
  EXPECT_TRUE(is_done("doctor"));
}

TEST_F(GpuDay, WithoutAFolderItSaysHow) {
  Finished finished = test::run_program({bundle_->path() + "/gpu-day"}, {.folder = folder_.path()});
  EXPECT_EQ(finished.code, 2);
  EXPECT_TRUE(has(finished.err, "gpu-day FOLDER"));
  finished = day("doctor tusk");
  EXPECT_EQ(finished.code, 2);
  EXPECT_TRUE(has(finished.err, "there is no step tusk")) << finished.err;
  EXPECT_FALSE(is_done("doctor"));
}

}  // namespace
}  // namespace tw
