// What a scheduled program asks of memory once it is lowered: for postprocessors that reject a candidate before
// anything is compiled. They lower a copy as far as buffers have their sizes; the program stays as it is. Limits are
// for them to say.
#pragma once
#include "dsl/base/result.h"
#include "dsl/ir/program.h"

namespace tw {

// Bytes in scope Vtcm that are held at once, by so many threads. Rejects what lowering rejects.
Result<i64> vtcm_bytes_of(Arena& arena, const Program& program, int threads);

// Does each copy that is made ahead (in the body of a loop with the mark `stages`, a nest that does nothing but carry
// elements of one buffer into a local one, before all else) read and write consecutive elements, without gaps and
// without tests? Rejects what lowering rejects.
Result<bool> copies_ahead_are_contiguous(Arena& arena, const Program& program);

}  // namespace tw
