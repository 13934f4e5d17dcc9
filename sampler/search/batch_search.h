// BatchSearch: which candidates of a task are measured next. Asks the task's strategy, and lets the selection pick;
// before that come what was chosen without measurements, the untuned program and the best of other machines. Used by
// tune.cc.
#pragma once
#include "sampler/search/batch_runner.h"
#include "sampler/strategies/search_choice.h"

namespace tw {

class BatchSearch {
 public:
  static constexpr i64 kFirstBatch = 8;      // trials
  static constexpr i64 kEnoughToLearn = 16;  // measured candidates before a learned model is used

  explicit BatchSearch(const TuneOptions& options) : options_(options), plan_(plan_of(options.search)) {}

  // What is wanted of a batch.
  struct Wanted {
    i64 known = 0;          // trials that the task has already, some in flight
    i64 left = 0;           // trials that it may have at most
    i64 least = 0;          // trials that it has at least, as far as they are left and the strategy says no number
    std::size_t tasks = 1;  // that share the trials and the time of the run
    // What it must differ from, where many are in flight.
    std::span<const Candidate> in_flight = {};
  };
  // Adds the trials of a task's next batch. Their programs count as measured from then on. Returns why the strategy can
  // propose nothing, or "". `model`: null as long as there is none.
  std::string find(TaskState& state, const Wanted& wanted, const CostModel* model, Batch& batch, const Rng& rng);

  int models() const { return plan_.models; }  // that predict together
  RoundOptions& round_options() { return round_; }
  bool has_transfer() const { return plan_.has_transfer; }  // transfer seeds are wanted
  const SearchStats& stats() const { return stats_; }
  // As the result of a run has them.
  void add_stats(TuneResult& result) const;

 private:
  Round round_of(TaskState& state, std::span<const Candidate> parents, int count, const CostModel* model,
                 const Rng& rng);
  i64 batch_size(const TaskState& state, const Wanted& wanted) const;
  void add_first_trials(TaskState& state, const Rng& rng, i64 left, Batch& batch);
  std::optional<Candidate> first_kernel(TaskState& state, const Rng& rng, i64 left);
  void add_seeds(TaskState& state, i64 room, const CostModel* model, const Rng& rng, Batch& batch);
  std::vector<Candidate> carried(TaskState& state, const CostModel* model, const Rng& rng);
  std::vector<Candidate> propose(TaskState& state, const Wanted& wanted, int count, const CostModel* model,
                                 const Rng& rng);

  const TuneOptions& options_;
  SearchPlan plan_;
  RoundOptions round_;
  SearchStats stats_;
};

}  // namespace tw
