#include "dsl/passes/register_loops.h"

#include <algorithm>

#include "dsl/ir/walk.h"
#include "dsl/passes/check_intrinsics.h"
#include "dsl/passes/warp_mma.h"

namespace tw {
namespace {

using Vars = std::vector<const Var*>;

bool contains(const Vars& vars, const Var* var) { return std::find(vars.begin(), vars.end(), var) != vars.end(); }

void add_vars(Array<const Expr*> indices, Vars& out) {
  for (const Expr* index : indices) {
    for_each<Var>(index, [&](const Var* var) {
      if (!contains(out, var)) out.push_back(var);
    });
  }
}

// The loops of tensorized nests, whose accesses to registers are those of the intrinsic.
Vars tensorized_vars(const Stmt* body) {
  Vars out;
  for_each<For>(body, [&](const For* nest) {
    if (is_tensorized(nest) || find_annotation(nest->annotations, kWarpMmaMark)) for_each<For>(nest, [&](const For* loop) { out.push_back(loop->var); });
  });
  return out;
}

Vars register_vars(const Stmt* body) {
  Vars out;
  walk(body, [&](const Node* node) {
    const Load* load = as<Load>(node);
    if (load && load->buffer->scope == Scope::Register) add_vars(load->indices, out);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) {
        if (target.buffer->scope == Scope::Register) add_vars(target.indices, out);
      }
    }
    return true;
  });
  Vars inside = tensorized_vars(body);
  std::erase_if(out, [&](const Var* var) { return contains(inside, var); });
  return out;
}

}  // namespace

Result<Program> unroll_register_loops(Arena& arena, Program program) {
  Vars vars = register_vars(program.body);
  if (vars.empty()) return program;
  Build build{arena};
  const For* parallel = nullptr;
  program.body = rewrite_stmts(arena, program.body, [&](const Stmt* s) -> const Stmt* {
    const For* loop = as<For>(s);
    if (!loop || !contains(vars, loop->var)) return s;
    if (loop->loop_kind == LoopKind::Parallel) parallel = loop;
    return loop->loop_kind == LoopKind::Serial ? build.with_kind(loop, LoopKind::Unroll) : loop;
  });
  if (parallel) {
    return reject("loop `{a}` is parallel and selects a register; a register buffer must lie inside of it", parallel->var->name)
        .about_loop(parallel->id.value);
  }
  return program;
}

}  // namespace tw
