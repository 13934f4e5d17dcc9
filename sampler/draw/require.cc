// A condition over values of samples. Where all of them are categorical it narrows the joint draw
// (sampler/draw/joint_prior.h), so that nothing is thrown away; elsewhere a draw for which it is false is rejected
// here.
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(require, Unit(bool condition))

static Result<Unit> apply(State&, bool condition) {
  if (!condition) return reject("the condition does not hold for these decisions");
  return Unit{};
}

REGISTER(require, "Conditions the draw: only decisions for which the condition holds are in the space.",
         .is_condition = true)
