// sample_reference computes some elements of a workload's results, where all of them would take too long: each alone
// (backends/element_values.h), with the variance of its rounding. The elements are drawn anew in each process, so that
// no kernel can know them: half of them anywhere, half near the ends of dimensions, where partial tiles are.
#pragma once
#include <functional>
#include <optional>

#include "dsl/ir/program.h"
#include "runtime/measure/measurer.h"

namespace tw {

// For the inputs that `seed` gives (fill_input). Uses all cores for a few seconds and computes 256 to 4,096 elements of
// each output; where elements of a row need the same intermediate values, whole rows. Returns nothing if `stop` says
// true, or for workloads whose elements cannot be asked for one by one, or too slowly (a transformer's block, where one
// element depends on nearly everything).
std::optional<SampledReference> sample_reference(const Program& program, u64 seed, const std::function<bool()>& stop);

// The bytes that it takes beside the inputs. Nothing for workloads of which no sample is tried. `judged`: see
// judged_program.
std::optional<double> memory_of_sample(const Program& judged);

}  // namespace tw
