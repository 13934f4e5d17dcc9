#include "dsl/passes/flatten_buffers.h"

#include <algorithm>

#include "dsl/analysis/simplify.h"
#include "dsl/analysis/sum.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

class Flattening {
 public:
  explicit Flattening(Arena& arena) : arena_(arena), build_{arena} {}

  const Buffer* flat(const Buffer* buffer) {
    for (const auto& [from, to] : buffers_) {
      if (from == buffer) return to;
    }
    Buffer* copy = arena_.make<Buffer>(*buffer);
    copy->shape = arena_.list<i64>({stored_elements_of(buffer)});
    copy->stride_rules = {};
    if (std::optional<XorLayout> layout = xor_layout(buffer))
      copy->layout = arena_.text(cat(kXorLayout, layout->bits, " ", layout->span));
    buffers_.emplace_back(buffer, copy);
    return copy;
  }

  const Stmt* stmt(const Stmt* s) {
    if (const For* loop = as<For>(s)) {
      std::size_t known = ranges_.size();
      ranges_.set_extent(loop->var, loop->extent);
      loops_.push_back(loop);
      const Stmt* body = stmt(loop->body);
      loops_.pop_back();
      ranges_.shrink(known);
      return build_.with_body(loop, body);
    }
    if (const Alloc* alloc = as<Alloc>(s)) return build_.alloc(flat(alloc->buffer), stmt(alloc->body));
    const Stmt* rebuilt = with_children(arena_, s, map());
    const Store* store = as<Store>(rebuilt);
    if (!store) return rebuilt;
    std::vector<StoreTarget> targets(store->targets.begin(), store->targets.end());
    for (StoreTarget& target : targets) target = {flat(target.buffer), flat_index(target.buffer, target.indices)};
    return build_.store(arena_.copy(targets), store->values);
  }

 private:
  ChildMap map() {
    return {this, [](void* self, const Expr* e) { return static_cast<Flattening*>(self)->expr(e); },
            [](void* self, const Stmt* s) { return static_cast<Flattening*>(self)->stmt(s); }};
  }

  const Expr* expr(const Expr* e) {
    const Expr* rebuilt = with_children(arena_, e, map());
    const Load* load = as<Load>(rebuilt);
    return load ? build_.load(flat(load->buffer), flat_index(load->buffer, load->indices)) : rebuilt;
  }

  Array<const Expr*> flat_index(const Buffer* buffer, Array<const Expr*> indices) {
    Sum sum;
    std::vector<i64> strides = strides_of(buffer);
    for (std::size_t d = indices.size(); d-- > 0;) sum.collect(indices[d], strides[d]);
    if (!sum.exact) return arena_.list<const Expr*>({nested_index(buffer, indices)});
    bool linear =
        std::all_of(sum.terms.begin(), sum.terms.end(), [](const Sum::Term& t) { return t.atom->kind == Kind::Var; });
    if (!linear) sum = sum_of(simplify(arena_, to_expr(arena_, sum), ranges_));
    std::stable_sort(sum.terms.begin(), sum.terms.end(),
                     [&](const Sum::Term& a, const Sum::Term& b) { return order(a.atom) < order(b.atom); });
    return arena_.list<const Expr*>({to_expr(arena_, sum)});
  }

  // For indices that are no sum of few terms.
  const Expr* nested_index(const Buffer* buffer, Array<const Expr*> indices) {
    std::vector<i64> strides = strides_of(buffer);
    const Expr* index = build_.integer(0);
    for (std::size_t d = 0; d < indices.size(); ++d) index = build_.add(index, build_.mul(indices[d], strides[d]));
    return index;
  }

  // The depth of the innermost loop that an atom depends on; loops whose bodies will be copied count as innermost of
  // all.
  std::size_t order(const Expr* atom) const {
    std::size_t innermost = 0;
    for (std::size_t depth = 0; depth < loops_.size(); ++depth) {
      if (atom != loops_[depth]->var && (atom->kind == Kind::Var || !uses(atom, loops_[depth]->var))) continue;
      bool copied = loops_[depth]->loop_kind == LoopKind::Unroll || loops_[depth]->loop_kind == LoopKind::Vectorize;
      innermost = std::max(innermost, copied ? loops_.size() + depth : depth);
    }
    return innermost;
  }

  Arena& arena_;
  Build build_;
  std::vector<std::pair<const Buffer*, const Buffer*>> buffers_;
  std::vector<const For*> loops_;
  VarRanges ranges_;
};

}  // namespace

Program flatten_buffers(Arena& arena, Program program) {
  Flattening flattening(arena);
  std::vector<Param> params;
  std::vector<const Buffer*> locals;
  for (const Param& param : program.params) params.push_back({flattening.flat(param.buffer), param.role});
  for (const Buffer* local : program.locals) locals.push_back(flattening.flat(local));
  program.params = arena.copy(params);
  program.locals = arena.copy(locals);
  if (program.body) program.body = flattening.stmt(program.body);
  return program;
}

}  // namespace tw
