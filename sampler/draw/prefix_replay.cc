#include "sampler/draw/prefix_replay.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace tw {
namespace {

constexpr std::size_t kNone = SIZE_MAX;

// Which samples decide what an instruction is given.
class Dependence {
 public:
  explicit Dependence(const Trace& trace) : trace_(trace) {
    std::size_t samples = 0;
    for (std::size_t i = 0; i < trace.instructions().size(); ++i) {
      const Instruction& instruction = trace.instructions()[i];
      makers_.resize(instruction.first_result + instruction.results, i);
      sample_.push_back(samples);
      samples += instruction.kind->samples;
    }
  }

  // The first sample with an open decision in `given` on which the instruction depends.
  std::size_t first_open(std::size_t instruction, const std::vector<Decision>& given) {
    visited_.assign(trace_.instructions().size(), false);
    first_ = kNone;
    visit(instruction, given);
    return first_;
  }

 private:
  void visit(std::size_t i, const std::vector<Decision>& given) {
    if (visited_[i]) return;
    visited_[i] = true;
    const Instruction& instruction = trace_.instructions()[i];
    if (instruction.kind->samples && given[sample_[i]].open()) first_ = std::min(first_, sample_[i]);
    // What a query finds may depend on everything before it.
    bool is_query = instruction.kind->pure && !instruction.kind->samples && instruction.results > 0;
    for (std::size_t s = 0; is_query && s < sample_[i]; ++s) {
      if (given[s].open()) first_ = std::min(first_, s);
    }
    for (const Arg& arg : instruction.arguments) visit(arg, given);
  }
  void visit(const Arg& arg, const std::vector<Decision>& given) {
    if (arg.tag == Arg::Tag::Value) visit(makers_[static_cast<std::size_t>(arg.integer)], given);
    for (const Arg& item : arg.items) visit(item, given);
  }

  const Trace& trace_;
  std::vector<std::size_t> makers_;  // by value: the instruction that gives it
  std::vector<std::size_t> sample_;  // by instruction: samples before it
  std::vector<bool> visited_;
  std::size_t first_ = kNone;
};

}  // namespace

// Restores the point before the first sample that differs, or an earlier one that is not behind `last`; the number of
// the instruction there.
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
  return restore(std::min(shared, points_.size() - 1));
}

// The point before a sample; the number of the instruction there.
std::size_t PrefixReplay::restore(std::size_t sample) {
  const Point& point = points_[sample];
  arena_.rewind(point.mark);
  state_.set_program(point.program);
  state_.values().resize(point.values);
  std::size_t instruction = point.instruction;
  points_.resize(sample);
  return instruction;
}

Status PrefixReplay::replay(const Trace& trace, std::vector<Decision>& decisions, Rng* rng, std::size_t last) {
  last = std::min(last, trace.instructions().size());
  std::size_t from = go_back(trace, decisions, last);
  given_ = decisions;
  std::optional<Dependence> dependence;
  Status status = ok();
  for (int redraws = 0; from < last;) {
    if (trace.instructions()[from].kind->samples)
      points_.push_back({arena_.mark(), state_.program(), state_.values().size(), from});
    std::size_t to = from + 1;
    while (to < last && !trace.instructions()[to].kind->samples) ++to;
    status = tw::replay(trace, state_, decisions, ReplayMode::Adapt, rng, from, to);
    from = to;
    if (status) continue;
    bool is_condition =
        trace.instructions()[static_cast<std::size_t>(status.rejected().step)].kind->meaning.is_condition;
    if (!rng || !is_condition || redraws++ == kMostRedraws) break;
    if (!dependence) dependence.emplace(trace);
    std::size_t sample = dependence->first_open(static_cast<std::size_t>(status.rejected().step), given_);
    if (sample == kNone) break;
    from = restore(sample);
    for (std::size_t s = sample; s < decisions.size(); ++s) decisions[s] = given_[s];
    status = ok();
  }
  decided_ = decisions;
  return status;
}

}  // namespace tw
