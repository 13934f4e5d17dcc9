// What of a prediction counts when candidates are compared: its mean, or with several models (costmodel/ensemble.h)
// also how much they differ. AutoTVM (NeurIPS 2018) compares these three.
#pragma once
#include <optional>

#include "costmodel/cost_model.h"

namespace tw {

struct Acquisition {
  enum class Kind : u8 {
    Mean,
    ExpectedImprovement,   // over the best measured candidate, where predictions are normal
    UpperConfidenceBound,  // mean + kappa * deviation
  };
  Kind kind = Kind::Mean;
  double kappa = 1;
};

// `best`: the mean that is predicted for the best measured candidate; of a task without one an improvement cannot be
// expected, and the mean counts.
float acquisition_of(const Acquisition& acquisition, const Prediction& prediction, const std::optional<float>& best);

}  // namespace tw
