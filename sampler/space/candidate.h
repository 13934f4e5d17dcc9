// A candidate is a sketch and decisions. CandidateBuilder turns it into a program: replay, postprocess, hash, draft
// score, features.
#pragma once
#include <map>
#include <tuple>

#include "costmodel/draft_model.h"
#include "costmodel/gpu/gpu_draft.h"
#include "costmodel/row_extractor.h"
#include "sampler/draw/prefix_replay.h"
#include "sampler/space/known.h"
#include "sampler/space/native_posts.h"
#include "sampler/space/space.h"

namespace tw {

struct Candidate {
  int sketch = 0;
  std::vector<Decision> decisions;  // one per sample of the sketch; open ones are drawn by build()
  Hash128 program;                  // normalized hash of what it gives
  double draft = 0;                 // seconds, by the draft model
  float score = 0;                  // by the learned model; higher is faster
};

// The order in which a CandidateBuilder has the least to replay: those that begin alike are neighbours.
bool has_earlier_decisions(const Candidate& x, const Candidate& y);

// What all candidates of a task share. It does not change while a task is tuned, except that sketches are added.
struct CandidateSpace {
  Program base;
  Space space;
  std::vector<rules::RuleUse> posts;
  const rules::Library* library = nullptr;
  rules::TargetFacts facts;
  FeatureTarget feature_target;
  FeatureKind features = FeatureKind::Stores;  // that the cost model wants
  std::optional<GpuDevice> gpu;                // then drafts are those of its analytic model
  // Results of with_fork() by sketch, fork and alternative; -1 = there is no such sketch.
  std::map<std::tuple<int, std::size_t, int>, int> ways;
  std::shared_ptr<PostFaults> post_faults = std::make_shared<PostFaults>();
};

// What features and the draft model know of a target.
FeatureTarget feature_target_of(const Target& target);

// The space of a program under the rules of a set, and the set's postprocessors. Errors as in build_space. Where there
// is no description of a `cuda` target's device, drafts are those for processors. Postprocessors of plugins are tried
// (leave_out_wrong_posts).
CandidateSpace make_candidate_space(const Program& program, const std::vector<rules::RuleUse>& uses,
                                    const rules::Library& library, const Target& target, std::string& errors,
                                    u64 seed = 1, const std::function<bool()>& stop = {});

// Of sketch and decisions as they stand; 0 if some decision is open. A collision loses one
// candidate.
u64 decision_key(const Candidate& candidate);

// Where the time of building goes, in seconds. Features include the draft score wherever they are
// asked for.
struct BuildSeconds {
  double replay = 0, postprocess = 0, hash = 0, draft = 0, features = 0;
  BuildSeconds& operator+=(const BuildSeconds& other);
};

// One per thread.
class CandidateBuilder {
 public:
  explicit CandidateBuilder(const CandidateSpace& space);

  // A candidate from the prior: constrained decisions jointly, the others open until build(). False: the sketch has no
  // valid draw.
  bool draw(int sketch, Candidate& candidate, Rng& rng) const;
  // Replays in adapting mode up to the last sample, or the last condition that is known at replay only, so that no
  // decision is open any more. Cheaper after a candidate of the same sketch with the same first decisions.
  Status decide(Candidate& candidate, Rng* rng);
  // Goes on where decide() stopped: replays the rest, postprocesses, and sets program and draft.
  // rows: receives the features, if not null and if `known` has not the program's. The program lives until the next
  // candidate.
  Result<Program> finish(Candidate& candidate, std::vector<float>* rows = nullptr,
                         const KnownCandidates* known = nullptr);
  // Both.
  Result<Program> build(Candidate& candidate, Rng* rng, std::vector<float>* rows = nullptr);
  const BuildSeconds& seconds() const { return seconds_; }

 private:
  const Sketch& sketch_of(const Candidate& candidate) const {
    return space_.space.sketches[static_cast<std::size_t>(candidate.sketch)];
  }

  const CandidateSpace& space_;
  Arena arena_;
  PrefixReplay replay_;
  RowExtractor extractor_;
  DraftModel draft_;
  std::optional<GpuDraft> gpu_draft_;
  BuildSeconds seconds_;
};

// The whole trace of a candidate, with its decisions and, behind the marker, what the postprocessors did. Errors
// in the text of a postprocessor reject, and are rendered into `errors`.
Result<Trace> full_trace(const CandidateSpace& space, const Candidate& candidate, std::string* errors = nullptr);

// The candidate that a stored trace stands for, if its sketch is in the space.
std::optional<Candidate> find_candidate(CandidateSpace& space, const Trace& trace);

}  // namespace tw
