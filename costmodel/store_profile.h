// StoreProfile: how one store statement runs on a CPU, estimated: the tile that its unrolled and vectorized loops make,
// what the innermost body issues, what moves between caches. The draft model sums these up and features.cc shows them
// to learned models. The rules behind the numbers were measured on AVX2 machines; only ratios between candidates
// matter.
#pragma once
#include <array>
#include <vector>

#include "costmodel/footprint.h"

namespace tw {

// Cycles are of one core, for all executions of the store in one call, before any division between threads.
struct StoreProfile {
  // The body: all loops below the innermost one that stays a loop, which lowering unrolls and vectorizes.
  double lanes = 1;                                // elements of the vectorized loops
  double vectors = 1;                              // registers that hold them
  double instances = 1;                            // executions of the statement in one body, in vectors
  double body_runs = 1;                            // how often the body runs
  double trip_count = 1;                           // of the innermost loop that stays a loop
  double accumulators = 0;                         // vectors that are summed into, independent of each other
  double operands = 0;                             // vectors that are live beside them
  double registers_over = 0;                       // registers wanted beyond those that there are
  bool accumulates = false, in_registers = false;  // is the target read too; is it a Register buffer
  double fma = 0, other = 0;                       // vector operations in one body
  double vector_loads = 0, broadcasts = 0, element_loads = 0, stores = 0;  // instructions in one body
  double lane_use = 1;  // share of the vector lanes that hold something
  double waste = 0;     // share of iterations that predicates keep out
  double tests = 0;     // instructions in one body of a test that stands in it
  // Cycles.
  double compute = 0, latency = 0, overhead = 0;
  // Cache lines that come from or go beyond L1, L2, L3: read ahead by the hardware, or not.
  std::array<double, 3> streamed_lines{}, strided_lines{};
  // Bytes that come from or go beyond L1, L2, L3; bytes touched by the loops inside the innermost loop, by it, by the
  // two around it.
  std::array<double, 3> traffic{};
  std::array<double, 4> working_set{};
  // Reads by how the vectorized loop (or else the innermost one) moves them: side by side, not at all, in steps, by
  // data.
  int contiguous = 0, broadcast = 0, stepping = 0, by_data = 0;
  int prepacked = 0;  // operands that are laid out before the call
  // Threads.
  double chunks = 1;    // iterations of the outermost parallel loops
  double starts = 0;    // how often they are entered
  double speed_up = 1;  // at most the threads

  // The grid of a device around the store, and what its work-items share.
  bool is_bound = false;
  double groups = 1, group_threads = 1;
  double shared_reads = 0;      // operands in shared memory
  bool is_shared_copy = false;  // the target is there
  double stages = 1;            // copies run stages - 1 passes ahead
  bool is_async = false;        // an asynchronous copy
  bool is_mma = false;          // part of a matrix instruction
  double prefetch = 0;          // bytes ahead; on processors

  // Cycles of waiting for lines that are read ahead, and for the others; of all of the store.
  double streamed(const MachineRates& rates) const;
  double strided(const MachineRates& rates) const;
  // Waiting that overlaps with arithmetic: for lines that are read ahead and for those from L2.
  double waiting_for_near(const MachineRates& rates) const;
  // Waiting that does not: the larger part of that for single lines from beyond L2.
  double waiting_for_far(const MachineRates& rates) const;
  double cycles(const MachineRates& rates) const;

 private:
  double strided_from_l2() const;
};

// Cycles of waiting for near lines that arithmetic does not hide.
double seen_waiting(double issued, double near);

// Makes profiles. Reuses its memory between calls: one per thread.
class StoreProfiler {
 public:
  explicit StoreProfiler(const FeatureTarget& target) : target_(target) {}
  // Call once per program, then profile() for its stores.
  void start(const FlatProgram& program);
  StoreProfile profile(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses);

 private:
  enum class LoopRole : u8 { Outer, Unrolled, Vector };
  void find_roles(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses);
  void shape_body(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                  StoreProfile& out) const;
  void count_operands(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                      StoreProfile& out) const;
  void count_instructions(const FlatStore& store, StoreProfile& out) const;
  bool moves(const FlatCondition& condition, LoopRole role) const;
  double share_of_runs(const FlatStore& store) const;
  bool has_tests(const FlatStore& store) const;
  void count_cycles(const FlatStore& store, const Use& target, StoreProfile& out) const;
  void count_grid(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                  StoreProfile& out) const;
  // What comes from beyond a cache each time: a share of what the loops from a position on touch.
  struct Refill {
    std::size_t cache;
    double cache_bytes;
    u32 from;
    double share;
    u32 kept, kept_in_l1;  // what the loops from here on touch stays in the cache, in L1
  };
  void measure_sets(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses);
  double single_share(const FlatProgram& program, const FlatStore& store, const Use& use, const Refill& refill) const;
  void add_traffic(const FlatProgram& program, const FlatStore& store, const Use& use, const Refill& refill,
                   StoreProfile& out) const;
  void count_traffic(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                     StoreProfile& out);
  void share_between_threads(const FlatProgram& program, const FlatStore& store, StoreProfile& out) const;
  u32 behind_mover(const FlatStore& store, const Use& use) const;
  bool is_far_apart(const FlatStore& store, const Use& use, double element_bytes, bool is_far) const;
  double room_in_l1(const FlatProgram& program, const FlatStore& store, const Use& use, u32 level) const;
  bool begins_lines(const FlatProgram& program, const FlatStore& store, const Use& use, u32 level) const;
  double lines(const FlatProgram& program, const FlatStore& store, const Use& use, u32 level) const;

  FeatureTarget target_;
  double program_bytes_ = 0;  // of all parameters that the call touches
  std::vector<bool> is_counted_;
  std::vector<LoopRole> roles_;
  int inner_ = -1;                           // chain position of the innermost loop that stays a loop
  std::vector<double> set_bytes_, l1_room_;  // by position: what the loops from there on touch
};

}  // namespace tw
