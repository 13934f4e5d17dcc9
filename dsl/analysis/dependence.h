// May iterations of a loop run in another order, at the same time, in lockstep? Asked by reorder, parallel, vectorize,
// bind. The answers are conservative: a Reject may mean "not proved".
#pragma once
#include "dsl/analysis/region.h"
#include "dsl/base/result.h"
#include "dsl/ir/program.h"

namespace tw {

// May the loops of a chain around `body` be permuted? Each iteration must read what it has computed itself, or what
// iterations of one loop, which stay in order, hand on. Always so for one block. `around` = ranges of the loops around
// the chain.
Status iterations_may_be_permuted(Arena& arena, const Stmt* body, const List<const For*>& loops,
                                  const VarRanges& around);

// May iterations run at the same time, if buffers that are used only below the loop are private to each worker?
Status iterations_may_overlap(Arena& arena, const Program& program, const For* loop, const VarRanges& around);
// May each statement below run for all iterations before the next statement does, where each iteration has registers of
// its own?
Status iterations_may_interleave(Arena& arena, const Program& program, const For* loop, const VarRanges& around);
// May the iterations of a reduction loop run on work-items that combine their terms? The loop must be directly around a
// block with a known reducer whose terms are loads (rfactor makes them), and whose result is no work-item's own.
Status work_items_may_combine(const For* loop);

}  // namespace tw
