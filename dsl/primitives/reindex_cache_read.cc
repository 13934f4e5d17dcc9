// A block reads a copy of a buffer in a layout that is said in terms of the block's iters.
//   for x, r, c { Y[x] += P[x + r, c] }     reindex_cache_read(Y, 0, "shared", (x, r, c) -> (c, r, x))
//   ->   for x, r, c { P_shared[c, r, x] = P[x + r, c] };  for x, r, c { Y[x] += P_shared[c, r, x] }
// The map has all iters of the block as parameters and uses those that occur in the access; it must give each element a
// place of its own and leave no place empty. Otherwise as reindex with "read". The result is the new block. Source:
// ReindexCacheRead of TVM.
#include "dsl/analysis/region.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/reindex.h"

using namespace tw;

PRIMITIVE(reindex_cache_read, BlockId(BlockId block, i64 read_index, Str scope, IndexMap iter_map))

static Result<BlockId> apply(State& state, BlockId id, i64 read_index, Str scope_name, IndexMap iter_map) {
  TW_TRY(const Block* block, state.block(id));
  TW_TRY(Scope scope, scope_named(state, scope_name));
  TW_TRY(const Buffer* buffer, buffer_at(block, buffers_read(block), read_index, "read"));
  TW_TRY(PointAccess access, point_access(block, buffer));
  TW_TRY(Stage stage, stage_by_map(state, block, access, iter_map, scope));
  return read_through(state, id, access, stage);
}

REGISTER(reindex_cache_read, "A block reads a copy of a buffer in a layout that is said in terms of its iters.")
