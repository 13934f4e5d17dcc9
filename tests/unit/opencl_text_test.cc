// OpenCL C as it is emitted, read by clang's OpenCL front end: with and without halves of the device's own
// (cl_khr_fp16) and sub-groups (cl_khr_subgroups). No device is needed. Skipped where there is no clang.
#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "sampler/search/trial.h"
#include "support/clang_opencl.h"
#include "support/device_schedules.h"
#include "support/drawn_kernels.h"
#include "support/scheduled.h"

namespace tw {
namespace {

Target wide_device() {
  Target target;
  target.kind = TargetKind::OpenCl;
  target.vector_bits = 512, target.vector_registers = 32;
  return target;
}

TEST(OpenClText, HalvesAreReadWithAndWithoutTheirExtension) {
  std::string clang = test::opencl_front_end();
  if (clang.empty()) GTEST_SKIP() << "there is no clang (clang-19)";
  for (const char* type : {"f16", "bf16"}) {
    for (const char* use :
         {"matmul(M = 24, N = 48, K = 32, T = ",
          "conv2d(N = 1, H = 9, W = 9, CI = 8, CO = 32, K = 3, padding = 1, T = ", "softmax(M = 4, N = 70, T = ",
          "layernorm(M = 4, N = 70, T = ", "depthwise_conv2d(N = 1, H = 8, W = 8, C = 32, K = 3, T = "}) {
      std::vector<Kernel> kernels = test::drawn_kernels(cat(use, type, ")"), "opencl", wide_device(), 4).kernels;
      ASSERT_FALSE(kernels.empty()) << use << type;
      for (const Kernel& kernel : kernels) {
        const std::string& text = kernel.code;
        ASSERT_NE(text.find("tw_"), std::string::npos) << text;
        for (const char* extension : {"+cl_khr_fp16", "-cl_khr_fp16"})
          EXPECT_EQ(test::refused_by_clang(clang, text, "CL1.2", extension), "") << use << type;
      }
    }
  }
}

TEST(OpenClText, SubGroupsAreReadWithAndWithoutTheirExtension) {
  std::string clang = test::opencl_front_end();
  if (clang.empty()) GTEST_SKIP() << "there is no clang (clang-19)";
  test::Scheduled rows("softmax(M = 6, N = 100)", {}, test::shared_rows_schedule(1, 16));
  Target target;
  target.kind = TargetKind::OpenCl;
  Arena arena;
  Result<LoweredGpuProgram> lowered = lower_gpu(arena, rows.program(), lowering_options(target), gpu_limits(target));
  ASSERT_TRUE(lowered);
  std::string text = device_source(*lowered, target, "k")->code;
  EXPECT_EQ(test::refused_by_clang(clang, text, "CL1.2", "-all"), "");
  EXPECT_EQ(test::refused_by_clang(clang, text, "CL2.0", "-all"), "");
  EXPECT_EQ(test::refused_by_clang(clang, text, "CL2.0", "-all,+cl_khr_subgroups"), "");
  // The branch is read: without the function it is refused.
  text.replace(text.find("sub_group_reduce_max"), 20, "sub_group_reduce_mox");
  EXPECT_EQ(test::refused_by_clang(clang, text, "CL2.0", "-all"), "");
  EXPECT_NE(test::refused_by_clang(clang, text, "CL2.0", "-all,+cl_khr_subgroups"), "");
}

}  // namespace
}  // namespace tw
