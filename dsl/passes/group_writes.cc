#include "dsl/passes/group_writes.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "dsl/ir/walk.h"
#include "dsl/passes/lower_blocks.h"
#include "dsl/passes/skip_identity_terms.h"
#include "dsl/passes/split_entry_points.h"
#include "dsl/passes/split_kernels.h"
#include "dsl/passes/thread_axes.h"

namespace tw {
namespace {

// The limits of the device do not matter here: they decide whether a program is a kernel, not which group writes what.
constexpr GpuLimits kNoLimits{.threads = std::numeric_limits<i64>::max(), .threads_z = std::numeric_limits<i64>::max()};

Result<SplitKernels> kernels_of(Arena& arena, const Program& scheduled) {
  TW_TRY(EntryPoints entries, split_entry_points(arena, scheduled));
  return split_kernels(arena, skip_identity_terms(arena, entries.run));
}

// A nest as lower_gpu has it, with its loops bound to the axes of the grid; without a body if it becomes no kernel.
Result<Program> bound(Arena& arena, const Program& kernel) {
  Program nest = lower_blocks(arena, bind_parallel_loops(arena, kernel));
  if (!nest.body) return nest;
  return bind_threads(arena, nest, kNoLimits);
}

// The stores to some of a kernel's buffers with what is around them, the number of the group in place of their values.
class Writes {
 public:
  Writes(Arena& arena, const Program& kernel, const std::function<bool(const Buffer*)>& is_wanted)
      : build_{arena}, groups_(extents_of(kernel.body).groups) {
    u32 next_buffer = kernel.next_buffer;
    for (const Param& param : kernel.params) {
      if (!is_wanted(param.buffer)) continue;
      Buffer* numbers = arena.make<Buffer>(
          Buffer{.id = {next_buffer++}, .name = param.buffer->name, .dtype = DType::I32, .shape = param.buffer->shape});
      numbers_of_[param.buffer] = numbers;
    }
  }

  // Null: nothing is stored. `group`: the number, as far as loops around are over groups.
  const Stmt* stmt(const Stmt* s, const Expr* group) {
    switch (s->kind) {
      case Kind::Store:
        return store(static_cast<const Store*>(s), group);
      case Kind::For:
        return loop(static_cast<const For*>(s), group);
      case Kind::If:
        return branch(static_cast<const If*>(s), group);
      case Kind::Seq:
        return seq(static_cast<const Seq*>(s), group);
      default:
        break;
    }
    TW_CHECK(false, "a statement that kernels do not have");
  }

  std::vector<Param> written() const {
    std::vector<Param> out;
    for (const Buffer* buffer : written_) out.push_back({buffer, Role::Output});
    return out;
  }

 private:
  const Stmt* store(const Store* store, const Expr* group) {
    std::vector<const Stmt*> out;
    for (const StoreTarget& target : store->targets) {
      auto numbers = numbers_of_.find(target.buffer);
      if (numbers == numbers_of_.end()) continue;
      if (std::find(written_.begin(), written_.end(), numbers->second) == written_.end())
        written_.push_back(numbers->second);
      out.push_back(build_.store(numbers->second, target.indices, build_.cast(DType::I32, group)));
    }
    return build_.seq(out);
  }

  const Stmt* loop(const For* loop, const Expr* group) {
    std::optional<ThreadAxis> axis = axis_of(loop);
    if (axis && !axis->is_thread) {
      i64 groups_before = 1;
      for (int d = 0; d < axis->dimension; ++d) groups_before *= groups_[static_cast<std::size_t>(d)];
      group = build_.add(group, build_.mul(loop->var, groups_before));
    }
    const Stmt* body = stmt(loop->body, group);
    if (!body) return nullptr;
    // Loops along sums, most of the work, are dropped.
    bool is_used = false;
    for_each<Var>(body, [&](const Var* var) { is_used |= var == loop->var; });
    return is_used ? build_.loop(loop->id, loop->var, loop->extent, body) : body;
  }

  const Stmt* branch(const If* branch, const Expr* group) {
    const Stmt *then = stmt(branch->then, group),
               *otherwise = branch->otherwise ? stmt(branch->otherwise, group) : nullptr;
    if (then) return build_.if_then(branch->condition, then, otherwise);
    return otherwise ? build_.if_then(build_.unary(UnaryOp::Not, branch->condition), otherwise) : nullptr;
  }

  const Stmt* seq(const Seq* seq, const Expr* group) {
    std::vector<const Stmt*> out;
    for (const Stmt* part : seq->stmts) out.push_back(stmt(part, group));
    return build_.seq(out);
  }

  Build build_;
  std::array<i64, 3> groups_;
  std::map<const Buffer*, const Buffer*> numbers_of_;
  std::vector<const Buffer*> written_;
};

std::optional<Program> numbers_of(Arena& arena, const Program& kernel,
                                  const std::function<bool(const Buffer*)>& is_wanted) {
  std::array<i64, 3> groups = extents_of(kernel.body).groups;
  if (static_cast<double>(groups[0]) * static_cast<double>(groups[1]) * static_cast<double>(groups[2]) >
      std::numeric_limits<std::int32_t>::max())
    return std::nullopt;
  Writes writes(arena, kernel, is_wanted);
  Program out = kernel;
  out.name = "writes", out.body = writes.stmt(kernel.body, Build{arena}.integer(0));
  if (!out.body) return std::nullopt;
  bool depends_on_data = false;
  for_each<Load>(out.body, [&](const Load*) { depends_on_data = true; });
  if (depends_on_data) return std::nullopt;
  out.params = arena.copy(writes.written()), out.locals = {}, out.annotations = {};
  return out;
}

}  // namespace

std::optional<Program> group_writes(Arena& arena, const Program& scheduled) {
  Result<SplitKernels> split = kernels_of(arena, scheduled);
  for (std::size_t i = split ? split->kernels.size() : 0; i-- > 0;) {
    Result<Program> kernel = bound(arena, split->kernels[i].program);
    if (!kernel) return std::nullopt;
    if (kernel->body)
      return numbers_of(arena, *kernel, [&](const Buffer* buffer) { return is_output(scheduled, buffer); });
  }
  return std::nullopt;
}

std::vector<ScratchWrites> scratch_writes(Arena& arena, const Program& scheduled) {
  Result<SplitKernels> split = kernels_of(arena, scheduled);
  std::vector<ScratchWrites> out;
  for (std::size_t k = 0; split && k < split->kernels.size(); ++k) {
    const SplitKernel& one = split->kernels[k];
    Result<Program> kernel = bound(arena, one.program);
    if (!kernel) return {};
    if (!kernel->body) continue;
    ScratchWrites writes;
    std::set<const Buffer*> scratch;
    for (std::size_t i = 0; i < one.params.size(); ++i) {
      const Buffer* buffer = one.program.params[i].buffer;
      if (!one.params[i].is_scratch) continue;
      scratch.insert(buffer);
      writes.places.push_back({buffer->name, one.params[i].at, bytes_of(buffer), bytes_of(buffer->dtype)});
    }
    writes.numbers = numbers_of(arena, *kernel, [&](const Buffer* buffer) { return scratch.contains(buffer); });
    out.push_back(std::move(writes));
  }
  if (!out.empty()) out.pop_back();
  return out;
}

}  // namespace tw
