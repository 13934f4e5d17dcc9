// Transfer of what was learned of other tasks (AutoTVM, NeurIPS 2018, section 4): the score of a candidate is that of a
// global model, which was trained before on many tasks and stays as it is, and that of a local one, which learns from
// the trials at hand what the global one does not know of them.
#pragma once
#include <memory>
#include <unordered_map>

#include "costmodel/cost_model.h"

namespace tw {

class TransferModel : public CostModel {
 public:
  // Both have learned the same kind of score, or will (Objective): the local one learns with the global one's scores as
  // base. As long as the local one has learned nothing, scores are those of the global one.
  TransferModel(std::unique_ptr<CostModel> global, std::unique_ptr<CostModel> local);

  const char* name() const override { return local_->name(); }
  Objective objective() const override { return local_->objective(); }
  std::vector<float> predict(const FeatureBatch& batch) const override;
  // Deviations are those of the local model.
  std::vector<Prediction> predict_with_deviation(const FeatureBatch& batch) const override;
  // Teaches the local model. A base of the data is added to the global scores.
  TrainReport update(const Dataset& data, Effort effort) override;
  // Both models. Bytes of other kinds of models are rejected.
  std::string save() const override;
  Status load(std::string_view bytes) override;

 private:
  // The global model's scores do not change, so a candidate that comes again (most parents of a search do) is looked
  // up.
  std::vector<float> global_scores(const FeatureBatch& batch) const;

  static constexpr std::size_t kMostScores = std::size_t{1} << 18;  // about 10 MiB

  std::unique_ptr<CostModel> global_, local_;
  mutable std::unordered_map<u64, float> scores_;  // by the hash of a candidate's rows
};

}  // namespace tw
