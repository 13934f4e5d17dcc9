#include "costmodel/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace tw {

void FeatureBatch::add(std::span<const float> rows) {
  TW_CHECK(columns > 0 && rows.size() % columns == 0, "features must be whole rows");
  values.insert(values.end(), rows.begin(), rows.end());
  first_row.push_back(first_row.back() + static_cast<i32>(rows.size() / columns));
}

void FeatureBatch::add(const FeatureBatch& other, int index) {
  TW_CHECK(other.columns == columns && index >= 0 && index < other.size());
  add(other.rows_of(index));
}

void Dataset::add(const Dataset& other, int index) {
  features.add(other.features, index);
  seconds.push_back(other.seconds[index]);
  group.push_back(other.group[index]);
  if (!other.base.empty()) base.push_back(other.base[index]);
}

std::vector<Prediction> CostModel::predict_with_deviation(const FeatureBatch& batch) const {
  std::vector<Prediction> out;
  for (float score : predict(batch)) out.push_back({score, 0});
  return out;
}

std::vector<float> relative_speed(std::span<const double> seconds, std::span<const i32> group) {
  TW_CHECK(seconds.size() == group.size());
  std::unordered_map<i32, double> fastest;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    TW_CHECK(seconds[i] > 0, "seconds of a candidate must be positive");
    auto [at, is_new] = fastest.try_emplace(group[i], seconds[i]);
    if (!is_new) at->second = std::min(at->second, seconds[i]);
  }
  std::vector<float> speed(seconds.size(), 0.0f);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (std::isfinite(seconds[i])) speed[i] = static_cast<float>(fastest[group[i]] / seconds[i]);
  }
  return speed;
}

}  // namespace tw
