#include "sampler/search/candidate.h"

#include <algorithm>
#include <iterator>

namespace tw {
namespace {

Trace with_open_decisions(const Trace& trace) { return trace.with_decisions(std::vector<Decision>(trace.sample_count())); }

}  // namespace

CandidateSpace make_candidate_space(const Program& program, const std::vector<rules::RuleUse>& uses, const rules::Library& library,
                                    const Target& target, std::string& errors, u64 seed) {
  CandidateSpace made{.base = program, .library = &library, .facts = facts_of(target)};
  made.space = build_space(program, uses, library, made.facts, errors, seed);
  std::copy_if(uses.begin(), uses.end(), std::back_inserter(made.posts), [](const rules::RuleUse& use) { return use.rule->is_post; });
  return made;
}

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

Result<Trace> full_trace(const CandidateSpace& space, const Candidate& candidate, std::string* errors) {
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
    Status applied = apply_post(post, space.library->functions(), schedule, space.facts, diagnostics);
    if (errors) *errors += diagnostics.render();
    TW_TRY_STATUS(applied);
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
