#include "runtime/export/loaded_model.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "dsl/base/clock.h"
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
  create_seconds_ = seconds_now() - begin;
}

bool LoadedModel::run() {
  return run_(context_, library_.in().get(), library_.out().get(), library_.parallel_for(), library_.pool()) == 0;
}

}  // namespace tw
