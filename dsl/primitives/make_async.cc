// The copies of a block into shared memory are asynchronous: work-items ask for them and go on; they wait where the
// copies are read.
//   for k in 8 @stages = 3 { bind threadIdx.x for t in 32 { vectorize for v in 4 { S[t * 4 + v] = A[k, t * 4 + v] } } }
//   make_async(S)   ->   ... bind threadIdx.x for t in 32 @async = 1 { ... }
// Without it a copy ahead goes through registers. Applies directly in a loop that `pipeline` has marked, to a block
// that copies elements as they are, or zeros in their place, from global to shared memory. Of elements of 4 bytes each
// can be copied by itself; smaller ones must lie together on both sides, 4, 8 or 16 bytes of them in a vectorized loop,
// and begin at multiples of as many on the side that is read. On the side that is written, where rows have their place
// when all is lowered, of conditions that may differ between lanes, and for languages without asynchronous copies, the
// printer decides; then the copy is a plain one. It is the last step of what is done to the loops of a copy: loops with
// marks are not taken apart. Source: cp.async of PTX.
#include "dsl/analysis/block_info.h"
#include "dsl/analysis/copied_load.h"
#include "dsl/analysis/simplify.h"
#include "dsl/analysis/sum.h"
#include "dsl/passes/stage_copies.h"
#include "dsl/schedule/nest.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(make_async, Unit(BlockId block))

namespace {

constexpr i64 kLeastBytes = 4;  // of one asynchronous copy

struct Copy {
  const StoreTarget* to;
  const Load* from;
};

// The block as a copy, or why it is none.
Result<Copy> copy_of(const Block* block) {
  const Store* store = single_store(block);
  const Load* load = store ? copied_load(store->values[0]).load : nullptr;
  if (!load || block->init || load->buffer->dtype != store->targets[0].buffer->dtype)
    return reject("block `{a}` does not copy elements as they are", block->name).about_block(block->id.value);
  Scope to = store->targets[0].buffer->scope, from = load->buffer->scope;
  if (to != Scope::Shared || from != Scope::Global) {
    return reject("expected a copy from global to shared memory, found one from {a} to {b}", Str(name_of(from)),
                  Str(name_of(to)))
        .about_block(block->id.value);
  }
  return Copy{&store->targets[0], load};
}

// The nest of the copy must stand directly in the body of the loop: what is deeper is no copy of the pipeline.
Status is_pipelined(const Path& path, const Block* block) {
  const Stmt* top = top_of_own_nest(path);
  for (int i = path.index_of(top); i-- > 0;) {
    const For* loop = as<For>(path[i]);
    if (!loop) continue;
    if (find_annotation(loop->annotations, kStagesMark)) return ok();
    break;
  }
  return reject("block `{a}` is not directly in a pipelined loop: there is nothing to do while it copies", block->name)
      .about_block(block->id.value);
}

// The lane's coefficient in an index, if it is a term of its own; none if it stands inside of another, such as a
// quotient.
std::optional<i64> coefficient_of(const Var* lane, const Expr* index) {
  Sum sum = sum_of(index);
  i64 out = 0;
  for (const Sum::Term& term : sum.terms) {
    if (term.atom == lane) out = term.coefficient;
    if (term.atom != lane && uses(term.atom, lane)) return std::nullopt;
  }
  return sum.exact ? std::optional(out) : std::nullopt;
}

// Do the elements that the lanes touch lie side by side?
bool lie_together(Array<const Expr*> indices, const Var* lane) {
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (coefficient_of(lane, indices[d]) != i64{d + 1 == indices.size()}) return false;
  }
  return true;
}

// Is the first of `lanes` elements that the indices name always at a multiple of as many?
bool is_aligned(Arena& arena, const Buffer* buffer, Array<const Expr*> indices, const Var* lane, i64 lanes,
                const VarRanges& ranges) {
  Substitution first;
  first.set(lane, Build{arena}.integer(0));
  bool rows_are = buffer->shape.size() == 1 || buffer->shape.back() % lanes == 0;
  return rows_are && known_divisor(simplify(arena, substitute(arena, indices.back(), first), ranges)) % lanes == 0;
}

Array<const Expr*> by_loops(Arena& arena, const Block* block, Array<const Expr*> indices, const VarRanges& ranges) {
  Substitution bindings;
  for (std::size_t i = 0; i < block->iters.size(); ++i) bindings.set(block->iters[i].var, block->bindings[i]);
  List<const Expr*> out;
  for (const Expr* index : indices) out.push_back(simplify(arena, substitute(arena, index, bindings), ranges));
  return arena.copy(out);
}

// Elements that are not copied each by itself.
Status copies_words(const State& state, const Path& path, const Block* block, const Copy& copy) {
  const For* inner = as<For>(path[path.size() - 2]);
  bool is_vector = inner && inner->loop_kind == LoopKind::Vectorize;
  i64 lanes = is_vector ? inner->extent : 1, bytes = lanes * bytes_of(copy.from->buffer->dtype);
  if (bytes != kLeastBytes && bytes != 8 && bytes != 16)
    return reject("block `{a}` copies {0} bytes at once, expected 4, 8 or 16", block->name, bytes)
        .about_block(block->id.value);
  if (lanes == 1) return ok();
  VarRanges ranges = ranges_around(path);
  Array<const Expr*> to = by_loops(state.arena(), block, copy.to->indices, ranges);
  Array<const Expr*> from = by_loops(state.arena(), block, copy.from->indices, ranges);
  if (!lie_together(to, inner->var) || !lie_together(from, inner->var)) {
    return reject("what block `{a}` copies along loop `{b}` does not lie together on both sides", block->name,
                  inner->var->name)
        .about_block(block->id.value)
        .about_loop(inner->id.value);
  }
  if (is_aligned(state.arena(), copy.from->buffer, from, inner->var, lanes, ranges)) return ok();
  return reject("cannot prove that what block `{a}` reads of `{b}` begins at multiples of {0} elements", block->name,
                copy.from->buffer->name, lanes)
      .about_block(block->id.value);
}

}  // namespace

static Result<Unit> apply(State& state, BlockId id) {
  TW_TRY(Path path, state.path_to(id));
  const Block* block = static_cast<const Block*>(path.back());
  TW_TRY(Copy copy, copy_of(block));
  TW_TRY_STATUS(is_pipelined(path, block));
  if (bytes_of(copy.from->buffer->dtype) != kLeastBytes) TW_TRY_STATUS(copies_words(state, path, block, copy));
  const For* top = as<For>(top_of_own_nest(path));
  if (!top) return reject("block `{a}` has no loop of its own", block->name).about_block(id.value);
  For* marked = state.arena().make<For>(*top);
  marked->annotations = with_annotation(state.arena(), top->annotations, {Str(kAsyncMark), Literal::of(i64{1})});
  state.replace(top, marked);
  return Unit{};
}

REGISTER(make_async, "The copies of a block into shared memory are asynchronous.")
