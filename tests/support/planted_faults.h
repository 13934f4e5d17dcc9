// Faults that kernels could have, as changes of the program that they are made from.
#pragma once
#include <optional>
#include <vector>

#include "dsl/ir/build.h"
#include "dsl/ir/program.h"
#include "dsl/ir/walk.h"

namespace tw::test {

// The last term of each sum is left out, or that in the middle of its last axis.
inline Program without_a_term(Arena& arena, const Program& program, bool is_last) {
  Build build{arena};
  Program out = program;
  out.body = rewrite_stmts(arena, program.body, [&](const Stmt* stmt) -> const Stmt* {
    const Block* block = as<Block>(stmt);
    const Store* store = block && block->init ? as<Store>(block->body) : nullptr;
    if (!store || store->targets.size() != 1) return stmt;
    const Expr* is_dropped = nullptr;
    for (const IterVar& iter : block->iters) {
      if (iter.kind == IterKind::S) continue;
      const Expr* here =
          build.binary(BinaryOp::Eq, iter.var, build.integer(is_last ? iter.extent - 1 : iter.extent / 2));
      is_dropped = is_last ? build.both(is_dropped, here) : here;
    }
    const Expr* same = build.load(store->targets[0].buffer, store->targets[0].indices);
    const Stmt* changed = build.store(store->targets[0].buffer, store->targets[0].indices,
                                      build.select(is_dropped, same, store->values[0]));
    return build.with_body(block, block->init, changed);
  });
  return out;
}

// Where `is_fault` of an element of the output, given its indices, is true, nothing is written; or, with a `value`,
// that.
template <class IsFault>
Program with_fault(Arena& arena, const Program& program, IsFault&& is_fault,
                   std::optional<double> value = std::nullopt) {
  Build build{arena};
  Program out = program;
  out.body = rewrite_stmts(arena, program.body, [&](const Stmt* stmt) -> const Stmt* {
    const Block* block = as<Block>(stmt);
    const Store* store = block ? as<Store>(block->body) : nullptr;
    if (!store || !is_output(program, store->targets[0].buffer)) return stmt;
    std::vector<const Expr*> iters(store->targets[0].indices.begin(), store->targets[0].indices.end()), loops;
    for (const Expr* index : iters) {
      for (std::size_t i = 0; i < block->iters.size(); ++i) {
        if (block->iters[i].var == index) loops.push_back(block->bindings[i]);
      }
    }
    if (!value) return build.with_bindings(block, block->bindings, build.unary(UnaryOp::Not, is_fault(build, loops)));
    auto changed = [&](const Stmt* part) -> const Stmt* {
      const Store* one = as<Store>(part);
      if (!one) return part;
      const Expr* number = build.number(*value, one->values[0]->type.dtype);
      return build.store(one->targets[0].buffer, one->targets[0].indices,
                         build.select(is_fault(build, iters), number, one->values[0]));
    };
    return build.with_body(block, block->init ? changed(block->init) : nullptr, changed(block->body));
  });
  return out;
}

}  // namespace tw::test
