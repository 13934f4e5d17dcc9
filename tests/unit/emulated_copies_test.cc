// Copies that loops make ahead, asynchronous or not, as printed CUDA C: when they are waited for, by the emulator,
// which delivers them as late as it may.
#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "runtime/emulation/emulation.h"
#include "sampler/search/emulation_gate.h"
#include "support/device_schedules.h"
#include "support/device_source.h"
#include "support/drawn_kernels.h"
#include "support/parsed.h"
#include "support/scheduled.h"

namespace tw {
namespace {

using test::count_of, test::cuda_kernel, test::parsed;

// `kernel`: of the scheduled program.
std::string verdict(const Program& workload, const Program& scheduled, const Kernel& kernel) {
  EmulationVerdict found = check_by_emulation(workload, {kernel, scheduled}, {.runs = 6});
  return found.kind == EmulationVerdict::Right ? "right" : cat(found.message, "\n", kernel.code);
}

class EmulatedCopies : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    ASSERT_NE(emulation_compiler(error), "") << error << ": these tests were compiled, so there is a compiler";
  }
};

TEST_F(EmulatedCopies, ArriveForAllStagesAndTails) {
  for (int stages : {2, 3, 5}) {
    for (int k : {8, 32, 30}) {
      for (const char* async : {"make_async(c0)\nmake_async(c1)\n", "make_async(c1)\n", ""}) {
        std::string use = cat("matmul(M = 8, N = 16, K = ", k, ")");
        test::Scheduled scheduled(use, {}, cat(test::gpu_gemm_schedule({}), "pipeline(k0, ", stages, ")\n", async));
        EXPECT_EQ(verdict(scheduled.base().program, scheduled.program(), cuda_kernel(scheduled.program())), "right")
            << use << ", " << stages << " stages, " << async;
      }
    }
  }
}

// In front of an iteration nothing waits for what later ones read, be the loop cut into pieces or not.
TEST_F(EmulatedCopies, AreWaitedForOneIterationAtATime) {
  for (const char* async : {"make_async(c0)\nmake_async(c1)\n", "make_async(c1)\n"}) {
    for (int k : {32, 30}) {
      std::string code = cuda_kernel(cat("matmul(M = 8, N = 16, K = ", k, ")"),
                                     cat(test::gpu_gemm_schedule({}), "pipeline(k0, 4)\n", async))
                             .code;
      EXPECT_GE(count_of(code, "tw_copy_async_wait<2>();"), 1u) << code;
      EXPECT_EQ(count_of(code, "tw_copy_async_commit();\n") - count_of(code, "tw_copy_async_wait<2>();"), 3u)
          << "in front of the loop\n"
          << code;
    }
  }
}

// $ is how many versions there are.
std::string staged(const char* text, int versions) {
  std::string out = text;
  out.replace(out.find('$'), 1, std::to_string(versions));
  return out;
}

// The loop counts versions beside variables of the same name.
TEST_F(EmulatedCopies, VersionsHaveNamesOfTheirOwn) {
  for (int versions : {2, 3, 5}) {
    OwnedProgram program = parsed(staged(R"(program p(A: input f32[2, 8, 32], Y: output f32[2, 32, 4]) {
  local S: f32[2, 8, 32] in shared
  local version: f32[2, 32, 4] in register
  bind blockIdx.x for g in 2 {
    bind threadIdx.x for u in 32 {
      unroll for v in 4 { block I(h: S 2 = g, j: S 32 = u, c: S 4 = v) { version[h, j, c] = 0.0 } }
    }
    for k in 8 @stages = $ {
      bind threadIdx.x for t in 32 @async = 1 {
        block S(h: S 2 = g, i: S 8 = k, j: S 32 = t) { S[h, i, j] = A[h, i, j] }
      }
      bind threadIdx.x for u in 32 {
        unroll for v in 4 {
          block V(h: S 2 = g, j: S 32 = u, c: S 4 = v, i: R 8 = k) { version[h, j, c] = version[h, j, c] + S[h, i, j] }
        }
      }
    }
    bind threadIdx.x for u in 32 {
      unroll for v in 4 { block Y(h: S 2 = g, j: S 32 = u, c: S 4 = v) { Y[h, j, c] = version[h, j, c] } }
    }
  }
}
)",
                                         versions));
    EXPECT_EQ(verdict(program.program, program.program, cuda_kernel(program.program)), "right");
  }
}

// One work-item takes the whole loop, which is no copy of the group's then.
TEST_F(EmulatedCopies, OfALoopWithoutWorkItemsAreThere) {
  for (int versions : {2, 3, 5}) {
    OwnedProgram program =
        parsed(staged(R"(program p(A: input f32[8, 32], B: input f32[64], Y: output f32[32], Z: output f32[64]) {
  local S: f32[8, 32] in shared
  bind blockIdx.x for g in 1 {
    bind threadIdx.x for q in 64 { block Z(i: S 64 = q) { Z[i] = B[i] + 1.0 } }
    for k in 8 @stages = $ {
      for t in 32 @async = 1 { block S(i: S 8 = k, j: S 32 = t) { S[i, j] = A[i, j] } }
      for u in 32 {
        block Y(j: S 32 = u, i: R 8 = k) {
          init { Y[j] = 0.0 }
          Y[j] = Y[j] + S[i, j]
        }
      }
    }
  }
}
)",
                      versions));
    EXPECT_EQ(verdict(program.program, program.program, cuda_kernel(program.program)), "right");
  }
}

// Its groups of copies are those of one round around it; and another loop follows.
TEST_F(EmulatedCopies, OfALoopInsideOfAnotherAreThere) {
  for (int versions : {2, 3, 5}) {
    OwnedProgram program = parsed(
        staged(R"(program p(A: input f32[3, 8, 32], B: input f32[8, 32], Y: output f32[3, 32], Z: output f32[32]) {
  local S: f32[3, 8, 32] in shared
  local T: f32[8, 32] in shared
  bind blockIdx.x for g in 1 {
    for o in 3 {
      for k in 8 @stages = $ {
        bind threadIdx.x for t in 32 @async = 1 {
          block S(h: S 3 = o, i: S 8 = k, j: S 32 = t) { S[h, i, j] = A[h, i, j] }
        }
        bind threadIdx.x for u in 32 {
          block Y(h: S 3 = o, j: S 32 = u, i: R 8 = k) {
            init { Y[h, j] = 0.0 }
            Y[h, j] = Y[h, j] + S[h, i, 31 - j]
          }
        }
      }
    }
    for m in 8 @stages = 3 {
      bind threadIdx.x for t in 32 @async = 1 { block T(i: S 8 = m, j: S 32 = t) { T[i, j] = B[i, j] } }
      bind threadIdx.x for u in 32 {
        block Z(j: S 32 = u, i: R 8 = m) {
          init { Z[j] = 0.0 }
          Z[j] = Z[j] + T[i, 31 - j]
        }
      }
    }
  }
}
)",
               versions));
    EXPECT_EQ(verdict(program.program, program.program, cuda_kernel(program.program)), "right");
  }
}

}  // namespace
}  // namespace tw
