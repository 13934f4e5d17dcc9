// Products by instructions of four warps (wgmma): where their text has fences and waits, which the emulator cannot
// miss, and what is no such instruction. That they compute what the program says is emulated_space_test's.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "backends/cuda/nvrtc.h"
#include "backends/cuda/promised_opcodes.h"
#include "backends/gpu_source/source.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/lower_gpu.h"
#include "dsl/passes/warp_mma.h"
#include "sampler/search/trial.h"
#include "support/drawn_kernels.h"
#include "support/nvrtc.h"
#include "support/parsed.h"
#include "support/scheduled.h"

namespace tw {
namespace {

Target hopper() {
  Target out = test::cuda_target();
  out.arch = "sm_90a", out.shared_bytes = 227 << 10;
  return out;
}

// Draws of the rule for a product of halves.
const test::DrawnKernels& draws() {
  static const test::DrawnKernels out = [] {
    test::DrawnKernels all = test::drawn_kernels("matmul(M = 256, N = 512, K = 256, T = f16)", "cuda", hopper(), 120);
    test::DrawnKernels some;
    for (std::size_t i = 0; i < all.kernels.size(); ++i) {
      if (all.kernels[i].code.find("  tw_wgmma_m64") == std::string::npos) continue;
      some.kernels.push_back(all.kernels[i]), some.scheduled.push_back(all.scheduled[i]);
    }
    return some;
  }();
  return out;
}

std::vector<std::string> lines_of(const std::string& code) {
  std::vector<std::string> out;
  std::istringstream text(code.substr(code.find("extern \"C\"")));
  for (std::string line; std::getline(text, line);)
    out.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
  return out;
}

// "" or what is wrong with the order of a kernel's statements.
std::string wrong_order(const std::string& code) {
  enum class Sums { Free, Begun, Committed } sums = Sums::Free;
  std::string before;
  for (const std::string& line : lines_of(code)) {
    bool multiplies = line.starts_with("tw_wgmma_m64"), names_sums = line.find("_register") != std::string::npos;
    if (line == "__syncthreads();" && before != "tw_fence_shared();") return "a barrier without a fence";
    if (line == "__syncthreads();" && sums != Sums::Free) return "a barrier before the instructions have ended";
    if (line == "tw_wgmma_begin();") sums = Sums::Begun;
    if (multiplies && sums != Sums::Begun) return "an instruction before the fence";
    if (line == "tw_wgmma_commit();") sums = Sums::Committed;
    if (line == "tw_wgmma_wait();") sums = Sums::Free;
    if (names_sums && !multiplies && sums != Sums::Free) return cat("sums are used before they are there: ", line);
    before = line;
  }
  return sums == Sums::Free ? "" : "nobody waits";
}

std::string without(std::string code, const std::string& line, bool is_last = false) {
  std::size_t at = is_last ? code.rfind(line) : code.find(line, code.find("extern \"C\""));
  return code.erase(at, line.size());
}

TEST(WarpgroupMma, FencesAndWaitsStandWhereTheyMust) {
  ASSERT_GE(draws().kernels.size(), 20u);
  for (const Kernel& kernel : draws().kernels) {
    EXPECT_EQ(wrong_order(kernel.code), "") << kernel.code;
    for (const char* line : {"tw_fence_shared();\n", "tw_wgmma_begin();\n", "tw_wgmma_wait();\n"})
      EXPECT_NE(wrong_order(without(kernel.code, line)), "") << line;
    EXPECT_NE(wrong_order(without(kernel.code, "tw_wgmma_wait();\n", true)), "");
  }
}

// The copies of later iterations are begun while the tensor cores multiply.
TEST(WarpgroupMma, CopiesAreBegunMeanwhile) {
  int staged = 0;
  for (const Kernel& kernel : draws().kernels) {
    std::size_t loop = kernel.code.find("tw_copy_async_wait<", kernel.code.find("extern \"C\""));
    if (loop == std::string::npos) continue;
    std::size_t multiplied = kernel.code.find("tw_wgmma_commit();", loop),
                copied = kernel.code.find("tw_copy_async_16(", loop),
                waited = kernel.code.find("tw_wgmma_wait();", loop);
    EXPECT_LT(multiplied, copied) << kernel.code;
    EXPECT_LT(copied, waited) << kernel.code;
    ++staged;
  }
  EXPECT_GE(staged, 10);
}

// Operands begin at multiples of 1,024 bytes, as their swizzling wants.
TEST(WarpgroupMma, OperandsAreAligned) {
  for (const Kernel& kernel : draws().kernels) {
    EXPECT_NE(kernel.code.find("aligned(1024)"), std::string::npos);
    std::istringstream text(kernel.code);
    for (std::string line; std::getline(text, line);) {
      std::size_t at = line.find("(tw_dynamic + ");
      if (at == std::string::npos) at = line.find("(tw_placed + ");
      if (at == std::string::npos) continue;
      EXPECT_EQ(std::stoll(line.substr(line.find("+ ", at) + 2)) % 1024, 0) << line;
    }
  }
}

TEST(WarpgroupMma, AreMachineCode) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  std::string error;
  for (std::size_t i = 0; i < draws().kernels.size(); i += 4) {
    std::optional<cuda::Compiled> code = cuda::compile(draws().kernels[i].code, "sm_90a", error);
    ASSERT_TRUE(code) << error << draws().kernels[i].code;
    EXPECT_EQ(cuda::missing_opcode(draws().scheduled[i].program, "sm_90a", *code), "");
    for (cuda::CubinKernel& kernel : code->code) kernel.opcodes.clear();
    EXPECT_EQ(cuda::missing_opcode(draws().scheduled[i].program, "sm_90a", *code), "HGMMA");
  }
}

// What other GPUs, and sm_90 without the letter, do not have stays loops.
TEST(WarpgroupMma, AreNotPrintedForOthers) {
  Arena arena;
  Result<LoweredGpuProgram> lowered =
      lower_gpu(arena, draws().scheduled[0].program, lowering_options(hopper()), gpu_limits(hopper()));
  ASSERT_TRUE(lowered) << to_string(lowered.rejected());
  auto is_there = [&](const char* arch) {
    return print_device_source(*lowered, SourceLanguage::CudaC, "mm", 1 << 20, arch)->code.find("  tw_wgmma_m64") !=
           std::string::npos;
  };
  EXPECT_TRUE(is_there("sm_90a"));
  for (const char* arch : {"sm_80", "sm_90", "sm_100a", "sm_120"}) EXPECT_FALSE(is_there(arch)) << arch;
}

TEST(WarpgroupMma, TheRuleIsForSm90aAlone) {
  for (const char* arch : {"sm_80", "sm_90", "sm_90a", "sm_100a"}) {
    Target target = hopper();
    target.arch = arch;
    test::DrawnKernels drawn = test::drawn_kernels("matmul(M = 256, N = 512, K = 256, T = f16)", "cuda", target, 12);
    bool is_there = std::ranges::any_of(drawn.scheduled, [](const OwnedProgram& program) {
      bool found = false;
      for_each<For>(program.program.body, [&](const For* loop) {
        found |= find_annotation(loop->annotations, kWarpgroupMmaMark) != nullptr;
      });
      return found;
    });
    EXPECT_EQ(is_there, arch == std::string_view("sm_90a")) << arch;
  }
}

}  // namespace
}  // namespace tw
