#include "sampler/models/weight_file.h"

#include "backends/kernel_abi.h"
#include "dsl/ir/compare.h"
#include "runtime/export/model_plan.h"

namespace tw {

i64 WeightFile::add(const void* bytes, std::size_t count) {
  std::string_view text(static_cast<const char*>(bytes), count);
  std::vector<Piece>& same_hash = known_[hash_bytes(text).low];
  for (const Piece& piece : same_hash) {
    if (std::string_view(bytes_).substr(piece.at, piece.bytes) == text)
      return static_cast<i64>(piece.at) + kWeightsHeaderBytes;
  }
  same_hash.push_back({bytes_.size(), count});
  bytes_.append(text);
  bytes_.resize((bytes_.size() + TW_ALIGNMENT - 1) / TW_ALIGNMENT * TW_ALIGNMENT, '\0');
  return static_cast<i64>(same_hash.back().at) + kWeightsHeaderBytes;
}

}  // namespace tw
