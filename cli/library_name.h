// Names of exported libraries.
#pragma once
#include <string>

namespace tw::cli {

// A C identifier from the name of a file or folder: nets/resnet-18.onnx -> resnet_18. One that is the name of something
// else (files and functions of every export, C's own headers and libraries) gets a k in front: math -> kmath.
std::string library_name_of(const std::string& path);

}  // namespace tw::cli
