// Matrix instructions are text: those that are there against the formulas of the PTX ISA, one that is nowhere in C++
// from its text to the emulator and NVRTC, and wrong texts.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/nvrtc.h"
#include "backends/gpu_source/source.h"
#include "dsl/base/text.h"
#include "dsl/intrinsics/intrinsic.h"
#include "dsl/passes/lower_gpu.h"
#include "dsl/text/parse_expr.h"
#include "sampler/search/emulation_gate.h"
#include "support/drawn_kernels.h"
#include "support/nvrtc.h"
#include "support/scheduled.h"

namespace tw {
namespace {

struct Read {
  std::shared_ptr<const Intrinsic> intrinsic;
  std::string complaint;
};
// Not declared.
Read read(const std::string& text) {
  Source source{"intrinsics", text};
  Diagnostics diagnostics(source);
  Arena scratch;
  Parser parser(source, scratch, diagnostics);
  std::shared_ptr<const Intrinsic> made = parse_intrinsic(parser);
  return {diagnostics.has_errors() ? nullptr : made, diagnostics.render()};
}

// ---- what the PTX ISA says about the fragments of mma.sync

i64 extent(const Intrinsic& intrinsic, std::size_t operand, std::size_t dimension) {
  return intrinsic.description.program.params[operand].buffer->shape[dimension];
}
const char* ptx_type(DType type, bool is_sum) {
  switch (type) {
    case DType::F16:
      return "f16";
    case DType::BF16:
      return "bf16";
    case DType::F32:
      return is_sum ? "f32" : "tf32";
    case DType::F64:
      return "f64";
    case DType::I32:
      return "s32";
    case DType::I8:
      return "s8";
    default:
      return "u8";
  }
}

// The row (of A and C) or column (of B), and the place along k or the column, of element i of lane t.
LaneLayout::Index isa_fragment(const Intrinsic& intrinsic, std::size_t operand, i64 t, i64 i) {
  i64 group = t >> 2, in_group = t % 4;
  if (operand == 2) return {group + 8 * (i / 2), in_group * 2 + i % 2};
  i64 bytes = bytes_of(intrinsic.description.program.params[operand].buffer->dtype);
  i64 in_register = bytes == 8 ? 1 : 4 / bytes, blocks = extent(intrinsic, operand, 0) / 8, number = i / in_register;
  return {group + 8 * (number % blocks),
          in_group * in_register + i % in_register + 4 * in_register * (number / blocks)};
}

// What differs; "" = nothing.
std::string differs_from_isa(const Intrinsic& intrinsic) {
  Array<Param> params = intrinsic.description.program.params;
  std::string sum = ptx_type(params[2].buffer->dtype, true);
  std::string ptx = cat("mma.sync.aligned.m", extent(intrinsic, 0, 0), "n", extent(intrinsic, 1, 0), "k",
                        extent(intrinsic, 0, 1), ".row.col.", sum, ".", ptx_type(params[0].buffer->dtype, false), ".",
                        ptx_type(params[1].buffer->dtype, false), ".", sum, " {C}, {A}, {B}, {C};");
  if (intrinsic.ptx != ptx) return intrinsic.ptx;
  for (std::size_t operand = 0; operand < 3; ++operand) {
    for (i64 t = 0; t < 32; ++t) {
      for (i64 i = 0; i < intrinsic.holds[operand].held(); ++i) {
        if (intrinsic.holds[operand].at(t, i) != isa_fragment(intrinsic, operand, t, i))
          return cat(params[operand].buffer->name, ", lane ", t, ", element ", i);
      }
    }
  }
  return "";
}

TEST(MatrixInstructions, AreThoseOfThePtxIsa) {
  int found = 0;
  for (const Intrinsic* intrinsic : warp_intrinsics()) {
    if (!std::string_view(intrinsic->name).starts_with("mma_m16n8")) continue;
    EXPECT_EQ(differs_from_isa(*intrinsic), "") << intrinsic->name;
    EXPECT_EQ(intrinsic->arch, "nvptx");
    EXPECT_EQ(intrinsic->rounds, intrinsic->ptx.find("tf32") != std::string::npos ? "tf32" : "");
    ++found;
  }
  EXPECT_EQ(found, 4 + 2 + 8);
}

// Rows and columns of the sums of wgmma ("Register fragments for wgmma.mma_async"), whose operands lie in shared
// memory.
TEST(MatrixInstructions, OfFourWarpsAreThoseOfThePtxIsa) {
  int found = 0;
  for (const Intrinsic* intrinsic : warp_intrinsics()) {
    if (intrinsic->lanes != 4 * kWarpLanes) continue;
    const char* type = ptx_type(intrinsic->description.program.params[0].buffer->dtype, false);
    EXPECT_EQ(intrinsic->ptx, cat("wgmma.mma_async.sync.aligned.m64n", extent(*intrinsic, 1, 0), "k16.f32.", type, ".",
                                  type, " {C}, {A}, {B}, 1, 1, 1, {A.across}, {B.across};"));
    EXPECT_FALSE(can_do("sm_90", *intrinsic));
    EXPECT_TRUE(intrinsic->holds[0].is_empty() && intrinsic->holds[1].is_empty()) << intrinsic->name;
    const LaneLayout& sums = intrinsic->holds[2];
    for (i64 t = 0; t < 128; ++t) {
      for (i64 i = 0; i < sums.held(); ++i) {
        LaneLayout::Index isa{16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (t % 4) + i % 2};
        ASSERT_EQ(sums.at(t, i), isa) << intrinsic->name << ", lane " << t << ", element " << i;
      }
    }
    ++found;
  }
  EXPECT_EQ(found, 2 * 3) << "types, widths";
}

TEST(MatrixInstructions, NeedTheirArchitecture) {
  const Intrinsic& mma = *find_intrinsic("mma_m16n8k16_f16");
  for (const char* gpu : {"", "sm_80", "sm_86", "sm_90a", "sm_100"}) EXPECT_TRUE(can_do(gpu, mma)) << gpu;
  EXPECT_FALSE(can_do("sm_75", mma));
  Intrinsic of_one = mma;
  of_one.features = {"sm_90a"};
  for (const char* gpu : {"sm_80", "sm_90", "sm_100"}) EXPECT_FALSE(can_do(gpu, of_one)) << gpu;
  EXPECT_TRUE(can_do("sm_90a", of_one));
}

// ---- a shape that is not there

struct Shape {
  std::string name = "mma_m8n8k4_f64", a = "(t // 4, t % 4)", b = "(t // 4, t % 4)", c = "(t // 4, t % 4 * 2 + i)";
  std::string value = "C[i, j] + A[i, k] * B[j, k]",
              ptx = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {C}, {A}, {B}, {C};", lanes = "32";
};
std::string text_of(const Shape& shape) {
  return cat("intrinsic ", shape.name,
             " {\n  doc \"8 x 8 sums of 4 products of doubles\"\n  arch \"nvptx\"\n  needs \"sm_80\"\n  lanes ",
             shape.lanes, "\n  program description(A: input f64[8, 4], B: input f64[8, 4], C: output f64[8, 8]) {\n",
             "    for i in 8 { for j in 8 { for k in 4 { C[i, j] = ", shape.value, " } } }\n  }\n  holds A (t, i) -> ",
             shape.a, "\n  holds B (t, i) -> ", shape.b, "\n  holds C (t, i) -> ", shape.c,
             "\n  implementation { ptx \"", shape.ptx, "\" }\n}\n");
}
void declare(const Shape& shape) {
  Source source{"intrinsics", text_of(shape)};
  Diagnostics diagnostics(source);
  EXPECT_TRUE(declare_intrinsics(source, diagnostics)) << diagnostics.render();
}

// A product of doubles with 16 x 16 sums of a warp, from copies in shared memory or from where the operands lie.
constexpr const char* kUse = "matmul(M = 32, N = 48, K = 24, T = f64)";
std::string schedule(bool is_marked) {
  return cat(R"(b = get_block("C")
i, j, k = get_loops(b)
i0, ip, il = split(i, [_, 2, 8])
j0, jp, jl, je = split(j, [_, 2, 4, 2])
k0, k1, kk = split(k, [_, 2, 4])
reorder([i0, j0, k0, il, jl, k1, ip, jp, je, kk])
bind(i0, "blockIdx.y")
bind(j0, "blockIdx.x")
t = fuse([il, jl])
bind(t, "threadIdx.x")
promote(b, 0, k0)
unroll(k1)
unroll(ip)
unroll(jp)
)",
             is_marked ? "annotate(je, \"warp_mma\", 1)\n" : "");
}
bool multiplies(const Kernel& kernel) { return kernel.code.find(" tw_mma_m8n8k4_f64(") != std::string::npos; }

TEST(MatrixInstructions, OneOfAnotherShapeIsText) {
  test::Scheduled scheduled(kUse, {}, schedule(true));
  if (!find_intrinsic("mma_m8n8k4_f64")) {
    EXPECT_FALSE(multiplies(test::cuda_kernel(scheduled.program())));
  }
  declare({});
  EXPECT_EQ(differs_from_isa(*find_intrinsic("mma_m8n8k4_f64")), "");
  Kernel kernel = test::cuda_kernel(scheduled.program());
  ASSERT_TRUE(multiplies(kernel)) << kernel.code;
  EXPECT_NE(kernel.code.find(
                "asm volatile(\"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};\"\n"
                "               : \"+d\"(c0), \"+d\"(c1) : \"d\"(a0), \"d\"(b0));"),
            std::string::npos)
      << kernel.code;
  EXPECT_FALSE(multiplies(test::cuda_kernel(kUse, schedule(false)))) << "without the mark";
  EmulationVerdict verdict = check_by_emulation(scheduled.base().program, {kernel, scheduled.program()});
  EXPECT_EQ(verdict.kind, EmulationVerdict::Right) << verdict.message << kernel.code;
  // The registers of two operands exchanged: what it computes is wrong.
  Kernel wrong = kernel;
  std::size_t at = wrong.code.find("mine{{a0}, {b0}}");
  ASSERT_NE(at, std::string::npos) << kernel.code;
  wrong.code.replace(at, 16, "mine{{b0}, {a0}}");
  EXPECT_EQ(check_by_emulation(scheduled.base().program, {wrong, scheduled.program()}).kind, EmulationVerdict::Wrong);
  // A lane more than another one has loaded: a layout that the text does not have.
  wrong = kernel;
  at = wrong.code.find("A + ((lane / 4) * 4 + lane % 4)");
  ASSERT_NE(at, std::string::npos) << kernel.code;
  wrong.code.replace(at, 31, "A + ((lane / 4) * 4 + (lane ^ 1) % 4)");
  EXPECT_EQ(check_by_emulation(scheduled.base().program, {wrong, scheduled.program()}).kind, EmulationVerdict::Wrong);
}

TEST(MatrixInstructions, OneOfAnotherShapeIsMachineCode) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  declare({});
  for (const char* arch : {"sm_80", "sm_90a"}) {
    std::string error;
    std::optional<cuda::Compiled> code = cuda::compile(test::cuda_kernel(kUse, schedule(true)).code, arch, error);
    ASSERT_TRUE(code) << error;
    EXPECT_GT(code->code.at(0).count("DMMA"), 0) << arch;
  }
}

TEST(MatrixInstructions, AreNotPrintedForOlderMachines) {
  declare({});
  test::Scheduled scheduled(kUse, {}, schedule(true));
  Arena arena;
  Result<LoweredGpuProgram> lowered = lower_gpu(arena, scheduled.program(), {.vector_bits = 128}, {});
  ASSERT_TRUE(lowered);
  auto text = [&](const char* gpu) {
    return print_device_source(*lowered, SourceLanguage::CudaC, "mm", 1 << 20, gpu)->code;
  };
  EXPECT_NE(text("sm_80").find("mma.sync"), std::string::npos);
  EXPECT_EQ(text("sm_75").find("mma.sync"), std::string::npos);
}

// One that reads its first operand from registers can be said, and becomes no code.
constexpr const char* kOfFourWarps = R"(intrinsic wgmma_m64n8k16_f16 {
  doc "64 x 8 sums of 16 products of halves"
  arch "nvptx"
  needs "sm_90a"
  lanes 128
  program description(A: input f16[64, 16], B: input f16[8, 16], C: output f32[64, 8]) {
    for i in 64 { for j in 8 { for k in 16 { C[i, j] = C[i, j] + f32(A[i, k]) * f32(B[j, k]) } } }
  }
  holds A (t, i) -> (t // 32 * 16 + t // 4 % 8 + i // 2 % 2 * 8, t % 4 * 2 + i % 2 + i // 4 * 8)
  in_shared B
  holds C (t, i) -> (t // 32 * 16 + t // 4 % 8 + i // 2 * 8, t % 4 * 2 + i % 2)
  implementation { ptx "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {C}, {A}, {B}, 1, 1, 1, 0;" }
}
)";

TEST(MatrixInstructions, OneOfFourWarpsCanBeSaid) {
  Read wgmma = read(kOfFourWarps);
  ASSERT_TRUE(wgmma.intrinsic) << wgmma.complaint;
  EXPECT_EQ(wgmma.intrinsic->holds[0].at(127, 7), (LaneLayout::Index{63, 15}));
  EXPECT_EQ(wgmma.intrinsic->holds[2].at(33, 2), (LaneLayout::Index{24, 2}));
  EXPECT_TRUE(wgmma.intrinsic->holds[1].is_empty());
  auto with = [](const std::string& from, const std::string& to) {
    std::string text = kOfFourWarps;
    return read(text.replace(text.find(from), from.size(), to)).complaint;
  };
  EXPECT_NE(with("in_shared B", "in_shared X").find("`X` is no operand"), std::string::npos);
  EXPECT_NE(with("in_shared B", "").find("who holds what of `B`?"), std::string::npos);
}

// ---- wrong texts

TEST(MatrixInstructions, SumsOfExchangedLanesAreNotMatched) {
  declare({.name = "test_exchanged_sums", .c = "(t // 4, t % 2 * 4 + t // 2 % 2 * 2 + i)"});
  EXPECT_EQ(test::cuda_kernel(kUse, schedule(true)).code.find("tw_test_exchanged_sums"), std::string::npos);
}

// The emulator shares out operands as the text says, so it does not see that lanes of one are exchanged. The formulas
// do.
TEST(MatrixInstructions, OperandsOfExchangedLanesDifferFromTheIsa) {
  const char* kExchanged = "(t // 4, t % 2 * 2 + t // 2 % 2)";
  EXPECT_EQ(differs_from_isa(*read(text_of({})).intrinsic), "");
  EXPECT_EQ(differs_from_isa(*read(text_of({.a = kExchanged})).intrinsic), "A, lane 1, element 0");
  EXPECT_EQ(differs_from_isa(*read(text_of({.b = kExchanged})).intrinsic), "B, lane 1, element 0");
}

TEST(MatrixInstructions, ErrorsSayWhatIsWrong) {
  struct Wrong {
    Shape shape;
    const char* message;
  };
  const Wrong kWrong[] = {
      {{.a = "(t // 8, t % 4)"}, "`A`: lane 4 holds as element 0 what is held already"},
      {{.a = "(t // 2, t % 4)"}, "`A`: lane 16 has no element 0 inside of the operand"},
      {{.a = "(t // 4 * (t // 4) % 8, t % 4)"}, "is no sum over the bits of these numbers"},
      {{.a = "(t // 4, x)"}, "`A`: lane 0 has no element 0 inside of the operand"},
      {{.a = "t"}, "`A`: expected (t, i) -> the 2 indices of what lane t holds as its element i"},
      {{.lanes = "128"}, "`A`: 32 elements are not shared evenly by 128 lanes"},
      {{.lanes = "31"}, "expected the 32 lanes of a warp or the 128 of a group of warps"},
      {{.value = "C[i, j] + A[i, k] / B[j, k]"}, "around one that adds products of elements"},
      {{.value = "C[j, i] + A[i, k] * B[j, k]"}, "around one that adds products of elements"},
      {{.ptx = "mma {C}, {A}, {C};"}, "the instruction does not mention {B}"},
  };
  for (const Wrong& wrong : kWrong) {
    Read result = read(text_of(wrong.shape));
    EXPECT_FALSE(result.intrinsic) << wrong.message;
    EXPECT_NE(result.complaint.find(wrong.message), std::string::npos) << result.complaint << wrong.message;
  }
  std::string text = text_of({});
  text.erase(text.find("  holds B"), text.find("  holds C") - text.find("  holds B"));
  EXPECT_NE(read(text).complaint.find("who holds what of `B`?"), std::string::npos) << read(text).complaint;
}

TEST(MatrixInstructions, TensorizeTakesNone) {
  declare({});
  test::Scheduled scheduled("matmul(M = 8, N = 8, K = 4, T = f64)", {}, "");
  Arena arena;
  Result<std::vector<IntrinsicOperand>> operands =
      match_intrinsic(arena, *find_intrinsic("mma_m8n8k4_f64"), scheduled.program().body, {});
  ASSERT_FALSE(operands);
  EXPECT_EQ(to_string(operands.rejected()),
            "intrinsic `mma_m8n8k4_f64` is done by 32 lanes together: the mark `warp_mma` finds it");
}

}  // namespace
}  // namespace tw
