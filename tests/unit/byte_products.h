// A product of bytes, which the library does not have, and for which processors have instructions.
#pragma once

namespace tw::test {

inline constexpr const char* kBytes = R"(
workload bytes(M: int, N: int, K: int, A: type, B: type) {
  input X: A[M, K]
  const W: B[K, N]
  output Y: i32[i: M, j: N] = sum(k: K) in i32 i32(X[i, k]) * i32(W[k, j])
}
)";

}  // namespace tw::test
