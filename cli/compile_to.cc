#include "cli/compile_to.h"

#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/known_names.h"
#include "cli/library_name.h"
#include "cli/model_shapes.h"
#include "cli/open_graph.h"
#include "cli/stored.h"
#include "dsl/base/text.h"
#include "graph/shared_constants.h"
#include "runtime/console/output.h"
#include "runtime/export/export_device_model.h"
#include "runtime/measure/machine_probe.h"
#include "sampler/models/compile_model.h"
#include "sampler/tasks/drafted_layouts.h"

namespace tw::cli {
namespace {

std::optional<MachineRates> rates_for(Database* database, int threads) {
  if (database) return checked(machine_rates(*database, /*may_measure=*/false));
  return rates_of(measure_machine(threads), threads);
}

// nullopt after a message.
std::optional<Target> target_of(const CompileChoices& choices) {
  Target target = host_target();
  target.threads = choices.threads;
  if (choices.target.empty()) return target;
  Source source{"--target", choices.target};
  Diagnostics diagnostics(source);
  std::optional<Target> parsed = parse_target(choices.target, 0, diagnostics);
  std::fputs(diagnostics.render().c_str(), stderr);
  if (parsed && !is_device(*parsed))
    return say("--target is for devices, `opencl` or `cuda`; without it the model is for this processor"), std::nullopt;
  return parsed;
}

bool has_floats(const graph::Graph& graph) {
  return std::ranges::any_of(
      graph.nodes, [&](const graph::Node& node) { return graph.values[node.outputs[0]].type.dtype == DType::F32; });
}

// nullopt after messages.
std::optional<std::vector<OpenedModel>> open_all(const CompileChoices& choices,
                                                 const std::vector<std::vector<ModelShape>>& entries) {
  std::optional<Target> target = target_of(choices);
  std::optional<DType> precision = target ? parse_precision(choices.precision) : std::nullopt;
  if (!precision) return std::nullopt;
  if (is_device(*target) && entries.size() > 1)
    return say("--shape: a library for a device has one entry: say one shape for each input"), std::nullopt;
  std::optional<graph::OwnRewrites> rewrites = read_rewrites(choices.rewrites);
  if (!rewrites) return std::nullopt;
  std::vector<OpenedModel> models;
  std::vector<graph::Graph> imported;
  graph::SharedConstants constants;
  for (const std::vector<ModelShape>& shapes : entries) {
    std::optional<graph::Graph> graph = open_graph(choices.file, shapes, *rewrites);
    if (!graph) return std::nullopt;
    constants.share(*graph);
    imported.push_back(std::move(*graph));
  }
  TaskNames names;
  for (graph::Graph& from : imported) {
    if (*precision != DType::F32 && !has_floats(from))
      return say(cat("--precision ", choices.precision, ": ", choices.file, " computes nothing in f32")), std::nullopt;
    graph::Graph graph = simplified_for(from, *target, rewrites->modules(), *precision);
    constants.share(graph);
    ModelTasks tasks = model_tasks(graph, *target, names);
    models.push_back({std::move(from), std::move(graph), *precision, *target, std::move(tasks)});
  }
  return models;
}

}  // namespace

std::optional<DType> parse_precision(const std::string& text) {
  if (text.empty()) return DType::F32;
  if (!are_known("--precision", "type", {text}, {"f32", "bf16", "f16"})) return std::nullopt;
  return parse_dtype(text);
}

int inference_threads(int said) { return said > 0 ? said : host_target().threads; }

std::optional<OpenedModel> open_to_compile(const CompileChoices& choices) {
  std::optional<std::vector<ModelShape>> shapes = parse_shapes(choices.shapes);
  if (!shapes) return std::nullopt;
  std::optional<std::vector<OpenedModel>> models = open_all(choices, {*shapes});
  if (!models) return std::nullopt;
  return std::move(models->front());
}

std::optional<std::vector<OpenedModel>> open_entries_to_compile(const CompileChoices& choices) {
  std::optional<std::vector<std::vector<ModelShape>>> entries = parse_entry_shapes(choices.shapes);
  if (!entries) return std::nullopt;
  return open_all(choices, *entries);
}

int compile_to(std::span<const OpenedModel> entries, const CompileChoices& choices, const std::string& folder,
               CompiledFolder& out) {
  std::optional<Database> database;
  if (!choices.database.empty() && !(database = open_database(choices.database, DatabaseMode::Read)))
    return Environment;
  bool is_for_device = is_device(entries[0].target);
  std::optional<MachineRates> rates =
      is_for_device ? MachineRates() : rates_for(database ? &*database : nullptr, choices.threads);
  if (!rates) return Environment;
  catch_interrupts();
  ModelOptions how{.library = library_name_of(choices.name.empty() ? choices.file : choices.name),
                   .target = entries[0].target,
                   .database = database ? &*database : nullptr,
                   .rates = *rates,
                   .seed = choices.seed,
                   .threads = host_target().threads,
                   .stop = [] { return stop_wanted.load(); }};
  std::vector<EntryGraph> graphs;
  for (const OpenedModel& entry : entries) graphs.push_back({entry.graph, entry.tasks});
  std::string error;
  std::optional<ExportPlan> plan = compile_model(graphs, how, error);
  if (!plan) return say(error), stop_wanted ? Interrupted : TargetMissed;
  ExportResult written = is_for_device ? write_device_model(*plan, how.target, folder) : write_export(*plan, folder);
  if (!written.note.empty()) say(written.note);
  if (!written.error.empty()) return say(written.error), stop_wanted ? Interrupted : Environment;
  out.plan = std::move(*plan);
  out.has_library = written.note.empty();
  return Ok;
}

}  // namespace tw::cli
