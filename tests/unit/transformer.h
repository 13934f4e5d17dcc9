// A pre-norm block of a transformer as one workload: nineteen stages, of which nine are products or long sums.
#pragma once

namespace tw::test {

inline constexpr const char* kTransformer = R"tw(
workload block(S: int, D: int, T: type = f32) {
  input X: T[S, D]
  const Wq: T[D, D], Wk: T[D, D], Wv: T[D, D], Wo: T[D, D], W1: T[D, 4 * D], W2: T[4 * D, D]
  Mean[i: S] = sum(j: D) X[i, j]
  Var[i: S] = sum(j: D) square(X[i, j] - Mean[i] / D)
  L[i: S, j: D] = (X[i, j] - Mean[i] / D) * rsqrt(Var[i] / D + 1e-5)
  Q[i: S, j: D] = sum(k: D) L[i, k] * Wq[k, j]
  K[i: S, j: D] = sum(k: D) L[i, k] * Wk[k, j]
  V[i: S, j: D] = sum(k: D) L[i, k] * Wv[k, j]
  P[i: S, j: S] = sum(k: D) Q[i, k] * K[j, k]
  Top[i: S] = max(j: S) P[i, j]
  E[i: S, j: S] = exp((P[i, j] - Top[i]) * 0.01)
  Sum[i: S] = sum(j: S) E[i, j]
  A[i: S, j: D] = sum(k: S) E[i, k] * V[k, j]
  O[i: S, j: D] = sum(k: D) A[i, k] / Sum[i] * Wo[k, j]
  H[i: S, j: D] = O[i, j] + X[i, j]
  Mean2[i: S] = sum(j: D) H[i, j]
  Var2[i: S] = sum(j: D) square(H[i, j] - Mean2[i] / D)
  L2[i: S, j: D] = (H[i, j] - Mean2[i] / D) * rsqrt(Var2[i] / D + 1e-5)
  U[i: S, j: 4 * D] = sum(k: D) L2[i, k] * W1[k, j]
  G[i: S, j: 4 * D] = gelu(U[i, j])
  Z[i: S, j: D] = sum(k: 4 * D) G[i, k] * W2[k, j]
  output Y: T[i: S, j: D] = Z[i, j] + H[i, j]
}
)tw";

}  // namespace tw::test
