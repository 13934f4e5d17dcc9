// tracewright run: a compiled model on data in .npy files.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <map>
#include <numeric>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/export/model_library.h"
#include "runtime/lists/npy.h"

namespace tw::cli {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> inputs, outputs;
  int threads = 1;
  double seconds = 0;
  u64 seed = 0;
  bool profile = false, json = false;
};

// "x=x.npy" or, for the first one, "x.npy".
std::pair<std::string, std::string> named_file(const std::string& text, const std::vector<KernelArgument>& tensors) {
  std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {tensors.empty() ? "" : tensors[0].name, text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

const KernelArgument* find(const std::vector<KernelArgument>& tensors, const std::string& name, const char* flag) {
  auto at = std::ranges::find(tensors, name, &KernelArgument::name);
  if (at != tensors.end()) return &*at;
  if (tensors.empty()) return say(cat(flag, ": the model has none")), nullptr;
  std::vector<std::string> names;
  for (const KernelArgument& tensor : tensors) names.push_back(tensor.name);
  say(cat(flag, ": the model has no `", name, "`; there are ", join(names, ", ")));
  return nullptr;
}

// Inputs that no file is given for are random. nullopt after a message.
std::optional<std::vector<HostArray>> read_inputs(const Options& options, const ModelLibrary& model) {
  std::vector<HostArray> arrays = random_inputs(model.inputs, options.seed);
  for (const std::string& text : options.inputs) {
    auto [name, path] = named_file(text, model.inputs);
    const KernelArgument* input = find(model.inputs, name, "--input");
    if (!input) return std::nullopt;
    std::string error;
    std::optional<HostArray> array = read_npy(path, error);
    if (!array) return say(error), std::nullopt;
    if (array->dtype != input->dtype || array->shape != input->shape)
      return say(cat(path, " holds ", name_of(array->dtype), "[", join(array->shape, ", "), "], but `", name, "` is ",
                     name_of(input->dtype), "[", join(input->shape, ", "), "]")),
             std::nullopt;
    arrays[static_cast<std::size_t>(input - model.inputs.data())] = std::move(*array);
  }
  return arrays;
}

// A file to write, and which output goes there.
struct OutputFile {
  std::size_t output;
  std::string path;
};

// nullopt after a message.
std::optional<std::vector<OutputFile>> output_files(const Options& options, const ModelLibrary& model) {
  std::vector<OutputFile> files;
  for (const std::string& text : options.outputs) {
    auto [name, path] = named_file(text, model.outputs);
    const KernelArgument* output = find(model.outputs, name, "--output");
    if (!output) return std::nullopt;
    if (!npy_bytes(HostArray::zeros(output->dtype, {0})))
      return say(cat(".npy files cannot hold ", name_of(output->dtype))), std::nullopt;
    files.push_back({static_cast<std::size_t>(output - model.outputs.data()), path});
  }
  return files;
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
  std::vector<double> times = time_steps(model, inputs, options.threads, std::max(1.0, options.seconds), error);
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

int run_folder(const Options& options) {
  if (options.json && !options.profile) return say("--json is for --profile"), Usage;
  std::string error;
  std::optional<ModelLibrary> model = open_model(options.model, error);
  if (!model) return say(error), Usage;
  std::optional<std::vector<HostArray>> inputs = read_inputs(options, *model);
  std::optional<std::vector<OutputFile>> files = output_files(options, *model);
  if (!inputs || !files) return Usage;
  if (options.profile) return print_profile(options, *model, *inputs);
  ModelRun run = run_model(*model, *inputs, options.threads, options.seconds);
  if (!run.error.empty()) return say(run.error), Environment;
  for (const OutputFile& file : *files) {
    if (!write_file(file.path, *npy_bytes(run.outputs[file.output]))) return Environment;
  }
  for (std::size_t i = 0; i < run.outputs.size(); ++i)
    fmt::print("{}: {}[{}]\n", model->outputs[i].name, name_of(run.outputs[i].dtype), join(run.outputs[i].shape, ", "));
  if (run.seconds.empty()) return Ok;
  std::ranges::sort(run.seconds);
  fmt::print("{} calls, median {}, fastest {}; start {}\n", run.seconds.size(),
             show_time(run.seconds[run.seconds.size() / 2]), show_time(run.seconds[0]), show_time(run.create_seconds));
  return Ok;
}

}  // namespace

int run_run(int count, char** words) {
  Options options;
  App app("run", "Run a model that `compile` has made. Inputs without a file get random numbers.",
          "examples:\n  tracewright compile resnet18.onnx --output resnet18\n"
          "  tracewright run resnet18 --input x=x.npy --output y=y.npy\n"
          "  tracewright run resnet18 --threads 2 --seconds 2    # how long it takes");
  app.add_option("MODEL", options.model, "the folder that `compile` has written").required();
  app.add_option("--input", options.inputs, "NAME=FILE.npy, or FILE.npy for the first one");
  app.add_option("--output", options.outputs, "NAME=FILE.npy, or FILE.npy for the first one");
  app.add_option("--threads", options.threads, "that run it").range(1, 1024);
  app.add_option("--seconds", options.seconds, "call it so long and say what a call takes");
  app.add_flag("--profile", options.profile, "say what each kernel takes instead");
  app.add_flag("--json", options.json, "with --profile: print one JSON object");
  app.add_option("--seed", options.seed, "of random inputs");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  return run_folder(options);
}

}  // namespace tw::cli
