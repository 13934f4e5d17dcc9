// Short names for writing lowered programs by hand in tests: buffers of rank 1, loads, stores, loops.
#pragma once
#include <initializer_list>
#include <vector>

#include "dsl/ir/build.h"
#include "dsl/passes/lower.h"

namespace tw {

class LoweredKit {
 public:
  explicit LoweredKit() : build{arena_} {}
  Arena& arena() { return arena_; }

  // An argument of `run`, in order of these calls.
  const Buffer* argument(DType dtype, i64 elements, bool is_output = false) {
    const Buffer* made = buffer(dtype, elements);
    arguments_.push_back({made, Place::Argument, static_cast<i64>(arguments_.size())});
    described_.push_back({made->name, is_output, false, false, dtype, made->shape});
    return made;
  }
  const Buffer* output(DType dtype, i64 elements) { return argument(dtype, elements, true); }
  const Buffer* buffer(DType dtype, i64 elements, Scope scope = Scope::Global) {
    ++buffers_;
    return arena_.make<Buffer>(BufferId{buffers_}, arena_.text("b" + std::to_string(buffers_)), dtype,
                               arena_.list<i64>({elements}), scope, Str{});
  }
  const Var* var() { return build.var(++vars_, "i"); }
  const Expr* load(const Buffer* from, const Expr* index) {
    return build.load(from, arena_.list<const Expr*>({index}));
  }
  const Stmt* store(const Buffer* to, const Expr* index, const Expr* value) {
    return build.store(to, arena_.list<const Expr*>({index}), value);
  }
  const For* loop(const Var* var, i64 extent, const Stmt* body, LoopKind kind = LoopKind::Serial) {
    return build.loop(LoopId{var->id}, var, extent, body, kind);
  }
  // base, base + stride, ...; as many as `lanes`, or base alone.
  const Expr* ramp(const Expr* base, int lanes, i64 stride = 1) {
    return build.ramp(base, build.integer(stride), lanes);
  }
  const Expr* wide(const Expr* value, int lanes) { return build.broadcast(value, lanes); }
  const Expr* call(Function function, std::initializer_list<const Expr*> arguments) {
    return build.call(function, arena_.list<const Expr*>(arguments));
  }

  LoweredProgram program(const Stmt* body, std::vector<Placement> scratch = {}) {
    LoweredProgram lowered;
    lowered.run = {arena_.copy(arguments_), arena_.copy(scratch), body};
    lowered.run_arguments = arena_.copy(described_);
    return lowered;
  }

 private:
  Arena arena_;

 public:
  Build build;

 private:
  std::vector<Placement> arguments_;
  std::vector<LoweredArgument> described_;
  u32 buffers_ = 0, vars_ = 0;
};

}  // namespace tw
