// Makes small scheduled programs for the tests of the passes.
#pragma once
#include <functional>
#include <vector>

#include "dsl/ir/build.h"
#include "dsl/ir/program.h"

namespace tw {

using Exprs = std::vector<const Expr*>;

struct ProgramMaker {
  Arena arena;
  Build build{arena};
  Program program;
  std::vector<Param> params;
  std::vector<const Buffer*> locals;

  const Buffer* buffer(Str name, std::vector<i64> shape, Scope scope = Scope::Global, DType dtype = DType::F32) {
    return arena.make<Buffer>(BufferId{program.next_buffer++}, name, dtype, arena.copy(shape), scope);
  }
  const Buffer* param(Str name, std::vector<i64> shape, Role role, DType dtype = DType::F32) {
    params.push_back({buffer(name, std::move(shape), Scope::Global, dtype), role});
    return params.back().buffer;
  }
  const Buffer* local(Str name, std::vector<i64> shape, Scope scope = Scope::Global) {
    locals.push_back(buffer(name, std::move(shape), scope));
    return locals.back();
  }
  Program finish(const Stmt* body) {
    program.name = "test";
    program.params = arena.copy(params);
    program.locals = arena.copy(locals);
    program.body = body;
    return program;
  }

  const Var* var(Str name) { return build.var(program.next_var++, name); }
  const Expr* load(const Buffer* from, const Exprs& indices) { return build.load(from, arena.copy(indices)); }
  const Expr* number(double value) { return build.number(value, DType::F32); }
  const Stmt* store(const Buffer* to, const Exprs& indices, const Expr* value) {
    return build.store(to, arena.copy(indices), value);
  }

  // for name in extent { body(variable) }
  const Stmt* loop(Str name, i64 extent, LoopKind kind, const std::function<const Stmt*(const Var*)>& body) {
    const Var* v = var(name);
    return build.loop({program.next_loop++}, v, extent, body(v), kind);
  }
  const Stmt* loop(Str name, i64 extent, const std::function<const Stmt*(const Var*)>& body) {
    return loop(name, extent, LoopKind::Serial, body);
  }

  struct Iter {
    Str name;
    i64 extent;
    IterKind kind;
    const Expr* binding;
    const Expr* where = nullptr;  // must hold, too
  };
  using Body = std::function<const Stmt*(const Exprs& iters)>;
  // Guards every binding that may leave its domain when `guard` is set.
  const Stmt* block(Str name, const std::vector<Iter>& iters, bool guard, const Body& body, const Body& init = nullptr,
                    std::vector<Annotation> annotations = {}) {
    std::vector<IterVar> vars;
    Exprs bindings, names;
    const Expr* predicate = nullptr;
    for (const Iter& iter : iters) {
      vars.push_back({var(iter.name), iter.extent, iter.kind});
      bindings.push_back(iter.binding);
      names.push_back(vars.back().var);
      if (guard) predicate = build.both(predicate, build.lt(iter.binding, iter.extent));
      predicate = build.both(predicate, iter.where);
    }
    Block* out = arena.make<Block>(Stmt{{Kind::Block}}, BlockId{program.next_block++}, name, arena.copy(vars),
                                   arena.copy(bindings), predicate, init ? init(names) : nullptr, body(names),
                                   arena.copy(annotations));
    return out;
  }
};

}  // namespace tw
