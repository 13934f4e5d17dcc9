// Every operator of the library, lowered and compiled, against the interpreter: as written, with vectorized loops, in
// other types, and widened to double precision as the reference for checking results.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "backends/backend.h"
#include "backends/interpreter.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/lower.h"
#include "dsl/passes/widen.h"
#include "dsl/text/workload.h"
#include "runtime/measure/object_loader.h"
#include "sampler/search/reference.h"
#include "tests/support/aligned.h"

namespace tw {
namespace {

struct Case {
  const char* use;
  std::vector<std::string> epilogues = {};
};

const Case kCases[] = {
    {"matmul(M = 5, N = 23, K = 7)"},
    {"matmul(M = 4, N = 9, K = 6, T = f16)"},
    {"matmul(M = 4, N = 9, K = 6, T = bf16)"},
    {"matmul(M = 4, N = 9, K = 6, T = i8)"},
    {"dense(M = 3, N = 19, K = 5)", {"bias", "gelu"}},
    {"dense(M = 3, N = 19, K = 5)", {"bias", "silu"}},
    {"dense(M = 3, N = 19, K = 5)", {"tanh"}},
    {"dense(M = 3, N = 19, K = 5)", {"sigmoid"}},
    {"batch_matmul(B = 2, M = 3, N = 10, K = 4)"},
    {"transpose_batch_matmul(B = 2, S = 3, H = 2, D = 5)"},
    {"conv1d(N = 1, L = 11, CI = 3, CO = 9, K = 3, padding = 1, stride = 2)"},
    {"conv2d(N = 1, H = 6, W = 7, CI = 3, CO = 9, K = 3, padding = 1)", {"relu"}},
    {"conv3d(N = 1, D = 3, H = 4, W = 5, CI = 2, CO = 3, K = 3, padding = 1)"},
    {"depthwise_conv2d(N = 1, H = 6, W = 7, C = 9, K = 3, padding = 1)"},
    {"conv2d_transposed(N = 1, H = 4, W = 5, CI = 3, CO = 4, K = 4, stride = 2, padding = 1)"},
    {"capsule_conv2d(N = 1, H = 4, W = 4, CI = 2, CO = 3, K = 3, padding = 1, capsule = 2)"},
    {"max_pool2d(N = 1, H = 7, W = 7, C = 5, K = 3, stride = 2, padding = 1)"},
    {"avg_pool2d(N = 1, H = 7, W = 7, C = 5, K = 3, stride = 2, padding = 1)"},
    {"softmax(M = 4, N = 21)"},
    {"norm(B = 2, M = 5, N = 13)"},
    {"layernorm(M = 4, N = 21)"},
    {"rmsnorm(M = 4, N = 21)"},
};

OwnedProgram program_of(const Case& c) {
  Source source{"use", c.use};
  Diagnostics of_use(source);
  std::optional<WorkloadUse> use = parse_use(source, of_use);
  EXPECT_TRUE(use) << of_use.render();
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program =
      instantiate(operator_library(), use->workload, use->arguments, c.epilogues, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return *program;
}

// Vectorizes the loop of each block's last data-parallel iter if that is the block's own innermost loop.
Program vectorized(Arena& arena, Program program, int* changed) {
  Build build{arena};
  program.body = rewrite_stmts(arena, program.body, [&](const Stmt* stmt) -> const Stmt* {
    const For* loop = as<For>(stmt);
    const Block* block = loop ? as<Block>(loop->body) : nullptr;
    if (!block) return stmt;
    for (std::size_t i = 0; i < block->iters.size(); ++i) {
      if (block->bindings[i] != loop->var || block->iters[i].kind != IterKind::S) continue;
      ++*changed;
      return build.with_kind(loop, LoopKind::Vectorize);
    }
    return stmt;
  });
  return program;
}

// Eighths between -1/2 and 1/2: exact in every type but integers, where they become -4 .. 4.
std::vector<HostArray> arrays_for(const Program& program) {
  std::vector<HostArray> arrays;
  Rng rng(7);
  for (const Param& param : program.params) {
    arrays.push_back(HostArray::like(param.buffer));
    double scale = is_float(param.buffer->dtype) ? 0.125 : 1;
    if (param.role == Role::Output) continue;
    for (i64 i = 0; i < arrays.back().elements(); ++i)
      arrays.back().set(i, scale * static_cast<double>(rng.below(9) - 4));
  }
  return arrays;
}

// The compiled program on the same arrays. No case here packs constants, so the arguments are the parameters in order.
void run_compiled(Arena& arena, const Program& program, std::vector<HostArray>& arrays) {
  Result<LoweredProgram> lowered = lower(arena, program, {});
  ASSERT_TRUE(lowered) << to_string(lowered.rejected()) << "\n" << print(program);
  ASSERT_FALSE(lowered->prepack.body);
  Result<LlvmCompiler> compiler = LlvmCompiler::create({});
  compiler->set_verify(true);
  Result<Kernel> kernel = compiler->compile(*lowered, "op");
  ASSERT_TRUE(kernel) << to_string(kernel.rejected());
  std::string error;
  LoadedObject loaded = load_object(kernel->code, error);
  ASSERT_EQ(error, "");
  ASSERT_EQ(kernel->manifest.run.size(), arrays.size());
  std::vector<Aligned<u8>> copies;
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    ASSERT_EQ(kernel->manifest.run[i].bytes, static_cast<i64>(arrays[i].bytes.size()));
    copies.emplace_back(arrays[i].bytes.size());
    std::copy(arrays[i].bytes.begin(), arrays[i].bytes.end(), copies.back().begin());
  }
  for (Aligned<u8>& copy : copies) pointers.push_back(copy.data());
  Aligned<u8> scratch(static_cast<std::size_t>(kernel->manifest.scratch_bytes(1)) + 1);
  ASSERT_EQ(loaded.run("op")(pointers.data(), scratch.data(), nullptr, nullptr), 0);
  for (std::size_t i = 0; i < arrays.size(); ++i)
    std::copy(copies[i].begin(), copies[i].end(), arrays[i].bytes.begin());
}

double relative_bound(DType dtype) {
  if (!is_float(dtype)) return 0;
  return dtype == DType::F64 ? 1e-12 : dtype == DType::F32 ? 1e-5 : dtype == DType::F16 ? 2e-3 : 2e-2;
}

void expect_equal(const Program& program, const std::vector<HostArray>& got, const std::vector<HostArray>& want) {
  i64 compared = 0;
  for (std::size_t p = 0; p < program.params.size(); ++p) {
    double bound = relative_bound(program.params[p].buffer->dtype);
    for (i64 i = 0; i < want[p].elements(); ++i, ++compared) {
      double a = got[p].get(i), b = want[p].get(i);
      ASSERT_LE(std::abs(a - b), bound * (std::abs(b) + 0.01))
          << program.params[p].buffer->name << "[" << i << "] = " << a << ", not " << b;
    }
  }
  EXPECT_GT(compared, 0);
}

void check(Arena& arena, const Program& program) {
  std::vector<HostArray> want = arrays_for(program), got = arrays_for(program);
  ASSERT_EQ(interpret(program, want), "");
  run_compiled(arena, program, got);
  if (!testing::Test::HasFatalFailure()) expect_equal(program, got, want);
}

class CompiledOperators : public testing::TestWithParam<Case> {};

TEST_P(CompiledOperators, AsWritten) {
  OwnedProgram owned = program_of(GetParam());
  check(*owned.arena, owned.program);
}

TEST_P(CompiledOperators, WithVectorizedLoops) {
  OwnedProgram owned = program_of(GetParam());
  int changed = 0;
  Program program = vectorized(*owned.arena, owned.program, &changed);
  check(*owned.arena, program);
  RecordProperty("vectorized", changed);
}

TEST_P(CompiledOperators, WidenedToF64) {
  OwnedProgram owned = program_of(GetParam());
  check(*owned.arena, widen_to_f64(*owned.arena, owned.program));
}

// The reference of a large workload sums in the same order, so that it is the same to the last bit.
TEST_P(CompiledOperators, AsReferenceOfALargeWorkload) {
  OwnedProgram owned = program_of(GetParam());
  Arena& arena = *owned.arena;
  Program widened = widen_to_f64(arena, owned.program);
  Schedule schedule = reference_schedule(widened, 0);
  std::vector<HostArray> plain = arrays_for(widened), reordered = arrays_for(widened);
  run_compiled(arena, widened, plain);
  run_compiled(arena, schedule.program(), reordered);
  for (std::size_t p = 0; p < plain.size(); ++p)
    EXPECT_EQ(plain[p].bytes, reordered[p].bytes) << widened.params[p].buffer->name;
}

TEST(CompiledOperatorsTogether, ProductsAndConvolutionsHaveTilesInTheReference) {
  std::set<std::string> tiled;
  for (const Case& c : kCases) {
    OwnedProgram owned = program_of(c);
    Schedule schedule = reference_schedule(owned.program, 0);
    std::string text = print(schedule.program());
    EXPECT_EQ(text.find("parallel for") == std::string::npos, text.find(": R ") == std::string::npos) << text;
    if (text.find(" in register") != std::string::npos) tiled.insert(std::string(owned.program.name));
  }
  // Not transpose_batch_matmul and the row reductions: they read along the reduction as they are.
  EXPECT_EQ(tiled, (std::set<std::string>{"avg_pool2d", "batch_matmul", "capsule_conv2d", "conv1d", "conv2d",
                                          "conv2d_transposed", "conv3d", "dense", "depthwise_conv2d", "matmul",
                                          "max_pool2d"}));
}

OwnedProgram from_text(const std::string& text) {
  Source source{"test.tw", text};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  std::optional<OwnedProgram> program = instantiate(module, "w", {}, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return *program;
}

// All pairs of these, in both backends and in constants: the second operand where one is no number.
TEST(MinAndMax, AreTheSameEverywhereForNumbersAndNaN) {
  const double values[] = {0.0, -0.0, 1, -2.5, INFINITY, -INFINITY, NAN};
  for (const char* type : {"f16", "bf16", "f32", "f64"}) {
    OwnedProgram owned = from_text(cat("workload w() {\n  input A: ", type, "[64], B: ", type,
                                       "[64]\n  output Low[i: 64] = min(A[i], B[i])\n",
                                       "  output High[i: 64] = max(A[i], B[i])\n  output Constant[i: 64] = max(B[i], "
                                       "max(1, nan)) + min(nan, 1)\n}\n"));
    int changed = 0;
    for (const Program& program : {owned.program, vectorized(*owned.arena, owned.program, &changed)}) {
      std::vector<HostArray> interpreted = arrays_for(program), compiled;
      for (i64 i = 0; i < 49; ++i) interpreted[0].set(i, values[i / 7]), interpreted[1].set(i, values[i % 7]);
      compiled = interpreted;
      ASSERT_EQ(interpret(program, interpreted), "");
      run_compiled(*owned.arena, program, compiled);
      for (std::size_t p = 2; p < interpreted.size(); ++p)
        EXPECT_EQ(interpreted[p].bytes, compiled[p].bytes) << type << " " << program.params[p].buffer->name;
      for (i64 i = 0; i < 49; ++i) {
        double a = values[i / 7], b = values[i % 7], low = a < b ? a : b, high = a > b ? a : b;
        double got_low = interpreted[2].get(i), got_high = interpreted[3].get(i);
        EXPECT_TRUE(got_low == low || (std::isnan(got_low) && std::isnan(low))) << "min(" << a << ", " << b << ")";
        EXPECT_TRUE(got_high == high || (std::isnan(got_high) && std::isnan(high))) << "max(" << a << ", " << b << ")";
      }
    }
    EXPECT_EQ(changed, 3);
  }
}

// One vmaxps for eight terms, and nothing that looks for NaNs.
TEST(MinAndMax, AMaxReductionIsOneInstructionAVector) {
  OwnedProgram owned = from_text("workload w() {\n  input X: f32[512, 8]\n  output Y[i: 8] = max(k: 512) X[k, i]\n}\n");
  Schedule schedule = reference_schedule(owned.program, 0);
  BlockId block = *schedule.get_block("Y");
  ASSERT_TRUE(schedule.vectorize((*schedule.get_loops(block))[1]));
  Result<LoweredProgram> lowered = lower(*owned.arena, schedule.program(), {});
  ASSERT_TRUE(lowered) << to_string(lowered.rejected());
  Result<LlvmCompiler> compiler = LlvmCompiler::create({.triple = "x86_64-unknown-linux-gnu", .cpu = "haswell"});
  ASSERT_TRUE(compiler) << to_string(compiler.rejected());
  std::string assembly = *compiler->emit(*lowered, "w", Emit::Assembly);
  EXPECT_NE(assembly.find("vmaxps"), std::string::npos) << assembly;
  for (const char* slow : {"vcmp", "vblend", "vmaxss", "vucomis"})
    EXPECT_EQ(assembly.find(slow), std::string::npos) << slow << "\n" << assembly;
}

TEST(CompiledOperatorsTogether, SomeLoopsWereVectorized) {
  int changed = 0;
  for (const Case& c : kCases) {
    OwnedProgram owned = program_of(c);
    vectorized(*owned.arena, owned.program, &changed);
  }
  EXPECT_GE(changed, 10);
}

INSTANTIATE_TEST_SUITE_P(Library, CompiledOperators, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.use;
  name = name.substr(0, name.find('('));
  return name + "_" + std::to_string(info.index);
});

}  // namespace
}  // namespace tw
