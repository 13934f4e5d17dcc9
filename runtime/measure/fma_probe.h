// The FMA probe: how many f32 operations a second one core can do at all, a multiply-add being two. The worker bounds
// with it what a kernel can be believed to take, `bench` states speeds as parts of it. Neither x86-64 with FMA
// instructions nor aarch64: there is no probe.
#pragma once
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

struct FmaVariant {
  int bits;  // of a vector
  const char* name;
  bool (*is_present)();
  void (*run)(i64 rounds);
  double flops_per_round;
};

// Those that were compiled, widest first.
const std::vector<FmaVariant>& fma_variants();

// f32 operations a second of the CPU that this thread runs on: the fastest of short samples, taken for `seconds` with
// each variant that is present and not wider than `vector_bits`. 0 if none is. A busy machine makes it smaller, never
// larger.
double measure_fma_peak(double seconds, int vector_bits = 512);

}  // namespace tw
