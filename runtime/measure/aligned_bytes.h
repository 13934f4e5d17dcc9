// Memory for buffers of kernels, aligned as the kernel ABI wants it. At least one piece, so that also nothing has a
// place.
#pragma once
#include <cstdlib>
#include <memory>

#include "backends/kernel_abi.h"
#include "dsl/base/arena.h"

namespace tw {

class AlignedBytes {
 public:
  explicit AlignedBytes(i64 bytes)
      : memory_(std::aligned_alloc(TW_ALIGNMENT,
                                   (static_cast<std::size_t>(bytes) / TW_ALIGNMENT + 1) * std::size_t{TW_ALIGNMENT})) {}
  void* get() const { return memory_.get(); }  // null if there is not enough memory

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
};

}  // namespace tw
