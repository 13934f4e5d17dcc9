#include "dsl/passes/cost.h"

#include <algorithm>
#include <bit>

#include "dsl/intrinsics/intrinsic.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

i64 operations_in(const Expr* e) {
  if (e->type.dtype == DType::I64 || e->kind == Kind::Load) return 0;
  i64 own = e->kind == Kind::Binary || e->kind == Kind::Unary || e->kind == Kind::Select || e->kind == Kind::Cast;
  if (e->kind == Kind::Call) own = 10;  // a polynomial
  for_each_child(e, [&](const Node* child) { own += operations_in(static_cast<const Expr*>(child)); });
  return own;
}

i64 operations_in(const Store* store) {
  i64 total = 0;
  for (const Expr* value : store->values) total += operations_in(value);
  for (const StoreTarget& target : store->targets) total += target.buffer->scope != Scope::Register;
  return std::max<i64>(total, 1);
}

int widest_value(const Expr* e) {
  int bytes = e->type.dtype == DType::Bool || e->type.dtype == DType::I64 ? 1 : bytes_of(e->type.dtype);
  if (e->kind == Kind::Load) return std::max(bytes, bytes_of(e->type.dtype));  // its index is no value
  for_each_child(e, [&](const Node* child) { bytes = std::max(bytes, widest_value(static_cast<const Expr*>(child))); });
  return bytes;
}

// Such a loop has no vector form.
bool is_tested_by_lane(const For* loop) {
  bool found = false;
  for_each<If>(loop->body, [&](const If* branch) { found |= uses(branch->condition, loop->var); });
  return found;
}

Cost times(Cost cost, i64 code, i64 executed) { return {cost.code * code, cost.executed * executed}; }

}  // namespace

i64 vectors_in(i64 extent, i64 lanes, i64 row) {
  for (; lanes > 1; lanes /= 2) {
    i64 rest = extent % lanes;
    if (lanes < 2 * extent && row % lanes == 0) return extent / lanes + (rest > 0);
    if (lanes <= extent) return extent / lanes + std::popcount(static_cast<u64>(rest));
  }
  return extent;
}

bool selects_register(const For* loop) {
  bool found = false;
  auto look = [&](const Buffer* buffer, Array<const Expr*> indices) {
    if (buffer->scope != Scope::Register) return;
    for (const Expr* index : indices) found |= uses(index, loop->var);
  };
  for_each<Load>(loop->body, [&](const Load* load) { look(load->buffer, load->indices); });
  for_each<Store>(loop->body, [&](const Store* store) {
    for (const StoreTarget& target : store->targets) look(target.buffer, target.indices);
  });
  return found;
}

int lanes_of(const Stmt* stmt, const LoweringOptions& options) {
  int bytes = 1;
  for_each<Store>(stmt, [&](const Store* store) {
    for (const StoreTarget& target : store->targets) bytes = std::max(bytes, bytes_of(target.buffer->dtype));
    for (const Expr* value : store->values) bytes = std::max(bytes, widest_value(value));
  });
  return std::max(1, options.vector_bits / (8 * bytes));
}

Cost cost_of(const Stmt* stmt, const LoweringOptions& options) {
  if (const Store* store = as<Store>(stmt)) {
    i64 operations = operations_in(store);
    return {operations, operations};
  }
  Cost total;
  auto add = [&](const Stmt* child) {
    Cost cost = cost_of(child, options);
    total.code += cost.code;
    total.executed += cost.executed;
  };
  if (const Seq* seq = as<Seq>(stmt)) {
    for (const Stmt* child : seq->stmts) add(child);
  } else if (const If* branch = as<If>(stmt)) {
    total = {1, 1};
    add(branch->then);
    if (branch->otherwise) add(branch->otherwise);
  } else if (const Alloc* alloc = as<Alloc>(stmt)) {
    add(alloc->body);
  } else if (const For* loop = as<For>(stmt)) {
    if (const Annotation* mark = find_annotation(loop->annotations, kIntrinsicMark)) {
      const Intrinsic* intrinsic = find_intrinsic(mark->value.text);
      if (intrinsic) return {intrinsic->cost, intrinsic->cost};
    }
    add(loop->body);
    if (loop->loop_kind == LoopKind::Unroll) return times(total, loop->extent, loop->extent);
    if (loop->loop_kind != LoopKind::Vectorize) return times(total, 1, loop->extent);
    if (is_tested_by_lane(loop) && !options.has_lane_masks)
      return times(total, selects_register(loop) ? loop->extent : 1, loop->extent);
    i64 vectors = vectors_in(loop->extent, lanes_of(loop->body, options), options.has_lane_masks ? 0 : 1);
    return times(total, std::min(vectors, kUnrolledVectors + 4), vectors);
  }
  return total;
}

i64 code_of_largest_nest(const Stmt* body, const LoweringOptions& options) {
  if (const Alloc* alloc = as<Alloc>(body)) return code_of_largest_nest(alloc->body, options);
  const Seq* seq = as<Seq>(body);
  if (!seq) return cost_of(body, options).code;
  i64 largest = 0;
  for (const Stmt* nest : seq->stmts) largest = std::max(largest, code_of_largest_nest(nest, options));
  return largest;
}

}  // namespace tw
