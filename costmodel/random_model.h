// Scores that say nothing: the baseline every cost model must beat, and a stand-in where a test
// needs some model. It never learns.
#pragma once
#include "costmodel/cost_model.h"

namespace tw {

// A score is uniform in [0, 1) and depends only on the seed and the candidate's features, so it is
// the same in any batch.
class RandomModel : public CostModel {
 public:
  RandomModel(int columns, u64 seed) : columns_(columns), seed_(seed) {}
  const char* name() const override { return "random"; }
  std::vector<float> predict(const FeatureBatch& batch) const override;
  TrainReport update(const Dataset& data, Effort effort) override;
  std::string save() const override;
  Status load(std::string_view bytes) override;

 private:
  int columns_;
  u64 seed_;
};

}  // namespace tw
