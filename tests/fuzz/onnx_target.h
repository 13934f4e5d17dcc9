// The fuzzers' target of ONNX files, and the files that fuzzers begin with.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "graph/import_onnx.h"

namespace tw::fuzz {

// Goes on with what an import gave: problems must say something; a graph that is small goes through all passes and
// fusion, up to the programs of its groups.
void use_import(const std::variant<graph::Graph, graph::ImportProblems>& imported);

// Imports the bytes as a file by the plugin, and use_import(); nothing without the plugin.
void fuzz_onnx(const std::string& bytes);

// Small files of many operators.
std::vector<std::string> onnx_seeds();
// Those of ONNX's own tests that have at most `most_bytes`; none if Debian's libonnx-testdata is not installed.
std::vector<std::string> onnx_test_files(std::size_t most_bytes);

}  // namespace tw::fuzz
