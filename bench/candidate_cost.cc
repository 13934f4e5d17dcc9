#include "bench/candidate_cost.h"

#include <time.h>

#include <algorithm>
#include <map>

namespace tw::bench {
namespace {

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double wall_seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Stages are measured by doing the same work again with one stage more, or with the last one several times: no clock
// runs inside.
class Stages {
 public:
  Stages(const CandidateSpace& space, std::vector<Candidate> candidates)
      : space_(space),
        candidates_(std::move(candidates)),
        arena_(1 << 18),
        extractor_(space.feature_target),
        draft_(space.feature_target) {}

  // Seconds of all candidates; the best of three runs. Hash, draft and features can be the last stage several times.
  double run(int stages, int times = 1) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      double begin = cpu_seconds();
      for (const Candidate& candidate : candidates_) build(candidate, stages, times);
      best = std::min(best, cpu_seconds() - begin);
    }
    return best;
  }

 private:
  void build(const Candidate& candidate, int stages, int times) {
    arena_.reset();
    State state(arena_, space_.base);
    decisions_ = candidate.decisions;
    TW_CHECK(replay(space_.space.sketches[candidate.sketch].trace, state, decisions_, ReplayMode::Adapt, nullptr),
             "replayed before");
    if (stages < 2) return;
    for (const rules::RuleUse& post : space_.posts) {
      Diagnostics diagnostics(*post.module->source);
      TW_CHECK(apply_post(post, space_.library->declared(), state, space_.facts, diagnostics), "postprocessed before");
    }
    for (int i = 0; i < times; ++i) {
      if (stages == 3) sum_ += normalized_hash(state.program()).low;
      if (stages == 4) sum_ += draft_.seconds(state.program()) > 0;
      if (stages == 5) extractor_.extract(state.program(), rows_);
    }
  }

  const CandidateSpace& space_;
  std::vector<Candidate> candidates_;
  Arena arena_;
  FeatureExtractor extractor_;
  DraftModel draft_;
  std::vector<Decision> decisions_;
  std::vector<float> rows_;
  u64 sum_ = 0;  // keeps the compiler from leaving stages out
};

// Replays instruction by instruction with a clock around each.
void add_instruction_kinds(const CandidateSpace& space, const std::vector<Candidate>& candidates, CandidateCost& cost) {
  std::map<std::string, Cost> kinds;
  Arena arena(1 << 18);
  for (const Candidate& candidate : candidates) {
    arena.reset();
    State state(arena, space.base);
    std::vector<Decision> decisions = candidate.decisions;
    const Trace& trace = space.space.sketches[candidate.sketch].trace;
    for (std::size_t i = 0; i < trace.instructions().size(); ++i) {
      double begin = wall_seconds();
      TW_CHECK(replay(trace, state, decisions, ReplayMode::Adapt, nullptr, i, i + 1), "replayed before");
      Cost& kind = kinds[trace.instructions()[i].kind->name];
      kind.microseconds += (wall_seconds() - begin) * 1e6;
      kind.times += 1;
    }
    cost.instructions += static_cast<double>(trace.instructions().size());
  }
  double n = std::max<double>(1, static_cast<double>(candidates.size()));
  cost.instructions /= n;
  for (auto& [name, kind] : kinds) cost.instruction_kinds.push_back({name, kind.microseconds / n, kind.times / n});
  std::stable_sort(cost.instruction_kinds.begin(), cost.instruction_kinds.end(),
                   [](const Cost& a, const Cost& b) { return a.microseconds > b.microseconds; });
}

}  // namespace

CandidateCost candidate_cost(const CandidateSpace& space, int count, u64 seed) {
  CandidateCost cost;
  CandidateBuilder builder(space);
  std::vector<Candidate> candidates;
  int sketches = static_cast<int>(space.space.sketches.size());
  Rng rng(seed);
  for (int i = 0; i < count; ++i) {
    Candidate candidate;
    Rng stream = rng.fork(static_cast<u64>(i));
    if (builder.draw(i % sketches, candidate, stream) && builder.build(candidate, &stream))
      candidates.push_back(candidate);
    else
      ++cost.rejected;
  }
  cost.candidates = static_cast<int>(candidates.size());
  double n = std::max(1, cost.candidates);
  double begin = cpu_seconds();
  for (int i = 0; i < count; ++i) {
    Candidate candidate;
    Rng stream = rng.fork(static_cast<u64>(i));
    builder.draw(i % sketches, candidate, stream);
  }
  cost.stages.push_back({"draw", (cpu_seconds() - begin) / count * 1e6, 1});
  Stages stages(space, candidates);
  auto add = [&](const char* name, double seconds) { cost.stages.push_back({name, seconds / n * 1e6, 1}); };
  double replay = stages.run(1), postprocess = stages.run(2);
  add("replay", replay);
  add("postprocess", std::max(0.0, postprocess - replay));
  for (int stage = 3; const char* name : {"hash", "draft", "features"}) {
    constexpr int kTimes = 5;
    double once = stages.run(stage);
    add(name, (stages.run(stage++, kTimes) - once) / (kTimes - 1));
  }
  add_instruction_kinds(space, candidates, cost);
  return cost;
}

}  // namespace tw::bench
