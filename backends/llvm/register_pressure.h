// Where a loop uses more vectors than there are registers, LLVM spills some that the loop needs in each iteration. Two
// things cost less: values that the loop does not touch wait in memory while it runs, and multiplications that share a
// loaded operand each load it by themselves, which on x86 takes no register and no instruction.
#pragma once
#include <llvm/IR/Function.h>

namespace tw::codegen {

struct VectorRegisters {
  int count, bits;
  bool are_loads_free = false;  // a multiplication may read one operand from memory
};

// For loops of one block that write nothing and in which multiplications share loaded vectors. What they compute stays
// the same, to the bit.
void reduce_register_pressure(llvm::Function& function, const VectorRegisters& registers);

}  // namespace tw::codegen
