// A block writes to a new buffer in a layout that is said in terms of the block's iters; a new block copies it to the
// original afterwards.
//   for i, j, k { C[i, j] += .. }     reindex_cache_write(C, 0, "shared", (i, j, k) -> (j, i))
//   ->   for i, j, k { C_shared[j, i] += .. };  for i, j { C[i, j] = C_shared[j, i] }
// The map has all iters of the block as parameters and uses those that occur in the access; it must give each element a
// place of its own and leave no place empty. Otherwise as reindex with "write". The result is the new block. Source:
// ReindexCacheWrite of TVM.
#include "dsl/analysis/region.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/reindex.h"

using namespace tw;

PRIMITIVE(reindex_cache_write, BlockId(BlockId block, i64 write_index, Str scope, IndexMap iter_map))

static Result<BlockId> apply(State& state, BlockId id, i64 write_index, Str scope_name, IndexMap iter_map) {
  TW_TRY(const Block* block, state.block(id));
  TW_TRY(Scope scope, scope_named(state, scope_name));
  TW_TRY(const Buffer* buffer, buffer_at(block, buffers_written(block), write_index, "written"));
  TW_TRY(PointAccess access, point_access(block, buffer));
  TW_TRY(Stage stage, stage_by_map(state, block, access, iter_map, scope));
  return write_through(state, id, access, stage);
}

REGISTER(reindex_cache_write, "A block writes to a new buffer in a layout that is said in terms of its iters.")
