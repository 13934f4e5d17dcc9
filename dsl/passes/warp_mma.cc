#include "dsl/passes/warp_mma.h"

#include "dsl/analysis/region.h"
#include "dsl/ir/build.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

constexpr i64 kGroup = 4, kGroups = 8;  // lanes that share a row, rows of a warp

const For* loop_of(const Stmt* s, i64 extent) {
  const For* loop = as<For>(s);
  return loop && loop->extent == extent && loop->loop_kind == LoopKind::Serial ? loop : nullptr;
}

// f32(X[..]) of a buffer of halves.
const Load* widened(const Expr* e) {
  const Cast* cast = as<Cast>(e);
  const Load* load = cast && e->type == Type{DType::F32, 1} ? as<Load>(cast->value) : nullptr;
  bool is_half = load && (load->type.dtype == DType::F16 || load->type.dtype == DType::BF16);
  return is_half ? load : nullptr;
}

i64 take(Sum& sum, const Expr* atom) {
  i64 found = 0;
  for (const Sum::Term& term : sum.terms) found = term.atom == atom ? term.coefficient : found;
  sum.add_atom(atom, -found);
  return found;
}

// Takes the digit t // lower % count out of a sum; its coefficient, 0 if there is none.
i64 take_digit(Sum& sum, const Var* t, i64 lower, i64 count, const VarRanges& ranges) {
  for (const Sum::Term& term : sum.terms) {
    std::optional<Digit> digit = digit_of(term.atom, ranges);
    if (!digit || digit->source != t || digit->lower != lower || digit->count != count) continue;
    i64 found = term.coefficient;
    sum.add_atom(term.atom, -found);
    return found;
  }
  return 0;
}

// Is the sum the same for all lanes of a warp?
bool is_uniform(const Sum& sum, const Var* t, const VarRanges& ranges) {
  for (const Sum::Term& term : sum.terms) {
    if (!uses(term.atom, t)) continue;
    std::optional<Digit> digit = digit_of(term.atom, ranges);
    if (!digit || digit->source != t || digit->lower % (kGroup * kGroups) != 0) return false;
  }
  return sum.exact;
}

}  // namespace

std::optional<WarpMma> match_warp_mma(Arena& arena, const For* nest, const For* threads, const VarRanges& ranges) {
  const For* h = loop_of(nest, 2);
  const For* e = h ? loop_of(h->body, 2) : nullptr;
  const For* k = e ? loop_of(e->body, 8) : nullptr;
  const Store* update = k ? as<Store>(k->body) : nullptr;
  const Binary* sum = update && update->targets.size() == 1 ? as<Binary>(update->values[0]) : nullptr;
  const Load* old = sum && sum->op == BinaryOp::Add ? as<Load>(sum->a) : nullptr;
  const Binary* product = old ? as<Binary>(sum->b) : nullptr;
  if (!product || product->op != BinaryOp::Mul || threads->extent % (kGroup * kGroups) != 0) return std::nullopt;
  const StoreTarget& target = update->targets[0];
  if (old->buffer != target.buffer || old->type != Type{DType::F32, 1} || !same_expr(old->indices[0], target.indices[0]))
    return std::nullopt;
  const Load *a = widened(product->a), *b = widened(product->b);
  if (!a || !b || a->type != b->type) return std::nullopt;
  if (uses(a->indices[0], e->var)) std::swap(a, b);
  WarpMma out{update, a, b, h->var, e->var, k->var, sum_of(a->indices[0]), sum_of(b->indices[0]), 0, 0, 0};
  // The part of the sums is a lane's own, two rows by two columns at constant places.
  Sum own = sum_of(target.indices[0]);
  bool is_own = target.buffer->scope == Scope::Register || target.buffer->scope == Scope::Local;
  take(own, out.h), take(own, out.e);
  if (!is_own || !own.exact || !own.terms.empty()) return std::nullopt;
  // Rows of A: t // 4 % 8 + 8 * h.
  out.row_step = take(out.a_index, out.h), out.a_step = take(out.a_index, out.k);
  i64 row = take_digit(out.a_index, threads->var, kGroup, kGroups, ranges);
  if (row == 0 || out.row_step != kGroups * row || !is_uniform(out.a_index, threads->var, ranges)) return std::nullopt;
  // Columns of B: t % 4 * 2 + e; the lane brings column t // 4 % 8.
  i64 column = take(out.b_index, out.e);
  out.b_step = take(out.b_index, out.k);
  i64 pair = take_digit(out.b_index, threads->var, 1, kGroup, ranges);
  if (column == 0 || pair != 2 * column || !is_uniform(out.b_index, threads->var, ranges)) return std::nullopt;
  if (uses(a->indices[0], out.e) || uses(b->indices[0], out.h)) return std::nullopt;
  Build build{arena};
  const Expr* group = build.floor_mod(build.binary(BinaryOp::FloorDiv, threads->var, build.integer(kGroup)),
                                      build.integer(kGroups));
  out.a_index.add_atom(group, row);
  out.b_index.add_atom(group, column);
  return out;
}

}  // namespace tw
