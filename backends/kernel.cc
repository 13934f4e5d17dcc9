#include "backends/kernel.h"

namespace tw {

const char* name_of(ArgumentRole role) {
  constexpr const char* names[] = {"input", "const", "packed", "output"};
  return names[static_cast<int>(role)];
}

}  // namespace tw
