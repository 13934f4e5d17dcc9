// The classes that protobuf made of onnx.proto, with Debian's names.
#pragma once
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>
#pragma GCC diagnostic pop

namespace tw::graph::onnx {
namespace proto = ::onnx;
}
