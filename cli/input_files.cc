#include "cli/input_files.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/lists/npy.h"

namespace tw::cli {

Tensors outputs_of(const graph::Graph& graph) {
  Tensors tensors;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const OperandType& type = graph.values[graph.outputs[i]].type;
    tensors.push_back({.name = graph.output_names[i], .dtype = type.dtype, .shape = type.shape});
  }
  return tensors;
}

std::pair<std::string, std::string> named_file(const std::string& text, const Tensors& tensors) {
  std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {tensors.empty() ? "" : tensors[0].name, text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

const KernelArgument* find_tensor(const Tensors& tensors, const std::string& name, const char* flag) {
  auto at = std::ranges::find(tensors, name, &KernelArgument::name);
  if (at != tensors.end()) return &*at;
  if (tensors.empty()) return say(cat(flag, ": the model has none")), nullptr;
  std::vector<std::string> names;
  for (const KernelArgument& tensor : tensors) names.push_back(tensor.name);
  say(cat(flag, ": the model has no `", name, "`; there are ", join(names, ", ")));
  return nullptr;
}

std::optional<std::vector<InputFile>> read_input_files(const std::vector<std::string>& texts, const Tensors& inputs) {
  std::vector<InputFile> files;
  for (const std::string& text : texts) {
    auto [name, path] = named_file(text, inputs);
    const KernelArgument* input = find_tensor(inputs, name, "--input");
    if (!input) return std::nullopt;
    auto index = static_cast<std::size_t>(input - inputs.data());
    if (std::ranges::count(files, index, &InputFile::input) > 0)
      return say(cat("--input: `", name, "` has two files; say one")), std::nullopt;
    std::string error;
    std::optional<HostArray> array = read_npy(path, error);
    if (!array) return say(error), std::nullopt;
    files.push_back({index, path, std::move(*array)});
  }
  return files;
}

std::optional<std::vector<HostArray>> fill_inputs(const Tensors& inputs, std::vector<InputFile> files, u64 seed) {
  std::vector<HostArray> arrays = random_inputs(inputs, seed);
  for (auto& [index, path, array] : files) {
    const KernelArgument& input = inputs[index];
    if (array.dtype != input.dtype || array.shape != input.shape)
      return say(cat(path, " holds ", name_of(array.dtype), "[", join(array.shape, ", "), "], but `", input.name,
                     "` is ", name_of(input.dtype), "[", join(input.shape, ", "), "]")),
             std::nullopt;
    arrays[index] = std::move(array);
  }
  return arrays;
}

}  // namespace tw::cli
