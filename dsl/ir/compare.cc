#include "dsl/ir/compare.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "dsl/ir/walk.h"

namespace tw {
namespace {

// Writes a program as a canonical sequence of words: equal sequences mean structurally equal programs. Variables and
// buffers are numbered as they are first met. Lookup tables are small vectors: programs have tens of variables.
class Canonical {
 public:
  enum class Form { Exact, Normalized };
  explicit Canonical(Form form = Form::Exact) : form_(form) {}

  std::vector<u64> words;

  void program(const Program& p) {
    words.reserve(512);
    put(p.params.size());
    for (const Param& param : p.params) {
      put(static_cast<u64>(param.role));
      buffer(param.buffer);
    }
    put(p.locals.size());
    put_double(p.tolerance.absolute);
    put_double(p.tolerance.relative);
    annotations(p.annotations);
    if (p.body) stmt(p.body);
  }

 private:
  void put(u64 word) { words.push_back(word); }
  void put_double(double value) {
    u64 bits;
    std::memcpy(&bits, &value, sizeof bits);
    put(bits);
  }
  void put_text(Str text) { put(XXH3_64bits(text.data(), text.size())); }

  template <class T>
  static std::pair<u64, bool> number(std::vector<const T*>& known, const T* item) {
    for (std::size_t i = known.size(); i-- > 0;) {
      if (known[i] == item) return {i, false};
    }
    known.push_back(item);
    return {known.size() - 1, true};
  }

  void buffer(const Buffer* b) {
    auto [index, is_new] = number(buffers_, b);
    put(index);
    if (!is_new) return;
    put(static_cast<u64>(b->dtype) << 8 | static_cast<u64>(b->scope));
    put(b->shape.size());
    for (i64 extent : b->shape) put(static_cast<u64>(extent));
    if (!b->layout.empty()) put_text(b->layout);
    for (const StrideRule& rule : b->stride_rules) {
      for (i64 part : {rule.axis, rule.factor, rule.offset}) put(static_cast<u64>(part));
    }
  }
  void variable(const Var* v) { put(number(vars_, v).first); }
  void annotations(Array<Annotation> list) {
    put(list.size());
    for (const Annotation& a : list) {
      put_text(a.key);
      literal(a.value);
    }
  }
  void literal(const Literal& value) {
    switch (value.tag) {
      case Literal::Tag::Int:
        return put(static_cast<u64>(value.integer));
      case Literal::Tag::Text:
        return put_text(value.text);
      case Literal::Tag::Number:
        return put_double(value.number);
      case Literal::Tag::List:
      case Literal::Tag::Dictionary:
        break;
    }
    put(static_cast<u64>(value.tag));
    put(value.items.size());
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      if (value.is(Literal::Tag::Dictionary)) put_text(value.keys[i]);
      put(static_cast<u64>(value.items[i].tag));
      literal(value.items[i]);
    }
  }
  // ---- normal form: constant + sum of coefficient * variable, with the variables of unit loops left out

  struct Affine {
    i64 constant = 0;
    std::vector<std::pair<u64, i64>> terms;  // number of the variable, coefficient
  };

  bool add_affine(const Expr* e, i64 factor, Affine& sum) {
    if (e->kind == Kind::IntImm) return sum.constant += factor * static_cast<const IntImm*>(e)->value, true;
    if (e->kind == Kind::Var) {
      auto* v = static_cast<const Var*>(e);
      if (std::find(unit_vars_.begin(), unit_vars_.end(), v) == unit_vars_.end())
        sum.terms.emplace_back(number(vars_, v).first, factor);
      return true;
    }
    if (e->kind != Kind::Binary) return false;
    auto* n = static_cast<const Binary*>(e);
    if (n->op == BinaryOp::Add) return add_affine(n->a, factor, sum) && add_affine(n->b, factor, sum);
    if (n->op == BinaryOp::Sub) return add_affine(n->a, factor, sum) && add_affine(n->b, -factor, sum);
    if (n->op != BinaryOp::Mul) return false;
    if (n->b->kind == Kind::IntImm) return add_affine(n->a, factor * static_cast<const IntImm*>(n->b)->value, sum);
    if (n->a->kind == Kind::IntImm) return add_affine(n->b, factor * static_cast<const IntImm*>(n->a)->value, sum);
    return false;
  }

  bool put_affine(const Expr* e) {
    Affine sum;
    if (!add_affine(e, 1, sum)) return false;
    std::sort(sum.terms.begin(), sum.terms.end());
    put(kAffine);
    put(static_cast<u64>(sum.constant));
    for (std::size_t i = 0; i < sum.terms.size();) {
      u64 variable = sum.terms[i].first;
      i64 coefficient = 0;
      for (; i < sum.terms.size() && sum.terms[i].first == variable; ++i) coefficient += sum.terms[i].second;
      if (coefficient == 0) continue;
      put(variable);
      put(static_cast<u64>(coefficient));
    }
    put(kAffine);
    return true;
  }

  void expr(const Expr* e) {
    if (form_ == Form::Normalized && e->type.dtype == DType::I64 && e->type.lanes == 1 && put_affine(e)) return;
    put(static_cast<u64>(e->kind) << 32 | static_cast<u64>(e->type.dtype) << 16 | e->type.lanes);
    dispatch(e, [&](const auto& n) { node(n); });
  }

  // A loop of one iteration on no thread axis and without annotations.
  static bool is_unit_loop(const Stmt* s) {
    if (s->kind != Kind::For) return false;
    auto* loop = static_cast<const For*>(s);
    return loop->extent == 1 && loop->thread.empty() && loop->annotations.empty();
  }

  void stmt(const Stmt* s) {
    if (form_ == Form::Normalized && is_unit_loop(s)) {
      unit_vars_.push_back(static_cast<const For*>(s)->var);
      return stmt(static_cast<const For*>(s)->body);
    }
    put(static_cast<u64>(s->kind) << 48);
    dispatch(s, [&](const auto& n) { node(n); });
  }

  // ---- a node, field by field

  void node(const Var& v) { variable(&v); }
  template <class T>
  void node(const T& n) {
    std::apply([&](auto... entry) { (put_entry(n, entry), ...); }, T::fields);
  }
  template <class T, class Field>
  void put_entry(const T& n, Field T::* field) {
    if constexpr (is_child<Field> && has_nullable<T>) {
      if (!(n.*field)) return;
    }
    put_field(n.*field);
  }
  template <class T, class Member>
  void put_entry(const T&, Uncompared<Member>) {}
  template <class T, class... Members>
  void put_entry(const T& n, Nullable<Members...> nullable) {
    u64 present = 0, bit = 1;
    auto note = [&](const Node* child) { present |= child ? bit : 0, bit <<= 1; };
    std::apply([&](auto... member) { (note(n.*member), ...); }, nullable.members);
    put(present);
  }

  // What a field of each type adds. There is no conversion between them, so that a field of a new type does not
  // compile.
  template <class T>
    requires std::is_enum_v<T> || std::is_same_v<T, i64>
  void put_field(T value) {
    put(static_cast<u64>(value));
  }
  template <std::same_as<double> T>
  void put_field(T value) {
    put_double(value);
  }
  void put_field(const Expr* child) { expr(child); }
  void put_field(const Stmt* child) { stmt(child); }
  void put_field(const Var* defined) { variable(defined); }
  void put_field(const Buffer* used) { buffer(used); }
  void put_field(Str text) {
    if (!text.empty()) put_text(text);
  }
  void put_field(Array<Annotation> list) { annotations(list); }
  template <class T>
  void put_field(Array<T> list) {
    put(list.size());
    for (const T& item : list) put_field(item);
  }
  void put_field(Array<StoreTarget> list) {  // as many as there are values
    for (const StoreTarget& target : list) node(target);
  }
  void put_field(const IterVar& iter) {  // extent and kind in one word
    variable(iter.var);
    put(static_cast<u64>(iter.extent) << 1 | static_cast<u64>(iter.kind));
  }

  static constexpr u64 kAffine = 0xaff1'0000'0000'0000;
  const Form form_;
  std::vector<const Var*> vars_, unit_vars_;
  std::vector<const Buffer*> buffers_;
};

Hash128 hash_of(const std::vector<u64>& words) {
  return hash_bytes({reinterpret_cast<const char*>(words.data()), words.size() * sizeof(u64)});
}

}  // namespace

std::string to_hex(Hash128 hash) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out(32, '0');
  for (int i = 0; i < 16; ++i) {
    out[15 - i] = digits[hash.high >> (4 * i) & 15];
    out[31 - i] = digits[hash.low >> (4 * i) & 15];
  }
  return out;
}

std::optional<Hash128> parse_hash(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  Hash128 hash;
  for (std::size_t i = 0; i < 32; ++i) {
    char c = hex[i];
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    u64& half = i < 16 ? hash.high : hash.low;
    half = half << 4 | static_cast<u64>(digit);
  }
  return hash;
}

Hash128 hash_bytes(std::string_view bytes) {
  XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

Hash128 structural_hash(const Program& program) {
  Canonical canonical;
  canonical.program(program);
  return hash_of(canonical.words);
}

Hash128 normalized_hash(const Program& program) {
  Canonical canonical(Canonical::Form::Normalized);
  canonical.program(program);
  return hash_of(canonical.words);
}

bool structurally_equal(const Program& a, const Program& b) {
  Canonical left, right;
  left.program(a);
  right.program(b);
  return left.words == right.words;
}

}  // namespace tw
