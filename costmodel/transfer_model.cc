#include "costmodel/transfer_model.h"

#include <xxhash.h>

#include <algorithm>

#include "costmodel/model_bytes.h"
#include "dsl/base/check.h"

namespace tw {

TransferModel::TransferModel(std::unique_ptr<CostModel> global, std::unique_ptr<CostModel> local)
    : global_(std::move(global)), local_(std::move(local)) {
  TW_CHECK(global_ && local_, "a transfer is from a model to a model");
}

std::vector<float> TransferModel::global_scores(const FeatureBatch& batch) const {
  if (scores_.size() > kMostScores) scores_.clear();
  std::vector<u64> keys, new_keys;
  FeatureBatch unknown{.columns = batch.columns};
  for (int i = 0; i < batch.size(); ++i) {
    const std::span<const float> rows = batch.rows_of(i);
    keys.push_back(XXH3_64bits(rows.data(), rows.size_bytes()));
    if (!scores_.try_emplace(keys.back(), 0.0f).second) continue;
    new_keys.push_back(keys.back());
    unknown.add(rows);
  }
  if (!new_keys.empty()) {
    const std::vector<float> predicted = global_->predict(unknown);
    for (std::size_t i = 0; i < new_keys.size(); ++i) scores_[new_keys[i]] = predicted[i];
  }
  std::vector<float> scores(keys.size());
  std::transform(keys.begin(), keys.end(), scores.begin(), [&](u64 key) { return scores_.at(key); });
  return scores;
}

std::vector<float> TransferModel::predict(const FeatureBatch& batch) const {
  std::vector<float> scores = global_scores(batch), learned = local_->predict(batch);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] += learned[i];
  return scores;
}

std::vector<Prediction> TransferModel::predict_with_deviation(const FeatureBatch& batch) const {
  std::vector<float> scores = global_scores(batch);
  std::vector<Prediction> out = local_->predict_with_deviation(batch);
  for (std::size_t i = 0; i < scores.size(); ++i) out[i].mean += scores[i];
  return out;
}

TrainReport TransferModel::update(const Dataset& data, Effort effort) {
  Dataset with_base = data;
  with_base.base = global_scores(data.features);
  for (std::size_t i = 0; i < data.base.size(); ++i) with_base.base[i] += data.base[i];
  return local_->update(with_base, effort);
}

std::string TransferModel::save() const {
  ModelWriter out("transfer", 0, objective());  // the models have the columns
  out.put_text(global_->save());
  out.put_text(local_->save());
  return out.take();
}

Status TransferModel::load(std::string_view bytes) {
  ModelReader in(bytes);
  TW_TRY_STATUS(in.header("transfer", 0));
  std::string_view global, local;
  if (!in.get_text(global) || !in.get_text(local) || !in.at_end()) return damaged_model();
  const std::string before = global_->save();
  TW_TRY_STATUS(global_->load(global));
  scores_.clear();
  Status loaded = local_->load(local);
  if (!loaded) TW_CHECK(global_->load(before), "a model cannot be restored");
  return loaded;
}

}  // namespace tw
