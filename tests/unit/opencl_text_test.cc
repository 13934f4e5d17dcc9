// OpenCL C as it is emitted, read by clang's OpenCL front end: with and without halves of the device's own
// (cl_khr_fp16) and sub-groups (cl_khr_subgroups). No device is needed. Skipped where there is no clang.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "dsl/base/text.h"
#include "sampler/search/trial.h"
#include "support/device_schedules.h"
#include "support/drawn_kernels.h"
#include "support/scheduled.h"
#include "support/support.h"

namespace tw {
namespace {

std::string front_end() {
  for (const char* name : {"clang-19", "clang"}) {
    if (std::system(cat("command -v ", name, " > /dev/null 2>&1").c_str()) == 0) return name;
  }
  return "";
}

Target wide_device() {
  Target target;
  target.kind = TargetKind::OpenCl;
  target.vector_bits = 512, target.vector_registers = 32;
  return target;
}

// What clang says of a text; "" if it has nothing against it.
std::string refused(const std::string& clang, const std::string& text, const std::string& version,
                    const std::string& extension) {
  test::TemporaryDirectory folder;
  std::string file = cat(folder.path(), "/kernel.cl"), log = cat(folder.path(), "/log");
  std::ofstream(file) << text;
  std::string command = cat(clang, " -x cl -cl-std=", version,
                            " -target spir64 -Xclang -finclude-default-header -Xclang -cl-ext=", extension,
                            " -fsyntax-only -Wall -Wno-unused -Werror ", file, " > ", log, " 2>&1");
  if (std::system(command.c_str()) == 0) return "";
  std::ifstream said(log);
  return cat("refused: ", std::string(std::istreambuf_iterator<char>(said), {}), text);
}

TEST(OpenClText, HalvesAreReadWithAndWithoutTheirExtension) {
  std::string clang = front_end();
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
          EXPECT_EQ(refused(clang, text, "CL1.2", extension), "") << use << type;
      }
    }
  }
}

TEST(OpenClText, SubGroupsAreReadWithAndWithoutTheirExtension) {
  std::string clang = front_end();
  if (clang.empty()) GTEST_SKIP() << "there is no clang (clang-19)";
  test::Scheduled rows("softmax(M = 6, N = 100)", {}, test::shared_rows_schedule(1, 16));
  Target target;
  target.kind = TargetKind::OpenCl;
  Arena arena;
  Result<LoweredGpuProgram> lowered = lower_gpu(arena, rows.program(), lowering_options(target), gpu_limits(target));
  ASSERT_TRUE(lowered);
  std::string text = device_source(*lowered, target, "k")->code;
  EXPECT_EQ(refused(clang, text, "CL1.2", "-all"), "");
  EXPECT_EQ(refused(clang, text, "CL2.0", "-all"), "");
  EXPECT_EQ(refused(clang, text, "CL2.0", "-all,+cl_khr_subgroups"), "");
  // The branch is read: without the function it is refused.
  text.replace(text.find("sub_group_reduce_max"), 20, "sub_group_reduce_mox");
  EXPECT_EQ(refused(clang, text, "CL2.0", "-all"), "");
  EXPECT_NE(refused(clang, text, "CL2.0", "-all,+cl_khr_subgroups"), "");
}

}  // namespace
}  // namespace tw
