// SharedMemory: how much shared memory a block of each kernel needs, in the analytic model (gpu_draft.h).
//
// It is the most that buffers need at once: buffers that are not needed at the same time take turns
// (dsl/passes/share_storage.h). A buffer is needed from its first access to the last one, and as long as loops run that
// have one inside and do not make it anew. A buffer that is filled ahead is there once for each stage.
#pragma once
#include <vector>

#include "costmodel/gpu/store_loops.h"

namespace tw {

class SharedMemory {
 public:
  // A new program. Then add all stores of its kernels.
  void start(const FlatProgram& program);
  void add(const StoreLoops& store);
  // In bytes.
  double of_kernel(u32 kernel) const;

 private:
  // Stores by their numbers: from the first one to the last one.
  struct Steps {
    u32 first, last;
  };
  struct SharedBuffer {
    u32 kernel;
    double bytes;
    Steps needed;
  };
  void add_access(const StoreLoops& store, const FlatAccess& access);

  std::vector<Steps> steps_;           // inside of each loop
  std::vector<SharedBuffer> buffers_;  // in shared memory
  std::vector<u32> number_of_;         // by buffer of the program: index + 1 in `buffers_`; 0 = it has none
};

}  // namespace tw
