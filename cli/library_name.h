// Names of exported libraries.
#pragma once
#include <string>

namespace tw::cli {

// A C identifier from the name of a file or folder: nets/resnet-18.onnx -> resnet_18.
std::string library_name_of(const std::string& path);

}  // namespace tw::cli
