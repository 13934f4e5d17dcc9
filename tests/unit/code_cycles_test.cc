// Cycles of machine code, estimated. Which of two kernels takes longer was measured on AVX-512 machines.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/backend.h"
#include "dsl/base/text.h"
#include "sampler/search/trial.h"
#include "tests/support/lowered_kit.h"
#include "tests/support/parsed.h"
#include "tests/support/scheduled.h"

namespace tw {
namespace {

constexpr const char* kWide = "cpu -triple=x86_64-linux-gnu -mcpu=icelake-server -threads=1";

double cycles_of(const LoweredProgram& lowered, const Target& target) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(target));
  EXPECT_TRUE(compiler);
  Result<double> cycles = compiler->cycles(lowered, "kernel");
  EXPECT_TRUE(cycles) << to_string(cycles.rejected());
  return cycles ? *cycles : 0;
}

double cycles_of(const Program& program, const std::string& target_text, i64 max_instructions = 0) {
  Target target = test::parsed_target(target_text);
  Arena arena;
  LoweringOptions options = lowering_options(target);
  if (max_instructions > 0) options.max_instructions = max_instructions;
  Result<LoweredProgram> lowered = lower(arena, program, options);
  EXPECT_TRUE(lowered) << to_string(lowered.rejected());
  return lowered ? cycles_of(*lowered, target) : 0;
}

double dense(i64 m, i64 n, i64 k, const test::TileOptions& tile, const std::string& target = kWide) {
  test::Scheduled scheduled(cat("dense(M = ", m, ", N = ", n, ", K = ", k, ")"), {}, test::dense_schedule(tile));
  return cycles_of(scheduled.program(), target);
}

TEST(CodeCycles, AProductThatFitsInRegistersTakesWhatItsSumsTake) {
  double sums = 64.0 * 64 * 128 / (16 * 2);  // two vectors of 16 a cycle
  double cycles = dense(64, 64, 128, {.rows = 8, .columns = 32, .unroll = 1});
  EXPECT_GE(cycles, sums);
  EXPECT_LE(cycles, 1.4 * sums);
}

TEST(CodeCycles, GrowWithTripCounts) {
  constexpr test::TileOptions tile = {.rows = 8, .columns = 32, .unroll = 1};
  double once = dense(64, 64, 512, tile);
  EXPECT_NEAR(dense(128, 64, 512, tile) / once, 2, 0.05);
  EXPECT_NEAR(dense(64, 128, 512, tile) / once, 2, 0.05);
  EXPECT_NEAR(dense(64, 64, 1024, tile) / once, 2, 0.05);
}

TEST(CodeCycles, ThreadsDoAllOfTheWorkTogether) {
  test::TileOptions tile = {.rows = 8, .columns = 32, .unroll = 1};
  double alone = dense(128, 64, 256, tile);
  tile.parallel = true, tile.panels_outside = false;
  EXPECT_NEAR(dense(128, 64, 256, tile, cat(kWide, "0")) / alone, 1, 0.1);
}

TEST(CodeCycles, RegistersThatAreTooFewCost) {
  auto cycles_of_a_row = [](i64 rows) {
    return dense(4 * rows, 64, 256, {.rows = rows, .columns = 32, .unroll = 1}) / static_cast<double>(rows);
  };
  double fits = cycles_of_a_row(14);  // 28 sums, two loads, a factor
  EXPECT_GT(cycles_of_a_row(8), fits) << "fewer rows share a load";
  EXPECT_GT(cycles_of_a_row(15), 1.5 * fits) << "sums are saved in each pass";
}

// A batch of 2 such products, 69 x 78: 24.3 us with a panel of 64 and the remainder 14, 15.2 us padded to two panels
// of 48.
TEST(CodeCycles, PartialVectorsCostAsMuchAsWholeOnes) {
  double partial = dense(60, 78, 119, {.rows = 3, .columns = 64, .unroll = 1, .pack = false});
  double padded = dense(60, 96, 119, {.rows = 5, .columns = 48, .unroll = 1});
  EXPECT_GT(partial, 1.2 * padded);
}

TEST(CodeCycles, TestsThatLoweringLeavesInABodyCost) {
  constexpr const char* kWithoutMasks = "cpu -triple=x86_64-linux-gnu -mcpu=haswell -threads=1";
  test::Scheduled scheduled("dense(M = 62, N = 78, K = 128)", {},
                            test::dense_schedule({.rows = 4, .columns = 16, .unroll = 1}));
  EXPECT_GT(cycles_of(scheduled.program(), kWithoutMasks, 100), 1.5 * cycles_of(scheduled.program(), kWithoutMasks));
}

// Copying an element is a load, a store, and the loop's own instructions: more than four.
TEST(CodeCycles, WhatACoreCannotIssueAtOnceTakesLonger) {
  LoweredKit kit;
  const Buffer *from = kit.argument(DType::F32, 4096), *to = kit.output(DType::F32, 4096);
  const Var* i = kit.var();
  const Stmt* copy = kit.loop(i, 4096, kit.store(to, i, kit.load(from, i)));
  double cycles = cycles_of(kit.program(copy), test::parsed_target(kWide));
  EXPECT_GT(cycles, 1.2 * 4096) << "a store a cycle is not all that there is to do";
  EXPECT_LT(cycles, 2.5 * 4096);
}

// A transposed convolution with stride 2 tests for each element which rows of the kernel meet it: one of two.
TEST(CodeCycles, WhatStandsBehindATestOfARemainderRunsInItsShare) {
  auto guarded = [](i64 divisor) {
    LoweredKit kit;
    const Buffer *from = kit.argument(DType::F32, 4096), *to = kit.output(DType::F32, 4096);
    const Var *outer = kit.var(), *inner = kit.var();
    const Stmt* copy = kit.loop(inner, 4096, kit.store(to, inner, kit.load(from, inner)));
    Build& build = kit.build;
    const Expr* condition =
        build.binary(BinaryOp::Eq, build.floor_mod(outer, build.integer(divisor)), build.integer(0));
    const Stmt* body = divisor > 1 ? build.if_then(condition, copy) : copy;
    return cycles_of(kit.program(kit.loop(outer, 96, body)), test::parsed_target(kWide));
  };
  EXPECT_LT(guarded(2), 0.7 * guarded(1));
  EXPECT_NEAR(guarded(2) / guarded(4), 2, 0.02);
  EXPECT_NEAR(guarded(3) / guarded(6), 2, 0.02);
  EXPECT_NEAR(guarded(2) / guarded(6), 3, 0.02);
}

TEST(CodeCycles, AreThereForEveryProcessorThatCodeIsMadeFor) {
  for (const char* target : {"cpu -triple=aarch64-linux-gnu -mcpu=cortex-a72 -threads=1",
                             "cpu -triple=riscv64-linux-gnu -mattr=+m,+a,+f,+d,+v -threads=1 -vector-bits=128",
                             "cpu -triple=hexagon-unknown-elf -mcpu=hexagonv68 -threads=1"}) {
    double cycles = dense(32, 32, 64, {.rows = 4, .columns = 8, .unroll = 1}, target);
    EXPECT_TRUE(std::isfinite(cycles)) << target;
    EXPECT_GT(cycles, 32 * 32 * 64 / (32.0 * 4)) << target << ": fewer than any machine takes";
  }
}

}  // namespace
}  // namespace tw
