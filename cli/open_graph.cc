#include "cli/open_graph.h"

#include <algorithm>
#include <charconv>

#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "runtime/console/output.h"

namespace tw::cli {
namespace {

// Nothing if the text is not of the form.
std::optional<std::pair<std::string, std::vector<i64>>> parse_shape(const std::string& text) {
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
  return std::pair(text.substr(0, equals), std::move(extents));
}

}  // namespace

std::optional<graph::Graph> open_graph(const std::string& path, const std::vector<std::string>& shapes) {
  graph::ImportOptions options;
  std::vector<std::string> names = shapes.empty() ? std::vector<std::string>() : graph::onnx_inputs(path);
  for (const std::string& text : shapes) {
    auto shape = parse_shape(text);
    if (!shape) return say(cat("--shape: expected NAME=EXTENT,EXTENT,..., found `", text, "`")), std::nullopt;
    if (!names.empty() && std::ranges::count(names, shape->first) == 0)
      return say(cat("--shape: the model has no input `", shape->first, "`; its inputs are ", join(names, ", "))),
             std::nullopt;
    options.shapes.insert(std::move(*shape));
  }
  auto imported = graph::import_onnx(path, options);
  if (auto* problems = std::get_if<graph::ImportProblems>(&imported)) {
    say(cat(path, " cannot be compiled:\n  ", join(problems->lines, "\n  ")));
    return std::nullopt;
  }
  return std::get<graph::Graph>(std::move(imported));
}

}  // namespace tw::cli
