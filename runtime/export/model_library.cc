#include "runtime/export/model_library.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "backends/target.h"
#include "dsl/base/clock.h"
#include "dsl/base/files.h"
#include "dsl/base/forked.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/limits.h"
#include "runtime/export/loaded_model.h"
#include "runtime/measure/aligned_bytes.h"
#include "runtime/measure/elements.h"

namespace tw {
namespace {

std::vector<KernelArgument> tensors_of(const boost::json::value& list) {
  std::vector<KernelArgument> tensors;
  for (const boost::json::value& entry : list.as_array()) {
    KernelArgument tensor;
    tensor.name = entry.at("name").as_string();
    std::optional<DType> type = parse_dtype(std::string_view(entry.at("dtype").as_string()));
    if (!type) throw std::runtime_error("an unknown element type");
    tensor.dtype = *type;
    i64 elements = 1;
    for (const boost::json::value& extent : entry.at("shape").as_array()) {
      tensor.shape.push_back(extent.to_number<i64>());
      bool is_possible = tensor.shape.back() >= 0 && !__builtin_mul_overflow(elements, tensor.shape.back(), &elements);
      if (!is_possible || elements > kMostModelElements) throw std::runtime_error("a shape that cannot be");
    }
    tensor.bytes = entry.at("bytes").to_number<i64>();
    if (tensor.bytes != elements * bytes_of(tensor.dtype))
      throw std::runtime_error("bytes that are not those of the shape");
    if (const boost::json::value* values = entry.as_object().if_contains("values"))
      tensor.indices = {values->at(0).to_number<i64>(), values->at(1).to_number<i64>()};
    i64 length = 0;
    if (__builtin_sub_overflow(tensor.indices.below, tensor.indices.lowest, &length) || length < 0)
      throw std::runtime_error("values that cannot be");
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

class Weights {
 public:
  explicit Weights(const std::string& path) {
    int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat about{};
    if (file < 0) return;
    if (fstat(file, &about) == 0 && about.st_size > 0) bytes_ = static_cast<std::size_t>(about.st_size);
    void* mapped = bytes_ > 0 ? mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (mapped != MAP_FAILED) data_ = static_cast<char*>(mapped);
    close(file);
  }
  Weights(const Weights&) = delete;
  ~Weights() {
    if (data_) munmap(data_, bytes_);
  }
  char* data() const { return data_; }

 private:
  std::size_t bytes_ = 0;
  char* data_ = nullptr;
};

constexpr int kNotLoaded = 1, kNotRun = 2;  // exit codes of a child

// In the child: the outputs, what a device takes, then the times, as bytes.
int run_in_child(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads, double seconds,
                 std::string& text) {
  LoadedModel loaded(model, inputs, threads);
  if (!loaded.problem().empty()) return text = loaded.problem(), kNotLoaded;
  std::vector<double> times{loaded.create_seconds()};
  if (!loaded.run()) return text = loaded.why_not_run(), kNotRun;
  bool is_device = !model.device.empty();
  for (double end = seconds_now() + (is_device ? seconds / 2 : seconds); seconds_now() < end;) {
    double start = seconds_now();
    loaded.run();
    times.push_back(seconds_now() - start);
  }
  std::optional<DeviceSeconds> device;
  if (is_device && seconds > 0) device = loaded.time_on_device(seconds / 2);
  for (std::size_t i = 0; i < model.outputs.size(); ++i)
    text.append(static_cast<const char*>(loaded.output(i)), static_cast<std::size_t>(model.outputs[i].bytes));
  text.append(reinterpret_cast<const char*>(&device), sizeof device);
  text.append(reinterpret_cast<const char*>(times.data()), times.size() * sizeof(double));
  return 0;
}

void* bytes_at(const void* pointer, i64 offset) { return static_cast<char*>(const_cast<void*>(pointer)) + offset; }

// The steps of a model one by one, in memory of their own.
class StepRunner {
 public:
  StepRunner(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads)
      : model_(model),
        library_(model, inputs, threads),
        weights_(library_.weights()),
        memory_(model.memory_bytes),
        scratch_(model.scratch_bytes + threads * model.scratch_worker_bytes),
        problem_(library_.problem()) {
    if (!problem_.empty()) return;
    if (!weights_.data()) problem_ = "the file of weights cannot be read";
    if (!memory_.get() || !scratch_.get()) problem_ = "there is not enough memory";
  }
  const std::string& problem() const { return problem_; }  // "" if nothing went wrong

  void* pointer(const ModelPlace& place) const {
    if (place.where == ModelPlace::Where::Input) return bytes_at(library_.in().get()[place.at], place.offset);
    if (place.where == ModelPlace::Where::Output) return bytes_at(library_.out().get()[place.at], place.offset);
    return (place.where == ModelPlace::Where::Memory ? static_cast<char*>(memory_.get()) : weights_.data()) + place.at;
  }

  // The seconds that it took.
  double run(std::size_t index) {
    const ModelLibrary::Step& step = model_.steps[index];
    auto kernel = library_.find<tw_run_function>(step.kernel + "_run");
    if (!kernel) return problem_ = cat("the shared library lacks ", step.kernel), 0;
    std::vector<void*> buffers;
    for (const ModelPlace& place : step.buffers) buffers.push_back(pointer(place));
    double begin = seconds_now();
    if (kernel(buffers.data(), scratch_.get(), library_.parallel_for(), library_.pool()) != 0)
      problem_ = "a kernel failed";
    return seconds_now() - begin;
  }

 private:
  const ModelLibrary& model_;
  OpenLibrary library_;
  Weights weights_;
  AlignedBytes memory_, scratch_;
  std::string problem_;
};

int time_device_in_child(const ModelLibrary& model, const std::vector<HostArray>& inputs, double seconds,
                         std::string& text) {
  LoadedModel loaded(model, inputs, 1);
  if (!loaded.problem().empty()) return text = loaded.problem(), 1;
  if (!loaded.run()) return text = loaded.why_not_run(), 1;
  std::vector<double> least(model.steps.size(), INFINITY), times(least);
  double end = seconds_now() + seconds;
  for (int round = 0; round < 2 || seconds_now() < end; ++round) {
    if (!loaded.time_steps(times.data())) return text = loaded.why_not_run(), 1;
    std::ranges::transform(least, times, least.begin(), [](double a, double b) { return std::min(a, b); });
  }
  text.assign(reinterpret_cast<const char*>(least.data()), least.size() * sizeof(double));
  return 0;
}

int time_in_child(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads, double seconds,
                  std::string& text) {
  StepRunner steps(model, inputs, threads);
  std::vector<double> times(model.steps.size(), INFINITY);
  double end = seconds_now() + seconds;
  for (int round = 0; round < 2 || seconds_now() < end; ++round) {
    for (std::size_t i = 0; i < times.size() && steps.problem().empty(); ++i)
      times[i] = std::min(times[i], steps.run(i));
    if (!steps.problem().empty()) return text = steps.problem(), 1;
  }
  text.assign(reinterpret_cast<const char*>(times.data()), times.size() * sizeof(double));
  return 0;
}

// The child of the steps hands over such a byte before each array, before the text of a problem, and at the end.
constexpr char kArray = 1, kProblem = 0, kDone = 2;

// In the child: all that is wanted.
int hand_over_outputs(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads,
                      const std::vector<StepOutput>& wanted, const ForkedStream::HandOver& hand_over) {
  StepRunner steps(model, inputs, threads);
  auto next = wanted.begin();
  for (std::size_t i = 0; i < model.steps.size() && steps.problem().empty(); ++i) {
    steps.run(i);
    for (; steps.problem().empty() && next != wanted.end() && next->step == i; ++next) {
      std::string text(1, kArray);
      const ModelPlace& place = model.steps[i].buffers[next->buffer];
      const char* row = static_cast<const char*>(steps.pointer(place));
      for (i64 r = 0; r < next->rows; ++r, row += next->pitch)
        text.append(row, static_cast<std::size_t>(next->tensor.bytes / next->rows));
      if (!hand_over(text.data(), text.size())) return 1;
    }
  }
  if (steps.problem().empty()) return hand_over(&kDone, 1) ? 0 : 1;
  std::string text = kProblem + steps.problem();
  hand_over(text.data(), text.size());
  return 1;
}

ModelPlace place_of(const boost::json::value& entry) {
  std::string_view name(entry.at(0).as_string());
  for (ModelPlace::Where where : {ModelPlace::Where::Input, ModelPlace::Where::Output, ModelPlace::Where::Memory,
                                  ModelPlace::Where::Weights, ModelPlace::Where::Packed}) {
    if (name != name_of(where)) continue;
    ModelPlace place{where, entry.at(1).to_number<i64>()};
    if (entry.as_array().size() > 2) place.offset = entry.at(2).to_number<i64>();
    return place;
  }
  throw std::runtime_error("an unknown place");
}

// The target that the manifests of models for devices state; "" of others.
std::string device_of(const boost::json::object& manifest) {
  const boost::json::value* target = manifest.if_contains("target");
  return target ? std::string(target->as_string()) : "";
}

// Of a target as manifests have it; 1 where this version cannot read it.
int threads_of(std::string_view target) {
  Source source{"target", std::string(target)};
  Diagnostics diagnostics(source);
  std::optional<Target> parsed = parse_target(source.text, 0, diagnostics);
  return parsed ? parsed->threads : 1;
}

// Every buffer begins in what it is a part of.
void check_places(const ModelLibrary& model, i64 weight_bytes) {
  for (const ModelLibrary::Step& step : model.steps) {
    for (const ModelPlace& place : step.buffers) {
      i64 end = place.where == ModelPlace::Where::Input    ? std::ssize(model.inputs)
                : place.where == ModelPlace::Where::Output ? std::ssize(model.outputs)
                : place.where == ModelPlace::Where::Memory ? model.memory_bytes + 1
                : place.where == ModelPlace::Where::Packed ? std::numeric_limits<i64>::max()
                                                           : weight_bytes + 1;
      bool is_inside = place.at >= 0 && place.at < end;
      if (is_inside && place.where <= ModelPlace::Where::Output) {
        const std::vector<KernelArgument>& tensors =
            place.where == ModelPlace::Where::Input ? model.inputs : model.outputs;
        is_inside = place.offset >= 0 && place.offset <= tensors[static_cast<std::size_t>(place.at)].bytes;
      }
      if (!is_inside) throw std::runtime_error("a place that is nowhere");
    }
  }
}

ModelLibrary entry_of(const std::string& folder, const boost::json::object& manifest, int number,
                      const boost::json::object& described) {
  ModelLibrary out{.folder = folder,
                   .name = std::string(manifest.at("library").as_string()),
                   .device = device_of(manifest),
                   .entry = number,
                   .inputs = tensors_of(described.at("inputs")),
                   .outputs = tensors_of(described.at("outputs")),
                   .memory_bytes = described.at("memory_bytes").to_number<i64>()};
  for (const boost::json::value& entry : described.at("steps").as_array()) {
    ModelLibrary::Step step{
        std::string(entry.at("name").as_string()), std::string(entry.at("kernel").as_string()), {}, 0};
    for (const boost::json::value& place : entry.at("buffers").as_array()) step.buffers.push_back(place_of(place));
    out.steps.push_back(std::move(step));
  }
  for (const boost::json::value& task : manifest.at("tasks").as_array()) {
    if (out.device.empty()) {
      const boost::json::value& scratch = task.at("scratch");
      out.scratch_bytes = std::max(out.scratch_bytes, scratch.at("shared_bytes").to_number<i64>());
      out.scratch_worker_bytes = std::max(out.scratch_worker_bytes, scratch.at("bytes_per_worker").to_number<i64>());
      out.threads = std::max(out.threads, threads_of(task.at("target").as_string()));
    }
    const boost::json::value* flops = task.as_object().if_contains("flops");
    for (ModelLibrary::Step& step : out.steps) {
      if (flops && step.kernel == std::string_view(task.at("name").as_string()))
        step.flops = flops->to_number<double>();
    }
  }
  check_places(out, manifest.at("model").at("weight_bytes").to_number<i64>() + kWeightsHeaderBytes);
  return out;
}

std::vector<ModelLibrary> entries_of(const std::string& folder, const boost::json::object& manifest) {
  const boost::json::object& first = manifest.at("model").as_object();
  std::vector<ModelLibrary> entries{entry_of(folder, manifest, 0, first)};
  const boost::json::value* further = first.if_contains("further_entries");
  if (!further) return entries;
  for (const boost::json::value& described : further->as_array()) {
    entries.push_back(entry_of(folder, manifest, static_cast<int>(entries.size()), described.as_object()));
    for (auto tensors : {&ModelLibrary::inputs, &ModelLibrary::outputs}) {
      if (!std::ranges::equal(entries.back().*tensors, entries[0].*tensors, {}, &KernelArgument::name,
                              &KernelArgument::name))
        throw std::runtime_error("entries with other inputs or outputs");
    }
  }
  return entries;
}

// In a child: the caller may catch these signals, and waits for the child.
void take_usual_signals() {
  for (int number : {SIGINT, SIGTERM}) signal(number, SIG_DFL);
}

ForkedAnswer answer_of_child(const std::function<int(std::string&)>& work) {
  return run_forked([&](std::string& text) {
    take_usual_signals();
    return work(text);
  });
}

// "" of one that has done its work and put at least `bytes` into its text. A library may end its process itself.
std::string problem_of(const ForkedAnswer& answer, i64 bytes) {
  if (!answer.not_started.empty()) return answer.not_started;
  if (answer.signal != 0) return cat("the model was ended by signal ", answer.signal);
  if (answer.exit_code != 0 && !answer.text.empty()) return answer.text;
  if (answer.exit_code != 0 || std::ssize(answer.text) < bytes)
    return cat("the model ended with exit code ", answer.exit_code);
  return "";
}

// Uniform but for one in eight, which is an end of the range: there kernels are wrong first.
void draw_integers(Rng& rng, IndexRange range, HostArray& array) {
  if (range.below <= range.lowest) range = {0, 2};  // which both masks and indices may be
  for (i64 i = 0; i < array.elements(); ++i) {
    i64 end = rng.below(16);
    i64 value = end == 0   ? range.lowest
                : end == 1 ? range.below - 1
                           : range.lowest + rng.below(range.below - range.lowest);
    array.set(i, static_cast<double>(value));
  }
}

// The tensor whose bytes stand at a place of a text; the place is then behind them.
HostArray array_of(const KernelArgument& tensor, const std::string& text, std::size_t& at) {
  HostArray array = HostArray::zeros(tensor.dtype, tensor.shape);
  std::memcpy(array.bytes.data(), text.data() + at, array.bytes.size());
  at += array.bytes.size();
  return array;
}

}  // namespace

std::optional<ModelLibrary> open_model(const std::string& folder, std::string& error) {
  std::optional<std::vector<ModelLibrary>> entries = open_entries(folder, error);
  if (!entries) return std::nullopt;
  return std::move(entries->front());
}

std::optional<std::vector<ModelLibrary>> open_entries(const std::string& folder, std::string& error) {
  std::string path = folder + "/manifest.json", why;
  std::optional<std::string> text = read_text_file(path, why);
  if (!text) return error = cat("`", folder, "` is no folder that `tracewright compile` wrote: ", why), std::nullopt;
  try {
    boost::json::value manifest = boost::json::parse(*text);
    const boost::json::object& whole = manifest.as_object();
    if (!whole.contains("model")) return error = cat(path, " describes kernels and no model"), std::nullopt;
    return entries_of(folder, whole);
  } catch (const std::exception& problem) {
    return error = cat(path, " is damaged: ", problem.what()), std::nullopt;
  }
}

std::vector<HostArray> random_inputs(const std::vector<KernelArgument>& inputs, u64 seed) {
  std::vector<HostArray> arrays;
  for (const KernelArgument& input : inputs) {
    HostArray array = HostArray::zeros(input.dtype, input.shape);
    Rng rng(seed, arrays.size());
    if (is_float(array.dtype))
      fill_input(seed, input.name, 0, array.dtype, array.elements(), reinterpret_cast<char*>(array.bytes.data()));
    else
      draw_integers(rng, input.indices, array);
    arrays.push_back(std::move(array));
  }
  return arrays;
}

ModelRun run_model(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads, double seconds) {
  ModelRun out;
  ForkedAnswer answer =
      answer_of_child([&](std::string& own) { return run_in_child(model, inputs, threads, seconds, own); });
  i64 bytes = static_cast<i64>(sizeof out.on_device + sizeof out.create_seconds);
  for (const KernelArgument& output : model.outputs) bytes += output.bytes;
  out.error = problem_of(answer, bytes);
  bool is_missing = answer.exit_code == kNotLoaded && !answer.text.empty();  // as it says itself
  out.has_failed = !out.error.empty() && answer.not_started.empty() && !is_missing;
  if (!out.error.empty()) return out;
  const std::string& text = answer.text;
  std::size_t at = 0;
  for (const KernelArgument& output : model.outputs) out.outputs.push_back(array_of(output, text, at));
  std::memcpy(&out.on_device, text.data() + at, sizeof out.on_device);
  at += sizeof out.on_device;
  std::vector<double> times((text.size() - at) / sizeof(double));
  std::memcpy(times.data(), text.data() + at, times.size() * sizeof(double));
  out.create_seconds = times[0];
  out.seconds.assign(times.begin() + 1, times.end());
  return out;
}

StepOutputs::StepOutputs(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads,
                         std::vector<StepOutput> wanted)
    : wanted_(std::move(wanted)), child_([&](const ForkedStream::HandOver& hand_over) {
        take_usual_signals();
        return hand_over_outputs(model, inputs, threads, wanted_, hand_over);
      }) {}

std::optional<HostArray> StepOutputs::next(std::string& error) {
  const KernelArgument& tensor = wanted_[next_++].tensor;
  HostArray array = HostArray::zeros(tensor.dtype, tensor.shape);
  char kind = kProblem;
  if (child_.take(&kind, 1) && kind == kArray && child_.take(array.bytes.data(), array.bytes.size())) return array;
  error = problem_of(child_.finish(), 1);
  return std::nullopt;
}

bool StepOutputs::end(std::string& error) {
  char kind = kProblem;
  bool is_done = child_.take(&kind, 1) && kind == kDone;  // else the text of a problem follows
  std::string problem = problem_of(child_.finish(), is_done ? 0 : 1);
  if (!problem.empty()) error = problem;
  return problem.empty();
}

std::vector<double> time_steps(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads,
                               double seconds, std::string& error) {
  std::vector<double> times(model.steps.size());
  ForkedAnswer answer = answer_of_child([&](std::string& own) {
    return model.device.empty() ? time_in_child(model, inputs, threads, seconds, own)
                                : time_device_in_child(model, inputs, seconds, own);
  });
  error = problem_of(answer, static_cast<i64>(times.size() * sizeof(double)));
  if (!error.empty()) return {};
  std::memcpy(times.data(), answer.text.data(), times.size() * sizeof(double));
  return times;
}

}  // namespace tw
