// Pass split_kernels: each top-level nest of an entry point becomes a program of its own, to be a kernel.
// Input: an entry point with blocks. Output: one program per nest, whose params are the buffers of the entry point that
// it touches: params, and locals that other nests touch too, which get a place in scratch memory; those that are not
// needed at the same time share it. Locals of one nest only stay its locals.
#pragma once
#include "dsl/passes/lower_gpu.h"

namespace tw {

struct SplitParam {
  bool is_scratch;
  i64 at;  // as in KernelParam
};
struct SplitKernel {
  Program program;
  std::vector<SplitParam> params;  // one per param of `program`
};
struct SplitKernels {
  std::vector<SplitKernel> kernels;
  i64 scratch_bytes = 0;
};
// Room in scratch memory behind `bytes`, which grows; the offset.
i64 take_scratch(const Buffer* buffer, i64& bytes);
Result<SplitKernels> split_kernels(Arena& arena, const Program& entry);

}  // namespace tw
