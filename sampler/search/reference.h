// The program whose results decide whether a kernel is right: the workload itself with floats widened to f64 (design:
// the reference result). Long reductions run in another loop order, for at 1024^3 the order of the text takes ten
// seconds a call.
#pragma once
#include "dsl/schedule/schedule.h"

namespace tw {

// Blocks with more points than this are reordered; below, a call takes milliseconds anyhow.
inline constexpr double kReorderedPoints = 4e6;

// Moves the innermost spatial loop of each reduction that reads rows of it (B[k, j]) inside the reduction loops, so
// that memory is read in order, keeps tiles of the sums in registers, and runs the outermost loop in parallel. Each
// element still sums its terms in the order of the text: the result is the same, bit for bit.
Schedule reference_schedule(const Program& widened, double reordered_points = kReorderedPoints);

}  // namespace tw
