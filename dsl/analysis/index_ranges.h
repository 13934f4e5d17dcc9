// Which values the elements of integer parameters may have where a program uses them as indices, so that random data
// read nothing out of bounds.
#pragma once
#include <map>

#include "dsl/ir/program.h"

namespace tw {

// Only of parameters that are indices somewhere, also by way of other buffers. Negative values are among them where the
// index tests what it has read, as for those that count from the end.
std::map<const Buffer*, IndexRange> index_ranges(const Program& program);

}  // namespace tw
