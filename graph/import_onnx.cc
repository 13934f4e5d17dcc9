#include "graph/import_onnx.h"

#include <dlfcn.h>

#include "dsl/base/text.h"
#include "graph/onnx/plugin.h"

namespace tw::graph {
namespace {

// The plugin lies beside this library.
const onnx::Plugin* open_plugin(std::string& why) {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&open_plugin), &here) == 0)
    return why = "this library is not found", nullptr;
  std::string own = here.dli_fname, path = own.substr(0, own.rfind('/') + 1) + onnx::kPluginFile;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) return why = dlerror(), nullptr;
  auto get = reinterpret_cast<onnx::GetPlugin>(dlsym(library, onnx::kGetPlugin));
  if (!get) return why = dlerror(), nullptr;
  return get();
}

const onnx::Plugin* plugin(std::string& why) {
  static std::string problem;
  static const onnx::Plugin* const found = open_plugin(problem);
  why = problem;
  return found;
}

}  // namespace

std::variant<Graph, ImportProblems> import_onnx(const std::string& path, const ImportOptions& options) {
  std::string why;
  const onnx::Plugin* reader = plugin(why);
  if (!reader) return ImportProblems{{cat("ONNX files cannot be read: ", why)}};
  return reader->import(path, options);
}

std::vector<std::string> onnx_inputs(const std::string& path) {
  std::string why;
  const onnx::Plugin* reader = plugin(why);
  return reader ? reader->inputs(path) : std::vector<std::string>();
}

std::variant<HostArray, std::string> read_onnx_tensor(const std::string& path) {
  std::string why;
  const onnx::Plugin* reader = plugin(why);
  return reader ? reader->read_tensor(path) : why;
}

std::vector<std::string> onnx_operators() {
  std::string why;
  const onnx::Plugin* reader = plugin(why);
  return reader ? reader->operators() : std::vector<std::string>();
}

}  // namespace tw::graph
