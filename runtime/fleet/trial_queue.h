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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/store/postgres_connection.h"
#include "runtime/store/postgres_schema.h"
#include "runtime/store/record.h"

namespace tw {

// Limits of texts in bytes; the database refuses longer ones.
inline constexpr std::size_t kLongestTrace = std::size_t{1} << 20, kLongestTarget = 4096, kLongestName = 1024,
                             kLongestMessage = 4096;

// Times of the queue, in seconds of the server's clock.
inline constexpr int kLeaseSeconds = 20;          // of a lease, and of its prolongation by a heartbeat
inline constexpr int kLongestLeaseSeconds = 900;  // however often it is prolonged
inline constexpr int kHeartbeatSeconds = 4;       // between two heartbeats of a tuner or machine
inline constexpr int kGoneSeconds = 60;           // after its last heartbeat a tuner is gone
inline constexpr int kOtherMachineSeconds =
    60;  // so long a lost trial waits for another machine than the one that lost it

// Why a trial ended without a measurement. None is the candidate's fault: nothing is stored of it, and a later run may
// measure it.
namespace fault {
inline constexpr std::string_view kMachineLost = "machine lost",  // two leases ran out
    kProgramDiffers = "program differs",                          // the machine makes another program of the trace
    kRefused = "refused",                                         // the row is none that a machine measures
    kNoReference = "no reference";                                // the task's reference result cannot be had
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
  double trials_per_second = 0;  // of the last heartbeats
  double heartbeat_age = 0;      // seconds
  bool is_gone = false;          // it said goodbye, or was not heard of for kGoneSeconds
};

struct FleetTuner {
  i64 id = 0;
  std::string name;
  i64 queued = 0, leased = 0, done = 0;
  double heartbeat_age = 0;
  std::vector<std::string> waiting;  // targets that no machine measures for yet
};

struct FleetFault {
  std::string kind, machine, message;  // the latest message
  i64 count = 0;
};

struct FleetStatus {
  std::vector<FleetMachine> machines;
  std::vector<FleetTuner> tuners;
  std::vector<FleetFault> faults;  // by kind and machine
};

// What became of the result of a lease.
enum class Accepted : u8 {
  Yes,
  Late,      // the lease had ended: ignored, counted
  Repeated,  // the same lease has given its result already: ignored, counted
};

struct Finished {
  Accepted accepted = Accepted::Late;
  i64 record = 0;  // that the trial has now; 0 = none
};

// Makes the tables of the queue where they are missing, and gives the roles of `options` (which must be there) their
// rights. In a transaction of its own.
DatabaseStatus make_queue_tables(PostgresConnection& connection, const SchemaOptions& options);

class TrialQueue {
 public:
  // Makes the queue's tables where they are missing, in a database that has those of records.
  static DatabaseResult<TrialQueue> open(const std::string& address);
  const PostgresConnection& connection() const { return connection_; }
  PostgresConnection& connection() { return connection_; }
  DatabaseStatus reconnect() { return connection_.reconnect(); }
  // Waits until the queue has something new for this tuner or machine, or the time is over. Early on a signal.
  DatabaseStatus wait(std::chrono::milliseconds most);

  // ---- of tuners

  // Gives the tuner an id. Removes faults that are older than 30 days.
  DatabaseResult<i64> add_tuner(const std::string& name);
  // Wants machines for a target. With `host`, only those of that machine; else the first one that measures for it.
  DatabaseStatus want(i64 tuner, const MeasuredTarget& target);
  // The machine that has been found for a target; nullopt as long as there is none.
  DatabaseResult<std::optional<MeasuredTarget>> found(i64 tuner, const std::string& target);
  // All of them, or none on an error. Returns their ids, in order.
  DatabaseResult<std::vector<i64>> put(i64 tuner, const std::vector<QueuedTrial>& trials);
  // Those of the tuner's trials that have ended, until they are removed. Also ends leases that ran out.
  DatabaseResult<std::vector<TrialOutcome>> outcomes(i64 tuner);
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
  // Targets that tuners want.
  DatabaseResult<std::vector<std::string>> wanted_targets();
  // Answers tuners that want one of these targets and have no machine yet.
  DatabaseStatus offer(const std::vector<MeasuredTarget>& targets);
  // At most `most` trials for these targets, oldest first. Ends leases that ran out. With `built` only trials that a
  // builder has built, as one of these kinds (build_queue.h).
  DatabaseResult<std::vector<LeasedTrial>> lease(i64 machine, const std::vector<MeasuredTarget>& targets, int most,
                                                 const std::optional<std::vector<std::string>>& built = {});
  // The result of a lease, stored as a record in the same transaction.
  DatabaseResult<Finished> finish(i64 machine, const LeasedTrial& trial, const Record& record);
  // The same with a record that the database has already.
  DatabaseResult<Finished> finish_known(i64 machine, const LeasedTrial& trial, i64 record);
  // The trial cannot be measured here. `message` is cut to kLongestMessage.
  DatabaseResult<Finished> finish_with_fault(i64 machine, const LeasedTrial& trial, std::string_view kind,
                                             const std::string& message);
  // All that the machine has leased goes back, as if nobody had had it. Returns how many these are.
  DatabaseResult<i64> give_back(i64 machine);
  // Prolongs its leases. False if the machine is not known any more.
  DatabaseResult<bool> beat_machine(i64 machine);
  DatabaseStatus leave(i64 machine);

  // ---- of both

  // Ends leases that ran out, and removes tuners that are gone. Returns how many leases these are.
  DatabaseResult<i64> tidy();
  DatabaseResult<FleetStatus> status();

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
  explicit TrialQueue(PostgresConnection connection) : connection_(std::move(connection)) {}
  template <class Store>
  DatabaseResult<Finished> finished(i64 machine, const LeasedTrial& trial, Store&& store);
  DatabaseResult<PostgresRows> run(const std::string& sql, const std::vector<PostgresValue>& values = {});
  template <class T, class Body>
  DatabaseResult<T> transaction(Body&& body) {
    return repeated([&] { return connection_.transaction<T>(body); });
  }
  PostgresConnection connection_;
};

}  // namespace tw
