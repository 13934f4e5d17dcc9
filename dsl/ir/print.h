// Program -> text. The text parses back (dsl/text/parse_program.h): parse(print(p)) is structurally equal to p.
//
//   program dense(X: input f32[128, 768], W: const f32[768, 3072], Y: output f32[128, 3072]) {
//     local D: f32[128, 3072]
//     for i in 128 {
//       parallel for j in 3072 {
//         for k in 768 {
//           block D(i: S 128 = i, j: S 3072 = j, k: R 768 = k) where i < 100 {
//             init { D[i, j] = 0.0 }
//             D[i, j] = D[i, j] + X[i, k] * W[k, j]
//           }
//   ...
// Loop kinds: `for`, `parallel for`, `vectorize for`, `unroll for`, `bind threadIdx.x for`. Annotations: `@key = value`
// after the head. Inside a block names mean its iters. A name that is taken gets a suffix _1, _2, ...
#pragma once
#include <string>

#include "dsl/ir/program.h"

namespace tw {

// Which loops and blocks get a `>` in the margin and a remark at the end of their line.
struct PrintMarks {
  struct Mark {
    LoopId loop;
    BlockId block;
    std::string remark;
  };
  std::vector<Mark> marks;
};

std::string print(const Program& program, const PrintMarks& marks = {});
// Without a surrounding program, e.g. for messages and debugging.
std::string print(const Stmt* stmt);
std::string print(const Expr* expr);
std::string print(const Literal& value);
// A literal that parses back to the same double: 0.1, 1e-05, inf, -inf, nan; always with a point, an exponent or a
// word.
std::string print_number(double value);
// How strongly an operator binds, 1 = weakest; `not` has 3. The parser (dsl/text/parse_expr.cc) uses the same table.
int strength(BinaryOp op);

}  // namespace tw
