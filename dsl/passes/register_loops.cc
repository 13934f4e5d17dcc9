#include "dsl/passes/register_loops.h"

#include <algorithm>

#include "dsl/analysis/sum.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/check_intrinsics.h"

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

// The loops of nests that are one instruction, whose accesses to registers are its.
Vars tensorized_vars(const Stmt* body) {
  Vars out;
  for_each<For>(body, [&](const For* nest) {
    if (is_one_instruction(nest)) for_each<For>(nest, [&](const For* loop) { out.push_back(loop->var); });
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

// Does the last index, and no other one, step by one with the variable?
bool is_along(Array<const Expr*> indices, const Var* var) {
  if (indices.empty()) return false;
  Sum last = sum_of(indices.back());
  bool steps = false;
  for (const Sum::Term& term : last.terms) {
    if (term.atom == var)
      steps = term.coefficient == 1;
    else if (uses(term.atom, var))
      return false;
  }
  return last.exact && steps &&
         std::none_of(indices.begin(), indices.end() - 1, [&](const Expr* index) { return uses(index, var); });
}

// One row of a tile goes from registers to memory, perhaps through casts and what follows the sum: its elements are
// independent, and consecutive on both sides. (promote says so itself where the output's index is linear in the loops;
// where some were fused, it is not.)
bool writes_row(const For* loop) {
  const Stmt* body = loop->body;
  if (const If* tail = as<If>(body); tail && !tail->otherwise) body = tail->then;
  const Store* store = as<Store>(body);
  if (!store || store->targets.size() != 1 || store->targets[0].buffer->scope == Scope::Register) return false;
  if (!is_along(store->targets[0].indices, loop->var)) return false;
  bool reads_registers = false, reads_rows = true;
  for_each<Load>(store->values[0], [&](const Load* load) {
    bool moves = std::any_of(load->indices.begin(), load->indices.end(),
                             [&](const Expr* index) { return uses(index, loop->var); });
    reads_registers |= moves && load->buffer->scope == Scope::Register;
    reads_rows &= !moves || is_along(load->indices, loop->var);
  });
  return reads_registers && reads_rows;
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
    bool is_copied = loop->loop_kind == LoopKind::Serial || loop->loop_kind == LoopKind::Unroll;
    if (is_copied && loop->extent > 1 && writes_row(loop)) return build.with_kind(loop, LoopKind::Vectorize);
    return loop->loop_kind == LoopKind::Serial ? build.with_kind(loop, LoopKind::Unroll) : loop;
  });
  if (parallel) {
    return reject("loop `{a}` is parallel and selects a register; a register buffer must lie inside of it",
                  parallel->var->name)
        .about_loop(parallel->id.value);
  }
  return program;
}

}  // namespace tw
