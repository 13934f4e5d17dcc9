// Flight: the trials that are on their way, by task, and how long it takes to find a batch. Used by tune.cc, on the
// thread that searches.
#pragma once
#include <unordered_map>
#include <vector>

#include "sampler/search/flight_plan.h"
#include "sampler/search/trial_runner.h"

namespace tw {

class Flight {
 public:
  explicit Flight(std::size_t tasks) : tasks_(tasks) {}

  void add(const Batch& batch) {
    Task& task = tasks_[static_cast<std::size_t>(batch.task)];
    ++task.batches, ++batches_;
    trials_ += static_cast<i64>(batch.trials.size());
    for (const Trial& trial : batch.trials) task.candidates.emplace(trial.candidate.program, trial.candidate);
  }
  // A batch, or a part of one, that has ended.
  void remove(const Batch& ended) {
    Task& task = tasks_[static_cast<std::size_t>(ended.task)];
    task.batches -= ended.is_last, batches_ -= ended.is_last;
    trials_ -= static_cast<i64>(ended.trials.size());
    for (const Trial& trial : ended.trials) task.candidates.erase(trial.candidate.program);
  }

  bool is_empty() const { return batches_ == 0; }
  i64 trials() const { return trials_; }
  i64 trials(int task) const { return static_cast<i64>(at(task).candidates.size()); }
  int batches(int task) const { return at(task).batches; }
  std::vector<Candidate> candidates(int task) const {
    std::vector<Candidate> all;
    for (const auto& [program, candidate] : at(task).candidates) all.push_back(candidate);
    return all;
  }

  // A round was searched in so many seconds.
  void note_round(double seconds) {
    constexpr double kOfTheLast = 0.5;
    round_seconds_ = round_seconds_ == 0 ? seconds : round_seconds_ + kOfTheLast * (seconds - round_seconds_);
  }
  double round_seconds() const { return round_seconds_; }

  // Learning takes a quarter of the time at most, where machines would wait for it.
  bool may_train(double now) const { return now - trained_ >= 3 * training_seconds_; }
  void note_training(double begin, double end) {
    constexpr double kLeast = 0.01;  // else there was nothing new to learn
    if (end - begin >= kLeast) trained_ = end, training_seconds_ = end - begin;
  }

 private:
  struct Task {
    int batches = 0;
    std::unordered_map<Hash128, Candidate, HashOfHash> candidates;  // a program is in flight once
  };
  const Task& at(int task) const { return tasks_[static_cast<std::size_t>(task)]; }

  std::vector<Task> tasks_;
  int batches_ = 0;
  i64 trials_ = 0;
  double round_seconds_ = 0, training_seconds_ = 0;
  double trained_ = 0;  // when the model was trained last
};

}  // namespace tw
