// Computed indices of a block's reads are looked up in tables, which new blocks fill first.
//   Y[x] += P[(x + r) % 7]     cache_index(Y, "global")
//   ->   for x, r { Y_index[x, r] = (x + r) % 7 };  Y[x] += P[Y_index[x, r]]
// A table is made for each index that is neither an iter nor a constant, is a function of the block's iters alone and
// occurs more than `threshold` times in reads. Indices of writes stay: others must see what is written. From then on
// the reads may be anywhere in their buffers as far as other instructions know: cache_read and compute_at no longer
// apply to them. The results are the new blocks. Source: CacheIndex of TVM.
#include <algorithm>

#include "dsl/analysis/affine.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/nest.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(cache_index, Blocks(BlockId block, Str scope, i64 threshold = 0))

struct ComputedIndex {
  const Expr* expr;
  i64 count;
  List<const IterVar*> iters;
};

// The iters that an index is computed from; nothing if it is also computed from something else, or need not be
// computed.
static std::optional<List<const IterVar*>> iters_of(const Block* block, const Expr* index) {
  if (as<Var>(index) || as<IntImm>(index)) return std::nullopt;
  bool known = true;
  walk(index, [&](const Node* node) {
    auto is_it = [&](const IterVar& iter) { return iter.var == node; };
    known &= node->kind != Kind::Load;
    known &= !as<Var>(node) || std::any_of(block->iters.begin(), block->iters.end(), is_it);
    const Binary* n = as<Binary>(node);
    bool divides = n && (n->op == BinaryOp::FloorDiv || n->op == BinaryOp::FloorMod);
    known &= !divides || constant_of(n->b).value_or(0) > 0;  // computed everywhere, also where a guard kept 0 away
    return known;
  });
  if (!known) return std::nullopt;
  List<const IterVar*> iters;
  for (const IterVar& iter : block->iters) {
    if (uses(index, iter.var)) iters.push_back(&iter);
  }
  return iters.empty() ? std::nullopt : std::optional(iters);
}

static List<ComputedIndex> computed_indices(const Block* block, i64 threshold) {
  List<ComputedIndex> found;
  auto visit = [&](const Load* load) {
    for (const Expr* index : load->indices) {
      auto known = std::find_if(found.begin(), found.end(),
                                [&](const ComputedIndex& other) { return same_expr(other.expr, index); });
      if (known != found.end()) {
        ++known->count;
      } else if (auto iters = iters_of(block, index)) {
        found.push_back({index, 1, *iters});
      }
    }
  };
  if (block->init) for_each<Load>(block->init, visit);
  for_each<Load>(block->body, visit);
  std::erase_if(found, [&](const ComputedIndex& index) { return index.count <= threshold; });
  return found;
}

struct Table {
  const Expr* index;
  const Expr* entry;  // the load from the table, over the block's iters
};

// The nest that fills the table of one index, and the table.
static const Stmt* make_table(State& state, const Block* block, const ComputedIndex& index, Scope scope, Table& table,
                              List<BlockId>& made) {
  Build build = state.build();
  Arena& arena = state.arena();
  Substitution fresh;
  List<i64> shape;
  List<IterVar> iters;
  List<Range> ranges;
  List<const Expr*> outer, inner;
  for (const IterVar* iter : index.iters) {
    const Var* var = state.fresh_var(iter->var->name);
    fresh.set(iter->var, var);
    shape.push_back(iter->extent);
    iters.push_back({var, iter->extent, IterKind::S});
    ranges.push_back({build.integer(0), iter->extent});
    outer.push_back(iter->var);
    inner.push_back(var);
  }
  const Buffer* buffer = state.fresh_buffer(state.name(block->name, "_index"), DType::I64, arena.copy(shape), scope);
  state.add_local(buffer);
  Block* filler = arena.make<Block>(Block{});
  filler->kind = Kind::Block;
  filler->id = state.fresh_block();
  filler->name = state.fresh_block_name(buffer->name);
  filler->iters = arena.copy(iters);
  // What is known of the index (annotate_buffer_access) holds where it is used, not for all entries.
  const Call* claim = as_within(index.expr);
  const Expr *value = claim ? claim->arguments[0] : index.expr, *entry = build.load(buffer, arena.copy(outer));
  filler->body = build.store(buffer, arena.copy(inner), substitute(arena, value, fresh));
  made.push_back(filler->id);
  if (claim)
    entry = build.call(Function::Within, arena.list<const Expr*>({entry, claim->arguments[1], claim->arguments[2]}));
  table = {index.expr, entry};
  return nest_over(state, filler, ranges, false, {}, nullptr);
}

static Result<Blocks> apply(State& state, BlockId id, Str scope_name, i64 threshold) {
  TW_TRY(Path path, state.path_to(id));
  const Block* block = static_cast<const Block*>(path.back());
  TW_TRY(Scope scope, scope_named(state, scope_name));
  if (threshold < 0) return reject("expected a threshold that is not negative, found {0}", threshold);
  List<ComputedIndex> indices = computed_indices(block, threshold);
  if (indices.empty()) {
    return reject("block `{a}` has no computed index that occurs more than {0} times in what it reads", block->name,
                  threshold)
        .about_block(id.value);
  }
  List<Table> tables(indices.size());
  List<BlockId> made;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Stmt* nest = make_table(state, block, indices[i], scope, tables[i], made);
    Path now = *state.path_to(id);  // the first table makes the program a sequence
    insert_before(state, as<Seq>(now[0]) ? now[1] : now[0], nest);
  }
  auto looked_up = [&](const Expr* e) {
    const Load* load = as<Load>(e);
    if (!load) return e;
    List<const Expr*> changed(load->indices.begin(), load->indices.end());
    for (const Expr*& index : changed) {
      for (const Table& table : tables) {
        if (same_expr(index, table.index)) index = table.entry;
      }
    }
    return state.build().load(load->buffer, state.arena().copy(changed));
  };
  const Stmt* init = rewrite_exprs(state.arena(), block->init, looked_up);
  state.replace(block, state.build().with_body(block, init, rewrite_exprs(state.arena(), block->body, looked_up)));
  return Blocks(state.arena().copy(made));
}

REGISTER(cache_index, "Computed indices of a block's reads are looked up in tables, which new blocks fill first.")
