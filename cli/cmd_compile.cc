// tracewright compile: an ONNX model as one C library, without trials or with the kernels of a database.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/compile_to.h"
#include "cli/devices.h"
#include "cli/interrupt.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/export/model_entries.h"
#include "runtime/export/model_functions.h"
#include "runtime/export/model_library.h"
#include "sampler/models/check_model.h"
#include "sampler/models/cuda_kernels.h"

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

// Compares an entry of the library with the model as it was imported. `where`: words in front of outputs' names.
int check_entry(const Options& options, const graph::Graph& imported, const ModelLibrary& library,
                const std::string& where, boost::json::array& outputs) {
  std::string error;
  std::vector<HostArray> inputs = random_inputs(imported, options.choices.seed);
  std::optional<std::vector<HostArray>> expected = reference_outputs(imported, inputs, error);
  if (!expected) return say(cat("the model cannot be computed: ", error)), Environment;
  ModelRun run = run_model(library, inputs, options.choices.threads);
  bool is_there = !run.error.starts_with(why_not_created(kModelNoDevice));
  if (!run.error.empty()) return say(run.error), is_there ? WrongResults : Environment;
  bool is_wrong = false, is_void = false;
  for (std::size_t i = 0; i < expected->size(); ++i) {
    ModelDifference found = difference((*expected)[i], run.outputs[i]);
    bool is_bad = found.is_wrong(most_relative((*expected)[i].dtype));
    is_wrong |= is_bad;
    std::string name = where + imported.output_names[i];
    is_void |= found.compared == 0 && (*expected)[i].elements() > 0;
    i64 void_elements = (*expected)[i].elements() - found.compared;
    if (void_elements > 0)
      say(cat(name, ": of random inputs the model makes ", void_elements, " elements that are no finite numbers"));
    outputs.push_back({{"name", imported.output_names[i]},
                       {"entry", library.entry},
                       {"largest_error", found.largest},
                       {"relative_error", found.relative},
                       {"cosine", found.cosine},
                       {"wrong", is_bad}});
    if (!options.json)
      fmt::print("checked {}: largest error {:.2g}, relative {:.2g}, cosine {:.9f}{}\n", name, found.largest,
                 found.relative, found.cosine, is_bad ? ": WRONG" : "");
  }
  if (is_void && !is_wrong) return say("the model cannot be checked on random inputs"), TargetMissed;
  return is_wrong ? (say("the library computes something else than the model"), WrongResults) : Ok;
}

// All entries; the exit code of the worst one.
int check(const Options& options, const std::vector<OpenedModel>& models, const std::vector<std::string>& labels,
          boost::json::object& report) {
  std::string error;
  std::optional<std::vector<ModelLibrary>> entries = open_entries(options.output, error);
  if (!entries) return say(error), Environment;
  boost::json::array outputs;
  int code = Ok;
  for (std::size_t i = 0; i < models.size(); ++i) {
    std::string where = labels[i].empty() ? "" : labels[i] + ": ";
    int own = check_entry(options, models[i].imported, (*entries)[i], where, outputs);
    if (code == Ok || own == WrongResults) code = own;
  }
  report["check"] = std::move(outputs);
  return code;
}

// Runs each kernel of a model for `cuda` in the emulator, whether there is a GPU or not.
int check_by_emulation(const Options& options, const OpenedModel& model, const ExportPlan& plan,
                       boost::json::object& report) {
  std::vector<EmulationVerdict> verdicts =
      emulate_kernels(plan, model.tasks, host_target().threads, [] { return stop_wanted.load(); });
  if (stop_wanted) return Interrupted;
  boost::json::array kernels;
  std::size_t right = 0, wrong = 0;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const EmulationVerdict& verdict = verdicts[i];
    bool is_right = verdict.kind == EmulationVerdict::Right, is_wrong = verdict.kind == EmulationVerdict::Wrong;
    right += is_right, wrong += is_wrong;
    kernels.push_back({{"name", plan.tasks[i].name},
                       {"emulation", is_right   ? "right"
                                     : is_wrong ? "wrong"
                                                : "not checked"},
                       {"message", verdict.message}});
    if (!is_right)
      say(cat(plan.tasks[i].name,
              is_wrong ? ": WRONG in the emulator: " : ": not checked in the emulator: ", verdict.message));
  }
  if (!options.json) fmt::print("checked {} of {} kernels in the emulator\n", right, verdicts.size());
  report["emulation"] = std::move(kernels);
  return wrong > 0 ? WrongResults : Ok;
}

// What the target can be checked by: the emulator, the library itself where its device is there.
int check_made(const Options& options, const std::vector<OpenedModel>& models, const std::vector<std::string>& labels,
               const ExportPlan& plan, boost::json::object& report) {
  const OpenedModel& first = models.front();
  if (first.target.kind == TargetKind::Cuda) {
    if (int code = check_by_emulation(options, first, plan, report); code != Ok) return code;
    if (std::string missing = why_no_device(first.target); !missing.empty())
      return say(cat("the library as a whole is not checked: ", missing)), Ok;
  }
  return check(options, models, labels, report);
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

int compile_file(const Options& options) {
  double begin = seconds_now();
  std::optional<std::vector<OpenedModel>> models = open_entries_to_compile(options.choices);
  if (!models) return Usage;
  if (options.emit == "graph") return print_entries(*models), Ok;
  if (!options.emit.empty()) return say("--emit: only `graph` is known"), Usage;
  if (options.output.empty()) return say("--output: the folder to write to is missing"), Usage;
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
                             {"entries", described(plan, labels)},
                             {"seconds", seconds}};
  if (!options.choices.database.empty())
    say(cat(std::ranges::count_if(made.plan.tasks, [](const ExportedTask& task) { return task.record > 0; }), " of ",
            made.plan.tasks.size(), " kernels come from ", options.choices.database,
            ", the others are chosen without trials"));
  if (!options.json) print_library(options, made.plan, labels, seconds);
  if (options.check && !made.has_library) say("without a library nothing is checked");
  int code = !made.has_library ? Environment
             : options.check   ? check_made(options, *models, labels, made.plan, report)
                               : Ok;
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
                 "of weights and of values between kernels: f32, bf16 or f16; kernels compute in f32");
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
