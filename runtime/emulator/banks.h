// Banks: counts conflicts of a warp's accesses to shared memory. Fibers run one after another, so what a warp would do
// at once is put together afterwards: the n-th time that each lane comes to one instruction between two barriers is one
// access of the warp.
#pragma once
#include <vector>

#include "dsl/base/arena.h"

namespace tw::emulator {

class Banks {
 public:
  // Starts counting for a group of so many warps; what was counted before stays.
  void begin(int warps);
  void end();
  // One lane's load, store or asynchronous copy, which counts as a store where it is issued; `instruction` is where the
  // code stands.
  void add(int warp, int lane, u64 instruction, u64 address, u64 bytes);
  // All threads have come to a barrier.
  void barrier();

  i64 accesses() const { return accesses_; }
  i64 conflicts() const { return conflicts_; }

 private:
  struct One {
    u64 instruction, address;
    u8 lane, bytes;
  };
  void count(std::vector<One>& warp);

  std::vector<std::vector<One>> warps_;  // since the last barrier, each lane's in its order
  i64 accesses_ = 0, conflicts_ = 0;
};

// The rounds that 32 banks of 4 bytes need for accesses of `bytes` each at these addresses (one per lane, in the order
// of lanes), beyond those that the amount of data takes: 8 bytes go by half warps, 16 by quarters.
int extra_rounds(const std::vector<u64>& addresses, u64 bytes);

}  // namespace tw::emulator
