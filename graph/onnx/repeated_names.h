// Names of values that a file uses twice.
#pragma once
#include <string>
#include <vector>

#include "graph/onnx/proto.h"

namespace tw::graph::onnx {

// One line for each value of a graph that is made twice: by two nodes, or by a node and as an input or a constant. An
// input that is a constant, too, is not one of them: its data are its value where the caller gives none. At most 50.
std::vector<std::string> repeated_names(const proto::GraphProto& graph);
// The same of a function.
std::vector<std::string> repeated_names(const proto::FunctionProto& function);

}  // namespace tw::graph::onnx
