#include "dsl/passes/thread_axes.h"

#include <algorithm>

#include "dsl/analysis/simplify.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

constexpr Str kBlock = "blockIdx.", kThread = "threadIdx.", kDimensions = "xyz";

const Stmt* with_device_kinds(Arena& arena, const Stmt* body) {
  Build build{arena};
  Substitution first;
  for_each<For>(body, [&](const For* loop) {
    if (loop->extent == 1 && loop->annotations.empty()) first.set(loop->var, build.integer(0));
  });
  if (!first.entries.empty()) body = simplify(arena, substitute(arena, body, first));
  return rewrite_stmts(arena, body, [&](const Stmt* s) -> const Stmt* {
    const For* loop = as<For>(s);
    if (!loop) return s;
    if (loop->extent == 1 && loop->annotations.empty()) return loop->body;
    if (loop->loop_kind == LoopKind::Parallel) return build.with_kind(loop, LoopKind::Serial);
    if (loop->loop_kind != LoopKind::Bind) return s;
    if (!axis_of(loop)) return build.with_kind(loop, LoopKind::Unroll);
    return loop->extent == 1 ? build.with_kind(loop, LoopKind::Serial) : loop;
  });
}

// The thread loop that is directly inside of a statement, conditions aside.
bool is_thread_nest(const Stmt* s) {
  const If* branch = as<If>(s);
  if (branch && !branch->otherwise) return is_thread_nest(branch->then);
  const For* loop = as<For>(s);
  return loop && is_thread_loop(loop);
}

// Threads of a step do the same things: a step is one nest of threadIdx loops around the rest.
Status check_step(const For* loop) {
  bool has_inner = false;
  for_each<For>(loop->body, [&](const For* inner) { has_inner |= is_thread_loop(inner); });
  if (!has_inner || is_thread_nest(loop->body)) return ok();
  return reject("loop `{a}` is bound to {b} and has loops over threads inside that are not directly in it",
                loop->var->name, loop->thread)
      .about_loop(loop->id.value);
}

// What is around a loop.
struct Around {
  bool axes[2][3] = {};    // [is_thread][dimension]
  bool is_serial = false;  // something other than blockIdx loops
};

Status check_nesting(const Stmt* s, Around around) {
  Status status = ok();
  const For* loop = as<For>(s);
  std::optional<ThreadAxis> axis = loop ? axis_of(loop) : std::nullopt;
  if (axis) {
    bool& taken = around.axes[axis->is_thread][axis->dimension];
    if (taken)
      return reject("loop `{a}` is inside of another loop that is bound to {b}", loop->var->name, loop->thread)
          .about_loop(loop->id.value);
    taken = true;
    if (!axis->is_thread && around.is_serial) {
      return reject("loop `{a}` is bound to {b}, but something other than loops over groups is around it",
                    loop->var->name, loop->thread)
          .about_loop(loop->id.value);
    }
    if (axis->is_thread) TW_TRY_STATUS(check_step(loop));
  }
  around.is_serial |= !axis || axis->is_thread;
  for_each_child(s, [&](const Node* child) {
    bool is_stmt = child->kind >= Kind::Store;
    if (status && is_stmt) status = check_nesting(static_cast<const Stmt*>(child), around);
  });
  return status;
}

}  // namespace

std::optional<ThreadAxis> axis_of(const For* loop) {
  if (loop->loop_kind != LoopKind::Bind) return std::nullopt;
  bool is_thread = loop->thread.starts_with(kThread);
  if (!is_thread && !loop->thread.starts_with(kBlock)) return std::nullopt;
  return ThreadAxis{is_thread, static_cast<int>(kDimensions.find(loop->thread.back()))};
}

bool is_step(const Stmt* s) {
  if (s->kind == Kind::Store) return true;
  if (const If* branch = as<If>(s)) return !branch->otherwise && is_step(branch->then);
  const For* loop = as<For>(s);
  if (!loop || is_thread_loop(loop)) return loop != nullptr;
  if (axis_of(loop)) return false;
  bool holds_steps = false;
  for_each<For>(loop->body, [&](const For* inner) { holds_steps |= is_thread_loop(inner); });
  return !holds_steps;
}

Result<Program> bind_threads(Arena& arena, Program program, const GpuLimits& limits) {
  program.body = with_device_kinds(arena, program.body);
  TW_TRY_STATUS(check_nesting(program.body, {}));
  i64 threads = extents_of(program.body).threads_of_group();
  if (threads > limits.threads)
    return reject("a work-group has {0} work-items, more than {1}", threads, limits.threads);
  return program;
}

LaunchExtents extents_of(const Stmt* kernel) {
  LaunchExtents out;
  for_each<For>(kernel, [&](const For* loop) {
    std::optional<ThreadAxis> axis = axis_of(loop);
    if (!axis) return;
    i64& extent = (axis->is_thread ? out.threads : out.groups)[static_cast<std::size_t>(axis->dimension)];
    extent = std::max(extent, loop->extent);
  });
  return out;
}

}  // namespace tw
