// ONNX models as the subcommands open them: shapes from the command line, what is wrong on standard error.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/lists/task_list.h"

namespace tw::cli {

// "x=1,3,224,224" of --shape; nullopt after a message.
std::optional<std::vector<ModelShape>> parse_shapes(const std::vector<std::string>& texts);

// `shapes`: "x=1,3,224,224" for inputs whose dimensions the file leaves open. nullopt after messages.
std::optional<graph::Graph> open_graph(const std::string& path, const std::vector<std::string>& shapes);

}  // namespace tw::cli
