#include "dsl/passes/thread_axes.h"

#include <algorithm>
#include <functional>

#include "dsl/analysis/dependence.h"
#include "dsl/analysis/reducer.h"
#include "dsl/analysis/simplify.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

constexpr Str kBlock = "blockIdx.", kThread = "threadIdx.", kDimensions = "xyz";
constexpr Str kGroups[] = {"blockIdx.x", "blockIdx.y", "blockIdx.z"};

const Stmt* with_device_kinds(Arena& arena, const Stmt* body) {
  Build build{arena};
  Substitution first;
  for_each<For>(body, [&](const For* loop) {
    bool is_known = loop->annotations.empty() || find_annotation(loop->annotations, kMinBlocksMark);
    if (loop->extent == 1 && is_known) first.set(loop->var, build.integer(0));
  });
  if (!first.entries.empty()) body = simplify(arena, substitute(arena, body, first));
  return rewrite_stmts(arena, body, [&](const Stmt* s) -> const Stmt* {
    const For* loop = as<For>(s);
    if (!loop) return s;
    if (loop->extent == 1 && loop->annotations.empty()) return loop->body;
    if (loop->loop_kind == LoopKind::Parallel) return build.with_kind(loop, LoopKind::Serial);
    if (loop->loop_kind != LoopKind::Bind) return s;
    if (!axis_of(loop)) return build.with_kind(loop, LoopKind::Unroll);
    // Its mark is for the whole kernel.
    bool is_kept = loop->extent > 1 || find_annotation(loop->annotations, kMinBlocksMark);
    return is_kept ? loop : build.with_kind(loop, LoopKind::Serial);
  });
}

// Outermost loops that are parallel: blockIdx.x, and .y and .z for those directly inside.
const Stmt* parallel_as_groups(Arena& arena, const Stmt* s, std::size_t dimension) {
  const For* loop = as<For>(s);
  if (!loop || loop->loop_kind != LoopKind::Parallel || dimension == 3) return s;
  For* bound = arena.make<For>(*loop);
  bound->loop_kind = LoopKind::Bind;
  bound->thread = kGroups[dimension];
  bound->body = parallel_as_groups(arena, loop->body, dimension + 1);
  return bound;
}

// The axis with most groups changes places with x, where it is longer than a grid may be: only x may have more than
// 65,535.
const Stmt* with_longest_along_x(Arena& arena, const Stmt* body, const GpuLimits& limits) {
  const auto groups = extents_of(body).groups;
  std::size_t longest = static_cast<std::size_t>(std::max_element(groups.begin(), groups.end()) - groups.begin());
  if (groups[longest] <= limits.groups[longest]) return body;
  return rewrite_stmts(arena, body, [&](const Stmt* s) -> const Stmt* {
    const For* loop = as<For>(s);
    std::optional<ThreadAxis> axis = loop ? axis_of(loop) : std::nullopt;
    if (!axis || axis->is_thread) return s;
    std::size_t at = static_cast<std::size_t>(axis->dimension);
    return Build{arena}.with_kind(loop, LoopKind::Bind, kGroups[at == longest ? 0 : at == 0 ? longest : at]);
  });
}

// Statements of a thread loop of which some have thread loops inside become steps of their own: all work-items take
// the first, then the second. The variable of each copy is its own.
const Stmt* apart(Program& program, Arena& arena, const For* loop) {
  const Seq* seq = as<Seq>(loop->body);
  if (!seq || !is_thread_loop(loop) || !holds_thread_loops(seq)) return loop;
  Build build{arena};
  std::vector<const Stmt*> out;
  for (const Stmt* part : seq->stmts) {
    For* copy = arena.make<For>(*loop);
    if (!out.empty()) {
      copy->id = {program.next_loop++};
      copy->var = build.var(program.next_var++, loop->var->name);
    }
    Substitution fresh;
    fresh.set(loop->var, copy->var);
    copy->body = out.empty() ? part : substitute(arena, part, fresh);
    out.push_back(copy);
  }
  return build.seq(out);
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
  if (!holds_thread_loops(loop->body) || is_thread_nest(loop->body)) return ok();
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

bool holds_thread_loops(const Stmt* s) {
  bool found = false;
  for_each<For>(s, [&](const For* loop) { found |= is_thread_loop(loop); });
  return found;
}

bool is_step(const Stmt* s) {
  if (s->kind == Kind::Store) return true;
  if (const If* branch = as<If>(s)) return !branch->otherwise && is_step(branch->then);
  const For* loop = as<For>(s);
  if (!loop || is_thread_loop(loop)) return loop != nullptr;
  if (axis_of(loop)) return false;
  return !holds_thread_loops(loop->body);
}

Program bind_parallel_loops(Arena& arena, Program program) {
  bool is_bound = false;
  for_each<For>(program.body, [&](const For* loop) { is_bound |= loop->loop_kind == LoopKind::Bind; });
  if (!is_bound) program.body = parallel_as_groups(arena, program.body, 0);
  return program;
}

Result<Program> bind_threads(Arena& arena, Program program, const GpuLimits& limits) {
  program.body = with_device_kinds(arena, program.body);
  program.body = with_longest_along_x(arena, program.body, limits);
  program.body = rewrite_stmts(arena, program.body, [&](const Stmt* s) -> const Stmt* {
    const For* loop = as<For>(s);
    return loop ? apart(program, arena, loop) : s;
  });
  TW_TRY_STATUS(check_nesting(program.body, {}));
  LaunchExtents extents = extents_of(program.body);
  if (extents.threads_of_group() > limits.threads)
    return reject("a work-group has {0} work-items, more than {1}", extents.threads_of_group(), limits.threads);
  if (extents.threads[2] > limits.threads_z)
    return reject("a work-group has {0} work-items along threadIdx.z, more than {1}", extents.threads[2],
                  limits.threads_z);
  for (std::size_t d = 0; d < 3; ++d) {
    if (extents.groups[d] > limits.groups[d])
      return reject("the grid has {0} work-groups along blockIdx.{a}, more than {1}", kDimensions.substr(d, 1),
                    extents.groups[d], limits.groups[d]);
  }
  return program;
}

namespace {

// All work-items of the group take part, so that they can wait for each other.
Status takes_all(const For* combining, const std::vector<const For*>& around, const LaunchExtents& extents) {
  i64 taken = combining->extent;
  for (const For* loop : around) taken *= is_thread_loop(loop) ? loop->extent : 1;
  if (taken == extents.threads_of_group()) return ok();
  return reject("{0} of {1} work-items of a group would combine along loop `{a}`; expected all", combining->var->name,
                taken, extents.threads_of_group())
      .about_loop(combining->id.value);
}

Status check_combining(const Stmt* s, std::vector<const For*>& around, const LaunchExtents& extents) {
  const For* loop = as<For>(s);
  if (loop && loop->extent > 1 && combines_work_items(loop)) {
    TW_TRY_STATUS(work_items_may_combine(loop));
    const Block* block = static_cast<const Block*>(loop->body);
    if (block->predicate) {
      return reject("work-items cannot combine under the predicate of block `{a}`", block->name)
          .about_block(block->id.value);
    }
    return takes_all(loop, around, extents);
  }
  Status status = ok();
  if (loop) around.push_back(loop);
  for_each_child(s, [&](const Node* child) {
    if (status && child->kind >= Kind::Store)
      status = check_combining(static_cast<const Stmt*>(child), around, extents);
  });
  if (loop) around.pop_back();
  return status;
}

}  // namespace

Status check_apart(Arena& arena, const Program& program) {
  VarRanges around;
  Status status = ok();
  std::function<void(const Stmt*)> visit = [&](const Stmt* s) {
    const For* loop = as<For>(s);
    bool is_split = loop && is_thread_loop(loop) && as<Seq>(loop->body) && holds_thread_loops(loop->body);
    if (is_split) status = iterations_may_interleave(arena, program, loop, around);
    std::size_t known = around.size();
    if (loop) around.set_extent(loop->var, loop->extent);
    for_each_child(s, [&](const Node* child) {
      if (status && child->kind >= Kind::Store) visit(static_cast<const Stmt*>(child));
    });
    around.shrink(known);
  };
  visit(program.body);
  return status;
}

Status check_combining(const Program& program) {
  std::vector<const For*> around;
  return check_combining(program.body, around, extents_of(program.body));
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
