#include "dsl/analysis/verify.h"

#include <algorithm>
#include <set>

#include "dsl/analysis/affine.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

constexpr std::size_t kMaxProblems = 20;

bool is_comparison(BinaryOp op) { return op >= BinaryOp::Lt && op <= BinaryOp::Ne; }
bool is_logical(BinaryOp op) { return op == BinaryOp::And || op == BinaryOp::Or; }

// Walks the program with what is known at each place; the rules are the functions below "rules".
class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {
    walk(program.body, [&](const Node* node) { return !(has_blocks_ = has_blocks_ || node->kind == Kind::Block); });
  }

  std::vector<Illegal> run() {
    for (const Param& param : program_.params) declare(param.buffer);
    for (const Buffer* local : program_.locals) declare(local);
    parameters_are_global();
    if (program_.body) stmt(program_.body);
    outputs_are_written();
    return std::move(problems_);
  }

 private:
  template <class... Parts>
  void report(const char* rule, const Parts&... parts) {
    if (problems_.size() >= kMaxProblems) return;
    LoopId loop = loops_.empty() || block_ ? LoopId{} : loops_.back()->id;
    problems_.push_back({rule, cat(parts...), loop, block_ ? block_->id : BlockId{}});
  }

  // ---- rules about declarations

  void declare(const Buffer* buffer) {
    buffers_are_declared_once(buffer);
    extents_are_positive("buffer", buffer->name, buffer->shape);
    buffers_.insert(buffer);
  }

  void buffers_are_declared_once(const Buffer* buffer) {
    bool known = std::any_of(buffers_.begin(), buffers_.end(),
                             [&](const Buffer* b) { return b == buffer || b->id == buffer->id; });
    if (known) report("buffers_are_declared_once", "buffer `", buffer->name, "` or its id is declared twice");
  }

  void extents_are_positive(const char* what, Str name, Array<i64> extents) {
    for (i64 extent : extents) {
      if (extent < 1) report("extents_are_positive", what, " `", name, "` has extent ", extent);
    }
  }

  void parameters_are_global() {
    for (const Param& param : program_.params) {
      if (param.buffer->scope != Scope::Global) {
        report("parameters_are_global", "parameter `", param.buffer->name, "` is in ", name_of(param.buffer->scope),
               " memory");
      }
    }
  }

  void outputs_are_written() {
    for (const Param& param : program_.params) {
      if (param.role == Role::Output && !written_.count(param.buffer)) {
        report("outputs_are_written", "output `", param.buffer->name, "` is never written");
      }
    }
  }

  // ---- rules about expressions

  void variables_are_in_scope(const Var* var) {
    if (std::find(vars_.begin(), vars_.end(), var) == vars_.end()) {
      report("variables_are_in_scope", "variable `", var->name, "` is used outside of its loop or block");
    }
  }

  void buffers_are_declared(const Buffer* buffer) {
    if (!buffers_.count(buffer)) report("buffers_are_declared", "buffer `", buffer->name, "` is not declared");
  }

  void indices_have_rank(const Buffer* buffer, Array<const Expr*> indices) {
    if (indices.size() != buffer->shape.size()) {
      report("indices_have_rank", "`", buffer->name, "` has ", buffer->shape.size(), " dimensions, found ",
             indices.size(), " indices");
    }
  }

  void indices_are_i64(Array<const Expr*> indices) {
    for (const Expr* index : indices) {
      if (index->type.dtype != DType::I64)
        report("indices_are_i64", "the index `", print(index), "` is ", to_string(index->type));
    }
  }

  void operands_agree(const Expr* e) {
    if (const Binary* n = as<Binary>(e)) {
      Type result = is_comparison(n->op) ? Type{DType::Bool, n->a->type.lanes} : n->a->type;
      if (n->a->type != n->b->type || e->type != result) {
        report("operands_agree", "`", name_of(n->op), "` joins ", to_string(n->a->type), " and ", to_string(n->b->type),
               " to ", to_string(e->type));
      }
    }
    if (const Select* n = as<Select>(e); n && (n->then->type != n->otherwise->type || e->type != n->then->type)) {
      report("operands_agree", "`if` chooses between ", to_string(n->then->type), " and ",
             to_string(n->otherwise->type));
    }
    if (const Call* n = as<Call>(e)) {
      bool right = static_cast<int>(n->arguments.size()) == arity_of(n->function);
      for (const Expr* argument : n->arguments) right = right && argument->type == e->type;
      if (!right) report("operands_agree", "`", name_of(n->function), "` has arguments of a wrong number or type");
    }
  }

  void operators_fit_types(const Binary* n) {
    DType type = n->a->type.dtype;
    bool divides_integers = n->op == BinaryOp::FloorDiv || n->op == BinaryOp::FloorMod;
    bool fits = is_logical(n->op)        ? type == DType::Bool
                : n->op == BinaryOp::Div ? is_float(type)
                                         : !divides_integers || is_int(type);
    if (!fits) report("operators_fit_types", "`", name_of(n->op), "` is applied to ", name_of(type));
  }

  void conditions_are_bool(const Expr* condition) {
    if (condition->type.dtype != DType::Bool) {
      report("conditions_are_bool", "the condition `", print(condition), "` is ", to_string(condition->type));
    }
  }

  void vectors_have_lanes(const Expr* e) {
    const Ramp* ramp = as<Ramp>(e);
    const Broadcast* broadcast = as<Broadcast>(e);
    bool scalar_inside = ramp ? ramp->base->type.lanes == 1 && ramp->stride->type == ramp->base->type
                              : broadcast->value->type.lanes == 1;
    if (!scalar_inside || e->type.lanes < 2) report("vectors_have_lanes", "`", print(e), "` is no vector of scalars");
  }

  void expr(const Expr* e) {
    if (const Var* var = as<Var>(e)) variables_are_in_scope(var);
    if (const Binary* n = as<Binary>(e)) operators_fit_types(n);
    if (const Select* n = as<Select>(e)) conditions_are_bool(n->condition);
    if (e->kind == Kind::Ramp || e->kind == Kind::Broadcast) vectors_have_lanes(e);
    if (const Load* n = as<Load>(e)) {
      buffers_are_declared(n->buffer);
      indices_have_rank(n->buffer, n->indices);
      indices_are_i64(n->indices);
    }
    operands_agree(e);
    for_each_child(e, [&](const Node* child) { expr(static_cast<const Expr*>(child)); });
  }

  // ---- rules about stores

  void values_have_the_type_of_the_buffer(const StoreTarget& target, const Expr* value) {
    if (value->type.dtype != target.buffer->dtype) {
      report("values_have_the_type_of_the_buffer", "`", target.buffer->name, "` is ", name_of(target.buffer->dtype),
             ", the value stored is ", to_string(value->type));
    }
  }

  void inputs_are_not_written(const Buffer* buffer) {
    const Param* param = find_param(program_, buffer);
    if (param && param->role != Role::Output)
      report("inputs_are_not_written", "`", buffer->name, "` is ", name_of(param->role), " and written");
  }

  void targets_differ(const Store* n) {
    for (std::size_t i = 0; i < n->targets.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (n->targets[i].buffer == n->targets[j].buffer)
          report("targets_differ", "one statement writes `", n->targets[i].buffer->name, "` twice");
      }
    }
  }

  void stores_are_in_blocks(const Store* n) {
    if (has_blocks_ && !block_)
      report("stores_are_in_blocks", "`", n->targets[0].buffer->name, "` is written outside of all blocks");
  }

  void store(const Store* n) {
    stores_are_in_blocks(n);
    targets_differ(n);
    for (std::size_t i = 0; i < n->targets.size(); ++i) {
      const StoreTarget& target = n->targets[i];
      buffers_are_declared(target.buffer);
      indices_have_rank(target.buffer, target.indices);
      indices_are_i64(target.indices);
      inputs_are_not_written(target.buffer);
      values_have_the_type_of_the_buffer(target, n->values[i]);
      for (const Expr* index : target.indices) expr(index);
      expr(n->values[i]);
      written_.insert(target.buffer);
    }
  }

  // ---- rules about loops

  void variables_are_bound_once(const Var* var) {
    if (!bound_.insert(var).second) report("variables_are_bound_once", "variable `", var->name, "` is bound twice");
  }

  void ids_are_unique(const char* what, Str name, u32 id, std::set<u32>& known, u32 next) {
    if (!known.insert(id).second) report("ids_are_unique", what, " `", name, "` has the id ", id, " of another one");
    if (id == 0 || id >= next)
      report("ids_are_unique", what, " `", name, "` has the id ", id, ", outside of [1, ", next, ")");
  }

  void only_bound_loops_have_threads(const For* n) {
    if ((n->loop_kind == LoopKind::Bind) == n->thread.empty()) {
      report("only_bound_loops_have_threads", "loop `", n->var->name, "` is ", name_of(n->loop_kind),
             n->thread.empty() ? " to no thread" : " and has a thread");
    }
  }

  void loop(const For* n) {
    loops_.push_back(n);
    ids_are_unique("loop", n->var->name, n->id.value, loop_ids_, program_.next_loop);
    variables_are_bound_once(n->var);
    extents_are_positive("loop", n->var->name, {&n->extent, 1});
    only_bound_loops_have_threads(n);
    vars_.push_back(n->var);
    std::size_t known = ranges_.size();
    ranges_.set_extent(n->var, n->extent);
    stmt(n->body);
    ranges_.shrink(known);
    vars_.pop_back();
    loops_.pop_back();
  }

  // ---- rules about blocks

  void block_names_are_unique(const Block* n) {
    if (!block_names_.insert(n->name).second)
      report("block_names_are_unique", "there is another block `", n->name, "`");
  }

  void every_iter_has_a_binding(const Block* n) {
    if (n->iters.size() != n->bindings.size()) {
      report("every_iter_has_a_binding", "block `", n->name, "` has ", n->iters.size(), " iters and ",
             n->bindings.size(), " bindings");
    }
  }

  // Where a predicate stands guard, what it guards against is not proved here.
  void bindings_stay_in_the_domain(const Block* n) {
    for (std::size_t i = 0; i < std::min(n->iters.size(), n->bindings.size()) && !n->predicate; ++i) {
      std::optional<Interval> reach = interval_of(n->bindings[i], ranges_);
      i64 extent = n->iters[i].extent;
      if (reach && (reach->min < 0 || reach->max >= extent)) {
        report("bindings_stay_in_the_domain", "iter `", n->iters[i].var->name, "` of extent ", extent, " is bound to [",
               reach->min, ", ", reach->max, "]");
      }
    }
  }

  void reductions_do_not_run_concurrently(const Block* n) {
    for (std::size_t i = 0; i < std::min(n->iters.size(), n->bindings.size()); ++i) {
      if (n->iters[i].kind != IterKind::R) continue;
      for (const For* loop : loops_) {
        bool concurrent = loop->loop_kind == LoopKind::Parallel || loop->loop_kind == LoopKind::Vectorize;
        if (concurrent && loop->extent > 1 && uses(n->bindings[i], loop->var)) {
          report("reductions_do_not_run_concurrently", "the reduction `", n->iters[i].var->name, "` runs over the ",
                 name_of(loop->loop_kind), " loop `", loop->var->name, "`");
        }
      }
    }
  }

  void only_reductions_have_an_init(const Block* n) {
    bool reduces =
        std::any_of(n->iters.begin(), n->iters.end(), [](const IterVar& iter) { return iter.kind == IterKind::R; });
    if (n->init && !reduces)
      report("only_reductions_have_an_init", "block `", n->name, "` has an init and no reduction iter");
  }

  // The body of a block sees its iters and the loops inside it only.
  void block(const Block* n) {
    const Block* around = std::exchange(block_, n);
    ids_are_unique("block", n->name, n->id.value, block_ids_, program_.next_block);
    block_names_are_unique(n);
    every_iter_has_a_binding(n);
    bindings_stay_in_the_domain(n);
    reductions_do_not_run_concurrently(n);
    only_reductions_have_an_init(n);
    indices_are_i64(n->bindings);
    for (const Expr* binding : n->bindings) expr(binding);
    if (n->predicate) condition(n->predicate);
    std::vector<const Var*> outside = std::exchange(vars_, {});
    std::vector<const For*> loops_outside = std::exchange(loops_, {});
    std::size_t known = ranges_.size();
    for (const IterVar& iter : n->iters) {
      variables_are_bound_once(iter.var);
      extents_are_positive("iter", iter.var->name, {&iter.extent, 1});
      vars_.push_back(iter.var);
      ranges_.set_extent(iter.var, iter.extent);
    }
    if (n->init) stmt(n->init);
    stmt(n->body);
    ranges_.shrink(known);
    vars_ = std::move(outside);
    loops_ = std::move(loops_outside);
    block_ = around;
  }

  void condition(const Expr* e) {
    conditions_are_bool(e);
    expr(e);
  }

  void stmt(const Stmt* s) {
    switch (s->kind) {
      case Kind::Store:
        return store(static_cast<const Store*>(s));
      case Kind::For:
        return loop(static_cast<const For*>(s));
      case Kind::Block:
        return block(static_cast<const Block*>(s));
      case Kind::Seq:
        for (const Stmt* child : static_cast<const Seq*>(s)->stmts) stmt(child);
        return;
      case Kind::If: {
        auto* n = static_cast<const If*>(s);
        condition(n->condition);
        stmt(n->then);
        if (n->otherwise) stmt(n->otherwise);
        return;
      }
      case Kind::Alloc: {
        auto* n = static_cast<const Alloc*>(s);
        declare(n->buffer);
        stmt(n->body);
        buffers_.erase(n->buffer);
        return;
      }
      default:
        return report("statements_are_statements", "found an expression where a statement belongs");
    }
  }

  const Program& program_;
  bool has_blocks_ = false;
  std::vector<Illegal> problems_;
  std::vector<const For*> loops_;
  const Block* block_ = nullptr;
  std::vector<const Var*> vars_;
  VarRanges ranges_;
  std::set<const Buffer*> buffers_, written_;
  std::set<const Var*> bound_;
  std::set<u32> loop_ids_, block_ids_;
  std::set<Str> block_names_;
};

}  // namespace

std::vector<Illegal> verify(const Program& program) { return Verifier(program).run(); }

std::string render(const Program& program, const std::vector<Illegal>& problems) {
  if (problems.empty()) return "";
  PrintMarks marks;
  std::string rest;
  for (const Illegal& problem : problems) {
    bool placed = problem.loop.value || problem.block.value;
    if (placed)
      marks.marks.push_back({problem.loop, problem.block, cat(problem.rule, ": ", problem.message)});
    else
      rest += cat(problem.rule, ": ", problem.message, "\n");
  }
  return print(program, marks) + rest;
}

}  // namespace tw
