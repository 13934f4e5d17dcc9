// May iterations of a loop run in another order, at the same time, in lockstep? Asked by reorder, parallel, vectorize, bind. The
// answers are conservative: a Reject may mean "not proved".
#pragma once
#include "dsl/analysis/region.h"
#include "dsl/base/result.h"
#include "dsl/ir/program.h"

namespace tw {

// Of what the blocks in `body` compute for each other, does one iteration of all the loops in `fixed` compute all that it reads?
// Then the loops may run in any order. Trivially so for one block. `around` = ranges of the loops around `fixed`.
Status iterations_are_self_contained(Arena& arena, const Stmt* body, const std::vector<const For*>& fixed, VarRanges around);

// May iterations run at the same time, if buffers that are used only below the loop are private to each worker?
Status iterations_may_overlap(Arena& arena, const Program& program, const For* loop, const VarRanges& around);
// May each statement below run for all iterations before the next statement does?
Status iterations_may_interleave(Arena& arena, const Program& program, const For* loop, const VarRanges& around);

}  // namespace tw
