// A block, or a loop nest that becomes one, is done by a tensor intrinsic of the machine.
//   for io { for ii in 16 { for ki in 4 { C[io * 16 + ii] += i32(A[ki]) * i32(B[io, ii, ki]) } } }
//   tensorize(ii, "dot_u8i8x16_avx512vnni")   ->   for io { C_o[io] @intrinsic = "..": the same
//   loops }
// Applies if what the block does, its init apart, is what the intrinsic's description does
// (dsl/intrinsics/intrinsic.h): serial loops of its extents in any order around a store of the same
// value, operands that lie in memory as described. The loops stay as the meaning; code is made of
// the intrinsic, if they still match when the program is lowered, else the candidate is rejected. A
// loop is made a block first (blockize, which preserve_unit_iters is for). The result is the block. Source: Tensorize
// of TensorIR.
#include "dsl/intrinsics/intrinsic.h"
#include "dsl/schedule/blockize.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(tensorize, BlockId(LoopOrBlock at, Str intrinsic, bool preserve_unit_iters = true))

static Result<Unit> does_the_same(State& state, const Block* block, const Intrinsic& intrinsic) {
  VarRanges iters;
  for (const IterVar& iter : block->iters) iters.set_extent(iter.var, iter.extent);
  auto operands = match_intrinsic(state.arena(), intrinsic, block->body, iters);
  if (!operands) return Reject(operands.rejected()).about_block(block->id.value);
  return Unit{};
}

static Result<BlockId> apply(State& state, LoopOrBlock at, Str name, bool preserve_unit_iters) {
  const Intrinsic* intrinsic = find_intrinsic(name);
  if (!intrinsic) return reject("there is no intrinsic `{a}`", state.arena().text(name));
  Program before = state.program();
  BlockId id = at.block;
  if (at.loop.value) {
    TW_TRY(id, blockize_loop(state, at.loop, preserve_unit_iters));
  }
  TW_TRY(const Block* block, state.block(id));
  Status same = does_the_same(state, block, *intrinsic);
  if (!same) {
    state.set_program(before);
    return same.rejected();
  }
  Arena& arena = state.arena();
  Block* marked = arena.make<Block>(*block);
  Annotation mark{kIntrinsicMark, Literal::of(intrinsic->name)};
  marked->annotations = with_annotation(arena, block->annotations, mark);
  state.replace(block, marked);
  return id;
}

REGISTER(tensorize, "A block, or a loop nest that becomes one, is done by a tensor intrinsic of the machine.")
