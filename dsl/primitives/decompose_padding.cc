// Takes the padding out of a block that pads: a block that fills with the constant, before a loop,
// and a copy of what is inside.
//   for x in 7 { P[x] = if x >= 1 and x < 6 then A[x - 1] else 0 }     decompose_padding(P, x)
//   ->   for x in 7 { P_pad[x]: P[x] = 0 };  for x in 5 { P[x + 1] = A[x] }
// Applies to a complete block that stores `if condition then data else constant` where the
// condition is a conjunction of bounds on single iters (source: DecomposePadding of TensorIR). The
// copy has a smaller domain: loops of its own that run over just that get shorter, elsewhere a
// predicate takes the rest away. The result is the block that fills; the copy keeps the handle.
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/simplify.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(decompose_padding, BlockId(BlockId block, LoopId loop))

namespace {

struct Padding {
  const Expr* data;
  const Expr* constant;
  List<Interval> inside;  // per iter
};

bool bounds_one_iter(const Expr* conjunct) {
  const Binary* comparison = as<Binary>(conjunct);
  if (!comparison || comparison->op < BinaryOp::Lt || comparison->op > BinaryOp::Ge) return false;
  std::optional<LinearForm> a = linear_form(comparison->a), b = linear_form(comparison->b);
  if (!a || !b || a->terms.size() + b->terms.size() != 1) return false;
  i64 coefficient = a->terms.size() == 1 ? a->terms[0].second : b->terms[0].second;
  return coefficient == 1 || coefficient == -1;
}

Result<Padding> padding_of(const Block* block) {
  const Store* store = single_store(block);
  const Select* select = store ? as<Select>(store->values[0]) : nullptr;
  bool is_constant = select && (select->otherwise->kind == Kind::FloatImm || select->otherwise->kind == Kind::IntImm);
  if (!is_constant) {
    return reject("expected block `{a}` to store `if condition then data else constant`", block->name)
        .about_block(block->id.value);
  }
  VarRanges ranges;
  for (const IterVar& iter : block->iters) ranges.set_extent(iter.var, iter.extent);
  for (const Expr* conjunct : conjuncts_of(select->condition)) {
    if (bounds_one_iter(conjunct)) continue;
    return reject("the condition of block `{a}` is more than bounds on single iters", block->name)
        .about_block(block->id.value);
  }
  if (!assume(select->condition, true, ranges))
    return reject("no point of block `{a}` is inside of the padding", block->name).about_block(block->id.value);
  Padding padding{select->then, select->otherwise, {}};
  bool pads = false;
  for (const IterVar& iter : block->iters) {
    padding.inside.push_back(*ranges.find(iter.var));
    pads |= padding.inside.back() != Interval{0, iter.extent - 1};
  }
  if (!pads) return reject("block `{a}` pads nothing", block->name).about_block(block->id.value);
  return padding;
}

// The copy: iter n runs over inside[n], counted from 0.
const Block* inner_block(State& state, const Block* block, const Padding& padding) {
  Build build = state.build();
  Arena& arena = state.arena();
  Substitution shifted;
  VarRanges domains;
  List<IterVar> iters;
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    const Interval& inside = padding.inside[i];
    const Var* var = state.fresh_var(block->iters[i].var->name);
    iters.push_back({var, inside.max - inside.min + 1, block->iters[i].kind});
    domains.set_extent(var, iters.back().extent);
    shifted.set(block->iters[i].var, build.add(var, inside.min));
  }
  const StoreTarget& target = single_store(block)->targets[0];
  Block* copy = arena.make<Block>(*block);
  copy->iters = arena.copy(iters);
  copy->body =
      simplify(arena, substitute(arena, build.store(target.buffer, target.indices, padding.data), shifted), domains);
  return copy;
}

// The loop that is, alone, iter n, with nothing but the block below it; null if there is none.
const For* own_loop(const Path& path, const Block* block, std::size_t n) {
  const Var* var = as<Var>(block->bindings[n]);
  for (int i = path.index_of(top_of_own_nest(path)); var && i + 1 < path.size(); ++i) {
    const For* loop = static_cast<const For*>(path[i]);
    if (loop->var != var || loop->extent != block->iters[n].extent) continue;
    auto users = std::count_if(block->bindings.begin(), block->bindings.end(),
                               [&](const Expr* binding) { return uses(binding, var); });
    return users == 1 && !(block->predicate && uses(block->predicate, var)) ? loop : nullptr;
  }
  return nullptr;
}

const Stmt* inner_nest(State& state, const Path& path, int at, const Padding& padding) {
  Build build = state.build();
  const Block* block = static_cast<const Block*>(path.back());
  const Block* copy = inner_block(state, block, padding);
  List<const Expr*> bindings(block->bindings.begin(), block->bindings.end());
  List<std::pair<const For*, i64>> shorter;
  const Expr* predicate = block->predicate;
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    i64 extent = copy->iters[i].extent;
    if (extent == block->iters[i].extent) continue;
    const For* loop = own_loop(path, block, i);
    if (loop && path.index_of(loop) >= at) {
      shorter.emplace_back(loop, extent);
      continue;
    }
    bindings[i] = build.add(bindings[i], -padding.inside[i].min);
    predicate = build.both(predicate, build.binary(BinaryOp::Ge, bindings[i], build.integer(0)));
    predicate = build.both(predicate, build.lt(bindings[i], extent));
  }
  const Stmt* nest = build.with_bindings(copy, state.arena().copy(bindings), predicate);
  if (predicate) nest = rebind(state.arena(), nest, {}, ranges_around(path));
  for (int i = path.size() - 1; i-- > at;) {
    For* loop = state.arena().make<For>(*static_cast<const For*>(path[i]));
    for (auto [old, extent] : shorter) {
      if (old == path[i]) loop->extent = extent;
    }
    loop->body = nest;
    nest = loop;
  }
  return nest;
}

}  // namespace

static Result<BlockId> apply(State& state, BlockId id, LoopId loop_id) {
  TW_TRY(Path path, state.path_to(id));
  const Block* block = static_cast<const Block*>(path.back());
  TW_TRY(const For* loop, state.loop(loop_id));
  int at = path.index_of(loop), own = path.index_of(top_of_own_nest(path));
  if (at < 0) {
    return reject("loop `{a}` is not around block `{b}`", loop->var->name, block->name)
        .about_loop(loop_id.value)
        .about_block(id.value);
  }
  if (at < own) {
    return reject("loop `{a}` contains more than block `{b}`", loop->var->name, block->name)
        .about_loop(loop_id.value)
        .about_block(id.value);
  }
  TW_TRY_STATUS(is_complete(state.program().body, block));
  TW_TRY(Padding padding, padding_of(block));

  Build build = state.build();
  MirroredNest mirror = mirror_loops(state, block, path, at);
  Block* fill = state.arena().make<Block>(*mirror.block);
  fill->id = state.fresh_block();
  fill->name = state.fresh_block_name(state.name(block->name, "_pad"));
  const Stmt* filling =
      build.store(single_store(block)->targets[0].buffer, single_store(block)->targets[0].indices, padding.constant);
  fill->body = substitute(state.arena(), filling, mirror.iters);
  fill->annotations = {};
  Program before = state.program();
  state.replace(loop, build.seq({mirror.around(build, fill), inner_nest(state, path, at, padding)}));
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, id, before));
  return fill->id;
}

REGISTER(decompose_padding,
         "Takes the padding out of a block: one that fills with the constant, and a copy of what "
         "is inside.",
         .extents = Meaning::Extents::Lost)
