// Moving blocks: the checks and steps that compute_at, reverse_compute_at and the two inlining primitives share. Each
// check states one rule that keeps the program's meaning.
#pragma once
#include "dsl/schedule/nest.h"

namespace tw {

// Where blocks stand: position in program order.
int order_of(const List<const Block*>& order, const Block* block);
// Position of the first (last) block below a statement.
int first_order(const List<const Block*>& order, const Stmt* stmt);
int last_order(const List<const Block*>& order, const Stmt* stmt);

// Which of the places that a block can have in a loop is meant by "first" or "last"? True = the first one.
Result<bool> is_first_position(const State& state, Str position);

// The statements directly below a loop, and the first (last) of them that contains one of `blocks`; -1 if none does.
List<const Stmt*> children_of(const For* loop);
int first_child_with(const List<const Stmt*>& children, const List<const Block*>& blocks);
int last_child_with(const List<const Stmt*>& children, const List<const Block*>& blocks);

// The block does not look up in memory where it reads the buffer: else it cannot be told which part is needed, and
// there may be parts that nobody has computed. `boxes_count`: it is enough to know a box (annotate_buffer_access),
// because all of it is there or will be computed.
Status reads_known_places(const Block* block, const Buffer* buffer, bool boxes_count);
// The loop is not around the block that `from` leads to.
Status is_outside(const Path& from, const For* loop, const Block* block);
// What the block reads was written before it, by blocks in front of it.
Status reads_what_is_before(const State& state, const Block* block);
// What the init of a block reads is written by nobody below the loop, before which the init shall run.
Status init_can_be_before(const Block* block, const For* loop);
// A producer that is computed piece by piece inside a loop together with `block` cannot be left behind: the loops that
// they share must also be around the place that `to` leads to.
Status keeps_company(const State& state, const Block* block, const Path& to);

// No loop path[from...to] repeats the block at the end of the path for the same elements. Loops of recomputation do;
// reduction loops do, too, unless they may.
Status loops_do_not_repeat(Arena& arena, const Path& path, int from, int to, bool reductions_may);
// An iteration of the first so many loops of a path finishes the block: none of them feeds its reduction.
Status is_finished_in(const Path& path, int loops, const Block* block);
// The loops around a block that run concurrently (parallel, vectorize, bind) are still allowed to. If not, the program
// becomes `before` again.
Status concurrent_loops_stay_legal(State& state, BlockId id, const Program& before);

// A block at the end of `from` that shall run over `ranges` of its iters in the innermost loop of `to`: where it did
// not run over all of these values so far, or only over a part at a time, its inputs may be there in part only.
Status computes_no_more(const State& state, const Block* block, const Path& from, const Path& to,
                        const List<Range>& ranges);

// The ranges of a block's iters that cover a region of what it writes; over its whole domain where that is not
// understood.
List<Range> ranges_to_write(Arena& arena, const Block* block, const Buffer* buffer, const Region& region);
// For each iter the smallest range that covers both.
void widen(Arena& arena, const Block* block, List<Range>& ranges, const List<Range>& other);

// Takes the block and the loops that become empty out of the program, and puts `nest` before (after) `anchor`.
void move_before(State& state, const Block* block, const Stmt* anchor, const Stmt* nest);
void move_after(State& state, const Block* block, const Stmt* anchor, const Stmt* nest);

// The block becomes part of its consumers (of its only producer); the buffer between goes.
Status inline_into_consumers(State& state, BlockId id);
Status inline_into_producer(State& state, BlockId id);
// An elementwise consumer becomes the start of a reduction of the same operation: D = C + f starts at f instead of 0.
Status fuse_into_reduction(State& state, BlockId reduction, BlockId epilogue);

}  // namespace tw
