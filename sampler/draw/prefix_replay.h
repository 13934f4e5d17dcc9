// PrefixReplay: replays one candidate after the other and goes on from the longest prefix that a candidate shares with
// the one before it. Programs are immutable trees in an arena, so that going back costs nothing. Used by whoever
// replays many traces of a space.
#pragma once
#include "dsl/schedule/state.h"
#include "dsl/schedule/trace.h"

namespace tw {

class PrefixReplay {
 public:
  // The program must outlive this. New nodes live in `arena` until the next call of replay(), which nobody else may use
  // meanwhile.
  PrefixReplay(Arena& arena, const Program& base) : arena_(arena), base_(base), state_(arena, base) {}

  // How often samples are drawn again in one replay until conditions hold.
  static constexpr int kMostRedraws = 200;

  // What tw::replay() of the first `last` instructions does from the start, in adapting mode; the same decisions,
  // program and rejects. But a `require` over values that are known here only (tiles, extents) narrows what is drawn:
  // if it does not hold, the samples that were open are drawn again, from the first one on which it depends. So draws
  // are from the prior under the condition, and every point that satisfies it can be drawn. What the caller has decided
  // (groups, tied tiles) stays. A trace must stay the same while this lives. `rng` draws what is open; null = nothing
  // may be.
  Status replay(const Trace& trace, std::vector<Decision>& decisions, Rng* rng, std::size_t last = SIZE_MAX);

  // After replay(): may be changed and replayed further by the caller.
  State& state() { return state_; }

 private:
  // What there was before a sample.
  struct Point {
    Arena::Mark mark;
    Program program;
    std::size_t values, instruction;
  };
  std::size_t go_back(const Trace& trace, const std::vector<Decision>& decisions, std::size_t last);
  std::size_t restore(std::size_t sample);

  Arena& arena_;
  const Program& base_;
  State state_;
  const Trace* trace_ = nullptr;
  std::vector<Point> points_;      // by sample, as far as the last replay came
  std::vector<Decision> decided_;  // what it decided there
  std::vector<Decision> given_;    // to the replay at hand
};

}  // namespace tw
