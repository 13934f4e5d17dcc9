// tracewright run: a compiled model, or an ONNX file that is compiled first, on data in .npy files.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <map>
#include <numeric>

#include "cli/arguments.h"
#include "cli/choose_entry.h"
#include "cli/commands.h"
#include "cli/compile_to.h"
#include "cli/input_files.h"
#include "cli/interrupt.h"
#include "cli/model_shapes.h"
#include "cli/open_graph.h"
#include "dsl/base/temporary_folder.h"
#include "dsl/base/text.h"
#include "graph/input_ranges.h"
#include "runtime/console/output.h"
#include "runtime/export/model_library.h"
#include "runtime/lists/npy.h"

namespace tw::cli {
namespace {

struct Options {
  CompileChoices choices;  // its file may be a folder
  std::vector<std::string> inputs, outputs;
  double seconds = 0;
  bool profile = false, json = false;
};

// A file to write, and which output goes there.
struct OutputFile {
  std::size_t output;
  std::string path;
};

// nullopt after a message.
std::optional<std::vector<OutputFile>> output_files(const Options& options, const Tensors& outputs) {
  std::vector<OutputFile> files;
  for (const std::string& text : options.outputs) {
    auto [name, path] = named_file(text, outputs);
    const KernelArgument* output = find_tensor(outputs, name, "--output");
    if (!output) return std::nullopt;
    if (!npy_bytes(HostArray::zeros(output->dtype, {0})))
      return say(cat(".npy files cannot hold ", name_of(output->dtype))), std::nullopt;
    std::size_t index = static_cast<std::size_t>(output - outputs.data());
    if (std::ranges::count(files, index, &OutputFile::output) > 0)
      return say(cat("--output: `", name, "` has two files; say one")), std::nullopt;
    files.push_back({index, path});
  }
  return files;
}

struct Data {
  std::vector<HostArray> inputs;
  std::vector<OutputFile> outputs;
};
// nullopt after a message.
std::optional<Data> open_data(const Options& options, const Tensors& inputs, const Tensors& outputs,
                              std::vector<InputFile> given) {
  std::vector<std::size_t> given_inputs;
  for (const InputFile& file : given) given_inputs.push_back(file.input);
  std::optional<std::vector<HostArray>> arrays = fill_inputs(inputs, std::move(given), options.choices.seed);
  for (std::size_t i = 0; arrays && i < inputs.size() && !options.outputs.empty(); ++i) {
    if (std::ranges::count(given_inputs, i) == 0) say(cat(inputs[i].name, ": no --input, so it has random numbers"));
  }
  std::optional<std::vector<OutputFile>> files = output_files(options, outputs);
  if (!arrays || !files) return std::nullopt;
  return Data{std::move(*arrays), std::move(*files)};
}

struct KernelTime {
  std::string kernel;
  double seconds = 0, flops = 0;  // of all its calls in one run
  int calls = 0;
  double gflops() const { return flops / seconds * 1e-9; }
};

// The one that takes longest first.
std::vector<KernelTime> kernel_times(const ModelLibrary& model, const std::vector<double>& step_seconds) {
  std::map<std::string, KernelTime> sums;
  for (std::size_t i = 0; i < step_seconds.size(); ++i) {
    KernelTime& sum = sums[model.steps[i].kernel];
    sum.kernel = model.steps[i].kernel;
    sum.seconds += step_seconds[i], ++sum.calls;
    sum.flops += model.steps[i].flops;
  }
  std::vector<KernelTime> sorted;
  for (auto& [kernel, sum] : sums) sorted.push_back(std::move(sum));
  std::ranges::stable_sort(sorted, std::greater(), &KernelTime::seconds);
  return sorted;
}

void print_json_profile(const std::vector<KernelTime>& kernels) {
  boost::json::array rows;
  for (const KernelTime& kernel : kernels)
    rows.push_back({{"kernel", kernel.kernel},
                    {"seconds", kernel.seconds},
                    {"calls", kernel.calls},
                    {"gflops", json_number(kernel.gflops())}});
  print_json({{"kernels", std::move(rows)}});
}

int print_profile(const Options& options, const ModelLibrary& model, const std::vector<HostArray>& inputs) {
  std::string error;
  std::vector<double> times = time_steps(model, inputs, options.choices.threads, std::max(1.0, options.seconds), error);
  if (!error.empty()) return say(error), Environment;
  std::vector<KernelTime> kernels = kernel_times(model, times);
  if (options.json) return print_json_profile(kernels), Ok;
  double all = std::accumulate(times.begin(), times.end(), 0.0);
  std::vector<std::vector<std::string>> rows;
  for (const KernelTime& kernel : kernels)
    rows.push_back({show_time(kernel.seconds), fmt::format("{:.1f} %", 100 * kernel.seconds / all),
                    fmt::format("{}", kernel.calls), show_time(kernel.seconds / kernel.calls),
                    show_number(kernel.gflops()), kernel.kernel});
  rows.push_back({show_time(all), "", fmt::format("{}", times.size()), "", "", "all steps"});
  print_table({"time", "share", "calls", "each", "GFLOP/s", "kernel"}, rows);
  return Ok;
}

// What calls took, sorted.
void print_json_times(const Options& options, const ModelRun& run) {
  boost::json::object out{{"calls", run.seconds.size()},
                          {"threads", options.choices.threads},
                          {"us", run.seconds[run.seconds.size() / 2] * 1e6},
                          {"fastest_us", run.seconds[0] * 1e6},
                          {"create_us", run.create_seconds * 1e6}};
  if (run.on_device)
    out["device"] = {{"us", run.on_device->whole * 1e6},
                     {"launched_us", run.on_device->launched * 1e6},
                     {"graph", run.on_device->has_graph}};
  print_json(out);
}

void print_times(const Options& options, const ModelRun& run) {
  if (options.json) return print_json_times(options, run);
  fmt::print("{} calls with {}, median {}, fastest {}; start {}\n", run.seconds.size(),
             run.on_device ? "copies from and to the host" : cat(options.choices.threads, " thread(s)"),
             show_time(run.seconds[run.seconds.size() / 2]), show_time(run.seconds[0]), show_time(run.create_seconds));
  if (!run.on_device) return;
  if (run.on_device->has_graph)
    fmt::print("on the device alone: {} as one CUDA graph, {} launched one by one\n", show_time(run.on_device->whole),
               show_time(run.on_device->launched));
  else
    fmt::print("on the device alone: {}, launched one by one\n", show_time(run.on_device->whole));
}

int run_library(const Options& options, const ModelLibrary& model, const Data& data) {
  if (options.profile) return print_profile(options, model, data.inputs);
  ModelRun run = run_model(model, data.inputs, options.choices.threads, options.seconds);
  if (stop_wanted) return Interrupted;
  if (!run.error.empty()) return say(run.error), Environment;
  for (const OutputFile& file : data.outputs) {
    if (!write_file(file.path, *npy_bytes(run.outputs[file.output]))) return Environment;
  }
  for (std::size_t i = 0; i < run.outputs.size() && !options.json; ++i)
    fmt::print("{}: {}[{}]\n", model.outputs[i].name, name_of(run.outputs[i].dtype), join(run.outputs[i].shape, ", "));
  if (run.seconds.empty()) return Ok;
  std::ranges::sort(run.seconds);
  print_times(options, run);
  return Ok;
}

// By --shape and by what the files hold; of one entry it is said which file does not fit. nullopt after a message.
std::optional<ModelLibrary> entry_for(const Options& options, const std::vector<ModelLibrary>& entries,
                                      const std::vector<InputFile>& files) {
  std::optional<std::vector<ModelShape>> shapes = parse_shapes(options.choices.shapes);
  if (!shapes) return std::nullopt;
  for (const ModelShape& shape : *shapes) {
    if (!find_tensor(entries[0].inputs, shape.name, "--shape")) return std::nullopt;
  }
  for (const InputFile& file : files) {
    if (entries.size() > 1) shapes->push_back({entries[0].inputs[file.input].name, file.array.shape});
  }
  return choose_entry(entries, *shapes);
}

int run_folder(Options options) {
  CompileChoices& choices = options.choices;
  if (!choices.rewrites.empty() || !choices.database.empty() || !choices.target.empty() || !choices.precision.empty())
    return say("--rewrites, --target, --precision and --database are for an ONNX file, which is compiled first"), Usage;
  std::string error;
  std::optional<std::vector<ModelLibrary>> entries = open_entries(choices.file, error);
  if (!entries && is_renamed_model(choices.file)) return Usage;
  if (!entries) return say(error), Usage;
  std::optional<std::vector<InputFile>> files = read_input_files(options.inputs, entries->front().inputs);
  std::optional<ModelLibrary> model = files ? entry_for(options, *entries, *files) : std::nullopt;
  if (!model) return Usage;
  if (choices.threads == 0) choices.threads = model->threads;
  std::optional<Data> data = open_data(options, model->inputs, model->outputs, std::move(*files));
  return data ? run_library(options, *model, *data) : Usage;
}

// Compiled into a folder that is gone afterwards. What is wrong with the data is said before.
int run_onnx(Options options) {
  options.choices.threads = inference_threads(options.choices.threads);
  std::optional<OpenedModel> model = open_to_compile(options.choices);
  if (!model) return Usage;
  const graph::Graph& graph = model->imported;
  Tensors outputs = outputs_of(graph), inputs = graph::input_arguments(graph);
  std::optional<std::vector<InputFile>> files = read_input_files(options.inputs, inputs);
  std::optional<Data> data = files ? open_data(options, inputs, outputs, std::move(*files)) : std::nullopt;
  if (!data) return Usage;
  TemporaryFolder folder("model");
  if (folder.path().empty()) return say(folder.problem()), Environment;
  CompiledFolder made;
  if (int code = compile_to({&*model, 1}, options.choices, folder.path(), made); code != Ok) return code;
  if (!made.has_library) return Environment;
  std::string error;
  std::optional<ModelLibrary> library = open_model(folder.path(), error);
  return library ? run_library(options, *library, *data) : (say(error), Environment);
}

}  // namespace

int run_run(int count, char** words) {
  Options options;
  CompileChoices& choices = options.choices;
  App app("run",
          "Run an ONNX model, or a folder that `compile` has made of one, which begins at once. Inputs without a file\n"
          "get random numbers.",
          "examples:\n  tracewright run resnet50.onnx --shape x=1,3,224,224 --input x=x.npy --output y.npy\n"
          "  tracewright compile resnet18.onnx --output resnet18\n"
          "  tracewright run resnet18 --input x=x.npy --output y=y.npy\n"
          "  tracewright run resnet18 --threads 2 --seconds 2    # how long it takes");
  app.add_option("MODEL", choices.file, "an ONNX file, or the folder that `compile` has written").required();
  app.add_option("--input", options.inputs, "NAME=FILE.npy, or FILE.npy for the first one");
  app.add_option("--output", options.outputs, "NAME=FILE.npy, or FILE.npy for the first one");
  app.add_option("--threads", choices.threads,
                 "threads that one inference uses; 0 = all that there are, of a folder those that it was compiled for")
      .range(0, 1024);
  app.add_option("--seconds", options.seconds, "call it so long and say what a call takes").positive();
  app.add_flag("--profile", options.profile, "say what each kernel takes instead");
  app.add_flag("--json", options.json, "with --profile or --seconds: print one JSON object");
  app.add_option("--shape", choices.shapes,
                 "NAME=EXTENT,...: the shape of an input that an ONNX file leaves open; of a folder: which entry runs");
  app.add_option("--target", choices.target, "of an ONNX file: a device instead of this processor, as for `compile`");
  app.add_option("--precision", choices.precision, "of an ONNX file: f32, bf16 or f16, as for `compile`");
  app.add_option("--database", choices.database, "of an ONNX file: take the fastest kernels from there");
  app.add_option("--rewrites", choices.rewrites,
                 "of an ONNX file: a file of rewritings of graphs and of operators (docs/models.md)");
  app.add_option("--seed", choices.seed, "of random inputs, and of the search for an ONNX file's kernels");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  if (options.json && !options.profile && options.seconds <= 0)
    return say("--json is for --profile and --seconds"), Usage;
  return is_onnx(choices.file) ? run_onnx(options) : run_folder(options);
}

}  // namespace tw::cli
