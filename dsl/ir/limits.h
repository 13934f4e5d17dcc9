// Limits of programs, whether a text says them or instructions make them.
#pragma once
#include "dsl/base/arena.h"

namespace tw {

// Of a buffer. Sizes in bytes and products with extents stay far from the end of i64.
inline constexpr i64 kMostElements = i64{1} << 45;

}  // namespace tw
