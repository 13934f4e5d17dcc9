#include "runtime/fleet/trial_queue.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "dsl/base/text.h"
#include "runtime/fleet/build_sql.h"
#include "runtime/fleet/class_sql.h"
#include "runtime/fleet/guard_sql.h"
#include "runtime/fleet/queue_sql.h"
#include "runtime/fleet/sql_array.h"
#include "runtime/store/postgres_rows.h"

namespace tw {
namespace {

PostgresValue or_null(const std::string& text) { return text.empty() ? PostgresValue(std::nullopt) : text; }
PostgresValue or_null(i64 number) { return number == 0 ? PostgresValue(std::nullopt) : number; }

// A call that changes something, whose rows nobody reads.
DatabaseStatus done(DatabaseResult<PostgresRows> rows) {
  if (!rows) return rows.failure();
  return Done{};
}

DatabaseResult<i64> changed(DatabaseResult<PostgresRows> rows) {
  if (!rows) return rows.failure();
  return rows->changed();
}

// The number in the first row.
DatabaseResult<i64> number(DatabaseResult<PostgresRows> rows) {
  if (!rows) return rows.failure();
  return rows->empty() ? i64{0} : (*rows)[0].integer(0);
}

i64 microseconds_of(double seconds) { return static_cast<i64>(seconds * 1e6); }
constexpr const char* kTrialsChannel = "tracewright_trials";

double seconds_of(i64 milliseconds) { return static_cast<double>(milliseconds) * 1e-3; }

}  // namespace

std::string name_of_process() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return cat(host, ":", getpid());
}

std::string why_no_result(const Record& wanted, const Record& record) {
  std::vector<std::string> different;
  if (record.workload != wanted.workload) different.emplace_back("workload");
  if (record.target != wanted.target) different.emplace_back("target");
  if (record.program != wanted.program) different.emplace_back("program");
  if (machine_of(record.host) != machine_of(wanted.host)) different.emplace_back("machine");
  if (different.empty()) return "";
  return cat("record ", record.id, " is of another ", join(different, ", "));
}

namespace {

DatabaseStatus grant(PostgresConnection& connection, const std::string& role, const std::string& rights) {
  std::string text = cat(queue_sql::kRightsOfAll, "; ", rights), name = connection.quoted_name(role), statements;
  for (char c : text) statements += c == '?' ? name : std::string(1, c);
  return connection.script(statements);
}

}  // namespace

DatabaseStatus make_queue_tables(PostgresConnection& connection, const SchemaOptions& options) {
  return connection.transaction<Done>([&]() -> DatabaseStatus {
    if (auto locked = connection.run(queue_sql::kLockTables); !locked) return locked.failure();
    if (auto made = connection.script(queue_sql::kTables); !made) return made;
    auto has_classes = connection.run(class_sql::kHasTables);
    if (!has_classes) return has_classes.failure();
    if (!(*has_classes)[0].is_true(0)) {
      if (auto made = connection.script(class_sql::kTables); !made) return made;
    }
    if (auto made = connection.script(build_sql::kTables); !made) return made;
    if (auto guarded = connection.script(guard_sql::kGuards); !guarded) return guarded;
    const std::pair<const std::string*, std::string> roles[] = {
        {&options.tuner, queue_sql::kRightsOfTuner},
        {&options.worker,
         cat(queue_sql::kRightsOfWorker, "; ", class_sql::kRightsOfWorker, "; ", build_sql::kRightsOfWorker)},
        {&options.reader, ""}};
    for (const auto& [role, rights] : roles) {
      if (role->empty()) continue;
      if (auto granted = grant(connection, *role, rights); !granted) return granted;
    }
    return Done{};
  });
}

DatabaseResult<bool> has_queue_tables(PostgresConnection& connection) {
  for (const char* question : {queue_sql::kHasTables, class_sql::kHasTables, build_sql::kHasTables}) {
    auto has_tables = connection.run(question);
    if (!has_tables) return has_tables.failure();
    if (!(*has_tables)[0].is_true(0)) return false;
  }
  return true;
}

DatabaseResult<TrialQueue> TrialQueue::open(const std::string& address) {
  auto connection = PostgresConnection::open(address);
  if (!connection) return connection.failure();
  if (auto checked = check_postgres_schema(*connection); !checked) return checked.failure();
  auto has_tables = has_queue_tables(*connection);
  if (!has_tables) return has_tables.failure();
  if (!*has_tables) {
    auto made = make_queue_tables(*connection, {.tuner = "", .worker = "", .reader = ""});
    if (!made) return DatabaseError{cat(made.error(), "; `tracewright db init` makes the tables of the queue")};
  }
  auto identity = identity_of(*connection);
  if (!identity) return identity.failure();
  return TrialQueue(std::move(*connection), std::move(*identity));
}

DatabaseStatus TrialQueue::reconnect() {
  if (auto connected = connection_.reconnect(); !connected) return connected;
  return check_identity(connection_, identity_);
}

// A machine listens only while it has nothing to do: the server wakes every session that listens for each notification,
// also for those of other channels. What came before it listened is not told, so the first wait ends at once.
DatabaseStatus TrialQueue::wait(std::chrono::milliseconds most, int other) {
  if (is_machine_ && !is_listening_) {
    if (auto listening = connection_.listen(kTrialsChannel); !listening) return listening;
    is_listening_ = true;
    return Done{};
  }
  auto arrived = connection_.wait(most, other);
  if (!arrived) return arrived.failure();
  return Done{};
}

DatabaseResult<PostgresRows> TrialQueue::run(const std::string& sql, const std::vector<PostgresValue>& values) {
  return repeated([&] { return connection_.run(sql, values); });
}

// ---- tuners

DatabaseResult<i64> TrialQueue::add_tuner(const std::string& name) {
  if (auto forgot = run(queue_sql::kForgetFaults); !forgot) return forgot.failure();
  auto id = number(run(queue_sql::kAddTuner, {clean_text(name, kLongestName)}));
  if (!id) return id;
  if (auto listening = connection_.listen(cat("tracewright_tuner_", *id)); !listening) return listening.failure();
  return id;
}

DatabaseStatus TrialQueue::want(i64 tuner, const MeasuredTarget& target) {
  if (auto wanted =
          run(queue_sql::kWant, {tuner, target.target, target.wanted, or_null(target.host), or_null(target.machine)});
      !wanted)
    return wanted.failure();
  return done(run(queue_sql::kNotifyMachines));
}

DatabaseResult<std::optional<MeasuredTarget>> TrialQueue::found(i64 tuner, const std::string& target,
                                                                const std::string& wanted) {
  auto rows = run(queue_sql::kFound, {tuner, target, wanted});
  if (!rows) return rows.failure();
  if (rows->empty()) return std::optional<MeasuredTarget>();
  return std::optional(MeasuredTarget{target, (*rows)[0].text(0), (*rows)[0].text(1), wanted});
}

DatabaseResult<std::vector<i64>> TrialQueue::put(i64 tuner, const std::vector<QueuedTrial>& trials, double cost) {
  const i64 step = microseconds_of(cost);
  return transaction<std::vector<i64>>([&]() -> DatabaseResult<std::vector<i64>> {
    std::vector<i64> ids;
    std::map<std::string, i64> turns;  // the last one of the tuner, by target
    for (const QueuedTrial& trial : trials) {
      auto [turn, is_first] = turns.try_emplace(trial.target);
      if (is_first) {
        auto last = number(connection_.run(queue_sql::kLastTurn, {tuner, trial.target}));
        if (!last) return last.failure();
        turn->second = *last;
      }
      turn->second += step;
      auto id = number(connection_.run(
          queue_sql::kPut,
          {tuner, trial.workload, trial.target, trial.program, trial.trace, trial.task, static_cast<i64>(trial.seed),
           trial.generation, trial.is_cold, turn->second, trial.wanted, or_null(trial.incumbent)}));
      if (!id) return id.failure();
      ids.push_back(*id);
    }
    if (auto told = connection_.run(queue_sql::kNotifyMachines); !told) return told.failure();
    return ids;
  });
}

DatabaseResult<std::vector<TrialOutcome>> TrialQueue::outcomes(i64 tuner) {
  if (auto tidied = tidy(); !tidied) return tidied.failure();
  auto rows = run(queue_sql::kOutcomes, {tuner});
  if (!rows) return rows.failure();
  std::vector<TrialOutcome> found;
  for (int i = 0; i < rows->size(); ++i) {
    PostgresRow row = (*rows)[i];
    found.push_back({row.integer(0), row.integer(1), row.text(2), row.text(3), row.text(4)});
  }
  return found;
}

DatabaseStatus TrialQueue::remove_ended(i64 tuner, const std::vector<i64>& trials) {
  return done(run(queue_sql::kRemoveEnded, {tuner, PostgresValue::numbers(trials)}));
}

DatabaseResult<std::vector<Record>> TrialQueue::records(const std::vector<i64>& ids) {
  auto rows = run(cat(postgres_select<Record>(), "WHERE id = any($1::bigint[])"), {PostgresValue::numbers(ids)});
  if (!rows) return rows.failure();
  std::vector<Record> found;
  for (int i = 0; i < rows->size(); ++i) {
    Record record;
    if (read_postgres_row((*rows)[i], record)) found.push_back(std::move(record));
  }
  return found;
}

DatabaseResult<FleetShare> TrialQueue::share(i64 tuner) {
  auto kinds = run(queue_sql::kMachinesOfTuner, {tuner}), machines = run(queue_sql::kLiveMachines, {kLeaseSeconds});
  if (!kinds || !machines) return (kinds ? machines : kinds).failure();
  auto counts = run(queue_sql::kShare, {tuner});
  if (!counts) return counts.failure();
  FleetShare share{.tuners = std::max<i64>(1, (*counts)[0].integer(0)), .busy = (*counts)[0].integer(1)};
  for (int i = 0; i < machines->size(); ++i) {
    const std::string name = (*machines)[i].text(0), machine = machine_of(name);
    const bool is_class = (*machines)[i].is_true(1);
    for (int k = 0; k < kinds->size(); ++k) {
      const std::string kind = (*kinds)[k].text(0);
      // Behind a device stands the machine that it is in.
      if (is_class ? kind != name : kind.find(machine) == std::string::npos) continue;
      share.machines += (*machines)[i].integer(2);
      break;
    }
  }
  return share;
}

DatabaseResult<i64> TrialQueue::count(i64 tuner, const std::vector<i64>& trials) {
  return number(run(queue_sql::kCount, {tuner, PostgresValue::numbers(trials)}));
}

DatabaseStatus TrialQueue::remove_trials(i64 tuner, bool leased_too) {
  return done(run(queue_sql::kRemoveTrials, {tuner, leased_too}));
}

DatabaseResult<bool> TrialQueue::beat_tuner(i64 tuner) {
  auto rows = changed(run(queue_sql::kBeatTuner, {tuner}));
  if (!rows) return rows.failure();
  return *rows > 0;
}

DatabaseStatus TrialQueue::remove_tuner(i64 tuner) { return done(run(queue_sql::kRemoveTuner, {tuner})); }

// ---- machines

DatabaseResult<i64> TrialQueue::add_machine(const FleetMachine& machine) {
  if (auto removed = run(queue_sql::kRemoveGoneMachines); !removed) return removed.failure();
  auto id = number(run(queue_sql::kAddMachine,
                       {clean_text(machine.name, kLongestName), clean_text(machine.host, kLongestName), machine.version,
                        machine.targets, machine.memory_bytes, machine.clock_mhz, clean_text(machine.drivers, 4096)}));
  if (!id) return id;
  is_machine_ = true;
  return id;
}

DatabaseResult<std::vector<MeasuredTarget>> TrialQueue::wanted_targets() {
  auto rows = run(queue_sql::kWantedTargets);
  if (!rows) return rows.failure();
  std::vector<MeasuredTarget> targets;
  for (int i = 0; i < rows->size(); ++i)
    targets.push_back({.target = (*rows)[i].text(0), .host = "", .machine = "", .wanted = (*rows)[i].text(1)});
  return targets;
}

DatabaseStatus TrialQueue::offer(const std::vector<MeasuredTarget>& targets) {
  return done(run(queue_sql::kOffer,
                  {array_of(targets, &MeasuredTarget::target), array_of(targets, &MeasuredTarget::host),
                   array_of(targets, &MeasuredTarget::machine), array_of(targets, &MeasuredTarget::wanted)}));
}

DatabaseResult<std::vector<LeasedTrial>> TrialQueue::lease(i64 machine, const std::vector<MeasuredTarget>& targets,
                                                           int most,
                                                           const std::optional<std::vector<std::string>>& built) {
  if (auto tidied = tidy(); !tidied) return tidied.failure();
  auto rows = run(queue_sql::kLease,
                  {machine, array_of(targets, &MeasuredTarget::target), array_of(targets, &MeasuredTarget::machine),
                   most, kLeaseSeconds, kOtherMachineSeconds, built ? array_of(*built) : PostgresValue(std::nullopt)});
  if (!rows) return rows.failure();
  if (!rows->empty() && is_listening_) {
    if (auto done = connection_.unlisten(kTrialsChannel); !done) return done.failure();
    is_listening_ = false;
  }
  std::vector<LeasedTrial> leased;
  for (int i = 0; i < rows->size(); ++i) {
    PostgresRow row = (*rows)[i];
    leased.push_back({row.integer(0),
                      row.integer(1),
                      {.workload = row.text(2),
                       .target = row.text(3),
                       .program = row.text(4),
                       .trace = row.text(5),
                       .task = row.text(6),
                       .seed = static_cast<u64>(row.integer(7)),
                       .generation = row.integer(8),
                       .is_cold = row.is_true(9),
                       .wanted = row.text(10),
                       .incumbent = row.integer(11)}});
  }
  std::ranges::sort(leased, {}, &LeasedTrial::id);
  return leased;
}

namespace {

// What ends a lease.
struct Ending {
  i64 record = 0;
  std::string fault, message;
  bool is_good = false;
};

}  // namespace

// A role that may not ask is told that it is not: then the result counts as late or repeated.
DatabaseResult<bool> TrialQueue::is_stored(const Unanswered& result) {
  auto rows = run(postgres_sql::kIsStored, {result.record, result.digest});
  if (rows) return (*rows)[0].is_true(0);
  if (rows.failure().state == "42501") return false;
  return rows.failure();
}

// `store` is called within the transaction, once the lease is known to be valid. It returns the Ending.
template <class Store>
DatabaseResult<Finished> TrialQueue::finished(i64 machine, const LeasedTrial& trial, Store&& store) {
  if (unanswered_.lease == trial.lease) {
    auto stored = is_stored(unanswered_);
    if (!stored) return stored.failure();
    if (*stored) return Finished{Accepted::Yes, std::exchange(unanswered_, {}).record};
  }
  auto finished = transaction<Finished>([&]() -> DatabaseResult<Finished> {
    auto rows = connection_.run(queue_sql::kLockTrial, {trial.id});
    if (!rows) return rows.failure();
    bool is_own = !rows->empty() && (*rows)[0].integer(2) == trial.lease;
    bool is_valid = is_own && (*rows)[0].text(1) == "leased" && (*rows)[0].is_true(3);
    bool is_repeated = is_own && (*rows)[0].text(1) == "done";
    auto count = [&](int good, int failed, int faults) {
      return connection_.run(queue_sql::kCountResult,
                             {machine, good, failed, faults, i64{!is_valid && !is_repeated}, i64{is_repeated}});
    };
    if (!is_valid) {
      if (auto counted = count(0, 0, 0); !counted) return counted.failure();
      return Finished{is_repeated ? Accepted::Repeated : Accepted::Late, is_repeated ? (*rows)[0].integer(4) : 0};
    }
    DatabaseResult<Ending> ending = store();
    if (!ending) return ending.failure();
    if (auto set = connection_.run(
            queue_sql::kFinish, {trial.id, or_null(ending->record), or_null(ending->fault), or_null(ending->message)});
        !set)
      return set.failure();
    bool is_fault = !ending->fault.empty();
    if (auto counted = count(!is_fault && ending->is_good, !is_fault && !ending->is_good, is_fault); !counted)
      return counted.failure();
    if (auto told = connection_.run(queue_sql::kNotifyTuner, {(*rows)[0].integer(0)}); !told) return told.failure();
    return Finished{Accepted::Yes, ending->record};
  });
  if (finished || !finished.failure().is_connection_lost) unanswered_ = {};
  return finished;
}

DatabaseResult<Finished> TrialQueue::finish(i64 machine, const LeasedTrial& trial, const Record& record) {
  return finished(machine, trial, [&]() -> DatabaseResult<Ending> {
    Record stored = record;
    stored.error = clean_text(record.error, kLongestMessage);
    stored.created = now_ms();
    auto id = insert_record(connection_, stored);
    if (!id) return id.failure();
    if (record.is_trial() && !record.ok()) {
      auto noted = connection_.run(queue_sql::kNoteFailure, {machine, clean_text(record.status, 64), stored.error});
      if (!noted) return noted.failure();
    }
    unanswered_ = {trial.lease, *id, content_digest(stored)};
    return Ending{.record = *id, .is_good = record.ok()};
  });
}

DatabaseResult<Finished> TrialQueue::finish_known(i64 machine, const LeasedTrial& trial, i64 record) {
  return finished(machine, trial,
                  [&]() -> DatabaseResult<Ending> { return Ending{.record = record, .is_good = true}; });
}

DatabaseResult<i64> TrialQueue::known_result(const QueuedTrial& trial, const std::string& machine) {
  return number(run(guard_sql::kKnownResult, {trial.workload, trial.target, trial.program, key_of_texts(machine)}));
}

DatabaseResult<Finished> TrialQueue::finish_with_fault(i64 machine, const LeasedTrial& trial, std::string_view kind,
                                                       const std::string& message) {
  return finished(machine, trial, [&]() -> DatabaseResult<Ending> {
    Ending ending{.fault = std::string(kind), .message = clean_text(message, kLongestMessage)};
    auto noted = connection_.run(queue_sql::kNoteFault, {machine, ending.fault, clean_text(trial.trial.task, 1024),
                                                         trial.trial.program, ending.message});
    if (!noted) return noted.failure();
    return ending;
  });
}

DatabaseResult<i64> TrialQueue::give_back(i64 machine) { return number(run(queue_sql::kGiveBack, {machine})); }

DatabaseResult<std::optional<i64>> TrialQueue::beat_machine(i64 machine) {
  if (auto prolonged = run(queue_sql::kProlong, {machine, kLeaseSeconds, kLongestLeaseSeconds}); !prolonged)
    return prolonged.failure();
  auto rows = run(queue_sql::kBeatMachine, {machine});
  if (!rows) return rows.failure();
  return rows->empty() ? std::optional<i64>() : (*rows)[0].integer(0);
}

DatabaseStatus TrialQueue::leave(i64 machine) { return done(run(queue_sql::kLeave, {machine})); }

// ---- both

DatabaseResult<i64> TrialQueue::tidy() {
  if (auto removed = run(queue_sql::kRemoveGoneTuners, {kGoneSeconds}); !removed) return removed.failure();
  auto ended = run(queue_sql::kEndLeases, {std::string(fault::kMachineLost)});
  if (!ended) return ended.failure();
  return i64{ended->size()};
}

namespace {

FleetMachine machine_of_row(PostgresRow row) {
  return {.id = row.integer(0),
          .name = row.text(1),
          .host = row.text(2),
          .version = row.text(3),
          .targets = row.text(4),
          .memory_bytes = row.integer(5),
          .counts = {row.integer(6), row.integer(7), row.integer(8), row.integer(9), row.integer(10), row.integer(11)},
          .leased = row.integer(12),
          .trials_per_second = seconds_of(row.integer(13)),
          .heartbeat_age = seconds_of(row.integer(14)),
          .is_gone = row.is_true(15),
          .measures = split(row.text(16), '\n'),
          .clock_mhz = row.integer(17),
          .drivers = row.text(18),
          .calibrations = {}};
}

std::vector<FleetFault> faults_of_rows(PostgresRows& rows) {
  std::vector<FleetFault> faults;
  for (int i = 0; i < rows.size(); ++i)
    faults.push_back({rows[i].text(0), rows[i].text(1), rows[i].text(3), rows[i].integer(2)});
  return faults;
}

}  // namespace

DatabaseResult<std::vector<FleetTuner>> TrialQueue::tuners() {
  auto rows = run(queue_sql::kTuners), queue = run(queue_sql::kQueue);
  if (!rows || !queue) return (rows ? queue : rows).failure();
  std::vector<FleetTuner> tuners;
  for (int i = 0; i < rows->size(); ++i) {
    PostgresRow row = (*rows)[i];
    tuners.push_back(
        {row.integer(0), row.text(1), row.integer(2), row.integer(3), row.integer(4), seconds_of(row.integer(5)), {}});
    auto waiting = run(queue_sql::kWaiting, {row.integer(0)});
    if (!waiting) return waiting.failure();
    for (int k = 0; k < waiting->size(); ++k) tuners.back().waiting.push_back((*waiting)[k].text(0));
  }
  for (int i = 0; i < queue->size(); ++i) {
    PostgresRow row = (*queue)[i];
    auto tuner = std::ranges::find(tuners, row.integer(0), &FleetTuner::id);
    if (tuner != tuners.end()) tuner->tasks.push_back({row.text(1), row.text(2), row.integer(3), row.integer(4)});
  }
  return tuners;
}

DatabaseStatus TrialQueue::remove_role(const std::string& role) {
  return transaction<Done>([&]() -> DatabaseStatus {
    if (auto removed = connection_.run(guard_sql::kRemoveFaults, {role}); !removed) return removed.failure();
    return done(connection_.run(guard_sql::kRemoveMachines, {role}));
  });
}

DatabaseResult<FleetStatus> TrialQueue::status() {
  FleetStatus status;
  auto machines = run(queue_sql::kMachines, {kGoneSeconds});
  if (!machines) return machines.failure();
  for (int i = 0; i < machines->size(); ++i) status.machines.push_back(machine_of_row((*machines)[i]));
  if (auto added = add_calibrations(status); !added) return added.failure();
  auto tuners = this->tuners();
  if (!tuners) return tuners.failure();
  status.tuners = std::move(*tuners);
  auto faults = run(queue_sql::kFaults), failures = run(queue_sql::kFailures), measured = run(queue_sql::kMeasured);
  for (auto* rows : {&faults, &failures, &measured}) {
    if (!*rows) return rows->failure();
  }
  status.faults = faults_of_rows(*faults), status.failures = faults_of_rows(*failures);
  status.measured = (*measured)[0].integer(0);
  return status;
}

}  // namespace tw
