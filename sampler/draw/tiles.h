// Arithmetic of tile sizes shared by the tile samples and their mutator.
#pragma once
#include "dsl/base/list.h"
#include "dsl/base/rng.h"

namespace tw {

struct PrimePower {
  i64 prime;
  int exponent;
};
List<PrimePower> factorize(i64 n);  // n >= 1

// n factors whose product is extent, each factorisation equally likely (stars and bars per prime), redrawn until the
// last one is at most max_innermost (max_innermost < 1: no bound).
void draw_perfect_tile(i64 extent, int n, i64 max_innermost, Rng& rng, i64* factors);

// n factors whose product is extent, those from `position` on together a multiple of inner, each such factorisation
// equally likely (in MetaSchedule perfect tiles are redrawn until they are; here each prime is, which is the same and
// ends soon). inner divides extent.
void draw_partitioned_tile(i64 extent, int n, int position, i64 inner, Rng& rng, i64* factors);

// n factors that need not divide the extent: half the time a perfect tile, half the time each log-uniform, so that
// aligned tiles are common but every size can be drawn. The outermost is what is left, rounded up.
void draw_tile(i64 extent, int n, i64 max_innermost, Rng& rng, i64* factors);

// Given factors for any extent: the outermost becomes what is left, and those that do not fit change. True if nothing
// had to.
bool fit_perfect_tile(
    i64 extent, int n,
    i64* factors);  // from the innermost outwards, one that does not divide what is left takes all of it
bool fit_tile(i64 extent, int n, i64 max_innermost, i64* factors);  // each inner one within [1, what is left]

}  // namespace tw
