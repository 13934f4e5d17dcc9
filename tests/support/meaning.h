// Do two programs mean the same? What backends/meaning.h says, as one call.
#pragma once
#include <string>

#include "backends/meaning.h"

namespace tw::test {

// "" if `after` is legal IR and computes the same bits as `before`, else what is wrong.
template <class ProgramOrLowered>
std::string difference(const Program& before, const ProgramOrLowered& after, u64 seed) {
  return Judge(before, seed).difference(after);
}

}  // namespace tw::test
