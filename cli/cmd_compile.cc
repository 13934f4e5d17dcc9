// tracewright compile: an ONNX model as one C library, without trials or with the kernels of a database.
#include <fmt/core.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/library_name.h"
#include "cli/open_graph.h"
#include "cli/stored.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "graph/passes/passes.h"
#include "runtime/console/output.h"
#include "runtime/export/model_library.h"
#include "runtime/measure/machine_probe.h"
#include "sampler/models/check_model.h"
#include "sampler/models/compile_model.h"

namespace tw::cli {
namespace {

struct Options {
  std::string file, output, name, database, emit;
  std::vector<std::string> shapes, rewrites;
  int threads = host_target().threads;
  u64 seed = 0;
  bool check = false, json = false;
};

// What the graph has become: its nodes, and the groups that are kernels.
std::string description(const graph::Graph& graph, const ModelTasks& tasks) {
  std::string out = graph::to_string(graph);
  for (std::size_t g = 0; g < tasks.fused.groups.size(); ++g) {
    const graph::Group& group = tasks.fused.groups[g];
    std::vector<std::string> names;
    for (u32 n : group.nodes) names.push_back(graph.values[graph.nodes[n].outputs[0]].name);
    out += cat("kernel ", g, ": ", tasks.tasks[tasks.task_of[g]].name, " = ", join(names, ", "), "\n");
  }
  return out;
}

// Compares the library that was written with the model as it was imported.
int check(const Options& options, const graph::Graph& imported, boost::json::object& report) {
  std::string error;
  std::optional<ModelLibrary> library = open_model(options.output, error);
  if (!library) return say(error), Environment;
  std::vector<HostArray> inputs = random_inputs(imported, options.seed);
  std::optional<std::vector<HostArray>> expected = reference_outputs(imported, inputs, error);
  if (!expected) return say(cat("the model cannot be computed: ", error)), Environment;
  ModelRun run = run_model(*library, inputs, options.threads);
  if (!run.error.empty()) return say(run.error), WrongResults;
  boost::json::array outputs;
  bool is_wrong = false, is_void = false;
  for (std::size_t i = 0; i < expected->size(); ++i) {
    ModelDifference found = difference((*expected)[i], run.outputs[i]);
    bool is_bad = found.is_wrong(most_relative((*expected)[i].dtype));
    is_wrong |= is_bad;
    const std::string& name = imported.output_names[i];
    is_void |= found.compared == 0 && (*expected)[i].elements() > 0;
    i64 void_elements = (*expected)[i].elements() - found.compared;
    if (void_elements > 0)
      say(cat(name, ": of random inputs the model makes ", void_elements, " elements that are no finite numbers"));
    outputs.push_back({{"name", name},
                       {"largest_error", found.largest},
                       {"relative_error", found.relative},
                       {"cosine", found.cosine},
                       {"wrong", is_bad}});
    if (!options.json)
      fmt::print("checked {}: largest error {:.2g}, relative {:.2g}, cosine {:.9f}{}\n", name, found.largest,
                 found.relative, found.cosine, is_bad ? ": WRONG" : "");
  }
  report["check"] = std::move(outputs);
  if (is_void && !is_wrong) return say("the model cannot be checked on random inputs"), TargetMissed;
  return is_wrong ? (say("the library computes something else than the model"), WrongResults) : Ok;
}

// Each is proved by running before it is used. nullopt after messages.
std::optional<std::vector<graph::RewriteModule>> read_rewrites(const std::vector<std::string>& paths) {
  std::vector<graph::RewriteModule> modules;
  for (const std::string& path : paths) {
    std::optional<std::string> text = read_file(path);
    if (!text) return std::nullopt;
    Source source{path, *text};
    Diagnostics diagnostics(source);
    modules.push_back(graph::parse_rewrites(source, diagnostics));
    for (const graph::Rewrite& rewrite : modules.back().rewrites) {
      std::string problem = graph::check_rewrite(modules.back(), rewrite);
      if (!problem.empty()) diagnostics.error(rewrite.span, cat("`", rewrite.name, "` is not proved: ", problem));
    }
    std::fputs(diagnostics.render().c_str(), stderr);
    if (diagnostics.has_errors()) return std::nullopt;
  }
  return modules;
}

std::optional<MachineRates> rates_for(Database* database, int threads) {
  if (database) return checked(machine_rates(*database, /*may_measure=*/false));
  return rates_of(measure_machine(threads), threads);
}

int compile_file(const Options& options) {
  double begin = seconds_now();
  std::optional<graph::Graph> imported = open_graph(options.file, options.shapes);
  if (!imported) return Usage;
  std::optional<std::vector<graph::RewriteModule>> rewrites = read_rewrites(options.rewrites);
  if (!rewrites) return Usage;
  std::vector<const graph::RewriteModule*> own;
  for (const graph::RewriteModule& module : *rewrites) own.push_back(&module);
  graph::Graph graph = graph::simplified(*imported, own);
  Target target = host_target();
  target.threads = options.threads;
  ModelTasks tasks = model_tasks(graph, target);
  if (options.emit == "graph") return std::fputs(description(graph, tasks).c_str(), stdout), Ok;
  if (!options.emit.empty()) return say("--emit: only `graph` is known"), Usage;
  if (options.output.empty()) return say("--output: the folder to write to is missing"), Usage;
  std::optional<Database> database;
  if (!options.database.empty() && !(database = open_database(options.database, DatabaseMode::Read)))
    return Environment;
  std::optional<MachineRates> rates = rates_for(database ? &*database : nullptr, options.threads);
  if (!rates) return Environment;
  catch_interrupts();
  ModelOptions how{.library = library_name_of(options.name.empty() ? options.file : options.name),
                   .target = target,
                   .database = database ? &*database : nullptr,
                   .rates = *rates,
                   .seed = options.seed,
                   .threads = host_target().threads,
                   .stop = [] { return stop_wanted.load(); }};
  std::string error;
  std::optional<ExportPlan> plan = compile_model(graph, tasks, how, error);
  if (!plan) return say(error), stop_wanted ? Interrupted : TargetMissed;
  ExportResult written = write_export(*plan, options.output);
  if (!written.note.empty()) say(written.note);
  if (!written.error.empty()) return say(written.error), Environment;
  const ModelPlan& model = *plan->model;
  boost::json::object report{{"folder", options.output},
                             {"library", plan->library},
                             {"steps", model.steps.size()},
                             {"kernels", plan->tasks.size()},
                             {"memory_bytes", model.memory_bytes},
                             {"least_memory_bytes", model.least_memory_bytes},
                             {"weight_bytes", model.weights.size()},
                             {"seconds", seconds_now() - begin}};
  if (!options.json)
    fmt::print("{}/lib{}.so: {} steps, {} kernels, weights {:.1f} MB, memory {:.2f} MB ({:.2f} at least), {:.1f} s\n",
               options.output, plan->library, model.steps.size(), plan->tasks.size(),
               static_cast<double>(model.weights.size()) * 1e-6, static_cast<double>(model.memory_bytes) * 1e-6,
               static_cast<double>(model.least_memory_bytes) * 1e-6, seconds_now() - begin);
  bool is_whole = written.note.empty();
  if (options.check && !is_whole) say("without a library nothing is checked");
  int code = !is_whole ? Environment : options.check ? check(options, *imported, report) : Ok;
  if (options.json) print_json(report);
  return code;
}

}  // namespace

int run_compile(int count, char** words) {
  Options options;
  App app("compile",
          "Compile an ONNX model to one C library: header, static and shared library, weights, manifest, traces.\n"
          "Kernels are chosen without trials, or taken from a database that `tune` has filled.",
          "examples:\n  tracewright compile resnet18.onnx --output resnet18 --check\n"
          "  tracewright compile bert.onnx --shape input_ids=1,128 --threads 1 --output bert");
  app.add_option("FILE", options.file, "the model, ONNX").required();
  app.add_option("--output", options.output, "folder to write to");
  app.add_option("--shape", options.shapes, "NAME=EXTENT,...: the shape of an input that the file leaves open");
  app.add_option("--threads", options.threads, "that one inference uses").range(1, 1024);
  app.add_option("--database", options.database, "take the fastest kernels from there, where it has some");
  app.add_option("--name", options.name, "of the library and prefix of its symbols; default: the name of the file");
  app.add_option("--rewrites", options.rewrites,
                 "a file of rewritings of graphs (docs/models.md), tried before the built-in ones");
  app.add_option("--seed", options.seed, "of the search, and of the data of --check");
  app.add_option("--emit", options.emit, "graph: print the graph and its kernels instead");
  app.add_flag("--check", options.check, "compare the library with the model as it was imported, on random inputs");
  app.add_flag("--json", options.json, "print one JSON object");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  return compile_file(options);
}

}  // namespace tw::cli
