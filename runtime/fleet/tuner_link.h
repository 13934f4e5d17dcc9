// TunerLink: a tuner's side of the queue of trials. It puts batches in, waits for what becomes of them, says that the
// tuner lives, and goes on when the server was away. Used by sampler/search/fleet_runner.h and `tune`.
//
// It belongs to one thread at a time.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/fleet/heartbeat.h"
#include "runtime/fleet/lasting_queue.h"
#include "runtime/fleet/trial_queue.h"

namespace tw {

class TunerLink {
 public:
  // `name`: of the tuner, for people.
  static DatabaseResult<std::unique_ptr<TunerLink>> open(const std::string& address, const std::string& name);
  ~TunerLink();

  // Waits for a machine that measures for a target. The first one decides for the whole run: times are those of its
  // class. `wanted`: see MeasuredTarget. nullopt: it was stopped, or there is an error.
  std::optional<MeasuredTarget> machine_for(const std::string& target, const Waiting& waiting,
                                            const std::string& wanted = "");
  // Has trials for such a target measured. done(i, outcome) is called as trials[i] ends. Once it is stopped, trials
  // that nobody measures yet are removed, and the others have a moment to end. False: it was stopped, or there is an
  // error.
  bool measure(const std::vector<QueuedTrial>& trials, const Waiting& waiting,
               const std::function<void(std::size_t, const TrialOutcome&)>& done);
  // Why the queue cannot be used any more; "" = it can. A server that is away is no error: it is waited for.
  const std::string& error() const { return queue_.error(); }
  // Trials that ended with a fault so far.
  i64 faults() const { return faults_; }

 private:
  TunerLink(TrialQueue queue, std::string name);
  bool enter(const Waiting& waiting);
  bool put(const std::vector<QueuedTrial>& trials, const std::vector<std::size_t>& places, const Waiting& waiting);
  std::vector<i64> open_ids() const;
  bool collect(const Waiting& waiting, const std::function<void(std::size_t, const TrialOutcome&)>& done);
  bool put_lost_ones_again(const std::vector<QueuedTrial>& trials, const Waiting& waiting);
  void withdraw(const Waiting& waiting, const std::function<void(std::size_t, const TrialOutcome&)>& done);
  void say_if_idle(const Waiting& waiting);

  LastingQueue queue_;
  std::string name_;
  std::atomic<i64> id_ = 0;
  std::map<std::pair<std::string, std::string>, MeasuredTarget> targets_;  // that have a machine; by target and wanted
  std::map<i64, std::size_t> open_;                                        // the trials at hand, by id
  i64 faults_ = 0;
  double idle_since_ = 0;  // no trial was taken or ended since then
  bool is_idle_said_ = false;
  std::unique_ptr<Heartbeat> heartbeat_;
};

}  // namespace tw
