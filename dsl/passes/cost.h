// How much code a statement becomes, and how much of it runs: the measure of the caps on unrolling and partitioning. An
// estimate, in vector operations; arithmetic on indices and accesses to Register buffers cost nothing.
#pragma once
#include "dsl/ir/nodes.h"
#include "dsl/passes/lower.h"

namespace tw {

struct Cost {
  i64 code = 0;      // operations in the machine code: loops of kind Unroll and Vectorize count for each copy
  i64 executed = 0;  // operations that run, conditions taken to hold
};
Cost cost_of(const Stmt* stmt, const LoweringOptions& options);

// Code of the largest nest of loops among those that run one after the other: what the caps hold for. Compilation takes
// time in proportion to all code together, so a program of many nests may have more in all.
i64 code_of_largest_nest(const Stmt* body, const LoweringOptions& options);

// Lanes of the vectors that a vectorized loop around `stmt` becomes: as many of the widest type in it as fit.
int lanes_of(const Stmt* stmt, const LoweringOptions& options);

// A vectorized loop that becomes more vectors than this is a loop over vectors.
inline constexpr i64 kUnrolledVectors = 8;

// True if the loop's variable selects elements of Register buffers. Such a loop is always unrolled.
bool selects_register(const For* loop);

// Vectors of a loop, as vectorize_loops makes them: full ones + those of the remainder, which is one of which not all
// lanes are used, if they are there, else powers of two, down to scalars. `row`: elements of the rows that are read; 0
// = all lanes are there or can be left out, 1 = none of the others is.
i64 vectors_in(i64 extent, i64 lanes, i64 row);

}  // namespace tw
