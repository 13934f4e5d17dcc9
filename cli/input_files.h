// Inputs of a model from .npy files, as --input names them.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "runtime/export/model_library.h"

namespace tw::cli {

using Tensors = std::vector<KernelArgument>;
// Names, types and shapes, as those of a library.
Tensors outputs_of(const graph::Graph& graph);

// "x=x.npy" or, for the first one, "x.npy".
std::pair<std::string, std::string> named_file(const std::string& text, const Tensors& tensors);
// The tensor of that name; null after a message, which begins with the flag.
const KernelArgument* find_tensor(const Tensors& tensors, const std::string& name, const char* flag);

struct InputFile {
  std::size_t input;  // which one it is for
  std::string path;
  HostArray array;
};
// What --input says, a text for each. nullopt after a message.
std::optional<std::vector<InputFile>> read_input_files(const std::vector<std::string>& texts, const Tensors& inputs);

// One array for each input; those that no file is given for are random. nullopt after a message.
std::optional<std::vector<HostArray>> fill_inputs(const Tensors& inputs, std::vector<InputFile> files, u64 seed);

}  // namespace tw::cli
