// What a sample of a workload's results costs (sampled_reference.h), counted before anything is computed: it says
// whether there can be one, and how much memory it takes.
#pragma once
#include "dsl/ir/program.h"

namespace tw {

// Of elements of one row, computed by one ElementValues.
struct SampleCost {
  double steps = 0;  // expressions; infinite: elements of this program cannot be asked for one by one
  double kept = 0;   // elements that are remembered
};

// Of `columns` elements beside each other, in the middle of the dearest output, and of their variances. `judged`: see
// judged_program. At most so much, for what elements depend on counts as a box.
SampleCost cost_of_sample(const Program& judged, i64 columns);

}  // namespace tw
