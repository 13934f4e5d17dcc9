#include "runtime/export/loaded_model.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "dsl/base/clock.h"
#include "dsl/base/quantile.h"
#include "dsl/base/text.h"

namespace tw {

TensorBuffers::TensorBuffers(const std::vector<KernelArgument>& tensors) {
  for (const KernelArgument& tensor : tensors) {
    memory_.emplace_back(tensor.bytes);
    pointers_.push_back(memory_.back().get());
  }
}

bool TensorBuffers::are_there() const { return std::ranges::count(pointers_, nullptr) == 0; }

OpenLibrary::OpenLibrary(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads)
    : model_(model),
      in_(model.inputs),
      out_(model.outputs),
      pool_(threads > 1 ? tw_pool_create(threads, nullptr) : nullptr),
      handle_(dlopen(cat(model.folder, "/lib", model.name, ".so").c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_) problem_ = dlerror();
  if (!in_.are_there() || !out_.are_there()) problem_ = "there is not enough memory";
  if (!problem_.empty()) return;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    std::memcpy(in_.get()[i], inputs[i].bytes.data(), inputs[i].bytes.size());
}

OpenLibrary::~OpenLibrary() { tw_pool_destroy(pool_); }

std::string OpenLibrary::weights() const { return cat(model_.folder, "/", model_.name, ".weights"); }

void* OpenLibrary::symbol(const std::string& name) const { return dlsym(handle_, cat(model_.name, "_", name).c_str()); }

LoadedModel::LoadedModel(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads)
    : library_(model, inputs, threads), problem_(library_.problem()) {
  if (!problem_.empty()) return;
  auto create = library_.find<ModelCreate>("create");
  auto create_entry = library_.find<ModelCreateEntry>("create_entry");  // there if the library has several
  run_ = library_.find<ModelRunFunction>("run");
  if (!create || !run_ || (!create_entry && model.entry > 0)) {
    problem_ = "the shared library lacks the functions of a model";
    return;
  }
  double begin = seconds_now();
  std::string weights = library_.weights();
  int32_t code = model.entry > 0 ? create_entry(weights.c_str(), model.entry, threads, &context_)
                                 : create(weights.c_str(), threads, &context_);
  if (code != 0) problem_ = why_not_created(code);
  if (auto in_words = library_.find<ModelProblem>("problem"); !problem_.empty() && in_words && *in_words())
    problem_ += cat(": ", in_words());
  create_seconds_ = seconds_now() - begin;
}

std::string LoadedModel::why_not_run() const {
  auto problem = library_.find<ModelProblem>("problem");
  return problem && *problem() ? cat("a kernel failed: ", problem()) : "a kernel failed";
}

double LoadedModel::median_run(ModelTimeRun time_run, double seconds) {
  constexpr double kSample = 0.01;
  double once = 0;
  for (int warm_up = 0; warm_up < 2; ++warm_up) {
    if (time_run(context_, 1, &once) != 0) return -1;
  }
  int calls = static_cast<int>(std::clamp(kSample / std::max(once, 1e-6), 1.0, 1000.0));
  std::vector<double> samples;
  for (double end = seconds_now() + seconds; samples.size() < 5 || seconds_now() < end;) {
    if (time_run(context_, calls, &samples.emplace_back()) != 0) return -1;
  }
  return median(std::move(samples));
}

std::optional<DeviceSeconds> LoadedModel::time_on_device(double seconds) {
  auto time_run = library_.find<ModelTimeRun>("time_run");
  auto has_graph = library_.find<ModelHasGraph>("has_graph");
  auto use_graph = library_.find<ModelUseGraph>("use_graph");
  if (!time_run || !has_graph || !use_graph) return std::nullopt;
  DeviceSeconds out;
  out.has_graph = has_graph(context_) != 0;
  out.whole = out.launched = median_run(time_run, seconds / 2);
  if (out.has_graph) {
    use_graph(context_, 0);
    out.launched = median_run(time_run, seconds / 2);
    use_graph(context_, 1);
  }
  if (out.whole < 0 || out.launched < 0) return std::nullopt;
  return out;
}

bool LoadedModel::time_steps(double* seconds) {
  auto time = library_.find<ModelTimeSteps>("time_steps");
  return time && time(context_, seconds) == 0;
}

bool LoadedModel::run() {
  return run_(context_, library_.in().get(), library_.out().get(), library_.parallel_for(), library_.pool()) == 0;
}

}  // namespace tw
