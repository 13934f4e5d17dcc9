// Functions of a model.
#pragma once
#include "graph/onnx/proto.h"

namespace tw::graph::onnx {

// The nodes of a function in place of a call, those in branches included. What they take from the call's attributes
// has the call's value, else the function's default, else it is left out; so are operands that the call leaves out.
google::protobuf::RepeatedPtrField<proto::NodeProto> function_body(const proto::FunctionProto& function,
                                                                   const proto::NodeProto& call);

}  // namespace tw::graph::onnx
