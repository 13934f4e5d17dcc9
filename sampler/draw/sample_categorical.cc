// One of several integers. The decision is the index; weights are the prior (equal if absent).
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(sample_categorical, i64(Ints candidates, Ints weights = none))

static i64 draw_index(Ints candidates, Ints weights, Rng& rng) {
  if (weights.empty()) return rng.below(static_cast<i64>(candidates.size()));
  i64 total = 0;
  for (i64 weight : weights) total += weight;
  i64 at = rng.below(total);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if ((at -= weights[i]) < 0) return static_cast<i64>(i);
  }
  return 0;
}

static Result<i64> apply(const State&, Ints candidates, Ints weights, Draw draw) {
  i64 count = static_cast<i64>(candidates.size());
  if (count == 0) return reject("expected at least one candidate");
  if (!weights.empty() && static_cast<i64>(weights.size()) != count) {
    return reject("expected {0} weights, one per candidate, found {1}", count, static_cast<i64>(weights.size()));
  }
  for (i64 weight : weights) {
    if (weight <= 0) return reject("weight {0} is not positive", weight);
  }
  if (draw.decision->open()) {
    if (!draw.rng) return reject("has no decision");
    *draw.decision = Decision::of(draw_index(candidates, weights, *draw.rng));
  }
  i64& index = draw.decision->values[0];
  if (index < 0 || index >= count) {
    if (!draw.adapt) return reject("decision {0} is out of range: there are {1} candidates", index, count);
    index = index < 0 ? 0 : count - 1;
  }
  return candidates[index];
}

REGISTER(sample_categorical, "Draws one of several integers; the decision is its index.",
         .draws = Meaning::Draws::OneOf)
