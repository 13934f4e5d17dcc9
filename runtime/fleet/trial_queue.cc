#include "runtime/fleet/trial_queue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "dsl/base/text.h"
#include "runtime/fleet/build_sql.h"
#include "runtime/fleet/class_sql.h"
#include "runtime/fleet/guard_sql.h"
#include "runtime/fleet/queue_answers.h"
#include "runtime/fleet/queue_sql.h"
#include "runtime/fleet/sql_array.h"
#include "runtime/store/postgres_rows.h"

namespace tw {
namespace {

i64 microseconds_of(double seconds) { return static_cast<i64>(seconds * 1e6); }

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

// A step of the queue's schema. Steps that can be repeated are, so that they may change without a new one.
struct SchemaStep {
  const char* is_done;  // a question; null = it is part of no table
  const char* statements;
  bool can_be_repeated = false;
};
constexpr SchemaStep kSteps[] = {
    {queue_sql::kHasTables, queue_sql::kTables, true}, {class_sql::kHasTables, class_sql::kTables},
    {queue_sql::kHasIndices, queue_sql::kIndices},     {queue_sql::kHasNoChecks, queue_sql::kDropChecks},
    {queue_sql::kHasGates, queue_sql::kGates},         {queue_sql::kHasParts, queue_sql::kParts},
    {queue_sql::kHasVacuum, queue_sql::kVacuum},       {queue_sql::kHasVacuumOfRecords, queue_sql::kVacuumOfRecords},
    {build_sql::kHasTables, build_sql::kTables, true}, {nullptr, guard_sql::kGuards, true},
};

}  // namespace

DatabaseStatus make_queue_tables(PostgresConnection& connection, const SchemaOptions& options) {
  return connection.transaction<Done>([&]() -> DatabaseStatus {
    if (auto locked = connection.run(queue_sql::kLockTables); !locked) return locked.failure();
    for (const SchemaStep& step : kSteps) {
      if (!step.can_be_repeated) {
        auto is_done = connection.run(step.is_done);
        if (!is_done) return is_done.failure();
        if ((*is_done)[0].is_true(0)) continue;
      }
      if (auto made = connection.script(step.statements); !made) return made;
    }
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
  for (const SchemaStep& step : kSteps) {
    if (!step.is_done) continue;
    auto is_done = connection.run(step.is_done);
    if (!is_done) return is_done.failure();
    if (!(*is_done)[0].is_true(0)) return false;
  }
  return true;
}

DatabaseResult<TrialQueue> TrialQueue::open(const std::string& address) {
  auto connection = PostgresConnection::open(address, queue_sql::kSettings);
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
  DatabaseStatus same = check_identity(connection_, identity_);
  if (!same) connection_.close();  // nothing is done to another database; the next call looks again
  return same;
}

// A machine listens only while it has nothing to do: the server wakes every session that listens for each notification,
// also for those of other channels. What came before it listened is not told, so the first wait ends at once. Where a
// lease takes long because the server is busy, a machine that is not told anything looks less often, too; one that has
// found nothing for long rests without listening.
DatabaseStatus TrialQueue::wait(std::chrono::milliseconds most, int other) {
  auto milliseconds = [](double seconds) { return std::chrono::milliseconds(static_cast<i64>(1e3 * seconds)); };
  const double lease = lease_time_.beyond_quickest();
  const bool rests = is_machine_ && rest_.is_long(lease);
  if (rests) {
    if (auto stopped = stop_listening(); !stopped) return stopped;
    most = milliseconds(rest_.seconds(lease));
  } else if (is_machine_) {
    if (!is_listening_) {
      if (auto listening = connection_.listen(queue_sql::kTrialsChannel); !listening) return listening;
      is_listening_ = true;
      return Done{};
    }
    most = std::max(most, milliseconds(IdleRest::longest(lease)));
  }
  auto arrived = connection_.wait(most, other);
  if (!arrived) return arrived.failure();
  const bool is_told = is_machine_ && !rests && !arrived->empty();
  if (rests || is_told) rest_.note_woken();
  if (is_told) poll(nullptr, 0, static_cast<int>(milliseconds(rest_.seconds(lease)).count()));  // a signal ends it, too
  return Done{};
}

DatabaseStatus TrialQueue::stop_listening() {
  if (!std::exchange(is_listening_, false)) return Done{};
  return connection_.unlisten(queue_sql::kTrialsChannel);
}

DatabaseResult<PostgresRows> TrialQueue::run(const std::string& sql, const std::vector<PostgresValue>& values) {
  return repeated([&] { return connection_.run(sql, values); });
}

// ---- tuners

DatabaseResult<i64> TrialQueue::add_tuner(const std::string& name) {
  if (auto forgot = run(queue_sql::kForgetFaults); !forgot) return forgot.failure();
  return number(run(queue_sql::kAddTuner, {clean_text(name, kLongestName)}));
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

namespace {

// What makes a trial of a tuner another one.
using TrialKey = std::tuple<std::string, std::string, std::string, bool, std::string>;
TrialKey key_of(const QueuedTrial& trial) {
  return {trial.workload, trial.target, trial.program, trial.is_cold, trial.wanted};
}

// The values of kPut behind the tuner.
std::vector<PostgresValue> columns_of(const std::vector<QueuedTrial>& trials, const std::vector<i64>& turns) {
  std::vector<i64> seeds, generations, incumbents;
  std::vector<std::string> are_cold;
  for (const QueuedTrial& trial : trials) {
    seeds.push_back(static_cast<i64>(trial.seed)), generations.push_back(trial.generation);
    are_cold.emplace_back(trial.is_cold ? "t" : "f"), incumbents.push_back(trial.incumbent);
  }
  return {array_of(trials, &QueuedTrial::workload),
          array_of(trials, &QueuedTrial::target),
          array_of(trials, &QueuedTrial::program),
          array_of(trials, &QueuedTrial::trace),
          array_of(trials, &QueuedTrial::task),
          PostgresValue::numbers(seeds),
          PostgresValue::numbers(generations),
          PostgresValue::texts(are_cold),
          PostgresValue::numbers(turns),
          array_of(trials, &QueuedTrial::wanted),
          PostgresValue::numbers(incumbents)};
}

}  // namespace

// The turns of these trials, each `step` behind the one before it of its target.
DatabaseResult<std::vector<i64>> TrialQueue::turns_of(i64 tuner, const std::vector<QueuedTrial>& trials, i64 step) {
  std::map<std::string, i64> last_turns;  // of the tuner, by target
  std::vector<i64> turns;
  for (const QueuedTrial& trial : trials) {
    auto [turn, is_first] = last_turns.try_emplace(trial.target);
    if (is_first) {
      auto last = number(run(queue_sql::kLastTurn, {tuner, trial.target}));
      if (!last) return last.failure();
      turn->second = *last;
    }
    turns.push_back(turn->second += step);
  }
  return turns;
}

// Long transactions keep the server from removing what has left the queue, which each lease then walks over. Machines
// are woken for the first trials, and once more for all of them.
DatabaseResult<std::vector<i64>> TrialQueue::put(i64 tuner, const std::vector<QueuedTrial>& trials, double cost) {
  constexpr std::size_t kTogether = 512, kMostBytes = 16 << 20;  // of traces
  std::map<TrialKey, i64> ids;
  std::vector<QueuedTrial> distinct;
  for (const QueuedTrial& trial : trials) {
    if (ids.try_emplace(key_of(trial)).second) distinct.push_back(trial);
  }
  auto turns = turns_of(tuner, distinct, microseconds_of(cost));
  if (!turns) return turns.failure();
  for (std::size_t begin = 0, end = 0; begin < distinct.size(); begin = end) {
    for (std::size_t bytes = 0; end < distinct.size() && end - begin < kTogether && bytes < kMostBytes; ++end)
      bytes += distinct[end].trace.size();
    const std::vector<QueuedTrial> part(distinct.begin() + begin, distinct.begin() + end);
    std::vector<PostgresValue> values = columns_of(part, {turns->begin() + begin, turns->begin() + end});
    values.insert(values.begin(), tuner);
    auto rows = run(queue_sql::kPut, values);
    if (!rows) return rows.failure();
    for (int i = 0; i < rows->size(); ++i) ids[key_of(part[i])] = (*rows)[i].integer(0);
    if (begin > 0 && end < distinct.size()) continue;
    if (auto told = run(queue_sql::kNotifyMachines); !told) return told.failure();
  }
  std::vector<i64> in_order;
  for (const QueuedTrial& trial : trials) in_order.push_back(ids.at(key_of(trial)));
  return in_order;
}

DatabaseResult<std::vector<TrialOutcome>> TrialQueue::outcomes(i64 tuner) {
  if (auto tidied = tidy(); !tidied) return tidied.failure();
  auto rows = run(queue_sql::kOutcomes, {tuner, kMostOutcomes});
  if (!rows) return rows.failure();
  std::vector<TrialOutcome> found;
  for (int i = 0; i < rows->size(); ++i) {
    PostgresRow row = (*rows)[i];
    found.push_back({row.integer(0), row.integer(1), row.text(2), row.text(3), row.text(4)});
  }
  std::ranges::sort(found, {}, &TrialOutcome::trial);
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
