#include "cli/open_list.h"

#include <algorithm>
#include <cstdio>

#include "cli/compile_to.h"
#include "cli/model_shapes.h"
#include "cli/open_graph.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::cli {

std::optional<LoadedList> open_list(const std::string& path, const std::string& rules, const std::string& strategy,
                                    const std::vector<std::string>& shapes, const std::vector<std::string>& rewrites,
                                    const std::string& precision) {
  std::optional<std::vector<ModelShape>> parsed = parse_shapes(shapes);
  std::optional<DType> type = parsed ? parse_precision(precision) : std::nullopt;
  if (!type) return std::nullopt;
  if (!precision.empty() && !is_onnx(path))
    return say("--precision is for a model; in a list it is `precision: bf16`"), std::nullopt;
  if (!shapes.empty() && !is_onnx(path))
    return say("--shape is for a model; in a list it is `shapes: {x: [1, 3, 224, 224]}`"), std::nullopt;
  std::optional<graph::OwnRewrites> own = read_rewrites(rewrites);
  if (!own) return std::nullopt;
  std::string messages;
  std::optional<LoadedList> list = load_list(path, messages, rules, strategy, *parsed, *own, *type);
  if (!list && is_renamed_model(path)) return std::nullopt;
  std::fputs(messages.c_str(), stderr);
  return list;
}

bool fits_in_memory(const LoadedList& list, const std::string& only) {
  std::string why = why_not_in_memory(list, only);
  std::fputs(why.c_str(), stderr);
  return why.empty();
}

bool is_task_name(const std::string& name, const std::vector<std::string>& names, const std::string& where) {
  if (std::ranges::find(names, name) != names.end()) return true;
  std::string near = closest(name, names);
  say(cat("no task `", name, "` in ", where,
          near.empty() ? cat("; there are: ", join(names, ", ")) : cat("; did you mean `", near, "`?")));
  return false;
}

bool has_task(const LoadedList& list, const std::string& name) {
  std::vector<std::string> names;
  for (const TuneTask& task : list.tasks) names.push_back(task.name);
  return name.empty() || is_task_name(name, names, list.source.name);
}

std::optional<TraceFile> read_trace_file(const std::string& path, const std::string& text) {
  Source source{path, text};
  Diagnostics diagnostics(source);
  std::optional<TraceFile> file = parse_trace_file(source, diagnostics);
  std::fputs(diagnostics.render().c_str(), stderr);
  return file;
}

}  // namespace tw::cli
