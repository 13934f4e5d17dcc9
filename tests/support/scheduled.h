// Workloads of the operator library with a schedule in text applied: what tests and benchmarks of programs under
// transformation need.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dsl/schedule/schedule.h"

namespace tw::test {

class Scheduled {
 public:
  // use: "dense(M = 64, N = 64, K = 64)". Every instruction must apply; otherwise the message goes to stderr and the
  // process ends.
  Scheduled(const std::string& use, const std::vector<std::string>& epilogues, const std::string& schedule);
  const Program& program() const { return state_->program(); }
  const OwnedProgram& base() const { return base_; }  // before the schedule

 private:
  OwnedProgram base_;
  std::unique_ptr<Arena> arena_ = std::make_unique<Arena>();
  std::unique_ptr<State> state_;
};

// A register tile of `rows` x `columns` elements for the last two spatial loops of the block "Y" with the loops i, j,
// k.
struct TileOptions {
  i64 rows = 6, columns = 16, unroll = 4;
  bool pack = true;            // the constant operand W, ahead of the call
  bool parallel = false;       // the outermost loop
  bool panels_outside = true;  // loops over column tiles outside of those over row tiles
};
std::string dense_schedule(const TileOptions& options);

}  // namespace tw::test
