#include "backends/device_form.h"

#include "dsl/ir/build.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/thread_axes.h"

namespace tw {
namespace {

constexpr u32 kFirstUnused = 1u << 30;  // ids of arguments that no kernel touches

// Private buffers outside of steps, one copy for each work-item.
class Expansion {
 public:
  Expansion(Arena& arena, const LaunchExtents& extents) : arena_(arena), build_{arena}, extents_(extents) {}

  const Stmt* stmt(const Stmt* s) {
    if (const For* loop = as<For>(s)) {
      bool is_thread = is_thread_loop(loop);
      if (is_thread) threads_.push_back(loop);
      const Stmt* body = stmt(loop->body);
      if (is_thread) threads_.pop_back();
      return build_.with_body(loop, body);
    }
    if (const Alloc* alloc = as<Alloc>(s); alloc && threads_.empty() && is_private(alloc->buffer)) {
      Buffer* copy = arena_.make<Buffer>(*alloc->buffer);
      copy->shape = arena_.list<i64>({elements_of(copy) * extents_.threads_of_group()});
      copy->scope = Scope::Local;
      copies_.emplace_back(alloc->buffer, copy);
      const Stmt* body = stmt(alloc->body);
      copies_.pop_back();
      return build_.alloc(copy, body);
    }
    const Stmt* out = with_children(arena_, s, map());
    const Store* store = as<Store>(out);
    if (!store) return out;
    std::vector<StoreTarget> targets(store->targets.begin(), store->targets.end());
    for (StoreTarget& target : targets) {
      if (const Buffer* copy = copy_of(target.buffer)) target = {copy, moved(target.buffer, target.indices)};
    }
    return build_.store(arena_.copy(targets), store->values);
  }

 private:
  ChildMap map() {
    return {this, [](void* self, const Expr* e) { return static_cast<Expansion*>(self)->expr(e); },
            [](void* self, const Stmt* s) { return static_cast<Expansion*>(self)->stmt(s); }};
  }
  static bool is_private(const Buffer* buffer) {
    return buffer->scope == Scope::Local || buffer->scope == Scope::Register;
  }

  const Expr* expr(const Expr* e) {
    const Expr* out = with_children(arena_, e, map());
    const Load* load = as<Load>(out);
    const Buffer* copy = load ? copy_of(load->buffer) : nullptr;
    return copy ? build_.load(copy, moved(load->buffer, load->indices)) : out;
  }

  const Buffer* copy_of(const Buffer* buffer) const {
    for (const auto& [from, to] : copies_) {
      if (from == buffer) return to;
    }
    return nullptr;
  }

  Array<const Expr*> moved(const Buffer* buffer, Array<const Expr*> indices) {
    const Expr* item = build_.integer(0);
    for (std::size_t d = 0; d < 3; ++d) {
      item = build_.mul(item, extents_.threads[d]);
      for (const For* loop : threads_) {
        if (axis_of(loop)->dimension == static_cast<int>(d)) item = build_.add(item, loop->var);
      }
    }
    const Expr* offset = build_.mul(item, elements_of(buffer));
    const Expr* index = indices[0];
    if (const Ramp* ramp = as<Ramp>(index)) {
      index = build_.ramp(build_.add(ramp->base, offset), ramp->stride, ramp->type.lanes);
    } else if (const Broadcast* all = as<Broadcast>(index)) {
      index = build_.broadcast(build_.add(all->value, offset), all->type.lanes);
    } else {
      index = build_.add(index, offset);
    }
    return arena_.list<const Expr*>({index});
  }

  Arena& arena_;
  Build build_;
  LaunchExtents extents_;
  std::vector<const For*> threads_;
  std::vector<std::pair<const Buffer*, const Buffer*>> copies_;
};

LoweredFunction function_of(Arena& arena, Array<GpuKernel> kernels, Array<LoweredArgument> described) {
  std::vector<Placement> arguments, scratch;
  for (std::size_t i = 0; i < described.size(); ++i) {
    i64 elements = 1;
    for (i64 extent : described[i].shape) elements *= extent;
    BufferId id{static_cast<u32>(kFirstUnused + i)};
    for (const GpuKernel& kernel : kernels) {
      for (const KernelParam& param : kernel.params) {
        if (!param.is_scratch && param.at == static_cast<i64>(i)) id = param.buffer->id;
      }
    }
    auto* buffer = arena.make<Buffer>(id, described[i].name, described[i].dtype, arena.list<i64>({elements}),
                                      Scope::Global, Str{});
    arguments.push_back({buffer, Place::Argument, static_cast<i64>(i)});
  }
  std::vector<const Stmt*> bodies;
  for (const GpuKernel& kernel : kernels) {
    const Stmt* body = Expansion(arena, kernel.extents).stmt(kernel.body);
    for (const KernelParam& param : kernel.params) {
      if (param.is_scratch)
        scratch.push_back({param.buffer, Place::SharedScratch, param.at});
      else
        body = replace_buffer(arena, body, param.buffer, arguments[static_cast<std::size_t>(param.at)].buffer);
    }
    bodies.push_back(body);
  }
  return {arena.copy(arguments), arena.copy(scratch), Build{arena}.seq(bodies)};
}

}  // namespace

LoweredProgram as_interpreted(Arena& arena, const LoweredGpuProgram& program) {
  LoweredProgram out;
  out.run_arguments = program.run_arguments;
  out.run = function_of(arena, program.run, program.run_arguments);
  out.prepack_arguments = program.prepack_arguments;
  if (!program.prepack.empty()) out.prepack = function_of(arena, program.prepack, program.prepack_arguments);
  out.scratch_shared_bytes = program.scratch_bytes;
  return out;
}

}  // namespace tw
