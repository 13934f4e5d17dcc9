// The LibTorch plugin: the only file of tracewright that includes LibTorch. It implements mlp_abi.h
// and is built into libtracewright_torch.so. Architecture after MetaSchedule's MLP (see
// mlp_model.h): every row is encoded by two layers, rows are summed per candidate, two residual
// layers and a linear one make the score.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/optim/adam.h>
// After adam.h, whose declarations it needs.
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "costmodel/mlp_abi.h"
#include "dsl/base/rng.h"

// Present where LibTorch multiplies with OpenBLAS, whose threads at::set_num_threads does not
// reach.
extern "C" void openblas_set_num_threads(int) __attribute__((weak));

namespace {

using at::Tensor;
using Weights = std::vector<Tensor>;
using Order = std::vector<std::vector<int64_t>>;  // candidates, batch by batch

constexpr int64_t hidden = 128;     // 256 rank no better and take twice as long (tracewright model eval)
constexpr int predict_chunk = 128;  // candidates; keeps the activations in the cache

struct Shape {
  int64_t out, in;
};
std::vector<Shape> shapes(int64_t columns) {
  return {{hidden, columns}, {hidden, hidden}, {hidden, hidden}, {hidden, hidden}, {1, hidden}};
}

}  // namespace

struct tw_mlp {
  int64_t columns;
  bool trained = false;
  Tensor mean, scale;  // [columns]: a feature enters the network as (value - mean) * scale
  Weights weights;     // per layer: weight [out, in], bias [out]
};

namespace {

Weights random_weights(int64_t columns, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  Weights out;
  for (const Shape& shape : shapes(columns)) {
    const double bound = 1 / std::sqrt(static_cast<double>(shape.in));
    out.push_back(at::empty({shape.out, shape.in}).uniform_(-bound, bound, generator));
    out.push_back(at::empty({shape.out}).uniform_(-bound, bound, generator));
  }
  return out;
}

Weights copy_of(const Weights& weights) {
  Weights out;
  for (const Tensor& tensor : weights) out.push_back(tensor.detach().clone());
  return out;
}

// Some candidates: their scaled rows, one below the other, and for each row the candidate it
// belongs to.
struct Rows {
  Tensor x;      // [rows, columns]
  Tensor owner;  // [rows], int64
  int64_t candidates;
};

Tensor raw_rows(const float* values, int64_t rows, int64_t columns) {
  return at::from_blob(const_cast<float*>(values), {rows, columns}, at::kFloat);
}

// Features far beyond the range seen in training are cut: a network says nothing sensible far
// outside of it.
Tensor scaled(const tw_mlp& model, const Tensor& x) { return ((x - model.mean) * model.scale).clamp_(-6, 6); }

Tensor forward(const Weights& w, const Rows& rows) {
  Tensor x = at::relu(at::linear(rows.x, w[0], w[1]));
  x = at::relu(at::linear(x, w[2], w[3]));
  Tensor sum = at::zeros({rows.candidates, hidden}).index_add(0, rows.owner, x);
  for (int bias : {5, 7}) sum = at::relu(at::linear(sum, w[bias - 1], w[bias])) + sum;
  return at::linear(sum, w[8], w[9]).squeeze(1);
}

// For every pair of one group, [faster, slower]: how much it matters. That is the speed of the
// faster one, because what counts in the end is the order among the fast ones, and a little more,
// so that the slow are told from the failed. Otherwise 0.
Tensor pair_weights(const Tensor& speed, const Tensor& group) {
  const Tensor same = group.unsqueeze(1).eq(group.unsqueeze(0));
  const Tensor faster = speed.unsqueeze(1).gt(speed.unsqueeze(0));
  return same.logical_and(faster) * (speed.unsqueeze(1) + 0.1);
}

// Some candidates with what is known of them.
struct Batch {
  Rows rows;
  Tensor speed;
  Tensor weights;  // pair_weights
  Tensor base;     // scores to which those of the network are added
};

// Every pair costs log(1 + e^(score of the slower - score of the faster)). Mean over the
// candidates.
Tensor rank_loss(const Tensor& score, const Tensor& weights) {
  return (weights * at::softplus(score.unsqueeze(0) - score.unsqueeze(1))).sum() / score.size(0);
}

// Mean over the candidates.
Tensor loss_of(int32_t objective, const Tensor& score, const Batch& batch) {
  if (objective == TW_MLP_RANK) return rank_loss(score, batch.weights);
  return (score - batch.speed).square().mean();
}

// What is summed over all batches, above and below the line, to judge scores: the weight of the pairs in the wrong
// order and of all, or the squared error and the candidates.
struct Share {
  double part, all;
};
Share error_share(int32_t objective, const Tensor& score, const Batch& batch) {
  if (objective == TW_MLP_RANK) {
    const Tensor wrong = (batch.weights * score.unsqueeze(0).ge(score.unsqueeze(1))).sum();
    return {wrong.item<float>(), batch.weights.sum().item<float>()};
  }
  return {(score - batch.speed).square().sum().item<float>(), static_cast<double>(batch.rows.candidates)};
}

// The data of one training run, scaled once.
class TrainingSet {
 public:
  TrainingSet(const tw_mlp& model, const tw_mlp_data& data)
      : first_row_(data.batch.first_row, data.batch.first_row + data.batch.candidates + 1),
        x_(scaled(model, raw_rows(data.batch.values, first_row_.back(), model.columns))),
        speed_(at::from_blob(const_cast<float*>(data.speed), {data.batch.candidates}, at::kFloat)),
        group_(at::from_blob(const_cast<int32_t*>(data.group), {data.batch.candidates}, at::kInt)),
        base_(data.base ? at::from_blob(const_cast<float*>(data.base), {data.batch.candidates}, at::kFloat)
                        : at::zeros({data.batch.candidates})) {}

  Batch batch(std::span<const int64_t> chosen) const {
    std::vector<int64_t> places, owner;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      for (int32_t r = first_row_[chosen[i]]; r < first_row_[chosen[i] + 1]; ++r) {
        places.push_back(r);
        owner.push_back(static_cast<int64_t>(i));
      }
    }
    const Tensor which = at::tensor(at::ArrayRef<int64_t>(chosen.data(), chosen.size()));
    const Tensor speed = speed_.index_select(0, which);
    return {{x_.index_select(0, at::tensor(places)), at::tensor(owner), static_cast<int64_t>(chosen.size())},
            speed,
            pair_weights(speed, group_.index_select(0, which)),
            base_.index_select(0, which)};
  }

 private:
  std::vector<int32_t> first_row_;
  Tensor x_, speed_, group_, base_;
};

template <class T>
void shuffle(std::vector<T>& list, tw::Rng& rng) {
  for (int64_t i = static_cast<int64_t>(list.size()); i > 1; --i) {
    std::swap(list[i - 1], list[rng.below(i)]);
  }
}

// Candidates cut into batches. Candidates of one group stand together, because only they are
// compared.
Order batches(std::vector<int64_t> candidates, const int32_t* group, int size, tw::Rng& rng) {
  shuffle(candidates, rng);
  std::stable_sort(candidates.begin(), candidates.end(), [&](int64_t a, int64_t b) { return group[a] < group[b]; });
  Order out;
  const std::size_t count = (candidates.size() + size - 1) / size;
  for (std::size_t b = 0; b < count; ++b) {
    const auto at = [&](std::size_t part) { return candidates.begin() + candidates.size() * part / count; };
    out.emplace_back(at(b), at(b + 1));
  }
  shuffle(out, rng);
  return out;
}

// Scales the features to mean 0 and deviation 1 over the batch. The first layer is rewritten so
// that the network computes what it computed before, except for values that are cut.
void fit_scaling(tw_mlp& model, const tw_mlp_batch& batch) {
  const Tensor x = raw_rows(batch.values, batch.first_row[batch.candidates], model.columns);
  if (x.size(0) == 0) return;
  const Tensor mean = x.mean(0);
  const Tensor deviation = (x - mean).square_().mean(0).sqrt_();
  // A column that never changes tells nothing: scale 0.
  const Tensor scale = at::where(deviation.gt(1e-5), deviation.reciprocal(), at::zeros_like(deviation));
  if (model.trained) {
    Tensor& weight = model.weights[0];
    Tensor& bias = model.weights[1];
    bias = bias + weight.mv((mean - model.mean) * model.scale);
    weight = weight * at::where(scale.gt(0), model.scale * deviation, at::ones_like(scale));
  }
  model.mean = mean;
  model.scale = scale;
}

// One pass over the data; the mean loss.
float run_epoch(const TrainingSet& set, Weights& weights, torch::optim::Adam& optimizer, const Order& order,
                const tw_mlp_training& options) {
  double sum = 0;
  int64_t seen = 0;
  for (const std::vector<int64_t>& chosen : order) {
    const Batch batch = set.batch(chosen);
    optimizer.zero_grad();
    const Tensor loss = loss_of(options.objective, forward(weights, batch.rows) + batch.base, batch);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(weights, options.clip_norm);
    optimizer.step();
    sum += loss.item<float>() * static_cast<double>(chosen.size());
    seen += static_cast<int64_t>(chosen.size());
  }
  return static_cast<float>(sum / seen);
}

float held_out_error(const TrainingSet& set, const Weights& weights, const Order& order, int32_t objective) {
  at::NoGradGuard no_gradients;
  double part = 0, all = 0;
  for (const std::vector<int64_t>& chosen : order) {
    const Batch batch = set.batch(chosen);
    const Share share = error_share(objective, forward(weights, batch.rows) + batch.base, batch);
    part += share.part;
    all += share.all;
  }
  return all > 0 ? static_cast<float>(part / all) : 0.0f;
}

void train(tw_mlp& model, const tw_mlp_data& data, const tw_mlp_training& options, tw_mlp_report& report) {
  const TrainingSet set(model, data);
  tw::Rng rng(options.seed, data.batch.candidates);
  std::vector<int64_t> learned, held_out;
  for (int64_t c = 0; c < data.batch.candidates; ++c) {
    const bool out = options.patience > 0 && c % options.held_out_every == options.held_out_every - 1;
    (out ? held_out : learned).push_back(c);
  }
  const Order held_out_order = batches(held_out, data.group, options.batch_size, rng);
  for (Tensor& weight : model.weights) weight = weight.detach().clone().set_requires_grad(true);
  torch::optim::Adam optimizer(model.weights,
                               torch::optim::AdamOptions(options.learning_rate).weight_decay(options.weight_decay));
  auto& settings = static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options());

  Weights best;
  report.held_out_error = 1;
  for (int epoch = 0; epoch < options.max_epochs; ++epoch) {
    settings.lr(options.learning_rate * std::pow(0.8, 10 * epoch / options.max_epochs));
    const Order order = batches(learned, data.group, options.batch_size, rng);
    report.loss = run_epoch(set, model.weights, optimizer, order, options);
    report.epochs = epoch + 1;
    if (held_out.empty()) continue;
    const float error = held_out_error(set, model.weights, held_out_order, options.objective);
    if (error < report.held_out_error) {
      best = copy_of(model.weights);
      report.held_out_error = error;
      report.best_epoch = epoch + 1;
    }
    if (epoch + 1 - report.best_epoch >= options.patience) break;
  }
  if (best.empty()) {
    best = copy_of(model.weights);
    report.best_epoch = report.epochs;
  }
  for (const Tensor& weight : best) {
    TORCH_CHECK(weight.isfinite().all().item<bool>(), "training ended in weights that are no numbers");
  }
  model.weights = best;
  model.trained = true;
}

void predict(const tw_mlp& model, const tw_mlp_batch& batch, float* scores) {
  at::NoGradGuard no_gradients;
  std::vector<int64_t> owner;
  for (int begin = 0; begin < batch.candidates; begin += predict_chunk) {
    const int end = std::min(begin + predict_chunk, batch.candidates);
    owner.clear();
    for (int c = begin; c < end; ++c) owner.insert(owner.end(), batch.first_row[c + 1] - batch.first_row[c], c - begin);
    const float* values = batch.values + batch.first_row[begin] * model.columns;
    const Tensor x = scaled(model, raw_rows(values, static_cast<int64_t>(owner.size()), model.columns));
    const Tensor out = forward(model.weights, {x, at::tensor(owner), end - begin}).contiguous();
    std::memcpy(scores + begin, out.data_ptr<float>(), (end - begin) * sizeof(float));
  }
}

// What is saved: a flag, mean, scale, then the weights, all floats.
std::vector<Tensor> saved_tensors(const tw_mlp& model) {
  std::vector<Tensor> out{model.mean, model.scale};
  out.insert(out.end(), model.weights.begin(), model.weights.end());
  return out;
}

void tell(tw_mlp_error* error, const char* text) { std::snprintf(error->text, sizeof error->text, "%s", text); }

// Runs body(); an exception of LibTorch becomes -1 and its text.
template <class Body>
int32_t guarded(tw_mlp_error* error, Body body) {
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

tw_mlp* api_create(int32_t columns, uint64_t seed, tw_mlp_error* error) {
  auto model = std::make_unique<tw_mlp>();
  const int32_t failed = guarded(error, [&] {
    // A second thread gains nothing at these sizes and makes training slower.
    at::set_num_threads(1);
    if (openblas_set_num_threads) openblas_set_num_threads(1);
    at::globalContext().setDeterministicAlgorithms(true, false);
    model->columns = columns;
    model->mean = at::zeros({columns});
    model->scale = at::zeros({columns});
    model->weights = random_weights(columns, seed);
  });
  return failed ? nullptr : model.release();
}

void api_destroy(tw_mlp* model) { delete model; }

int32_t api_train(tw_mlp* model, const tw_mlp_data* data, const tw_mlp_training* options, tw_mlp_report* report,
                  tw_mlp_error* error) {
  return guarded(error, [&] {
    tw_mlp next = *model;
    if (options->from_scratch) {
      next.weights = random_weights(model->columns, options->seed);
      next.trained = false;
    }
    if (data->base && !next.trained) {
      for (std::size_t last : {8, 9}) next.weights[last] = at::zeros_like(next.weights[last]);
    }
    fit_scaling(next, data->batch);
    *report = {};
    train(next, *data, *options, *report);
    *model = next;
  });
}

int32_t api_predict(const tw_mlp* model, const tw_mlp_batch* batch, float* scores, tw_mlp_error* error) {
  if (!model->trained) {
    std::fill_n(scores, batch->candidates, 0.0f);
    return 0;
  }
  return guarded(error, [&] { predict(*model, *batch, scores); });
}

int64_t api_saved_bytes(const tw_mlp* model) {
  int64_t count = 1;
  for (const Tensor& tensor : saved_tensors(*model)) count += tensor.numel();
  return count * static_cast<int64_t>(sizeof(float));
}

void api_save(const tw_mlp* model, void* bytes) {
  float* to = static_cast<float*>(bytes);
  *to++ = model->trained ? 1.0f : 0.0f;
  for (const Tensor& tensor : saved_tensors(*model)) {
    std::memcpy(to, tensor.data_ptr<float>(), tensor.numel() * sizeof(float));
    to += tensor.numel();
  }
}

int32_t api_load(tw_mlp* model, const void* bytes, int64_t size, tw_mlp_error* error) {
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

constexpr tw_mlp_api api = {TW_MLP_ABI_VERSION, api_create,      api_destroy, api_train,
                            api_predict,        api_saved_bytes, api_save,    api_load};

}  // namespace

extern "C" __attribute__((visibility("default"))) const tw_mlp_api* tw_mlp_open(uint32_t version) {
  return version == TW_MLP_ABI_VERSION ? &api : nullptr;
}
