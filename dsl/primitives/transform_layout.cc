// Re-lays out a buffer: index (i, j) becomes map(i, j), in its shape and in all blocks that read or write it.
//   B: f32[6, 10]; for i, j { B[i, j] = A[i, j] }     transform_layout(B, 0, "write", (i, j) -> (j // 4, i, j % 4))
//   ->   B: f32[3, 6, 4]; for b0, b1, b2 { B[b0, b1, b2] = if b0 * 4 + b2 < 10 then A[b1, b0 * 4 + b2] else 0 }
// Applies to local buffers (pack a parameter with cache_read first) and maps that are one to one: that tile and
// permute, which may pad, that fuse and rotate, and any others that leave no place empty, which is tried
// (dsl/analysis/index_map.h). A complete writer that has not been scheduled yet gets loops over the new shape (those of
// extent 1 too, so that how many there are does not depend on the map), which its old loops' handles do not survive,
// and writes `pad` where the map pads. Any other writer keeps its loops, and so do all where the map is only tried,
// because its inverse is not known; then the map must not pad. A map with open numbers is not tried: loops would depend
// on a draw. What storage_align said about the old dimensions is forgotten.
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/index_map.h"
#include "dsl/analysis/simplify.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/nest.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(transform_layout, Unit(BlockId block, i64 buffer_index, Str access, IndexMap map, i64 pad = 0))

static Result<const Buffer*> buffer_named(const State& state, const Block* block, i64 index, Str access) {
  if (access != "read" && access != "write")
    return reject("expected access \"read\" or \"write\", found \"{a}\"", state.arena().text(access));
  TW_TRY(const Buffer* buffer, access == "read" ? buffer_at(block, buffers_read(block), index, "read")
                                                : buffer_at(block, buffers_written(block), index, "written"));
  if (is_param(state.program(), buffer)) {
    return reject(
        "`{a}` is a parameter, whose layout is fixed; make a copy with cache_read or cache_write and transform that",
        buffer->name);
  }
  return buffer;
}

static Status is_value_of(DType type, i64 pad) {
  double lowest = lowest_of(type);
  double highest = type == DType::Bool ? 1 : type == DType::U8 ? 255 : is_int(type) ? -lowest - 1 : -lowest;
  double value = static_cast<double>(pad);
  if (value >= lowest && value <= highest) return ok();
  return reject("padding {0} is no value of type {a}", name_of(type), pad);
}

static Result<TiledMap> understood(State& state, const Buffer* buffer, const IndexMap& map) {
  i64 rank = static_cast<i64>(buffer->shape.size()), found = static_cast<i64>(map.params.size());
  if (rank != found)
    return reject("the map has {0} parameters, but `{a}` has {1} dimensions", buffer->name, found, rank);
  List<const Var*> coordinates;
  for (std::size_t i = 0; i < map.results.size(); ++i) {
    coordinates.push_back(state.fresh_var(state.arena().text("b" + std::to_string(i))));
  }
  Arena& arena = state.arena();
  if (auto tiled = tiled_map(arena, map.params, map.results, buffer->shape, coordinates)) return *tiled;
  VarRanges domain;
  for (std::size_t d = 0; d < buffer->shape.size(); ++d) domain.set_extent(map.params[d], buffer->shape[d]);
  List<const Expr*> results;
  for (const Expr* result : map.results) results.push_back(simplify(arena, result, domain));
  Array<const Expr*> simple = arena.copy(results);
  if (auto tiled = tiled_map(arena, map.params, simple, buffer->shape, coordinates)) return *tiled;
  TiledMap out{{}, results, coordinates, {}, List<bool>(map.params.size(), false)};
  if (auto fused = fused_map(arena, map.params, simple, buffer->shape, coordinates)) {
    out.shape = fused->shape;
    out.inverse = fused->inverse;
    return out;
  }
  if (map.is_open)
    return reject(
        "the map of `{a}` has numbers of a sample: then only maps of p, p // c, p % c, sums of these with strides and "
        "(sums) % n are taken",
        buffer->name);
  TW_TRY(out.shape, tried_shape(arena, buffer->name, map.params, simple, buffer->shape));
  return out;
}

// The nest of a writer that nobody has scheduled: one plain loop per iter and nothing else below, the whole buffer
// written at its iters.
static Result<const Stmt*> untouched_nest(const State& state, const Block* writer, const Buffer* buffer) {
  Reject scheduled = reject(
                         "the map pads `{a}`, but its writer `{b}` is not a complete block in its first loops, which "
                         "could write the padding",
                         buffer->name, writer->name)
                         .about_block(writer->id.value);
  const Store* store = single_store(writer);
  auto nest = first_nest(state, writer);
  if (!store || !is_complete(state.program().body, writer) || !nest) return scheduled;
  std::optional<List<int>> iters = iters_as_indices(writer, store->targets[0].indices);
  if (!iters) return scheduled;
  for (std::size_t d = 0; d < iters->size(); ++d) {
    if (((*iters)[d] < 0 ? 1 : writer->iters[(*iters)[d]].extent) != buffer->shape[d]) return scheduled;
  }
  for (std::size_t i = 0; i < writer->iters.size(); ++i) {
    bool is_index = std::find(iters->begin(), iters->end(), static_cast<int>(i)) != iters->end();
    if (!is_index && writer->iters[i].extent != 1) return scheduled;
  }
  return nest->top;
}

// The writer with one iter per new dimension.
static const Stmt* nest_over_new_shape(State& state, const Block* writer, const TiledMap& map, const Buffer* to,
                                       i64 pad) {
  Build build = state.build();
  Arena& arena = state.arena();
  const Store* store = single_store(writer);
  List<int> old = *iters_as_indices(writer, store->targets[0].indices);
  Substitution values;
  const Expr* inside = nullptr;
  VarRanges domains;
  List<IterVar> iters;
  List<Range> ranges;
  for (std::size_t r = 0; r < map.shape.size(); ++r) {
    iters.push_back({map.coordinates[r], map.shape[r], IterKind::S});
    domains.set_extent(map.coordinates[r], map.shape[r]);
    ranges.push_back({build.integer(0), map.shape[r]});
  }
  for (std::size_t d = 0; d < old.size(); ++d) {
    if (old[d] < 0) continue;
    values.set(writer->iters[old[d]].var, map.inverse[d]);
    if (map.padded[d]) inside = build.both(inside, build.lt(map.inverse[d], writer->iters[old[d]].extent));
  }
  for (const IterVar& iter : writer->iters) {
    if (!values.find(iter.var)) values.set(iter.var, build.integer(0));
  }
  const Expr* value = substitute(arena, store->values[0], values);
  if (inside) value = build.select(inside, value, build.number(static_cast<double>(pad), to->dtype));
  List<const Expr*> at(map.coordinates.begin(), map.coordinates.end());
  Block* block = arena.make<Block>(*writer);
  block->iters = arena.copy(iters);
  block->body = simplify(arena, build.store(to, arena.copy(at), value), domains);
  return nest_over(state, block, ranges, /*keep_units=*/true, {}, nullptr);
}

// Every access of the block to `from` goes to `to`, at the mapped indices.
static const Block* with_mapped_accesses(Arena& arena, const Block* block, const Buffer* from, const Buffer* to,
                                         const TiledMap& map, Array<const Var*> params) {
  Build build{arena};
  VarRanges domains;
  for (const IterVar& iter : block->iters) domains.set_extent(iter.var, iter.extent);
  auto mapped = [&](Array<const Expr*> indices) {
    Substitution at;
    for (std::size_t d = 0; d < indices.size(); ++d) at.set(params[d], indices[d]);
    List<const Expr*> out;
    for (const Expr* result : map.results) out.push_back(simplify(arena, substitute(arena, result, at), domains));
    return arena.copy(out);
  };
  auto change = [&](auto* n) {
    if constexpr (std::is_convertible_v<decltype(n), const Expr*>) {
      const Load* load = as<Load>(n);
      return load && load->buffer == from ? build.load(to, mapped(load->indices)) : static_cast<const Expr*>(n);
    } else {
      const Store* store = as<Store>(n);
      if (!store) return static_cast<const Stmt*>(n);
      List<StoreTarget> targets(store->targets.begin(), store->targets.end());
      for (StoreTarget& target : targets) {
        if (target.buffer == from) target = {to, mapped(target.indices)};
      }
      return build.store(arena.copy(targets), store->values);
    }
  };
  return build.with_body(block, block->init ? rewrite(arena, block->init, change) : nullptr,
                         rewrite(arena, block->body, change));
}

static Result<Unit> apply(State& state, BlockId id, i64 buffer_index, Str access, IndexMap index_map, i64 pad) {
  TW_TRY(const Block* block, state.block(id));
  TW_TRY(const Buffer* buffer, buffer_named(state, block, buffer_index, access));
  TW_TRY_STATUS(is_value_of(buffer->dtype, pad));
  TW_TRY(TiledMap map, understood(state, buffer, index_map));
  List<const Block*> writers = writers_of(state.program().body, buffer);
  const Stmt* old_nest = nullptr;
  if (!writers.empty() && !map.inverse.empty()) {
    auto nest = untouched_nest(state, writers[0], buffer);
    if (nest)
      old_nest = *nest;
    else if (map.pads())
      return nest.rejected();
  }

  Buffer* to = state.arena().make<Buffer>(*buffer);
  to->shape = state.arena().copy(map.shape);
  to->stride_rules = {};
  if (xor_layout(buffer)) to->layout = {};
  const Stmt* nest = old_nest ? nest_over_new_shape(state, writers[0], map, to, pad) : nullptr;
  for (const Block* other : blocks_in(state.program().body)) {
    if (old_nest && other == writers[0]) continue;
    if (!reads_buffer(other, buffer) && !writes_buffer(other, buffer)) continue;
    state.replace(other, with_mapped_accesses(state.arena(), other, buffer, to, map, index_map.params));
  }
  if (nest) state.replace(old_nest, nest);
  state.replace_buffer_everywhere(buffer, to);
  return Unit{};
}

REGISTER(transform_layout, "Re-lays out a buffer, in its shape and in all blocks that read or write it.")
