// Elements of buffers by type: random data, and the comparison of a result with the reference. Runs
// in the worker, never in the child that ran the kernel.
#pragma once
#include <string>

#include "backends/kernel.h"
#include "dsl/base/rng.h"
#include "runtime/measurer.h"

namespace tw {

// `count` random elements: floats uniform in [-1, 1), signed integers in [-8, 8), unsigned in [0,
// 8), bool 0 or 1.
void fill_random(Rng& rng, DType type, i64 count, char* data);

struct Elements {
  const char* data = nullptr;
  DType type = DType::F32;
  i64 count = 0;
};

struct Comparison {
  i64 wrong = 0;                    // elements outside the tolerance
  i64 first = -1;                   // index of the first of them
  double actual = 0, expected = 0;  // there
  double max_error = 0;  // largest |actual - expected| of all elements; infinite if one is NaN
};
// Same count, any types; compared as doubles (integers beyond 2^53 are therefore compared rounded).
Comparison compare(const Elements& actual, const Elements& expected, Tolerance tolerance);

}  // namespace tw
