#include <algorithm>
#include <numeric>

#include "dsl/analysis/bounds.h"
#include "dsl/intrinsics/intrinsic.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

// Loops around one store; loops of one iteration do not count.
struct PlainNest {
  std::vector<const For*> loops;
  const Store* store = nullptr;
  VarRanges ranges;
};

PlainNest plain_nest(const Stmt* nest, const VarRanges& around) {
  PlainNest out{{}, nullptr, around};
  for (; as<For>(nest); nest = as<For>(nest)->body) {
    const For* loop = as<For>(nest);
    out.ranges.set_extent(loop->var, loop->extent);
    if (loop->loop_kind != LoopKind::Serial) return out;
    if (loop->extent > 1) out.loops.push_back(loop);
  }
  const Store* store = as<Store>(nest);
  if (store && store->targets.size() == 1) out.store = store;
  return out;
}

// The place of an element in memory as a sum over variables.
Sum place_of(const Buffer* buffer, Array<const Expr*> indices, const VarRanges& ranges) {
  Sum sum;
  std::vector<i64> strides = strides_of(buffer);
  for (std::size_t d = 0; d < indices.size(); ++d) sum.collect(indices[d], strides[d]);
  remove_constants(sum, ranges);
  return sum;
}

// Operands of sums and products may be swapped: each bit of `swaps` decides for one of them.
class Pairing {
 public:
  static constexpr int kMostSwaps = 8;

  explicit Pairing(u32 swaps) : swaps_(swaps) {}
  int commutative() const { return commutative_; }

  std::optional<std::vector<AccessPair>> run(const Store* store, const Store* described) {
    const StoreTarget &target = store->targets[0], &wanted = described->targets[0];
    bool same = add({target.buffer, wanted.buffer, target.indices, wanted.indices}) &&
                same_value(store->values[0], described->values[0]);
    return same ? std::optional(std::move(pairs_)) : std::nullopt;
  }

 private:
  bool add(const AccessPair& pair) {
    pairs_.push_back(pair);
    return pair.buffer->dtype == pair.described->dtype;
  }
  bool same_value(const Expr* a, const Expr* b) {
    if (a->kind != b->kind || a->type != b->type) return false;
    switch (a->kind) {
      case Kind::IntImm:
      case Kind::FloatImm:
        return same_expr(a, b);
      case Kind::Load: {
        auto *x = static_cast<const Load*>(a), *y = static_cast<const Load*>(b);
        return add({x->buffer, y->buffer, x->indices, y->indices});
      }
      case Kind::Cast:
        return same_value(static_cast<const Cast*>(a)->value, static_cast<const Cast*>(b)->value);
      case Kind::Binary:
        return same_binary(static_cast<const Binary*>(a), static_cast<const Binary*>(b));
      default:
        return false;
    }
  }
  bool same_binary(const Binary* a, const Binary* b) {
    if (a->op != b->op) return false;
    bool commutes = a->op == BinaryOp::Add || a->op == BinaryOp::Mul;
    bool swapped = commutes && ((swaps_ >> std::min(commutative_++, kMostSwaps)) & 1u);
    return same_value(a->a, swapped ? b->b : b->a) && same_value(a->b, swapped ? b->a : b->b);
  }

  u32 swaps_;
  int commutative_ = 0;
  std::vector<AccessPair> pairs_;
};

// An access of the nest and the access of the description in its place.
struct Pair {
  const Buffer *buffer, *described;
  Sum place, described_place;
};

class Matcher {
 public:
  Matcher(const Intrinsic& intrinsic, const Stmt* nest, const VarRanges& around)
      : intrinsic_(intrinsic),
        nest_(plain_nest(nest, around)),
        description_(plain_nest(intrinsic.description.program.body, {})) {}

  Result<std::vector<IntrinsicOperand>> run(Arena& arena) {
    if (!nest_.store || !has_loops())
      return reject("expected serial loops of the extents of intrinsic `{a}` around one store", intrinsic_.name);
    bool same_form = false;
    for (const auto& accesses : pairings(nest_.store, description_.store)) {
      bool same = find_places(accesses);
      same_form |= same;
      if (same && find_loops()) return operands(arena);
    }
    if (!same_form) return reject("what is computed is not what intrinsic `{a}` computes", intrinsic_.name);
    return reject("the operands do not lie in memory as intrinsic `{a}` expects", intrinsic_.name);
  }

 private:
  bool has_loops() const {
    std::vector<i64> a, b;
    for (const For* loop : nest_.loops) a.push_back(loop->extent);
    for (const For* loop : description_.loops) b.push_back(loop->extent);
    return std::is_permutation(a.begin(), a.end(), b.begin(), b.end());
  }

  bool find_places(const std::vector<AccessPair>& accesses) {
    pairs_.clear();
    for (const AccessPair& access : accesses)
      pairs_.push_back({access.buffer, access.described, place_of(access.buffer, access.indices, nest_.ranges),
                        place_of(access.described, access.described_indices, description_.ranges)});
    return std::all_of(pairs_.begin(), pairs_.end(), [](const Pair& pair) { return pair.place.exact; });
  }

  // Which loop of the nest is which loop of the description: the first order in which every access
  // moves as described.
  bool find_loops() {
    order_.resize(nest_.loops.size());
    std::iota(order_.begin(), order_.end(), 0);
    do {
      bool moves_alike =
          std::all_of(pairs_.begin(), pairs_.end(), [&](const Pair& pair) { return moves_as_described(pair); });
      if (moves_alike) return true;
    } while (std::next_permutation(order_.begin(), order_.end()));
    return false;
  }
  bool moves_as_described(const Pair& pair) const {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const For *loop = nest_.loops[i], *described = description_.loops[order_[i]];
      if (loop->extent != described->extent) return false;
      if (factor(pair.place, loop->var) != factor(pair.described_place, described->var)) return false;
    }
    return true;
  }
  // Of the variable in the sum; nothing if it is inside another atom.
  static std::optional<i64> factor(const Sum& sum, const Var* var) {
    i64 found = 0;
    for (const Sum::Term& term : sum.terms) {
      if (term.atom == var)
        found = term.coefficient;
      else if (uses(term.atom, var))
        return std::nullopt;
    }
    return found;
  }

  Result<std::vector<IntrinsicOperand>> operands(Arena& arena) const {
    Array<Param> params = intrinsic_.description.program.params;
    std::vector<IntrinsicOperand> out(params.size());
    std::vector<Sum> firsts(params.size());
    for (const Pair& pair : pairs_) {
      auto is_meant = [&](const Param& param) { return param.buffer == pair.described; };
      std::size_t at = static_cast<std::size_t>(std::find_if(params.begin(), params.end(), is_meant) - params.begin());
      Sum first;
      first.add_constant(pair.place.constant - pair.described_place.constant);
      for (const Sum::Term& term : pair.place.terms) {
        bool own = std::any_of(nest_.loops.begin(), nest_.loops.end(),
                               [&](const For* loop) { return loop->var == term.atom; });
        if (!own) first.add_atom(term.atom, term.coefficient);
      }
      Sum difference = first;
      difference.add(firsts[at], -1);
      bool other =
          out[at].buffer && (out[at].buffer != pair.buffer || !difference.terms.empty() || difference.constant != 0);
      if (other) return reject("one operand of intrinsic `{a}` would lie in two places", intrinsic_.name);
      out[at] = {pair.buffer, to_expr(arena, first)};
      firsts[at] = first;
    }
    for (std::size_t i = 1; i < params.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        bool written = params[i].role == Role::Output || params[j].role == Role::Output;
        if (written && out[i].buffer == out[j].buffer)
          return reject("intrinsic `{a}` would read `{b}` while it writes it", intrinsic_.name, out[i].buffer->name);
      }
    }
    return out;
  }

  const Intrinsic& intrinsic_;
  PlainNest nest_, description_;
  std::vector<Pair> pairs_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::vector<std::vector<AccessPair>> pairings(const Store* store, const Store* described) {
  std::vector<std::vector<AccessPair>> out;
  u32 ways = 1;
  for (u32 swaps = 0; swaps < ways; ++swaps) {
    Pairing pairing(swaps);
    if (auto accesses = pairing.run(store, described)) out.push_back(std::move(*accesses));
    ways = std::max(ways, 1u << std::min(pairing.commutative(), Pairing::kMostSwaps));
  }
  return out;
}

Result<std::vector<IntrinsicOperand>> match_intrinsic(Arena& arena, const Intrinsic& intrinsic, const Stmt* nest,
                                                      const VarRanges& around) {
  if (intrinsic.lanes > 1)
    return reject("intrinsic `{a}` is done by {0} lanes together: the mark `{b}` finds it", intrinsic.name,
                  Str(intrinsic.lanes == kWarpLanes ? "warp_mma" : "warpgroup_mma"), intrinsic.lanes);
  return Matcher(intrinsic, nest, around).run(arena);
}

}  // namespace tw
