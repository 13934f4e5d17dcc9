// Pads the iters of a sum of products to multiples, so that tiles of these sizes have no tails.
//   for i in 5 { for k in 3 { D[i] += A[i, k] * B[k] } }     pad_einsum(D, [4, 4])
//   ->   A_pad[i, k] = if i < 5 and k < 3 then A[i, k] else 0;  B_pad[k] = if k < 3 then B[k] else
//   0
//        for i in 8 { for k in 4 { D_pad[i] += A_pad[i, k] * B_pad[k] } };  for i in 5 { D[i] =
//        D_pad[i] }
// Applies to a reduction block in its first loops that sums products of loads, every index an iter,
// and fills its output; a reduction iter that grows must be an index of every factor, so that what
// is added is 0 (source: PadEinsum of TensorIR). padding has a number per iter; 1 leaves it as it
// is. All inputs and the output get a padded buffer whether they grow or not, so that the blocks
// made do not depend on the numbers: one per factor, then the one that copies back. Block and loops
// keep their handles.
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/reducer.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/nest.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(pad_einsum, Blocks(BlockId block, Ints padding))

namespace {

struct Plan {
  const Block* block;
  FirstNest nest;
  const Store* update;
  List<const Load*> factors;  // of the product
  List<i64> extents;          // of the iters, padded
};

// The loads of a product; false if it has anything else than products, casts and loads.
bool take_factors(const Expr* e, List<const Load*>& out) {
  if (const Cast* cast = as<Cast>(e)) return take_factors(cast->value, out);
  if (const Load* load = as<Load>(e)) {
    out.push_back(load);
    return true;
  }
  const Binary* product = as<Binary>(e);
  return product && product->op == BinaryOp::Mul && take_factors(product->a, out) && take_factors(product->b, out);
}

Result<List<i64>> padded_extents(const Block* block, Ints padding) {
  if (padding.size() != block->iters.size()) {
    return reject("block `{a}` has {0} iters, found {1} numbers to pad them to", block->name,
                  static_cast<i64>(block->iters.size()), static_cast<i64>(padding.size()))
        .about_block(block->id.value);
  }
  List<i64> extents;
  for (std::size_t i = 0; i < padding.size(); ++i) {
    if (padding[i] < 1) return reject("padding {0} is not positive", padding[i]);
    if (padding[i] > kMaxIterations) return reject("padding {0} is more than {1}", padding[i], kMaxIterations);
    extents.push_back((block->iters[i].extent + padding[i] - 1) / padding[i] * padding[i]);
  }
  return extents;
}

Status is_indexed_by_iters(const Plan& plan, const Load* factor) {
  std::optional<List<int>> iters = iters_as_indices(plan.block, factor->indices);
  if (!iters) {
    return reject("block `{a}` reads `{b}` at indices that are not its iters, each once", plan.block->name,
                  factor->buffer->name)
        .about_block(plan.block->id.value);
  }
  for (std::size_t i = 0; i < plan.extents.size(); ++i) {
    const IterVar& iter = plan.block->iters[i];
    bool grows = iter.kind == IterKind::R && plan.extents[i] != iter.extent;
    if (!grows || std::find(iters->begin(), iters->end(), static_cast<int>(i)) != iters->end()) continue;
    return reject(
               "reduction iter `{a}` grows and is no index of the factor `{b}`, which padding "
               "would not make 0",
               iter.var->name, factor->buffer->name)
        .about_block(plan.block->id.value);
  }
  return ok();
}

// A spatial iter of one value that is no index would repeat the whole sum if it grew.
Status iters_outside_stay(const Plan& plan, const List<int>& indices) {
  for (std::size_t i = 0; i < plan.extents.size(); ++i) {
    const IterVar& iter = plan.block->iters[i];
    bool is_index = std::find(indices.begin(), indices.end(), static_cast<int>(i)) != indices.end();
    if (iter.kind == IterKind::R || is_index || plan.extents[i] == iter.extent) continue;
    return reject("spatial iter `{a}` grows and is no index of what block `{b}` writes", iter.var->name,
                  plan.block->name)
        .about_block(plan.block->id.value);
  }
  return ok();
}

Status fills_its_output(const Plan& plan) {
  const Block* block = plan.block;
  const StoreTarget& target = plan.update->targets[0];
  std::optional<List<int>> iters = iters_as_indices(block, target.indices);
  std::size_t spatial = 0, covered = 0;
  for (const IterVar& iter : block->iters) spatial += iter.kind == IterKind::S && iter.extent > 1;
  for (std::size_t d = 0; iters && d < iters->size(); ++d) {
    i64 extent = (*iters)[d] < 0 ? 1 : block->iters[(*iters)[d]].extent;
    if (extent != target.buffer->shape[d]) iters = std::nullopt;
    covered += extent > 1;
  }
  if (iters && covered == spatial) return iters_outside_stay(plan, *iters);
  return reject("expected block `{a}` to write all of `{b}` at its spatial iters, each once", block->name,
                target.buffer->name)
      .about_block(block->id.value);
}

Result<Plan> plan_for(const State& state, BlockId id, Ints padding) {
  TW_TRY(const Block* block, state.block(id));
  TW_TRY_STATUS(is_reduction(state.program().body, block));
  TW_TRY(List<i64> extents, padded_extents(block, padding));
  Plan plan{block, {}, single_store(block), {}, extents};
  std::optional<Reducer> reducer = reducer_of(block);
  const Binary* sum = reducer && plan.update ? as<Binary>(reducer->values[0]) : nullptr;
  if (!sum || sum->op != BinaryOp::Add || !take_factors(reducer->terms[0], plan.factors)) {
    return reject("expected block `{a}` to sum products of loads", block->name).about_block(id.value);
  }
  TW_TRY_STATUS(fills_its_output(plan));
  for (const Load* factor : plan.factors) TW_TRY_STATUS(is_indexed_by_iters(plan, factor));
  TW_TRY(plan.nest, first_nest(state, block));
  return plan;
}

// A local buffer for one with these indices, as large as the padded iters.
const Buffer* padded_buffer(State& state, const Plan& plan, const Buffer* of, Array<const Expr*> indices) {
  List<i64> shape;
  List<int> iters = *iters_as_indices(plan.block, indices);
  for (int iter : iters) shape.push_back(iter < 0 ? 1 : plan.extents[iter]);
  const Buffer* buffer =
      state.fresh_buffer(state.name(of->name, "_pad"), of->dtype, state.arena().copy(shape), Scope::Global);
  state.add_local(buffer);
  return buffer;
}

// Loops over one of two buffers, of which a copy block copies one into the other.
const Stmt* copy_nest(State& state, const Block* copy) {
  List<Range> ranges;
  for (const IterVar& iter : copy->iters) ranges.push_back({state.build().integer(0), iter.extent});
  return nest_over(state, copy, ranges, /*keep_units=*/true, {}, nullptr);
}

// padded[...] = if inside then of[...] else 0
const Block* padding_block(State& state, const Plan& plan, const Load* factor, const Buffer* padded) {
  Build build = state.build();
  const Block* copy = copy_block(state, padded->name, factor->buffer, padded, plan.block);
  List<int> at = *iters_as_indices(plan.block, factor->indices);
  const Expr* inside = nullptr;
  for (std::size_t d = 0; d < at.size(); ++d) {
    i64 extent = at[d] < 0 ? 1 : plan.block->iters[at[d]].extent;
    if (extent < padded->shape[d]) inside = build.both(inside, build.lt(copy->iters[d].var, extent));
  }
  if (!inside) return copy;
  const Store* store = as<Store>(copy->body);
  const Expr* value = build.select(inside, store->values[0], build.number(0, padded->dtype));
  return build.with_body(copy, nullptr, build.store(padded, store->targets[0].indices, value));
}

// The reduction on the padded buffers, in its old loops with new extents.
const Stmt* padded_nest(State& state, const Plan& plan, const List<const Buffer*>& inputs, const Buffer* out) {
  Build build = state.build();
  Arena& arena = state.arena();
  const StoreTarget& target = plan.update->targets[0];
  auto change = [&](const Expr* e) -> const Expr* {
    const Load* load = as<Load>(e);
    if (!load) return e;
    if (load->buffer == target.buffer) return build.load(out, load->indices);
    auto factor = std::find(plan.factors.begin(), plan.factors.end(), load);
    return factor == plan.factors.end() ? e : build.load(inputs[factor - plan.factors.begin()], load->indices);
  };
  Block* block = arena.make<Block>(*plan.block);
  List<IterVar> iters(block->iters.begin(), block->iters.end());
  for (std::size_t i = 0; i < iters.size(); ++i) iters[i].extent = plan.extents[i];
  block->iters = arena.copy(iters);
  block->init = build.store(out, target.indices, as<Store>(plan.block->init)->values[0]);
  block->body = build.store(out, target.indices, rewrite_exprs(arena, plan.update->values[0], change));
  const Stmt* nest = block;
  for (std::size_t i = plan.nest.loops.size(); i-- > 0;) {
    const For* loop = plan.nest.loops[i];
    auto iter = std::find(block->bindings.begin(), block->bindings.end(), loop->var) - block->bindings.begin();
    For* grown = arena.make<For>(*loop);
    grown->extent = plan.extents[static_cast<std::size_t>(iter)];
    grown->body = nest;
    nest = grown;
  }
  return nest;
}

}  // namespace

static Result<Blocks> apply(State& state, BlockId id, Ints padding) {
  TW_TRY(Plan plan, plan_for(state, id, padding));
  for (std::size_t i = 0; i < plan.extents.size(); ++i) {
    if (!as<Var>(plan.block->bindings[i]) && plan.extents[i] != 1) {
      return reject("iter `{b}` of block `{a}` has no loop that could grow", plan.block->name,
                    plan.block->iters[i].var->name)
          .about_block(id.value);
    }
  }
  Program before = state.program();
  List<BlockId> made;
  List<const Buffer*> inputs;
  for (const Load* factor : plan.factors) {
    inputs.push_back(padded_buffer(state, plan, factor->buffer, factor->indices));
    const Block* pad = padding_block(state, plan, factor, inputs.back());
    made.push_back(pad->id);
    insert_before(state, plan.nest.top, copy_nest(state, pad));
  }
  const StoreTarget& target = plan.update->targets[0];
  const Buffer* out = padded_buffer(state, plan, target.buffer, target.indices);
  const Block* crop = copy_block(state, state.name(plan.block->name, "_crop"), out, target.buffer, plan.block);
  made.push_back(crop->id);
  insert_after(state, plan.nest.top, copy_nest(state, crop));
  state.replace(plan.nest.top, padded_nest(state, plan, inputs, out));
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, id, before));
  return Blocks(state.arena().copy(made));
}

REGISTER(pad_einsum,
         "Pads the iters of a sum of products to multiples: padded inputs before it, a copy back "
         "behind it.",
         .extents = Meaning::Extents::Padded)
