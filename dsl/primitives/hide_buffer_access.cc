// Takes reads out of what a block is seen to read, so that they are not counted, cached or matched.
//   B[i] = A[I[i]]     hide_buffer_access(B, "read", [0])   ->   @hidden = "I"
// The numbers count what the block is seen to read. Applies to parameters that no block writes:
// nobody has to wait for them, so nothing that depends on order is lost. The block goes on reading
// them. Source: UnsafeHideBufferAccess of TensorIR, which hides any access; a write is always seen
// here.
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/region.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(hide_buffer_access, Unit(BlockId block, Str access, Ints buffer_indices))

static Status may_be_hidden(const State& state, const Block* block, const Buffer* buffer) {
  List<const Block*> writers = writers_of(state.program().body, buffer);
  if (!writers.empty()) {
    return reject("`{a}` is written by block `{b}`, for which a reader must be seen to wait", buffer->name,
                  writers[0]->name)
        .about_block(block->id.value);
  }
  if (is_param(state.program(), buffer)) return ok();
  return reject("`{a}` is no parameter", buffer->name).about_block(block->id.value);
}

static Result<Unit> apply(State& state, BlockId id, Str access, Ints buffer_indices) {
  TW_TRY(const Block* block, state.block(id));
  if (access == "write") return reject("a write cannot be hidden: others depend on it").about_block(id.value);
  if (access != "read") return reject("expected access \"read\", found \"{a}\"", state.arena().text(access));
  List<const Buffer*> seen = buffers_read(block), hidden;
  for (i64 index : buffer_indices) {
    TW_TRY(const Buffer* buffer, buffer_at(block, seen, index, "read"));
    TW_TRY_STATUS(may_be_hidden(state, block, buffer));
    if (std::find(hidden.begin(), hidden.end(), buffer) == hidden.end()) hidden.push_back(buffer);
  }
  if (hidden.empty()) return reject("expected the number of at least one buffer");
  const Annotation* before = find_annotation(block->annotations, kHiddenMark);
  Str names = before ? before->value.text : Str();
  for (const Buffer* buffer : hidden) names = state.with_name(names, " ", buffer->name);
  Arena& arena = state.arena();
  Block* marked = arena.make<Block>(*block);
  Annotation mark{kHiddenMark, Literal::of(names)};
  marked->annotations = with_annotation(arena, block->annotations, mark);
  state.replace(block, marked);
  return Unit{};
}

REGISTER(hide_buffer_access, "Takes reads of parameters out of what a block is seen to read.")
