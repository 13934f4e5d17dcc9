// Takes a mark off a loop or a block.
//   for i in 8 @unroll_limit = 16 { B[i] }   unannotate(i, "unroll_limit")   ->   for i in 8 { B[i] }
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(unannotate, Unit(LoopOrBlock at, Str key))

static Status has_mark(const State& state, Array<Annotation> annotations, Str key, Str name) {
  if (find_annotation(annotations, key)) return ok();
  return reject("`{a}` has no mark `{b}`", name, state.arena().text(key));
}

static Result<Unit> apply(State& state, LoopOrBlock at, Str key) {
  Arena& arena = state.arena();
  if (at.loop.value) {
    TW_TRY(const For* loop, state.loop(at.loop));
    TW_TRY_STATUS(has_mark(state, loop->annotations, key, loop->var->name));
    For* bare = arena.make<For>(*loop);
    bare->annotations = without_annotation(arena, loop->annotations, key);
    state.replace(loop, bare);
    return Unit{};
  }
  TW_TRY(const Block* block, state.block(at.block));
  TW_TRY_STATUS(has_mark(state, block->annotations, key, block->name));
  Block* bare = arena.make<Block>(*block);
  bare->annotations = without_annotation(arena, block->annotations, key);
  state.replace(block, bare);
  return Unit{};
}

REGISTER(unannotate, "Takes a mark off a loop or a block.", .mark = Meaning::Mark::Removed, .keeps_loops = true)
