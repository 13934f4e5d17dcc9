// Generic traversal, derived from the list of fields of each node (nodes.h): for_each_child(), walk(), rewrite(),
// substitute(). Unchanged means same pointer: rewrite returns the node itself if nothing below it changed.
#pragma once
#include "dsl/ir/build.h"
#include "dsl/ir/nodes.h"

namespace tw {

// ---- fields by their types

template <class T>
inline constexpr bool is_child = std::is_same_v<T, const Expr*> || std::is_same_v<T, const Stmt*>;
template <class T>
inline constexpr bool is_array = false;
template <class T>
inline constexpr bool is_array<Array<T>> = true;
// A node, or what a list inside of a node consists of.
template <class T>
concept HasFields = requires { T::fields; };

template <class T, class Visit, class Field, class Owner>
void visit_entry(T& node, Visit& visit, Field Owner::* field) {
  visit(node.*field);
}
template <class T, class Visit, class Member>
void visit_entry(T& node, Visit& visit, Uncompared<Member> field) {
  visit(node.*field.member);
}
template <class T, class Visit, class... Members>
void visit_entry(T&, Visit&, Nullable<Members...>) {}  // its children are entries of their own

// Calls visit(field) for each field of `node`, which may be changed in place if `node` is no constant.
template <class T, class Visit>
[[gnu::always_inline]] inline void for_each_field(T& node, Visit&& visit) {
  std::apply([&](auto... entry) { (visit_entry(node, visit, entry), ...); }, T::fields);
}

template <class T, class Same, class Field, class Owner>
bool same_entry(const T& a, const T& b, Same& same, Field Owner::* field) {
  return same(a.*field, b.*field);
}
template <class T, class Same, class Entry>
bool same_entry(const T&, const T&, Same&, Entry) {
  return true;
}

// Does same(a.field, b.field) hold for each field that counts in comparisons?
template <class T, class Same>
bool same_fields(const T& a, const T& b, Same&& same) {
  return std::apply([&](auto... entry) { return (same_entry(a, b, same, entry) && ...); }, T::fields);
}

// Can a field, a list, a record or a node of this type hold a Child (const Expr* or const Stmt*)?
template <class T, class Child>
constexpr bool can_hold();
template <class Child, class Field, class Owner>
constexpr bool entry_can_hold(Field Owner::*) {
  return can_hold<Field, Child>();
}
template <class Child, class Entry>
constexpr bool entry_can_hold(Entry) {
  return false;
}
template <class T, class Child>
constexpr bool can_hold() {
  if constexpr (is_array<T>)
    return can_hold<typename T::value_type, Child>();
  else if constexpr (HasFields<T>)
    return std::apply([](auto... entry) { return (entry_can_hold<Child>(entry) || ...); }, T::fields);
  else
    return std::is_same_v<T, Child>;
}
template <class T>
inline constexpr bool can_hold_children = can_hold<T, const Expr*>() || can_hold<T, const Stmt*>();

// Does a node of this type have children that may be null?
template <class... Members>
constexpr bool is_nullable(Nullable<Members...>) {
  return true;
}
template <class Entry>
constexpr bool is_nullable(Entry) {
  return false;
}
template <class T>
inline constexpr bool has_nullable = std::apply([](auto... entry) { return (is_nullable(entry) || ...); }, T::fields);

// Calls visit for each child that is not null in a field, a list, a record or a node.
template <class T, class Visit>
[[gnu::always_inline]] inline void for_each_child_in(const T& holder, Visit& visit, bool may_be_null = false) {
  if constexpr (is_child<T>) {
    if (!may_be_null || holder) visit(holder);
  } else if constexpr (is_array<T> && can_hold_children<T>) {
    for (const auto& item : holder) for_each_child_in(item, visit);
  } else if constexpr (HasFields<T>) {
    for_each_field(holder, [&](const auto& field) { for_each_child_in(field, visit, has_nullable<T>); });
  }
}

// Calls visit(const Expr*) or visit(const Stmt*) for each direct child that is not null.
template <class Visit>
void for_each_child(const Node* node, Visit&& visit) {
  if (node->kind <= kLastLeaf) return;  // half of all nodes, the quick way
  dispatch(node, [&](const auto& n) { for_each_child_in(n, visit); });
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

// Rebuilds `node` with each child replaced by map(child), through Build::remake. Without `expr`, expressions stay. A
// statement may become null, which removes it.
struct ChildMap {
  void* context;
  const Expr* (*expr)(void* context, const Expr*);
  const Stmt* (*stmt)(void* context, const Stmt*);
};
const Expr* with_children(Arena& arena, const Expr* node, const ChildMap& map);
const Stmt* with_children(Arena& arena, const Stmt* node, const ChildMap& map);

// Post-order rewriting: children first, then change(node), which returns the node itself or another one. `change` is
// called with const Expr* and const Stmt* (overload or generic lambda); a statement may become null, which removes it
// from its sequence.
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
    if constexpr (std::is_convertible_v<decltype(n), const Expr*>)
      return change(n);
    else
      return n;
  };
  return rewrite(arena, node, both);
}
// Only statements change; expressions are not visited: change(const Stmt*) -> const Stmt*.
const Stmt* rewrite_stmts_with(Arena& arena, const Stmt* node, void* context,
                               const Stmt* (*change)(void*, const Stmt*));
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
    for (const auto& [from, to] : entries)
      if (from == var) return to;
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
