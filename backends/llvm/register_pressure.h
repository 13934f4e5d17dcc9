// Where a block uses more vectors than there are registers, LLVM spills sums. Two things cost less: values that a loop
// does not touch wait in memory while it runs, and multiplications that share a loaded operand each load it by
// themselves, which on x86 takes no register and no instruction.
#pragma once
#include <llvm/IR/Function.h>

namespace tw::codegen {

struct VectorRegisters {
  int count, bits;
  bool are_loads_free = false;  // a multiplication may read one operand from memory
};

// For blocks that write nothing and in which multiplications share loaded vectors, such as the innermost loop of a
// product, or one row of a window behind the test whether it is inside of the image. What they compute stays the same,
// to the bit.
void reduce_register_pressure(llvm::Function& function, const VectorRegisters& registers);

}  // namespace tw::codegen
