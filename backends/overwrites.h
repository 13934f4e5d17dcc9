// Which inputs of a kernel an output may be written over, so that a model needs no memory for both.
#pragma once
#include "backends/kernel.h"
#include "dsl/passes/lower_gpu.h"

namespace tw {

// Pairs of an output and an input of `run` with elements of the same size, the same number of them. Each element of the
// input is read only by the statement that writes the same element of the output, and no element is written twice,
// whatever the order of iterations. Decided on lowered code: a schedule may copy what it reads, or compute it again.
// Some pairs that are legal are not found. It is taken for granted that the kernel writes all elements of its outputs.
std::vector<Overwrite> overwrites_of(const LoweredProgram& program);

// The same of a program for a device, whatever the order of groups and work-items. Pairs are left out if several of
// these store the same elements of the output, or if the types differ: compilers may assume that memory has one type.
std::vector<Overwrite> overwrites_of(const LoweredGpuProgram& program);

}  // namespace tw
