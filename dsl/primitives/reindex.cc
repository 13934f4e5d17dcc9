// A block accesses a copy of a buffer that is indexed by its iters, in their order, as tensor instructions want it.
//   for x, r, c { Y[x] += P[x + r, c] }     reindex(Y, 0, "read")
//   ->   for x, r, c { P_reindex[x, r, c] = P[x + r, c] };  for x, r, c { Y[x] += P_reindex[x, r, c] }
// Iters that do not occur in the indices are left out. access = "read": the copy is made before the block, outside all
// loops in which nobody writes the buffer. "write": the block fills the copy, and the new block stores it afterwards;
// the block must be a complete or reduction block that writes each element for one point only. Applies if all accesses
// are at the same indices and stay inside of the buffer on the whole domain, and if what the copy reads has been
// written, also at points that the block leaves out. Only the given block changes. The result is the new block. Source:
// ReIndex of TVM.
#include "dsl/schedule/reindex.h"

#include "dsl/analysis/region.h"
#include "dsl/schedule/copy.h"

using namespace tw;

PRIMITIVE(reindex, BlockId(BlockId block, i64 buffer_index, Str access))

static Result<BlockId> apply(State& state, BlockId id, i64 buffer_index, Str access) {
  TW_TRY(const Block* block, state.block(id));
  bool reads = access == "read";
  if (!reads && access != "write")
    return reject("expected access \"read\" or \"write\", found \"{a}\"", state.arena().text(access));
  TW_TRY(const Buffer* buffer, reads ? buffer_at(block, buffers_read(block), buffer_index, "read")
                                     : buffer_at(block, buffers_written(block), buffer_index, "written"));
  TW_TRY(PointAccess at, point_access(block, buffer));
  Stage stage = stage_by_iters(state, at);
  return reads ? read_through(state, id, at, stage) : write_through(state, id, at, stage);
}

REGISTER(reindex, "A block accesses a copy of a buffer that is indexed by its iters.")
