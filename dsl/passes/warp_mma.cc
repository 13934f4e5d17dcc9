#include "dsl/passes/warp_mma.h"

#include <algorithm>

#include "dsl/analysis/precision.h"
#include "dsl/analysis/region.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

constexpr i64 kGroup = 4, kGroups = 8;  // lanes that share a row, rows of a warp

const For* loop_of(const Stmt* s, i64 extent = 0) {
  const For* loop = as<For>(s);
  return loop && (extent == 0 || loop->extent == extent) && loop->loop_kind == LoopKind::Serial ? loop : nullptr;
}

// Which operands are multiplied, and what their sum is.
struct Row {
  DType operand, sum;
};
constexpr Row kRows[] = {{DType::F16, DType::F32}, {DType::BF16, DType::F32}, {DType::I8, DType::I32}, {DType::U8, DType::I32}};

// wide(X[..]), or X[..] of floats.
const Load* widened(const Expr* e) {
  if (const Load* load = as<Load>(e)) return load->type == Type{DType::F32, 1} ? load : nullptr;
  const Cast* cast = as<Cast>(e);
  const Load* load = cast && cast->type.lanes == 1 ? as<Load>(cast->value) : nullptr;
  bool is_known = load && std::any_of(std::begin(kRows), std::end(kRows), [&](const Row& row) {
                    return row.operand == load->type.dtype && row.sum == cast->type.dtype;
                  });
  return is_known ? load : nullptr;
}

bool is_byte(DType type) { return type == DType::I8 || type == DType::U8; }

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

// Of memory of which each lane has its own, where they may find different numbers.
bool loads_own_memory(const Expr* index) {
  bool found = false;
  for_each<Load>(index, [&](const Load* load) {
    found |= load->buffer->scope == Scope::Register || load->buffer->scope == Scope::Local;
  });
  return found;
}

// Is the sum the same for all lanes of a warp, and for all that they do here?
bool is_uniform(const Sum& sum, const Var* t, const VarRanges& ranges) {
  for (const Sum::Term& term : sum.terms) {
    if (loads_own_memory(term.atom)) return false;
    if (!uses(term.atom, t)) continue;
    std::optional<Digit> digit = digit_of(term.atom, ranges);
    if (!digit || digit->source != t || digit->lower % (kGroup * kGroups) != 0) return false;
  }
  return sum.exact;
}

bool uses_one_of(const Sum& sum, std::initializer_list<const Var*> vars) {
  return std::any_of(sum.terms.begin(), sum.terms.end(), [&](const Sum::Term& term) {
    return std::any_of(vars.begin(), vars.end(), [&](const Var* var) { return uses(term.atom, var); });
  });
}

struct Nest {
  const For *h, *e, *k;
  const Store* update;
  const Load *a, *b;
};

// The loops and the store, whatever they index.
std::optional<Nest> nest_of(const For* outer) {
  const For* h = loop_of(outer, 2);
  const For* e = h ? loop_of(h->body, 2) : nullptr;
  const For* k = e ? loop_of(e->body) : nullptr;
  const Store* update = k ? as<Store>(k->body) : nullptr;
  const Binary* sum = update && update->targets.size() == 1 ? as<Binary>(update->values[0]) : nullptr;
  const Load* old = sum && sum->op == BinaryOp::Add ? as<Load>(sum->a) : nullptr;
  const Binary* product = old ? as<Binary>(sum->b) : nullptr;
  if (!product || product->op != BinaryOp::Mul || product->type != old->type) return std::nullopt;
  const StoreTarget& target = update->targets[0];
  if (old->buffer != target.buffer || !same_expr(old->indices[0], target.indices[0])) return std::nullopt;
  const Load *a = widened(product->a), *b = widened(product->b);
  if (!a || !b || (a->type != b->type && !(is_byte(a->type.dtype) && is_byte(b->type.dtype)))) return std::nullopt;
  if (uses(a->indices[0], e->var)) std::swap(a, b);
  return Nest{h, e, k, update, a, b};
}

}  // namespace

std::optional<WarpMma> match_warp_mma(const For* outer, const For* threads, const VarRanges& ranges) {
  std::optional<Nest> nest = nest_of(outer);
  if (!nest || threads->extent % (kGroup * kGroups) != 0) return std::nullopt;
  const Var *h = nest->h->var, *e = nest->e->var, *k = nest->k->var, *t = threads->var;
  bool rounds = nest->a->type.dtype == DType::F32;
  if (rounds && find_annotation(outer->annotations, kWarpMmaMark)->value.integer != kMayRound) return std::nullopt;
  i64 in_piece = kMatrixBytes / bytes_of(nest->a->type.dtype);
  if (nest->k->extent != in_piece && nest->k->extent != 2 * in_piece) return std::nullopt;
  // The part of the sums is a lane's own, two rows by two columns at constant places.
  const StoreTarget& target = nest->update->targets[0];
  Sum own = sum_of(target.indices[0]);
  bool is_own = target.buffer->scope == Scope::Register || target.buffer->scope == Scope::Local;
  take(own, h), take(own, e);
  if (!is_own || !own.exact || !own.terms.empty()) return std::nullopt;
  // Rows of A: t // 4 % 8 + 8 * h.
  MmaOperand a{nest->a, sum_of(nest->a->indices[0]), 0, 0};
  i64 lower_rows = take(a.index, h);
  a.k_step = take(a.index, k), a.row_step = take_digit(a.index, t, kGroup, kGroups, ranges);
  if (a.row_step == 0 || lower_rows != kGroups * a.row_step || !is_uniform(a.index, t, ranges)) return std::nullopt;
  // Columns of B: t % 4 * 2 + e.
  MmaOperand b{nest->b, sum_of(nest->b->indices[0]), 0, 0};
  b.row_step = take(b.index, e), b.k_step = take(b.index, k);
  i64 pair = take_digit(b.index, t, 1, kGroup, ranges);
  if (b.row_step == 0 || pair != 2 * b.row_step || !is_uniform(b.index, t, ranges)) return std::nullopt;
  if (uses_one_of(a.index, {h, e, k}) || uses_one_of(b.index, {h, e, k})) return std::nullopt;
  return WarpMma{nest->update, h, e, a, b, static_cast<int>(nest->k->extent / in_piece)};
}

Status check_rounding(const Program& program) {
  Status status = ok();
  auto check = [&](const Block* block) {
    i64 bits = precision_of(program, block);
    if (!status || bits <= kRoundedBits) return;
    status = reject("the products of block `{a}` would be rounded to {0} bits, but the workload's tolerance asks for {1}", block->name,
                    kRoundedBits, bits)
                 .about_block(block->id.value);
  };
  auto rounds = [](const For* loop) {
    const Annotation* mark = find_annotation(loop->annotations, kWarpMmaMark);
    return mark && mark->value.integer == kMayRound;
  };
  for_each<For>(program.body, [&](const For* loop) {
    if (rounds(loop)) for_each<Block>(loop->body, check);
  });
  // A block of several statements has loops of its own.
  for_each<Block>(program.body, [&](const Block* block) {
    List<const For*> inside = loops_inside(block);
    if (std::any_of(inside.begin(), inside.end(), rounds)) check(block);
  });
  return status;
}

}  // namespace tw
