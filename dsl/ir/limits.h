// Limits of programs. They hold for programs in text and for what instructions make of them.
#pragma once
#include "dsl/base/arena.h"

namespace tw {

// The most elements of a buffer: sizes in bytes and products with extents then fit into an i64.
inline constexpr i64 kMostElements = i64{1} << 45;

// The most elements of a tensor of a model: far more than a machine has memory for.
inline constexpr i64 kMostModelElements = i64{1} << 36;

}  // namespace tw
