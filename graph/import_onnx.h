// ONNX files as graphs. Reading them is a plugin (graph/onnx), because it needs the classes that protobuf makes.
#pragma once
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace tw::graph {

struct RewriteModule;

struct ImportOptions {
  std::map<std::string, std::vector<i64>> shapes;  // of inputs whose dimensions the file leaves open
  std::map<std::string, HostArray> constants;      // inputs that are always the same, such as shapes
  std::vector<const RewriteModule*> modules;       // whose operators (graph/rewrites.h) are known, too
};

// Everything that is wrong with a file: one line each, with the name of the node and its operator.
struct ImportProblems {
  std::vector<std::string> lines;
};

// Opsets 1 to 24. A file without the plugin, one that cannot be read, operators that are not known or not for these
// types, dimensions that nobody said: all of these are problems.
std::variant<Graph, ImportProblems> import_onnx(const std::string& path, const ImportOptions& options = {});

// What the graph of a file reads, in order; empty if it cannot be read.
std::vector<std::string> onnx_inputs(const std::string& path);

// A file that holds one tensor, as the data of ONNX's own tests; or what is wrong with it.
std::variant<HostArray, std::string> read_onnx_tensor(const std::string& path);

// "Add", "Conv", ...: what can be imported; empty without the plugin.
std::vector<std::string> onnx_operators();

}  // namespace tw::graph
