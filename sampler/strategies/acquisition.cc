#include "sampler/strategies/acquisition.h"

#include <cmath>
#include <numbers>

namespace tw {
namespace {

// E max(0, X - best) of a normal X. Without a deviation it is the plain difference, also below zero, so that the order
// of what improves nothing is that of the means.
double expected_improvement(const Prediction& prediction, double best) {
  double difference = prediction.mean - best, deviation = prediction.deviation;
  if (deviation <= 0) return difference;
  double z = difference / deviation;
  double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  double below = std::erfc(-z / std::numbers::sqrt2) / 2;
  return difference * below + deviation * density;
}

}  // namespace

float acquisition_of(const Acquisition& acquisition, const Prediction& prediction, const std::optional<float>& best) {
  switch (acquisition.kind) {
    case Acquisition::Kind::ExpectedImprovement:
      return best ? static_cast<float>(expected_improvement(prediction, *best)) : prediction.mean;
    case Acquisition::Kind::UpperConfidenceBound:
      return static_cast<float>(prediction.mean + acquisition.kappa * prediction.deviation);
    case Acquisition::Kind::Mean:
      break;
  }
  return prediction.mean;
}

}  // namespace tw
