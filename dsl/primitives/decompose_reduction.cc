// Takes the init of a reduction out, into a block of its own that runs before a loop.
//   for i { for k { D[i, k] { init { D[i] = 0 } D[i] += A[i, k] } } }   decompose_reduction(D, k)
//   ->   for i { D_init[i]: D[i] = 0;  for k { D[i, k]: D[i] += A[i, k] } }
// Applies if no loop outside the given one feeds the reduction. The loops from there inwards that feed S iters are
// copied for the init. Tails of S iters stay predicates of both blocks. The result is the new block; the reduction
// keeps its handle.
#include "dsl/analysis/block_info.h"
#include "dsl/analysis/simplify.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(decompose_reduction, BlockId(BlockId block, LoopId loop))

static Status no_reduction_outside(const Block* block, const Path& path, int at) {
  for (int i = 0; i < at; ++i) {
    const For* loop = as<For>(path[i]);
    if (!loop || loop->extent == 1) continue;
    if (feeds(loop, block, IterKind::R)) {
      return reject("loop `{a}` feeds the reduction of block `{b}` and is outside the place for the init",
                    loop->var->name, block->name)
          .about_loop(loop->id.value);
    }
  }
  return ok();
}

static Result<BlockId> apply(State& state, BlockId id, LoopId loop_id) {
  TW_TRY(Path path, state.path_to(id));
  const Block* block = static_cast<const Block*>(path.back());
  TW_TRY(const For* loop, state.loop(loop_id));
  int at = path.index_of(loop);
  if (at < 0) {
    return reject("loop `{a}` is not around block `{b}`", loop->var->name, block->name)
        .about_loop(loop_id.value)
        .about_block(id.value);
  }
  TW_TRY_STATUS(is_reduction(state.program().body, block));
  TW_TRY_STATUS(init_can_be_before(block, loop));
  TW_TRY_STATUS(no_reduction_outside(block, path, at));
  TW_TRY_STATUS(loops_do_not_repeat(state.arena(), path, at, path.size() - 1, true));

  Build build = state.build();
  MirroredNest mirror = mirror_loops(state, block, path, at);
  Block* init = state.arena().make<Block>(*mirror.block);
  init->id = state.fresh_block();
  init->name = state.fresh_block_name(state.name(block->name, "_init"));
  init->init = nullptr;
  init->body = substitute(state.arena(), block->init, mirror.iters);
  init->annotations = {};
  Program before = state.program();
  state.replace(block, build.with_body(block, nullptr, block->body));
  TW_TRY(const For* now, state.loop(loop_id));
  insert_before(state, now, mirror.around(build, init));
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, id, before));
  return init->id;
}

REGISTER(decompose_reduction, "Takes the init of a reduction out, into a block of its own that runs before a loop.")
