// The entry point of the LibTorch plugin libtracewright_torch.so, which implements network_abi.h: models of all
// architectures, made, trained, asked, saved and loaded. Nothing outside of this folder includes LibTorch.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "costmodel/torch/training.h"

// Present where LibTorch multiplies with OpenBLAS, whose threads at::set_num_threads does not
// reach.
extern "C" void openblas_set_num_threads(int) __attribute__((weak));

struct tw_network : tw_torch::Model {};

namespace {

using namespace tw_torch;

const Architecture* architecture_of(int32_t kind) {
  if (kind == TW_NETWORK_MLP) return &mlp();
  if (kind == TW_NETWORK_TREE_GRU) return &tree_gru();
  if (kind == TW_NETWORK_ATTENTION) return &attention();
  if (kind == TW_NETWORK_MLP_REFERENCE) return &mlp_reference();
  return nullptr;
}

// What is saved: a flag, mean, scale, then the weights, all floats.
std::vector<Tensor> saved_tensors(const tw_network& model) {
  std::vector<Tensor> out{model.mean, model.scale};
  out.insert(out.end(), model.weights.begin(), model.weights.end());
  return out;
}

void tell(tw_network_error* error, const char* text) { std::snprintf(error->text, sizeof error->text, "%s", text); }

// Runs body(); an exception of LibTorch becomes -1 and its text.
template <class Body>
int32_t guarded(tw_network_error* error, Body body) {
  try {
    body();
    return 0;
  } catch (const c10::Error& problem) {
    tell(error, problem.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    tell(error, "LibTorch ran out of memory");
  }
  return -1;
}

tw_network* api_create(int32_t kind, int32_t columns, uint64_t seed, tw_network_error* error) {
  auto model = std::make_unique<tw_network>();
  model->architecture = architecture_of(kind);
  if (!model->architecture) return tell(error, "there is no such kind of network"), nullptr;
  const int32_t failed = guarded(error, [&] {
    // A second thread gains nothing at these sizes and makes training slower.
    at::set_num_threads(1);
    if (openblas_set_num_threads) openblas_set_num_threads(1);
    at::globalContext().setDeterministicAlgorithms(true, false);
    model->columns = columns;
    model->mean = at::zeros({columns});
    model->scale = at::zeros({columns});
    model->weights = random_weights(*model->architecture, columns, seed);
  });
  return failed ? nullptr : model.release();
}

void api_destroy(tw_network* model) { delete model; }

int32_t api_train(tw_network* model, const tw_network_data* data, const tw_network_training* options,
                  tw_network_report* report, tw_network_error* error) {
  return guarded(error, [&] {
    tw_network next = *model;
    if (options->from_scratch) {
      next.weights = random_weights(*model->architecture, model->columns, options->seed);
      next.trained = false;
    }
    if (data->base && !next.trained) {  // the last layer
      for (auto last = next.weights.end() - 2; last != next.weights.end(); ++last) *last = at::zeros_like(*last);
    }
    fit_scaling(next, data->batch);
    *report = {};
    train(next, *data, *options, *report);
    *model = next;
  });
}

int32_t api_predict(const tw_network* model, const tw_network_batch* batch, float* scores, tw_network_error* error) {
  if (!model->trained) {
    std::fill_n(scores, batch->candidates, 0.0f);
    return 0;
  }
  return guarded(error, [&] { predict(*model, *batch, scores); });
}

int64_t api_saved_bytes(const tw_network* model) {
  int64_t count = 1;
  for (const Tensor& tensor : saved_tensors(*model)) count += tensor.numel();
  return count * static_cast<int64_t>(sizeof(float));
}

void api_save(const tw_network* model, void* bytes) {
  float* to = static_cast<float*>(bytes);
  *to++ = model->trained ? 1.0f : 0.0f;
  for (const Tensor& tensor : saved_tensors(*model)) {
    std::memcpy(to, tensor.data_ptr<float>(), tensor.numel() * sizeof(float));
    to += tensor.numel();
  }
}

int32_t api_load(tw_network* model, const void* bytes, int64_t size, tw_network_error* error) {
  if (size != api_saved_bytes(model)) {
    tell(error, "the saved weights do not fit this network");
    return -1;
  }
  const char* from = static_cast<const char*>(bytes);
  float trained;
  std::memcpy(&trained, from, sizeof trained);
  model->trained = trained != 0;
  from += sizeof(float);
  for (Tensor& tensor : saved_tensors(*model)) {
    std::memcpy(tensor.data_ptr<float>(), from, tensor.numel() * sizeof(float));
    from += tensor.numel() * sizeof(float);
  }
  return 0;
}

constexpr tw_network_api api = {TW_NETWORK_ABI_VERSION, api_create, api_destroy, api_train, api_predict,
                                api_saved_bytes,        api_save,   api_load};

}  // namespace

extern "C" __attribute__((visibility("default"))) const tw_network_api* tw_network_open(uint32_t version) {
  return version == TW_NETWORK_ABI_VERSION ? &api : nullptr;
}
