#include "dsl/passes/parallel_loops.h"

#include "dsl/analysis/simplify.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

enum class Around : u8 { Nothing, ParallelDirectly, Parallel };

const Stmt* serialize(Arena& arena, const Stmt* s, Around around) {
  struct Below {
    Arena& arena;
    Around around;
  } below{arena, around == Around::Nothing ? Around::Nothing : Around::Parallel};
  const For* loop = as<For>(s);
  if (loop && loop->loop_kind == LoopKind::Parallel) {
    bool stays = loop->extent > 1 && around != Around::Parallel;
    if (stays)
      below.around = Around::ParallelDirectly;
    else if (loop->extent == 1)
      below.around = around;
    if (!stays) loop = Build{arena}.with_kind(loop, LoopKind::Serial);
  }
  ChildMap map{&below, nullptr, [](void* context, const Stmt* child) {
                 auto* b = static_cast<Below*>(context);
                 return serialize(b->arena, child, b->around);
               }};
  return with_children(arena, loop ? loop : s, map);
}

const Stmt* fuse(Arena& arena, const Stmt* s, u32& next_var) {
  Build build{arena};
  return rewrite_stmts(arena, s, [&](const Stmt* stmt) -> const Stmt* {
    const For* outer = as<For>(stmt);
    const For* inner = outer ? as<For>(outer->body) : nullptr;
    if (!inner || outer->loop_kind != LoopKind::Parallel || inner->loop_kind != LoopKind::Parallel) return stmt;
    const Var* fused = build.var(next_var++, outer->var->name);
    Substitution parts;
    parts.set(outer->var, build.floor_div(fused, build.integer(inner->extent)));
    parts.set(inner->var, build.floor_mod(fused, build.integer(inner->extent)));
    For* loop = arena.make<For>(*outer);
    loop->var = fused;
    loop->extent = outer->extent * inner->extent;
    loop->body = substitute(arena, inner->body, parts);
    return loop;
  });
}

}  // namespace

Program unbind_threads(Arena& arena, Program program) {
  Build build{arena};
  bool has_threads = false;
  program.body = rewrite_stmts(arena, program.body, [&](const Stmt* stmt) -> const Stmt* {
    const For* loop = as<For>(stmt);
    if (!loop || loop->loop_kind != LoopKind::Bind) return stmt;
    bool is_group = loop->thread.starts_with("blockIdx");
    has_threads |= !is_group;
    return build.with_kind(loop, is_group ? LoopKind::Parallel : LoopKind::Serial);
  });
  std::vector<const Buffer*> locals(program.locals.begin(), program.locals.end());
  for (const Buffer*& local : locals) {
    // Registers of several threads are an array that their loops step through.
    bool is_memory = local->scope == Scope::Shared || local->scope == Scope::Local ||
                     (local->scope == Scope::Register && has_threads);
    if (!is_memory) continue;
    Buffer* global = arena.make<Buffer>(*local);
    global->scope = Scope::Global;
    program.body = replace_buffer(arena, program.body, local, global);
    local = global;
  }
  program.locals = arena.copy(locals);
  return program;
}

Program serialize_inner_parallel(Arena& arena, Program program, bool allowed) {
  if (program.body) program.body = serialize(arena, program.body, allowed ? Around::Nothing : Around::Parallel);
  return program;
}

Program fuse_parallel_loops(Arena& arena, Program program) {
  const Stmt* body = fuse(arena, program.body, program.next_var);
  program.body = body == program.body ? body : simplify(arena, body);
  return program;
}

}  // namespace tw
