// Which lanes of a Register buffer's vectors are used. Used by FunctionEmitter.
#pragma once
#include "dsl/ir/nodes.h"

namespace tw::codegen {

// True if each vector of the buffer is always read and written in the same lanes: what the others hold is never read,
// so that a store need not keep it. `alloc` is that of a Register buffer, unrolled: its indices are constants.
bool uses_same_lanes(const Alloc& alloc);

}  // namespace tw::codegen
