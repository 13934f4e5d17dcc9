// The shared library of an exported model, opened in this process, with memory for its inputs and outputs. For
// processes that a crash of the model may end: the children of model_library.cc and of sampler/models/bench_model.cc.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/export/model_functions.h"
#include "runtime/export/model_library.h"
#include "runtime/measure/aligned_bytes.h"
#include "runtime/measure/thread_pool.h"

namespace tw {

// Aligned memory for some tensors.
class TensorBuffers {
 public:
  explicit TensorBuffers(const std::vector<KernelArgument>& tensors);
  void* const* get() const { return pointers_.data(); }
  bool are_there() const;

 private:
  std::vector<AlignedBytes> memory_;
  std::vector<void*> pointers_;
};

// The library, its tensors, and the threads that run it.
class OpenLibrary {
 public:
  // `model` has to live as long. `inputs`: an array for each input, of its shape and type; they are copied.
  OpenLibrary(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads);
  OpenLibrary(const OpenLibrary&) = delete;
  OpenLibrary& operator=(const OpenLibrary&) = delete;
  ~OpenLibrary();

  const std::string& problem() const { return problem_; }  // "" if it is open
  // A function by its name behind that of the library; null if there is none.
  template <class Function>
  Function find(const std::string& name) const {
    return reinterpret_cast<Function>(symbol(name));
  }
  std::string weights() const;
  const TensorBuffers& in() const { return in_; }
  const TensorBuffers& out() const { return out_; }
  tw_parallel_for parallel_for() const { return pool_ ? tw_pool_run : nullptr; }
  tw_pool* pool() const { return pool_; }

 private:
  void* symbol(const std::string& name) const;

  const ModelLibrary& model_;
  TensorBuffers in_, out_;
  tw_pool* pool_;
  void* handle_;
  std::string problem_;
};

// A library with a context, ready to run.
class LoadedModel {
 public:
  LoadedModel(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads);
  const std::string& problem() const { return problem_; }  // "" if it can be run
  bool run();                                              // false if a kernel failed
  std::string why_not_run() const;                         // of a run that failed
  const void* output(std::size_t index) const { return library_.out().get()[index]; }
  double create_seconds() const { return create_seconds_; }

  // Of libraries for devices, on the inputs of the latest run. Measures for about `seconds`; nothing if a call failed.
  std::optional<DeviceSeconds> time_on_device(double seconds);
  bool time_steps(double* seconds);  // one run; a place for each step

 private:
  double median_run(ModelTimeRun time_run, double seconds);  // negative if it failed

  OpenLibrary library_;
  void* context_ = nullptr;
  ModelRunFunction run_ = nullptr;
  double create_seconds_ = 0;
  std::string problem_;
};

}  // namespace tw
