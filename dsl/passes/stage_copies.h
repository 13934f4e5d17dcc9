// Pass stage_copies: a loop with the mark `stages` = n copies n - 1 iterations ahead. So does one with the reference's
// mark `software_pipeline_stage`, a list with the stage of each statement in the loop: 0 of each copy, n - 1 of what
// reads them. Input: Allocs as place_buffers leaves them; in the body of such a loop first copies into shared buffers
// of its own, then what reads these. Output: each of these buffers n times, outside of the loop; the first n - 1 copies
// before it; in iteration i, under one condition, the copies of iteration i + n - 1, then what reads those of i;
// instructions of four warps, which go on by themselves, stand before these copies. The loop has the mark `staged` = n,
// copies the mark `staged_copies` = how many there are in an iteration. Those that make_async has marked (`async`), and
// all of the reference's pipelines, have the mark `async_copies` = how many of these. Where a backend has asynchronous
// copies, those of an iteration are a group, and at the beginning of an iteration all groups but the last n - 2 must be
// complete. One barrier there is enough, also for copies that are not asynchronous. Rejects bodies of another shape.
#pragma once
#include "dsl/passes/lower_gpu.h"

namespace tw {

inline constexpr std::string_view kStagesMark = "stages", kPipelineMark = "software_pipeline_stage",
                                  kStagedMark = "staged", kCopiesMark = "staged_copies", kAsyncMark = "async",
                                  kAsyncCopiesMark = "async_copies";

// How many versions of what a loop copies its marks ask for; 1 = no copies ahead.
i64 stages_of(const For* loop);

// Does a statement make copies of such a loop?
bool makes_staged_copies(const Stmt* s);

Result<Program> stage_copies(Arena& arena, Program program);

}  // namespace tw
