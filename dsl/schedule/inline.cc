// The inlining steps of move.h. A block is one store; inlining substitutes its value where its buffer is loaded.
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/index_map.h"
#include "dsl/analysis/reducer.h"
#include "dsl/analysis/simplify.h"
#include "dsl/schedule/move.h"

namespace tw {
namespace {

// The block is one store to an intermediate buffer whose indices are iters of their own.
Status is_one_definition(const State& state, const Block* block) {
  const Store* store = single_store(block);
  if (!store)
    return reject("expected the body of block `{a}` to be one store to one buffer", block->name)
        .about_block(block->id.value);
  if (!iters_as_indices(block, store->targets[0].indices)) {
    return reject("expected block `{a}` to write `{b}` at indices that are its iters, each once", block->name,
                  store->targets[0].buffer->name)
        .about_block(block->id.value);
  }
  if (is_output_block(state.program(), block)) {
    return reject("block `{a}` writes the parameter `{b}`, which must stay", block->name,
                  store->targets[0].buffer->name)
        .about_block(block->id.value);
  }
  return ok();
}

VarRanges iter_domains(const Block* block) {
  VarRanges ranges;
  for (const IterVar& iter : block->iters) ranges.set_extent(iter.var, iter.extent);
  return ranges;
}

const Block* with_statements(Arena& arena, const Block* block, const Stmt* init, const Stmt* body) {
  VarRanges domains = iter_domains(block);
  return Build{arena}.with_body(block, init ? simplify(arena, init, domains) : nullptr, simplify(arena, body, domains));
}

// Every load of the producer's buffer becomes the producer's value at these indices.
const Block* absorb(Arena& arena, const Block* consumer, const Block* producer) {
  const Store* store = single_store(producer);
  List<int> iters = *iters_as_indices(producer, store->targets[0].indices);
  auto change = [&](const Expr* e) {
    const Load* load = as<Load>(e);
    if (!load || load->buffer != store->targets[0].buffer) return e;
    Substitution values;
    for (const IterVar& iter : producer->iters) {
      if (iter.extent == 1) values.set(iter.var, Build{arena}.integer(0));
    }
    Substitution at;
    for (std::size_t d = 0; d < iters.size(); ++d) {
      if (iters[d] >= 0) at.set(producer->iters[iters[d]].var, load->indices[d]);
    }
    return substitute(arena, substitute(arena, store->values[0], at), values);
  };
  const Stmt* init = consumer->init ? rewrite_exprs(arena, consumer->init, change) : nullptr;
  return with_statements(arena, consumer, init, rewrite_exprs(arena, consumer->body, change));
}

// Each iter that is no index must have one value, or the definition is not one value per element.
Status iters_are_indices(const Block* block, Array<const Expr*> indices) {
  List<int> used = *iters_as_indices(block, indices);
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    bool is_index = std::find(used.begin(), used.end(), static_cast<int>(i)) != used.end();
    if (!is_index && block->iters[i].extent != 1) {
      return reject("iter `{b}` of block `{a}` has extent {0} and is not among the indices", block->name,
                    block->iters[i].var->name, block->iters[i].extent)
          .about_block(block->id.value);
    }
  }
  return ok();
}

// The one block that `consumer` could become a part of: the only writer of a local buffer that nobody else reads.
Result<const Block*> only_producer(const State& state, const Block* consumer) {
  const Stmt* root = state.program().body;
  const Block* found = nullptr;
  for (const Block* producer : producers(root, consumer)) {
    bool elementwise = is_complete(root, producer) && single_store(producer);
    bool alone = !is_output_block(state.program(), producer) && consumers(root, producer).size() == 1;
    if (!elementwise || !alone) continue;
    if (found) {
      return reject("block `{a}` has several producers that it could become a part of", consumer->name)
          .about_block(consumer->id.value);
    }
    found = producer;
  }
  if (found) return found;
  return reject(
             "block `{a}` has no complete producer that writes a local buffer with one store and has no other consumer",
             consumer->name)
      .about_block(consumer->id.value);
}

// The consumer reads the buffer only at its iters; so each element is consumed once, if it is.
Result<List<int>> consumed_once(const Block* consumer, const Buffer* buffer) {
  std::optional<List<int>> iters;
  for (const Access& access : accesses_of(consumer)) {
    if (access.kind != AccessKind::Read || access.buffer != buffer) continue;
    std::optional<List<int>> here = iters_as_indices(consumer, access.indices);
    if (!here || (iters && *here != *iters)) {
      return reject("expected block `{a}` to read `{b}` only at its iters, each once", consumer->name, buffer->name)
          .about_block(consumer->id.value);
    }
    iters = here;
  }
  for (std::size_t i = 0; i < consumer->iters.size(); ++i) {
    bool is_index = std::find(iters->begin(), iters->end(), static_cast<int>(i)) != iters->end();
    if (!is_index && consumer->iters[i].extent != 1) {
      return reject("iter `{b}` of block `{a}` is not an index of what it reads from its producer", consumer->name,
                    consumer->iters[i].var->name)
          .about_block(consumer->id.value);
    }
  }
  return *iters;
}

i64 extent_read(const Block* consumer, const List<int>& iters, std::size_t d) {
  return iters[d] < 0 ? 1 : consumer->iters[iters[d]].extent;
}

// Why a consumer that does not run for each element along dimension d, once, cannot go where they are produced.
Reject does_not_read_all(const Block* consumer, const Buffer* buffer, const List<int>& iters, std::size_t d) {
  i64 extent = extent_read(consumer, iters, d), elements = buffer->shape[d], dimension = static_cast<i64>(d);
  if (extent > elements) {
    return reject("block `{a}` runs {0} times along dimension {2} of `{b}`, which has {1} elements there",
                  consumer->name, buffer->name, extent, elements, dimension)
        .about_block(consumer->id.value);
  }
  return reject("block `{a}` reads {0} of the {1} elements of `{b}` along dimension {2}", consumer->name, buffer->name,
                extent, elements, dimension)
      .about_block(consumer->id.value);
}

Status consumes_all(const Block* consumer, const Buffer* buffer, const List<int>& iters) {
  for (std::size_t d = 0; d < iters.size(); ++d) {
    if (extent_read(consumer, iters, d) != buffer->shape[d]) return does_not_read_all(consumer, buffer, iters, d);
  }
  return ok();
}

// The producer of the elements that are read only: along a dimension of which the consumer reads the beginning, an iter
// of the producer ends where that does, as a tail does.
Result<const Block*> producer_of_read(State& state, const Block* consumer, const Block* producer,
                                      const List<int>& read_at) {
  const StoreTarget& target = single_store(producer)->targets[0];
  Build build = state.build();
  Block* out = state.arena().make<Block>(*producer);
  List<IterVar> iters(producer->iters.begin(), producer->iters.end());
  for (std::size_t d = 0; d < read_at.size(); ++d) {
    i64 extent = extent_read(consumer, read_at, d);
    if (extent == target.buffer->shape[d]) continue;
    auto iter =
        std::find_if(iters.begin(), iters.end(), [&](const IterVar& it) { return it.var == target.indices[d]; });
    if (iter == iters.end() || extent > target.buffer->shape[d])
      return does_not_read_all(consumer, target.buffer, read_at, d);
    iter->extent = extent;
    out->predicate = build.both(out->predicate,
                                build.lt(producer->bindings[static_cast<std::size_t>(iter - iters.begin())], extent));
  }
  out->iters = state.arena().copy(iters);
  return out;
}

// The producer computes every element of its buffer exactly at its iters.
Status produces_all(const Block* producer, const Buffer* buffer, const List<int>& iters) {
  for (std::size_t d = 0; d < iters.size(); ++d) {
    i64 extent = iters[d] < 0 ? 1 : producer->iters[iters[d]].extent;
    if (extent != buffer->shape[d]) {
      return reject("block `{a}` writes {0} of the {1} elements of `{b}` along dimension {2}", producer->name,
                    buffer->name, extent, buffer->shape[d], static_cast<i64>(d))
          .about_block(producer->id.value);
    }
  }
  return ok();
}

// Does the producer write each element of the buffer once, wherever: its iters one by one, or their digits put
// together?
bool writes_each_once(const State& state, const Block* producer) {
  const Store* store = single_store(producer);
  if (!store || is_output_block(state.program(), producer)) return false;
  Build build = state.build();
  List<const Var*> iters, coordinates;  // the latter are for the inverse, which nobody asks for
  List<i64> extents;
  for (const IterVar& iter : producer->iters) iters.push_back(iter.var), extents.push_back(iter.extent);
  const StoreTarget& target = store->targets[0];
  for (std::size_t d = 0; d < target.indices.size(); ++d) coordinates.push_back(build.var(0, "at"));
  std::optional<FusedMap> map =
      fused_map(state.arena(), state.arena().copy(iters), target.indices, state.arena().copy(extents), coordinates);
  return map &&
         std::equal(map->shape.begin(), map->shape.end(), target.buffer->shape.begin(), target.buffer->shape.end());
}

Status defines_each_once(const State& state, const Block* producer) {
  if (writes_each_once(state, producer)) return ok();
  TW_TRY_STATUS(is_one_definition(state, producer));
  const StoreTarget& target = single_store(producer)->targets[0];
  TW_TRY_STATUS(iters_are_indices(producer, target.indices));
  return produces_all(producer, target.buffer, *iters_as_indices(producer, target.indices));
}

// What else the consumer reads is there already where the producer stands.
Status inputs_are_ready(const State& state, const Block* consumer, const Block* producer) {
  List<const Block*> order = blocks_in(state.program().body);
  for (const Block* other : producers(state.program().body, consumer)) {
    if (other != producer && order_of(order, other) > order_of(order, producer)) {
      return reject("block `{a}` also reads what block `{b}` writes after its producer", consumer->name, other->name)
          .about_block(consumer->id.value)
          .about_block(other->id.value);
    }
  }
  return ok();
}

}  // namespace

Status inline_into_consumers(State& state, BlockId id) {
  TW_TRY(const Block* block, state.block(id));
  const Stmt* root = state.program().body;
  TW_TRY_STATUS(is_complete(root, block));
  TW_TRY_STATUS(is_one_definition(state, block));
  const StoreTarget& target = single_store(block)->targets[0];
  TW_TRY_STATUS(iters_are_indices(block, target.indices));
  TW_TRY_STATUS(reads_what_is_before(state, block));
  List<const Block*> readers = consumers(root, block);
  if (readers.empty())
    return reject("block `{a}` has no consumer to become a part of", block->name).about_block(id.value);
  List<const Block*> order = blocks_in(root);
  for (const Block* reader : readers) {
    if (order_of(order, reader) < order_of(order, block)) {
      return reject("block `{a}` is read by block `{b}` before it runs", block->name, reader->name)
          .about_block(reader->id.value);
    }
    TW_TRY(Path path, state.path_to(reader->id));
    TW_TRY_STATUS(keeps_company(state, block, path));
  }
  for (const Block* reader : readers) state.replace(reader, absorb(state.arena(), reader, block));
  state.replace(block, nullptr);
  state.remove_local(target.buffer);
  return ok();
}

Status inline_into_producer(State& state, BlockId id) {
  TW_TRY(const Block* block, state.block(id));
  const Stmt* root = state.program().body;
  TW_TRY_STATUS(is_complete(root, block));
  const Store* store = single_store(block);
  if (!store)
    return reject("expected the body of block `{a}` to be one store to one buffer", block->name).about_block(id.value);
  TW_TRY(const Block* producer, only_producer(state, block));
  const Store* define = single_store(producer);
  const Buffer* between = define->targets[0].buffer;
  TW_TRY_STATUS(defines_each_once(state, producer));
  TW_TRY(List<int> read_at, consumed_once(block, between));
  TW_TRY(const Block* part, producer_of_read(state, block, producer, read_at));
  TW_TRY_STATUS(inputs_are_ready(state, block, producer));
  TW_TRY(Path to, state.path_to(producer->id));
  TW_TRY_STATUS(keeps_company(state, block, to));
  TW_TRY_STATUS(loops_do_not_repeat(state.arena(), to, 0, to.size() - 1, false));

  Arena& arena = state.arena();
  Substitution iters;  // the consumer's iters in terms of the producer's
  for (std::size_t d = 0; d < read_at.size(); ++d) {
    if (read_at[d] >= 0) iters.set(block->iters[read_at[d]].var, define->targets[0].indices[d]);
  }
  for (const IterVar& iter : block->iters) {
    if (!iters.find(iter.var)) iters.set(iter.var, state.build().integer(0));
  }
  auto change = [&](const Expr* e) {
    const Load* load = as<Load>(e);
    return load && load->buffer == between ? define->values[0] : e;
  };
  // Iters before loads: the producer's value must not meet the substitution.
  const Stmt* body = rewrite_exprs(arena, substitute(arena, static_cast<const Stmt*>(store), iters), change);
  state.replace(block, nullptr);
  state.replace(producer, with_statements(arena, part, nullptr, body));
  state.remove_local(between);
  return ok();
}

namespace {

// f of `C op f` or `f op C`, where C is a load of the buffer and f does without it.
const Expr* other_operand(const Expr* value, BinaryOp op, const Buffer* buffer) {
  auto loads = [&](const Expr* e) {
    bool found = false;
    for_each<Load>(e, [&](const Load* load) { found |= load->buffer == buffer; });
    return found;
  };
  auto is_it = [&](const Expr* e) { return as<Load>(e) && as<Load>(e)->buffer == buffer; };
  const Binary* both = as<Binary>(value);
  if (!both || both->op != op) return nullptr;
  if (is_it(both->a) && !loads(both->b)) return both->b;
  return is_it(both->b) && !loads(both->a) ? both->a : nullptr;
}

// The operation of a reduction with one target; Sub, which is none, if it is not known.
BinaryOp operation_of(const Block* reduction) {
  std::optional<Reducer> reducer = single_store(reduction) ? reducer_of(reduction) : std::nullopt;
  const Binary* update = reducer ? as<Binary>(reducer->values[0]) : nullptr;
  return update ? update->op : BinaryOp::Sub;
}

// What f reads does not come from the reduction's own output, and the epilogue reads nothing but C and f's inputs.
Status is_epilogue_of(const State& state, const Block* epilogue, const Block* reduction) {
  const Stmt* root = state.program().body;
  TW_TRY_STATUS(is_complete(root, epilogue));
  TW_TRY_STATUS(is_reduction(root, reduction));
  List<const Block*> readers = consumers(root, reduction);
  if (readers.size() == 1 && readers[0] == epilogue && !is_output_block(state.program(), reduction)) return ok();
  return reject("expected block `{b}` to write a local buffer that only block `{a}` reads", epilogue->name,
                reduction->name)
      .about_block(epilogue->id.value)
      .about_block(reduction->id.value);
}

}  // namespace

Status fuse_into_reduction(State& state, BlockId reduction_id, BlockId epilogue_id) {
  TW_TRY(const Block* reduction, state.block(reduction_id));
  TW_TRY(const Block* epilogue, state.block(epilogue_id));
  TW_TRY_STATUS(is_epilogue_of(state, epilogue, reduction));
  BinaryOp op = operation_of(reduction);
  const Store *last = single_store(epilogue), *update = single_store(reduction);
  const Buffer* between = update ? update->targets[0].buffer : nullptr;
  const Expr* added = last && between ? other_operand(last->values[0], op, between) : nullptr;
  if (!added) {
    return reject(
               "expected block `{a}` to combine the result of block `{b}` by the reduction's own operation; what needs "
               "the finished value cannot be its start",
               epilogue->name, reduction->name)
        .about_block(epilogue_id.value);
  }
  TW_TRY_STATUS(is_one_definition(state, reduction));
  TW_TRY(List<int> read_at, consumed_once(epilogue, between));
  TW_TRY_STATUS(consumes_all(epilogue, between, read_at));
  TW_TRY_STATUS(produces_all(reduction, between, *iters_as_indices(reduction, update->targets[0].indices)));
  TW_TRY_STATUS(inputs_are_ready(state, epilogue, reduction));
  TW_TRY(Path to, state.path_to(reduction_id));
  TW_TRY_STATUS(keeps_company(state, epilogue, to));
  TW_TRY_STATUS(loops_do_not_repeat(state.arena(), to, 0, to.size() - 1, true));

  Build build = state.build();
  Arena& arena = state.arena();
  Substitution iters;  // the epilogue's iters in terms of the reduction's
  for (const IterVar& iter : epilogue->iters) iters.set(iter.var, build.integer(0));
  for (std::size_t d = 0; d < read_at.size(); ++d) {
    if (read_at[d] >= 0) iters.entries[static_cast<std::size_t>(read_at[d])].second = update->targets[0].indices[d];
  }
  List<const Expr*> at;
  for (const Expr* index : last->targets[0].indices) at.push_back(substitute(arena, index, iters));
  Array<const Expr*> indices = arena.copy(at);
  const Buffer* out = last->targets[0].buffer;
  auto change = [&](const Expr* e) {
    const Load* load = as<Load>(e);
    return load && load->buffer == between ? build.load(out, indices) : e;
  };
  const Expr* start = substitute(arena, added, iters);
  const Expr* identity = as<Store>(reduction->init)->values[0];
  bool is_neutral = op == BinaryOp::Add || op == BinaryOp::Mul;
  const Stmt* init = build.store(out, indices, is_neutral ? start : build.binary(op, identity, start));
  const Stmt* body = build.store(out, indices, rewrite_exprs(arena, update->values[0], change));
  Program before = state.program();
  state.replace(epilogue, nullptr);
  state.replace(reduction, with_statements(arena, reduction, init, body));
  state.remove_local(between);
  return concurrent_loops_stay_legal(state, reduction_id, before);
}

}  // namespace tw
