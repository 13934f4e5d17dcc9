// CUDA C by NVRTC: every kernel of a tiled product compiles to machine code with the instructions that it promises. No
// device, no driver. Skipped where NVRTC is not installed.
#include "backends/cuda/nvrtc.h"

#include <gtest/gtest.h>

#include "backends/gpu_source/source.h"
#include "sampler/search/candidate.h"
#include "sampler/search/trial.h"
#include "support/device_schedules.h"
#include "support/scheduled.h"

namespace tw {
namespace {

constexpr int kFfma = 0x223, kLds = 0x984, kSts = 0x388, kBar = 0xb1d, kStl = 0x387, kLdgsts = 0xfae, kShfl = 0xf89;

std::string cuda_source(const std::string& more = "") {
  test::Scheduled scheduled(
      "matmul(M = 256, N = 256, K = 64)", {},
      test::gpu_gemm_schedule({.ty = 16, .tx = 16, .rows = 4, .columns = 4, .depth = 8}) + more);
  Arena arena;
  Result<LoweredGpuProgram> kernels =
      lower_gpu(arena, scheduled.program(), {.vector_bits = 128, .vector_registers = 64}, {});
  EXPECT_TRUE(kernels);
  Result<Kernel> printed = print_device_source(*kernels, SourceLanguage::CudaC, "mm");
  EXPECT_TRUE(printed);
  return printed->code;
}

class Nvrtc : public ::testing::TestWithParam<const char*> {};

TEST_P(Nvrtc, CompilesATiledProductWithoutSpills) {
  std::string error;
  if (!cuda::nvrtc_version(error)) GTEST_SKIP() << error;
  std::optional<cuda::Compiled> compiled = cuda::compile(cuda_source(), GetParam(), error);
  ASSERT_TRUE(compiled) << error;
  EXPECT_NE(compiled->ptx.find(".entry mm_run_0"), std::string::npos);
  ASSERT_EQ(compiled->kernels.size(), 1u) << compiled->log;
  const cuda::KernelUse& use = compiled->kernels[0];
  EXPECT_EQ(use.name, "mm_run_0");
  EXPECT_GT(use.registers, 16);
  EXPECT_EQ(use.spill_store_bytes + use.spill_load_bytes, 0);
  EXPECT_EQ(use.shared_bytes, (64 + 64) * 8 * 4) << compiled->log;
  std::map<int, int> opcodes = cuda::opcodes_of(compiled->cubin, "mm_run_0");
  EXPECT_GE(opcodes[kFfma], 4 * 4 * 8);
  EXPECT_GT(opcodes[kLds], 0);
  EXPECT_GT(opcodes[kSts], 0);
  EXPECT_GE(opcodes[kBar], 2);
  EXPECT_EQ(opcodes[kStl], 0);
}

TEST_P(Nvrtc, StagedCopiesAreAsynchronous) {
  std::string error;
  if (!cuda::nvrtc_version(error)) GTEST_SKIP() << error;
  std::string code = cuda_source("annotate(k0, \"stages\", 3)\n");
  std::optional<cuda::Compiled> compiled = cuda::compile(code, GetParam(), error);
  ASSERT_TRUE(compiled) << error << "\n" << code;
  EXPECT_EQ(compiled->kernels[0].spill_store_bytes, 0);
  EXPECT_GT(cuda::opcodes_of(compiled->cubin, "mm_run_0")[kLdgsts], 0) << code;
}

INSTANTIATE_TEST_SUITE_P(Archs, Nvrtc, ::testing::Values("sm_80", "sm_90a"));

// Tiled draws of the rule set `cuda`: each compiles, and keeps its accumulators in registers.
TEST(NvrtcSpace, DrawsOfTheSetCompile) {
  std::string error, errors;
  if (!cuda::nvrtc_version(error)) GTEST_SKIP() << error;
  Target target;
  target.kind = TargetKind::Cuda;
  target.group_threads = 1024, target.shared_bytes = 48 << 10;
  target.vector_bits = 128, target.vector_registers = 64;
  test::Scheduled plain("matmul(M = 500, N = 512, K = 256)", {}, "");
  rules::Library library = rules::Library::built_in();
  CandidateSpace space = make_candidate_space(plain.program(), *library.find_set("cuda"), library, target, errors);
  ASSERT_EQ(errors, "");
  CandidateBuilder builder(space);
  int tiled = 0;
  for (std::size_t sketch = 0; sketch < space.space.sketches.size(); ++sketch) {
    for (u64 seed = 0; seed < 6; ++seed) {
      Rng rng(seed, sketch);
      Candidate candidate;
      ASSERT_TRUE(builder.draw(static_cast<int>(sketch), candidate, rng));
      Result<Program> program = builder.build(candidate, &rng);
      ASSERT_TRUE(program) << to_string(program.rejected());
      Arena arena;
      Result<LoweredGpuProgram> lowered = lower_gpu(arena, *program, lowering_options(target), gpu_limits(target));
      if (!lowered) continue;  // too much code or memory: refused before anything is compiled
      Result<Kernel> kernel = device_source(*lowered, target, "mm");
      ASSERT_TRUE(kernel);
      std::optional<cuda::Compiled> compiled = cuda::compile(kernel->code, "sm_80", error);
      ASSERT_TRUE(compiled) << error << "\n" << kernel->code;
      for (const cuda::KernelUse& use : compiled->kernels) {
        if (use.shared_bytes == 0) continue;
        ++tiled;
        EXPECT_EQ(use.stack_bytes, 0) << "accumulators are not in registers:\n" << kernel->code;
        EXPECT_GT(cuda::opcodes_of(compiled->cubin, use.name)[kFfma], 0);
      }
    }
  }
  EXPECT_GE(tiled, 3);
}

TEST(NvrtcLog, SaysRegistersAndSpills) {
  std::vector<cuda::KernelUse> uses = cuda::parse_log(
      "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'k' for 'sm_80'\nptxas info    : "
      "Function properties for k\n"
      "    40 bytes stack frame, 36 bytes spill stores, 52 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 4096 bytes smem, 376 bytes cmem[0]\n");
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].name, "k");
  EXPECT_EQ(uses[0].registers, 255);
  EXPECT_EQ(uses[0].stack_bytes, 40);
  EXPECT_EQ(uses[0].spill_store_bytes, 36);
  EXPECT_EQ(uses[0].spill_load_bytes, 52);
  EXPECT_EQ(uses[0].shared_bytes, 4096);
}

TEST(NvrtcErrors, AreTheCompilersOwn) {
  std::string error;
  if (!cuda::nvrtc_version(error)) GTEST_SKIP() << error;
  EXPECT_FALSE(cuda::compile("extern \"C\" __global__ void k() { nothing(); }", "sm_80", error));
  EXPECT_NE(error.find("nothing"), std::string::npos) << error;
}

}  // namespace
}  // namespace tw
