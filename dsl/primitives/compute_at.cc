// Moves a producer below a loop of its consumers, where it computes what one iteration of the loop needs.
//   for i { B[i] };  for j0 in 3 { for j1 in 4 { C[j0 * 4 + j1] reads B[..] } }     compute_at(B, j0)
//   ->   for j0 in 3 { for i in 4 { B[j0 * 4 + i] where j0 * 4 + i < 10 };  for j1 in 4 { C } }
// Applies to a complete or reduction block that writes no parameter, if all its consumers are below the loop and its
// own producers come before. It runs over the box that all consumers below need; elements that the box has too many, at
// tails, are kept out by a predicate. Reduction loops run in full. `position` is the "last" place that it can have in
// the loop, directly before the first consumer, or the "first" one, at the loop's begin: its own producers are all
// before the loop. At a root location nothing happens; inline is compute_inline. Source: ComputeAt of TVM, whose index
// is -1 or -2.
#include "dsl/analysis/block_info.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(compute_at, Unit(BlockId block, Location at, bool keep_units = false, Str position = "last"))

static Status all_consumers_below(const State& state, const Block* block, const For* loop) {
  List<const Block*> readers = consumers(state.program().body, block);
  if (readers.empty())
    return reject("block `{a}` has no consumer to be computed for", block->name).about_block(block->id.value);
  for (const Block* reader : readers) {
    if (!is_inside(loop, reader)) {
      return reject("block `{a}` also reads block `{b}`, but is not below the loop", reader->name, block->name)
          .about_block(reader->id.value)
          .about_loop(loop->id.value);
    }
    for (const Buffer* buffer : buffers_written(block)) TW_TRY_STATUS(reads_known_places(reader, buffer, true));
  }
  return ok();
}

// The range of such an index may hold more than what is read: somewhere in a box (annotate_buffer_access), or a
// quotient or remainder.
static bool may_be_wider(const Expr* index) {
  if (as_within(index)) return true;
  bool divides = false;
  walk(index, [&](const Node* node) {
    const Binary* n = as<Binary>(node);
    divides |= n && (n->op == BinaryOp::FloorDiv || n->op == BinaryOp::FloorMod);
    return true;
  });
  return divides;
}

// All of the range is computed, from inputs that must be there.
static Status has_inputs_for_boxes(const State& state, const Block* block, const Path& to) {
  bool boxed = false;
  for (const Block* reader : consumers(state.program().body, block)) {
    for (const Access& access : accesses_of(reader)) {
      bool meant = access.kind == AccessKind::Read && writes_buffer(block, access.buffer);
      for (const Expr* index : access.indices) boxed |= meant && may_be_wider(index);
    }
  }
  List<const Block*> sources = boxed ? producers(state.program().body, block) : List<const Block*>{};
  for (const Block* producer : sources) {
    TW_TRY(Path other, state.path_to(producer->id));
    for (int i = 0; i < to.size() && i < other.size() && to[i] == other[i]; ++i) {
      const For* shared = as<For>(to[i]);
      if (!shared || shared->extent == 1) continue;
      return reject("block `{a}` would compute a whole box, but block `{b}` computes its inputs piece by piece",
                    block->name, producer->name)
          .about_block(producer->id.value)
          .about_loop(shared->id.value);
    }
  }
  return ok();
}

static Status comes_before(const State& state, const Block* block, const For* loop) {
  List<const Block*> order = blocks_in(state.program().body);
  if (order_of(order, block) < first_order(order, loop)) return ok();
  return reject("expected block `{a}` before loop `{b}`", block->name, loop->var->name)
      .about_block(block->id.value)
      .about_loop(loop->id.value);
}

static List<Range> ranges_needed(State& state, const Block* block, const For* loop, const VarRanges& around) {
  List<Range> ranges;
  for (const Buffer* buffer : buffers_written(block)) {
    std::optional<Region> region = region_of(state.arena(), loop->body, buffer, AccessKind::Read, around);
    if (!region) continue;
    List<Range> here = ranges_to_write(state.arena(), block, buffer, *region);
    if (ranges.empty())
      ranges = here;
    else
      widen(state.arena(), block, ranges, here);
  }
  return ranges;
}

static Result<Unit> apply(State& state, BlockId id, Location at, bool keep_units, Str position) {
  TW_TRY(bool is_first, is_first_position(state, position));
  TW_TRY(Path from, state.path_to(id));
  if (at.place == Location::Place::Root) return Unit{};
  if (at.place == Location::Place::Inline) return inline_into_consumers(state, id);
  const Block* block = static_cast<const Block*>(from.back());
  TW_TRY(Path to, state.path_to(at.loop));
  const For* loop = static_cast<const For*>(to.back());
  TW_TRY_STATUS(is_outside(from, loop, block));
  if (is_output_block(state.program(), block)) {
    return reject("block `{a}` writes a parameter: it has consumers outside the program", block->name)
        .about_block(id.value);
  }
  TW_TRY_STATUS(is_complete_or_reduction(state.program().body, block));
  TW_TRY_STATUS(all_consumers_below(state, block, loop));
  TW_TRY_STATUS(comes_before(state, block, loop));
  TW_TRY_STATUS(reads_what_is_before(state, block));
  TW_TRY_STATUS(keeps_company(state, block, to));
  TW_TRY_STATUS(has_inputs_for_boxes(state, block, to));

  VarRanges around = ranges_around(to);
  around.set_extent(loop->var, loop->extent);
  List<const Block*> readers = consumers(state.program().body, block);
  const Expr* condition = common_condition(state.build(), readers, around);
  List<Range> ranges = ranges_needed(state, block, loop, around);
  TW_TRY_STATUS(computes_no_more(state, block, from, to, ranges));
  const Stmt* nest = nest_over(state, block, ranges, keep_units, around, condition);
  List<const Stmt*> children = children_of(loop);
  Program before = state.program();
  move_before(state, block, children[is_first ? 0 : first_child_with(children, readers)], nest);
  return concurrent_loops_stay_legal(state, id, before);
}

REGISTER(compute_at, "Moves a producer below a loop of its consumers, where it computes what one iteration needs.")
