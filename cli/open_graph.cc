#include "cli/open_graph.h"

#include <algorithm>
#include <charconv>

#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "runtime/console/output.h"

namespace tw::cli {
namespace {

// Nothing if the text is not of the form.
std::optional<ModelShape> parse_shape(const std::string& text) {
  std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  std::vector<i64> extents;
  const char* at = text.data() + equals + 1;
  const char* end = text.data() + text.size();
  while (at < end) {
    i64 extent = 0;
    auto [next, failed] = std::from_chars(at, end, extent);
    if (failed != std::errc() || extent < 1 || extent > (i64{1} << 40)) return std::nullopt;
    extents.push_back(extent);
    if (next != end && (*next != ',' || next + 1 == end)) return std::nullopt;
    at = next == end ? end : next + 1;
  }
  return ModelShape{text.substr(0, equals), std::move(extents)};
}

}  // namespace

std::optional<std::vector<ModelShape>> parse_shapes(const std::vector<std::string>& texts) {
  std::vector<ModelShape> shapes;
  for (const std::string& text : texts) {
    std::optional<ModelShape> shape = parse_shape(text);
    if (!shape) return say(cat("--shape: expected NAME=EXTENT,EXTENT,..., found `", text, "`")), std::nullopt;
    shapes.push_back(std::move(*shape));
  }
  return shapes;
}

std::optional<graph::Graph> open_graph(const std::string& path, const std::vector<std::string>& shapes) {
  std::optional<std::vector<ModelShape>> parsed = parse_shapes(shapes);
  if (!parsed) return std::nullopt;
  graph::ImportOptions options;
  std::vector<std::string> names = shapes.empty() ? std::vector<std::string>() : graph::onnx_inputs(path);
  for (const ModelShape& shape : *parsed) {
    if (!names.empty() && std::ranges::count(names, shape.name) == 0)
      return say(cat("--shape: the model has no input `", shape.name, "`; its inputs are ", join(names, ", "))),
             std::nullopt;
    options.shapes[shape.name] = shape.extents;
  }
  auto imported = graph::import_onnx(path, options);
  if (auto* problems = std::get_if<graph::ImportProblems>(&imported)) {
    say(cat(path, " cannot be compiled:\n  ", join(problems->lines, "\n  ")));
    return std::nullopt;
  }
  return std::get<graph::Graph>(std::move(imported));
}

}  // namespace tw::cli
