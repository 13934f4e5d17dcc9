// StoreProfile: how one store statement runs on a CPU, estimated: the tile that its unrolled and vectorized loops make,
// what the innermost body issues, what moves between caches. The draft model sums these up and features.cc shows them
// to learned models. The rules behind the numbers were measured on AVX2 machines; only ratios between candidates
// matter.
#pragma once
#include <vector>

#include "costmodel/cache_traffic.h"

namespace tw {

// Cycles are of one core, for all executions of the store in one call, before any division between threads.
struct StoreProfile : CacheLines {
  // The body: all loops below the innermost one that stays a loop, which lowering unrolls and vectorizes.
  double lanes = 1;                                // elements of the vectorized loops
  double vectors = 1;                              // registers that hold them
  double instances = 1;                            // executions of the statement in one body, in vectors
  double body_runs = 1;                            // how often the body runs
  double trip_count = 1;                           // of the innermost loop that stays a loop
  double accumulators = 0;                         // vectors that are summed into, independent of each other
  double operands = 0;                             // vectors that are live beside them
  double registers_over = 0;                       // registers wanted beyond those that there are
  bool reloads = false;                            // rows load operands again that found no register
  bool accumulates = false, in_registers = false;  // is the target read too; is it a Register buffer
  double fma = 0, other = 0;                       // vector operations in one body
  double vector_loads = 0, broadcasts = 0, element_loads = 0, stores = 0;  // instructions in one body
  double lane_use = 1;  // share of the vector lanes that hold something
  double waste = 0;     // share of iterations that predicates keep out
  double tests = 0;     // instructions in one body of a test that stands in it
  double tree = 0;      // instructions of one sum over the lanes of a vector
  // Cycles.
  double compute = 0, latency = 0, overhead = 0;
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

  double cycles(const MachineRates& rates) const;
};

// Cycles of waiting for near lines that arithmetic does not hide.
double seen_waiting(double issued, double near);

// Makes profiles. Reuses its memory between calls: one per thread.
class StoreProfiler {
 public:
  explicit StoreProfiler(const FeatureTarget& target) : target_(target), traffic_(target) {}
  // Call once per program, then profile() for its stores.
  void start(const FlatProgram& program) { traffic_.start(program); }
  StoreProfile profile(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses);

 private:
  void find_roles(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses);
  void shape_body(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                  StoreProfile& out) const;
  void count_operands(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                      StoreProfile& out) const;
  void reload_operands(double reused, StoreProfile& out) const;
  void count_instructions(const FlatProgram& program, const FlatStore& store, StoreProfile& out) const;
  bool moves(const FlatCondition& condition, BodyRole role) const;
  double share_of_runs(const FlatStore& store) const;
  bool is_known(const FlatProgram& program, const FlatStore& store, const FlatCondition& condition) const;
  bool has_tests(const FlatProgram& program, const FlatStore& store) const;
  void count_cycles(const FlatProgram& program, const FlatStore& store, const Use& target, StoreProfile& out) const;
  void count_grid(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                  StoreProfile& out) const;
  void share_between_threads(const FlatProgram& program, const FlatStore& store, StoreProfile& out) const;

  FeatureTarget target_;
  CacheTraffic traffic_;
  std::vector<BodyRole> roles_;
  int inner_ = -1;  // chain position of the innermost loop that stays a loop
};

}  // namespace tw
