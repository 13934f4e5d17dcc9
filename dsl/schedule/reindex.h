// Copies of a buffer that are indexed by the iters of a block, not by those of the buffer: what reindex,
// reindex_cache_read and reindex_cache_write share. Each check states one rule that keeps the program's meaning.
#pragma once
#include "dsl/schedule/primitive.h"

namespace tw {

// How a block accesses a buffer, if it does so at one element per point of its domain.
struct PointAccess {
  const Buffer* buffer;
  Array<const Expr*> indices;  // over the block's iters
  List<const IterVar*> iters;  // those that occur in them, in the block's order
};
Result<PointAccess> point_access(const Block* block, const Buffer* buffer);

// A buffer that stands in for the one accessed, and where in it the block's elements are.
struct Stage {
  const Buffer* copy;
  Array<const Expr*> indices;
};
// Indexed by the iters of the access in their order.
Stage stage_by_iters(State& state, const PointAccess& access);
// Indexed by map(all iters of the block), in which the same iters occur as in the access. Iters of one value that only
// the map names are added to those of the access, so that how many loops a copy has does not depend on extents.
Result<Stage> stage_by_map(State& state, const Block* block, PointAccess& access, const IndexMap& map, Scope scope);

// The block reads (writes) the stage; a new block fills it before (empties it after). The result is the new block.
Result<BlockId> read_through(State& state, BlockId id, const PointAccess& access, const Stage& stage);
Result<BlockId> write_through(State& state, BlockId id, const PointAccess& access, const Stage& stage);

}  // namespace tw
