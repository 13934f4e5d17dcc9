#include "support/random_program.h"

#include <gtest/gtest.h>

#include "dsl/text/workload.h"

namespace tw::test {
namespace {

// Workloads with parameters A, B, C, extents of axes, and R, a window.
constexpr const char* kWorkloads = R"(
workload matmul(A: int, B: int, C: int, R: int) {
  input X: f32[A, C], Y: f32[C, B]
  output D[i: A, j: B] = sum(k: C) X[i, k] * Y[k, j]
}
workload dense_relu(A: int, B: int, C: int, R: int) {
  input X: f32[A, C]
  const W: f32[C, B], Bias: f32[B]
  D[i: A, j: B] = sum(k: C) X[i, k] * W[k, j]
  output E[i: A, j: B] = max(D[i, j] + Bias[j], 0)
}
workload dense_bias(A: int, B: int, C: int, R: int) {
  input X: f32[A, C], Y: f32[A, B]
  const W: f32[C, B]
  D[i: A, j: B] = sum(k: C) X[i, k] * W[k, j]
  output E[i: A, j: B] = D[i, j] + Y[i, j]
}
workload two_layers(A: int, B: int, C: int, R: int) {
  input X: f32[A, C]
  const W: f32[C, B], V: f32[B, R]
  D[i: A, j: B] = sum(k: C) X[i, k] * W[k, j]
  output E[i: A, j: R] = sum(k: B) D[i, k] * V[k, j]
}
workload conv(A: int, B: int, C: int, R: int) {
  input X: f32[A, C]
  const F: f32[R, C, B]
  P[x: A + R - 1, c: C] = if x >= R // 2 and x < A + R // 2 then X[x - R // 2, c] else 0
  output Y[x: A, b: B] = sum(r: R, c: C) P[x + r, c] * F[r, c, b]
}
workload strided(A: int, B: int, C: int, R: int) {
  input X: f32[A * 2 + R, B]
  P[x: A * 2 + R, b: B] = X[x, b] * 2
  output Y[x: A, b: B] = max(r: R) P[x * 2 + r, b]
}
workload chain(A: int, B: int, C: int, R: int) {
  input X: f32[A, B]
  const S: f32[B]
  D[i: A, j: B] = X[i, j] + 1
  E[i: A, j: B] = D[i, j] * S[j]
  output F[j: B, i: A] = E[i, j] - D[i, j]
}
workload stencil(A: int, B: int, C: int, R: int) {
  input X: f32[A + R, B]
  D[i: A + R, j: B] = X[i, j] * 3
  E[i: A, j: B] = D[i, j] + D[i + R, j]
  output F[i: A, j: B] = max(E[i, j], 2)
}
workload waves(A: int, B: int, C: int, R: int) {
  input X: f32[A + R + 1, B]
  D[i: A + R + 1, j: B] = X[i, j] - 1
  E[i: A + R, j: B] = D[i, j] * D[i + 1, j]
  output F[i: A, j: B] = E[i, j] + E[i + R, j]
}
workload centred(A: int, B: int, C: int, R: int) {
  input X: f32[A, B]
  M[i: A] = max(j: B) X[i, j]
  S[i: A] = sum(j: B) X[i, j] - M[i]
  output Y[i: A, j: B] = (X[i, j] - M[i]) * S[i]
}
workload total(A: int, B: int, C: int, R: int) {
  input X: f32[A, B, C]
  output S[i: A] = sum(j: B, k: C) X[i, j, k]
}
workload best(A: int, B: int, C: int, R: int) {
  input X: f32[A, B]
  output At, Best[i: A] = argmax(k: B) X[i, k]
}
)";

const WorkloadModule& workloads() {
  static const Source source{"random_program", kWorkloads};
  static const WorkloadModule module = [] {
    Diagnostics diagnostics(source);
    WorkloadModule parsed = parse_workloads(source, diagnostics);
    EXPECT_FALSE(diagnostics.has_errors()) << diagnostics.render();
    return parsed;
  }();
  return module;
}

}  // namespace

OwnedProgram random_program(Rng& rng, std::string& use) {
  const WorkloadModule& module = workloads();
  WorkloadUse made{
      std::string(
          module.workloads[static_cast<std::size_t>(rng.below(static_cast<i64>(module.workloads.size())))].name.name),
      {}};
  for (const char* name : {"A", "B", "C"}) made.arguments.push_back({name, 1 + rng.below(9)});
  made.arguments.push_back({"R", 1 + rng.below(3)});
  use = to_string(made);
  Diagnostics diagnostics(*module.source);
  std::optional<OwnedProgram> program = instantiate(module, made.workload, made.arguments, {}, diagnostics);
  EXPECT_TRUE(program) << use << "\n" << diagnostics.render();
  return *program;
}

}  // namespace tw::test
