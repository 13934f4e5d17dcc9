// least_flops: the arithmetic that no program for a workload can leave out, counted with care. The worker refuses times
// that the machine's FMA peak does not allow for it. Not the operations that GFLOP/s are stated in: see count_flops.
#pragma once
#include "dsl/ir/program.h"

namespace tw {

// In f32 operations as the FMA probe counts them: a multiply-add is two, one in f64 four. Counted are the terms a * b
// of sums in f32 or f64; not integers, f16 and bf16, which have instructions of their own, not terms that other points
// of the block share, and of what is read from a padded or spread copy only the part that the original has. It knows
// nothing of fast algorithms (Winograd, Strassen): a rule for one must take its factor into account here.
double least_flops(const Program& program);

}  // namespace tw
