// Functions of a model.
#pragma once
#include <string>
#include <vector>

#include "graph/onnx/proto.h"

namespace tw::graph::onnx {

// What a node calls: the function of the model that has its domain, name and overload. Null if there is none.
const proto::FunctionProto* called_function(const proto::ModelProto& model, const proto::NodeProto& node);

// One line for each function of a model that another one before it hides.
std::vector<std::string> hidden_functions(const proto::ModelProto& model);

// The nodes of a function in place of a call, those in branches included. What they take from the call's attributes
// has the call's value, else the function's default, else it is left out; so are operands that the call leaves out.
google::protobuf::RepeatedPtrField<proto::NodeProto> function_body(const proto::FunctionProto& function,
                                                                   const proto::NodeProto& call);

}  // namespace tw::graph::onnx
