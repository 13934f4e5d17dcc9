// The order in which the elements of a buffer that a block writes are stored, where it is shared by a group of
// work-items.
//   B: f16[64, 32]     set_layout(B, 0, "xor", 2)     ->   B: f16[64, 32] layout "xor 2"
// "rows": row-major, as all buffers are to begin with. "xor", n: pieces of 16 bytes are exchanged, so that those which
// lie below each other in rows of 128 bytes or less lie in different banks: see XorLayout. With n = 0 that is "rows"
// again. Indices stay as they are, and so does every value. Applies to local buffers of two and more dimensions that
// are neither in registers nor rings. Source: the swizzles of CUTLASS (CuTe), of which "xor" is the family with 16
// bytes.
#include "dsl/schedule/copy.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(set_layout, Unit(BlockId block, i64 write_index, Str layout, i64 bits = 0))

static Result<Unit> apply(State& state, BlockId id, i64 write_index, Str layout, i64 bits) {
  TW_TRY(const Block* block, state.block(id));
  TW_TRY(const Buffer* buffer, local_written_by(state, block, write_index));
  bool is_xor = layout == "xor";
  if (!is_xor && layout != "rows") return reject("`{a}` is no layout; expected rows or xor", layout);
  if (!is_xor && bits != 0) return reject("the layout `{a}` has no bits, found {0}", layout, bits);
  if (bits < 0 || bits > kMostXorBits)
    return reject("expected 0 to {1} bits for the layout `{a}`, found {0}", layout, bits, kMostXorBits);
  if (buffer->scope == Scope::Register) {
    return reject("`{a}`, which block `{b}` writes, is in registers and has no layout", buffer->name, block->name)
        .about_block(id.value);
  }
  if (ring_axis(buffer)) {
    return reject("`{a}`, which block `{b}` writes, is a ring, and has the layout of one", buffer->name, block->name)
        .about_block(id.value);
  }
  if (is_xor && buffer->shape.size() < 2) {
    return reject("`{a}`, which block `{b}` writes, has {0} dimensions, expected rows to exchange pieces of",
                  buffer->name, block->name, static_cast<i64>(buffer->shape.size()))
        .about_block(id.value);
  }
  Buffer* laid_out = state.arena().make<Buffer>(*buffer);
  laid_out->layout = bits > 0 ? state.name(kXorLayout, std::to_string(bits)) : Str{};
  state.replace_buffer_everywhere(buffer, laid_out);
  return Unit{};
}

REGISTER(set_layout, "The order in which the elements of a buffer that a block writes are stored.")
