// The printed source of devices: how it looks.
#include <gtest/gtest.h>

#include <set>

#include "backends/gpu_source/source.h"
#include "dsl/base/text.h"
#include "support/device_schedules.h"
#include "support/device_source.h"
#include "support/parsed.h"

namespace tw {
namespace {

using test::count_of, test::lowered, test::parsed, test::source;

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

// The places of a thread's accesses differ by bits that are known and by whole periods of the layout: what is left to
// compute is the same for all passes and stages.
TEST(GpuSource, PlacesInAnXorLayoutAreShared) {
  std::string schedule = test::warp_mma_schedule(false) +
                         "set_layout(rows, 0, \"xor\", bits = 2)\nset_layout(columns, 0, \"xor\", bits = 2)\n";
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

// Quotients within two units in the last place are a few instructions. Those by constants are exact, in vectors, too;
// and all of them where the program makes whole numbers of floats, be it in another kernel.
TEST(GpuSource, QuotientsAreFastWhereNobodyRoundsThem) {
  auto code = [](const std::string& blocks) {
    OwnedProgram program = parsed(
        cat("program p(X: input f32[64], Y: input f32[64], Z: output f32[64]) {\n  local N: f32[64]\n", blocks, "}\n"));
    Arena arena;
    Result<LoweredGpuProgram> kernels = lowered(arena, program.program);
    EXPECT_TRUE(kernels);
    Result<Kernel> printed = print_device_source(*kernels, SourceLanguage::CudaC, "p");
    EXPECT_TRUE(printed);
    return printed->code.substr(printed->code.find("__global__"));
  };
  auto one = [](const char* value) {
    return cat("  bind blockIdx.x for i in 64 { block Z(i: S 64 = i) { Z[i] = ", value, " } }\n");
  };
  auto quotients = [&](const std::string& blocks) { return count_of(code(blocks), "tw_divide("); };
  EXPECT_EQ(quotients(one("exp(X[i]) / Y[i]")), 1u);
  EXPECT_EQ(quotients(one("f32(f16(X[i]) / f16(Y[i]))")), 1u);
  for (const char* exact : {"floor(X[i] / Y[i])", "round(1.0 + X[i] / Y[i])", "f32(i32(X[i] / Y[i]))", "X[i] / 3.0"}) {
    EXPECT_EQ(quotients(one(exact)), 0u) << exact;
    EXPECT_GE(count_of(code(one(exact)), " / "), 1u) << exact;
  }
  EXPECT_EQ(quotients("  bind blockIdx.x for i in 16 { vectorize for v in 4 { block Z(i: S 64 = i * 4 + v) { Z[i] = "
                      "X[i] / 3.0 } } }\n"),
            0u);
  // A whole number that is chosen by comparing quotients.
  std::string chosen =
      "  bind blockIdx.x for i in 64 { block N(i: S 64 = i) { N[i] = f32(if X[i] / Y[i] > 0.5 then i64(1) else i64(2)) "
      "} }\n";
  EXPECT_EQ(quotients(chosen), 0u);
  EXPECT_EQ(quotients(one("if X[i] / Y[i] > 0.5 then X[i] else Y[i]")), 1u);
  std::string apart = "  bind blockIdx.x for i in 64 { block N(i: S 64 = i) { N[i] = X[i] / Y[i] } }\n";
  EXPECT_EQ(quotients(apart + one("N[i]")), 1u);
  EXPECT_EQ(quotients(apart + one("floor(N[i])")), 0u);
}

// The second number of CUDA's launch bounds; the mark means nothing to others.
TEST(GpuSource, ACompilerIsToldHowManyGroupsShallFit) {
  auto marked = [](int blocks) {
    return cat(test::gpu_gemm_schedule({}), "annotate(j0, \"min_blocks\", ", blocks, ")\n");
  };
  const char* use = "matmul(M = 8, N = 16, K = 8)";
  EXPECT_EQ(count_of(source(use, marked(0), SourceLanguage::CudaC), "__launch_bounds__(4) "), 1u);
  EXPECT_EQ(count_of(source(use, marked(3), SourceLanguage::CudaC), "__launch_bounds__(4, 3) "), 1u);
  EXPECT_EQ(
      count_of(source("matmul(M = 4, N = 8, K = 8)", marked(3), SourceLanguage::CudaC), "__launch_bounds__(4, 3) "), 1u)
      << "the loop has one iteration";
  EXPECT_EQ(source(use, marked(3), SourceLanguage::OpenClC), source(use, marked(0), SourceLanguage::OpenClC));
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
