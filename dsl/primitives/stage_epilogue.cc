// What a block writes in a loop leaves through shared memory: a new block takes it from there, and computes on the way
// what follows.
//   bind blockIdx.x for g { for i { D[g * 8 + i] = R[i] } };  for j { Y[j] = max(D[j], 0) }     stage_epilogue(D, g)
//   ->   bind blockIdx.x for g { for i { D_shared[g * 8 + i] = R[i] };
//                                for i { Y[g * 8 + i] = max(D_shared[g * 8 + i], 0) } }
// So lanes write their sums as they have them, and all work-items of a group take rows of them, with loads of biases
// and residuals as wide as the stores. Applies where `cache_write` and then `reverse_compute_at` do: to a block whose
// writes fill a box in each iteration of the loop, no two iterations the same one. What follows is each consumer in
// turn that `reverse_compute_inline` takes; the first that it does not take ends it. The result is the new block, whose
// loops can be bound and vectorized. Source: the epilogues of CUTLASS.
#include "dsl/analysis/block_info.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/steps.h"

using namespace tw;

PRIMITIVE(stage_epilogue, BlockId(BlockId block, LoopId loop))

static Result<BlockId> apply(State& state, BlockId id, LoopId loop_id) {
  TW_TRY(Path path, state.path_to(id));
  TW_TRY(const For* loop, state.loop(loop_id));
  TW_TRY_STATUS(is_below(path, loop));
  const Block* block = static_cast<const Block*>(path.back());
  List<const Buffer*> written = buffers_written(block);
  if (written.size() != 1) {
    return reject("block `{a}` writes {0} buffers together; expected one", block->name,
                  static_cast<i64>(written.size()))
        .about_block(id.value);
  }
  TW_TRY(BlockId copy, steps::cache_write(state, id, 0, Str(name_of(Scope::Shared))));
  for (bool takes = true; takes;) {
    List<const Block*> next = consumers(state.program().body, state.find_block(copy));
    takes = next.size() == 1 && inline_into_producer(state, next[0]->id);
  }
  TW_TRY_STATUS(steps::reverse_compute_at(state, copy, {Location::Place::Loop, loop_id}, true));
  return copy;
}

REGISTER(stage_epilogue,
         "What a block writes in a loop leaves through shared memory, and what follows is computed on the way out.")
