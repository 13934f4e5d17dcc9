// Pass skip_identity_terms: what padding adds to a reduction is not computed.
// Input: stores that combine their target with a term which a Select makes the identity of the operation where its
// condition does not hold: `Y[i] = Y[i] + (if c then X[j] else 0.0) * F[k]`, `Y[i] = max(Y[i], if c then X[j] else
// -inf)`. Output: `if c { Y[i] = Y[i] + X[j] * F[k] }`; lower_blocks then moves the test outwards and partition_loops
// cuts loops, so that border tiles do less work and inner ones test nothing. As in other libraries 0 * x is taken for
// 0, also where x is infinite or not a number.
#pragma once
#include "dsl/ir/program.h"

namespace tw {

Program skip_identity_terms(Arena& arena, Program program);

// The Select whose condition the pass turns into a test around the store; null if it leaves the store as it is.
const Select* skipped_term(const Store* store);

}  // namespace tw
