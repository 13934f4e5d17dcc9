#include "cli/compile_to.h"

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/library_name.h"
#include "cli/open_graph.h"
#include "cli/stored.h"
#include "graph/passes/passes.h"
#include "runtime/console/output.h"
#include "runtime/measure/machine_probe.h"
#include "sampler/models/compile_model.h"

namespace tw::cli {
namespace {

std::optional<MachineRates> rates_for(Database* database, int threads) {
  if (database) return checked(machine_rates(*database, /*may_measure=*/false));
  return rates_of(measure_machine(threads), threads);
}

}  // namespace

int inference_threads(int said) { return said > 0 ? said : host_target().threads; }

std::optional<OpenedModel> open_to_compile(const CompileChoices& choices) {
  std::optional<graph::Graph> imported = open_graph(choices.file, choices.shapes);
  if (!imported) return std::nullopt;
  std::optional<OwnRewrites> rewrites = OwnRewrites::read(choices.rewrites);
  if (!rewrites) return std::nullopt;
  graph::Graph graph = graph::simplified(*imported, rewrites->modules());
  Target target = host_target();
  target.threads = choices.threads;
  ModelTasks tasks = model_tasks(graph, target);
  return OpenedModel{std::move(*imported), std::move(graph), target, std::move(tasks)};
}

int compile_to(const OpenedModel& model, const CompileChoices& choices, const std::string& folder,
               CompiledFolder& out) {
  std::optional<Database> database;
  if (!choices.database.empty() && !(database = open_database(choices.database, DatabaseMode::Read)))
    return Environment;
  std::optional<MachineRates> rates = rates_for(database ? &*database : nullptr, choices.threads);
  if (!rates) return Environment;
  catch_interrupts();
  ModelOptions how{.library = library_name_of(choices.name.empty() ? choices.file : choices.name),
                   .target = model.target,
                   .database = database ? &*database : nullptr,
                   .rates = *rates,
                   .seed = choices.seed,
                   .threads = host_target().threads,
                   .stop = [] { return stop_wanted.load(); }};
  std::string error;
  std::optional<ExportPlan> plan = compile_model(model.graph, model.tasks, how, error);
  if (!plan) return say(error), stop_wanted ? Interrupted : TargetMissed;
  ExportResult written = write_export(*plan, folder);
  if (!written.note.empty()) say(written.note);
  if (!written.error.empty()) return say(written.error), Environment;
  out.plan = std::move(*plan);
  out.has_library = written.note.empty();
  return Ok;
}

}  // namespace tw::cli
