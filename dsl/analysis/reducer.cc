#include "dsl/analysis/reducer.h"

#include <algorithm>
#include <cmath>

#include "dsl/analysis/affine.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

bool is_load_of(const Expr* e, const StoreTarget& target) {
  const Load* load = as<Load>(e);
  return load && load->buffer == target.buffer &&
         std::equal(load->indices.begin(), load->indices.end(), target.indices.begin(), target.indices.end(),
                    same_expr);
}

bool touches(const Expr* e, const StoreTarget& target) {
  bool found = false;
  for_each<Load>(e, [&](const Load* load) { found |= load->buffer == target.buffer; });
  return found;
}

std::optional<double> number_of(const Expr* e) {
  if (const FloatImm* imm = as<FloatImm>(e)) return imm->value;
  if (std::optional<i64> value = constant_of(e)) return static_cast<double>(*value);
  return std::nullopt;
}

// Is starting from `init` as good as starting from nothing? For max and min any constant is: it is combined in either
// way.
bool is_identity(BinaryOp op, const Expr* init) {
  std::optional<double> value = number_of(init);
  if (!value) return false;
  switch (op) {
    case BinaryOp::Add:
      return *value == 0;
    case BinaryOp::Mul:
      return *value == 1;
    default:
      return op == BinaryOp::Max || op == BinaryOp::Min;
  }
}

// target = target op term, in either order; the term.
const Expr* independent_term(const Reducer& r, std::size_t i) {
  const Binary* update = as<Binary>(r.values[i]);
  if (!update || !is_identity(update->op, r.identities[i])) return nullptr;
  const Expr* term = is_load_of(update->a, r.targets[i])   ? update->b
                     : is_load_of(update->b, r.targets[i]) ? update->a
                                                           : nullptr;
  if (!term) return nullptr;
  bool own =
      std::any_of(r.targets.begin(), r.targets.end(), [&](const StoreTarget& target) { return touches(term, target); });
  return own ? nullptr : term;
}

bool is_ordering(BinaryOp op) { return op >= BinaryOp::Lt && op <= BinaryOp::Ge; }

bool compares(const Expr* e, const StoreTarget& target, const Expr* term) {
  const Binary* b = as<Binary>(e);
  if (!b || !is_ordering(b->op)) return false;
  return (is_load_of(b->a, target) && same_expr(b->b, term)) || (is_load_of(b->b, target) && same_expr(b->a, term));
}

bool equates(const Expr* e, const StoreTarget& target, const Expr* term) {
  const Binary* b = as<Binary>(e);
  if (!b || b->op != BinaryOp::Eq) return false;
  return (is_load_of(b->a, target) && same_expr(b->b, term)) || (is_load_of(b->b, target) && same_expr(b->a, term));
}

// value order, or: value order, ties broken by index order.
bool prefers_by_value(const Expr* condition, const Reducer& r, std::size_t index, std::size_t value) {
  if (compares(condition, r.targets[value], r.terms[value])) return true;
  const Binary* either = as<Binary>(condition);
  if (!either || either->op != BinaryOp::Or || !compares(either->a, r.targets[value], r.terms[value])) return false;
  const Binary* tie = as<Binary>(either->b);
  return tie && tie->op == BinaryOp::And && equates(tie->a, r.targets[value], r.terms[value]) &&
         compares(tie->b, r.targets[index], r.terms[index]);
}

// if condition then kept else term, or the other way round; the term.
const Expr* selected_term(const Expr* value, const StoreTarget& target) {
  const Select* select = as<Select>(value);
  if (!select) return nullptr;
  return is_load_of(select->then, target)        ? select->otherwise
         : is_load_of(select->otherwise, target) ? select->then
                                                 : nullptr;
}

bool is_arg_reducer(Reducer& r) {
  if (r.targets.size() != 2) return false;
  r.terms.clear();
  for (std::size_t i = 0; i < 2; ++i) {
    const Expr* term = selected_term(r.values[i], r.targets[i]);
    if (!term) term = independent_term(r, i);
    if (!term || !number_of(r.identities[i]) || touches(term, r.targets[0]) || touches(term, r.targets[1]))
      return false;
    r.terms.push_back(term);
  }
  for (std::size_t value = 0; value < 2; ++value) {
    const Select* index_choice = as<Select>(r.values[1 - value]);
    if (!index_choice || !prefers_by_value(index_choice->condition, r, 1 - value, value)) continue;
    const Select* value_choice = as<Select>(r.values[value]);
    if (!value_choice || same_expr(value_choice->condition, index_choice->condition)) return true;
  }
  return false;
}

const Store* only_store(const Stmt* stmt) { return as<Store>(stmt); }

}  // namespace

std::optional<Reducer> reducer_of(const Block* block) {
  const Store* init = block->init ? only_store(block->init) : nullptr;
  const Store* update = only_store(block->body);
  if (!init || !update || init->targets.size() != update->targets.size()) return std::nullopt;
  Reducer r;
  for (std::size_t i = 0; i < update->targets.size(); ++i) {
    const StoreTarget &a = init->targets[i], &b = update->targets[i];
    if (a.buffer != b.buffer || !same_exprs(a.indices, b.indices)) return std::nullopt;
    r.targets.push_back(b);
    r.identities.push_back(init->values[i]);
    r.values.push_back(update->values[i]);
  }
  for (std::size_t i = 0; i < r.values.size(); ++i) {
    if (const Expr* term = independent_term(r, i)) r.terms.push_back(term);
  }
  if (r.terms.size() == r.values.size() || is_arg_reducer(r)) return r;
  return std::nullopt;
}

List<const Expr*> combine(Arena& arena, const Reducer& r, const List<const Expr*>& accumulated,
                          const List<const Expr*>& terms) {
  // From the top down, because a term is to be found before what is inside it changes.
  struct Swap {
    Arena& arena;
    const Reducer& r;
    const List<const Expr*>&accumulated, &terms;
    const Expr* operator()(const Expr* e) {
      for (std::size_t i = 0; i < r.targets.size(); ++i) {
        if (is_load_of(e, r.targets[i])) return accumulated[i];
        if (same_expr(e, r.terms[i])) return terms[i];
      }
      ChildMap map{this, [](void* self, const Expr* child) { return (*static_cast<Swap*>(self))(child); }, nullptr};
      return with_children(arena, e, map);
    }
  } swap{arena, r, accumulated, terms};
  List<const Expr*> out;
  for (const Expr* value : r.values) out.push_back(swap(value));
  return out;
}

bool combines_work_items(const For* loop) {
  if (loop->loop_kind != LoopKind::Bind || !loop->thread.starts_with("threadIdx")) return false;
  if (const Store* store = as<Store>(loop->body)) {
    const StoreTarget& target = store->targets[0];
    bool is_shared = target.buffer->scope == Scope::Shared || target.buffer->scope == Scope::Global;
    bool is_same = std::none_of(target.indices.begin(), target.indices.end(),
                                [&](const Expr* index) { return uses(index, loop->var); });
    return is_shared && is_same && combined_loads(store);
  }
  bool found = false;
  for_each<Block>(loop->body, [&](const Block* block) {
    for (std::size_t i = 0; i < block->iters.size(); ++i)
      found |= block->iters[i].kind == IterKind::R && uses(block->bindings[i], loop->var);
  });
  return found;
}

std::optional<List<const Load*>> combined_loads(const Store* update) {
  List<const Load*> out;
  for (std::size_t i = 0; i < update->targets.size(); ++i) {
    const StoreTarget& target = update->targets[i];
    const Expr* term = selected_term(update->values[i], target);
    if (const Binary* op = as<Binary>(update->values[i]))
      term = is_load_of(op->a, target) ? op->b : is_load_of(op->b, target) ? op->a : nullptr;
    const Load* load = term ? as<Load>(term) : nullptr;
    if (!load || load->type != Type{target.buffer->dtype, 1}) return std::nullopt;
    out.push_back(load);
  }
  return out;
}

}  // namespace tw
