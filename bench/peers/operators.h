// What each operator of a task list means to a library: shapes, memory layout of its arrays,
// floating-point operations. The one place in the peers that knows layouts; they agree with the
// operator texts in dsl/te. Used by every peer. Knows no library. Arrays are dense, row-major f32.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace tw::peers {

using i64 = std::int64_t;

// One task as the bench command names it, with its data.
struct Problem {
  std::string op;                     // "dense", "conv2d", ... as in a task list
  std::map<std::string, i64> args;    // {M: 128, N: 3072, K: 768}
  std::vector<std::string> epilogue;  // {"bias", "gelu"}
  std::vector<const float*> inputs;   // the operator's arrays, then those of the epilogue, in order
};

// Steps between neighbours, in elements.
struct Strides {
  i64 outer, inner, row, column;
};

// C[o, i, m, n] = sum(k) A[o, i, m, k] * B[o, i, k, n]; `outer` and `inner` are two batch axes, 1
// if not there.
struct Gemm {
  i64 outer = 1, inner = 1, m = 0, n = 0, k = 0;
  Strides a{}, b{}, c{};
  bool constant_b = false;  // B is a weight: what is rewritten about it once is not timed
};

// Activations [N, D, H, W, C], weights [KD, KH, KW, CI / groups, CO] (transposed: [KD, KH, KW, CI,
// CO]), output [N, D', H', W', CO]. `axes` of D, H, W exist, the last ones; the others have extent
// 1 and kernel 1.
struct Convolution {
  int axes = 2;
  i64 n = 1, ci = 0, co = 0, groups = 1;
  std::array<i64, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  bool transposed = false;
};

// One result per row, or one row per row, of X[M, N].
struct RowWise {
  enum class Kind { Softmax, LayerNorm, RmsNorm, Norm } kind;
  i64 rows = 0, columns = 0;
};

// Not an operator: only keeps the FMA units busy.
struct FmaProbe {};

struct Operator {
  std::variant<Gemm, Convolution, RowWise, FmaProbe> shape;
  i64 inputs = 0;  // arrays before those of the epilogue
  i64 output_elements = 0;
  i64 channels = 0;  // extent of the output's last axis, along which a bias runs
  double flops = 0;  // multiplications and additions of the sum, padding counted; 0 where that says nothing
};

// The operator of a problem, or a sentence saying why no library can be asked for it.
std::variant<Operator, std::string> understand(const Problem& problem);

}  // namespace tw::peers
