// tracewright compile: an ONNX model as one C library, without trials or with the kernels of a database.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/check_compiled.h"
#include "cli/commands.h"
#include "cli/compile_to.h"
#include "cli/interrupt.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "graph/input_ranges.h"
#include "runtime/console/output.h"
#include "runtime/export/model_entries.h"

namespace tw::cli {
namespace {

struct Options {
  CompileChoices choices;
  std::string output, emit;
  std::vector<std::string> inputs;
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

boost::json::array described(const ModelPlan& plan, const std::vector<std::string>& labels) {
  boost::json::array out;
  for (const ModelEntry* entry : entries_of(plan))
    out.push_back({{"shapes", labels[out.size()]},
                   {"steps", entry->steps.size()},
                   {"memory_bytes", entry->memory_bytes},
                   {"least_memory_bytes", entry->least_memory_bytes}});
  return out;
}

void print_entries(const std::vector<OpenedModel>& models) {
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (models.size() > 1) fmt::print("entry {}\n", i);
    std::fputs(description(models[i].graph, models[i].tasks).c_str(), stdout);
  }
}

double megabytes(i64 bytes) { return static_cast<double>(bytes) * 1e-6; }

void print_library(const Options& options, const ExportPlan& plan, const std::vector<std::string>& labels,
                   double seconds) {
  std::vector<const ModelEntry*> entries = entries_of(*plan.model);
  std::string path = cat(options.output, "/lib", plan.library, ".so");
  auto memory = [](const ModelEntry& entry) {
    return fmt::format("memory {:.2f} MB ({:.2f} at least)", megabytes(entry.memory_bytes),
                       megabytes(entry.least_memory_bytes));
  };
  std::string weights =
      fmt::format("{} kernels, weights {:.1f} MB", plan.tasks.size(), megabytes(std::ssize(plan.model->weights)));
  if (entries.size() == 1) {
    fmt::print("{}: {} steps, {}, {}, {:.1f} s\n", path, entries[0]->steps.size(), weights, memory(*entries[0]),
               seconds);
    return;
  }
  fmt::print("{}: {} entries, {}, {:.1f} s\n", path, entries.size(), weights, seconds);
  for (std::size_t i = 0; i < entries.size(); ++i)
    fmt::print("  entry {}, {}: {} steps, {}\n", i, labels[i], entries[i]->steps.size(), memory(*entries[i]));
}

// nullopt after a message. What is wrong with the data is said before anything is compiled.
std::optional<CheckChoices> choices_of_check(const Options& options, const std::vector<OpenedModel>& models) {
  CheckChoices out{.folder = options.output,
                   .threads = options.choices.threads,
                   .seed = options.choices.seed,
                   .is_json = options.json};
  if (options.inputs.empty()) return out;
  if (!options.check) return say("--input is for --check"), std::nullopt;
  if (models.size() > 1)
    return say("--input is for a library of one entry; others are checked on random inputs"), std::nullopt;
  Tensors inputs = graph::input_arguments(models[0].imported);
  std::optional<std::vector<InputFile>> files = read_input_files(options.inputs, inputs);
  if (!files || !fill_inputs(inputs, *files, options.choices.seed)) return std::nullopt;
  out.inputs = std::move(*files);
  return out;
}

int compile_file(const Options& options) {
  double begin = seconds_now();
  std::optional<std::vector<OpenedModel>> models = open_entries_to_compile(options.choices);
  if (!models) return Usage;
  if (options.emit == "graph") return print_entries(*models), Ok;
  if (!options.emit.empty()) return say("--emit: only `graph` is known"), Usage;
  if (options.output.empty()) return say("--output: the folder to write to is missing"), Usage;
  std::optional<CheckChoices> checks = choices_of_check(options, *models);
  if (!checks) return Usage;
  CompiledFolder made;
  if (int code = compile_to(*models, options.choices, options.output, made); code != Ok) return code;
  const ModelPlan& plan = *made.plan.model;
  std::vector<std::string> labels = entry_labels(plan);
  double seconds = seconds_now() - begin;
  boost::json::object report{{"folder", options.output},
                             {"library", made.plan.library},
                             {"steps", plan.steps.size()},
                             {"kernels", made.plan.tasks.size()},
                             {"memory_bytes", plan.memory_bytes},
                             {"least_memory_bytes", plan.least_memory_bytes},
                             {"weight_bytes", plan.weights.size()},
                             {"precision", name_of(models->front().precision)},
                             {"entries", described(plan, labels)},
                             {"seconds", seconds}};
  if (!options.choices.database.empty())
    say(cat(std::ranges::count_if(made.plan.tasks, [](const ExportedTask& task) { return task.record > 0; }), " of ",
            made.plan.tasks.size(), " kernels come from ", options.choices.database,
            ", the others are chosen without trials"));
  if (!options.json) print_library(options, made.plan, labels, seconds);
  if (options.check && !made.has_library) say("without a library nothing is checked");
  int code = !made.has_library ? Environment
             : options.check   ? check_compiled(*checks, *models, labels, made.plan, report)
                               : Ok;
  if (code == Interrupted) return say(cat("interrupted; ", options.output, " is complete and was not checked")), code;
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
          "  tracewright compile bert.onnx --shape input_ids=1,128 --threads 1 --output bert\n"
          "  tracewright compile resnet18.onnx --target \"cuda -device=h100\" --output resnet18 --check");
  app.add_option("FILE", options.choices.file, "the model, ONNX").required();
  app.add_option("--output", options.output, "folder to write to");
  app.add_option(
      "--shape", options.choices.shapes,
      "NAME=EXTENT,...: the shape of an input that the file leaves open; several make a library of several entries");
  app.add_option("--threads", options.choices.threads, "threads that one inference uses; 0 = all that there are")
      .range(0, 1024);
  app.add_option("--target", options.choices.target,
                 "a device instead of this processor: `opencl`, `opencl -device=1`, `cuda -device=h100`");
  app.add_option("--database", options.choices.database, "take the fastest kernels from there, where it has some");
  app.add_option("--name", options.choices.name,
                 "of the library and prefix of its symbols; default: the name of the file");
  app.add_option("--precision", options.choices.precision,
                 "of weights and of values between kernels: bf16 or f16, where kernels compute in f32; default: f32");
  app.add_option("--rewrites", options.choices.rewrites,
                 "a file of rewritings of graphs (docs/models.md), tried before the built-in ones, and of operators");
  app.add_option("--seed", options.choices.seed, "of the search, and of the data of --check");
  app.add_option("--emit", options.emit, "graph: print the graph and its kernels instead");
  app.add_flag(
      "--check", options.check,
      "compare the library with the model as it was imported, and each kernel with its part, on random inputs");
  app.add_option("--input", options.inputs,
                 "NAME=FILE.npy, or FILE.npy for the first one: what --check runs on instead");
  app.add_flag("--json", options.json, "print one JSON object");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  options.choices.threads = inference_threads(options.choices.threads);
  return compile_file(options);
}

}  // namespace tw::cli
