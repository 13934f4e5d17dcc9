// Lowering for devices: what it means (by the interpreter), and what of it is seen in the source.
#include "dsl/passes/lower_gpu.h"

#include <gtest/gtest.h>

#include "backends/device_form.h"
#include "dsl/base/rng.h"
#include "support/device_schedules.h"
#include "support/device_source.h"
#include "support/meaning.h"
#include "support/parsed.h"
#include "support/scheduled.h"

namespace tw {
namespace {

using test::count_of, test::lowered, test::parsed, test::source;

// "" if the kernels compute what the program does.
std::string difference(const std::string& use, const std::string& schedule, const GpuLimits& limits = {}) {
  test::Scheduled before(use, {}, ""), after(use, {}, schedule);
  Arena arena;
  Result<LoweredGpuProgram> kernels = lowered(arena, after.program(), limits);
  if (!kernels) return "rejected: " + to_string(kernels.rejected());
  return test::difference(before.program(), as_interpreted(arena, *kernels), 1);
}

TEST(LowerGpu, SharedTilesAndRegisterTilesComputeTheSame) {
  EXPECT_EQ(difference("matmul(M = 8, N = 16, K = 8)", test::gpu_gemm_schedule({})), "");
}

TEST(LowerGpu, RandomTilesWithTailsComputeTheSame) {
  Rng rng(7, 0, 0);
  auto draw = [&](int most) { return static_cast<int>(1 + rng.below(most)); };
  int accepted = 0;
  for (int i = 0; i < 60; ++i) {
    test::GpuGemm g{draw(3), draw(4), draw(3), 1 << rng.below(3), draw(5)};
    std::string use = cat("matmul(M = ", draw(13), ", N = ", draw(17), ", K = ", draw(11), ")");
    std::string wrong = difference(use, test::gpu_gemm_schedule(g));
    // A tile that sticks out of the matrix in a way that promote cannot describe is refused, never computed wrongly.
    if (wrong.starts_with("rejected: ")) continue;
    EXPECT_EQ(wrong, "") << use << "\n" << test::gpu_gemm_schedule(g);
    ++accepted;
  }
  EXPECT_GT(accepted, 40);
}

TEST(LowerGpu, StagesThatShareABufferAreKernelsWithScratch) {
  test::Scheduled softmax("softmax(M = 4, N = 8)", {}, "");
  Arena arena;
  Result<LoweredGpuProgram> kernels = lowered(arena, softmax.program());
  ASSERT_TRUE(kernels);
  EXPECT_GT(kernels->run.size(), 2u);
  EXPECT_GT(kernels->scratch_bytes, 0);
  EXPECT_EQ(test::difference(softmax.program(), as_interpreted(arena, *kernels), 1), "");
}

TEST(LowerGpu, GroupBuffersThatDoNotFitGoToScratchMemory) {
  // Without room in shared memory the operand tiles stay there or are refused; a plain cache of a row block moves to
  // scratch memory.
  std::string schedule = R"(b = get_block("C")
i, j, k = get_loops(b)
c = cache_read(b, 0, "global")
compute_at(c, i)
bind(i, "blockIdx.x")
bind(j, "threadIdx.x")
)";
  EXPECT_EQ(difference("matmul(M = 4, N = 8, K = 16)", schedule, {.shared_bytes = 32}), "");
  EXPECT_EQ(difference("matmul(M = 4, N = 8, K = 16)", schedule), "");
}

TEST(LowerGpu, WorkItemsShareARowThroughSharedMemory) {
  std::string schedule = R"(b = get_block("Top")
i, j = get_loops(b)
j0, j1 = split(j, [_, 4])
p = rfactor(j1, 1)
set_scope(p, 0, "shared")
row, part = get_loops(b)
compute_at(p, row)
bind(row, "blockIdx.x")
i_p, j1_p, j0_p = get_loops(p)
bind(j1_p, "threadIdx.x")
)";
  EXPECT_EQ(difference("softmax(M = 4, N = 10)", schedule), "");
  std::string text = source("softmax(M = 4, N = 10)", schedule, SourceLanguage::CudaC);
  std::size_t barrier = text.find("__syncthreads();");
  ASSERT_NE(barrier, std::string::npos) << text;
  EXPECT_EQ(text.find("__syncthreads();", barrier + 1), std::string::npos) << "one barrier is enough\n" << text;
  EXPECT_NE(text.find("if (threadIdx.x == 0)", barrier), std::string::npos) << "one work-item combines\n" << text;
}

TEST(LowerGpu, WorkItemsCombineTheirParts) {
  for (auto [rows, side] : {std::pair{1, 4}, {1, 7}, {2, 4}, {4, 8}, {2, 64}, {1, 3}})
    EXPECT_EQ(difference("softmax(M = 4, N = 10)", test::shared_rows_schedule(rows, side)), "")
        << rows << " x " << side;
  std::string shuffles = source("softmax(M = 4, N = 100)", test::shared_rows_schedule(2, 64), SourceLanguage::CudaC);
  EXPECT_EQ(count_of(shuffles, "__shfl_xor_sync(4294967295u, "), 5u) << shuffles;
  EXPECT_NE(shuffles.find("Top_parts[4]"), std::string::npos) << "one value for each warp\n" << shuffles;
  std::string tree = source("softmax(M = 4, N = 100)", test::shared_rows_schedule(2, 64), SourceLanguage::OpenClC);
  EXPECT_NE(tree.find("Top_parts[128]"), std::string::npos) << tree;
  EXPECT_NE(tree.find("if (j_1 < 32)"), std::string::npos) << tree;
}

TEST(LowerGpu, CopiesAreMadeAhead) {
  for (int stages : {1, 2, 3, 5}) {
    std::string schedule = cat(test::gpu_gemm_schedule({}), "pipeline(k0, ", stages, ")\nmake_async(c0)\n");
    for (int k : {4, 8, 23}) {
      std::string use = cat("matmul(M = 8, N = 16, K = ", k, ")");
      EXPECT_EQ(difference(use, schedule), "") << use << ", " << stages << " stages";
    }
  }
  std::string ahead = test::gpu_gemm_schedule({}) + "pipeline(k0, 3)\n",
              schedule = ahead + "make_async(c0)\nmake_async(c1)\n";
  EXPECT_EQ(source("matmul(M = 8, N = 16, K = 32)", ahead, SourceLanguage::CudaC).find("async"), std::string::npos)
      << "copies ahead, through registers";
  std::string text = source("matmul(M = 8, N = 16, K = 32)", schedule, SourceLanguage::CudaC);
  EXPECT_NE(text.find("float A_shared[48]"), std::string::npos) << "three versions\n" << text;
  EXPECT_NE(text.find("tw_copy_async_wait<1>();\n          __syncthreads();\n"), std::string::npos)
      << "all but the copies of one iteration\n"
      << text;
  EXPECT_NE(text.find("tw_copy_async_wait<0>();\n          __syncthreads();\n"), std::string::npos)
      << "at the end all\n"
      << text;
  EXPECT_EQ(count_of(text, "__syncthreads();"), 2u) << "one in each of the two parts of the loop\n" << text;
  EXPECT_EQ(count_of(text, "tw_copy_async_commit();\n"), 3u)
      << "one for the copies of an iteration, two of them in front of the loop\n"
      << text;
  EXPECT_EQ(count_of(text, "% 3"), 0u) << "versions are counted\n" << text;
  EXPECT_NE(text.find("version = version == 2 ? 0 : version + 1"), std::string::npos) << text;
  std::string two = source("matmul(M = 8, N = 16, K = 32)",
                           test::gpu_gemm_schedule({}) + "pipeline(k0, 2)\nmake_async(c0)\n", SourceLanguage::CudaC);
  EXPECT_NE(two.find("% 2"), std::string::npos) << "by powers of two there are remainders\n" << two;
  EXPECT_EQ(two.find("version"), std::string::npos) << two;
  text = source("matmul(M = 8, N = 16, K = 32)", schedule, SourceLanguage::OpenClC);
  EXPECT_EQ(text.find("async"), std::string::npos) << text;
}

// What work-items compute for each other in a staged loop is no copy: the one barrier of an iteration does not order
// it.
TEST(LowerGpu, ValuesThatAStagedLoopComputesForOthersHaveTheirOwnBarriers) {
  OwnedProgram program = parsed(R"(program p(A: input f32[6, 8], Y: output f32[6, 8]) {
  local A_s: f32[6, 8] in shared
  local T: f32[6, 8]
  for k in 6 @stages = 3 {
    bind threadIdx.x for t in 8 {
      block A_s(k: S 6 = k, t: S 8 = t) { A_s[k, t] = A[k, t] }
    }
    bind threadIdx.x for t in 8 {
      block T(k: S 6 = k, t: S 8 = t) { T[k, t] = A_s[k, t] + 1.0 }
    }
    bind threadIdx.x for t in 8 {
      block Y(k: S 6 = k, t: S 8 = t) { Y[k, t] = T[k, 7 - t] }
    }
  }
}
)");
  Arena arena;
  Result<LoweredGpuProgram> kernels = lowered(arena, program.program);
  ASSERT_TRUE(kernels) << to_string(kernels.rejected());
  EXPECT_EQ(test::difference(program.program, as_interpreted(arena, *kernels), 1), "");
  std::string text = print_device_source(*kernels, SourceLanguage::CudaC, "k")->code;
  std::size_t compute = text.find(" = A_s[", text.find("for (")), barrier = text.find("__syncthreads();", compute);
  ASSERT_NE(compute, std::string::npos) << text;
  EXPECT_LT(barrier, text.find("Y[", compute)) << "work-items read what others computed\n" << text;
}

TEST(LowerGpu, OnlyCopiesOfItsOwnAreMadeAhead) {
  std::string plain = "b = get_block(\"C\")\ni, j, k = get_loops(b)\n";
  auto refusal = [&](const std::string& schedule) {
    return difference("matmul(M = 8, N = 8, K = 8)", plain + schedule);
  };
  EXPECT_EQ(refusal("annotate(k, \"stages\", 2)\n"),
            "rejected: the copies of loop `k` cannot be staged: expected copies into shared buffers of its own, and "
            "what reads them");
  EXPECT_EQ(refusal("c = cache_read(b, 0, \"shared\")\ncompute_at(c, k)\nunroll(k)\nannotate(k, \"stages\", 2)\n"),
            "rejected: the copies of loop `k` cannot be staged: expected a serial loop");
}

// A thread loop over two nests of thread loops is taken in two steps. What each of its iterations has for itself would
// then be shared.
TEST(LowerGpu, AThreadLoopWhoseIterationsHaveTheirOwnBufferIsNotTakenApart) {
  OwnedProgram program = parsed(R"(program p(X: input f32[8], Y: output f32[8, 4]) {
  local T: f32[1]
  bind threadIdx.x for i in 8 {
    block A(i: S 8 = i) { T[0] = X[i] }
    bind threadIdx.y for j in 4 {
      block B(i: S 8 = i, j: S 4 = j) { Y[i, j] = T[0] }
    }
  }
}
)");
  Arena arena;
  Result<LoweredGpuProgram> kernels = lowered(arena, program.program);
  ASSERT_FALSE(kernels);
  EXPECT_NE(to_string(kernels.rejected()).find("`T`"), std::string::npos) << to_string(kernels.rejected());
}

// Three stages of a row of 512 elements, each of which reads its predecessor from behind; a work-item takes every 64th
// element.
constexpr const char* kChain = R"(program p(X: input f32[3, 512], Y: output f32[3, 512]) {
  local B: f32[3, 512] in shared
  local C: f32[3, 512] in shared
  local D: f32[3, 512] in shared
  bind blockIdx.x for i in 3 {
    bind threadIdx.x for b in 64 {
      for u in 8 { block B_(i: S 3 = i, j: S 512 = u * 64 + b) { B[i, j] = X[i, 511 - j] * 2.0 } }
    }
    bind threadIdx.x for c in 64 {
      for u in 8 { block C_(i: S 3 = i, j: S 512 = u * 64 + c) { C[i, j] = B[i, 511 - j] + 1.0 } }
    }
    bind threadIdx.x for d in 64 {
      for u in 8 { block D_(i: S 3 = i, j: S 512 = u * 64 + d) { D[i, j] = C[i, 511 - j] * 3.0 } }
    }
    bind threadIdx.x for y in 64 {
      for u in 8 { block Y_(i: S 3 = i, j: S 512 = u * 64 + y) { Y[i, j] = D[i, 511 - j] } }
    }
  }
}
)";

TEST(LowerGpu, SharedBuffersTakeTurns) {
  OwnedProgram program = parsed(kChain);
  Arena arena;
  // Two of the three are needed at a time: 4 KiB.
  Result<LoweredGpuProgram> refused = lowered(arena, program.program, {.shared_bytes = 4095});
  EXPECT_TRUE(!refused || refused->scratch_bytes > 0) << "4,096 bytes are needed";
  Result<LoweredGpuProgram> kernels = lowered(arena, program.program, {.shared_bytes = 4096});
  ASSERT_TRUE(kernels) << to_string(kernels.rejected());
  EXPECT_EQ(test::difference(program.program, as_interpreted(arena, *kernels), 1), "");
  Result<Kernel> printed = print_device_source(*kernels, SourceLanguage::CudaC, "p");
  ASSERT_TRUE(printed);
  const std::string& code = printed->code;
  EXPECT_EQ(count_of(code, "__shared__ float"), 2u) << code;
  EXPECT_EQ(count_of(code, "__syncthreads();"), 3u) << "before the second, third and fourth step\n" << code;
  EXPECT_EQ(count_of(code, "D["), 0u) << code;
}

// Sums in shared memory lie over the operands, whose types are others: 4 KiB over 2 x 4 KiB.
TEST(LowerGpu, BuffersOfSeveralTypesLieOverEachOther) {
  const char* use = "matmul(M = 64, N = 64, K = 96, T = f16)";
  EXPECT_EQ(difference(use, test::warp_mma_schedule(true), {.shared_bytes = 8192}), "");
  EXPECT_NE(difference(use, test::warp_mma_schedule(true), {.shared_bytes = 8191}), "");
  std::string staged = source(use, test::warp_mma_schedule(true), SourceLanguage::CudaC);
  EXPECT_EQ(count_of(staged, "unsigned char tw_placed[8192]"), 1u) << staged;
  EXPECT_EQ(count_of(staged, "(tw_placed + 0)"), 2u) << "the sums and an operand\n" << staged;
  EXPECT_EQ(count_of(staged, "__syncthreads();"), 3u)
      << "in each pass, before the sums are written over the operands, and before they are read\n"
      << staged;
  EXPECT_GT(count_of(staged, "*(int2*)(C + "), 0u) << "four halves at once\n" << staged;
  std::string direct = source(use, test::warp_mma_schedule(false), SourceLanguage::CudaC);
  EXPECT_EQ(count_of(direct, "tw_placed"), 0u) << direct;
  EXPECT_EQ(count_of(direct, "__syncthreads();"), 1u) << direct;
  std::string opencl = source(use, test::warp_mma_schedule(true), SourceLanguage::OpenClC);
  EXPECT_EQ(count_of(opencl, "__local uchar tw_placed[8192]"), 1u) << opencl;
  EXPECT_EQ(count_of(opencl, "__local float* const "), 1u) << opencl;
}

TEST(LowerGpu, ScratchOfKernelsTakesTurns) {
  // A chain of five kernels with four buffers between them, of which two are needed at a time.
  OwnedProgram program = parsed(R"(program p(X: input f32[64], Y: output f32[64]) {
  local A: f32[64]
  local B: f32[64]
  local C: f32[64]
  local D: f32[64]
  for i in 64 { block A_(i: S 64 = i) { A[i] = X[63 - i] + 1.0 } }
  for i in 64 { block B_(i: S 64 = i) { B[i] = A[63 - i] * 2.0 } }
  for i in 64 { block C_(i: S 64 = i) { C[i] = B[63 - i] + 3.0 } }
  for i in 64 { block D_(i: S 64 = i) { D[i] = C[63 - i] * 4.0 } }
  for i in 64 { block Y_(i: S 64 = i) { Y[i] = D[63 - i] + 5.0 } }
}
)");
  Arena arena;
  Result<LoweredGpuProgram> kernels = lowered(arena, program.program);
  ASSERT_TRUE(kernels) << to_string(kernels.rejected());
  EXPECT_EQ(kernels->run.size(), 5u);
  EXPECT_EQ(kernels->scratch_bytes, 512);
  EXPECT_EQ(test::difference(program.program, as_interpreted(arena, *kernels), 1), "");
}

// The one mark that changes results is believed by the workload's tolerance only.
TEST(LowerGpu, FloatsAreRoundedWhereTheToleranceAllowsIt) {
  test::Scheduled scheduled("matmul(M = 16, N = 8, K = 16)", {}, R"(b = get_block("C")
i, j, k = get_loops(b)
annotate(i, "warp_mma", 2)
)");
  Arena arena;
  Program program = scheduled.program();
  EXPECT_EQ(to_string(lowered(arena, program).rejected()),
            "the products of block `C` would be rounded to 9 bits, but the workload's tolerance asks for 24");
  program.tolerance = {1e-3, 1e-2};
  EXPECT_EQ(to_string(lowered(arena, program).rejected()),
            "the products of block `C` would be rounded to 9 bits, but the workload's tolerance asks for 11");
  program.tolerance = {2e-3, 1e-2};
  EXPECT_EQ(to_string(lowered(arena, program).rejected()),
            "the products of block `C` would be rounded to 9 bits, but the workload's tolerance asks for 10");
  program.tolerance = {4e-3, 1e-2};  // 9: just enough
  EXPECT_TRUE(lowered(arena, program));
}

// Products of a result count together, however its sum is cut into blocks: 256 ask for one bit more than 64.
TEST(LowerGpu, PartialSumsAreRoundedAsTheWholeSumIs) {
  for (const char* cut :
       {"annotate(i, \"warp_mma\", 2)\n",
        "k0, k1 = split(k, [4, 64])\nr = rfactor(k0, 0)\nx, y, u, v = get_loops(r)\nannotate(x, \"warp_mma\", 2)\n",
        "k0, k1 = split(k, [4, 64])\nw = blockize(k1)\nannotate(i, \"warp_mma\", 2)\n",
        "k0, k1 = split(k, [4, 64])\nannotate(k1, \"warp_mma\", 2)\nw = blockize(k0)\n"}) {
    test::Scheduled scheduled("matmul(M = 16, N = 8, K = 256)", {},
                              cat("b = get_block(\"C\")\ni, j, k = get_loops(b)\n", cut));
    Arena arena;
    Program program = scheduled.program();
    program.tolerance = {0.015, 0.015};
    Result<LoweredGpuProgram> kernels = lowered(arena, program);
    ASSERT_FALSE(kernels) << cut;
    EXPECT_NE(
        to_string(kernels.rejected()).find("would be rounded to 9 bits, but the workload's tolerance asks for 10"),
        std::string::npos)
        << cut << to_string(kernels.rejected());
  }
}

TEST(LowerGpu, VirtualThreadsAreCopiesOfCode) {
  std::string schedule = R"(b = get_block("C")
i, j, k = get_loops(b)
i0, i1 = split(i, [_, 4])
reorder([i1, i0])
bind(i1, "threadIdx.x")
bind(i0, "vthread")
)";
  EXPECT_EQ(difference("matmul(M = 12, N = 4, K = 5)", schedule), "");
  std::string text = source("matmul(M = 12, N = 4, K = 5)", schedule, SourceLanguage::OpenClC);
  EXPECT_NE(text.find("reqd_work_group_size(4, 1, 1)"), std::string::npos) << text;
  EXPECT_EQ(text.find("vthread"), std::string::npos);
}

TEST(LowerGpu, RefusesWhatADeviceCannotDo) {
  std::string start = "b = get_block(\"C\")\ni, j, k = get_loops(b)\n";
  auto refusal = [&](const std::string& schedule) {
    return difference("matmul(M = 8, N = 8, K = 8)", start + schedule, {.threads = 16});
  };
  EXPECT_EQ(refusal("bind(i, \"threadIdx.x\")\nbind(j, \"threadIdx.x\")\n"),
            "rejected: loop `j` is inside of another loop that is bound to threadIdx.x");
  EXPECT_EQ(refusal("bind(i, \"threadIdx.x\")\nbind(j, \"blockIdx.x\")\n"),
            "rejected: loop `j` is bound to blockIdx.x, but something other than loops over groups is around it");
  EXPECT_EQ(refusal("bind(i, \"threadIdx.x\")\nbind(j, \"threadIdx.y\")\n"),
            "rejected: a work-group has 64 work-items, more than 16");
}

}  // namespace
}  // namespace tw
