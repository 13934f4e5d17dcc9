// tracewright compile: an ONNX model as one C library, without trials or with the kernels of a database.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/compile_to.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/export/model_library.h"
#include "sampler/models/check_model.h"

namespace tw::cli {
namespace {

struct Options {
  CompileChoices choices;
  std::string output, emit;
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
  std::vector<HostArray> inputs = random_inputs(imported, options.choices.seed);
  std::optional<std::vector<HostArray>> expected = reference_outputs(imported, inputs, error);
  if (!expected) return say(cat("the model cannot be computed: ", error)), Environment;
  ModelRun run = run_model(*library, inputs, options.choices.threads);
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

int compile_file(const Options& options) {
  double begin = seconds_now();
  std::optional<OpenedModel> model = open_to_compile(options.choices);
  if (!model) return Usage;
  if (options.emit == "graph") return std::fputs(description(model->graph, model->tasks).c_str(), stdout), Ok;
  if (!options.emit.empty()) return say("--emit: only `graph` is known"), Usage;
  if (options.output.empty()) return say("--output: the folder to write to is missing"), Usage;
  CompiledFolder made;
  if (int code = compile_to(*model, options.choices, options.output, made); code != Ok) return code;
  const ModelPlan& plan = *made.plan.model;
  double seconds = seconds_now() - begin;
  boost::json::object report{{"folder", options.output},
                             {"library", made.plan.library},
                             {"steps", plan.steps.size()},
                             {"kernels", made.plan.tasks.size()},
                             {"memory_bytes", plan.memory_bytes},
                             {"least_memory_bytes", plan.least_memory_bytes},
                             {"weight_bytes", plan.weights.size()},
                             {"seconds", seconds}};
  if (!options.choices.database.empty())
    say(cat(std::ranges::count_if(made.plan.tasks, [](const ExportedTask& task) { return task.record > 0; }), " of ",
            made.plan.tasks.size(), " kernels come from ", options.choices.database,
            ", the others are chosen without trials"));
  if (!options.json)
    fmt::print("{}/lib{}.so: {} steps, {} kernels, weights {:.1f} MB, memory {:.2f} MB ({:.2f} at least), {:.1f} s\n",
               options.output, made.plan.library, plan.steps.size(), made.plan.tasks.size(),
               static_cast<double>(plan.weights.size()) * 1e-6, static_cast<double>(plan.memory_bytes) * 1e-6,
               static_cast<double>(plan.least_memory_bytes) * 1e-6, seconds);
  if (options.check && !made.has_library) say("without a library nothing is checked");
  int code = !made.has_library ? Environment : options.check ? check(options, model->imported, report) : Ok;
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
  app.add_option("FILE", options.choices.file, "the model, ONNX").required();
  app.add_option("--output", options.output, "folder to write to");
  app.add_option("--shape", options.choices.shapes, "NAME=EXTENT,...: the shape of an input that the file leaves open");
  app.add_option("--threads", options.choices.threads, "threads that one inference uses; 0 = all that there are")
      .range(0, 1024);
  app.add_option("--database", options.choices.database, "take the fastest kernels from there, where it has some");
  app.add_option("--name", options.choices.name,
                 "of the library and prefix of its symbols; default: the name of the file");
  app.add_option("--rewrites", options.choices.rewrites,
                 "a file of rewritings of graphs (docs/models.md), tried before the built-in ones");
  app.add_option("--seed", options.choices.seed, "of the search, and of the data of --check");
  app.add_option("--emit", options.emit, "graph: print the graph and its kernels instead");
  app.add_flag("--check", options.check, "compare the library with the model as it was imported, on random inputs");
  app.add_flag("--json", options.json, "print one JSON object");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  options.choices.threads = inference_threads(options.choices.threads);
  return compile_file(options);
}

}  // namespace tw::cli
