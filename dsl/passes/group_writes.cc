#include "dsl/passes/group_writes.h"

#include <algorithm>
#include <limits>
#include <map>

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

// The last nest that becomes a kernel, as lower_gpu has it, with its loops bound to the axes of the grid; without a body if there is none.
Result<Program> last_kernel(Arena& arena, const Program& scheduled) {
  TW_TRY(EntryPoints entries, split_entry_points(arena, scheduled));
  TW_TRY(SplitKernels split, split_kernels(arena, skip_identity_terms(arena, entries.run)));
  for (std::size_t i = split.kernels.size(); i-- > 0;) {
    Program nest = lower_blocks(arena, bind_parallel_loops(arena, split.kernels[i].program));
    if (nest.body) return bind_threads(arena, nest, kNoLimits);
  }
  return Program{};
}

// The stores to outputs with what is around them, the number of the group in place of their values.
class Writes {
 public:
  Writes(Arena& arena, const Program& kernel, const Program& scheduled) : build_{arena}, groups_(extents_of(kernel.body).groups) {
    u32 next_buffer = kernel.next_buffer;
    for (const Param& param : kernel.params) {
      if (!is_output(scheduled, param.buffer)) continue;
      Buffer* numbers = arena.make<Buffer>(Buffer{.id = {next_buffer++}, .name = param.buffer->name, .dtype = DType::I32, .shape = param.buffer->shape});
      numbers_of_[param.buffer] = numbers;
    }
  }

  // Null: nothing is stored. `group`: the number, as far as loops around are over groups.
  const Stmt* stmt(const Stmt* s, const Expr* group) {
    switch (s->kind) {
      case Kind::Store: return store(static_cast<const Store*>(s), group);
      case Kind::For: return loop(static_cast<const For*>(s), group);
      case Kind::If: return branch(static_cast<const If*>(s), group);
      default: return seq(static_cast<const Seq*>(s), group);
    }
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
      if (std::find(written_.begin(), written_.end(), numbers->second) == written_.end()) written_.push_back(numbers->second);
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
    const Stmt *then = stmt(branch->then, group), *otherwise = branch->otherwise ? stmt(branch->otherwise, group) : nullptr;
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

}  // namespace

std::optional<Program> group_writes(Arena& arena, const Program& scheduled) {
  Result<Program> kernel = last_kernel(arena, scheduled);
  if (!kernel || !kernel->body) return std::nullopt;
  std::array<i64, 3> groups = extents_of(kernel->body).groups;
  if (static_cast<double>(groups[0]) * static_cast<double>(groups[1]) * static_cast<double>(groups[2]) > std::numeric_limits<std::int32_t>::max())
    return std::nullopt;
  Writes writes(arena, *kernel, scheduled);
  Program out = *kernel;
  out.name = "writes", out.body = writes.stmt(kernel->body, Build{arena}.integer(0));
  bool depends_on_data = false;
  for_each<Load>(out.body, [&](const Load*) { depends_on_data = true; });
  if (!out.body || depends_on_data) return std::nullopt;
  out.params = arena.copy(writes.written()), out.locals = {}, out.annotations = {};
  return out;
}

}  // namespace tw
