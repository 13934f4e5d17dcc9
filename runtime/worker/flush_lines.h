// Takes memory out of the caches, as where other kernels have run in between.
#pragma once
#include <span>

namespace tw {

// Afterwards no cache of any core holds a line of `memory`, which must be readable. Where the processor has no such
// instruction, nothing happens.
void flush_lines(std::span<const char> memory);

// Brings it back.
void read_lines(std::span<const char> memory);

}  // namespace tw
