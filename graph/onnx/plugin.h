// What the plugin that reads ONNX files gives. Both sides are built together.
#pragma once
#include "graph/import_onnx.h"

namespace tw::graph::onnx {

struct Plugin {
  std::variant<Graph, ImportProblems> (*import)(const std::string& path, const ImportOptions& options);
  std::vector<std::string> (*inputs)(const std::string& path);
  std::vector<std::string> (*operators)();
  std::variant<HostArray, std::string> (*read_tensor)(const std::string& path);
};

inline constexpr const char* kPluginFile = "libtracewright_onnx.so";
inline constexpr const char* kGetPlugin = "tw_onnx_plugin";
using GetPlugin = const Plugin* (*)();

}  // namespace tw::graph::onnx
