#include "dsl/schedule/nest.h"

#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/bounds.h"
#include "dsl/analysis/simplify.h"
#include "dsl/analysis/sum.h"

namespace tw {
namespace {

class Rebinder {
 public:
  Rebinder(Arena& arena, const Substitution& map, VarRanges ranges)
      : arena_(arena), map_(map), ranges_(std::move(ranges)) {}

  const Stmt* stmt(const Stmt* s) {
    if (const Block* block = as<Block>(s)) return rebound(block);
    const For* loop = as<For>(s);
    if (loop) ranges_.set_extent(loop->var, loop->extent);
    ChildMap children{this, nullptr,
                      [](void* self, const Stmt* child) { return static_cast<Rebinder*>(self)->stmt(child); }};
    const Stmt* out = with_children(arena_, s, children);
    if (loop) ranges_.shrink(ranges_.size() - 1);
    return out;
  }

 private:
  const Expr* expr(const Expr* e) {
    const Expr* now = substitute(arena_, e, map_);
    return now == e ? e : simplify(arena_, now, ranges_);
  }
  const Block* rebound(const Block* block) {
    const Expr* predicate = block->predicate ? expr(block->predicate) : nullptr;
    if (is_constant(predicate, 1)) predicate = nullptr;
    List<const Expr*> bindings(block->bindings.begin(), block->bindings.end());
    bool changed = predicate != block->predicate;
    for (const Expr*& binding : bindings) {
      const Expr* now = expr(binding);
      changed |= now != binding;
      binding = now;
    }
    return changed ? Build{arena_}.with_bindings(block, arena_.copy(bindings), predicate) : block;
  }

  Arena& arena_;
  const Substitution& map_;
  VarRanges ranges_;
};

void split_conjuncts(const Expr* e, List<const Expr*>& out) {
  const Binary* both = as<Binary>(e);
  if (both && both->op == BinaryOp::And) {
    split_conjuncts(both->a, out);
    split_conjuncts(both->b, out);
  } else if (e) {
    out.push_back(e);
  }
}

}  // namespace

VarRanges ranges_around(const Path& path) {
  VarRanges ranges;
  for (int i = 0; i + 1 < path.size(); ++i) {
    if (const For* loop = as<For>(path[i])) ranges.set_extent(loop->var, loop->extent);
  }
  return ranges;
}

Status is_serial(const For* loop) {
  if (loop->loop_kind == LoopKind::Serial) return ok();
  return reject("expected loop `{a}` to be serial, but it is of kind `{b}`", loop->var->name, name_of(loop->loop_kind))
      .about_loop(loop->id.value);
}

Status is_plain(const For* loop) {
  TW_TRY_STATUS(is_serial(loop));
  if (loop->annotations.empty()) return ok();
  return reject("expected loop `{a}` to be without annotations, but it has `{b}`", loop->var->name,
                loop->annotations[0].key)
      .about_loop(loop->id.value);
}

Status may_contain(const For* outer, const For* inner) {
  bool starts_workers = inner->loop_kind == LoopKind::Parallel || inner->loop_kind == LoopKind::Bind;
  if (outer->loop_kind != LoopKind::Vectorize || !starts_workers) return ok();
  return reject("loop `{b}` runs on several workers and cannot be inside of the vectorized loop `{a}`",
                outer->var->name, inner->var->name)
      .about_loop(outer->id.value)
      .about_loop(inner->id.value);
}

Status may_contain_all_below(const For* outer) {
  Status status = ok();
  for_each<For>(outer->body, [&](const For* inner) {
    if (status) status = may_contain(outer, inner);
  });
  return status;
}

Status may_be_inside(const Path& path) {
  const For* inner = static_cast<const For*>(path.back());
  for (int i = 0; i + 1 < path.size(); ++i) {
    if (const For* outer = as<For>(path[i])) TW_TRY_STATUS(may_contain(outer, inner));
  }
  return ok();
}

const Stmt* with_fresh_loops(State& state, const Stmt* part) {
  Substitution vars;
  for_each<For>(part, [&](const For* loop) { vars.set(loop->var, state.fresh_var(loop->var->name)); });
  if (vars.entries.empty()) return part;
  const Stmt* renamed = substitute(state.arena(), part, vars);
  return rewrite_stmts(state.arena(), renamed, [&](const Stmt* s) -> const Stmt* {
    const For* loop = as<For>(s);
    if (!loop) return s;
    For* copy = state.arena().make<For>(*loop);
    copy->id = state.fresh_loop();
    copy->var = static_cast<const Var*>(vars.find(loop->var));
    return copy;
  });
}

const Stmt* rebind(Arena& arena, const Stmt* body, const Substitution& map, VarRanges ranges) {
  return Rebinder(arena, map, std::move(ranges)).stmt(body);
}

const Stmt* with_limit(Arena& arena, const Stmt* body, const Expr* index, i64 extent, VarRanges ranges) {
  Build build{arena};
  for_each<For>(body, [&](const For* loop) { ranges.set_extent(loop->var, loop->extent); });
  const Expr* condition = build.lt(index, extent);
  return rewrite_stmts(arena, body, [&](const Stmt* s) -> const Stmt* {
    const Block* block = as<Block>(s);
    if (!block || stays_below(sum_of(index), extent, ranges, bounds_of(block->predicate, ranges))) return s;
    return build.with_bindings(block, block->bindings, build.both(block->predicate, condition));
  });
}

List<const Expr*> conjuncts_of(const Expr* predicate) {
  List<const Expr*> out;
  split_conjuncts(predicate, out);
  return out;
}

const Expr* conjunction(Build build, const List<const Expr*>& conjuncts) {
  const Expr* all = nullptr;
  for (const Expr* conjunct : conjuncts) all = build.both(all, conjunct);
  return all;
}

namespace {

bool is_outside(const Expr* e, const VarRanges& around) {
  bool outside = true;
  for_each<Var>(e, [&](const Var* var) { outside &= around.find(var) != nullptr; });
  return outside;
}

// What `sum < limit` says about the variables of `around`, if loop variables further in, which are not negative, are
// left out; null if that is nothing.
const Expr* without_inner_loops(Build build, const Expr* conjunct, const VarRanges& around) {
  List<Bound> bounds = bounds_of(conjunct, around);
  if (bounds.size() != 1 || !understands(conjunct)) return nullptr;
  Sum outer;
  for (const Sum::Term& term : bounds[0].sum.terms) {
    if (is_outside(term.atom, around))
      outer.add_atom(term.atom, term.coefficient);
    else if (!as<Var>(term.atom) || term.coefficient < 0)
      return nullptr;
  }
  const Expr* condition = build.lt(to_expr(build.arena, outer), bounds[0].bound + 1);
  return outer.terms.empty() || decide(condition, around) ? nullptr : condition;
}

// The conjuncts of a block's predicate as far as they speak of the loops around.
List<const Expr*> conditions_outside(Build build, const Block* block, const VarRanges& around) {
  List<const Expr*> out;
  for (const Expr* conjunct : conjuncts_of(block->predicate)) {
    const Expr* outside = is_outside(conjunct, around) ? conjunct : without_inner_loops(build, conjunct, around);
    if (outside) out.push_back(outside);
  }
  return out;
}

}  // namespace

const Expr* common_condition(Build build, const List<const Block*>& blocks, const VarRanges& around) {
  List<const Expr*> common = conditions_outside(build, blocks.front(), around);
  for (const Block* block : blocks) {
    List<const Expr*> here = conditions_outside(build, block, around);
    std::erase_if(common, [&](const Expr* conjunct) {
      return std::none_of(here.begin(), here.end(), [&](const Expr* other) { return same_expr(conjunct, other); });
    });
  }
  return conjunction(build, common);
}

namespace {

// What keeps the bindings in their domains, added to the condition unless it says so already.
const Expr* staying_in_domains(Build build, const Block* block, const List<const Expr*>& bindings,
                               const VarRanges& around, const Expr* condition) {
  List<const Expr*> all = conjuncts_of(condition);
  auto add = [&](const Expr* needed) {
    if (std::none_of(all.begin(), all.end(), [&](const Expr* known) { return same_expr(known, needed); }))
      all.push_back(needed);
  };
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    std::optional<Interval> interval = interval_of(bindings[i], around);
    if (!interval || interval->min < 0) add(build.binary(BinaryOp::Ge, bindings[i], build.integer(0)));
    if (!interval || interval->max >= block->iters[i].extent) add(build.lt(bindings[i], block->iters[i].extent));
  }
  return conjunction(build, all);
}

}  // namespace

const Stmt* nest_over(State& state, const Block* block, const List<Range>& ranges, bool keep_units, VarRanges around,
                      const Expr* condition) {
  Build build = state.build();
  List<const Var*> vars(ranges.size());
  List<const Expr*> bindings;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    bool looped = keep_units || ranges[i].extent != 1;
    if (looped) {
      vars[i] = state.fresh_var(block->iters[i].var->name);
      around.set_extent(vars[i], ranges[i].extent);
    }
    bindings.push_back(simplify(state.arena(), looped ? build.add(ranges[i].min, vars[i]) : ranges[i].min, around));
  }
  const Expr* predicate = staying_in_domains(build, block, bindings, around, condition);
  const Stmt* nest = build.with_bindings(block, state.arena().copy(bindings), predicate);
  for (std::size_t i = ranges.size(); i-- > 0;) {
    if (vars[i]) nest = build.loop(state.fresh_loop(), vars[i], ranges[i].extent, nest);
  }
  return nest;
}

namespace {

// index = c * iter + part, where part depends on loops inside the block alone: the values of the iter for which any
// value of the part hits the range.
std::optional<Range> solve_tile(Build build, const Sum& index, const Var* iter, const Range& range,
                                const VarRanges& inside) {
  i64 c = 0;
  Sum part;
  part.add_constant(index.constant);
  for (const Sum::Term& term : index.terms) {
    if (term.atom == iter)
      c = term.coefficient;
    else
      part.add_atom(term.atom, term.coefficient);
  }
  std::optional<Interval> reach = interval_of(part, inside);
  if (c <= 0 || !reach) return std::nullopt;
  const Expr* first = build.floor_div(build.add(range.min, c - 1 - reach->max), build.integer(c));
  return Range{first, floor_div(range.extent - 1 + reach->max - reach->min, c) + 1};
}

}  // namespace

std::optional<Range> solve(Arena& arena, const Expr* index, const Var* iter, const Range& range) {
  return solve(arena, index, iter, range, {});
}

std::optional<Range> solve(Arena& arena, const Expr* index, const Var* iter, const Range& range,
                           const VarRanges& inside) {
  Build build{arena};
  Sum sum = sum_of(index);
  if (sum.exact && sum.terms.size() > 1) return solve_tile(build, sum, iter, range, inside);
  if (!sum.exact || sum.terms.size() != 1 || sum.terms[0].coefficient != 1) return std::nullopt;
  const Expr* low = build.add(range.min, -sum.constant);
  const Expr* atom = sum.terms[0].atom;
  if (atom == iter) return Range{low, range.extent};
  const Binary* division = as<Binary>(atom);
  std::optional<i64> c =
      division && division->op == BinaryOp::FloorDiv && division->a == iter ? constant_of(division->b) : std::nullopt;
  if (!c || *c <= 0) return std::nullopt;
  return Range{build.mul(low, *c), range.extent * *c};
}

List<Range> iter_ranges(Arena& arena, const Block* block, Array<const Expr*> indices, const Region& region,
                        const VarRanges& inside) {
  List<Range> ranges;
  for (const IterVar& iter : block->iters) {
    Range range{Build{arena}.integer(0), iter.extent};
    for (std::size_t d = 0; d < indices.size(); ++d) {
      if (is_whole_dimension(region.dims[d], region.buffer->shape[d])) continue;
      std::optional<Range> solved = solve(arena, indices[d], iter.var, region.dims[d], inside);
      if (solved && solved->extent < range.extent) range = *solved;
    }
    ranges.push_back(range);
  }
  return ranges;
}

void insert_before(State& state, const Stmt* anchor, const Stmt* added) {
  state.replace(anchor, state.build().seq({added, anchor}));
}
void insert_after(State& state, const Stmt* anchor, const Stmt* added) {
  state.replace(anchor, state.build().seq({anchor, added}));
}

bool feeds(const For* loop, const Block* block, IterKind kind) {
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    if (block->iters[i].kind == kind && uses(block->bindings[i], loop->var)) return true;
  }
  return false;
}

Status check_feeds_only_reduction(const For* loop, const Block* block) {
  if (!feeds(loop, block, IterKind::R)) {
    return reject("loop `{a}` feeds no reduction iter of block `{b}`", loop->var->name, block->name)
        .about_loop(loop->id.value);
  }
  if (feeds(loop, block, IterKind::S)) {
    return reject("loop `{a}` feeds spatial and reduction iters of block `{b}`", loop->var->name, block->name)
        .about_loop(loop->id.value);
  }
  return ok();
}

const Stmt* MirroredNest::around(Build build, const Stmt* body) const {
  for (std::size_t i = fresh.size(); i-- > 0;) body = build.with_body(fresh[i], body);
  return body;
}

MirroredNest mirror_loops(State& state, const Block* block, const Path& path, int from) {
  Build build = state.build();
  MirroredNest out;
  VarRanges ranges = ranges_around(path);
  for (int i = from; i < path.size(); ++i) {
    const For* loop = as<For>(path[i]);
    if (!loop) continue;
    if (!feeds(loop, block, IterKind::S)) {
      out.loops.set(loop->var, build.integer(0));
      continue;
    }
    const Var* var = state.fresh_var(loop->var->name);
    ranges.set_extent(var, loop->extent);
    out.loops.set(loop->var, var);
    out.fresh.push_back(build.loop(state.fresh_loop(), var, loop->extent, nullptr));
    out.mirrored.push_back(loop);
  }
  List<IterVar> iters;
  List<const Expr*> bindings;
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    const IterVar& iter = block->iters[i];
    if (iter.kind == IterKind::R) {
      out.iters.set(iter.var, build.integer(0));
      continue;
    }
    const Var* var = state.fresh_var(iter.var->name);
    out.iters.set(iter.var, var);
    iters.push_back({var, iter.extent, iter.kind});
    bindings.push_back(substitute(state.arena(), block->bindings[i], out.loops));
  }
  const Expr* predicate = block->predicate ? substitute(state.arena(), block->predicate, out.loops) : nullptr;
  if (predicate) predicate = simplify(state.arena(), predicate, ranges);
  if (is_constant(predicate, 1)) predicate = nullptr;
  Block* copy = state.arena().make<Block>(*block);
  copy->iters = state.arena().copy(iters);
  copy->bindings = state.arena().copy(bindings);
  copy->predicate = predicate;
  out.block = copy;
  return out;
}

const Stmt* top_of_own_nest(const Path& path) {
  int top = path.size() - 1;
  while (top > 0 && as<For>(path[top - 1])) --top;
  return path[top];
}

Result<FirstNest> first_nest(const State& state, const Block* block) {
  Reject scheduled =
      reject("expected block `{a}` to be in its first loops: one per iter, over its domain, and nothing else below",
             block->name)
          .about_block(block->id.value);
  if (block->predicate || !has_trivial_bindings(block)) return scheduled;
  TW_TRY(Path path, state.path_to(block->id));
  FirstNest nest{top_of_own_nest(path), {}};
  auto looped = std::count_if(block->bindings.begin(), block->bindings.end(),
                              [](const Expr* binding) { return as<Var>(binding) != nullptr; });
  for (int i = path.index_of(nest.top); i + 1 < path.size(); ++i) {
    const For* loop = static_cast<const For*>(path[i]);
    auto at = std::find(block->bindings.begin(), block->bindings.end(), loop->var);
    auto iter = at - block->bindings.begin();
    if (at == block->bindings.end() || block->iters[static_cast<std::size_t>(iter)].extent != loop->extent)
      return scheduled;
    TW_TRY_STATUS(is_plain(loop));
    nest.loops.push_back(loop);
  }
  if (static_cast<long>(nest.loops.size()) != looped) return scheduled;
  return nest;
}

}  // namespace tw
