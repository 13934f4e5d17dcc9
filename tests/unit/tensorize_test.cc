// Tensorized programs: lowered and interpreted for every intrinsic, run where this machine can,
// compiled to assembly for the machine of the intrinsic; and what happens where a match is lost, a
// feature is missing or the text of an intrinsic is wrong.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/backend.h"
#include "backends/meaning.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/intrinsics/intrinsic.h"
#include "dsl/ir/print.h"
#include "dsl/passes/lower.h"
#include "dsl/schedule/state.h"
#include "runtime/measure/object_loader.h"
#include "support/aligned.h"
#include "support/parsed.h"

namespace tw {
namespace {

// Y = X * W, in types of which products are summed in `sum`.
std::string dense(const char* x, const char* w, const char* sum, i64 m, i64 n, i64 k) {
  std::string value = std::string(x) == sum ? "X[i, k] * W[k, j]" : cat(sum, "(X[i, k]) * ", sum, "(W[k, j])");
  std::string zero = std::string(sum) == "i32" ? "i32(0)" : cat(sum, "(0.0)");
  return cat("program dense(X: input ", x, "[", m, ", ", k, "], W: input ", w, "[", k, ", ", n, "], Y: output ", sum,
             "[", m, ", ", n, "]) {\n  for i in ", m, " {\n    for j in ", n, " {\n      for k in ", k,
             " {\n        block Y(i: S ", m, " = i, j: S ", n, " = j, k: R ", k,
             " = k) {\n          init {\n            Y[i, j] = ", zero, "\n          }\n          Y[i, j] = Y[i, j] + ",
             value, "\n        }\n      }\n    }\n  }\n}\n");
}

// Weights in groups of `depth` along k; tiles of `rows` x `lanes`, the sums in registers.
std::string tiled(const std::string& intrinsic, i64 lanes, i64 depth, i64 rows) {
  std::string text = "y = get_block(\"Y\")\ni, j, k = get_loops(y)\nw = cache_read(y, 1, \"global\")\n";
  text += cat("transform_layout(w, 0, \"write\", (k, j) -> (k // ", depth, ", j, k % ", depth, "))\n");
  text += cat("i_0, i_1 = split(i, [_, ", rows, "])\nj_0, j_1 = split(j, [_, ", lanes, "])\nk_0, k_1 = split(k, [_, ",
              depth, "])\n");
  text += "reorder([i_0, j_0, k_0, i_1, j_1, k_1])\npromote(y, 0, k_0)\nunroll(i_1)\n";
  return text + cat("o = tensorize(j_1, \"", intrinsic, "\")\n");
}

struct Machine {
  const char* name;
  const char *x, *w, *sum;
  const char* intrinsic;
  i64 lanes, depth;
  CodegenTarget target;
  const char* mnemonic;  // in the assembly
};

const CodegenTarget kZen4{"x86_64-pc-linux-gnu", "znver4", "", 512};
const CodegenTarget kHaswell{"x86_64-pc-linux-gnu", "haswell", "", 256};
const CodegenTarget kAlderlake{"x86_64-pc-linux-gnu", "alderlake", "", 256};
const CodegenTarget kGraviton{"aarch64-linux-gnu", "neoverse-n1", "", 128};
const CodegenTarget kRiscV{"riscv64-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+v", 128};
const Machine kMachines[] = {
    {"fma_f32x8_avx2", "f32", "f32", "f32", "fma_f32x8_avx2", 8, 1, kHaswell, "vfmadd"},
    {"fma_f32x16_avx512", "f32", "f32", "f32", "fma_f32x16_avx512", 16, 1, kZen4, "vfmadd"},
    {"fma_f64x8_avx512", "f64", "f64", "f64", "fma_f64x8_avx512", 8, 1, kZen4, "vfmadd"},
    {"dot_u8i8x16_avx512vnni", "u8", "i8", "i32", "dot_u8i8x16_avx512vnni", 16, 4, kZen4, "vpdpbusd"},
    {"dot_u8i8x8_avxvnni", "u8", "i8", "i32", "dot_u8i8x8_avxvnni", 8, 4, kAlderlake, "vpdpbusd"},
    {"fma_f32x4_neon", "f32", "f32", "f32", "fma_f32x4_neon", 4, 1, kGraviton, "fmla"},
    {"dot_i8i8x4_neon", "i8", "i8", "i32", "dot_i8i8x4_neon", 4, 4, kGraviton, "sdot"},
    {"dot_u8u8x4_neon", "u8", "u8", "i32", "dot_u8u8x4_neon", 4, 4, kGraviton, "udot"},
    {"fma_f32x4_rvv", "f32", "f32", "f32", "fma_f32x4_rvv", 4, 1, kRiscV, "vfm"},
};

// A program with a schedule applied to it.
struct Tensorized {
  Tensorized(const std::string& program, const std::string& schedule)
      : base(test::parsed(program)), state(arena, base.program) {
    Trace trace = test::parsed_schedule(schedule);
    Status status = replay(trace, state);
    EXPECT_TRUE(status) << to_string(status.rejected());
  }
  Result<LoweredProgram> lowered() {
    return lower(arena, state.program(), {.vector_bits = 128, .vector_registers = 32});
  }

  OwnedProgram base;
  Arena arena;
  State state;
};

void full_range(HostArray& array, Rng rng) {
  double low = array.dtype == DType::I8 ? -128 : 0, high = array.dtype == DType::I8 ? 127 : 255;
  for (i64 i = 0; i < array.elements(); ++i)
    array.set(i, is_float(array.dtype) ? static_cast<double>(rng.below(9) - 4)
                                       : low + static_cast<double>(rng.below(static_cast<i64>(high - low) + 1)));
}

// The parameters of a program, inputs over the whole range of their types.
std::vector<HostArray> arrays_for(const Program& program) {
  std::vector<HostArray> arrays;
  for (const Param& param : program.params) {
    arrays.push_back(HostArray::like(param.buffer));
    if (param.role != Role::Output) full_range(arrays.back(), Rng(3, arrays.size()));
  }
  return arrays;
}

void run(const Kernel& kernel, std::vector<HostArray>& arrays) {
  std::string error;
  LoadedObject loaded = load_object(kernel.code, error);
  ASSERT_EQ(error, "");
  std::vector<Aligned<u8>> copies;
  std::vector<void*> pointers;
  for (const HostArray& array : arrays) {
    copies.emplace_back(array.bytes.size());
    std::copy(array.bytes.begin(), array.bytes.end(), copies.back().begin());
  }
  for (Aligned<u8>& copy : copies) pointers.push_back(copy.data());
  Aligned<u8> scratch(static_cast<std::size_t>(kernel.manifest.scratch_bytes(1)) + 1);
  ASSERT_EQ(loaded.run("dense")(pointers.data(), scratch.data(), nullptr, nullptr), 0);
  for (std::size_t i = 0; i < arrays.size(); ++i)
    std::copy(copies[i].begin(), copies[i].end(), arrays[i].bytes.begin());
}

bool host_can(const Intrinsic& intrinsic) {
  std::vector<std::string> features = enabled_features({});
  auto has = [&](const std::string& feature) { return std::binary_search(features.begin(), features.end(), feature); };
  return host_triple().starts_with(intrinsic.arch) &&
         std::all_of(intrinsic.features.begin(), intrinsic.features.end(), has);
}

class OnMachine : public testing::TestWithParam<Machine> {};

TEST_P(OnMachine, ComputesTheSameAndUsesTheInstruction) {
  const Machine& m = GetParam();
  Tensorized dense_program(dense(m.x, m.w, m.sum, 10, 3 * m.lanes, 3 * m.depth),
                           tiled(m.intrinsic, m.lanes, m.depth, 5));
  EXPECT_EQ(Judge(dense_program.base.program).difference(dense_program.state.program()), "");
  Result<LoweredProgram> lowered = dense_program.lowered();
  ASSERT_TRUE(lowered) << to_string(lowered.rejected()) << print(dense_program.state.program());
  EXPECT_EQ(Judge(dense_program.base.program).difference(*lowered), "");

  Result<LlvmCompiler> compiler = LlvmCompiler::create(m.target);
  ASSERT_TRUE(compiler) << to_string(compiler.rejected());
  compiler->set_verify(true);
  Result<std::string> assembly = compiler->emit(*lowered, "dense", Emit::Assembly);
  ASSERT_TRUE(assembly) << to_string(assembly.rejected());
  EXPECT_NE(assembly->find(m.mnemonic), std::string::npos) << *assembly;
  EXPECT_TRUE(compiler->compile(*lowered, "dense"));

  if (!host_can(*find_intrinsic(m.intrinsic))) return;
  Result<LlvmCompiler> here = LlvmCompiler::create({});
  Result<Kernel> kernel = here->compile(*lowered, "dense");
  ASSERT_TRUE(kernel) << to_string(kernel.rejected());
  std::vector<HostArray> want = arrays_for(dense_program.base.program), got = want;
  ASSERT_EQ(interpret(dense_program.base.program, want), "");
  run(*kernel, got);
  EXPECT_EQ(got.back().bytes, want.back().bytes);
}

INSTANTIATE_TEST_SUITE_P(All, OnMachine, testing::ValuesIn(kMachines),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Tensorize, EveryIntrinsicIsTried) {
  for (const std::string& name : intrinsic_names()) {
    if (name.starts_with("test_") || find_intrinsic(name)->lanes > 1) continue;
    EXPECT_TRUE(std::any_of(std::begin(kMachines), std::end(kMachines), [&](const Machine& m) {
      return name == m.intrinsic;
    })) << name;
  }
}

TEST(Tensorize, LeavesTheSumsInRegisters) {
  Tensorized program(dense("u8", "i8", "i32", 10, 48, 400), tiled("dot_u8i8x16_avx512vnni", 16, 4, 5));
  Result<LoweredProgram> lowered = program.lowered();
  ASSERT_TRUE(lowered) << to_string(lowered.rejected());
  Result<std::string> text = LlvmCompiler::create(kZen4)->emit(*lowered, "dense", Emit::OptimizedIr);
  ASSERT_TRUE(text);
  EXPECT_EQ(text->find("alloca"), std::string::npos) << *text;
}

// What compiling says where the target lacks something.
std::string refusal(const Machine& m, const CodegenTarget& target) {
  Tensorized program(dense(m.x, m.w, m.sum, 4, m.lanes, m.depth), tiled(m.intrinsic, m.lanes, m.depth, 2));
  Result<LoweredProgram> lowered = program.lowered();
  Result<LlvmCompiler> compiler = LlvmCompiler::create(target);
  Result<Kernel> kernel = compiler->compile(*lowered, "dense");
  return kernel ? "" : to_string(kernel.rejected());
}

TEST(Tensorize, NeedsItsMachine) {
  EXPECT_EQ(refusal(kMachines[3], kHaswell),
            "intrinsic `dot_u8i8x16_avx512vnni` needs `avx512vnni`, which the target does not have");
  EXPECT_EQ(refusal(kMachines[3], kGraviton),
            "intrinsic `dot_u8i8x16_avx512vnni` is for `x86_64`, another architecture than the target's");
  EXPECT_EQ(refusal(kMachines[6], {"aarch64-linux-gnu", "cortex-a53", "", 128}),
            "intrinsic `dot_i8i8x4_neon` needs `dotprod`, which the target does not have");
}

TEST(Tensorize, LoweringRejectsWhatNoLongerMatches) {
  Tensorized program(dense("f32", "f32", "f32", 4, 16, 8),
                     "y = get_block(\"Y\")\ni, j, k = get_loops(y)\nreorder([k, j])\n"
                     "w = cache_read(y, 1, \"global\")\no = tensorize(j, "
                     "\"fma_f32x16_avx512\")\ntransform_layout(w, 0, \"write\", (k, j) -> (j, k))\n");
  Result<LoweredProgram> lowered = program.lowered();
  ASSERT_FALSE(lowered);
  EXPECT_EQ(to_string(lowered.rejected()),
            "the operands do not lie in memory as intrinsic `fma_f32x16_avx512` expects");
}

TEST(Tensorize, AMarkWithoutANestIsRejected) {
  for (const char* name : {"fma_f32x16_avx512", "nothing"}) {
    Tensorized program(dense("f32", "f32", "f32", 4, 16, 8),
                       cat("y = get_block(\"Y\")\nannotate(y, \"intrinsic\", \"", name, "\")\n"));
    Result<LoweredProgram> lowered = program.lowered();
    ASSERT_FALSE(lowered);
  }
}

// ---- texts of intrinsics

std::string text_of(const std::string& name, const std::string& description, const std::string& implementation,
                    const std::string& rest = "arch \"x86_64\"") {
  return cat("intrinsic ", name, " {\n  ", rest, "\n  ", description, "\n  implementation {\n    ", implementation,
             "\n  }\n}\n");
}
constexpr const char* kAdd =
    "program d(A: input f32[4], C: output f32[4]) {\n    for i in 4 {\n      C[i] = C[i] + A[i]\n  "
    "  }\n  }";

std::string complaint(const std::string& text) {
  Source source{"intrinsics", text};
  Diagnostics diagnostics(source);
  bool good = declare_intrinsics(source, diagnostics);
  EXPECT_EQ(good, !diagnostics.has_errors());
  return diagnostics.render();
}

TEST(IntrinsicText, ErrorsSayWhatWasExpected) {
  const char* store = "store(C, load(A, f32x4))";
  struct Wrong {
    std::string text, message;
  };
  const Wrong kWrong[] = {
      {text_of("test_a", kAdd, "store(C, load(A, f32x8))"), "this reaches beyond operand `A`"},
      {text_of("test_a", kAdd, "store(C, load(A, f32x4, 1))"), "this reaches beyond operand `A`"},
      {text_of("test_a", kAdd, "store(A, load(A, f32x4))"), "only the output is written"},
      {text_of("test_a", kAdd, "store(C, x)"), "`x` is no value here"},
      {text_of("test_a", kAdd, "store(C, load(B, f32x4))"), "expected an operand of the description"},
      {text_of("test_a", kAdd, "store(C, load(A, f33x4))"), "expected a type such as i32 or i32x16"},
      {text_of("test_a", kAdd, "store(C, as(i8x8, load(A, f32x4)))"), "i8x8 has 8 bytes, the value has 16"},
      {text_of("test_a", kAdd, "store(C, call(f32x4, \"memcpy\", load(A, f32x4)))"),
       "only LLVM's intrinsics, llvm.*, are called"},
      {text_of("test_a", kAdd, "store(C, splat(load(A, f32x4), 2))"), "expected splat(scalar, lanes)"},
      {text_of("test_a", kAdd, "C = 3"), "expected load, store, splat, as or call"},
      {text_of("test_a", kAdd, store, "cost 1"), "lacks its `arch`, its `program` or its `implementation`"},
      {text_of("test_a", kAdd, store, "vendor \"intel\""),
       "expected `doc`, `arch`, `needs`, `cost`, `lanes`, `rounds`, `program`, `holds`, `in_shared`, `implementation` "
       "or `}`"},
      {text_of("test_a",
               "program d(A: input f32[4], B: input f32[4], C: output f32[4]) {\n for i in 4 {\n "
               "C[i] = A[i]\n }\n }",
               store),
       "expected loops around one store to the only output"},
      {text_of("fma_f32x8_avx2", kAdd, store), "there is another intrinsic `fma_f32x8_avx2`"},
      {"rule x", "expected `intrinsic`"},
  };
  for (const Wrong& wrong : kWrong)
    EXPECT_NE(complaint(wrong.text).find(wrong.message), std::string::npos) << complaint(wrong.text) << wrong.message;
}

TEST(IntrinsicText, ANewOneIsFoundAndItsCallsAreChecked) {
  std::string call = "store(C, call(f32x4, \"llvm.fmax.v4f32\", load(C, f32x4), load(A, f32x4)))";
  EXPECT_EQ(complaint(text_of("test_unknown_call", kAdd, call)), "");
  EXPECT_EQ(complaint(text_of("test_unknown_call", kAdd, call)), "") << "the same text again";
  EXPECT_EQ(complaint(text_of("test_wrong_types", kAdd,
                              "store(C, call(f32x4, \"llvm.fma.v4f32\", load(C, f32x4), load(A, f32x4)))")),
            "");
  std::string program =
      "program p(A: input f32[8], C: output f32[8]) {\n  for i_0 in 2 {\n    for i in 4 {\n      "
      "block C(i: S 8 = i_0 * 4 + i) "
      "{\n        C[i] = C[i] + A[i]\n      }\n    }\n  }\n}\n";
  for (const char* name : {"test_unknown_call", "test_wrong_types"}) {
    Tensorized tensorized(program,
                          cat("c = get_block(\"C\")\ni_0, i = get_loops(c)\no = tensorize(i, \"", name, "\")\n"));
    Result<LoweredProgram> lowered = tensorized.lowered();
    ASSERT_TRUE(lowered) << to_string(lowered.rejected());
    Result<LlvmCompiler> compiler = LlvmCompiler::create(kZen4);
    Result<Kernel> kernel = compiler->compile(*lowered, "p");
    ASSERT_FALSE(kernel) << name;
    std::string function = name == std::string("test_unknown_call") ? "llvm.fmax.v4f32" : "llvm.fma.v4f32";
    EXPECT_EQ(to_string(kernel.rejected()),
              cat("intrinsic `", name, "`: LLVM has no `", function, "` with these types"));
  }
}

}  // namespace
}  // namespace tw
