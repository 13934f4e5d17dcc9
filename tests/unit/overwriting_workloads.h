// Workloads whose outputs may, or may not, be written over their inputs.
#pragma once

namespace tw::test {

// `map`: over A and B. `residual`: over R. The others: over no input, since other elements of A are read, too.
inline constexpr const char* kOverwritingWorkloads = R"tw(
workload map(M: int, N: int) {
  input A: f32[M, N], B: f32[M, N]
  output Y: f32[i: M, j: N] = relu(A[i, j]) + B[i, j] * B[i, j]
}
workload residual(M: int, N: int) {
  input X: f32[M, N], R: f32[M, N]
  const W: f32[N, N]
  T[i: M, j: N] = sum(k: N) X[i, k] * W[k, j]
  output Y: f32[i: M, j: N] = relu(T[i, j] + R[i, j])
}
workload turned(M: int, N: int) {
  input A: f32[N, M]
  output Y: f32[i: M, j: N] = A[j, i]
}
workload blurred(M: int, N: int) {
  input A: f32[M, N]
  output Y: f32[i: M, j: N] = A[i, j] + (if i >= 1 then A[i - 1, j] else 0.0)
}
workload shifted(M: int, N: int) {
  input A: f32[M, N]
  L[i: M] = max(j: N) A[i, j]
  output Y: f32[i: M, j: N] = A[i, j] - L[i]
}
)tw";

}  // namespace tw::test
