// An order of several loops. The decision is the order: the n-th result is the loop at position values[n] of the list.
// Prior: every order is equally likely.
//   o0, o1 = sample_permutation([i, j]) @ [1, 0];  reorder([o0, o1])
#include <algorithm>

#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(sample_permutation, Loops(Loops loops))

static bool is_permutation(const Decision& decision) {
  bool met[Decision::kMax] = {};
  for (int i = 0; i < decision.count; ++i) {
    i64 value = decision.values[i];
    if (value < 0 || value >= decision.count || met[value]) return false;
    met[value] = true;
  }
  return true;
}

static void keep_order(Decision& decision, i64 count) {
  decision.count = static_cast<u8>(count);
  for (i64 i = 0; i < count; ++i) decision.values[i] = i;
}

static Result<Loops> apply(const State& state, Loops loops, Draw draw) {
  i64 count = static_cast<i64>(loops.size());
  if (count < 1 || count > Decision::kMax) return reject("expected 1 to {0} loops, found {1}", Decision::kMax, count);
  Decision& decision = *draw.decision;
  if (decision.open()) {
    if (!draw.rng) return reject("has no decision");
    keep_order(decision, count);
    for (i64 i = count; i > 1; --i) std::swap(decision.values[i - 1], decision.values[draw.rng->below(i)]);
  }
  if (decision.count != count || !is_permutation(decision)) {
    if (!draw.adapt) return reject("the decision is no permutation of 0 to {0}", count - 1);
    keep_order(decision, count);
  }
  List<LoopId> ordered;
  for (i64 i = 0; i < count; ++i) ordered.push_back(loops[static_cast<std::size_t>(decision.values[i])]);
  return Loops(state.arena().copy(ordered));
}

REGISTER(sample_permutation, "Draws an order of several loops.", .draws = Meaning::Draws::Order)
