// Marks the end of what rules and people wrote: what follows was added by postprocessors. Mutation cuts a trace here.
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(enter_postproc, Unit())

static Result<Unit> apply(State&) { return Unit{}; }

REGISTER(enter_postproc, "Marks where postprocessing begins.", .starts_postproc = true)
