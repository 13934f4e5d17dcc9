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

bool same(Array<const Expr*> a, Array<const Expr*> b) { return a.data() == b.data(); }

}  // namespace

const Expr* with_children(Arena& arena, const Expr* node, const ChildMap& map) {
  Build build{arena};
  auto each = [&](const Expr* e) { return map.expr(map.context, e); };
  switch (node->kind) {
    case Kind::Cast: {
      auto* n = static_cast<const Cast*>(node);
      const Expr* value = each(n->value);
      return value == n->value ? node : build.cast(n->type.dtype, value);
    }
    case Kind::Unary: {
      auto* n = static_cast<const Unary*>(node);
      const Expr* value = each(n->value);
      return value == n->value ? node : build.unary(n->op, value);
    }
    case Kind::Broadcast: {
      auto* n = static_cast<const Broadcast*>(node);
      const Expr* value = each(n->value);
      return value == n->value ? node : build.broadcast(value, n->type.lanes);
    }
    case Kind::Binary: {
      auto* n = static_cast<const Binary*>(node);
      const Expr *a = each(n->a), *b = each(n->b);
      return a == n->a && b == n->b ? node : build.binary(n->op, a, b);
    }
    case Kind::Ramp: {
      auto* n = static_cast<const Ramp*>(node);
      const Expr *base = each(n->base), *stride = each(n->stride);
      return base == n->base && stride == n->stride ? node : build.ramp(base, stride, n->type.lanes);
    }
    case Kind::Select: {
      auto* n = static_cast<const Select*>(node);
      const Expr *c = each(n->condition), *a = each(n->then), *b = each(n->otherwise);
      return c == n->condition && a == n->then && b == n->otherwise ? node : build.select(c, a, b);
    }
    case Kind::Call: {
      auto* n = static_cast<const Call*>(node);
      Array<const Expr*> arguments = map_list(arena, n->arguments, each);
      return same(arguments, n->arguments) ? node : build.call(n->function, arguments);
    }
    case Kind::Load: {
      auto* n = static_cast<const Load*>(node);
      Array<const Expr*> indices = map_list(arena, n->indices, each);
      return same(indices, n->indices) ? node : build.load(n->buffer, indices);
    }
    default: return node;
  }
}

const Stmt* with_children(Arena& arena, const Stmt* node, const ChildMap& map) {
  Build build{arena};
  auto each_expr = [&](const Expr* e) { return map.expr ? map.expr(map.context, e) : e; };
  auto each = [&](const Stmt* s) { return map.stmt(map.context, s); };
  switch (node->kind) {
    case Kind::Store: {
      auto* n = static_cast<const Store*>(node);
      if (!map.expr) return node;
      Array<const Expr*> values = map_list(arena, n->values, each_expr);
      bool changed = !same(values, n->values);
      List<StoreTarget> targets(n->targets.begin(), n->targets.end());
      for (StoreTarget& target : targets) {
        Array<const Expr*> indices = map_list(arena, target.indices, each_expr);
        changed |= !same(indices, target.indices);
        target.indices = indices;
      }
      return changed ? build.store(arena.copy(targets), values) : node;
    }
    case Kind::Seq: {
      auto* n = static_cast<const Seq*>(node);
      Array<const Stmt*> stmts = map_list(arena, n->stmts, each);
      if (stmts.data() == n->stmts.data()) return node;
      return build.seq(stmts);
    }
    case Kind::If: {
      auto* n = static_cast<const If*>(node);
      const Expr* condition = each_expr(n->condition);
      const Stmt* then = each(n->then);
      const Stmt* otherwise = n->otherwise ? each(n->otherwise) : nullptr;
      if (condition == n->condition && then == n->then && otherwise == n->otherwise) return node;
      if (!then && !otherwise) return nullptr;
      if (!then) return build.if_then(build.unary(UnaryOp::Not, condition), otherwise);
      return build.if_then(condition, then, otherwise);
    }
    case Kind::For: {
      auto* n = static_cast<const For*>(node);
      const Stmt* body = each(n->body);
      return body ? static_cast<const Stmt*>(build.with_body(n, body)) : nullptr;
    }
    case Kind::Block: {
      auto* n = static_cast<const Block*>(node);
      Array<const Expr*> bindings = map.expr ? map_list(arena, n->bindings, each_expr) : n->bindings;
      const Expr* predicate = n->predicate ? each_expr(n->predicate) : nullptr;
      const Stmt* init = n->init ? each(n->init) : nullptr;
      const Stmt* body = each(n->body);
      if (!body) return nullptr;
      if (is_constant(predicate, 1)) predicate = nullptr;
      if (same(bindings, n->bindings) && predicate == n->predicate && init == n->init && body == n->body) return node;
      Block* copy = arena.make<Block>(*n);
      copy->bindings = bindings;
      copy->predicate = predicate;
      copy->init = init;
      copy->body = body;
      return copy;
    }
    case Kind::Alloc: {
      auto* n = static_cast<const Alloc*>(node);
      const Stmt* body = each(n->body);
      if (!body) return nullptr;
      return body == n->body ? node : build.alloc(n->buffer, body);
    }
    default: return node;
  }
}

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

const Stmt* rewrite_stmts_with(Arena& arena, const Stmt* node, void* context, const Stmt* (*change)(void*, const Stmt*)) {
  return node ? StmtRewrite{arena, context, change}(node) : nullptr;
}

namespace {
// Not a Rewriter: what replaces a variable may hold that variable again (v -> v + 1), and folding may bring it to the top of the
// rebuilt parent (v - 1 -> v), where it must not be replaced a second time.
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
  if (root->kind > Kind::Store) {
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
