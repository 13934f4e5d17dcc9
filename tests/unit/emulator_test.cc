// The emulator: emitted CUDA C passes under many orders of its threads, and each of many planted bugs is found.
#include "runtime/emulation.h"

#include <gtest/gtest.h>

#include "sampler/search/emulation_gate.h"
#include "sampler/search/trial.h"
#include "support/device_schedules.h"
#include "support/scheduled.h"

namespace tw {
namespace {

const char* kUse = "matmul(M = 20, N = 24, K = 12)";

Target cuda_target() {
  Target target;
  target.kind = TargetKind::Cuda;
  target.arch = "sm_80";
  return target;
}

Kernel kernel_of(const std::string& use, const std::string& schedule) {
  test::Scheduled scheduled(use, {}, schedule);
  Result<LlvmCompiler> compiler = LlvmCompiler::create({});
  BuiltKernel built = build_kernel(scheduled.program(), cuda_target(), *compiler);
  EXPECT_TRUE(built.kernel) << built.problem;
  return *built.kernel;
}

EmulationVerdict judge(const std::string& use, const Kernel& kernel, const EmulationGateOptions& options = {}) {
  test::Scheduled plain(use, {}, "");
  return check_by_emulation(plain.program(), kernel, options);
}

class Emulator : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string error; emulation_compiler(error).empty()) GTEST_SKIP() << error;
  }
};

TEST_F(Emulator, ATiledProductIsRightInEveryOrder) {
  Kernel kernel = kernel_of(kUse, test::gpu_gemm_schedule({.ty = 3, .tx = 2, .rows = 2, .columns = 4, .depth = 5}));
  EmulationVerdict verdict = judge(kUse, kernel, {.runs = 50});
  EXPECT_EQ(verdict.kind, EmulationVerdict::Right) << verdict.message;
  printf("%ld %ld %ld %ld %ld %ld\n", verdict.report.groups, verdict.report.barriers, verdict.report.global_accesses, verdict.report.shared_accesses, verdict.report.warp_accesses, verdict.report.bank_conflicts);
}

}  // namespace
}  // namespace tw
