#include "cli/open_graph.h"

#include <algorithm>
#include <cstdio>

#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "runtime/console/output.h"

namespace tw::cli {

bool is_renamed_model(const std::string& path) {
  if (is_onnx(path) || graph::onnx_inputs(path).empty()) return false;
  return say(cat(path, " is an ONNX model, but its name does not end in .onnx: rename it")), true;
}

std::optional<graph::Graph> open_graph(const std::string& path, const std::vector<ModelShape>& shapes,
                                       const graph::OwnRewrites& own) {
  graph::ImportOptions options{.modules = own.modules()};
  std::vector<std::string> names = shapes.empty() ? std::vector<std::string>() : graph::onnx_inputs(path);
  for (const ModelShape& shape : shapes) {
    if (!names.empty() && std::ranges::count(names, shape.name) == 0)
      return say(cat("--shape: the model has no input `", shape.name, "`; its inputs are ", join(names, ", "))),
             std::nullopt;
    options.shapes[shape.name] = shape.extents;
  }
  auto imported = graph::import_onnx(path, options);
  if (auto* problems = std::get_if<graph::ImportProblems>(&imported)) {
    std::string with;
    for (const ModelShape& shape : shapes)
      with += cat(with.empty() ? " with " : " ", shape.name, "=", join(shape.extents, ","));
    say(cat(path, " cannot be compiled", with, ":\n  ", join(problems->lines, "\n  ")));
    return std::nullopt;
  }
  return std::get<graph::Graph>(std::move(imported));
}

std::optional<graph::OwnRewrites> read_rewrites(const std::vector<std::string>& paths) {
  graph::OwnRewrites out;
  for (const std::string& path : paths) {
    std::optional<std::string> text = read_file(path);
    if (!text) return std::nullopt;
    std::string messages;
    const bool is_good = out.add({path, *text}, messages);
    std::fputs(messages.c_str(), stderr);
    if (!is_good) return std::nullopt;
  }
  return out;
}

}  // namespace tw::cli
