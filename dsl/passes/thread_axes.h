// Pass bind_threads: the loops that are bound to axes of the device's grid, in the form that kernels have.
// Input: one nest. Output: loops of one iteration are gone unless they are annotated; `vthread` loops are unrolled,
// parallel ones are serial; blockIdx loops have only each other around them; a threadIdx loop over statements with such
// loops inside is several. Rejects where an axis is inside of itself,
// a group inside of a thread, or a group or the grid has too many. Loops of one axis may differ in extent: the grid has
// the largest, the others leave work-items idle.
#pragma once
#include "dsl/passes/lower_gpu.h"

namespace tw {

// Of a loop over groups: how many of them a multiprocessor shall hold at least, which the compiler is told (CUDA's
// launch bounds, whose second number this is); 0 or no mark: it weighs that itself.
inline constexpr std::string_view kMinBlocksMark = "min_blocks";

struct ThreadAxis {
  bool is_thread;  // threadIdx, else blockIdx
  int dimension;   // 0 = x
};
// Nothing for `vthread` and loops that are not bound.
std::optional<ThreadAxis> axis_of(const For* loop);
// Do its iterations run at once, on workers or on a device?
inline bool is_concurrent(const For* loop) {
  return loop->loop_kind == LoopKind::Parallel || loop->loop_kind == LoopKind::Bind;
}
inline bool is_thread_loop(const For* loop) {
  std::optional<ThreadAxis> axis = axis_of(loop);
  return axis && axis->is_thread;
}
// Is such a loop in it, or is it one?
bool holds_thread_loops(const Stmt* s);

// What the work-items of a group do between two places where they may wait: a nest of threadIdx loops, or, by one of
// them, a store or a serial loop without such loops inside. For statements of a kernel that are not inside of a step.
// A step under a condition is one too: its barrier stands outside of the condition.
bool is_step(const Stmt* s);

// Are the loops of a nest with blocks along which work-items combine such that a kernel can do it? Rejects where not
// all work-items of the group take part, or not all of them under the same condition.
Status check_combining(const Program& program);
// Of a nest with blocks: may each threadIdx loop over statements with such loops inside be several, as bind_threads
// makes it?
Status check_apart(Arena& arena, const Program& program);

// Pass bind_parallel_loops: how a nest that was scheduled for a processor runs on a device. If no loop is bound to an
// axis, the Parallel loops that are outermost run over groups.
Program bind_parallel_loops(Arena& arena, Program program);

Result<Program> bind_threads(Arena& arena, Program program, const GpuLimits& limits);
// The grid of a kernel after bind_threads.
LaunchExtents extents_of(const Stmt* kernel);

}  // namespace tw
