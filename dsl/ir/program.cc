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

bool is_prepackable(const Program& program, const Buffer* buffer) {
  return is_constant_param(program, buffer) || has_free_layout(program, buffer);
}

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

  const Buffer* copy(const Buffer* old) {
    auto [at, added] = buffers_.try_emplace(old, nullptr);
    if (added) {
      Buffer* made = arena_.make<Buffer>(*old);
      made->name = copy(old->name);
      made->shape = copy(old->shape);
      made->layout = copy(old->layout);
      made->stride_rules = copy(old->stride_rules);
      at->second = made;
    }
    return at->second;
  }
  const Var* copy(const Var* old) {
    auto [at, added] = vars_.try_emplace(old, nullptr);
    if (added) at->second = copy_of_node(*old);
    return at->second;
  }
  const Expr* copy(const Expr* old) {
    if (const Var* var = as<Var>(old)) return copy(var);
    return static_cast<const Expr*>(copy_of_child(old));
  }
  const Stmt* copy(const Stmt* old) { return static_cast<const Stmt*>(copy_of_child(old)); }
  Str copy(Str old) { return arena_.text(old); }
  Annotation copy(const Annotation& old) { return {copy(old.key), copy_of(arena_, old.value)}; }
  template <class T>
  Array<T> copy(Array<T> old) {
    List<T> items;
    for (const T& item : old) items.push_back(copy(item));
    return arena_.copy(items);
  }
  template <class T>
  T copy(const T& old) {  // a record; or a value that points to nothing
    T made = old;
    if constexpr (HasFields<T>)
      copy_fields(made);
    else
      static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T> || is_one_of<T, LoopId, BlockId, StrideRule>);
    return made;
  }

 private:
  template <class T, class... Known>
  static constexpr bool is_one_of = (std::is_same_v<T, Known> || ...);

  template <class T>
  void copy_fields(T& node) {
    for_each_field(node, [&](auto& field) { field = copy(field); });
  }
  template <class T>
  const T* copy_of_node(const T& old) {
    T* made = arena_.make<T>(old);
    copy_fields(*made);
    return made;
  }
  const Node* copy_of_child(const Node* old) {
    return old ? dispatch(old, [&](const auto& n) -> const Node* { return copy_of_node(n); }) : nullptr;
  }

  Arena& arena_;
  std::unordered_map<const Buffer*, const Buffer*> buffers_;
  std::unordered_map<const Var*, const Var*> vars_;
};

}  // namespace

OwnedProgram clone(const Program& program) {
  OwnedProgram out{std::make_shared<Arena>(), program};
  Cloner cloner(*out.arena);
  out.program.name = cloner.copy(program.name);
  out.program.params = cloner.copy(program.params);
  out.program.locals = cloner.copy(program.locals);
  out.program.annotations = cloner.copy(program.annotations);
  out.program.body = cloner.copy(program.body);
  return out;
}

}  // namespace tw
