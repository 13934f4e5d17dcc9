// TunerLink: a tuner's side of the queue of trials. It puts trials in, tells what becomes of them, says that the tuner
// lives, and goes on when the server was away. Used by sampler/search/fleet_runner.h and `tune`.
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

// Why nobody measures the trials of a tuner, as far as the queue shows it: machines that are set aside are named. Empty
// if some are leased, or the tuner is not there.
std::string why_idle(const FleetStatus& status, i64 tuner);

class TunerLink {
 public:
  // Called for each trial that has ended, by its number.
  using Ended = std::function<void(i64 number, const TrialOutcome&)>;

  // `name`: of the tuner, for people.
  static DatabaseResult<std::unique_ptr<TunerLink>> open(const std::string& address, const std::string& name);
  ~TunerLink();  // nothing of the tuner stays in the queue
  TunerLink(const TunerLink&) = delete;

  // Waits for a machine that measures for a target. The first one decides for the whole run: times are those of its
  // class. `wanted`: see MeasuredTarget. nullopt: it was stopped, or there is an error.
  std::optional<MeasuredTarget> machine_for(const std::string& target, const Waiting& waiting,
                                            const std::string& wanted = "");

  // ---- many trials in flight

  // Puts trials into the queue. They are numbered on from the result. nullopt: none is in it, it was stopped, or there
  // is an error.
  std::optional<i64> put(std::vector<QueuedTrial> trials, const Waiting& waiting);
  // Tells of those that have ended since the last call. Puts what the database has forgotten in again, and says where
  // nobody measures. False: there is an error.
  bool collect(const Waiting& waiting, const Ended& ended);
  // Waits until it is time to look for results again; until `other`, a file descriptor, can be read at the latest.
  bool wait(const Waiting& waiting, int other = -1);
  // Takes back what is in flight: tells of what machines end within a few seconds, and forgets the rest.
  void withdraw(const Waiting& waiting, const Ended& ended);
  std::size_t in_flight() const { return trials_.size(); }
  // Records by their ids, in any order; nullopt: it was stopped, or there is an error.
  std::optional<std::vector<Record>> records(const std::vector<i64>& ids, const Waiting& waiting);

  // Machines that measure for this tuner, others' share left out, one at least; and how many trials a second they end.
  // As of the last call of collect() or machine_for() that asked.
  i64 machines() const { return machines_; }
  double trials_per_second() const { return rate_; }

  // ---- or a batch

  // Has trials measured, and calls ended(i, outcome) for each that has ended. True once all have. False: it was stopped
  // (what is being measured is waited for a few seconds) or there is an error.
  bool measure(const std::vector<QueuedTrial>& trials, const Waiting& waiting,
               const std::function<void(std::size_t, const TrialOutcome&)>& ended);

  // Why the queue cannot be used any more; "" = it can. A server that is away is no error: it is waited for.
  const std::string& error() const { return queue_.error(); }
  // Trials that ended with a fault so far.
  i64 faults() const { return faults_; }

 private:
  TunerLink(TrialQueue queue, std::string name);
  bool enter(const Waiting& waiting);
  bool put_in(const std::map<i64, const QueuedTrial*>& trials, const Waiting& waiting);
  bool take_outcomes(const Waiting& waiting, const Ended& ended);
  bool put_lost_ones_again(const Waiting& waiting);
  bool look_around(const Waiting& waiting);
  std::vector<i64> open_ids() const;
  bool say_if_idle(const Waiting& waiting);

  LastingQueue queue_;
  std::string name_;
  std::atomic<i64> id_ = 0;
  std::map<std::pair<std::string, std::string>, MeasuredTarget> targets_;  // found, by target and wanted
  std::map<i64, QueuedTrial> trials_;                                      // in flight, by their numbers
  std::multimap<i64, i64> open_;  // ids in the queue and numbers; two tasks may want the same trial
  i64 next_ = 0;                  // number
  i64 faults_ = 0;
  i64 machines_ = 1;
  double rate_ = 0, busy_ = 0;  // trials a second, and machines that measure for this tuner, of late
  i64 ended_ = 0;               // since the queue was looked at
  double looked_ = 0;           // when the queue was looked at
  double look_seconds_ = 0;     // that this took
  double idle_since_ = 0;
  bool is_idle_said_ = false;
  std::unique_ptr<Heartbeat> heartbeat_;
};

}  // namespace tw
