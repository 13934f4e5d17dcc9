// Puts a mark on a loop or a block: a key with an integer, a text, a number with a fraction, a list or a dictionary. A
// mark that is there already is replaced.
//   for i in 8 { B[i] }   annotate(i, "unroll_limit", 16)   ->   for i in 8 @unroll_limit = 16 { B[i] }
#include "dsl/analysis/region.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(annotate, Unit(LoopOrBlock at, Str key, Literal value))

static Result<Unit> apply(State& state, LoopOrBlock at, Str key, Literal value) {
  if (key.empty()) return reject("expected a key that is not empty");
  if (key == kHiddenMark) return reject("the mark `hidden` is made by hide_buffer_access, which checks what it hides");
  Arena& arena = state.arena();
  Annotation added{arena.text(key), copy_of(arena, value)};
  if (at.loop.value) {
    TW_TRY(const For* loop, state.loop(at.loop));
    For* marked = arena.make<For>(*loop);
    marked->annotations = with_annotation(arena, loop->annotations, added);
    state.replace(loop, marked);
    return Unit{};
  }
  TW_TRY(const Block* block, state.block(at.block));
  Block* marked = arena.make<Block>(*block);
  marked->annotations = with_annotation(arena, block->annotations, added);
  state.replace(block, marked);
  return Unit{};
}

REGISTER(annotate, "Puts a mark on a loop or a block.", .mark = Meaning::Mark::Set, .keeps_loops = true)
