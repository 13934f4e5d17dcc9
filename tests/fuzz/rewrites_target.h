// A fuzz target for files of rewritings and operators of ONNX (graph/rewrites.h), and the files that fuzzers begin
// with.
#pragma once
#include <string>
#include <vector>

namespace tw::fuzz {

// Parses the text. A short one without errors is used: its rewritings on a small graph, its operators on small
// operands. For one in 16 texts the first rewriting is proved, as those of a user are.
void fuzz_rewrites(const std::string& text);

std::vector<std::string> rewrites_seeds();

}  // namespace tw::fuzz
