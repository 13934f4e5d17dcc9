// The built-in cost model: boosted symmetric trees over summed features. Needs no library, fits a
// few hundred candidates in well under a second, and is what "auto" falls back on where LibTorch is
// not there.
#pragma once
#include "costmodel/cost_model.h"
#include "costmodel/objective.h"
#include "costmodel/symmetric_trees.h"

namespace tw {

// A candidate is described by the sum and the maximum of each column over its rows, and their
// number. Every update fits anew on all data; Effort::Full grows more trees.
class TreeModel : public CostModel {
 public:
  TreeModel(int columns, u64 seed, Objective objective = Objective::Usual)
      : columns_(columns), seed_(seed), objective_(resolved(objective, kUsual)) {}
  const char* name() const override { return "tree"; }
  Objective objective() const override { return objective_; }
  std::vector<float> predict(const FeatureBatch& batch) const override;
  TrainReport update(const Dataset& data, Effort effort) override;
  std::string save() const override;
  Status load(std::string_view bytes) override;

 private:
  static constexpr Objective kUsual = Objective::Regression;
  // The loss at the end.
  float fit_speed(MatrixView x, std::span<const float> speed, std::span<const float> base, const TreeOptions& options);
  float fit_order(MatrixView x, std::span<const float> speed, std::span<const std::int32_t> group,
                  std::span<const float> base, const TreeOptions& options);

  int columns_;
  u64 seed_;
  Objective objective_;
  std::vector<SymmetricTree> trees_;
};

}  // namespace tw
