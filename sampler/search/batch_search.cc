#include "sampler/search/batch_search.h"

#include <algorithm>

#include "dsl/analysis/points.h"
#include "sampler/search/first_kernel.h"
#include "sampler/strategies/evolutionary.h"
#include "sampler/strategies/proposer.h"

namespace tw {
namespace {

// The untuned program runs a hundred million steps a second or more on one core, and fifty million as one work-item of
// an H100: where it takes longer than a second or two, it would only be waited for.
bool can_run_untuned(const TuneTask& task) {
  return points_of(task.program.program) <= (task.target.kind == TargetKind::Cuda ? 2e7 : 2e8);
}

// At least: three calls at a common peak of a core. 0 for devices, whose peaks lie far apart.
double seconds_of_a_trial(const TaskState& state) {
  constexpr double kPeak = 1e11;
  return is_device(state.task->target) ? 0 : 3 * state.least_flops / (kPeak * state.task->target.threads);
}

}  // namespace

void BatchSearch::add_stats(TuneResult& result) const {
  result.candidates = stats_.candidates;
  result.rejected = stats_.rejected;
  result.repeats = stats_.repeats;
  result.profile.draw = stats_.draw_seconds;
  result.profile.replay = stats_.build.replay;
  result.profile.postprocess = stats_.build.postprocess;
  result.profile.hash = stats_.build.hash;
  result.profile.draft = stats_.build.draft;
  result.profile.features = stats_.build.features;
  result.profile.model = stats_.model_seconds;
  result.profile.first_kernels = stats_.first_kernel_seconds;
}

std::string BatchSearch::find(TaskState& state, const Wanted& wanted, const CostModel* model, Batch& batch,
                              const Rng& rng) {
  if (!state.strategy) state.strategy = plan_.new_strategy();
  i64 size = std::min(batch_size(state, wanted), wanted.left);
  if (state.rounds == 0 && state.progress.trials == 0) {
    add_first_trials(state, rng, wanted.left, batch);
    add_seeds(state, size, model, rng, batch);
  }
  int count = static_cast<int>(size - static_cast<i64>(batch.trials.size()));
  if (count > 0) {
    for (Candidate& candidate : propose(state, wanted, count, model, rng))
      batch.trials.push_back({.candidate = std::move(candidate)});
  }
  return state.strategy->problem();
}

Round BatchSearch::round_of(TaskState& state, std::span<const Candidate> parents, int count, const CostModel* model,
                            const Rng& rng) {
  return {.space = state.space,
          .elites = parents,
          .measured = state.measured,
          .times = state.times,
          .model = model,
          .acquisition = plan_.acquisition,
          .count = count,
          .rng = rng,
          .known = state.known,
          .stats = stats_,
          .options = round_};
}

std::vector<Candidate> BatchSearch::propose(TaskState& state, const Wanted& wanted, int count, const CostModel* model,
                                            const Rng& rng) {
  std::vector<Candidate> parents = state.parents(population_for(count, EvolutionOptions().population));
  Round round = round_of(state, parents, count, model, rng);
  if (wanted.least > 0) round.together = static_cast<std::size_t>(count) + wanted.in_flight.size();
  round.in_flight = wanted.in_flight;
  std::vector<Candidate> proposed = state.strategy->propose(round);
  return plan_.kind->has_scores ? select_batch(std::move(proposed), round, plan_.selection) : proposed;
}

// The first batches are small, so that what they find is used early: 8, 16, then 32; or the strategy has a size of its
// own. Of few trials or little time each task gets its part first.
i64 BatchSearch::batch_size(const TaskState& state, const Wanted& wanted) const {
  const i64 own = state.strategy->batch();
  i64 tasks = static_cast<i64>(wanted.tasks), usual = wanted.known < 3 * kFirstBatch ? 2 * kFirstBatch : kFullBatch;
  if (wanted.known >= kFirstBatch) return own > 0 ? own : std::max(usual, wanted.least);
  i64 most = own > 0 ? own : std::max(kFirstBatch, wanted.least);
  if (options_.total_trials > 0) most = std::min(most, options_.total_trials / tasks);
  if (double trial = seconds_of_a_trial(state); options_.seconds > 0 && trial > 0) {
    double part = options_.seconds / 2 / static_cast<double>(tasks);
    most = static_cast<i64>(std::min(part / trial, static_cast<double>(most)));
  }
  return std::max<i64>(most, 1);
}

// What zero trials give, where the strategy goes by the draft model. Behind it the untuned program, so that tuning can
// never make things worse.
void BatchSearch::add_first_trials(TaskState& state, const Rng& rng, i64 left, Batch& batch) {
  Hash128 untuned = normalized_hash(state.space.base);
  std::optional<Candidate> first;
  if (plan_.kind->begins_with_draft) first = first_kernel(state, rng.fork(1), left);
  if (first && first->program != untuned && state.measured.insert(first->program).second)
    batch.trials.push_back({.candidate = std::move(*first), .is_constructed = true});
  bool has_other = !batch.trials.empty() || !plan_.kind->begins_with_draft;
  if (has_other && (left < 2 || !can_run_untuned(*state.task))) return;
  Trial baseline;
  baseline.is_baseline = true;
  baseline.candidate.program = untuned;
  state.measured.insert(untuned);
  batch.trials.push_back(std::move(baseline));
}

std::optional<Candidate> BatchSearch::first_kernel(TaskState& state, const Rng& rng, i64 left) {
  RoundOptions how = round_;
  how.keep_features = how.keep_features && left >= kEnoughToLearn;
  return find_first_kernel(state.space, state.task->target, how, rng, state.known, stats_);
}

// The best of other machines, which may be the best here, and transfer seeds.
void BatchSearch::add_seeds(TaskState& state, i64 room, const CostModel* model, const Rng& rng, Batch& batch) {
  std::size_t most =
      static_cast<std::size_t>(std::min<i64>(room, static_cast<i64>(batch.trials.size()) + kFirstBatch / 2));
  auto add = [&](const std::vector<Candidate>& seeds) {
    for (const Candidate& seed : seeds) {
      if (batch.trials.size() < most && state.measured.insert(seed.program).second)
        batch.trials.push_back({.candidate = seed});
    }
  };
  add(state.seeds);
  add(carried(state, model, rng));
}

// In turn by what they were worth in their own shape and by their scores in this one.
std::vector<Candidate> BatchSearch::carried(TaskState& state, const CostModel* model, const Rng& rng) {
  std::vector<Candidate> by_score = state.carried, out;
  if (by_score.empty()) return out;
  Round round = round_of(state, {}, 0, model, rng);
  Proposer(round).score(by_score);
  std::stable_sort(by_score.begin(), by_score.end(), has_higher_score);
  for (std::size_t i = 0; i < by_score.size(); ++i) {
    out.push_back(state.carried[i]);
    out.push_back(by_score[i]);
  }
  return out;
}

}  // namespace tw
