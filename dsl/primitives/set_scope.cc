// Puts the buffer that a block writes into another memory.
//   B: f32[8] in global     set_scope(B, 0, "shared")     ->   B: f32[8] in shared
// Applies to local buffers and the scopes global, shared, local and global.vtcm. `register` is left to promote: its
// tiles are filled and emptied by the loops that it makes around them, which other buffers lack. What a scope means is
// for the backend, which rejects those that it does not have. Source: SetScope of TVM.
#include "dsl/schedule/copy.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(set_scope, Unit(BlockId block, i64 write_index, Str scope))

static Result<Unit> apply(State& state, BlockId id, i64 write_index, Str scope_name) {
  TW_TRY(const Block* block, state.block(id));
  TW_TRY(Scope scope, scope_named(state, scope_name));
  TW_TRY(const Buffer* buffer, local_written_by(state, block, write_index));
  if (scope == Scope::Register) {
    return reject("`{a}`, which block `{b}` writes, cannot be put into registers: promote makes register tiles",
                  buffer->name, block->name)
        .about_block(id.value);
  }
  Buffer* moved = state.arena().make<Buffer>(*buffer);
  moved->scope = scope;
  state.replace_buffer_everywhere(buffer, moved);
  return Unit{};
}

REGISTER(set_scope, "Puts the buffer that a block writes into another memory.")
