// Indices of printed kernels are as wide as they must be: 32 bits where every value and every intermediate result fits,
// else 64.
#include <gtest/gtest.h>

#include "backends/cuda/nvrtc.h"
#include "backends/gpu_source/source.h"
#include "dsl/base/text.h"
#include "runtime/emulation/emulation.h"
#include "sampler/search/emulation_gate.h"
#include "sampler/search/trial.h"
#include "support/clang_opencl.h"
#include "support/drawn_kernels.h"
#include "support/nvrtc.h"
#include "support/parsed.h"

namespace tw {
namespace {

using test::parsed;

Kernel kernel_of(const Program& program, TargetKind kind) {
  Target target = test::cuda_target();
  target.kind = kind;
  Arena arena;
  Result<LoweredGpuProgram> lowered = lower_gpu(arena, program, lowering_options(target), gpu_limits(target));
  if (!lowered) return ADD_FAILURE() << to_string(lowered.rejected()), Kernel{};
  Result<Kernel> kernel = device_source(*lowered, target, "k");
  EXPECT_TRUE(kernel);
  return kernel ? *kernel : Kernel{};
}

std::string text_of(const std::string& program, TargetKind kind) {
  return kernel_of(parsed(program).program, kind).code;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Doubles 65,536 x 256 x `last` elements.
std::string doubled(i64 last) {
  std::string shape = cat("f32[65536, 256, ", last, "]");
  return cat("program p(X: input ", shape, ", Y: output ", shape, R"() {
  bind blockIdx.x for i in 65536 {
    bind threadIdx.x for t in 256 {
      for j in )",
             last, R"( {
        block Y(i: S 65536 = i, t: S 256 = t, j: S )",
             last, R"( = j) { Y[i, t, j] = X[i, t, j] * 2.0 }
      }
    }
  }
}
)");
}

TEST(IndexWidth, BuffersBeyondTwoToThe31stHave64BitIndices) {
  std::string narrow = text_of(doubled(127), TargetKind::Cuda), wide = text_of(doubled(128), TargetKind::Cuda);
  for (const char* declared : {"const int i = blockIdx.x;", "const int t = threadIdx.x;", "for (int j = 0; j < 127"})
    EXPECT_TRUE(contains(narrow, declared)) << declared << "\n" << narrow;
  EXPECT_FALSE(contains(narrow, "long")) << narrow;
  for (const char* declared :
       {"const long long i = blockIdx.x;", "const long long t = threadIdx.x;", "for (long long j = 0; j < 128"})
    EXPECT_TRUE(contains(wide, declared)) << declared << "\n" << wide;
  EXPECT_FALSE(contains(wide, "int ")) << wide;
  narrow = text_of(doubled(127), TargetKind::OpenCl), wide = text_of(doubled(128), TargetKind::OpenCl);
  EXPECT_TRUE(contains(narrow, "const int i = get_group_id(0);")) << narrow;
  EXPECT_FALSE(contains(narrow, "long")) << narrow;
  EXPECT_TRUE(contains(wide, "const long i = get_group_id(0);")) << wide;
  EXPECT_FALSE(contains(wide, "int ")) << wide;
}

TEST(IndexWidth, TextsWith64BitIndicesCompile) {
  std::string clang = test::opencl_front_end();
  if (!clang.empty()) {
    EXPECT_EQ(test::refused_by_clang(clang, text_of(doubled(128), TargetKind::OpenCl), "CL1.2", "-all"), "");
  }
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  for (i64 last : {127, 128}) {
    std::string error, text = text_of(doubled(last), TargetKind::Cuda);
    std::optional<cuda::Compiled> compiled = cuda::compile(text, "sm_80", error);
    ASSERT_TRUE(compiled) << error << "\n" << text;
    EXPECT_EQ(compiled->code.size(), 1u);
  }
}

// Buffers are small; what is computed on the way to an index, or counted, is not.
struct Row {
  const char *name, *program;
  bool is_wide;
};

std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

const Row kRows[] = {
    {"ProductInAnIndex",
     R"(program p(X: input f32[1009], Y: output f32[1009]) {
  bind threadIdx.x for t in 1009 {
    block Y(i: S 1009 = t) { Y[i] = X[(i * i * 3001) // 3029041] }
  }
}
)",
     true},
    {"ProductInAnIndexThatFits",
     R"(program p(X: input f32[1009], Y: output f32[1009]) {
  bind threadIdx.x for t in 1009 {
    block Y(i: S 1009 = t) { Y[i] = X[(i * i * 2001) // 2019009] }
  }
}
)",
     false},
    {"ProductAsAValue",
     R"(program p(Y: output i64[1009]) {
  bind threadIdx.x for t in 1009 {
    block Y(i: S 1009 = t) { Y[i] = i * 3000017 }
  }
}
)",
     true},
    {"QuotientOf64BitData",
     R"(program p(X: input i64[64], Y: output i64[64], Z: output i64[64]) {
  bind threadIdx.x for t in 64 {
    block Y(i: S 64 = t) { Y[i] = (X[i] * 3000000007) // 7 }
  }
  bind threadIdx.x for t in 64 {
    block Z(i: S 64 = t) { Z[i] = (X[i] * 3000000007) % 5000000000 }
  }
}
)",
     false},
    {"Condition",
     R"(program p(X: input f32[64], Y: output f32[64]) {
  bind threadIdx.x for t in 64 {
    block Y(i: S 64 = t) { Y[i] = if i * i * 800001 + i // 3 * 8000003 < 1600000000 then X[i] else 0.0 }
  }
}
)",
     true},
};

class IntermediateResults : public ::testing::TestWithParam<Row> {};

TEST_P(IntermediateResults, AreComputedAsWideAsTheyAre) {
  OwnedProgram program = parsed(GetParam().program);
  Kernel kernel = kernel_of(program.program, TargetKind::Cuda);
  EXPECT_EQ(contains(kernel.code, "const long long t = "), GetParam().is_wide) << kernel.code;
  std::string error;
  ASSERT_NE(emulation_compiler(error), "") << error << ": these tests were compiled, so there is a compiler";
  EmulationVerdict verdict = check_by_emulation(program.program, {kernel, program.program});
  EXPECT_EQ(verdict.kind, EmulationVerdict::Right) << verdict.message << "\n" << kernel.code;
}

INSTANTIATE_TEST_SUITE_P(Each, IntermediateResults, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return info.param.name; });

// A loop beyond the end: its last iteration is at 2,147,483,999, one of the buffer's elements at 2,147,483,646.
TEST(IndexWidth, TailsThatEndBeyondTheBufferHave64BitIndices) {
  auto text = [](i64 elements) {
    i64 blocks = (elements + 999) / 1000;
    return text_of(
        cat("program p(X: input f32[", elements, "], Y: output f32[", elements, "]) {\n  bind blockIdx.x for i in ",
            blocks, " {\n    bind threadIdx.x for t in 1000 {\n      block Y(i: S ", elements,
            " = i * 1000 + t) where i * 1000 + t < ", elements, " { Y[i] = X[i] * 2.0 }\n    }\n  }\n}\n"),
        TargetKind::Cuda);
  };
  EXPECT_TRUE(contains(text(2147483647), "const long long i = ")) << text(2147483647);
  EXPECT_TRUE(contains(text(2147482647), "const int i = ")) << text(2147482647);
}

}  // namespace
}  // namespace tw
