#include "dsl/passes/widen.h"

#include "dsl/ir/walk.h"

namespace tw {
namespace {

class Widening {
 public:
  explicit Widening(Arena& arena) : arena_(arena), build_{arena} {}

  const Buffer* widen(const Buffer* buffer) {
    if (!is_float(buffer->dtype) || buffer->dtype == DType::F64) return buffer;
    Buffer* copy = arena_.make<Buffer>(*buffer);
    copy->dtype = DType::F64;
    buffers_.emplace_back(buffer, copy);
    return copy;
  }

  // Called on nodes whose children are widened already.
  const Expr* operator()(const Expr* e) const {
    if (const Load* load = as<Load>(e)) {
      const Expr* loaded = load->buffer == find(load->buffer) ? e : build_.load(find(load->buffer), load->indices);
      return is_float(loaded->type.dtype) ? build_.cast(DType::F64, loaded) : loaded;
    }
    if (const FloatImm* imm = as<FloatImm>(e))
      return imm->type.dtype == DType::F64 ? e : build_.number(imm->value, DType::F64);
    const Cast* cast = as<Cast>(e);
    if (!cast || !is_float(cast->type.dtype) || cast->type.dtype == DType::F64) return e;
    return build_.cast(DType::F64, cast->value);
  }
  const Stmt* operator()(const Stmt* s) const {
    const Store* store = as<Store>(s);
    if (!store) return s;
    std::vector<StoreTarget> targets(store->targets.begin(), store->targets.end());
    bool changed = false;
    for (StoreTarget& target : targets) {
      changed |= find(target.buffer) != target.buffer;
      target.buffer = find(target.buffer);
    }
    return changed ? build_.store(arena_.copy(targets), store->values) : s;
  }

 private:
  const Buffer* find(const Buffer* buffer) const {
    for (const auto& [from, to] : buffers_) {
      if (from == buffer) return to;
    }
    return buffer;
  }
  Arena& arena_;
  Build build_;
  std::vector<std::pair<const Buffer*, const Buffer*>> buffers_;
};

}  // namespace

Program widen_to_f64(Arena& arena, const Program& program) {
  Program out = program;
  Widening widening(arena);
  std::vector<Param> params(program.params.begin(), program.params.end());
  for (Param& param : params) {
    if (param.role == Role::Output) param.buffer = widening.widen(param.buffer);
  }
  std::vector<const Buffer*> locals;
  for (const Buffer* local : program.locals) locals.push_back(widening.widen(local));
  out.params = arena.copy(params);
  out.locals = arena.copy(locals);
  out.body = rewrite(arena, program.body, widening);
  return out;
}

}  // namespace tw
