// The constants of a model's library as they lie in its file of weights.
#pragma once
#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/kernel_abi.h"
#include "dsl/base/arena.h"

namespace tw {

// Pieces with equal bytes are one piece, whatever they are of: of two entries, or of two constants that are alike.
class WeightFile {
 public:
  // `alignment`: of offsets, without the header.
  explicit WeightFile(i64 alignment = TW_ALIGNMENT) : alignment_(static_cast<std::size_t>(alignment)) {}
  // The offset of these bytes. It counts from the begin of the file, where the header is.
  i64 add(const void* bytes, std::size_t count);
  // All pieces, without the header.
  std::string take() { return std::move(bytes_); }

 private:
  struct Piece {
    std::size_t at, bytes;
  };
  std::size_t alignment_;
  std::string bytes_;
  std::unordered_map<u64, std::vector<Piece>> known_;  // by hash
};

}  // namespace tw
