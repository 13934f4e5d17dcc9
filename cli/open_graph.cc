#include "cli/open_graph.h"

#include <algorithm>
#include <cstdio>

#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "graph/own_operator.h"
#include "runtime/console/output.h"

namespace tw::cli {

bool is_renamed_model(const std::string& path) {
  if (is_onnx(path) || graph::onnx_inputs(path).empty()) return false;
  return say(cat(path, " is an ONNX model, but its name does not end in .onnx: rename it")), true;
}

std::optional<graph::Graph> open_graph(const std::string& path, const std::vector<ModelShape>& shapes,
                                       const OwnRewrites& own) {
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

std::optional<OwnRewrites> OwnRewrites::read(const std::vector<std::string>& paths) {
  OwnRewrites out;
  for (const std::string& path : paths) {
    std::optional<std::string> text = read_file(path);
    if (!text) return std::nullopt;
    Source source{path, *text};
    Diagnostics diagnostics(source);
    auto module = std::make_unique<graph::RewriteModule>(graph::parse_rewrites(source, diagnostics));
    out.check(*module, diagnostics);
    std::fputs(diagnostics.render().c_str(), stderr);
    if (diagnostics.has_errors()) return std::nullopt;
    out.modules_.push_back(std::move(module));
  }
  return out;
}

void OwnRewrites::check(const graph::RewriteModule& module, Diagnostics& diagnostics) const {
  for (const graph::Rewrite& rewrite : module.rewrites) {
    std::string problem = graph::check_rewrite(module, rewrite);
    if (!problem.empty()) diagnostics.error(rewrite.span, cat("`", rewrite.name, "` is not proved: ", problem));
  }
  for (const graph::OnnxOperator& op : module.operators) {
    graph::OwnOperator other = graph::find_operator(modules(), op.domain, op.name);
    if (other.text)
      diagnostics.error(op.span, cat("there is an operator `", op.name, "` of `", op.domain, "` in ",
                                     other.module->source->name, " already"));
  }
}

std::vector<const graph::RewriteModule*> OwnRewrites::modules() const {
  std::vector<const graph::RewriteModule*> out;
  for (const auto& module : modules_) out.push_back(module.get());
  return out;
}

}  // namespace tw::cli
