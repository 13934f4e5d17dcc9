// Weights the prior: a draw for which the weight is 3 is three times as likely as one for which it is 1. Acts on
// categorical samples (sampler/draw/joint_prior.h); over other samples it changes nothing but what is excluded: a
// weight below 1 means that the draw is not in the space.
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(prefer, Unit(i64 weight))

static Result<Unit> apply(State&, i64 weight) {
  if (weight < 1) return reject("the weight of these decisions is {0}; expected at least 1", weight);
  return Unit{};
}

REGISTER(prefer, "Weights the prior: decisions are drawn as often as the weight says.", .is_weight = true)
