// CacheTraffic: which cache lines one store statement moves between caches, estimated, and how long they are waited
// for; the part of StoreProfile that is about memory.
#pragma once
#include <array>
#include <vector>

#include "costmodel/footprint.h"

namespace tw {

// What becomes of a loop around a store: it stays a loop, or lowering unrolls or vectorizes it.
enum class BodyRole : u8 { Outer, Unrolled, Vector };

// What all executions of a store in one call move.
struct CacheLines {
  // Cache lines that come from or go beyond L1, L2, L3: read ahead by the hardware, or not.
  std::array<double, 3> streamed_lines{}, strided_lines{};
  // Bytes that come from or go beyond L1, L2, L3; bytes touched by the loops inside the innermost loop, by it, by the
  // two around it.
  std::array<double, 3> traffic{};
  std::array<double, 4> working_set{};

  // Cycles of waiting for lines that are read ahead, and for the others.
  double streamed(const MachineRates& rates) const;
  double strided(const MachineRates& rates) const;
  // Waiting that overlaps with arithmetic: for lines that are read ahead and for those from L2.
  double waiting_for_near(const MachineRates& rates) const;
  // Waiting that does not: the larger part of that for single lines from beyond L2.
  double waiting_for_far(const MachineRates& rates) const;

 private:
  double strided_from_l2() const;
};

// Reuses its memory between calls: one per thread.
class CacheTraffic {
 public:
  explicit CacheTraffic(const FeatureTarget& target);
  // Call once per program, then of() for its stores.
  void start(const FlatProgram& program);
  // `roles` of the loops by chain position; `inner`: that of the innermost loop that stays a loop, or -1.
  CacheLines of(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                const std::vector<BodyRole>& roles, int inner);

 private:
  // A use of a buffer in memory. By position: what the loops from there on touch.
  struct Operand {
    const Use* use;
    double element_bytes;
    u32 home;              // the loops outside of which the buffer need not exist
    bool is_param;         // it exists before the call
    bool is_far, is_near;  // is_far_apart() from beyond L2, from L2
    std::size_t lines;     // in lines_: depth + 1 entries
  };
  // What comes from beyond a cache each time: a share of what the loops from a position on touch.
  struct Refill {
    std::size_t cache;
    double cache_bytes;
    u32 from;
    double share;
    u32 kept, kept_in_l1;  // what the loops from here on touch stays in the cache, in L1
  };
  double extent(u32 position) const { return extents_[position]; }
  double lines(const Operand& operand, u32 level) const { return lines_[operand.lines + level]; }
  // Bytes of L1 that lines of the operand take beyond their own, as they share few sets: those of other operands stay.
  double crowding(const Operand& operand, u32 level) const { return crowding_[operand.lines + level]; }
  void find_operands(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                     const std::vector<BodyRole>& roles);
  bool is_prefetched(const FlatProgram& program, const FlatStore& store, const Use& use,
                     const std::vector<BodyRole>& roles) const;
  void measure_lines(const Operand& operand);
  void measure_sets();
  u32 behind_mover(const Use& use, const std::vector<BodyRole>& roles) const;
  bool is_far_apart(const Operand& operand, const std::vector<BodyRole>& roles, bool is_far) const;
  double room_in_l1(const Operand& operand, u32 level) const;
  double single_share(const Operand& operand, const Refill& refill) const;
  void add(const Operand& operand, const Refill& refill, CacheLines& out) const;

  std::array<double, 3> sizes_;  // of L1, L2, L3 in bytes; 0 = none
  double line_;                  // bytes
  double program_bytes_ = 0;     // of all parameters that the call touches
  std::vector<bool> is_counted_;
  // These belong to the store that of() was called for.
  u32 depth_ = 0;
  std::vector<double> extents_;  // of its loops
  std::vector<Operand> operands_;
  std::vector<double> lines_;
  std::vector<u32> broken_;        // loops that move an operand by parts of lines
  std::vector<double> set_bytes_;  // by position: what the loops from there on touch
  std::vector<double> crowding_;   // as lines_
};

}  // namespace tw
