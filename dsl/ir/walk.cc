#include "dsl/ir/walk.h"

#include <algorithm>

namespace tw {
namespace {

// The list itself if nothing changed, else a new one.
template <class T, class Map>
Array<const T*> map_list(Arena& arena, Array<const T*> list, Map map) {
  const T* stack[16];
  List<const T*> longer;
  const T** out = stack;
  if (list.size() > 16) {
    longer.resize(list.size());
    out = longer.data();
  }
  bool changed = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    out[i] = map(list[i]);
    changed |= out[i] != list[i];
  }
  return changed ? arena.copy(out, list.size()) : list;
}

// Replaces the children that a field holds; true if one changed.
struct MapFields {
  Arena& arena;
  const ChildMap& map;

  const Expr* mapped(const Expr* e) const { return map.expr(map.context, e); }
  const Stmt* mapped(const Stmt* s) const { return map.stmt(map.context, s); }

  // Is there anything to map in a T?
  template <class T>
  bool concerns() const {
    return can_hold<T, const Stmt*>() || (can_hold<T, const Expr*>() && map.expr);
  }

  template <class T>
  [[gnu::always_inline]] bool all_of(T& holder) const {
    bool changed = false;
    for_each_field(holder, [&](auto& field) { changed |= of_field(field, has_nullable<T>); });
    return changed;
  }

 private:
  template <class T>
  [[gnu::always_inline]] bool of_field(T& field, bool may_be_null) const {
    if constexpr (!can_hold_children<T>)
      return false;
    else if constexpr (is_child<T>)
      return of_child(field, may_be_null);
    else
      return concerns<T>() && of_list(field);
  }
  template <class T>
  [[gnu::always_inline]] bool of_child(T& child, bool may_be_null) const {
    if ((may_be_null && !child) || !concerns<T>()) return false;
    T before = std::exchange(child, mapped(child));
    return child != before;
  }
  template <class T>
  [[gnu::always_inline]] bool of_list(Array<T>& items) const {
    const T* before = items.data();
    if constexpr (is_child<T>) {
      items = map_list(arena, items, [&](T item) { return mapped(item); });
    } else {
      List<T> records(items.begin(), items.end());
      bool changed = false;
      for (T& record : records) changed |= all_of(record);
      if (changed) items = arena.copy(records);
    }
    return items.data() != before;
  }
};

template <class T>
const T* rebuilt(Arena& arena, const T* node, const ChildMap& map) {
  if (node->kind <= kLastLeaf) return node;
  MapFields fields{arena, map};
  const Node* out = dispatch(node, [&](const auto& n) -> const Node* {
    using Kept = std::decay_t<decltype(n)>;
    if constexpr (can_hold_children<Kept>) {
      if (!fields.template concerns<Kept>()) return node;
      Kept copy = n;
      if (fields.all_of(copy)) return Build{arena}.remake(copy);
    }
    return node;
  });
  return static_cast<const T*>(out);
}

}  // namespace

const Expr* with_children(Arena& arena, const Expr* node, const ChildMap& map) { return rebuilt(arena, node, map); }
const Stmt* with_children(Arena& arena, const Stmt* node, const ChildMap& map) { return rebuilt(arena, node, map); }

namespace {
struct StmtRewrite {
  Arena& arena;
  void* context;
  const Stmt* (*change)(void*, const Stmt*);
  const Stmt* operator()(const Stmt* node) {
    ChildMap map{this, nullptr, [](void* self, const Stmt* s) { return (*static_cast<StmtRewrite*>(self))(s); }};
    const Stmt* rebuilt = with_children(arena, node, map);
    return rebuilt ? change(context, rebuilt) : nullptr;
  }
};
}  // namespace

const Stmt* rewrite_stmts_with(Arena& arena, const Stmt* node, void* context,
                               const Stmt* (*change)(void*, const Stmt*)) {
  return node ? StmtRewrite{arena, context, change}(node) : nullptr;
}

namespace {
// Not a Rewriter: what replaces a variable may hold that variable again (v -> v + 1), and folding may bring it to the
// top of the rebuilt parent (v - 1 -> v), where it must not be replaced a second time.
struct Substituter {
  Arena& arena;
  const Substitution& replacements;
  const Expr* operator()(const Expr* e) {
    if (const Var* var = as<Var>(e)) {
      const Expr* value = replacements.find(var);
      return value ? value : e;
    }
    return with_children(arena, e, map());
  }
  const Stmt* operator()(const Stmt* s) { return with_children(arena, s, map()); }
  ChildMap map() {
    return {this, [](void* self, const Expr* e) { return (*static_cast<Substituter*>(self))(e); },
            [](void* self, const Stmt* s) { return (*static_cast<Substituter*>(self))(s); }};
  }
};
}  // namespace

const Expr* substitute(Arena& arena, const Expr* node, const Substitution& map) {
  return node ? Substituter{arena, map}(node) : nullptr;
}
const Stmt* substitute(Arena& arena, const Stmt* node, const Substitution& map) {
  return node ? Substituter{arena, map}(node) : nullptr;
}

bool uses(const Node* node, const Var* var) {
  bool found = false;
  walk(node, [&](const Node* n) {
    found |= n == var;
    return !found;
  });
  return found;
}

bool any_uses(Array<const Expr*> indices, const Var* var) {
  return std::any_of(indices.begin(), indices.end(), [&](const Expr* index) { return uses(index, var); });
}

int nesting_of(const Stmt* root) {
  if (!root) return 0;
  int below = 0;
  if (root->kind != Kind::Store) {
    for_each_child(root, [&](const auto* child) {
      if constexpr (std::is_convertible_v<decltype(child), const Stmt*>) below = std::max(below, nesting_of(child));
    });
  }
  return below + 1;
}

const Stmt* replace_buffer(Arena& arena, const Stmt* node, const Buffer* from, const Buffer* to) {
  Build build{arena};
  auto change = [&](auto* n) {
    if constexpr (std::is_convertible_v<decltype(n), const Expr*>) {
      const Expr* e = n;
      if (const Load* load = as<Load>(e); load && load->buffer == from) return build.load(to, load->indices);
      return e;
    } else {
      const Stmt* s = n;
      const Store* store = as<Store>(s);
      if (!store) return s;
      List<StoreTarget> targets(store->targets.begin(), store->targets.end());
      bool changed = false;
      for (StoreTarget& target : targets) {
        if (target.buffer == from) {
          target.buffer = to;
          changed = true;
        }
      }
      return changed ? build.store(arena.copy(targets), store->values) : s;
    }
  };
  return rewrite(arena, node, change);
}

}  // namespace tw
