// Random small programs for property and differential tests: one to three stages with extents from 1 to 9, primes
// included. Their values are small integers in f32 or exact under any order of summation.
#pragma once
#include <string>

#include "dsl/base/rng.h"
#include "dsl/ir/program.h"

namespace tw::test {

// `use` says what was made, for messages: "conv(H = 5, C = 3, ...)".
OwnedProgram random_program(Rng& rng, std::string& use);

}  // namespace tw::test
