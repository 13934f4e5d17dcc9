// Ensemble: several models of one kind as one, so that its predictions have a deviation. Each learns with a seed of its
// own from a resample of the data (bagging, Breiman 1996), so they differ most where there is little data.
#pragma once
#include <functional>
#include <memory>

#include "costmodel/cost_model.h"

namespace tw {

class Ensemble : public CostModel {
 public:
  // At least one model.
  Ensemble(std::vector<std::unique_ptr<CostModel>> models, u64 seed);

  const char* name() const override { return models_[0]->name(); }
  Objective objective() const override { return models_[0]->objective(); }
  // The mean of the models' scores.
  std::vector<float> predict(const FeatureBatch& batch) const override;
  std::vector<Prediction> predict_with_deviation(const FeatureBatch& batch) const override;
  // The report of the first model, with the first problem that there is.
  TrainReport update(const Dataset& data, Effort effort) override;
  // Bytes of another number of models are rejected, too.
  std::string save() const override;
  Status load(std::string_view bytes) override;

 private:
  std::vector<std::unique_ptr<CostModel>> models_;
  u64 seed_;
};

}  // namespace tw
