// Builders in `tracewright fleet`: who compiles for machines without a compiler, and which trials wait for one.
#pragma once
#include <boost/json/object.hpp>

#include "runtime/fleet/build_queue.h"

namespace tw::cli {

// Nothing where nobody builds and nobody wants it.
void print_builders(const BuildStatus& status);
// Adds `builders` and `unbuilt` to an object.
void add_builders(const BuildStatus& status, boost::json::object& object);

}  // namespace tw::cli
