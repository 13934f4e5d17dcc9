// Lowering for devices and the printed source: what it means (by the interpreter), and how it looks.
#include "dsl/passes/lower_gpu.h"

#include <gtest/gtest.h>

#include <set>

#include "backends/device_form.h"
#include "backends/gpu_source/source.h"
#include "dsl/base/rng.h"
#include "dsl/text/parse_program.h"
#include "support/device_schedules.h"
#include "support/meaning.h"
#include "support/scheduled.h"

namespace tw {
namespace {

constexpr LoweringOptions kOptions{.vector_bits = 128, .vector_registers = 32};

Result<LoweredGpuProgram> lowered(Arena& arena, const Program& program, const GpuLimits& limits = {}) {
  return lower_gpu(arena, program, kOptions, limits);
}

// "" if the kernels compute what the program does.
std::string difference(const std::string& use, const std::string& schedule, const GpuLimits& limits = {}) {
  test::Scheduled before(use, {}, ""), after(use, {}, schedule);
  Arena arena;
  Result<LoweredGpuProgram> kernels = lowered(arena, after.program(), limits);
  if (!kernels) return "rejected: " + to_string(kernels.rejected());
  return test::difference(before.program(), as_interpreted(arena, *kernels), 1);
}

std::string source(const std::string& use, const std::string& schedule, SourceLanguage language) {
  test::Scheduled scheduled(use, {}, schedule);
  Arena arena;
  Result<LoweredGpuProgram> kernels = lowered(arena, scheduled.program());
  if (!kernels) return "rejected: " + to_string(kernels.rejected());
  Result<Kernel> printed = print_device_source(*kernels, language, "mm");
  return printed ? printed->code : "rejected: " + to_string(printed.rejected());
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
    EXPECT_EQ(difference("softmax(M = 4, N = 10)", test::shared_rows_schedule(rows, side)), "") << rows << " x " << side;
  std::string shuffles = source("softmax(M = 4, N = 100)", test::shared_rows_schedule(2, 64), SourceLanguage::CudaC);
  std::size_t n = 0;
  for (std::size_t at = 0; (at = shuffles.find("__shfl_xor_sync(4294967295u, ", at)) != std::string::npos; ++at) ++n;
  EXPECT_EQ(n, 5u) << shuffles;
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
  std::string ahead = test::gpu_gemm_schedule({}) + "pipeline(k0, 3)\n", schedule = ahead + "make_async(c0)\nmake_async(c1)\n";
  EXPECT_EQ(source("matmul(M = 8, N = 16, K = 32)", ahead, SourceLanguage::CudaC).find("async"), std::string::npos) << "copies ahead, through registers";
  std::string text = source("matmul(M = 8, N = 16, K = 32)", schedule, SourceLanguage::CudaC);
  EXPECT_NE(text.find("float A_shared[48]"), std::string::npos) << "three versions\n" << text;
  EXPECT_NE(text.find("tw_copy_async_wait<2>();\n          __syncthreads();\n"), std::string::npos) << text;
  std::size_t barriers = 0;
  for (std::size_t at = 0; (at = text.find("__syncthreads();", at)) != std::string::npos; ++at) ++barriers;
  EXPECT_EQ(barriers, 2u) << "one in each of the two parts of the loop\n" << text;
  text = source("matmul(M = 8, N = 16, K = 32)", schedule, SourceLanguage::OpenClC);
  EXPECT_EQ(text.find("async"), std::string::npos) << text;
}

// What work-items compute for each other in a staged loop is no copy: the one barrier of an iteration does not order it.
TEST(LowerGpu, ValuesThatAStagedLoopComputesForOthersHaveTheirOwnBarriers) {
  Source source{"test", R"(program p(A: input f32[6, 8], Y: output f32[6, 8]) {
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
)"};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> program = parse_program(source, diagnostics);
  ASSERT_TRUE(program) << diagnostics.render();
  Arena arena;
  Result<LoweredGpuProgram> kernels = lowered(arena, program->program);
  ASSERT_TRUE(kernels) << to_string(kernels.rejected());
  EXPECT_EQ(test::difference(program->program, as_interpreted(arena, *kernels), 1), "");
  std::string text = print_device_source(*kernels, SourceLanguage::CudaC, "k")->code;
  std::size_t compute = text.find(" = A_s[", text.find("for (")), barrier = text.find("__syncthreads();", compute);
  ASSERT_NE(compute, std::string::npos) << text;
  EXPECT_LT(barrier, text.find("Y[", compute)) << "work-items read what others computed\n" << text;
}

TEST(LowerGpu, OnlyCopiesOfItsOwnAreMadeAhead) {
  std::string plain = "b = get_block(\"C\")\ni, j, k = get_loops(b)\n";
  auto refusal = [&](const std::string& schedule) { return difference("matmul(M = 8, N = 8, K = 8)", plain + schedule); };
  EXPECT_EQ(refusal("annotate(k, \"stages\", 2)\n"),
            "rejected: the copies of loop `k` cannot be staged: expected copies into shared buffers of its own, and what reads them");
  EXPECT_EQ(refusal("c = cache_read(b, 0, \"shared\")\ncompute_at(c, k)\nunroll(k)\nannotate(k, \"stages\", 2)\n"),
            "rejected: the copies of loop `k` cannot be staged: expected a serial loop");
}

// A thread loop over two nests of thread loops is taken in two steps. What each of its iterations has for itself would then be shared.
TEST(LowerGpu, AThreadLoopWhoseIterationsHaveTheirOwnBufferIsNotTakenApart) {
  Source source{"test", R"(program p(X: input f32[8], Y: output f32[8, 4]) {
  local T: f32[1]
  bind threadIdx.x for i in 8 {
    block A(i: S 8 = i) { T[0] = X[i] }
    bind threadIdx.y for j in 4 {
      block B(i: S 8 = i, j: S 4 = j) { Y[i, j] = T[0] }
    }
  }
}
)"};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> program = parse_program(source, diagnostics);
  ASSERT_TRUE(program) << diagnostics.render();
  Arena arena;
  Result<LoweredGpuProgram> kernels = lowered(arena, program->program);
  ASSERT_FALSE(kernels);
  EXPECT_NE(to_string(kernels.rejected()).find("`T`"), std::string::npos) << to_string(kernels.rejected());
}

// Three stages of a row of 512 elements, each of which reads its predecessor from behind; a work-item takes every 64th element.
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
  Source text{"test", kChain};
  Diagnostics diagnostics(text);
  std::optional<OwnedProgram> program = parse_program(text, diagnostics);
  ASSERT_TRUE(program) << diagnostics.render();
  Arena arena;
  // Two of the three are needed at a time: 4 KiB.
  Result<LoweredGpuProgram> refused = lowered(arena, program->program, {.shared_bytes = 4095});
  EXPECT_TRUE(!refused || refused->scratch_bytes > 0) << "4,096 bytes are needed";
  Result<LoweredGpuProgram> kernels = lowered(arena, program->program, {.shared_bytes = 4096});
  ASSERT_TRUE(kernels) << to_string(kernels.rejected());
  EXPECT_EQ(test::difference(program->program, as_interpreted(arena, *kernels), 1), "");
  Result<Kernel> printed = print_device_source(*kernels, SourceLanguage::CudaC, "p");
  ASSERT_TRUE(printed);
  const std::string& code = printed->code;
  auto count = [&](const std::string& word) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = code.find(word, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(count("__shared__ float"), 2u) << code;
  EXPECT_EQ(count("__syncthreads();"), 3u) << "before the second, third and fourth step\n" << code;
  EXPECT_EQ(count("D["), 0u) << code;
}

std::size_t count_of(const std::string& text, const std::string& word, std::size_t end = std::string::npos) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) < end; ++at) ++n;
  return n;
}

// Sums in shared memory lie over the operands, whose types are others: 4 KiB over 2 x 4 KiB.
TEST(LowerGpu, BuffersOfSeveralTypesLieOverEachOther) {
  const char* use = "matmul(M = 64, N = 64, K = 96, T = f16)";
  EXPECT_EQ(difference(use, test::warp_mma_schedule(true), {.shared_bytes = 8192}), "");
  EXPECT_NE(difference(use, test::warp_mma_schedule(true), {.shared_bytes = 8191}), "");
  std::string staged = source(use, test::warp_mma_schedule(true), SourceLanguage::CudaC);
  EXPECT_EQ(count_of(staged, "unsigned char tw_placed[8192]"), 1u) << staged;
  EXPECT_EQ(count_of(staged, "(tw_placed + 0)"), 2u) << "the sums and an operand\n" << staged;
  EXPECT_EQ(count_of(staged, "__syncthreads();"), 3u) << "in each pass, before the sums are written over the operands, and before they are read\n" << staged;
  EXPECT_GT(count_of(staged, "*(int2*)(C + "), 0u) << "four halves at once\n" << staged;
  std::string direct = source(use, test::warp_mma_schedule(false), SourceLanguage::CudaC);
  EXPECT_EQ(count_of(direct, "tw_placed"), 0u) << direct;
  EXPECT_EQ(count_of(direct, "__syncthreads();"), 1u) << direct;
  std::string opencl = source(use, test::warp_mma_schedule(true), SourceLanguage::OpenClC);
  EXPECT_EQ(count_of(opencl, "__local uchar tw_placed[8192]"), 1u) << opencl;
  EXPECT_EQ(count_of(opencl, "__local float* const "), 1u) << opencl;
}

// Eight instructions to a step: what the next one multiplies is loaded before the first of this one.
TEST(GpuSource, OperandsOfMatrixInstructionsComeAhead) {
  const char* use = "matmul(M = 64, N = 64, K = 96, T = f16)";
  auto loads_before_the_first = [&](const std::string& text) {
    std::size_t kernel = text.find("__global__");
    std::string body = text.substr(kernel);
    return count_of(body, "tw_ldmatrix_", body.find("tw_mma_"));
  };
  std::string plain = source(use, test::warp_mma_schedule(false), SourceLanguage::CudaC);
  std::string ahead = source(use, test::warp_mma_schedule(false, 8), SourceLanguage::CudaC);
  EXPECT_EQ(loads_before_the_first(plain), 2u) << plain;
  EXPECT_EQ(loads_before_the_first(ahead), 4u) << ahead;
  EXPECT_EQ(count_of(ahead, " tw_ldmatrix_"), count_of(plain, " tw_ldmatrix_")) << "nothing is loaded twice";
  EXPECT_EQ(count_of(ahead, " tw_mma_"), count_of(plain, " tw_mma_"));
}

// The places of a thread's accesses differ by bits that are known and by whole periods of the layout: what is left to compute is the same
// for all passes and stages.
TEST(GpuSource, PlacesInAnXorLayoutAreShared) {
  std::string schedule = test::warp_mma_schedule(false) + "set_layout(rows, 0, \"xor\", bits = 2)\nset_layout(columns, 0, \"xor\", bits = 2)\n";
  std::string code = source("matmul(M = 64, N = 64, K = 96, T = f16)", schedule, SourceLanguage::CudaC);
  std::string kernel = code.substr(code.find("__global__"));
  std::set<std::string> places;
  for (std::size_t at = 0; (at = kernel.find("tw_xor_", at)) != std::string::npos; ++at) {
    std::size_t open = kernel.find('(', at), close = open;
    for (int depth = 0; (depth += kernel[close] == '(' ? 1 : kernel[close] == ')' ? -1 : 0) > 0;) ++close;
    places.insert(kernel.substr(open, close - open));
  }
  EXPECT_EQ(places.size(), 3u) << "one for each copy, and one of what both operands are\n" << kernel;
  EXPECT_NE(kernel.find("(k_0 "), std::string::npos) << kernel;
  for (const std::string& place : places) EXPECT_EQ(place.find("(k_0 "), std::string::npos) << "the pass: " << place;
  EXPECT_GT(count_of(kernel, " ^ 16)"), 0u) << "the second step of 16\n" << kernel;
}

// Quotients within two units in the last place are a few instructions. Those by constants are exact, in vectors, too; and all of them where the
// program makes whole numbers of floats, be it in another kernel.
TEST(GpuSource, QuotientsAreFastWhereNobodyRoundsThem) {
  auto code = [](const std::string& blocks) {
    Source text{"test", cat("program p(X: input f32[64], Y: input f32[64], Z: output f32[64]) {\n  local N: f32[64]\n", blocks, "}\n")};
    Diagnostics diagnostics(text);
    std::optional<OwnedProgram> program = parse_program(text, diagnostics);
    EXPECT_TRUE(program) << diagnostics.render();
    Arena arena;
    Result<LoweredGpuProgram> kernels = lowered(arena, program->program);
    EXPECT_TRUE(kernels);
    Result<Kernel> printed = print_device_source(*kernels, SourceLanguage::CudaC, "p");
    EXPECT_TRUE(printed);
    return printed->code.substr(printed->code.find("__global__"));
  };
  auto one = [](const char* value) { return cat("  bind blockIdx.x for i in 64 { block Z(i: S 64 = i) { Z[i] = ", value, " } }\n"); };
  auto quotients = [&](const std::string& blocks) { return count_of(code(blocks), "tw_divide("); };
  EXPECT_EQ(quotients(one("exp(X[i]) / Y[i]")), 1u);
  EXPECT_EQ(quotients(one("f32(f16(X[i]) / f16(Y[i]))")), 1u);
  for (const char* exact : {"floor(X[i] / Y[i])", "round(1.0 + X[i] / Y[i])", "f32(i32(X[i] / Y[i]))", "X[i] / 3.0"}) {
    EXPECT_EQ(quotients(one(exact)), 0u) << exact;
    EXPECT_GE(count_of(code(one(exact)), " / "), 1u) << exact;
  }
  EXPECT_EQ(quotients("  bind blockIdx.x for i in 16 { vectorize for v in 4 { block Z(i: S 64 = i * 4 + v) { Z[i] = X[i] / 3.0 } } }\n"), 0u);
  std::string apart = "  bind blockIdx.x for i in 64 { block N(i: S 64 = i) { N[i] = X[i] / Y[i] } }\n";
  EXPECT_EQ(quotients(apart + one("N[i]")), 1u);
  EXPECT_EQ(quotients(apart + one("floor(N[i])")), 0u);
}

TEST(LowerGpu, ScratchOfKernelsTakesTurns) {
  // A chain of five kernels with four buffers between them, of which two are needed at a time.
  Source text{"test", R"(program p(X: input f32[64], Y: output f32[64]) {
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
)"};
  Diagnostics diagnostics(text);
  std::optional<OwnedProgram> program = parse_program(text, diagnostics);
  ASSERT_TRUE(program) << diagnostics.render();
  Arena arena;
  Result<LoweredGpuProgram> kernels = lowered(arena, program->program);
  ASSERT_TRUE(kernels) << to_string(kernels.rejected());
  EXPECT_EQ(kernels->run.size(), 5u);
  EXPECT_EQ(kernels->scratch_bytes, 512);
  EXPECT_EQ(test::difference(program->program, as_interpreted(arena, *kernels), 1), "");
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
  for (const char* cut : {"annotate(i, \"warp_mma\", 2)\n",
                          "k0, k1 = split(k, [4, 64])\nr = rfactor(k0, 0)\nx, y, u, v = get_loops(r)\nannotate(x, \"warp_mma\", 2)\n",
                          "k0, k1 = split(k, [4, 64])\nw = blockize(k1)\nannotate(i, \"warp_mma\", 2)\n",
                          "k0, k1 = split(k, [4, 64])\nannotate(k1, \"warp_mma\", 2)\nw = blockize(k0)\n"}) {
    test::Scheduled scheduled("matmul(M = 16, N = 8, K = 256)", {}, cat("b = get_block(\"C\")\ni, j, k = get_loops(b)\n", cut));
    Arena arena;
    Program program = scheduled.program();
    program.tolerance = {0.015, 0.015};
    Result<LoweredGpuProgram> kernels = lowered(arena, program);
    ASSERT_FALSE(kernels) << cut;
    EXPECT_NE(to_string(kernels.rejected()).find("would be rounded to 9 bits, but the workload's tolerance asks for 10"), std::string::npos)
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

TEST(GpuSource, OpenClText) {
  EXPECT_EQ(
      source("matmul(M = 4, N = 8, K = 4)",
             test::gpu_gemm_schedule({.ty = 2, .tx = 2, .rows = 1, .columns = 4, .depth = 2}), SourceLanguage::OpenClC),
      R"(#pragma OPENCL FP_CONTRACT ON

// C_store_0: 1 x 2 x 1 work-groups
__attribute__((reqd_work_group_size(2, 2, 1)))
__kernel void mm_run_0(__global const float* restrict A, __global const float* restrict B, __global float* restrict C) {
  __local float A_shared[4] __attribute__((aligned(64)));
  __local float B_shared[16] __attribute__((aligned(64)));
  {
    const int i_0 = get_group_id(1);
    {
      float4 C_register_0;
      {
        const int i_1 = get_local_id(1);
        {
          const int j_1 = get_local_id(0);
          C_register_0 = (float4)(0.0f);
        }
      }
      for (int k_0 = 0; k_0 < 2; ++k_0) {
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        {
          const int i_k_1 = get_local_id(1);
          {
            const int i_k_2 = get_local_id(0);
            A_shared[(i_k_1 * 2) + i_k_2] = A[(((i_0 * 8) + (k_0 * 2)) + (i_k_1 * 4)) + i_k_2];
          }
        }
        {
          const int k_j_1 = get_local_id(1);
          {
            const int k_j_2 = get_local_id(0);
            for (int k_j_0 = 0; k_j_0 < 4; ++k_j_0) {
              B_shared[((k_j_1 * 2) + k_j_2) + (k_j_0 * 4)] = B[(((k_0 * 16) + (k_j_1 * 2)) + k_j_2) + (k_j_0 * 4)];
            }
          }
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        {
          const int i_1 = get_local_id(1);
          {
            const int j_1 = get_local_id(0);
            C_register_0 = C_register_0 + ((float4)(A_shared[i_1 * 2]) * *(const __local float4*)(B_shared + j_1 * 4));
            C_register_0 = C_register_0 + ((float4)(A_shared[(i_1 * 2) + 1]) * *(const __local float4*)(B_shared + (j_1 * 4) + 8));
          }
        }
      }
      {
        const int i_1 = get_local_id(1);
        {
          const int j_1 = get_local_id(0);
          *(__global float4*)(C + ((i_0 * 16) + (i_1 * 8)) + (j_1 * 4)) = C_register_0;
        }
      }
    }
  }
}
)");
}

TEST(GpuSource, CudaText) {
  EXPECT_EQ(source("matmul(M = 4, N = 8, K = 4)",
                   "b = get_block(\"C\")\ni, j, k = get_loops(b)\nbind(i, \"blockIdx.x\")\nbind(j, \"threadIdx.x\")\n",
                   SourceLanguage::CudaC),
            R"(
// C_0: 4 x 1 x 1 work-groups
extern "C" __global__ void __launch_bounds__(8) mm_run_0(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  {
    const int i = blockIdx.x;
    {
      const int j = threadIdx.x;
      C[(i * 8) + j] = 0.0f;
      for (int k = 0; k < 4; ++k) {
        C[(i * 8) + j] = C[(i * 8) + j] + (A[(i * 4) + k] * B[j + (k * 8)]);
      }
    }
  }
}
)");
}

}  // namespace
}  // namespace tw
