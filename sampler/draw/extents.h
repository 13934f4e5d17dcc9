// Extents of the loops that the values of a trace stand for, as arithmetic over what its samples give. With them tiles
// are drawn, fitted and tested without a replay.
#pragma once
#include "dsl/schedule/trace.h"

namespace tw {

class Extents {
 public:
  // Of no loop.
  Extents() = default;
  // `loops`: for each value of the trace, which loop of the recorded program it is; id 0 = none. `base`: the program
  // before the trace.
  Extents(const Trace& trace, const Program& base, const std::vector<LoopId>& loops);

  // An expression over integers and values of samples; null = known at replay only.
  const Arg* of(u32 value) const { return value < of_value_.size() ? of_value_[value] : nullptr; }
  // The argument with expressions in the place of extents; null if one is known at replay only. Lives as long as this.
  const Arg* resolved(const Arg& arg) const;
  // An integer as an expression. Lives as long as this.
  const Arg* constant(i64 extent) const;

 private:
  class Walk;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>(1 << 10);
  std::vector<const Arg*> of_value_;
};

}  // namespace tw
