// Pads the rows of the buffer that a block writes: the stride of dimension `axis`, in elements, becomes the smallest
// that is `offset` modulo `factor`.
//   B: f32[6, 10]     storage_align(B, 0, 0, 8, 4)     ->   B: f32[6, 10] align(0, 8, 4), whose rows are 12 apart
// Applies to local buffers that are not in registers. A negative axis counts from the last one. Indices stay as they
// are; lowering pads what is left of the buffer when it has found how much of it must be stored. A second rule for an
// axis replaces the first. Source: StorageAlign of TVM.
#include "dsl/schedule/copy.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(storage_align, Unit(BlockId block, i64 write_index, i64 axis, i64 factor, i64 offset = 0))

static Result<Unit> apply(State& state, BlockId id, i64 write_index, i64 axis, i64 factor, i64 offset) {
  TW_TRY(const Block* block, state.block(id));
  TW_TRY(const Buffer* buffer, local_written_by(state, block, write_index));
  i64 rank = static_cast<i64>(buffer->shape.size());
  if (axis < -rank || axis >= rank) {
    return reject("`{a}`, which block `{b}` writes, has {1} dimensions, expected an axis of them, found {0}",
                  buffer->name, block->name, axis, rank)
        .about_block(id.value);
  }
  if (factor < 1 || factor > kMaxStrideFactor)
    return reject("expected a factor from 1 to {1} for the stride of `{a}`, found {0}", buffer->name, factor,
                  kMaxStrideFactor);
  if (offset < 0 || offset >= factor)
    return reject("expected an offset from 0 to {1} for the stride of `{a}`, found {0}", buffer->name, offset,
                  factor - 1);
  if (buffer->scope == Scope::Register) {
    return reject("`{a}`, which block `{b}` writes, is in registers and has no strides", buffer->name, block->name)
        .about_block(id.value);
  }
  axis = axis < 0 ? axis + rank : axis;
  List<StrideRule> rules(buffer->stride_rules.begin(), buffer->stride_rules.end());
  std::erase_if(rules, [&](const StrideRule& rule) { return rule.axis == axis; });
  rules.push_back({axis, factor, offset});
  Buffer* padded = state.arena().make<Buffer>(*buffer);
  padded->stride_rules = state.arena().copy(rules);
  state.replace_buffer_everywhere(buffer, padded);
  return Unit{};
}

REGISTER(storage_align, "Pads the rows of the buffer that a block writes.")
