// Located: a value and where it stands in the text that it was read from. Used by readers of YAML.
#pragma once
#include "dsl/base/diagnostic.h"

namespace tw {

// `given` is false for a default; then `span` is that of the mapping it is missing from.
template <class T>
struct Located {
  T value{};
  Span span{};
  bool given = false;
};

}  // namespace tw
