// sample_reference: what is expected of some elements of a workload's results, where all of them would take too long to compute. Each is
// computed alone (backends/element_values.h), with the variance of its rounding beside it. Which ones is drawn anew in each process, so that no
// kernel can know: half of them anywhere, half near the ends of dimensions, where tiles do not come out even.
#pragma once
#include <functional>
#include <optional>

#include "dsl/ir/program.h"
#include "runtime/measurer.h"

namespace tw {

// Of the data that `seed` gives (fill_input). Uses all cores for a few seconds: 256 to 4,096 elements of each output, in fewer rows where an element
// needs what others in its row need, too. Nothing if `stop` says true, or for workloads whose elements cannot be asked for one by one, or too
// slowly (attention, where one element depends on nearly everything).
std::optional<SampledReference> sample_reference(const Program& program, u64 seed, const std::function<bool()>& stop);

}  // namespace tw
