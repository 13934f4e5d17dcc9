// The worker of CUDA devices, against a driver that has no device (tests/cuda_stub): what goes to the device and comes
// from it for each trial.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "dsl/base/text.h"
#include "runtime/measure/measurer.h"
#include "sampler/search/device_checks.h"
#include "sampler/search/trial.h"
#include "support/nvrtc.h"
#include "support/scheduled.h"
#include "support/stub_kernels.h"
#include "support/support.h"

namespace tw {
namespace {

const char* const kUse = "matmul(M = 256, N = 1024, K = 256)";
constexpr double kOutputMiB = 1, kInputsMiB = 1.25;

class CudaWorker : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
    setenv("LD_LIBRARY_PATH", TW_BINARY_DIR "/tests/cuda_stub", 1);
    setenv("TW_STUB_GEMM", "256,1024,256", 1);
    setenv("TW_STUB_COPIED", copied_.c_str(), 1);
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

  Kernel kernel(int microseconds) const { return test::stub_kernel(plain_.program(), microseconds); }

  // MiB that went to the device and came from it, for each of some trials that are slower than the best.
  std::pair<double, double> copied_by_trials() {
    constexpr int kTrials = 8;
    Kernel best = kernel(1000);
    MeasureResult first = measurer_->measure(task_, best, {});
    EXPECT_TRUE(first.status == MeasureStatus::Ok || first.status == MeasureStatus::Noisy) << first.message;
    MeasureOptions options{.incumbent = &best};
    measurer_->measure(task_, kernel(1100), options);
    auto [to_before, from_before] = copied();
    for (int i = 0; i < kTrials; ++i) {
      MeasureResult result = measurer_->measure(task_, kernel(1200 + i), options);
      EXPECT_TRUE(result.status == MeasureStatus::Ok || result.status == MeasureStatus::Noisy) << result.message;
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
  std::string copied_ = folder_.path() + "/copied";
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

TEST_F(CudaWorker, WithoutChecksAllGoesToTheHost) {
  auto [to, from] = copied_by_trials();
  EXPECT_GE(to, 2 * kInputsMiB);
  EXPECT_GE(from, 2 * kInputsMiB + 2 * kOutputMiB);
}

}  // namespace
}  // namespace tw
