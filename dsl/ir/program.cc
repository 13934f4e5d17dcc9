#include "dsl/ir/program.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <unordered_map>

#include "dsl/ir/walk.h"

namespace tw {

const char* name_of(Role role) {
  constexpr const char* names[] = {"input", "const", "output"};
  return names[static_cast<int>(role)];
}

const Param* find_param(const Program& program, const Buffer* buffer) {
  for (const Param& param : program.params) {
    if (param.buffer == buffer) return &param;
  }
  return nullptr;
}

bool is_constant_param(const Program& program, const Buffer* buffer) {
  const Param* param = find_param(program, buffer);
  return param && param->role == Role::Constant;
}

bool is_output(const Program& program, const Buffer* buffer) {
  const Param* param = find_param(program, buffer);
  return param && param->role == Role::Output;
}

std::optional<std::size_t> ring_axis(const Buffer* buffer) {
  std::string_view layout = buffer->layout;
  if (!layout.starts_with(kRingLayout)) return std::nullopt;
  layout.remove_prefix(kRingLayout.size());
  std::size_t axis = 0;
  auto [end, error] = std::from_chars(layout.data(), layout.data() + layout.size(), axis);
  bool is_axis = error == std::errc() && end == layout.data() + layout.size() && axis < buffer->shape.size();
  return is_axis ? std::optional(axis) : std::nullopt;
}

i64 xor_span(i64 row_bytes) {
  constexpr i64 kBanks = 128;
  return static_cast<i64>(std::bit_ceil(static_cast<u64>(std::max(row_bytes, kBanks))));
}

std::optional<XorLayout> xor_layout(const Buffer* buffer) {
  std::string_view layout = buffer->layout;
  if (!layout.starts_with(kXorLayout)) return std::nullopt;
  XorLayout out{0, 0};
  const char* end = layout.data() + layout.size();
  auto [behind, error] = std::from_chars(layout.data() + kXorLayout.size(), end, out.bits);
  if (error != std::errc() || out.bits < 1 || out.bits > kMostXorBits) return std::nullopt;
  bool has_span = behind != end && *behind == ' ' && std::from_chars(behind + 1, end, out.span).ptr == end;
  if (has_span && out.span >= xor_span(0) && std::has_single_bit(static_cast<u64>(out.span))) return out;
  if (behind != end) return std::nullopt;
  std::vector<i64> strides = strides_of(buffer);
  out.span = xor_span(strides.size() < 2 ? 0 : strides[strides.size() - 2] * bytes_of(buffer->dtype));
  return out;
}

bool has_free_layout(const Program& program, const Buffer* buffer) {
  const Param* param = find_param(program, buffer);
  if (!param || param->role != Role::Input) return false;
  const Annotation* mark = find_annotation(program.annotations, "layout_free");
  return mark && mark->value.integer == 1;
}

bool is_prepackable(const Program& program, const Buffer* buffer) { return is_constant_param(program, buffer) || has_free_layout(program, buffer); }

void mark_free_layout(OwnedProgram& owned) {
  std::vector<Annotation> marks(owned.program.annotations.begin(), owned.program.annotations.end());
  marks.push_back({"layout_free", Literal::of(1)});
  owned.program.annotations = owned.arena->copy(marks);
}

i64 elements_of(const Buffer* buffer) {
  i64 count = 1;
  for (i64 extent : buffer->shape) count *= extent;
  return count;
}

std::vector<i64> strides_of(const Buffer* buffer) {
  std::vector<i64> strides(buffer->shape.size());
  i64 stride = 1;
  for (std::size_t d = strides.size(); d-- > 0;) {
    for (const StrideRule& rule : buffer->stride_rules) {
      if (rule.axis == static_cast<i64>(d)) stride += (rule.offset + rule.factor - stride % rule.factor) % rule.factor;
    }
    strides[d] = stride;
    stride *= buffer->shape[d];
  }
  return strides;
}

i64 stored_elements_of(const Buffer* buffer) {
  i64 stored = elements_of(buffer);
  if (!buffer->stride_rules.empty()) {
    std::vector<i64> strides = strides_of(buffer);
    stored = 1;
    for (std::size_t d = 0; d < strides.size(); ++d) stored += (buffer->shape[d] - 1) * strides[d];
  }
  if (buffer->layout.empty()) return stored;
  // Whole groups of the pieces that are exchanged with each other.
  std::optional<XorLayout> layout = xor_layout(buffer);
  i64 group = layout ? (kXorBytes << layout->bits) / bytes_of(buffer->dtype) : 1;
  return (stored + group - 1) / group * group;
}

namespace {

// Copies nodes deeply; buffers and variables are copied once and shared as before.
class Cloner {
 public:
  explicit Cloner(Arena& arena) : arena_(arena) {}

  const Buffer* buffer(const Buffer* old) {
    auto [at, added] = buffers_.try_emplace(old, nullptr);
    if (added) {
      Buffer* copy = arena_.make<Buffer>(*old);
      copy->name = arena_.text(old->name);
      copy->shape = arena_.copy(old->shape);
      copy->layout = arena_.text(old->layout);
      copy->stride_rules = arena_.copy(old->stride_rules);
      at->second = copy;
    }
    return at->second;
  }
  Array<Annotation> annotations(Array<Annotation> old) {
    std::vector<Annotation> list(old.begin(), old.end());
    for (Annotation& annotation : list) {
      annotation.key = arena_.text(annotation.key);
      annotation.value = copy_of(arena_, annotation.value);
    }
    return arena_.copy(list);
  }
  const Var* var(const Var* old) {
    auto [at, added] = vars_.try_emplace(old, nullptr);
    if (added) at->second = Build{arena_}.var(old->id, arena_.text(old->name));
    return at->second;
  }
  const Expr* expr(const Expr* e) {
    switch (e->kind) {
      case Kind::Var: return var(static_cast<const Var*>(e));
      case Kind::IntImm: return arena_.make<IntImm>(*static_cast<const IntImm*>(e));
      case Kind::FloatImm: return arena_.make<FloatImm>(*static_cast<const FloatImm*>(e));
      case Kind::Load: {
        auto* n = static_cast<const Load*>(e);
        return Build{arena_}.load(buffer(n->buffer), exprs(n->indices));
      }
      default: return with_children(arena_, e, map());
    }
  }
  Array<const Expr*> exprs(Array<const Expr*> list) {
    std::vector<const Expr*> out;
    for (const Expr* e : list) out.push_back(expr(e));
    return arena_.copy(out);
  }
  const Stmt* stmt(const Stmt* s) {
    if (const Store* store = as<Store>(s)) {
      std::vector<StoreTarget> targets;
      for (const StoreTarget& target : store->targets) targets.push_back({buffer(target.buffer), exprs(target.indices)});
      return Build{arena_}.store(arena_.copy(targets), exprs(store->values));
    }
    if (const For* loop = as<For>(s)) {
      For* copy = arena_.make<For>(*loop);
      copy->var = var(loop->var);
      copy->thread = arena_.text(loop->thread);
      copy->annotations = annotations(loop->annotations);
      copy->body = stmt(loop->body);
      return copy;
    }
    if (const Block* block = as<Block>(s)) return clone_block(block);
    if (const Alloc* alloc = as<Alloc>(s)) return Build{arena_}.alloc(buffer(alloc->buffer), stmt(alloc->body));
    return with_children(arena_, s, map());
  }

 private:
  const Stmt* clone_block(const Block* block) {
    Block* copy = arena_.make<Block>(*block);
    copy->name = arena_.text(block->name);
    std::vector<IterVar> iters(block->iters.begin(), block->iters.end());
    for (IterVar& iter : iters) iter.var = var(iter.var);
    copy->iters = arena_.copy(iters);
    copy->bindings = exprs(block->bindings);
    copy->predicate = block->predicate ? expr(block->predicate) : nullptr;
    copy->init = block->init ? stmt(block->init) : nullptr;
    copy->body = stmt(block->body);
    copy->annotations = annotations(block->annotations);
    return copy;
  }
  ChildMap map() {
    return {this, [](void* self, const Expr* e) { return static_cast<Cloner*>(self)->expr(e); },
            [](void* self, const Stmt* s) { return static_cast<Cloner*>(self)->stmt(s); }};
  }

  Arena& arena_;
  std::unordered_map<const Buffer*, const Buffer*> buffers_;
  std::unordered_map<const Var*, const Var*> vars_;
};

}  // namespace

OwnedProgram clone(const Program& program) {
  OwnedProgram out{std::make_shared<Arena>(), program};
  Cloner cloner(*out.arena);
  std::vector<Param> params;
  for (const Param& param : program.params) params.push_back({cloner.buffer(param.buffer), param.role});
  std::vector<const Buffer*> locals;
  for (const Buffer* local : program.locals) locals.push_back(cloner.buffer(local));
  out.program.name = out.arena->text(program.name);
  out.program.params = out.arena->copy(params);
  out.program.locals = out.arena->copy(locals);
  out.program.annotations = cloner.annotations(program.annotations);
  out.program.body = cloner.stmt(program.body);
  return out;
}

}  // namespace tw
