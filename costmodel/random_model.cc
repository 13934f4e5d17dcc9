#include "costmodel/random_model.h"

#include <bit>

#include "costmodel/model_bytes.h"
#include "dsl/base/rng.h"

namespace tw {

std::vector<float> RandomModel::predict(const FeatureBatch& batch) const {
  std::vector<float> scores;
  scores.reserve(batch.size());
  for (int c = 0; c < batch.size(); ++c) {
    u64 key = seed_;
    const float* end = batch.row(batch.first_row[c + 1]);
    for (const float* value = batch.row(batch.first_row[c]); value != end; ++value) {
      key = mix64(key ^ std::bit_cast<u32>(*value));
    }
    scores.push_back(static_cast<float>(mix64(key) >> 40) * 0x1.0p-24f);
  }
  return scores;
}

TrainReport RandomModel::update(const Dataset& data, Effort) { return {.candidates = data.size()}; }

std::string RandomModel::save() const {
  ModelWriter out(name(), columns_, objective());
  out.put(seed_);
  return out.take();
}

Status RandomModel::load(std::string_view bytes) {
  ModelReader in(bytes);
  TW_TRY_STATUS(in.header(name(), columns_));
  u64 seed = 0;
  if (!in.get(seed) || !in.at_end()) return damaged_model();
  seed_ = seed;
  return ok();
}

}  // namespace tw
