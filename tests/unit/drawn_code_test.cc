// Draws of programs of many blocks become code: next to none of them is too large for lowering, whatever the shape, and
// what is lowered computes the same.
#include <gtest/gtest.h>

#include "dsl/text/workload.h"
#include "tests/unit/lowered_draws.h"
#include "tests/unit/operator_kit.h"
#include "tests/unit/transformer.h"

namespace tw {
namespace {

using test::draw_lowered;
using test::DrawCounts;
using test::target_of;

constexpr const char* kNetworks = R"tw(
workload perceptron(A: int, C: int) {
  input X: f32[A, C]
  const W1: f32[C, 3 * C], W2: f32[3 * C, 2 * C], W3: f32[2 * C, C], W4: f32[C, C], B: f32[3 * C]
  U[i: A, j: 3 * C] = sum(k: C) X[i, k] * W1[k, j]
  U1[i: A, j: 3 * C] = relu(U[i, j] + B[j])
  V[i: A, j: 2 * C] = sum(k: 3 * C) U1[i, k] * W2[k, j]
  V1[i: A, j: 2 * C] = gelu(V[i, j])
  E[i: A, j: C] = sum(k: 2 * C) V1[i, k] * W3[k, j]
  F[i: A, j: C] = relu(E[i, j]) + X[i, j]
  output Y: f32[i: A, j: C] = sum(k: C) F[i, k] * W4[k, j]
}
workload convolutions(A: int, C: int) {
  input X: f32[A, A, C]
  const W1: f32[3, 3, C, C], W2: f32[3, 3, C, C], W3: f32[C, C]
  P[y: A + 2, x: A + 2, c: C] = if y >= 1 and y < A + 1 and x >= 1 and x < A + 1 then X[y - 1, x - 1, c] else 0.0
  U[y: A, x: A, c: C] = sum(r: 3, s: 3, k: C) P[y + r, x + s, k] * W1[r, s, k, c]
  U1[y: A, x: A, c: C] = relu(U[y, x, c])
  V[y: A - 2, x: A - 2, c: C] = sum(r: 3, s: 3, k: C) U1[y + r, x + s, k] * W2[r, s, k, c]
  V1[y: A - 2, x: A - 2, c: C] = relu(V[y, x, c])
  output Y: f32[y: A - 2, x: A - 2, c: C] = sum(k: C) V1[y, x, k] * W3[k, c]
}
)tw";

struct Shape {
  const char* workloads;
  const char* name;
  const char *first, *second;  // parameters
  i64 rows, columns;           // at most
};
const Shape kShapes[] = {{test::kTransformer, "block", "S", "D", 140, 250},
                         {kNetworks, "perceptron", "A", "C", 140, 250},
                         {kNetworks, "convolutions", "A", "C", 30, 60}};

OwnedProgram program_of(const Shape& shape, i64 rows, i64 columns) {
  Source source{"networks.tw", shape.workloads};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  std::optional<OwnedProgram> program =
      instantiate(module, shape.name, {{shape.first, rows}, {shape.second, columns}}, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return std::move(*program);
}

TEST(DrawnCode, NextToNothingIsTooLarge) {
  for (const Shape& shape : kShapes) {
    DrawCounts counts;
    Rng rng(31);
    for (int bits : {256, 512}) {
      Target target = target_of(bits, 1 + static_cast<int>(rng.below(2)));
      Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(target));
      ASSERT_TRUE(compiler);
      for (int n = 0; n < 3; ++n) {
        OwnedProgram program = program_of(shape, 5 + rng.below(shape.rows), 3 + rng.below(shape.columns));
        int compiled = 0;
        draw_lowered(program, target, 24, counts, [&](const Program&, const LoweredProgram& lowered) {
          bool is_compiled = compiled++ > 0 || compiler->compile(lowered, "kernel");
          EXPECT_TRUE(is_compiled);
        });
      }
    }
    EXPECT_GT(counts.built, 100) << shape.name;
    EXPECT_GE(100 * counts.lowered, 98 * counts.built) << shape.name << "\n" << counts.reasons;
  }
}

TEST(DrawnCode, ATransformerBlockFitsWhole) {
  for (int bits : {256, 512}) {
    DrawCounts counts;
    draw_lowered(program_of(kShapes[0], 128, 256), target_of(bits, 1), 64, counts,
                 [](const Program&, const LoweredProgram&) {});
    EXPECT_EQ(counts.lowered, counts.built) << counts.reasons;
    EXPECT_GE(100 * counts.built, 95 * 64);
  }
}

TEST(DrawnCode, WhatIsLoweredComputesTheSame) {
  for (const Shape& shape : kShapes) {
    Rng rng(32);
    for (int bits : {256, 512}) {
      OwnedProgram program = program_of(shape, 5 + rng.below(6), 3 + rng.below(12));
      OutputValues expected = outputs_of(program.program, 1);
      DrawCounts counts;
      draw_lowered(program, target_of(bits, 1), 8, counts, [&](const Program&, const LoweredProgram& lowered) {
        EXPECT_TRUE(near(outputs_of(lowered, 1), expected)) << shape.name;
      });
      EXPECT_GT(counts.lowered, 4);
    }
  }
}

}  // namespace
}  // namespace tw
