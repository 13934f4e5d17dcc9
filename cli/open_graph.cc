#include "cli/open_graph.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

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

bool is_renamed_model(const std::string& path) {
  if (is_onnx(path) || graph::onnx_inputs(path).empty()) return false;
  return say(cat(path, " is an ONNX model, but its name does not end in .onnx: rename it")), true;
}

std::optional<std::vector<ModelShape>> parse_shapes(const std::vector<std::string>& texts) {
  std::vector<ModelShape> shapes;
  for (const std::string& text : texts) {
    std::optional<ModelShape> shape = parse_shape(text);
    if (!shape) return say(cat("--shape: expected NAME=EXTENT,EXTENT,..., found `", text, "`")), std::nullopt;
    if (std::ranges::find(shapes, shape->name, &ModelShape::name) != shapes.end())
      return say(cat("--shape: the input `", shape->name, "` has two shapes; say one")), std::nullopt;
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

std::optional<OwnRewrites> OwnRewrites::read(const std::vector<std::string>& paths) {
  OwnRewrites out;
  for (const std::string& path : paths) {
    std::optional<std::string> text = read_file(path);
    if (!text) return std::nullopt;
    Source source{path, *text};
    Diagnostics diagnostics(source);
    auto module = std::make_unique<graph::RewriteModule>(graph::parse_rewrites(source, diagnostics));
    for (const graph::Rewrite& rewrite : module->rewrites) {
      std::string problem = graph::check_rewrite(*module, rewrite);
      if (!problem.empty()) diagnostics.error(rewrite.span, cat("`", rewrite.name, "` is not proved: ", problem));
    }
    std::fputs(diagnostics.render().c_str(), stderr);
    if (diagnostics.has_errors()) return std::nullopt;
    out.modules_.push_back(std::move(module));
  }
  return out;
}

std::vector<const graph::RewriteModule*> OwnRewrites::modules() const {
  std::vector<const graph::RewriteModule*> out;
  for (const auto& module : modules_) out.push_back(module.get());
  return out;
}

}  // namespace tw::cli
