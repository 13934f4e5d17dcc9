// The loss, the training loop and scaling of all networks.
#include "costmodel/torch/training.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/optim/adam.h>
// After adam.h, whose declarations it needs.
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "dsl/base/rng.h"

namespace tw_torch {
namespace {

using Order = std::vector<std::vector<int64_t>>;  // candidates, batch by batch

constexpr int predict_chunk = 128;  // candidates; keeps the activations in the cache

Weights copy_of(const Weights& weights) {
  Weights out;
  for (const Tensor& tensor : weights) out.push_back(tensor.detach().clone());
  return out;
}

Tensor raw_rows(const float* values, int64_t rows, int64_t columns) {
  return at::from_blob(const_cast<float*>(values), {rows, columns}, at::kFloat);
}

// Features far beyond the range seen in training are cut: a network says nothing sensible far
// outside of it.
Tensor scaled(const Model& model, const Tensor& x) { return ((x - model.mean) * model.scale).clamp_(-6, 6); }

// Adds a candidate with the rows [begin, end) of `values` to rows whose x is made later.
void add_candidate(Rows& rows, std::vector<int64_t>& owner, const Model& model, const float* values, int64_t begin,
                   int64_t end) {
  owner.insert(owner.end(), end - begin, rows.candidates());
  rows.first_row.push_back(rows.first_row.back() + end - begin);
  if (!model.architecture->has_structure) return;
  for (int64_t row = begin; row < end; ++row) rows.structure.push_back(values[(row + 1) * model.columns - 1]);
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

// LambdaRank (Burges 2010), as MetaSchedule has it: a pair costs the information of its order, in bits, times what its
// exchange would change of NDCG, where a candidate of speed v gains 2^v - 1. Sum over the pairs.
Tensor lambda_rank_loss(const Tensor& score, const Tensor& speed) {
  constexpr double least = 1e-10;  // of the chance of an order, and of the best sum
  const Tensor order = at::argsort(score.detach(), 0, true);
  const Tensor by_place = score.index_select(0, order), truth = speed.index_select(0, order);
  const Tensor discount = at::arange(2, score.size(0) + 2, at::kFloat).log2().reciprocal();
  const auto gain = [](const Tensor& v) { return at::exp2(v) - 1; };
  const Tensor best = (gain(std::get<0>(speed.sort(0, true))) * discount).sum().clamp_min(least);
  const Tensor gains = gain(truth) / best;
  const auto differences = [](const Tensor& v) { return v.unsqueeze(1) - v.unsqueeze(0); };
  const Tensor weight = differences(discount).abs() * differences(gains).abs() * differences(truth).gt(0);
  const Tensor information = at::softplus(-differences(by_place)).clamp_max(-std::log(least)) / std::log(2.0);
  return (weight * information).sum();
}

// Mean over the candidates, but for LambdaRank.
Tensor loss_of(int32_t objective, const Tensor& score, const Batch& batch) {
  if (objective == TW_NETWORK_RANK) return rank_loss(score, batch.weights);
  if (objective == TW_NETWORK_LAMBDA_RANK) return lambda_rank_loss(score, batch.speed);
  return (score - batch.speed).square().mean();
}

// What is summed over all batches, above and below the line, to judge scores: the weight of the pairs in the wrong
// order and of all, or the squared error and the candidates.
struct Share {
  double part, all;
};
Share error_share(int32_t objective, const Tensor& score, const Batch& batch) {
  if (objective != TW_NETWORK_REGRESSION) {
    const Tensor wrong = (batch.weights * score.unsqueeze(0).ge(score.unsqueeze(1))).sum();
    return {wrong.item<float>(), batch.weights.sum().item<float>()};
  }
  return {(score - batch.speed).square().sum().item<float>(), static_cast<double>(batch.rows.candidates())};
}

// The data of one training run, scaled once.
class TrainingSet {
 public:
  TrainingSet(const Model& model, const tw_network_data& data)
      : model_(model),
        values_(data.batch.values),
        first_row_(data.batch.first_row, data.batch.first_row + data.batch.candidates + 1),
        x_(scaled(model, raw_rows(values_, first_row_.back(), model.columns))),
        speed_(at::from_blob(const_cast<float*>(data.speed), {data.batch.candidates}, at::kFloat)),
        group_(at::from_blob(const_cast<int32_t*>(data.group), {data.batch.candidates}, at::kInt)),
        base_(data.base ? at::from_blob(const_cast<float*>(data.base), {data.batch.candidates}, at::kFloat)
                        : at::zeros({data.batch.candidates})) {}

  Batch batch(std::span<const int64_t> chosen) const {
    Rows rows{.first_row = {0}};
    std::vector<int64_t> places, owner;
    for (const int64_t candidate : chosen) {
      const int64_t begin = first_row_[candidate], end = first_row_[candidate + 1];
      for (int64_t row = begin; row < end; ++row) places.push_back(row);
      add_candidate(rows, owner, model_, values_, begin, end);
    }
    rows.x = x_.index_select(0, at::tensor(places));
    rows.owner = at::tensor(owner);
    const Tensor which = at::tensor(at::ArrayRef<int64_t>(chosen.data(), chosen.size()));
    const Tensor speed = speed_.index_select(0, which);
    return {std::move(rows), speed, pair_weights(speed, group_.index_select(0, which)), base_.index_select(0, which)};
  }

  Tensor scores(const Weights& weights, const Batch& batch) const {
    return model_.architecture->forward(weights, batch.rows) + batch.base;
  }

 private:
  const Model& model_;
  const float* values_;
  std::vector<int32_t> first_row_;
  Tensor x_, speed_, group_, base_;
};

template <class T>
void shuffle(std::vector<T>& list, tw::Rng& rng) {
  for (int64_t i = static_cast<int64_t>(list.size()); i > 1; --i) {
    std::swap(list[i - 1], list[rng.below(i)]);
  }
}

// Candidates cut into batches. Candidates of one group stand together, where only they are compared; null: they need
// not.
Order batches(std::vector<int64_t> candidates, const int32_t* group, int size, tw::Rng& rng) {
  shuffle(candidates, rng);
  if (group)
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

// One pass over the data; the mean loss.
float run_epoch(const TrainingSet& set, Weights& weights, torch::optim::Adam& optimizer, const Order& order,
                const tw_network_training& options) {
  double sum = 0;
  int64_t seen = 0;
  for (const std::vector<int64_t>& chosen : order) {
    const Batch batch = set.batch(chosen);
    optimizer.zero_grad();
    const Tensor loss = loss_of(options.objective, set.scores(weights, batch), batch);
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
    const Share share = error_share(objective, set.scores(weights, batch), batch);
    part += share.part;
    all += share.all;
  }
  return all > 0 ? static_cast<float>(part / all) : 0.0f;
}

}  // namespace

Weights random_weights(const Architecture& architecture, int64_t columns, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  Weights out;
  for (const Shape& shape : architecture.shapes(columns)) {
    const double bound = 1 / std::sqrt(static_cast<double>(shape.in));
    out.push_back(at::empty({shape.out, shape.in}).uniform_(-bound, bound, generator));
    out.push_back(at::empty({shape.out}).uniform_(-bound, bound, generator));
  }
  return out;
}

void fit_scaling(Model& model, const tw_network_batch& batch) {
  const Tensor x = raw_rows(batch.values, batch.first_row[batch.candidates], model.columns);
  if (x.size(0) == 0) return;
  const bool by_maximum = model.architecture->scales_by_maximum;
  const Tensor mean = by_maximum ? at::zeros({model.columns}) : x.mean(0);
  const Tensor spread = by_maximum ? x.abs().amax(0) : (x - mean).square_().mean(0).sqrt_();
  // A column that never changes tells nothing, nor does one that is no feature: scale 0.
  Tensor scale = at::where(spread.gt(1e-5), spread.reciprocal(), at::zeros_like(spread));
  if (model.architecture->has_structure) scale[-1].zero_();
  if (model.trained) {
    Tensor& weight = model.weights[0];
    Tensor& bias = model.weights[1];
    bias = bias + weight.mv((mean - model.mean) * model.scale);
    weight = weight * at::where(scale.gt(0), model.scale * spread, at::ones_like(scale));
  }
  model.mean = mean;
  model.scale = scale;
}

void train(Model& model, const tw_network_data& data, const tw_network_training& options, tw_network_report& report) {
  const TrainingSet set(model, data);
  tw::Rng rng(options.seed, data.batch.candidates);
  std::vector<int64_t> learned, held_out;
  for (int64_t c = 0; c < data.batch.candidates; ++c) {
    const bool out = options.patience > 0 && c % options.held_out_every == options.held_out_every - 1;
    (out ? held_out : learned).push_back(c);
  }
  const int32_t* together = options.objective == TW_NETWORK_LAMBDA_RANK ? nullptr : data.group;
  const Order held_out_order = batches(held_out, data.group, options.batch_size, rng);
  for (Tensor& weight : model.weights) weight = weight.detach().clone().set_requires_grad(true);
  torch::optim::Adam optimizer(model.weights,
                               torch::optim::AdamOptions(options.learning_rate).weight_decay(options.weight_decay));
  auto& settings = static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options());

  Weights best;
  report.held_out_error = 1;
  for (int epoch = 0; epoch < options.max_epochs; ++epoch) {
    settings.lr(options.learning_rate * std::pow(0.8, 10 * epoch / options.max_epochs));
    const Order order = batches(learned, together, options.batch_size, rng);
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

void predict(const Model& model, const tw_network_batch& batch, float* scores) {
  at::NoGradGuard no_gradients;
  for (int begin = 0; begin < batch.candidates; begin += predict_chunk) {
    const int end = std::min(begin + predict_chunk, batch.candidates);
    Rows rows{.first_row = {0}};
    std::vector<int64_t> owner;
    for (int c = begin; c < end; ++c)
      add_candidate(rows, owner, model, batch.values, batch.first_row[c], batch.first_row[c + 1]);
    rows.owner = at::tensor(owner);
    const float* values = batch.values + batch.first_row[begin] * model.columns;
    rows.x = scaled(model, raw_rows(values, rows.rows(), model.columns));
    const Tensor out = model.architecture->forward(model.weights, rows).contiguous();
    std::memcpy(scores + begin, out.data_ptr<float>(), (end - begin) * sizeof(float));
  }
}

}  // namespace tw_torch
