// LaneValues: what indices are for the 32 work-items of a warp, exactly. Used by requests.h to count sectors and bank
// conflicts, where the average slopes of linear_index.h do not do: work-items that were fused into one axis are told
// apart by // and %. All loops that are not bound to threads stand at their first iteration; what depends on data
// counts as 0.
#pragma once
#include <array>
#include <vector>

#include "costmodel/flat_program.h"

namespace tw {

inline constexpr int kLanes = 32;
using Lanes = std::array<i64, kLanes>;

class LaneValues {
 public:
  // The first warp of a group of `threads` (x, y, z) at a store. `variables`: Program::next_var.
  void start(const FlatProgram& program, const FlatStore& store, const std::array<i64, 3>& threads, u32 variables);
  // Does the work-item run the store at all? Loops of one axis may be shorter than the group.
  bool is_active(int lane) const { return active_[static_cast<std::size_t>(lane)]; }
  void evaluate(const Expr* index, Lanes& out) const;

 private:
  void evaluate_binary(const Binary* expr, Lanes& out) const;

  std::array<bool, kLanes> active_{};
  std::vector<int> slot_;      // by id of a variable; -1 = 0 in every lane
  std::vector<Lanes> values_;  // by slot
};

}  // namespace tw
