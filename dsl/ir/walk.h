// Generic traversal, derived from one list of children per node kind: children(), walk(), rewrite(), substitute().
// Unchanged means same pointer: rewrite returns the node itself if nothing below it changed.
#pragma once
#include "dsl/ir/build.h"
#include "dsl/ir/nodes.h"

namespace tw {

// Calls visit(const Expr*) or visit(const Stmt*) for each direct child that is not null.
template <class Visit>
void for_each_child(const Node* node, Visit&& visit) {
  auto each = [&](auto list) { for (auto* item : list) visit(item); };
  switch (node->kind) {
    case Kind::IntImm: case Kind::FloatImm: case Kind::Var: return;
    case Kind::Cast: return visit(static_cast<const Cast*>(node)->value);
    case Kind::Unary: return visit(static_cast<const Unary*>(node)->value);
    case Kind::Broadcast: return visit(static_cast<const Broadcast*>(node)->value);
    case Kind::Binary: { auto* n = static_cast<const Binary*>(node); visit(n->a); visit(n->b); return; }
    case Kind::Ramp: { auto* n = static_cast<const Ramp*>(node); visit(n->base); visit(n->stride); return; }
    case Kind::Select: { auto* n = static_cast<const Select*>(node); visit(n->condition); visit(n->then); visit(n->otherwise); return; }
    case Kind::Call: return each(static_cast<const Call*>(node)->arguments);
    case Kind::Load: return each(static_cast<const Load*>(node)->indices);
    case Kind::Store: {
      auto* n = static_cast<const Store*>(node);
      each(n->values);
      for (const StoreTarget& target : n->targets) each(target.indices);
      return;
    }
    case Kind::Seq: return each(static_cast<const Seq*>(node)->stmts);
    case Kind::If: {
      auto* n = static_cast<const If*>(node);
      visit(n->condition); visit(n->then);
      if (n->otherwise) visit(n->otherwise);
      return;
    }
    case Kind::For: return visit(static_cast<const For*>(node)->body);
    case Kind::Block: {
      auto* n = static_cast<const Block*>(node);
      each(n->bindings);
      if (n->predicate) visit(n->predicate);
      if (n->init) visit(n->init);
      visit(n->body);
      return;
    }
    case Kind::Alloc: return visit(static_cast<const Alloc*>(node)->body);
  }
}

// Pre-order. visit(const Node*) returns false to skip what is below.
template <class Visit>
void walk(const Node* node, Visit&& visit) {
  if (!node || !visit(node)) return;
  for_each_child(node, [&](const Node* child) { walk(child, visit); });
}

// All nodes of kind T, in pre-order.
template <class T, class Visit>
void for_each(const Node* root, Visit&& visit) {
  walk(root, [&](const Node* node) {
    if (const T* found = as<T>(node)) visit(found);
    // Below expressions, and so below a store, there are no statements.
    return !std::is_base_of_v<Stmt, T> || node->kind > Kind::Store;
  });
}

// Rebuilds `node` with each child replaced by map(child). Defined for every kind in walk.cc through RewriteChildren.
struct ChildMap {
  void* context;
  const Expr* (*expr)(void* context, const Expr*);
  const Stmt* (*stmt)(void* context, const Stmt*);
};
const Expr* with_children(Arena& arena, const Expr* node, const ChildMap& map);
const Stmt* with_children(Arena& arena, const Stmt* node, const ChildMap& map);

// Post-order rewriting: children first, then change(node), which returns the node itself or another one. `change` is called
// with const Expr* and const Stmt* (overload or generic lambda); a statement may become null, which removes it from its sequence.
template <class Change>
class Rewriter {
 public:
  Rewriter(Arena& arena, Change change) : arena_(arena), change_(change) {}
  const Expr* operator()(const Expr* node) { return change_(with_children(arena_, node, map())); }
  const Stmt* operator()(const Stmt* node) {
    const Stmt* rebuilt = with_children(arena_, node, map());
    return rebuilt ? change_(rebuilt) : nullptr;
  }

 private:
  ChildMap map() {
    return {this, [](void* self, const Expr* e) { return (*static_cast<Rewriter*>(self))(e); },
            [](void* self, const Stmt* s) { return (*static_cast<Rewriter*>(self))(s); }};
  }
  Arena& arena_;
  Change change_;
};

template <class T, class Change>
const T* rewrite(Arena& arena, const T* node, Change change) {
  return node ? Rewriter<Change>(arena, change)(node) : nullptr;
}
// Only expressions change: change(const Expr*) -> const Expr*.
template <class T, class Change>
const T* rewrite_exprs(Arena& arena, const T* node, Change change) {
  auto both = [&](auto* n) {
    if constexpr (std::is_convertible_v<decltype(n), const Expr*>) return change(n);
    else return n;
  };
  return rewrite(arena, node, both);
}
// Only statements change; expressions are not visited: change(const Stmt*) -> const Stmt*.
const Stmt* rewrite_stmts_with(Arena& arena, const Stmt* node, void* context, const Stmt* (*change)(void*, const Stmt*));
template <class Change>
const Stmt* rewrite_stmts(Arena& arena, const Stmt* node, Change change) {
  return rewrite_stmts_with(arena, node, &change,
                            [](void* c, const Stmt* s) -> const Stmt* { return (*static_cast<Change*>(c))(s); });
}

// Variables and what replaces them. Small (tens of entries): lookup is linear.
struct Substitution {
  List<std::pair<const Var*, const Expr*>> entries;
  void set(const Var* var, const Expr* value) { entries.emplace_back(var, value); }
  const Expr* find(const Var* var) const {
    for (const auto& [from, to] : entries) if (from == var) return to;
    return nullptr;
  }
};
const Expr* substitute(Arena& arena, const Expr* node, const Substitution& map);
const Stmt* substitute(Arena& arena, const Stmt* node, const Substitution& map);

// Does `var` occur in the expression or statement?
bool uses(const Node* node, const Var* var);
bool any_uses(Array<const Expr*> indices, const Var* var);

// The depth of the deepest statement: 1 for a statement without statements inside.
int nesting_of(const Stmt* root);

// Loads and stores of one buffer now go to another, with the indices given by change(indices).
const Stmt* replace_buffer(Arena& arena, const Stmt* node, const Buffer* from, const Buffer* to);

}  // namespace tw
