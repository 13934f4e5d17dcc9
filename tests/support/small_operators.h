// Every operator of the library with arguments as small as they may be.
#pragma once
#include <string>
#include <vector>

#include "dsl/ir/program.h"

namespace tw::test {

struct SmallOperator {
  std::string name;
  OwnedProgram owned;
};

// Extents of 2, those of images 4, padded where an operator can be.
std::vector<SmallOperator> small_operators();

}  // namespace tw::test
