// The two inlining steps of move.h. A block is one store; inlining substitutes its value where its buffer is loaded.
#include <algorithm>

#include "dsl/analysis/block_info.h"
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
  std::vector<int> iters = *iters_as_indices(producer, store->targets[0].indices);
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
  std::vector<int> used = *iters_as_indices(block, indices);
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

// The consumer reads the buffer only at its iters, over the buffer's whole extent; so each element is consumed once.
Result<std::vector<int>> consumed_once(const Block* consumer, const Buffer* buffer) {
  std::optional<std::vector<int>> iters;
  for (const Access& access : accesses_of(consumer)) {
    if (access.kind != AccessKind::Read || access.buffer != buffer) continue;
    std::optional<std::vector<int>> here = iters_as_indices(consumer, access.indices);
    if (!here || (iters && *here != *iters)) {
      return reject("expected block `{a}` to read `{b}` only at its iters, each once", consumer->name, buffer->name)
          .about_block(consumer->id.value);
    }
    iters = here;
  }
  for (std::size_t d = 0; d < iters->size(); ++d) {
    i64 extent = (*iters)[d] < 0 ? 1 : consumer->iters[(*iters)[d]].extent;
    if (extent != buffer->shape[d]) {
      return reject("block `{a}` reads {0} of the {1} elements of `{b}` along dimension {2}", consumer->name,
                    buffer->name, extent, buffer->shape[d], static_cast<i64>(d))
          .about_block(consumer->id.value);
    }
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

// The producer computes every element of its buffer exactly at its iters.
Status produces_all(const Block* producer, const Buffer* buffer, const std::vector<int>& iters) {
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

// What else the consumer reads is there already where the producer stands.
Status inputs_are_ready(const State& state, const Block* consumer, const Block* producer) {
  std::vector<const Block*> order = blocks_in(state.program().body);
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
  std::vector<const Block*> readers = consumers(root, block);
  if (readers.empty())
    return reject("block `{a}` has no consumer to become a part of", block->name).about_block(id.value);
  std::vector<const Block*> order = blocks_in(root);
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
  TW_TRY_STATUS(is_one_definition(state, producer));
  const Store* define = single_store(producer);
  const Buffer* between = define->targets[0].buffer;
  TW_TRY_STATUS(iters_are_indices(producer, define->targets[0].indices));
  TW_TRY(std::vector<int> read_at, consumed_once(block, between));
  std::vector<int> written_at = *iters_as_indices(producer, define->targets[0].indices);
  TW_TRY_STATUS(produces_all(producer, between, written_at));
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
  state.replace(producer, with_statements(arena, producer, nullptr, body));
  state.remove_local(between);
  return ok();
}

}  // namespace tw
