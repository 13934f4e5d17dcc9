// Footprints: which part of its buffers a store touches while its inner loops run, for every number of outer loops held
// fixed. The common base of features.cc and store_profile.cc. Boxes of strided elements: a box may hold elements that
// are not touched.
#pragma once
#include <vector>

#include "costmodel/flat_program.h"

namespace tw {

// A buffer as one store uses it.
struct Use {
  u32 buffer;
  u32 rank;
  u32 first_access, accesses = 0;  // FlatProgram::accesses
  bool is_read = false, is_write = false, is_irregular = false;
  // depth + 1 entries; entry p = while the outer p loops stand still (0 = all loops run).
  const double* elements = nullptr;  // touched, at most those of the buffer
  const double* run = nullptr;       // of them, how many lie side by side
  // depth entries, by chain position.
  const u8* moved = nullptr;        // does an index depend on the loop?
  const double* stride = nullptr;   // elements that one step goes on, from the last dimension that it moves; 0 = none
  const double* extents = nullptr;  // per dimension: elements touched while all loops run
};

class Footprints {
 public:
  // Valid until the next call.
  const std::vector<Use>& of(const FlatProgram& program, const FlatStore& store);

 private:
  // How one loop moves one index of an access; those of a loop are a list.
  struct Step {
    u32 access, dimension;
    float coefficient, span;
    int next;  // in steps_, or -1
  };
  // Lowest and highest index per dimension.
  static constexpr u32 kMaxRank = 32;
  struct Box {
    double low[kMaxRank], high[kMaxRank];
  };
  void find_steps(const FlatProgram& program, u32 depth, const Use& use);
  void measure_boxes(const FlatProgram& program, u32 depth, const Use& use, double* elements, double* run,
                     double* extents);
  void measure_strides(const FlatProgram& program, u32 depth, const Use& use, u8* moved, double* stride) const;
  double extent(const FlatDim& dim, u32 dimension) const;

  std::vector<Use> uses_;
  std::vector<double> numbers_;
  std::vector<u8> moved_;
  // These belong to the use that is being measured.
  std::vector<Box> boxes_;  // per access
  std::vector<Step> steps_;
  std::vector<int> steps_of_loop_;  // the first one, by chain position
};

}  // namespace tw
