// Copies of buffers and changes to them: what the primitives that cache, re-lay out and store share.
#pragma once
#include "dsl/analysis/region.h"
#include "dsl/schedule/state.h"

namespace tw {

Result<Scope> scope_named(const State& state, Str name);
// The index-th buffer of a list made by buffers_read or buffers_written; `what` = "read" or "written", for the message.
Result<const Buffer*> buffer_at(const Block* block, const List<const Buffer*>& buffers, i64 index, Str what);

// The index-th buffer that a block writes, which must not be a parameter: its scope, type and strides are not ours.
Result<const Buffer*> local_written_by(const State& state, const Block* block, i64 write_index);

// The loop is around the block at the end of the path.
Status is_below(const Path& path, const For* loop);

// Does the block load from the buffer, be it to accumulate?
bool loads_of(const Block* block, const Buffer* buffer);
// The indices of all its loads from and stores to the buffer, which must be the same.
Result<Array<const Expr*>> only_indices(const Block* block, const Buffer* buffer);

// The blocks that an instruction names as those that read a copy of the buffer, in program order: each once, and each
// reads it.
Result<List<const Block*>> consumers_named(const State& state, Array<BlockId> ids, const Buffer* buffer);

// The loops around path[at] as ranges of their variables.
VarRanges ranges_to(const Path& path, int at);

// Index in the path of the highest statement around the block in which nobody writes the buffer; -1 if there is none.
int highest_without_writer(const Path& path, const Buffer* buffer);
// The same for blocks that read the buffer, but for some of them.
int highest_without_reader(const Path& path, const Buffer* buffer, const List<const Block*>& but_for = {});
// Where a later block writes the buffer, a guard may keep the first iteration from reading it; a copy has no guard.
Status is_written_before(const State& state, const Block* block, const Buffer* buffer);
// A copy before path[at] touches all of the box that its readers need, also what they leave out between: then some
// writer writes all of it before.
Status is_all_written(const State& state, const List<const Block*>& readers, const Region& box, const Path& path,
                      int at);
// Does one block write all of a box before path[at]? Instead of the box all that is ever read counts, if it is given,
// for writers that share no loop with the copy. True of buffers nobody writes.
Status somebody_writes_all_of(const State& state, const Region& box, const Path& path, int at,
                              const Region* in_all = nullptr);

// A block, not yet in the program, with one S iter per dimension: to[i, j] = from[i, j]. Iters are named after those of
// `like` where it uses them as indices.
const Block* copy_block(State& state, Str name, const Buffer* from, const Buffer* to, const Block* like);
// The same copy, of a domain without the ends of the buffer that nobody writes.
const Block* of_what_is_written(State& state, const Block* copy, const Buffer* from);
// The block with its loads, not its stores, going to another buffer.
const Block* redirect_loads(Arena& arena, const Block* block, const Buffer* from, const Buffer* to);

}  // namespace tw
