#include "dsl/ir/compare.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace tw {
namespace {

// Writes a program as a canonical sequence of words: equal sequences mean structurally equal programs. Variables and buffers
// are numbered as they are first met. Lookup tables are small vectors: programs have tens of variables.
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
  void var(const Var* v) { put(number(vars_, v).first); }
  void annotations(Array<Annotation> list) {
    put(list.size());
    for (const Annotation& a : list) {
      put_text(a.key);
      literal(a.value);
    }
  }
  void literal(const Literal& value) {
    switch (value.tag) {
      case Literal::Tag::Int: return put(static_cast<u64>(value.integer));
      case Literal::Tag::Text: return put_text(value.text);
      case Literal::Tag::Number: return put_double(value.number);
      case Literal::Tag::List: case Literal::Tag::Dictionary: break;
    }
    put(static_cast<u64>(value.tag));
    put(value.items.size());
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      if (value.is(Literal::Tag::Dictionary)) put_text(value.keys[i]);
      put(static_cast<u64>(value.items[i].tag));
      literal(value.items[i]);
    }
  }
  void exprs(Array<const Expr*> list) {
    put(list.size());
    for (const Expr* e : list) expr(e);
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
      if (std::find(unit_vars_.begin(), unit_vars_.end(), v) == unit_vars_.end()) sum.terms.emplace_back(number(vars_, v).first, factor);
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
    switch (e->kind) {
      case Kind::IntImm: return put(static_cast<u64>(static_cast<const IntImm*>(e)->value));
      case Kind::FloatImm: return put_double(static_cast<const FloatImm*>(e)->value);
      case Kind::Var: return var(static_cast<const Var*>(e));
      case Kind::Cast: return expr(static_cast<const Cast*>(e)->value);
      case Kind::Broadcast: return expr(static_cast<const Broadcast*>(e)->value);
      case Kind::Unary: {
        auto* n = static_cast<const Unary*>(e);
        put(static_cast<u64>(n->op));
        return expr(n->value);
      }
      case Kind::Binary: {
        auto* n = static_cast<const Binary*>(e);
        put(static_cast<u64>(n->op));
        expr(n->a);
        return expr(n->b);
      }
      case Kind::Ramp: {
        auto* n = static_cast<const Ramp*>(e);
        expr(n->base);
        return expr(n->stride);
      }
      case Kind::Select: {
        auto* n = static_cast<const Select*>(e);
        expr(n->condition);
        expr(n->then);
        return expr(n->otherwise);
      }
      case Kind::Call: {
        auto* n = static_cast<const Call*>(e);
        put(static_cast<u64>(n->function));
        return exprs(n->arguments);
      }
      case Kind::Load: {
        auto* n = static_cast<const Load*>(e);
        buffer(n->buffer);
        return exprs(n->indices);
      }
      default: return;
    }
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
    switch (s->kind) {
      case Kind::Store: {
        auto* n = static_cast<const Store*>(s);
        exprs(n->values);
        for (const StoreTarget& t : n->targets) {
          buffer(t.buffer);
          exprs(t.indices);
        }
        return;
      }
      case Kind::Seq: {
        auto* n = static_cast<const Seq*>(s);
        put(n->stmts.size());
        for (const Stmt* child : n->stmts) stmt(child);
        return;
      }
      case Kind::If: {
        auto* n = static_cast<const If*>(s);
        put(n->otherwise != nullptr);
        expr(n->condition);
        stmt(n->then);
        if (n->otherwise) stmt(n->otherwise);
        return;
      }
      case Kind::For: {
        auto* n = static_cast<const For*>(s);
        var(n->var);
        put(static_cast<u64>(n->extent));
        put(static_cast<u64>(n->loop_kind));
        if (!n->thread.empty()) put_text(n->thread);
        annotations(n->annotations);
        return stmt(n->body);
      }
      case Kind::Block: return block(static_cast<const Block*>(s));
      case Kind::Alloc: {
        auto* n = static_cast<const Alloc*>(s);
        buffer(n->buffer);
        return stmt(n->body);
      }
      default: return;
    }
  }

  void block(const Block* n) {
    exprs(n->bindings);
    put(n->iters.size());
    for (const IterVar& iter : n->iters) {
      var(iter.var);
      put(static_cast<u64>(iter.extent) << 1 | static_cast<u64>(iter.kind));
    }
    put((n->predicate ? 1 : 0) | (n->init ? 2 : 0));
    annotations(n->annotations);
    if (n->predicate) expr(n->predicate);
    if (n->init) stmt(n->init);
    stmt(n->body);
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
