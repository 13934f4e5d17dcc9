#include "dsl/analysis/simplify.h"

#include <algorithm>
#include <numeric>

#include "dsl/analysis/sum.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

bool is_index(const Expr* e) { return e->type == Type{DType::I64, 1}; }

const Binary* as_binary(const Expr* e, BinaryOp op) {
  const Binary* binary = as<Binary>(e);
  return binary && binary->op == op ? binary : nullptr;
}

// sum = divisor * quotient + rest, where the terms of `rest` are not multiples and its constant lies in [0, divisor).
struct Division {
  Sum quotient, rest;
};
Division divide(const Sum& sum, i64 divisor) {
  Division out;
  for (const Sum::Term& term : sum.terms) {
    bool multiple = term.coefficient % divisor == 0;
    if (multiple)
      out.quotient.add_atom(term.atom, term.coefficient / divisor);
    else
      out.rest.add_atom(term.atom, term.coefficient);
  }
  out.quotient.add_constant(floor_div(sum.constant, divisor));
  out.rest.add_constant(floor_mod(sum.constant, divisor));
  return out;
}

// Divisors of n that some coefficients share, largest first; n itself leads.
struct Divisors {
  FixedList<i64, kMaxTerms + 1> list;
  Divisors(const Sum& sum, i64 n) {
    add(n);
    for (const Sum::Term& term : sum.terms) add(std::gcd(term.coefficient, n));
    std::sort(list.begin(), list.end(), std::greater<>());
  }
  void add(i64 divisor) {
    if (divisor > 1 && std::find(list.begin(), list.end(), divisor) == list.end()) (void)list.push_back(divisor);
  }
};

class Simplifier {
 public:
  Simplifier(Arena& arena, const VarRanges& ranges) : build_{arena}, ranges_(ranges) {}

  // Same pointer if the result equals the input node by node.
  const Expr* expr(const Expr* e) {
    const Expr* out = changed(e);
    return out != e && same_expr(out, e) ? e : out;
  }

 private:
  const Expr* changed(const Expr* e) {
    switch (e->kind) {
      case Kind::IntImm:
      case Kind::FloatImm:
      case Kind::Var:
        return e;
      case Kind::Unary:
        return unary(static_cast<const Unary*>(e));
      case Kind::Binary:
        return binary(static_cast<const Binary*>(e));
      case Kind::Select:
        return select(static_cast<const Select*>(e));
      default:
        return children(e);
    }
  }

  const Expr* children(const Expr* e) {
    ChildMap map{this, [](void* self, const Expr* child) { return static_cast<Simplifier*>(self)->expr(child); },
                 nullptr};
    return with_children(build_.arena, e, map);
  }

  const Expr* unary(const Unary* e) {
    if (is_index(e)) return sum_or_children(e);
    const Expr* value = expr(e->value);
    if (const Unary* inner = as<Unary>(value); inner && e->op == UnaryOp::Not) return inner->value;
    return value == e->value ? e : build_.unary(e->op, value);
  }

  const Expr* select(const Select* e) {
    if (std::optional<bool> known = decide(e->condition, ranges_)) return expr(*known ? e->then : e->otherwise);
    const Expr* out = children(e);
    const Select* left = as<Select>(out);
    return left && is_index(left) && same_expr(left->then, left->otherwise) ? left->then : out;
  }

  const Expr* binary(const Binary* e) {
    switch (e->op) {
      case BinaryOp::Add:
      case BinaryOp::Sub:
      case BinaryOp::Mul:
      case BinaryOp::FloorDiv:
      case BinaryOp::FloorMod:
        return is_index(e) ? sum_or_children(e) : children(e);
      case BinaryOp::Min:
      case BinaryOp::Max:
        return is_index(e) ? extremum(e) : children(e);
      case BinaryOp::And:
      case BinaryOp::Or:
        return logic(e);
      case BinaryOp::Div:
        return children(e);
      default:
        return is_index(e->a) ? comparison(e) : children(e);
    }
  }

  const Expr* sum_or_children(const Expr* e) {
    Sum sum;
    add(e, 1, sum);
    recombine(sum);
    return sum.exact ? to_expr(build_.arena, sum) : children(e);
  }

  const Expr* extremum(const Binary* e) {
    const Expr *a = expr(e->a), *b = expr(e->b);
    std::optional<Interval> difference = interval_of(difference_of(a, b), ranges_);
    bool wants_less = e->op == BinaryOp::Min;
    if (difference && difference->max <= 0) return wants_less ? a : b;
    if (difference && difference->min >= 0) return wants_less ? b : a;
    return a == e->a && b == e->b ? e : build_.binary(e->op, a, b);
  }

  const Expr* logic(const Binary* e) {
    const Expr *a = expr(e->a), *b = expr(e->b);
    if (same_expr(a, b)) return a;
    return a == e->a && b == e->b ? e : build_.binary(e->op, a, b);
  }

  // ---- sums

  // out += factor * e, with everything below e simplified.
  void add(const Expr* e, i64 factor, Sum& out) {
    if (const Unary* minus = as<Unary>(e); minus && minus->op == UnaryOp::Neg) return add(minus->value, -factor, out);
    const Binary* op = as<Binary>(e);
    std::optional<i64> n = op ? constant_of(op->b) : std::nullopt;
    if (op && op->op == BinaryOp::Add) {
      add(op->a, factor, out);
      return add(op->b, factor, out);
    }
    if (op && op->op == BinaryOp::Sub) {
      add(op->a, factor, out);
      return add(op->b, -factor, out);
    }
    if (op && op->op == BinaryOp::Mul) return add_product(op, factor, out);
    if (n && *n > 0 && (op->op == BinaryOp::FloorDiv || op->op == BinaryOp::FloorMod)) {
      Sum value;
      add(op->a, 1, value);
      recombine(value);
      if (op->op == BinaryOp::FloorDiv) return add_quotient(value, *n, factor, out);
      return add_modulo(value, *n, factor, out);
    }
    const Expr* atom = as<Binary>(e) && is_arithmetic(op->op) ? children(e) : expr(e);
    out.collect(atom, factor);
  }
  static bool is_arithmetic(BinaryOp op) { return op == BinaryOp::FloorDiv || op == BinaryOp::FloorMod; }

  void add_product(const Binary* e, i64 factor, Sum& out) {
    Sum a, b;
    add(e->a, 1, a);
    add(e->b, 1, b);
    out.exact = out.exact && a.exact && b.exact;
    if (!out.exact) return;
    if (!b.terms.empty()) std::swap(a, b);  // a constant to the right
    if (b.terms.empty()) {
      Sum scaled;
      scaled.add(a, b.constant);
      return out.add(scaled, factor);
    }
    const Expr *x = expr(e->a), *y = expr(e->b);
    out.add_atom(x == e->a && y == e->b ? e : build_.mul(x, y), factor);
  }

  // sum = divisor * quotient + rest with 0 <= rest < divisor for every value?
  std::optional<Division> proved_division(const Sum& sum, i64 divisor) const {
    Division out = divide(sum, divisor);
    std::optional<Interval> range = interval_of(out.rest, ranges_);
    if (!range) return std::nullopt;
    i64 bucket = floor_div(range->min, divisor);
    if (bucket != floor_div(range->max, divisor)) return std::nullopt;
    out.quotient.add_constant(bucket);
    out.rest.add_constant(-bucket, divisor);
    return out;
  }

  // out += factor * (sum // n)
  void add_quotient(const Sum& sum, i64 n, i64 factor, Sum& out) {
    out.exact = out.exact && sum.exact;
    if (!out.exact) return;
    if (n == 1) return out.add(sum, factor);
    for (i64 divisor : Divisors(sum, n).list) {
      // (d * T + r) // (d * m) = T // m
      if (std::optional<Division> parts = proved_division(sum, divisor))
        return add_quotient(parts->quotient, n / divisor, factor, out);
    }
    Division parts = divide(sum, n);
    out.add(parts.quotient, factor);
    if (nested_quotient(parts.rest, n, factor, out)) return;
    out.add_atom(build_.floor_div(to_expr(build_.arena, parts.rest), build_.integer(n)), factor);
  }

  // (x // a + k) // n = (x + k * a) // (a * n), and (x % a) // n = (x // n) % (a // n) if n divides a.
  bool nested_quotient(const Sum& sum, i64 n, i64 factor, Sum& out) {
    if (sum.terms.size() != 1 || sum.terms[0].coefficient != 1) return false;
    const Binary* inner = as<Binary>(sum.terms[0].atom);
    std::optional<i64> a = inner ? constant_of(inner->b) : std::nullopt;
    i64 product;
    if (!a || *a <= 0) return false;
    Sum x = sum_of(inner->a);
    if (inner->op == BinaryOp::FloorDiv && !__builtin_mul_overflow(*a, n, &product)) {
      x.add_constant(sum.constant, *a);
      add_quotient(x, product, factor, out);
      return true;
    }
    if (inner->op != BinaryOp::FloorMod || *a % n != 0 || sum.constant != 0) return false;
    Sum quotient;
    add_quotient(x, n, 1, quotient);
    add_modulo(quotient, *a / n, factor, out);
    return true;
  }

  // out += factor * (sum % n)
  void add_modulo(const Sum& sum, i64 n, i64 factor, Sum& out) {
    out.exact = out.exact && sum.exact;
    if (!out.exact || n == 1) return;
    for (i64 divisor : Divisors(sum, n).list) {
      std::optional<Division> parts = proved_division(sum, divisor);
      if (!parts) continue;
      // (d * T + r) % (d * m) = d * (T % m) + r
      out.add(parts->rest, factor);
      Sum scaled;
      add_modulo(parts->quotient, n / divisor, divisor, scaled);
      return out.add(scaled, factor);
    }
    Sum rest = divide(sum, n).rest;
    if (drop_inner_modulo(rest, n)) return add_modulo(rest, n, factor, out);
    out.add_atom(build_.floor_mod(to_expr(build_.arena, rest), build_.integer(n)), factor);
  }

  // c * (x % a) = c * x modulo n, if n divides c * a. Changes one term; false if there is none.
  static bool drop_inner_modulo(Sum& sum, i64 n) {
    for (std::size_t i = 0; i < sum.terms.size(); ++i) {
      Sum::Term term = sum.terms[i];
      const Binary* inner = as_binary(term.atom, BinaryOp::FloorMod);
      std::optional<i64> a = inner ? constant_of(inner->b) : std::nullopt;
      i64 product;
      if (!a || *a <= 0 || __builtin_mul_overflow(term.coefficient, *a, &product) || product % n != 0) continue;
      sum.terms.erase(i);
      sum.collect(inner->a, term.coefficient);
      return true;
    }
    return false;
  }

  // c * n * (x // n) + c * (x % n) = c * x, also where x // n was itself simplified.
  void recombine(Sum& sum) {
    for (std::size_t i = 0; i < sum.terms.size() && sum.exact; ++i) {
      Sum::Term rest = sum.terms[i];
      const Binary* modulo = as_binary(rest.atom, BinaryOp::FloorMod);
      std::optional<i64> n = modulo ? constant_of(modulo->b) : std::nullopt;
      if (!n || *n <= 0) continue;
      std::optional<std::size_t> partner = find_quotient(sum, modulo, rest.coefficient);
      if (!partner) continue;
      sum.terms.erase(std::max(i, *partner));
      sum.terms.erase(std::min(i, *partner));
      sum.collect(modulo->a, rest.coefficient);
      i = static_cast<std::size_t>(-1);  // start over: the new terms may have partners too
    }
  }

  std::optional<std::size_t> find_quotient(const Sum& sum, const Binary* modulo, i64 coefficient) {
    i64 n = *constant_of(modulo->b), wanted;
    if (__builtin_mul_overflow(coefficient, n, &wanted)) return std::nullopt;
    for (std::size_t j = 0; j < sum.terms.size(); ++j) {
      if (sum.terms[j].coefficient != wanted || !as_binary(sum.terms[j].atom, BinaryOp::FloorDiv)) continue;
      Sum quotient;
      add_quotient(sum_of(modulo->a), n, 1, quotient);
      if (quotient.is_atom(sum.terms[j].atom)) return j;
    }
    return std::nullopt;
  }

  // ---- comparisons

  const Expr* comparison(const Binary* e) {
    Sum difference;
    add(e->a, 1, difference);
    add(e->b, -1, difference);
    recombine(difference);
    if (!difference.exact) return children(e);
    BinaryOp op = e->op;
    if (op == BinaryOp::Eq || op == BinaryOp::Ne) {
      i64 divisor = 0;
      for (const Sum::Term& term : difference.terms) divisor = std::gcd(divisor, term.coefficient);
      if (divisor > 1 && difference.constant % divisor == 0) difference = divide(difference, divisor).quotient;
    } else {
      shrink_inequality(op, difference);
    }
    const Expr* out = write_comparison(op, difference);
    std::optional<bool> known = decide(out, ranges_);
    return known ? build_.integer(*known, DType::Bool) : out;
  }

  // d * T + r < 0 with 0 <= r < d says T < 0; likewise for the other three.
  void shrink_inequality(BinaryOp op, Sum& difference) {
    i64 shift = op == BinaryOp::Le || op == BinaryOp::Gt ? -1 : 0;  // a <= b is a - b - 1 < 0
    Sum sum = difference;
    sum.add_constant(shift);
    i64 largest = 0;
    for (const Sum::Term& term : sum.terms) largest = std::max(largest, std::abs(term.coefficient));
    if (largest < 2) return;
    for (i64 divisor : Divisors(sum, largest).list) {
      std::optional<Division> parts = proved_division(sum, divisor);
      if (!parts) continue;
      difference = parts->quotient;
      difference.add_constant(-shift);
      return shrink_inequality(op, difference);
    }
  }

  // Positive terms to the left, negative ones and the constant to the right: `i * 6 + j < 49`, `h >= 1`.
  const Expr* write_comparison(BinaryOp op, const Sum& difference) {
    Sum left, right;
    for (const Sum::Term& term : difference.terms) {
      if (term.coefficient > 0)
        left.add_atom(term.atom, term.coefficient);
      else
        right.add_atom(term.atom, -term.coefficient);
    }
    if (left.terms.empty()) {
      left.add_constant(difference.constant);
      return build_.binary(mirrored(op), to_expr(build_.arena, right), to_expr(build_.arena, left));
    }
    right.add_constant(-difference.constant);
    return build_.binary(op, to_expr(build_.arena, left), to_expr(build_.arena, right));
  }

  static BinaryOp mirrored(BinaryOp op) {
    switch (op) {
      case BinaryOp::Lt:
        return BinaryOp::Gt;
      case BinaryOp::Le:
        return BinaryOp::Ge;
      case BinaryOp::Gt:
        return BinaryOp::Lt;
      case BinaryOp::Ge:
        return BinaryOp::Le;
      default:
        return op;
    }
  }

  Build build_;
  const VarRanges& ranges_;
};

class StmtSimplifier {
 public:
  StmtSimplifier(Arena& arena, const VarRanges& ranges) : arena_(arena), ranges_(ranges) {}

  const Stmt* stmt(const Stmt* s) {
    std::size_t known = ranges_.size();
    const Stmt* out = nullptr;
    if (const For* loop = as<For>(s)) {
      ranges_.set_extent(loop->var, loop->extent);
      out = with_children(arena_, s, map());
    } else if (const Block* block = as<Block>(s)) {
      out = simplify_block(block);
    } else if (const If* branch = as<If>(s)) {
      out = simplify_if(branch);
    } else {
      out = with_children(arena_, s, map());
    }
    ranges_.shrink(known);
    return out;
  }

 private:
  const Expr* expr(const Expr* e) { return Simplifier(arena_, ranges_).expr(e); }
  ChildMap map() {
    return {this, [](void* self, const Expr* e) { return static_cast<StmtSimplifier*>(self)->expr(e); },
            [](void* self, const Stmt* s) { return static_cast<StmtSimplifier*>(self)->stmt(s); }};
  }

  const Stmt* simplify_if(const If* branch) {
    Build build{arena_};
    const Expr* condition = expr(branch->condition);
    const Stmt* then = under(condition, true, branch->then);
    const Stmt* otherwise = branch->otherwise ? under(condition, false, branch->otherwise) : nullptr;
    if (condition == branch->condition && then == branch->then && otherwise == branch->otherwise) return branch;
    if (!then && !otherwise) return nullptr;
    return then ? build.if_then(condition, then, otherwise)
                : build.if_then(build.unary(UnaryOp::Not, condition), otherwise);
  }

  // A branch, knowing that the condition holds or not; null if it is never taken.
  const Stmt* under(const Expr* condition, bool holds, const Stmt* s) {
    std::size_t known = ranges_.size();
    bool possible = assume(condition, holds, ranges_) && !is_constant(condition, !holds);
    const Stmt* out = possible ? stmt(s) : nullptr;
    ranges_.shrink(known);
    return out;
  }

  // Bindings belong to the loops around, init and body to the iters. The body runs only where all iters are in their
  // domains.
  const Stmt* simplify_block(const Block* block) {
    List<const Expr*> bindings(block->bindings.begin(), block->bindings.end());
    bool changed = false;
    for (const Expr*& binding : bindings) {
      const Expr* before = binding;
      binding = expr(before);
      changed |= binding != before;
    }
    const Expr* predicate = block->predicate ? expr(block->predicate) : nullptr;
    for (const IterVar& iter : block->iters) ranges_.set_extent(iter.var, iter.extent);
    const Stmt* init = block->init ? stmt(block->init) : nullptr;
    const Stmt* body = stmt(block->body);
    if (!body) return nullptr;
    if (!changed && predicate == block->predicate && init == block->init && body == block->body) return block;
    if (is_constant(predicate, 1)) predicate = nullptr;
    Block* copy = arena_.make<Block>(*block);
    if (changed) copy->bindings = arena_.copy(bindings);
    copy->predicate = predicate;
    copy->init = init;
    copy->body = body;
    return copy;
  }

  Arena& arena_;
  VarRanges ranges_;
};

}  // namespace

const Expr* simplify(Arena& arena, const Expr* expr, const VarRanges& ranges) {
  Arena::Mark mark = arena.mark();
  const Expr* out = Simplifier(arena, ranges).expr(expr);
  if (out == expr) arena.rewind(mark);
  return out;
}

const Stmt* simplify(Arena& arena, const Stmt* stmt, const VarRanges& ranges) {
  return stmt ? StmtSimplifier(arena, ranges).stmt(stmt) : nullptr;
}

}  // namespace tw
