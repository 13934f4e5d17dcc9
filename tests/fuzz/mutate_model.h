// ONNX files changed by their meaning: extents, operators, attributes, edges and names, rather than bytes.
#pragma once
#include <string>

#include "dsl/base/rng.h"

namespace tw::fuzz {

// The file with one to four changes, some of which take a part of the other file. A file that is no protobuf message,
// and one in eight of the others, has bytes changed instead.
std::string mutated_model(const std::string& file, const std::string& other, Rng& rng);

}  // namespace tw::fuzz
