#include "sampler/search/candidate.h"

namespace tw {
namespace {

Trace with_open_decisions(const Trace& trace) { return trace.with_decisions(std::vector<Decision>(trace.sample_count())); }

}  // namespace

bool CandidateBuilder::draw(int sketch, Candidate& candidate, Rng& rng) const {
  const Sketch& chosen = space_.space.sketches[sketch];
  candidate.sketch = sketch;
  candidate.decisions.assign(chosen.trace.sample_count(), {});
  return chosen.prior->draw(candidate.decisions, rng);
}

Result<Program> CandidateBuilder::build(Candidate& candidate, Rng* rng) {
  arena_.reset();
  State state(arena_, space_.base);
  const Trace& trace = space_.space.sketches[candidate.sketch].trace;
  TW_TRY_STATUS(replay(trace, state, candidate.decisions, ReplayMode::Adapt, rng));
  for (const rules::RuleUse& post : space_.posts) {
    Diagnostics diagnostics(*post.module->source);
    TW_TRY_STATUS(apply_post(post, space_.library->functions(), state, space_.facts, diagnostics));
  }
  candidate.program = structural_hash(state.program());
  candidate.draft = draft_.seconds(state.program());
  return state.program();
}

Result<Trace> full_trace(const CandidateSpace& space, const Candidate& candidate) {
  Trace trace = space.space.sketches[candidate.sketch].trace.with_decisions(candidate.decisions);
  if (space.posts.empty()) return trace;
  Schedule schedule(space.base);
  for (const Instruction& instruction : trace.instructions()) {
    std::vector<Str> names;
    for (u32 i = 0; i < instruction.results; ++i) names.push_back(trace.name_of_value(instruction.first_result + i));
    TW_TRY_STATUS(schedule.apply(*instruction.kind, instruction.arguments, instruction.decision, names));
  }
  TW_TRY_STATUS(schedule.enter_postproc());
  for (const rules::RuleUse& post : space.posts) {
    Diagnostics diagnostics(*post.module->source);
    TW_TRY_STATUS(apply_post(post, space.library->functions(), schedule, space.facts, diagnostics));
  }
  return schedule.trace();
}

std::optional<Candidate> find_candidate(const CandidateSpace& space, const Trace& stored) {
  Trace trace = stored.without_postproc();
  Hash128 wanted = with_open_decisions(trace).hash();
  for (std::size_t i = 0; i < space.space.sketches.size(); ++i) {
    if (with_open_decisions(space.space.sketches[i].trace).hash() != wanted) continue;
    Candidate candidate;
    candidate.sketch = static_cast<int>(i);
    candidate.decisions = trace.decisions();
    return candidate;
  }
  return std::nullopt;
}

}  // namespace tw
