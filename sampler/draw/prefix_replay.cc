#include "sampler/draw/prefix_replay.h"

#include <algorithm>

namespace tw {
// Restores the point before the first sample that differs, or an earlier one that is not behind `last`; the number of the instruction there.
std::size_t PrefixReplay::go_back(const Trace& trace, const std::vector<Decision>& decisions, std::size_t last) {
  std::size_t shared = 0, most = std::min(decisions.size(), decided_.size());
  while (shared < most && !decisions[shared].open() && decisions[shared] == decided_[shared]) ++shared;
  while (!points_.empty() && points_.back().instruction > last) points_.pop_back();
  if (&trace != trace_ || points_.empty()) {
    trace_ = &trace;
    points_.clear();
    arena_.reset();
    state_.restart(base_);
    return 0;
  }
  shared = std::min(shared, points_.size() - 1);
  const Point& point = points_[shared];
  arena_.rewind(point.mark);
  state_.set_program(point.program);
  state_.values().resize(point.values);
  std::size_t instruction = point.instruction;
  points_.resize(shared);
  return instruction;
}

Status PrefixReplay::replay(const Trace& trace, std::vector<Decision>& decisions, Rng* rng, std::size_t last) {
  last = std::min(last, trace.instructions().size());
  std::size_t from = go_back(trace, decisions, last);
  Status status = ok();
  while (status && from < last) {
    if (trace.instructions()[from].kind->samples) points_.push_back({arena_.mark(), state_.program(), state_.values().size(), from});
    std::size_t to = from + 1;
    while (to < last && !trace.instructions()[to].kind->samples) ++to;
    status = tw::replay(trace, state_, decisions, ReplayMode::Adapt, rng, from, to);
    from = to;
  }
  decided_ = decisions;
  return status;
}

}  // namespace tw
