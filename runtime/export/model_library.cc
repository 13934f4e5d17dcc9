#include "runtime/export/model_library.h"

#include <dlfcn.h>

#include <boost/json.hpp>
#include <cstring>

#include "backends/kernel_abi.h"
#include "dsl/base/clock.h"
#include "dsl/base/files.h"
#include "dsl/base/forked.h"
#include "dsl/base/text.h"
#include "runtime/measure/thread_pool.h"

namespace tw {
namespace {

using Create = int32_t (*)(const char* weights, int workers, void** context);
using Run = int32_t (*)(void* context, const void* const* inputs, void* const* outputs, tw_parallel_for, void* pool);

std::vector<KernelArgument> tensors_of(const boost::json::value& list) {
  std::vector<KernelArgument> tensors;
  for (const boost::json::value& entry : list.as_array()) {
    KernelArgument tensor;
    tensor.name = entry.at("name").as_string();
    std::optional<DType> type = parse_dtype(std::string_view(entry.at("dtype").as_string()));
    if (!type) throw std::runtime_error("an unknown element type");
    tensor.dtype = *type;
    for (const boost::json::value& extent : entry.at("shape").as_array()) tensor.shape.push_back(extent.to_number<i64>());
    tensor.bytes = entry.at("bytes").to_number<i64>();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Memory as the library wants it.
class Buffers {
 public:
  explicit Buffers(const std::vector<KernelArgument>& tensors) {
    for (const KernelArgument& tensor : tensors) {
      std::size_t bytes = (static_cast<std::size_t>(tensor.bytes) / TW_ALIGNMENT + 1) * TW_ALIGNMENT;
      pointers_.push_back(std::aligned_alloc(TW_ALIGNMENT, bytes));
    }
  }
  Buffers(const Buffers&) = delete;
  ~Buffers() {
    for (void* pointer : pointers_) std::free(pointer);
  }
  void* const* get() const { return pointers_.data(); }

 private:
  std::vector<void*> pointers_;
};

// In the child: the outputs, then the times, as bytes.
int run_in_child(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads, double seconds,
                 std::string& text) {
  auto fail = [&](const std::string& why) { return text = why, 1; };
  std::string base = model.folder + "/";
  void* library = dlopen((base + "lib" + model.name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(dlerror());
  auto create = reinterpret_cast<Create>(dlsym(library, (model.name + "_create").c_str()));
  auto run = reinterpret_cast<Run>(dlsym(library, (model.name + "_run").c_str()));
  if (!create || !run) return fail("the shared library lacks the functions of a model");
  void* context = nullptr;
  double begin = seconds_now();
  if (int32_t code = create((base + model.name + ".weights").c_str(), threads, &context))
    return fail(code == 1   ? "this CPU lacks instructions that the model uses"
                : code == 2 ? "the file of weights cannot be read or belongs to another model"
                            : "there is not enough memory");
  std::vector<double> times{seconds_now() - begin};
  tw_pool* pool = threads > 1 ? tw_pool_create(threads, nullptr) : nullptr;
  Buffers in(model.inputs), out(model.outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) std::memcpy(in.get()[i], inputs[i].bytes.data(), inputs[i].bytes.size());
  auto call = [&] { return run(context, in.get(), out.get(), pool ? tw_pool_run : nullptr, pool); };
  if (call() != 0) return fail("a kernel failed");
  for (double end = seconds_now() + seconds; seconds_now() < end;) {
    double start = seconds_now();
    call();
    times.push_back(seconds_now() - start);
  }
  for (std::size_t i = 0; i < model.outputs.size(); ++i)
    text.append(static_cast<const char*>(out.get()[i]), static_cast<std::size_t>(model.outputs[i].bytes));
  text.append(reinterpret_cast<const char*>(times.data()), times.size() * sizeof(double));
  return 0;
}

}  // namespace

std::optional<ModelLibrary> open_model(const std::string& folder, std::string& error) {
  std::string path = folder + "/manifest.json", why;
  std::optional<std::string> text = read_text_file(path, why);
  if (!text) return error = cat("`", folder, "` is no folder that `tracewright compile` wrote: ", why), std::nullopt;
  try {
    boost::json::value manifest = boost::json::parse(*text);
    const boost::json::object& whole = manifest.as_object();
    if (!whole.contains("model")) return error = cat(path, " describes kernels and no model"), std::nullopt;
    const boost::json::value& model = whole.at("model");
    return ModelLibrary{folder, std::string(whole.at("library").as_string()), tensors_of(model.at("inputs")),
                        tensors_of(model.at("outputs"))};
  } catch (const std::exception& problem) {
    return error = cat(path, " is damaged: ", problem.what()), std::nullopt;
  }
}

ModelRun run_model(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads, double seconds) {
  ModelRun out;
  ForkedAnswer answer =
      run_forked([&](std::string& text) { return run_in_child(model, inputs, threads, seconds, text); });
  if (!answer.not_started.empty()) return out.error = answer.not_started, out;
  if (answer.signal != 0) return out.error = cat("the model was ended by signal ", answer.signal), out;
  if (answer.exit_code != 0) return out.error = answer.text, out;
  std::size_t at = 0;
  for (const KernelArgument& output : model.outputs) {
    HostArray array = HostArray::zeros(output.dtype, output.shape);
    std::memcpy(array.bytes.data(), answer.text.data() + at, array.bytes.size());
    at += array.bytes.size();
    out.outputs.push_back(std::move(array));
  }
  std::vector<double> times((answer.text.size() - at) / sizeof(double));
  std::memcpy(times.data(), answer.text.data() + at, times.size() * sizeof(double));
  out.create_seconds = times[0];
  out.seconds.assign(times.begin() + 1, times.end());
  return out;
}

}  // namespace tw
