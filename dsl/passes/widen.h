// widen_to_f64: the reference program for checking results: the same computation in double precision.
// Input: a program, usually the unscheduled one. Output: float locals, float outputs and all float arithmetic are F64;
// inputs and constants keep their types and are converted after loading; integers do not change. Scheduled programs are
// accepted, too.
#pragma once
#include "dsl/ir/program.h"

namespace tw {

Program widen_to_f64(Arena& arena, const Program& program);

}  // namespace tw
