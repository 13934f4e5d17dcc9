// with_error_variances: a workload that also computes how far rounding may put each of its results from the exact ones.
// What judges kernels. Input: a program before any schedule, in its own types. Output: the same program, and for each
// output that rounding can change one more (F64, same shape, `suffix` behind its name) with the square of the error
// that is expected of an element.
//
// An error analysis of first order, in which errors are independent unless said otherwise (Higham and Mary, "A New
// Approach to Probabilistic Rounding Error Analysis", SISC 2019). Each operation adds (u * its result)^2, where u is
// the unit roundoff of its type, and hands on what its operands have, times the square of its derivative. A sum S of n
// terms t in any order and any number of parts: its rounding has the variance 16 u^2 n (S^2 + sum t^2), which covers
// partial sums of terms of one sign and of either sign; what the terms have is added, times 1 + n / 64, because errors
// of terms may have a common cause. Divisions and functions count as four roundings: kernels use approximations of a
// few units in the last place. Where rounding may move a value across a step, an integer may be off
// by one; what is computed of i64, of indices, must be exact.
#pragma once
#include <optional>
#include <string_view>

#include "dsl/ir/program.h"

namespace tw {

// Relative error of rounding to the nearest number of the type; 0 for integers.
double unit_roundoff(DType type);

// Nothing for programs with blocks other than one store under its loops: element by element, or a sum, product, maximum
// or minimum (also with an index), over what is not written by itself.
std::optional<Program> with_error_variances(Arena& arena, const Program& program, std::string_view suffix);

}  // namespace tw
