#include "costmodel/ensemble.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "costmodel/model_bytes.h"
#include "dsl/base/check.h"
#include "dsl/base/rng.h"

namespace tw {
namespace {

// How often one of very many candidates is in a resample of as many: Poisson with mean 1.
int times_drawn(Rng rng) {
  double at = rng.uniform(), chance = std::exp(-1.0);
  int times = 0;
  for (; at >= chance && times < 8; ++times) {
    at -= chance;
    chance /= times + 1;
  }
  return times;
}

// Which candidates it has depends on their place in their group only: those that are added later change nothing about
// the earlier ones, so that a model that is adjusted goes on with its own data. Their order stays.
Dataset resampled(const Dataset& data, u64 seed) {
  Dataset out;
  out.features.columns = data.features.columns;
  std::unordered_map<i32, u64> places;
  for (int i = 0; i < data.size(); ++i) {
    i32 group = data.group[i];
    int times = times_drawn(Rng(seed, static_cast<u64>(group), places[group]++));
    for (int copy = 0; copy < times; ++copy) out.add(data, i);
  }
  return out.size() > 0 ? out : data;
}

}  // namespace

Ensemble::Ensemble(std::vector<std::unique_ptr<CostModel>> models, u64 seed) : models_(std::move(models)), seed_(seed) {
  TW_CHECK(!models_.empty(), "an ensemble has a model");
}

std::vector<float> Ensemble::predict(const FeatureBatch& batch) const {
  std::vector<float> means;
  for (const Prediction& prediction : predict_with_deviation(batch)) means.push_back(prediction.mean);
  return means;
}

std::vector<Prediction> Ensemble::predict_with_deviation(const FeatureBatch& batch) const {
  std::vector<double> sums(batch.size()), squares(batch.size());
  for (const auto& model : models_) {
    std::vector<float> scores = model->predict(batch);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      sums[i] += scores[i];
      squares[i] += static_cast<double>(scores[i]) * scores[i];
    }
  }
  std::vector<Prediction> out;
  auto count = static_cast<double>(models_.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    double mean = sums[i] / count, variance = std::max(0.0, squares[i] / count - mean * mean);
    out.push_back({static_cast<float>(mean), static_cast<float>(std::sqrt(variance))});
  }
  return out;
}

TrainReport Ensemble::update(const Dataset& data, Effort effort) {
  TrainReport first;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    TrainReport report = models_[i]->update(resampled(data, mix64(seed_ + i)), effort);
    if (i == 0) first = report;
    if (first.problem.empty()) first.problem = report.problem;
  }
  first.candidates = data.size();
  return first;
}

std::string Ensemble::save() const {
  ModelWriter out(kSeveralModels, 0, objective());  // the models have the columns
  out.put(static_cast<i64>(models_.size()));
  for (const auto& model : models_) out.put_text(model->save());
  return out.take();
}

Status Ensemble::load(std::string_view bytes) {
  ModelReader in(bytes);
  TW_TRY_STATUS(in.header(kSeveralModels, 0));
  i64 count = 0, expected = static_cast<i64>(models_.size());
  if (!in.get(count)) return damaged_model();
  if (count != expected) return reject("the saved ensemble has {0} models, expected {1}", count, expected);
  std::vector<std::string> before;
  Status status = ok();
  for (const auto& model : models_) {
    before.push_back(model->save());
    std::string_view text;
    status = in.get_text(text) ? model->load(text) : Status(damaged_model());
    if (!status) break;
  }
  if (status && !in.at_end()) status = damaged_model();
  if (status) return ok();
  for (std::size_t i = 0; i < before.size(); ++i) TW_CHECK(models_[i]->load(before[i]), "a model cannot be restored");
  return status;
}

}  // namespace tw
