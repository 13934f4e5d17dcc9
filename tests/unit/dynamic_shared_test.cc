// CUDA kernels with more shared memory than they may declare with its size: what is printed, what the emulator and
// NVRTC say of it. What drivers get is tested in run_manifest_test and export_cuda_test.
#include <gtest/gtest.h>

#include <regex>

#include "backends/cuda/nvrtc.h"
#include "dsl/base/text.h"
#include "runtime/emulation/emulation.h"
#include "sampler/search/emulation_gate.h"
#include "sampler/search/trial.h"
#include "support/device_schedules.h"
#include "support/nvrtc.h"
#include "support/scheduled.h"

namespace tw {
namespace {

constexpr const char* kUse = "matmul(M = 32, N = 32, K = 512)";

// Tiles of 32 x depth and depth x 32 floats.
test::Scheduled scheduled_with(i64 depth) {
  std::string schedule =
      test::gpu_gemm_schedule({.ty = 16, .tx = 8, .rows = 2, .columns = 4, .depth = static_cast<int>(depth)});
  schedule.erase(schedule.find("unroll(k1)\n"), std::string("unroll(k1)\n").size());
  return test::Scheduled(kUse, {}, schedule);
}

Kernel kernel_of(const test::Scheduled& scheduled) {
  Target target;
  target.kind = TargetKind::Cuda, target.arch = "sm_80", target.shared_bytes = 163 << 10;
  Arena arena;
  Result<LoweredGpuProgram> lowered =
      lower_gpu(arena, scheduled.program(), lowering_options(target), gpu_limits(target));
  EXPECT_TRUE(lowered);
  Result<Kernel> kernel = device_source(*lowered, target, "mm");
  EXPECT_TRUE(kernel);
  return *kernel;
}

const KernelLaunch& launch_of(const Kernel& kernel) { return kernel.manifest.run_launches.at(0); }

TEST(DynamicShared, WhatFitsIsDeclaredWithItsSize) {
  Kernel kernel = kernel_of(scheduled_with(128));  // 32 KiB
  EXPECT_EQ(launch_of(kernel).dynamic_shared_bytes, 0);
  EXPECT_EQ(kernel.code.find("tw_dynamic"), std::string::npos);
  EXPECT_NE(kernel.code.find("__shared__ float"), std::string::npos) << kernel.code;
}

TEST(DynamicShared, ALargerOneIsGivenAtTheLaunch) {
  Kernel kernel = kernel_of(scheduled_with(256));  // 64 KiB
  i64 bytes = launch_of(kernel).dynamic_shared_bytes;
  EXPECT_EQ(bytes, 64 << 10);
  std::vector<i64> starts;
  std::regex part(R"(float\* const \w+ = \(float\*\)\(tw_dynamic \+ (\d+)\);)");
  for (auto it = std::sregex_iterator(kernel.code.begin(), kernel.code.end(), part); it != std::sregex_iterator(); ++it)
    starts.push_back(std::stoll((*it)[1]));
  EXPECT_EQ(starts, (std::vector<i64>{0, 32 << 10})) << kernel.code;
}

TEST(DynamicShared, TheEmulatorRunsIt) {
  test::Scheduled scheduled = scheduled_with(256);
  Kernel kernel = kernel_of(scheduled);
  EmulationVerdict verdict = check_by_emulation(scheduled.base().program, {kernel, scheduled.program()}, {.runs = 3});
  EXPECT_EQ(verdict.kind, EmulationVerdict::Right) << verdict.message;
  kernel.manifest.run_launches[0].dynamic_shared_bytes -= 128;
  verdict = check_by_emulation(scheduled.base().program, {kernel, scheduled.program()});
  EXPECT_EQ(verdict.report.status, EmulationStatus::Launch);
  EXPECT_NE(verdict.message.find("the launch gives 65408 bytes of shared memory, and the kernel uses 65536"),
            std::string::npos)
      << verdict.message;
}

class DynamicSharedNvrtc : public ::testing::TestWithParam<const char*> {};

// Accesses are those of shared memory, not of an address that may be anything.
TEST_P(DynamicSharedNvrtc, Compiles) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  std::string error;
  std::optional<cuda::Compiled> compiled = cuda::compile(kernel_of(scheduled_with(256)).code, GetParam(), error);
  ASSERT_TRUE(compiled) << error;
  EXPECT_EQ(cuda::why_unfit(*compiled), "");
  ASSERT_EQ(compiled->code.size(), 1u);
  EXPECT_GT(compiled->code[0].count("LDS"), 0);
  EXPECT_GT(compiled->code[0].count("STS"), 0);
  EXPECT_EQ(compiled->code[0].shared_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Archs, DynamicSharedNvrtc, ::testing::Values("sm_80", "sm_90a"));

}  // namespace
}  // namespace tw
