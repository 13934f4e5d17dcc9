// ONNX models as the subcommands open them: with rewritings and operators from the command line, what is wrong on
// standard error.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/own_rewrites.h"
#include "runtime/lists/task_list.h"

namespace tw::cli {

// Is this the name of an ONNX file, and not of a task list or a folder?
inline bool is_onnx(const std::string& path) { return path.ends_with(".onnx"); }

// True after a message: the file is an ONNX model, but is_onnx does not see it. For what was taken for a list or a
// folder and is none.
bool is_renamed_model(const std::string& path);

// The files of --rewrites; nullopt after messages.
std::optional<graph::OwnRewrites> read_rewrites(const std::vector<std::string>& paths);

// `shapes`: of inputs whose dimensions the file leaves open. nullopt after messages.
std::optional<graph::Graph> open_graph(const std::string& path, const std::vector<ModelShape>& shapes,
                                       const graph::OwnRewrites& own);

}  // namespace tw::cli
