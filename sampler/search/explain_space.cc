#include "sampler/search/explain_space.h"

#include <algorithm>

#include "sampler/search/trial.h"

namespace tw {
namespace {

class Explainer {
 public:
  Explainer(const CandidateSpace& space, const Target& target) : space_(space), target_(target) {}

  void note_building() {
    out_.followed = space_.space.sketches.size();
    out_.sketches = space_.space.count;
    for (const RuleVisit& visit : space_.space.visits) {
      auto row = std::find_if(out_.rules.begin(), out_.rules.end(), [&](const RuleRow& known) {
        return known.rule == visit.rule && known.block == visit.block;
      });
      if (row == out_.rules.end())
        row = out_.rules.insert(row, {.rule = visit.rule, .block = visit.block, .unmet = visit.unmet});
      row->applied += visit.applied;
      row->kept += visit.kept;
      row->dropped += visit.dropped;
      row->added += visit.added;
    }
    for (const rules::ForkReject& reject : space_.space.rejects) {
      add({reject.rule, reject.instruction, reject.pattern, reject.reason, reject.is_caught ? "try" : "building"});
    }
  }

  void draw(int sketch, Rng& rng) {
    const Sketch& from = space_.space.sketches[sketch];
    ++out_.draws;
    Candidate candidate{.sketch = sketch, .decisions = std::vector<Decision>(from.trace.sample_count())};
    if (!from.prior->draw(candidate.decisions, rng)) return note(no_draw(from), from);
    Arena arena;
    PrefixReplay replayer(arena, space_.base);
    if (Status replayed = replayer.replay(from.trace, candidate.decisions, &rng); !replayed)
      return note(replayed.rejected(), from);
    Result<Trace> whole = full_trace(space_, candidate);
    if (!whole) return note(whole.rejected(), from);
    Arena second;
    State replayed(second, space_.base);
    if (Status status = replay(*whole, replayed); !status) return note(status.rejected(), from);
    if (Status lowered = can_be_lowered(second, replayed.program(), target_); !lowered)
      note(lowered.rejected(), from, "lowering");
  }

  SpaceExplanation finish() {
    std::stable_sort(out_.rejects.begin(), out_.rejects.end(),
                     [](const RejectRow& a, const RejectRow& b) { return a.count > b.count; });
    return std::move(out_);
  }

 private:
  void note(const Reject& why, const Sketch& sketch, std::string rule = "") {
    ++out_.rejected;
    bool is_known = rule.empty() && why.step >= 0 && why.step < static_cast<int>(sketch.makers.size());
    if (is_known) rule = sketch.makers[why.step];
    add({rule, why.instruction, why.reason, to_string(why), "drawing"});
  }

  void add(RejectRow row) {
    auto known = std::find_if(out_.rejects.begin(), out_.rejects.end(), [&](const RejectRow& other) {
      return other.rule == row.rule && other.instruction == row.instruction && other.reason == row.reason &&
             other.when == row.when;
    });
    if (known == out_.rejects.end()) known = out_.rejects.insert(known, std::move(row));
    ++known->count;
  }

  const CandidateSpace& space_;
  const Target& target_;
  SpaceExplanation out_;
};

}  // namespace

SpaceExplanation explain_space(const CandidateSpace& space, const Target& target, i64 draws, u64 seed) {
  Explainer explainer(space, target);
  explainer.note_building();
  for (i64 i = 0; i < draws && !space.space.sketches.empty(); ++i) {
    Rng rng(seed, static_cast<u64>(i));
    explainer.draw(static_cast<int>(i % static_cast<i64>(space.space.sketches.size())), rng);
  }
  return explainer.finish();
}

}  // namespace tw
