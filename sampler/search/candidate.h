// A candidate is a sketch and decisions. CandidateBuilder turns it into a program: replay, postprocess, hash, draft score, features.
#pragma once
#include "costmodel/draft_model.h"
#include "costmodel/features.h"
#include "sampler/search/space.h"

namespace tw {

struct Candidate {
  int sketch = 0;
  std::vector<Decision> decisions;  // one per sample of the sketch; open ones are drawn by build()
  Hash128 program;                  // structural hash of what it gives
  double draft = 0;                 // seconds, by the draft model
  float score = 0;                  // by the learned model; higher is faster
};

// What all candidates of a task share. Read only.
struct CandidateSpace {
  Program base;
  Space space;
  std::vector<rules::RuleUse> posts;
  const rules::Library* library = nullptr;
  rules::TargetFacts facts;
  FeatureTarget feature_target;
};

// The space of a program under the rules of a set, and the set's postprocessors. Errors as in build_space.
CandidateSpace make_candidate_space(const Program& program, const std::vector<rules::RuleUse>& uses, const rules::Library& library,
                                    const Target& target, std::string& errors, u64 seed = 1);

// One per thread.
class CandidateBuilder {
 public:
  explicit CandidateBuilder(const CandidateSpace& space)
      : space_(space), arena_(1 << 18), extractor_(space.feature_target), draft_(space.feature_target) {}

  // A candidate from the prior: constrained decisions jointly, the others open until build(). False: the sketch has no valid draw.
  bool draw(int sketch, Candidate& candidate, Rng& rng) const;
  // Replays in adapting mode, postprocesses, and sets program and draft. The program lives until the next call.
  Result<Program> build(Candidate& candidate, Rng* rng);
  // Features of the program that build() gave, in place of what `rows` held.
  void features(const Program& program, std::vector<float>& rows) { extractor_.extract(program, rows); }

 private:
  const CandidateSpace& space_;
  Arena arena_;
  FeatureExtractor extractor_;
  DraftModel draft_;
};

// The whole trace of a candidate, with its decisions and, behind the marker, what the postprocessors did. Errors
// in the text of a postprocessor reject, and are rendered into `errors`.
Result<Trace> full_trace(const CandidateSpace& space, const Candidate& candidate, std::string* errors = nullptr);

// The candidate that a stored trace stands for, if its sketch is in the space.
std::optional<Candidate> find_candidate(const CandidateSpace& space, const Trace& trace);

}  // namespace tw
