// TrialQueue: the trials that tuners want measured, in a PostgreSQL database, and the machines that measure them. A
// tuner puts trials in; a machine leases some, measures them and writes the results. Used by the search
// (sampler/search/fleet_runner.h), the measuring machines (sampler/fleet) and `tracewright fleet`. It measures nothing
// and reads no trace. All its SQL is in queue_sql.h.
//
// A lease ends at a deadline, by the server's clock; heartbeats move the deadline on. A trial whose lease ran out goes
// back once, to another machine; the second time it ends with the fault `machine lost`. What a machine says about a
// lease that is not its own any more is ignored and counted. The trials of a tuner whose heartbeats have ended are
// removed.
//
// A queue belongs to one thread at a time. A lost connection stays lost until reconnect().
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/fleet/answer_time.h"
#include "runtime/fleet/idle_rest.h"
#include "runtime/fleet/life_signs.h"
#include "runtime/fleet/machine_class.h"
#include "runtime/fleet/queue_times.h"
#include "runtime/store/postgres_connection.h"
#include "runtime/store/postgres_schema.h"
#include "runtime/store/record.h"

namespace tw {

// Limits of texts in bytes; the database refuses longer ones.
inline constexpr std::size_t kLongestTrace = std::size_t{1} << 20, kLongestTarget = 4096, kLongestName = 1024,
                             kLongestMessage = 4096;

// Outcomes that a tuner reads together: it puts trials in between. So many, because a busy server takes long for each
// question.
inline constexpr int kMostOutcomes = 4000;

// Why a trial ended without a measurement. None is the candidate's fault: nothing is stored of it, and a later run may
// measure it.
namespace fault {
inline constexpr std::string_view kMachineLost = "machine lost",  // two leases ran out
    kProgramDiffers = "program differs",                          // the machine makes another program of the trace
    kRefused = "refused",                                         // the row is none that a machine measures
    kNoReference = "no reference",                                // the task's reference result cannot be had
    kWrongRecord = "wrong record";  // what a machine says is its result is that of another trial; the tuner notices
}

// "host:process", what a tuner or machine is called where nobody gives it a name.
std::string name_of_process();

// A trial as the tuner hands it over. Hashes have 32 hex digits.
struct QueuedTrial {
  std::string workload;  // hash; its text is in the database
  std::string target;    // canonical text
  std::string program;   // normalized hash of what the trace must give
  std::string trace;     // "" = the untuned program
  std::string task;      // name
  u64 seed = 0;
  i64 generation = 0;
  bool is_cold = false;  // Timing::Cold
  std::string wanted;    // MeasuredTarget::wanted of the target whose machines measure it
  i64 incumbent = 0;     // record of the best kernel that the tuner knows on these machines; 0 = none
};

struct LeasedTrial {
  i64 id = 0, lease = 0;
  QueuedTrial trial;
};

// What became of a trial: its record, or the fault.
struct TrialOutcome {
  i64 trial = 0, record = 0;
  std::string fault, message, machine;
};

// A target, and what the times of a machine that measures for it are taken on.
struct MeasuredTarget {
  std::string target;
  std::string host;     // Record::host
  std::string machine;  // machine_of(host): the times of a tuner's target are all of one of these
  // What the task list says of the machine (is_wanted_machine), "" = any. A tuner may want one target on several.
  std::string wanted = {};
  bool has_machine = false;  // every tuner that wants it has found one
};

// The best kernel that a tuner knows, for machines that may not read records.
struct IncumbentRecord {
  i64 id = 0;
  std::string host, program, trace;
  double seconds = 0;
};

// What a calibration has come to.
struct Classified {
  i64 number = 0;         // of the class, from 1; 0 = nothing has changed
  std::string host;       // Record::host of the class
  bool is_aside = false;  // it differs from its class: the machine gets no trials
  Difference difference;  // the largest one from the class
};

// The latest calibration of a machine, as `fleet` shows it.
struct MachineCalibration {
  std::string fingerprint;  // machine_of(host), without a class
  i64 number = 0;           // of its class
  CalibrationTimes times, class_times;
  bool is_aside = false;
  double age = 0, aside_age = 0;  // seconds since then; and since it was set aside
};

struct MachineCounts {
  i64 good = 0, failed = 0;    // trials: right and timed, failed
  i64 faults = 0;              // trials that ended with a fault
  i64 lost = 0;                // leases that ran out
  i64 late = 0, repeated = 0;  // results that were ignored: of a lease that had ended, or given already
};

struct FleetMachine {
  i64 id = 0;
  std::string name, host, version;
  std::string targets;  // one a line, for people
  i64 memory_bytes = 0;
  MachineCounts counts;
  i64 leased = 0;
  double trials_per_second = 0;                  // of the last heartbeats
  double heartbeat_age = 0;                      // seconds
  bool is_gone = false;                          // it said goodbye, or was not heard of for kGoneSeconds
  std::vector<std::string> measures = {};        // names of the tasks of its leased trials
  i64 clock_mhz = 0;                             // clock class: of the processor under load, to 100 MHz; 0 = not known
  std::string drivers;                           // of its devices, one a line
  std::vector<MachineCalibration> calibrations;  // of its processor and devices
};

// All that a task list may ask for (is_wanted_machine): processor and caches or device, class, clock, memory, drivers,
// version of tracewright. `host` and `number`: of the processor or device, and its class.
std::string fingerprint_of(const FleetMachine& machine, const std::string& host, i64 number);

// What a tuner has in the queue of one task.
struct QueuedTask {
  std::string task, target;
  i64 queued = 0, leased = 0;
};

struct FleetTuner {
  i64 id = 0;
  std::string name;
  i64 queued = 0, leased = 0, done = 0;
  double heartbeat_age = 0;
  std::vector<std::string> waiting;    // targets that no machine measures for yet
  std::vector<QueuedTask> tasks = {};  // with trials that have not ended
};

// Who measures for a tuner at the moment.
struct FleetShare {
  i64 machines = 0;  // that live and are of the kind that measures for it
  i64 tuners = 1;    // that have trials for such machines in the queue, itself included
  i64 busy = 0;      // machines that have leased its trials
};

struct FleetFault {
  std::string kind, machine, message;  // the latest message
  i64 count = 0;
};

struct FleetStatus {
  std::vector<FleetMachine> machines;  // not those that have been gone for a day
  std::vector<FleetTuner> tuners;
  std::vector<FleetFault> faults;    // by kind and machine, of 30 days
  std::vector<FleetFault> failures;  // trials that failed, by status of the record and machine
  i64 measured = 0;                  // trials of all machines that there ever were
};

// What became of the result of a lease.
enum class Accepted : u8 {
  Yes,
  Late,      // the lease had ended: ignored, counted
  Repeated,  // the same lease has given its result already: ignored, counted
};

// Why `record` is no result of a trial of which `wanted` has what is known before it is measured; "" if it is one. A
// known program may have been measured with another trace that makes it.
std::string why_no_result(const Record& wanted, const Record& record);

struct Finished {
  Accepted accepted = Accepted::Late;
  i64 record = 0;  // that the trial has now; 0 = none
};

// Makes the tables of the queue where they are missing, guards their rows (guard_sql.h), and gives the roles of
// `options` (which must be there) their rights. In a transaction of its own.
DatabaseStatus make_queue_tables(PostgresConnection& connection, const SchemaOptions& options);
// Are they there, all of those that this program needs?
DatabaseResult<bool> has_queue_tables(PostgresConnection& connection);

// The result of a lease.
struct TrialResult {
  const LeasedTrial& leased;
  const Record& record;
};

class TrialQueue {
 public:
  // Makes the queue's tables where they are missing, in a database that has those of records.
  static DatabaseResult<TrialQueue> open(const std::string& address);
  const PostgresConnection& connection() const { return connection_; }
  PostgresConnection& connection() { return connection_; }
  // Fails where the address leads to another database now.
  DatabaseStatus reconnect();
  // Waits until the time is over, a machine also until there may be trials for it; one that has found nothing for long
  // on a slow server rests for up to 16 seconds instead, whatever `most` says. Early on a signal. Early, too, when
  // `other`, a file descriptor, can be read; -1 = there is none. Tuners look for results instead of being told of them:
  // a server wakes all sessions that listen for each notification, also those of all idle machines.
  DatabaseStatus wait(std::chrono::milliseconds most, int other = -1);

  // ---- of tuners

  // Gives the tuner an id. Removes faults that are older than 30 days.
  DatabaseResult<i64> add_tuner(const std::string& name);
  // Wants machines for a target. With `host`, only those of that machine; else the first one that measures for it and
  // is one that the target wants.
  DatabaseStatus want(i64 tuner, const MeasuredTarget& target);
  // The machine that has been found for a target; nullopt as long as there is none.
  DatabaseResult<std::optional<MeasuredTarget>> found(i64 tuner, const std::string& target,
                                                      const std::string& wanted = "");
  // Returns their ids, in order. After an error some of them may be there. `cost`: seconds of a machine that one takes,
  // as far as that is known. Machines serve the tuners of a target so that each gets as much of their time; a tuner
  // that had nothing in the queue for a while has no more claim than others for that.
  DatabaseResult<std::vector<i64>> put(i64 tuner, const std::vector<QueuedTrial>& trials, double cost = 0);
  // Those of the tuner's trials that have ended, kMostOutcomes at most, until they are removed: the tuner is not told
  // of others before. Also ends leases that ran out.
  DatabaseResult<std::vector<TrialOutcome>> outcomes(i64 tuner);
  // Removes trials that have ended.
  DatabaseStatus remove_ended(i64 tuner, const std::vector<i64>& trials);
  // Records by their ids, in any order. One that is not there, or is damaged, is left out.
  DatabaseResult<std::vector<Record>> records(const std::vector<i64>& ids);
  // Who measures for the tuner.
  DatabaseResult<FleetShare> share(i64 tuner);
  // How many trials of these the queue still has, ended ones too.
  DatabaseResult<i64> count(i64 tuner, const std::vector<i64>& trials);
  // Removes the tuner's trials that nobody measures, or all of them.
  DatabaseStatus remove_trials(i64 tuner, bool leased_too);
  // False if the tuner was taken for gone: then its trials are, too.
  DatabaseResult<bool> beat_tuner(i64 tuner);
  DatabaseStatus remove_tuner(i64 tuner);

  // ---- of machines

  // Gives the machine an id, and counts that begin with 0.
  DatabaseResult<i64> add_machine(const FleetMachine& machine);
  // The result of a calibration: `host` is what was measured, without a class. The machine joins the first class of its
  // fingerprint that it agrees with, or founds one. Once in a class it stays there: it is set aside while it differs,
  // and only one that is faster (is_faster) is classified anew. Not `is_final`: a difference from its class, or from
  // all that there are, changes nothing yet. A call that is repeated gives the same.
  DatabaseResult<Classified> calibrate(i64 machine, const std::string& host, const CalibrationTimes& times,
                                       bool is_final = true);
  // The incumbent of a trial that is leased; nullopt: it has none, or the database has no such record any more.
  DatabaseResult<std::optional<IncumbentRecord>> incumbent(const LeasedTrial& trial);
  // Targets that tuners want: their texts, and the machines that are wanted. As the last lease told, if that was a
  // moment ago and full, or the server is slow and it was not empty: a machine that has enough to do need not ask.
  DatabaseResult<std::vector<MeasuredTarget>> wanted_targets();
  // Answers tuners that want one of these targets and have no machine yet.
  DatabaseStatus offer(const std::vector<MeasuredTarget>& targets);
  // At most `most` trials for these targets, by their turn; where leases take long, because many machines lease, in an
  // order that is only nearly that of turns. Ends leases that ran out where there are fewer, on a
  // slow server not each time. With `built` only trials that a builder has built, as one of these kinds
  // (build_queue.h).
  DatabaseResult<std::vector<LeasedTrial>> lease(i64 machine, const std::vector<MeasuredTarget>& targets, int most,
                                                 const std::optional<std::vector<std::string>>& built = {});
  // The result of a lease, stored as a record in the same transaction.
  DatabaseResult<Finished> finish(i64 machine, const LeasedTrial& trial, const Record& record);
  // The same for several leases of a machine: each result is accepted, late or repeated by itself. The good ones are
  // stored by one statement. A call that is repeated behind a lost connection gives the same.
  DatabaseResult<std::vector<Finished>> finish(i64 machine, const std::vector<TrialResult>& results);
  // The same with a record that the database has already.
  DatabaseResult<Finished> finish_known(i64 machine, const LeasedTrial& trial, i64 record);
  // The first record of the trial's program on a machine of this kind (machine_of), whoever measured it; 0 = none. For
  // roles that may not read records.
  DatabaseResult<i64> known_result(const QueuedTrial& trial, const std::string& machine);
  // The trial cannot be measured here. `message` is cut to kLongestMessage.
  DatabaseResult<Finished> finish_with_fault(i64 machine, const LeasedTrial& trial, std::string_view kind,
                                             const std::string& message);
  // All that the machine has leased goes back, as if nobody had had it. Returns how many these are.
  DatabaseResult<i64> give_back(i64 machine);
  // Says that it lives, as each result does that is accepted, and prolongs its leases. How many of them ran out since
  // it was added; nullopt if the machine is not known any more.
  DatabaseResult<std::optional<i64>> beat_machine(i64 machine);
  DatabaseStatus leave(i64 machine);
  // What this queue knows of the leases and results of its machine: may a heartbeat be left out? For other threads,
  // too.
  const std::shared_ptr<LifeSigns>& life_signs() const { return signs_; }

  // ---- of both

  // Ends leases that ran out, and removes tuners that are gone. Returns how many leases these are.
  DatabaseResult<i64> tidy();
  DatabaseResult<FleetStatus> status();
  // Removes the machines and faults of a role: for the owner of the tables.
  DatabaseStatus remove_role(const std::string& role);

  // Two that change the same rows in another order block each other; the server ends one of them, whose work is undone,
  // so that it can be done again (PostgreSQL, "Deadlocks": SQLSTATE class 40).
  template <class Call>
  static auto repeated(Call&& call) {
    constexpr int kAttempts = 10;
    for (int attempt = 1;; ++attempt) {
      auto result = call();
      if (result || attempt == kAttempts || !result.failure().state.starts_with("40")) return result;
    }
  }

 private:
  TrialQueue(PostgresConnection connection, std::string identity)
      : connection_(std::move(connection)),
        identity_(std::move(identity)),
        rest_(static_cast<u64>(std::chrono::steady_clock::now().time_since_epoch().count())) {}
  // What ends a lease: a record that is stored, one that is known, or a fault.
  struct Ending {
    const Record* stored = nullptr;
    i64 record = 0;
    std::string fault = {}, message = {};
  };
  DatabaseResult<Finished> finished(i64 machine, const LeasedTrial& trial, const Ending& ending);
  DatabaseResult<Finished> end_and_note(i64 machine, const LeasedTrial& trial, const Ending& ending);
  DatabaseStatus stop_listening();
  // Do leases take much longer than from an idle server?
  bool is_slow() const { return lease_time_.beyond_quickest() > kSlowLease; }
  static constexpr double kSlowLease = 0.025;  // seconds
  DatabaseResult<PostgresRows> run_by_turn(i64 machine, const std::string& statement,
                                           const std::vector<PostgresValue>& values);
  DatabaseResult<Finished> end_lease(i64 machine, const LeasedTrial& trial, const Ending& ending, bool by_turn);
  DatabaseStatus end_together(i64 machine, const std::vector<TrialResult>& results,
                              const std::vector<std::size_t>& which, std::vector<Finished>& finished);
  DatabaseResult<Finished> ignored(i64 machine, const LeasedTrial& trial);
  void note_end(i64 lease, const Finished& finished, double began);
  DatabaseStatus note(i64 machine, const LeasedTrial& trial, const Ending& ending);
  DatabaseResult<std::vector<FleetTuner>> tuners();
  DatabaseResult<std::vector<i64>> turns_of(i64 tuner, const std::vector<QueuedTrial>& trials, i64 step);
  DatabaseResult<PostgresRows> run(const std::string& sql, const std::vector<PostgresValue>& values = {});
  DatabaseStatus add_calibrations(FleetStatus& status);
  template <class T, class Body>
  DatabaseResult<T> transaction(Body&& body) {
    return repeated([&] { return connection_.transaction<T>(body); });
  }
  // What finish() has sent and got no answer to yet: its record may be there.
  struct Unanswered {
    i64 lease = 0;
    std::string digest;  // of the record
  };
  DatabaseResult<std::map<i64, i64>> stored_before(const std::vector<i64>& leases);

  PostgresConnection connection_;
  std::shared_ptr<LifeSigns> signs_ = std::make_shared<LifeSigns>();
  bool is_machine_ = false;    // add_machine() was called
  bool is_listening_ = false;  // for trials
  std::string identity_;       // of the database
  std::vector<Unanswered> unanswered_;
  std::vector<MeasuredTarget> told_;  // what the last lease said is wanted, see wanted_targets()
  AnswerTime lease_time_;
  double told_at_ = 0, tidied_at_ = 0, without_turn_until_ = 0;  // of seconds_now()
  IdleRest rest_;
  i64 part_ = 0;  // of the queue, see lease_statement()
};

}  // namespace tw
