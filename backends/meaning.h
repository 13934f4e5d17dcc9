// Do two programs mean the same? Asked of the interpreter, on inputs that are small integers, so that sums are exact in
// any order. Used by `check`, `reduce` and the tests; slow by design, never part of a search.
#pragma once
#include <string>
#include <vector>

#include "backends/interpreter.h"

namespace tw {

// Knows what one program computes, and compares others with it. They must have the same parameters in the same order,
// and may take a hundred times as many steps.
class Judge {
 public:
  // `tolerance`: difference allowed beside 1 + |value|; 0 = the same bits.
  explicit Judge(const Program& before, u64 seed = 1, double tolerance = 0);

  // "" if `after` is legal IR and computes the same, else what is wrong.
  std::string difference(const Program& after) const;
  // The same for a lowered program.
  std::string difference(const LoweredProgram& after) const;
  // What else ran the program on these inputs compares its outputs itself: arrays of all parameters, in order. "" or
  // what differs.
  const std::vector<HostArray>& inputs() const { return inputs_; }
  std::string compare(const std::vector<HostArray>& got) const;
  // Why the program itself cannot be run, or "".
  const std::string& problem() const { return problem_; }

 private:
  Program before_;
  u64 seed_;
  double tolerance_;
  std::vector<HostArray> inputs_, want_;
  std::string problem_;
  i64 max_steps_ = 0;  // of other programs
};

// 0 where small integers keep every step exact (sums, products, maxima), else what is allowed for rounding in another
// order.
double tolerance_for_small_integers(const Program& program);

}  // namespace tw
