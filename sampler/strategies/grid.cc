// All points of a small space in a fixed order: sketch by sketch, the last decision changing fastest. It measures what
// there is, and shows what other strategies miss. A space of more points than the limit is refused in words.
#include <algorithm>

#include "dsl/base/text.h"
#include "sampler/draw/support.h"
#include "sampler/strategies/proposer.h"
#include "sampler/strategies/strategies.h"

namespace tw {
namespace {

// The points of a space, found by replaying each sketch sample by sample.
class Enumeration {
 public:
  Enumeration(const CandidateSpace& space, std::size_t limit, const RoundOptions& options)
      : space_(space), limit_(limit), options_(options), arena_(1 << 18), replay_(arena_, space.base) {}

  // False if there are more than the limit, or no time is left.
  bool run() {
    if (!space_.space.is_whole) return false;
    for (int sketch = 0; sketch < static_cast<int>(space_.space.sketches.size()); ++sketch) {
      const Trace& trace = space_.space.sketches[sketch].trace;
      samples_.clear();
      for (std::size_t i = 0; i < trace.instructions().size(); ++i) {
        if (trace.instructions()[i].kind->samples) samples_.push_back(i);
      }
      Candidate candidate{.sketch = sketch, .decisions = std::vector<Decision>(samples_.size())};
      if (!visit(candidate, 0)) return false;
    }
    return true;
  }
  std::vector<Candidate> take() { return std::move(points_); }

 private:
  bool visit(Candidate& candidate, std::size_t sample) {
    const Sketch& sketch = space_.space.sketches[candidate.sketch];
    const std::vector<Instruction>& instructions = sketch.trace.instructions();
    bool is_whole = sample == samples_.size();
    constexpr std::size_t kDeadEnds = 64;  // for each point that there may be
    if (++visits_ > kDeadEnds * limit_ || (options_.stop && options_.stop())) return false;
    std::vector<Decision> given = candidate.decisions;
    if (!replay_.replay(sketch.trace, given, nullptr, is_whole ? instructions.size() : samples_[sample])) return true;
    if (is_whole) {
      if (sketch.prior->satisfied(candidate.decisions)) points_.push_back(candidate);
      return points_.size() <= limit_;
    }
    auto support = support_of(instructions[samples_[sample]], replay_.state(), limit_);
    if (!support) return false;
    for (const Decision& decision : *support) {
      candidate.decisions[sample] = decision;
      if (!visit(candidate, sample + 1)) return false;
    }
    candidate.decisions[sample] = {};
    return true;
  }

  const CandidateSpace& space_;
  std::size_t limit_;
  const RoundOptions& options_;
  Arena arena_;
  PrefixReplay replay_;
  std::vector<std::size_t> samples_;  // their instructions
  std::vector<Candidate> points_;
  std::size_t visits_ = 0;
};

std::string too_large(int limit) {
  return cat("the strategy `grid` is for spaces of at most ", limit,
             " points, and this one has more; choose another strategy, or a larger `limit`");
}

class Grid : public Strategy {
 public:
  explicit Grid(int limit) : limit_(limit) {}
  const char* name() const override { return "grid"; }
  std::string problem() const override { return problem_; }

  std::vector<Candidate> propose(const Round& round) override {
    Proposer proposer(round);
    if (!is_enumerated_ && !enumerate(round, proposer)) return {};
    while (next_ < points_.size() && proposer.pool_size() < round.count && !proposer.must_stop()) {
      std::size_t first = next_, missing = static_cast<std::size_t>(round.count - proposer.pool_size());
      next_ = std::min(points_.size(), first + missing);
      proposer.offer(
          proposer.build_new(static_cast<int>(next_ - first), 1 + first, [&](int item, Candidate& candidate, Rng&) {
            candidate = points_[first + static_cast<std::size_t>(item)];
            return true;
          }));
    }
    return proposer.take_pool();
  }

 private:
  bool enumerate(const Round& round, const Proposer& proposer) {
    Enumeration all(round.space, static_cast<std::size_t>(limit_), round.options);
    is_enumerated_ = all.run();
    if (is_enumerated_)
      points_ = all.take();
    else if (!proposer.must_stop())
      problem_ = too_large(limit_);
    return is_enumerated_;
  }

  int limit_;
  bool is_enumerated_ = false;
  std::vector<Candidate> points_;
  std::size_t next_ = 0;
  std::string problem_;
};

}  // namespace

StrategyKind grid_strategy() {
  return {.name = "grid",
          .has_scores = false,
          .uses_model = false,
          .begins_with_draft = false,
          .settings = {{"limit", 10000, 1, 10000000, true}},
          .make = [](const Settings& settings) -> std::unique_ptr<Strategy> {
            return std::make_unique<Grid>(settings.whole("limit"));
          },
          .why_not = [](const CandidateSpace& space, const Settings& settings) -> std::string {
            const int limit = settings.whole("limit");
            const RoundOptions no_stop;
            return Enumeration(space, static_cast<std::size_t>(limit), no_stop).run() ? "" : too_large(limit);
          }};
}

}  // namespace tw
