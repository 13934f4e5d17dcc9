// Scalars as the interpreter sees them: how each element type is stored in memory, rounded and converted. Exact; slow.
#pragma once
#include "dsl/ir/nodes.h"

namespace tw {

// A value of some DType, which the reader knows: floats are in `f`, integers and bool in `i`.
struct Scalar {
  i64 i = 0;
  double f = 0;
};

// The nearest value of the float type, ties to even; overflow gives infinity.
double round_to(DType type, double value);
// The value modulo 2^bits of the integer type; bool is 0 or 1.
i64 wrap_to(DType type, i64 value);

Scalar read_element(DType type, const u8* bytes);
void write_element(DType type, Scalar value, u8* bytes);  // the value must be one of the type

// To bool: != 0. Float to integer: the fraction is cut off, out of range saturates, nan gives 0. Integer to integer:
// wraps.
Scalar convert_scalar(DType to, DType from, Scalar value);

// One operation in the type of the operands, rounded once. FloorDiv and FloorMod need b != 0. And, Or, comparisons give
// bool.
Scalar apply_binary(BinaryOp op, DType type, Scalar a, Scalar b);
// In double, then rounded. Round: ties to even. `b` is only looked at by Pow.
Scalar apply_function(Function function, DType type, Scalar a, Scalar b);

}  // namespace tw
