#include "dsl/schedule/blockize.h"

#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/simplify.h"
#include "dsl/analysis/sum.h"
#include "dsl/schedule/move.h"

namespace tw {
namespace {

// A loop that may run inside a block: its iterations stay where they are.
Status may_be_inside_a_block(const For* loop) {
  if (loop->loop_kind != LoopKind::Parallel && loop->loop_kind != LoopKind::Bind) return ok();
  return reject("loop `{a}` is of kind `{b}`, which a block cannot have inside", loop->var->name,
                name_of(loop->loop_kind))
      .about_loop(loop->id.value);
}

// A chain of loops, outermost first, around one block.
struct Chain {
  List<const For*> loops;
  const Block* block = nullptr;
  bool has(const Node* node) const {
    return std::any_of(loops.begin(), loops.end(), [&](const For* loop) { return uses(node, loop->var); });
  }
};

Result<Chain> chain_below(const Stmt* top) {
  Chain chain;
  const Stmt* at = top;
  for (; as<For>(at); at = as<For>(at)->body) {
    chain.loops.push_back(as<For>(at));
    TW_TRY_STATUS(may_be_inside_a_block(chain.loops.back()));
  }
  chain.block = as<Block>(at);
  if (chain.block) return chain;
  return reject("expected one block and nothing else below loop `{a}`", chain.loops.back()->var->name)
      .about_loop(chain.loops.back()->id.value);
}

// An iter as number of the tile * size + place in the tile.
struct Tiling {
  const Expr* number;  // over the loops outside
  const Expr* place;   // over those inside; from 0 to size - 1
  i64 size;
};

Reject not_in_tiles(const Block* block, const IterVar& iter) {
  return reject("iter `{b}` of block `{a}` does not run over whole tiles below the loop", block->name, iter.var->name)
      .about_block(block->id.value);
}

Result<Tiling> tiling_of(Build build, const Chain& chain, std::size_t at, const VarRanges& inside) {
  const IterVar& iter = chain.block->iters[at];
  Sum sum = sum_of(chain.block->bindings[at]), outer, inner;
  outer.add_constant(sum.constant);
  for (const Sum::Term& term : sum.terms) {
    bool is_inner = chain.has(term.atom), is_mixed = false;
    for_each<Var>(term.atom, [&](const Var* var) { is_mixed |= is_inner && !inside.find(var); });
    if (is_mixed) return not_in_tiles(chain.block, iter);
    (is_inner ? inner : outer).add_atom(term.atom, term.coefficient);
  }
  const Expr* place = to_expr(build.arena, inner);
  std::optional<Digit> digit = digit_of(place, inside);
  i64 size = digit ? digit->count : 0;
  if (!sum.exact || size == 0 || iter.extent % size != 0 || outer.constant % size != 0)
    return not_in_tiles(chain.block, iter);
  Sum number;
  number.add_constant(outer.constant / size);
  for (const Sum::Term& term : outer.terms) {
    if (term.coefficient % size != 0) return not_in_tiles(chain.block, iter);
    number.add_atom(term.atom, term.coefficient / size);
  }
  return Tiling{to_expr(build.arena, number), place, size};
}

const Stmt* around(Build build, const List<const For*>& loops, const Stmt* body) {
  for (std::size_t i = loops.size(); i-- > 0;) body = build.with_body(loops[i], body);
  return body;
}

// The init for all places of the tile: in the loops that feed S iters, where the reduction inside
// begins.
const Stmt* init_of(State& state, const Chain& chain, const List<Tiling>& tilings, const Substitution& iters,
                    const VarRanges& ranges) {
  Build build = state.build();
  List<const For*> spatial;
  Substitution first;
  for (const For* loop : chain.loops) {
    bool needed = feeds(loop, chain.block, IterKind::S);
    if (needed)
      spatial.push_back(loop);
    else
      first.set(loop->var, build.integer(0));
  }
  const Expr* begins = nullptr;
  for (std::size_t i = 0; i < tilings.size(); ++i) {
    if (chain.block->iters[i].kind != IterKind::R) continue;
    const Expr* place = substitute(state.arena(), tilings[i].place, first);
    begins = build.both(begins, simplify(state.arena(), build.binary(BinaryOp::Eq, place, build.integer(0)), ranges));
  }
  const Stmt* init = substitute(state.arena(), substitute(state.arena(), chain.block->init, iters), first);
  if (begins && !is_constant(begins, 1)) init = build.if_then(begins, init);
  return with_fresh_loops(state, around(build, spatial, simplify(state.arena(), init, ranges)));
}

}  // namespace

Result<BlockId> blockize_loop(State& state, LoopId id, bool preserve_unit_iters) {
  TW_TRY(Path path, state.path_to(id));
  TW_TRY(Chain chain, chain_below(path.back()));
  const Block* old = chain.block;
  if (old->predicate && chain.has(old->predicate)) {
    return reject("block `{a}` has a tail below the loop: its condition depends on loops there", old->name)
        .about_block(old->id.value);
  }
  Build build = state.build();
  Arena& arena = state.arena();
  VarRanges inside;
  add_ranges(inside, chain.loops);
  List<Tiling> tilings;
  for (std::size_t i = 0; i < old->iters.size(); ++i) {
    TW_TRY(Tiling tiling, tiling_of(build, chain, i, inside));
    tilings.push_back(tiling);
  }

  VarRanges ranges = inside;
  add_ranges(ranges, loops_inside(old));
  Substitution values;
  List<IterVar> iters;
  List<const Expr*> bindings;
  for (std::size_t i = 0; i < tilings.size(); ++i) {
    const IterVar& iter = old->iters[i];
    if (!preserve_unit_iters && iter.kind == IterKind::S && iter.extent == tilings[i].size) {
      values.set(iter.var, tilings[i].place);
      continue;
    }
    const Var* var = state.fresh_var(iter.var->name);
    iters.push_back({var, iter.extent / tilings[i].size, iter.kind});
    ranges.set_extent(var, iters.back().extent);
    bindings.push_back(tilings[i].number);
    values.set(iter.var, build.add(build.mul(var, tilings[i].size), tilings[i].place));
  }
  Block* tile = arena.make<Block>(*old);
  tile->id = state.fresh_block();
  tile->name = state.fresh_block_name(state.name(old->name, "_o"));
  tile->iters = arena.copy(iters);
  tile->bindings = arena.copy(bindings);
  tile->init = old->init ? init_of(state, chain, tilings, values, ranges) : nullptr;
  tile->body = around(build, chain.loops, simplify(arena, substitute(arena, old->body, values), ranges));
  state.replace(path.back(), tile);
  return tile->id;
}

namespace {

// The statement of the sequence below which the block stands, and the sequence itself.
struct Member {
  const Seq* seq = nullptr;
  std::size_t position = 0;
  Path path;
  int depth = 0;  // of the sequence in the path
};

Result<Member> member_at(const State& state, BlockId id) {
  TW_TRY(Path path, state.path_to(id));
  Member member{nullptr, 0, path, 0};
  for (int i = 0; i + 1 < path.size(); ++i) {
    const Seq* seq = as<Seq>(path[i]);
    if (!seq) continue;
    auto at = std::find(seq->stmts.begin(), seq->stmts.end(), path[i + 1]);
    member = {seq, static_cast<std::size_t>(at - seq->stmts.begin()), path, i};
  }
  if (member.seq) return member;
  const Block* block = static_cast<const Block*>(path.back());
  return reject("block `{a}` has no neighbour", block->name).about_block(id.value);
}

Status may_be_a_part(const Chain& chain, const List<const For*>& shared) {
  const Block* block = chain.block;
  if (block->predicate) {
    return reject("block `{a}` has a condition, with which it cannot be a part of another one", block->name)
        .about_block(block->id.value);
  }
  for (const For* loop : shared) {
    if (loop->extent == 1 || !feeds(loop, block, IterKind::R)) continue;
    return reject("block `{a}` is not finished below loop `{b}`, which feeds its reduction", block->name,
                  loop->var->name)
        .about_block(block->id.value)
        .about_loop(loop->id.value);
  }
  return ok();
}

// What the block does, in its own loops, as plain statements.
const Stmt* inlined(State& state, const Chain& chain, const Substitution& shared, VarRanges ranges) {
  Build build = state.build();
  Arena& arena = state.arena();
  const Block* block = chain.block;
  add_ranges(ranges, chain.loops);
  add_ranges(ranges, loops_inside(block));
  Substitution values;
  const Expr* begins = nullptr;
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    const Expr* value = simplify(arena, substitute(arena, block->bindings[i], shared), ranges);
    values.set(block->iters[i].var, value);
    if (block->iters[i].kind == IterKind::R) {
      const Expr* first = build.binary(BinaryOp::Eq, value, build.integer(0));
      begins = build.both(begins, simplify(arena, first, ranges));
    }
  }
  const Stmt* init = block->init ? substitute(arena, block->init, values) : nullptr;
  if (init && begins && !is_constant(begins, 1)) init = build.if_then(begins, init);
  const Stmt* both = build.seq({init, substitute(arena, block->body, values)});
  return around(build, chain.loops, simplify(arena, both, ranges));
}

}  // namespace

Result<BlockId> blockize_blocks(State& state, const List<BlockId>& ids, bool preserve_unit_iters) {
  TW_TRY(Member first, member_at(state, ids[0]));
  List<const For*> shared;
  for (int i = 0; i < first.depth; ++i) {
    if (const For* loop = as<For>(first.path[i])) shared.push_back(loop);
  }
  List<Chain> chains;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    TW_TRY(Member member, member_at(state, ids[i]));
    const Stmt* top = member.seq == first.seq ? member.seq->stmts[member.position] : nullptr;
    if (!top || member.position != first.position + i) {
      return reject("block `{a}` does not directly follow the one before it in the list",
                    static_cast<const Block*>(member.path.back())->name)
          .about_block(ids[i].value);
    }
    TW_TRY(Chain chain, chain_below(top));
    TW_TRY_STATUS(may_be_a_part(chain, shared));
    chains.push_back(chain);
  }

  Build build = state.build();
  Arena& arena = state.arena();
  List<IterVar> iters;
  List<const Expr*> bindings;
  Substitution loops;
  VarRanges ranges;
  for (const For* loop : shared) {
    if (!preserve_unit_iters && loop->extent == 1) {
      loops.set(loop->var, build.integer(0));
      continue;
    }
    const Var* var = state.fresh_var(loop->var->name);
    iters.push_back({var, loop->extent, IterKind::S});
    bindings.push_back(loop->var);
    loops.set(loop->var, var);
    ranges.set_extent(var, loop->extent);
  }
  List<const Stmt*> parts;
  for (const Chain& chain : chains) parts.push_back(inlined(state, chain, loops, ranges));
  Block* all = arena.make<Block>(Block{});
  all->kind = Kind::Block;
  all->id = state.fresh_block();
  all->name = state.fresh_block_name(state.name(chains.back().block->name, "_o"));
  all->iters = arena.copy(iters);
  all->bindings = arena.copy(bindings);
  all->body = build.seq(parts);

  List<const Stmt*> list(first.seq->stmts.begin(), first.seq->stmts.end());
  auto begin = list.begin() + static_cast<std::ptrdiff_t>(first.position);
  list.erase(begin + 1, begin + static_cast<std::ptrdiff_t>(ids.size()));
  *begin = all;
  Program before = state.program();
  state.replace(first.seq, build.seq(list));
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, all->id, before));
  return all->id;
}

}  // namespace tw
