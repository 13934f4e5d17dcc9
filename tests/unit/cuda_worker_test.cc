// The worker of CUDA devices, against a driver that has no device (tests/cuda_stub): what goes to the device and comes
// from it for each trial.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "dsl/text/workload.h"
#include "runtime/measure/measurer.h"
#include "sampler/search/device_checks.h"
#include "sampler/search/trial.h"
#include "support/nvrtc.h"
#include "support/scheduled.h"
#include "support/stub_kernels.h"
#include "support/support.h"

namespace tw {
namespace {

// The output is more than 1 MiB and no multiple of 64 KiB, in which the driver pins what it copies.
const char* const kUse = "matmul(M = 264, N = 1032, K = 256)";
constexpr double kMiB = 1 << 20, kOutputMiB = 264 * 1032 * 4 / kMiB, kInputsMiB = (264 + 1032) * 256 * 4 / kMiB;

bool was_timed(const MeasureResult& result) {
  return result.status == MeasureStatus::Ok || result.status == MeasureStatus::Noisy;
}

class CudaWorker : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
    setenv("LD_LIBRARY_PATH", TW_BINARY_DIR "/tests/cuda_stub", 1);
    setenv("TW_STUB_GEMM", "264,1032,256", 1);
    setenv("TW_STUB_COPIED", copied_.c_str(), 1);
    setenv("TW_STUB_FAULT", "others", 1);  // while the file is there
    setenv("TW_STUB_ONCE", once_.c_str(), 1);
    Diagnostics diagnostics(Source{"", ""});
    target_ = *parse_target("cuda -arch=sm_80", 0, diagnostics);
    WorkerStart started = start_worker(worker_options(target_));
    ASSERT_TRUE(started.measurer) << started.error;
    measurer_ = std::move(started.measurer);
    Result<LlvmCompiler> compiler = LlvmCompiler::create({});
    BuiltKernel reference = build_reference(plain_.program(), target_, *compiler);
    TaskStart start = measurer_->begin_task(*reference.kernel, tolerance_of(plain_.program()), 1);
    ASSERT_GE(start.task, 0) << start.error;
    task_ = start.task;
  }
  // Another task of the same workload.
  int begin_other() {
    Result<LlvmCompiler> compiler = LlvmCompiler::create({});
    BuiltKernel reference = build_reference(plain_.program(), target_, *compiler);
    return measurer_->begin_task(*reference.kernel, tolerance_of(plain_.program()), 2).task;
  }

  Kernel kernel(int microseconds) const { return test::stub_kernel(plain_.program(), microseconds); }

  // MiB that went to the device and came from it, for each of some trials that are slower than the best.
  std::pair<double, double> copied_by_trials() {
    constexpr int kTrials = 8;
    Kernel best = kernel(1000);
    MeasureResult first = measurer_->measure(task_, best, {});
    EXPECT_TRUE(was_timed(first)) << first.message;
    MeasureOptions options{.incumbent = &best};
    measurer_->measure(task_, kernel(1100), options);
    auto [to_before, from_before] = copied();
    for (int i = 0; i < kTrials; ++i) {
      MeasureResult result = measurer_->measure(task_, kernel(2000 + i), options);
      EXPECT_TRUE(was_timed(result)) << result.message;
      EXPECT_GT(result.ratio, 1);
    }
    auto [to, from] = copied();
    return {(to - to_before) / kTrials, (from - from_before) / kTrials};
  }

  std::pair<double, double> copied() const {
    double to = 0, from = 0;
    std::ifstream(copied_) >> to >> from;
    return {to, from};
  }

  test::TemporaryDirectory folder_;
  std::string copied_ = folder_.path() + "/copied", once_ = folder_.path() + "/once";
  test::Scheduled plain_{kUse, {}, ""};
  Target target_;
  std::unique_ptr<Measurer> measurer_;
  int task_ = -1;
};

TEST_F(CudaWorker, InputsStayAndResultsAreLookedAtOnTheDevice) {
  std::vector<DeviceCheck> checks = device_checks(plain_.program(), target_, nullptr);
  ASSERT_EQ(checks.size(), 3u);
  measurer_->check_on_device(task_, checks);
  auto [to, from] = copied_by_trials();
  EXPECT_EQ(to, 0);
  EXPECT_LT(from, 0.5) << "numbers of elements, and what is next to the data";
}

// However far away it lies. A slower kernel that does it costs nobody a trial.
TEST_F(CudaWorker, AKernelThatWritesToAnotherTaskIsFound) {
  for (bool by_device : {true, false}) {
    for (bool is_slower : {false, true}) {
      int other = begin_other();
      ASSERT_GE(other, 0);
      if (by_device) measurer_->check_on_device(task_, device_checks(plain_.program(), target_, nullptr));
      Kernel best = kernel(1000);
      EXPECT_TRUE(was_timed(measurer_->measure(task_, best, {})));
      EXPECT_TRUE(was_timed(measurer_->measure(other, best, {})));
      test::write_file(once_, "");
      MeasureResult spoiling = measurer_->measure(other, kernel(is_slower ? 2000 : 500), {.incumbent = &best});
      EXPECT_EQ(spoiling.status == MeasureStatus::OutOfBounds, !is_slower) << name_of(spoiling.status);
      MeasureResult next = measurer_->measure(task_, kernel(2001), {.incumbent = &best});
      EXPECT_TRUE(was_timed(next)) << next.message;
      measurer_->end_task(other);
    }
  }
}

// Every check of every type is a kernel of CUDA C, too.
TEST_F(CudaWorker, ChecksCompileForAllTypes) {
  Source source{"copied", "workload copied(n: int, T: type) { input A: T[n]; output Y: T[i: n] = A[i] }"};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  for (int type = 0; type < kDTypes; ++type) {
    std::optional<OwnedProgram> program =
        instantiate(module, "copied", {{"n", i64{3'000'001}}, {"T", static_cast<DType>(type)}}, {}, diagnostics);
    ASSERT_TRUE(program) << diagnostics.render();
    const std::string name = name_of(static_cast<DType>(type));
    EXPECT_EQ(device_checks(program->program, target_, nullptr).size(), 2u) << name;
    SampledReference sample;
    sample.samples[0] = {{"Y", 3'000'001, {1, 2, 3}, {1, 2, 3}, {}}};
    EXPECT_EQ(device_checks(program->program, target_, &sample).size(), is_float(static_cast<DType>(type)) ? 3u : 2u)
        << name;
  }
}

TEST_F(CudaWorker, WithoutChecksAllGoesToTheHost) {
  auto [to, from] = copied_by_trials();
  EXPECT_GE(to, 2 * kInputsMiB);
  EXPECT_GE(from, 2 * kInputsMiB + 2 * kOutputMiB);
}

}  // namespace
}  // namespace tw
