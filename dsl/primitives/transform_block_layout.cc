// Re-shapes the iteration domain of a block: its iters become the results of an index map, with a
// new loop for each.
//   for i in 4 { for j in 6 { B[i, j] } }     transform_block_layout(B, (i, j) -> (j, i // 2, i %
//   2))
//   ->   for j in 6 { for i in 2 { for i_1 in 2 { B[i * 2 + i_1, j] } } }
// Applies to a block in its first loops and to maps that are one to one and of which the inverse is
// known, because the body needs the old iters: they tile, permute, fuse and rotate
// (dsl/analysis/index_map.h), and no result mixes spatial and reduction iters (source:
// TransformBlockLayout of TensorIR). Buffers keep their layout. Loops of extent 1 are made too, so
// that how many there are does not depend on the map's numbers. The old loops' handles end.
#include <algorithm>

#include "dsl/analysis/index_map.h"
#include "dsl/analysis/simplify.h"
#include "dsl/schedule/nest.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(transform_block_layout, Unit(BlockId block, IndexMap iter_map))

// The kind and the name of the iter that a result of the map becomes.
static Result<IterVar> new_iter(State& state, const Block* block, const IndexMap& map, std::size_t r, i64 extent) {
  Str name = {};
  const IterVar* first = nullptr;
  for (std::size_t p = 0; p < map.params.size(); ++p) {
    if (!uses(map.results[r], map.params[p])) continue;
    const IterVar& iter = block->iters[p];
    if (first && first->kind != iter.kind) {
      return reject("result {0} of the map mixes spatial and reduction iters of block `{a}`", block->name,
                    static_cast<i64>(r))
          .about_block(block->id.value);
    }
    if (!first) first = &iter;
    name = state.with_name(name, "_", iter.var->name);
  }
  return IterVar{state.fresh_var(first ? name : Str("u")), extent, first ? first->kind : IterKind::S};
}

static Result<Unit> apply(State& state, BlockId id, IndexMap map) {
  TW_TRY(const Block* block, state.block(id));
  i64 count = static_cast<i64>(block->iters.size()), found = static_cast<i64>(map.params.size());
  if (found != count) {
    return reject("the map has {0} parameters, but block `{a}` has {1} iters", block->name, found, count)
        .about_block(id.value);
  }
  TW_TRY(FirstNest nest, first_nest(state, block));
  List<i64> extents;
  VarRanges domain;
  for (std::size_t p = 0; p < block->iters.size(); ++p) {
    extents.push_back(block->iters[p].extent);
    domain.set_extent(map.params[p], extents[p]);
  }
  List<const Var*> coordinates;
  for (std::size_t r = 0; r < map.results.size(); ++r) coordinates.push_back(state.fresh_var("v"));
  List<const Expr*> results;
  for (const Expr* result : map.results) results.push_back(simplify(state.arena(), result, domain));
  std::optional<FusedMap> fused = fused_map(state.arena(), map.params, results, extents, coordinates);
  if (!fused) {
    return reject(
               "the map of block `{a}` is not one to one over its domain, or its inverse is not known: "
               "expected results of p, p // c, p % c, sums of these with strides and (sums) % n, together "
               "all of every parameter and no more",
               block->name)
        .about_block(id.value);
  }
  Substitution vars, values;
  VarRanges domains;
  List<IterVar> iters;
  List<Range> ranges;
  for (std::size_t r = 0; r < map.results.size(); ++r) {
    TW_TRY(IterVar iter, new_iter(state, block, map, r, fused->shape[r]));
    vars.set(coordinates[r], iter.var);
    domains.set_extent(iter.var, iter.extent);
    iters.push_back(iter);
    ranges.push_back({state.build().integer(0), iter.extent});
  }
  for (std::size_t p = 0; p < extents.size(); ++p)
    values.set(block->iters[p].var, substitute(state.arena(), fused->inverse[p], vars));

  bool has_reduction =
      std::any_of(iters.begin(), iters.end(), [](const IterVar& iter) { return iter.kind == IterKind::R; });
  if (block->init && !has_reduction)
    return reject("the map leaves block `{a}` without a reduction iter, where its init would run", block->name)
        .about_block(id.value);
  Block* changed = state.arena().make<Block>(*block);
  changed->iters = state.arena().copy(iters);
  auto mapped = [&](const Stmt* s) { return simplify(state.arena(), substitute(state.arena(), s, values), domains); };
  changed->init = block->init ? mapped(block->init) : nullptr;
  changed->body = mapped(block->body);
  state.replace(nest.top, nest_over(state, changed, ranges, /*keep_units=*/true, {}, nullptr));
  return Unit{};
}

REGISTER(transform_block_layout, "Re-shapes the iteration domain of a block by an index map, with new loops.")
