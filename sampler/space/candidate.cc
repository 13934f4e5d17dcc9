#include "sampler/space/candidate.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <set>
#include <string>

#include "dsl/base/clock.h"
#include "runtime/lists/device_file.h"
#include "sampler/space/other_sketches.h"

namespace tw {
namespace {

// Adds the time since the last lap to `sum`.
class Laps {
 public:
  void lap(double& sum) {
    double at = seconds_now();
    sum += at - last_;
    last_ = at;
  }

 private:
  double last_ = seconds_now();
};

}  // namespace

FeatureTarget feature_target_of(const Target& target) {
  return {.threads = target.threads,
          .vector_bits = target.vector_bits,
          .vector_registers = target.vector_registers,
          .l1_bytes = target.l1_bytes,
          .l2_bytes = target.l2_bytes,
          .l3_bytes = target.l3_bytes,
          .cache_line = target.cache_line,
          .has_lane_masks = has_lane_masks(target)};
}

CandidateSpace make_candidate_space(const Program& program, const std::vector<rules::RuleUse>& uses,
                                    const rules::Library& library, const Target& target, std::string& errors, u64 seed,
                                    const std::function<bool()>& stop) {
  CandidateSpace made{
      .base = program, .library = &library, .facts = facts_of(target), .feature_target = feature_target_of(target)};
  std::string unknown;  // a device without a description: only ranking would need one
  if (is_gpu(target)) made.gpu = device_of(target, unknown);
  made.space = build_space(program, uses, library, made.facts, errors, seed, stop);
  std::copy_if(uses.begin(), uses.end(), std::back_inserter(made.posts),
               [](const rules::RuleUse& use) { return use.rule->is_post; });
  leave_out_wrong_posts(made, errors, stop);
  return made;
}

u64 decision_key(const Candidate& candidate) {
  u64 key = mix64(static_cast<u64>(candidate.sketch) + 1);
  for (const Decision& decision : candidate.decisions) {
    if (decision.open()) return 0;
    for (int i = 0; i < decision.count; ++i) key = mix64(key ^ static_cast<u64>(decision.values[i]));
  }
  return key;
}

BuildSeconds& BuildSeconds::operator+=(const BuildSeconds& other) {
  replay += other.replay, postprocess += other.postprocess, hash += other.hash, draft += other.draft,
      features += other.features;
  return *this;
}

CandidateBuilder::CandidateBuilder(const CandidateSpace& space)
    : space_(space),
      arena_(1 << 18),
      replay_(arena_, space.base),
      extractor_(space.features, space.feature_target),
      draft_(space.feature_target) {
  if (space.gpu) gpu_draft_.emplace(*space.gpu);
}

bool CandidateBuilder::draw(int sketch, Candidate& candidate, Rng& rng) const {
  const Sketch& chosen = space_.space.sketches[sketch];
  candidate.sketch = sketch;
  candidate.decisions.assign(chosen.trace.sample_count(), {});
  return chosen.prior->draw(candidate.decisions, rng);
}

Status CandidateBuilder::decide(Candidate& candidate, Rng* rng) {
  Laps laps;
  const Sketch& sketch = sketch_of(candidate);
  Status status = replay_.replay(sketch.trace, candidate.decisions, rng, sketch.decided);
  laps.lap(seconds_.replay);
  return status;
}

Result<Program> CandidateBuilder::finish(Candidate& candidate, std::vector<float>* rows, const KnownCandidates* known) {
  Laps laps;
  if (std::optional<Reject> why = space_.post_faults->find(decision_key(candidate))) return *why;
  State& state = replay_.state();
  const Sketch& sketch = sketch_of(candidate);
  Status replayed = replay(sketch.trace, state, candidate.decisions, ReplayMode::Adapt, nullptr, sketch.decided);
  laps.lap(seconds_.replay);
  TW_TRY_STATUS(std::move(replayed));
  for (const rules::RuleUse& post : space_.posts) {
    Diagnostics diagnostics(*post.module->source);
    if (Status applied = apply_post(post, space_.library->declared(), state, space_.facts, diagnostics); !applied) {
      space_.post_faults->note(decision_key(candidate), applied.rejected());
      return applied.rejected();
    }
  }
  laps.lap(seconds_.postprocess);
  candidate.program = normalized_hash(state.program());
  laps.lap(seconds_.hash);
  const double* draft = known ? known->draft(candidate.program) : nullptr;
  if (draft && (!rows || known->features(candidate.program))) {
    candidate.draft = *draft;
    return state.program();
  }
  if (rows) {
    extractor_.extract(state.program(), sketch.trace, candidate.decisions, *rows);
    candidate.draft = extractor_.draft_seconds();
    laps.lap(seconds_.features);
  }
  if (gpu_draft_ || !rows) {
    candidate.draft = gpu_draft_ ? gpu_draft_->seconds(state.program()) : draft_.seconds(state.program());
    laps.lap(seconds_.draft);
  }
  return state.program();
}

Result<Program> CandidateBuilder::build(Candidate& candidate, Rng* rng, std::vector<float>* rows) {
  TW_TRY_STATUS(decide(candidate, rng));
  return finish(candidate, rows);
}

namespace {

// Names in a Reject lie in the arena of the schedule that made it. These outlive it: there are few different ones, and
// they are kept.
Reject with_lasting_names(Reject rejected) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> kept;
  std::lock_guard lock(mutex);
  for (Str& name : rejected.names) name = Str(*kept.emplace(name).first);
  return rejected;
}

Status replayed_and_finished(const CandidateSpace& space, const Trace& trace, Schedule& schedule, std::string* errors) {
  for (const Instruction& instruction : trace.instructions()) {
    std::vector<Str> names;
    for (u32 i = 0; i < instruction.results; ++i) names.push_back(trace.name_of_value(instruction.first_result + i));
    TW_TRY_STATUS(schedule.apply(*instruction.kind, instruction.arguments, instruction.decision, names));
  }
  TW_TRY_STATUS(schedule.enter_postproc());
  for (const rules::RuleUse& post : space.posts) {
    Diagnostics diagnostics(*post.module->source);
    Status applied = apply_post(post, space.library->declared(), schedule, space.facts, diagnostics);
    if (errors) *errors += diagnostics.render();
    TW_TRY_STATUS(applied);
  }
  return ok();
}

}  // namespace

Result<Trace> full_trace(const CandidateSpace& space, const Candidate& candidate, std::string* errors) {
  Trace trace = space.space.sketches[candidate.sketch].trace.with_decisions(candidate.decisions);
  if (space.posts.empty()) return trace;
  Schedule schedule(space.base);
  if (Status done = replayed_and_finished(space, trace, schedule, errors); !done)
    return with_lasting_names(done.rejected());
  return schedule.trace();
}

bool has_earlier_decisions(const Candidate& x, const Candidate& y) {
  if (x.sketch != y.sketch) return x.sketch < y.sketch;
  for (std::size_t i = 0; i < std::min(x.decisions.size(), y.decisions.size()); ++i) {
    const Decision &p = x.decisions[i], &q = y.decisions[i];
    if (p != q) return std::lexicographical_compare(p.values, p.values + p.count, q.values, q.values + q.count);
  }
  return false;
}

std::optional<Candidate> find_candidate(CandidateSpace& space, const Trace& stored) {
  Trace trace = stored.without_postproc();
  int sketch = find_sketch(space, trace);
  if (sketch < 0) return std::nullopt;
  Candidate candidate;
  candidate.sketch = sketch;
  candidate.decisions = trace.decisions();
  return candidate;
}

}  // namespace tw
