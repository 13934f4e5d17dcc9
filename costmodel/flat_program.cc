#include "costmodel/flat_program.h"

#include <algorithm>
#include <cmath>

#include "dsl/base/check.h"
#include "dsl/passes/skip_identity_terms.h"
#include "dsl/passes/stage_copies.h"
#include "dsl/passes/thread_axes.h"
#include "dsl/passes/warp_mma.h"
#include "dsl/schedule/nest.h"

namespace tw {
namespace {

// What a function costs, in vector operations: polynomials of backends/vector_math.h, roughly.
double simple_operations(Function function) {
  switch (function) {
    case Function::Abs:
    case Function::Floor:
    case Function::Ceil:
    case Function::Round:
      return 1;
    case Function::Sqrt:
    case Function::Rsqrt:
      return 10;
    case Function::Exp:
      return 18;
    case Function::Log:
      return 22;
    case Function::Sigmoid:
    case Function::Tanh:
      return 28;
    case Function::Erf:
      return 32;
    case Function::Pow:
      return 45;
    case Function::ReduceAdd:
    case Function::ReduceMul:
    case Function::ReduceMin:
    case Function::ReduceMax:
      return 4;  // log2(16) steps
    case Function::Within:
      return 0;
  }
  return 1;
}

bool has_load(const Expr* expr) {
  bool found = false;
  for_each<Load>(expr, [&](const Load*) { found = true; });
  return found;
}

bool is_literal(const Expr* expr) { return expr->kind == Kind::IntImm || expr->kind == Kind::FloatImm; }

void note_moving(const LinearIndex& index, std::bitset<kMaxLoopDepth>& loops) {
  for (const LinearIndex::Term& term : index.terms()) {
    if (term.span > 0) loops[static_cast<std::size_t>(term.loop)] = true;
  }
}

int grid_axis(const For* loop) {
  if (loop->loop_kind != LoopKind::Bind) return -1;
  std::optional<ThreadAxis> axis = axis_of(loop);
  return axis ? axis->dimension + (axis->is_thread ? 3 : 0) : -1;
}

i64 integer_annotation(Array<Annotation> annotations, std::string_view key, i64 otherwise) {
  const Annotation* found = find_annotation(annotations, key);
  return found ? found->value.integer : otherwise;
}

void read_annotations(const For* loop, FlatLoop& flat) {
  Array<Annotation> all = loop->annotations;
  flat.auto_unroll = integer_annotation(all, "auto_unroll_max_step", flat.auto_unroll);
  flat.stages = stages_of(loop);
  flat.is_async = find_annotation(all, kAsyncMark) || find_annotation(all, kPipelineMark);
  flat.is_mma = find_mma_mark(loop) != nullptr;
  flat.is_warpgroup_mma = find_annotation(all, kWarpgroupMmaMark) != nullptr;
  flat.is_ahead = integer_annotation(all, kOperandsAheadMark, 0) != 0;
  flat.is_horizontal = find_annotation(all, "horizontal") != nullptr;
  flat.prefetch = integer_annotation(all, "prefetch", 0);
}

}  // namespace

const FlatProgram& FlatReader::read(const Program& program) {
  program_ = &program;
  flat_.loops.clear(), flat_.buffers.clear(), flat_.stores.clear(), flat_.accesses.clear(), flat_.dims.clear();
  flat_.chain.clear(), flat_.blocks.clear(), flat_.iters.clear(), flat_.terms.clear();
  first_iter_ = iters_ = 0;
  open_.clear(), reducing_.reset(), open_blocks_.clear();
  index_of_buffer_.assign(program.next_buffer, -1);
  scope_.reset(program.next_var);
  if (program.body) visit(program.body, {});
  return flat_;
}

void FlatReader::visit(const Stmt* stmt, const Surroundings& around) {
  switch (stmt->kind) {
    case Kind::For:
      return visit_loop(static_cast<const For*>(stmt), around);
    case Kind::Block:
      return visit_block(static_cast<const Block*>(stmt), around);
    case Kind::Store:
      return visit_store(static_cast<const Store*>(stmt), around);
    case Kind::If: {
      auto* branch = static_cast<const If*>(stmt);
      double share = scope_.share(branch->condition);
      Surroundings inside = around;
      inside.share = around.share * share;
      visit(branch->then, inside);
      inside.share = around.share * (1 - share);
      if (branch->otherwise) visit(branch->otherwise, inside);
      return;
    }
    default:
      for_each_child(stmt, [&](const auto* child) {
        if constexpr (std::is_convertible_v<decltype(child), const Stmt*>) visit(child, around);
      });
  }
}

void FlatReader::visit_loop(const For* loop, const Surroundings& around) {
  if (loop->extent == 1 && loop->loop_kind == LoopKind::Serial && loop->annotations.empty()) {
    scope_.bind_zero(loop->var);
    return visit(loop->body, around);
  }
  int position = static_cast<int>(open_.size());
  TW_CHECK(position < kMaxLoopDepth, "program nested too deeply");
  int parent = open_.empty() ? -1 : static_cast<int>(open_.back());
  i64 unroll = parent < 0 ? 0 : flat_.loops[static_cast<std::size_t>(parent)].auto_unroll;
  FlatLoop& flat = flat_.loops.emplace_back();
  flat.var = loop->var, flat.extent = loop->extent, flat.kind = loop->loop_kind;
  flat.parent = parent, flat.depth = position, flat.auto_unroll = unroll;
  flat.axis = grid_axis(loop);
  if (!loop->annotations.empty()) read_annotations(loop, flat);
  open_.push_back(static_cast<u32>(flat_.loops.size() - 1));
  scope_.bind_loop(loop->var, position, loop->extent);
  visit(loop->body, around);
  open_.pop_back();
}

void FlatReader::visit_block(const Block* block, const Surroundings& around) {
  if (integer_annotation(block->annotations, "prepack", 0) != 0) return note_prepacked(block);
  Surroundings inside = around;
  if (block->predicate) note_predicate(block->predicate, inside);
  double reductions = 1;
  std::bitset<kMaxLoopDepth> before = reducing_;
  u32 outer_first = first_iter_, outer_count = iters_;
  first_iter_ = static_cast<u32>(flat_.iters.size()), iters_ = static_cast<u32>(block->iters.size());
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    const IterVar& iter = block->iters[i];
    FlatIter& flat = flat_.iters.emplace_back(FlatIter{static_cast<double>(iter.extent), {}});
    note_moving(scope_.bind(iter.var, block->bindings[i]), flat.moves);
    if (iter.kind != IterKind::R) continue;
    reductions *= flat.extent;
    reducing_ |= flat.moves;
  }
  open_blocks_.push_back(block);
  if (block->init) {
    Surroundings first = inside;
    first.is_init = true;
    first.share /= reductions;
    visit(block->init, first);
  }
  visit(block->body, inside);
  open_blocks_.pop_back();
  reducing_ = before;
  first_iter_ = outer_first, iters_ = outer_count;
}

void FlatReader::visit_store(const Store* node, const Surroundings& around) {
  FlatStore& store = flat_.stores.emplace_back();
  store.node = node;
  store.first_loop = static_cast<u32>(flat_.chain.size());
  store.depth = static_cast<u32>(open_.size());
  store.first_block = static_cast<u32>(flat_.blocks.size());
  store.blocks = static_cast<u32>(open_blocks_.size());
  flat_.blocks.insert(flat_.blocks.end(), open_blocks_.begin(), open_blocks_.end());
  store.first_iter = first_iter_, store.iters = iters_;
  store.first_access = static_cast<u32>(flat_.accesses.size());
  store.share = around.share;
  store.predicates = around.predicates;
  store.predicate_count = around.predicate_count;
  store.is_init = around.is_init;
  store.is_constant = std::all_of(node->values.begin(), node->values.end(), is_literal);
  double iterations = 1;
  for (u32 loop : open_) iterations *= static_cast<double>(flat_.loops[loop].extent);
  store.iterations = iterations;
  flat_.chain.insert(flat_.chain.end(), open_.begin(), open_.end());
  store.reduces = reducing_;
  for (const StoreTarget& target : node->targets) add_access(target.buffer, target.indices, true, store);
  store.skip_bounds = 1;
  skipped_ = skipped_term(node);
  for (const Expr* value : node->values) visit_value(value, store);
  if (skipped_) note_skipped(skipped_, store);
  store.accesses = static_cast<u32>(flat_.accesses.size()) - store.first_access;
  group_by_buffer(store);
}

void FlatReader::visit_value(const Expr* value, FlatStore& store) {
  switch (value->kind) {
    case Kind::Load: {
      auto* load = static_cast<const Load*>(value);
      return add_access(load->buffer, load->indices, false, store);
    }
    case Kind::Unary: {
      auto* unary = static_cast<const Unary*>(value);
      at(store.ops, unary->op == UnaryOp::Not ? Op::Bool : op_of(BinaryOp::Sub, value->type.dtype)) += 1;
      return visit_value(unary->value, store);
    }
    case Kind::Binary: {
      auto* binary = static_cast<const Binary*>(value);
      at(store.ops, op_of(binary->op, binary->a->type.dtype)) += 1;
      visit_value(binary->a, store);
      return visit_value(binary->b, store);
    }
    case Kind::Select: {
      if (!has_load(value)) return;
      auto* select = static_cast<const Select*>(value);
      OpCounts before = store.ops;
      at(store.ops, Op::Select) += 1;
      visit_value(select->condition, store);
      if (select == skipped_) {
        for (int op = 0; op < kOps; ++op) store.skip_ops[op] = store.ops[op] - before[op];
      }
      visit_value(select->then, store);
      return visit_value(select->otherwise, store);
    }
    case Kind::Call: {
      auto* call = static_cast<const Call*>(value);
      at(store.ops, is_float(value->type.dtype) ? Op::FloatMath : Op::IntMath) += 1;
      store.math_ops += simple_operations(call->function);
      for (const Expr* argument : call->arguments) visit_value(argument, store);
      return;
    }
    default:
      for_each_child(value, [&](const auto* child) {
        if constexpr (std::is_convertible_v<decltype(child), const Expr*>) visit_value(child, store);
      });
  }
}

void FlatReader::note_prepacked(const Block* block) {
  for_each<Store>(block, [&](const Store* store) {
    for (const StoreTarget& target : store->targets) {
      FlatBuffer& made = flat_.buffers[buffer_index(target.buffer)];
      made.is_param = made.is_prepacked = true;
    }
  });
}

void FlatReader::note_predicate(const Expr* predicate, Surroundings& inside) {
  for (const Expr* part : conjuncts_of(predicate)) {
    FlatCondition condition{.share = scope_.share(part)};
    inside.share *= condition.share;
    for_each<Var>(part, [&](const Var* var) { note_moving(scope_.index_of(var, scratch_), condition.moves); });
    if (inside.predicate_count < inside.predicates.size()) inside.predicates[inside.predicate_count++] = condition;
  }
}

void FlatReader::note_skipped(const Select* select, FlatStore& store) {
  for (const Expr* part : conjuncts_of(select->condition)) {
    FlatCondition remainder{.share = scope_.share(part)};
    for_each<Binary>(part, [&](const Binary* binary) {
      if (binary->op != BinaryOp::FloorMod) return;
      auto divisor = static_cast<double>(constant_of(binary->b).value_or(0));
      for (const LinearIndex::Term& term : scope_.index_of(binary->a, scratch_).terms()) {
        bool stays = divisor > 0 && is_multiple(term.coefficient, divisor);  // steps of whole periods
        if (term.span > 0 && !stays) remainder.moves.set(static_cast<std::size_t>(term.loop));
      }
    });
    if (remainder.moves.any() && store.remainders < store.skip_remainders.size())
      store.skip_remainders[store.remainders++] = remainder;
    else
      store.skip_bounds *= remainder.share;
  }
}

void FlatReader::add_access(const Buffer* buffer, Array<const Expr*> indices, bool is_write, FlatStore& store) {
  FlatAccess& access = flat_.accesses.emplace_back();
  access.buffer = buffer_index(buffer), access.is_write = is_write;
  access.first_dim = static_cast<u32>(flat_.dims.size()), access.rank = static_cast<u32>(indices.size());
  access.indices = indices;
  FlatBuffer& known = flat_.buffers[access.buffer];
  if (!known.is_param) widen_home(known);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const LinearIndex& index = scope_.index_of(indices[i], scratch_);
    access.is_irregular |= index.irregular;
    if (!is_write) add(store.index_ops, index.ops);
    flat_.dims.push_back({index.irregular ? 0 : index.constant, static_cast<double>(buffer->shape[i]),
                          static_cast<u32>(flat_.terms.size()), static_cast<u32>(index.terms().size())});
    flat_.terms.insert(flat_.terms.end(), index.terms().begin(), index.terms().end());
  }
}

// Stable: the accesses of a store are few, and mostly in order already.
void FlatReader::group_by_buffer(const FlatStore& store) {
  FlatAccess* first = flat_.accesses.data() + store.first_access;
  for (u32 i = 1; i < store.accesses; ++i) {
    u32 to = i;
    for (u32 j = 0; j < i; ++j) {
      if (first[j].buffer == first[i].buffer) to = j + 1;
    }
    std::rotate(first + to, first + i, first + i + 1);
  }
}

u32 FlatReader::buffer_index(const Buffer* buffer) {
  u32 id = buffer->id.value;
  if (id >= index_of_buffer_.size()) index_of_buffer_.resize(id + 1, -1);
  int& index = index_of_buffer_[id];
  if (index < 0) {
    index = static_cast<int>(flat_.buffers.size());
    flat_.buffers.push_back({buffer, static_cast<double>(bytes_of(buffer->dtype)), is_param(*program_, buffer), false});
  }
  return static_cast<u32>(index);
}

void FlatReader::widen_home(FlatBuffer& buffer) {
  if (buffer.home == -2) return void(buffer.home = open_.empty() ? -1 : static_cast<int>(open_.back()));
  while (buffer.home >= 0) {
    const FlatLoop& loop = flat_.loops[static_cast<std::size_t>(buffer.home)];
    auto depth = static_cast<std::size_t>(loop.depth);
    if (depth < open_.size() && open_[depth] == static_cast<u32>(buffer.home)) return;  // it is around this access, too
    buffer.home = loop.parent;
  }
}

}  // namespace tw
