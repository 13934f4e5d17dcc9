// A serial loop makes its copies into shared memory so many iterations, less one, before they are read.
//   for k in 8 { S[..] = A[.., k];  D[..] += S[..] }     pipeline(k, 3)   ->   for k in 8 @stages = 3 { ... }
// Which is, when lowered (dsl/passes/stage_copies.h): three versions of S; the copies of iterations 0 and 1; and in
// iteration k the copies of iteration k + 2, then what reads those of k. Applies to a serial loop whose body begins
// with copies: nests that write shared buffers which nothing outside of the loop touches, and which read nothing that
// the loop computes. With 1 stage nothing is ahead; more stages than iterations are as many as there are iterations.
// Whether a copy is asynchronous is said by make_async. Source: software pipelining of TVM, whose mark
// `software_pipeline_stage` is understood as well.
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/passes/stage_copies.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(pipeline, Unit(LoopId loop, i64 stages))

namespace {

constexpr i64 kMostStages = 32;

bool is_of_loop(const State& state, const For* loop, const Buffer* buffer) {
  if (buffer->scope != Scope::Shared) return false;
  for (const Block* block : state.blocks()) {
    if ((reads_buffer(block, buffer) || writes_buffer(block, buffer)) && !is_inside(loop, block)) return false;
  }
  return true;
}

// Does all that the statement writes stay in shared buffers of the loop?
bool is_copy(const State& state, const For* loop, const Stmt* s) {
  for (const Block* block : blocks_in(s)) {
    List<const Buffer*> written = buffers_written(block);
    if (!std::all_of(written.begin(), written.end(),
                     [&](const Buffer* buffer) { return is_of_loop(state, loop, buffer); }))
      return false;
  }
  return true;
}

Status reads_nothing_computed(const For* loop, const Stmt* copy) {
  for (const Block* block : blocks_in(copy)) {
    for (const Buffer* buffer : buffers_read(block)) {
      for (const Block* writer : blocks_in(loop)) {
        if (!writes_buffer(writer, buffer)) continue;
        return reject("block `{a}` copies what block `{b}` writes in the same loop", block->name, writer->name)
            .about_block(block->id.value)
            .about_block(writer->id.value);
      }
    }
  }
  return ok();
}

}  // namespace

static Result<Unit> apply(State& state, LoopId id, i64 stages) {
  TW_TRY(const For* loop, state.loop(id));
  TW_TRY_STATUS(is_serial(loop));
  if (stages < 1 || stages > kMostStages) return reject("expected 1 to {1} stages, found {0}", stages, kMostStages);
  List<const Stmt*> children = children_of(loop);
  auto rest = std::find_if(children.begin(), children.end(), [&](const Stmt* s) { return !is_copy(state, loop, s); });
  if (rest == children.begin() || rest == children.end()) {
    return reject(
               "the body of loop `{a}` does not begin with copies into shared buffers of its own that others in it "
               "read",
               loop->var->name)
        .about_loop(id.value);
  }
  for (auto copy = children.begin(); copy != rest; ++copy) TW_TRY_STATUS(reads_nothing_computed(loop, *copy));
  for (auto other = rest; other != children.end(); ++other) {
    for (const Block* block : blocks_in(*other)) {
      for (const Buffer* buffer : buffers_written(block)) {
        if (!is_of_loop(state, loop, buffer)) continue;
        return reject("block `{a}` writes shared memory in loop `{b}` behind what is no copy", block->name,
                      loop->var->name)
            .about_block(block->id.value)
            .about_loop(id.value);
      }
    }
  }
  For* marked = state.arena().make<For>(*loop);
  marked->annotations = with_annotation(state.arena(), loop->annotations, {Str(kStagesMark), Literal::of(stages)});
  state.replace(loop, marked);
  return Unit{};
}

REGISTER(pipeline,
         "A serial loop makes its copies into shared memory so many iterations, less one, before they are read.")
