// The calls of machines: which trials they lease, and how a lease ends.
#include <algorithm>
#include <set>
#include <utility>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/fleet/guard_sql.h"
#include "runtime/fleet/queue_answers.h"
#include "runtime/fleet/queue_sql.h"
#include "runtime/fleet/sql_array.h"
#include "runtime/fleet/trial_queue.h"
#include "runtime/store/postgres_rows.h"

namespace tw {

namespace {

constexpr const char* kLockTimedOut = "55P03";  // SQLSTATE

}  // namespace

DatabaseResult<i64> TrialQueue::add_machine(const FleetMachine& machine) {
  if (auto removed = run(queue_sql::kRemoveGoneMachines); !removed) return removed.failure();
  auto id = number(run(queue_sql::kAddMachine,
                       {clean_text(machine.name, kLongestName), clean_text(machine.host, kLongestName), machine.version,
                        machine.targets, machine.memory_bytes, machine.clock_mhz, clean_text(machine.drivers, 4096)}));
  if (!id) return id;
  is_machine_ = true;
  signs_->forget_leases();
  return id;
}

namespace {

std::vector<MeasuredTarget> targets_of_rows(PostgresRows& rows) {
  std::vector<MeasuredTarget> targets;
  for (int i = 0; i < rows.size(); ++i)
    targets.push_back({.target = rows[i].text(0),
                       .host = "",
                       .machine = "",
                       .wanted = rows[i].text(1),
                       .has_machine = rows[i].is_true(2)});
  return targets;
}

}  // namespace

DatabaseResult<std::vector<MeasuredTarget>> TrialQueue::wanted_targets() {
  constexpr double kOldest = 10;  // seconds
  std::vector<MeasuredTarget> told = std::exchange(told_, {});
  if (!told.empty() && seconds_now() - told_at_ < kOldest) return told;
  const double began = seconds_now();
  auto rows = run(queue_sql::kWantedTargets);
  if (!rows) return rows.failure();
  // Nothing will be leased, and the server may be slow no longer.
  if (rows->empty()) lease_time_.note(seconds_now() - began);
  return targets_of_rows(*rows);
}

DatabaseStatus TrialQueue::offer(const std::vector<MeasuredTarget>& targets) {
  std::vector<MeasuredTarget> open;
  std::ranges::remove_copy_if(targets, std::back_inserter(open), &MeasuredTarget::has_machine);
  if (open.empty()) return Done{};
  return done(
      run(queue_sql::kOffer, {array_of(open, &MeasuredTarget::target), array_of(open, &MeasuredTarget::host),
                              array_of(open, &MeasuredTarget::machine), array_of(open, &MeasuredTarget::wanted)}));
}

namespace {

LeasedTrial leased_of_row(PostgresRow row) {
  return {row.integer(0),
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
           .incumbent = row.integer(11)}};
}

}  // namespace

DatabaseResult<std::vector<LeasedTrial>> TrialQueue::lease(i64 machine, const std::vector<MeasuredTarget>& targets,
                                                           int most,
                                                           const std::optional<std::vector<std::string>>& built) {
  static const std::string kInOrder = queue_sql::lease_statement(false), kInParts = queue_sql::lease_statement(true);
  std::vector<LeasedTrial> leased;
  bool was_its_turn = true;
  auto take = [&]() -> DatabaseStatus {
    double began = 0;
    const int seconds = is_slow() ? kSlowLeaseSeconds : kLeaseSeconds;
    auto rows = repeated([&] {
      began = seconds_now();
      std::vector<PostgresValue> values = {machine,
                                           array_of(targets, &MeasuredTarget::target),
                                           array_of(targets, &MeasuredTarget::machine),
                                           most - static_cast<int>(leased.size()),
                                           seconds,
                                           kOtherMachineSeconds,
                                           built ? PostgresValue::texts(*built) : PostgresValue(std::nullopt)};
      const bool in_parts = is_slow();
      if (in_parts) values.push_back((machine + ++part_) % queue_sql::kQueueParts);
      return connection_.run_behind(queue_sql::lease_gate(machine), in_parts ? kInParts : kInOrder, values,
                                    queue_sql::kWantedTargets);
    });
    lease_time_.note(seconds_now() - began);
    was_its_turn = rows || rows.failure().state != kLockTimedOut;
    if (!was_its_turn) return Done{};
    if (!rows) return rows.failure();
    auto& [trials, wanted] = *rows;
    for (int i = 0; i < trials.size(); ++i)
      leased.push_back(leased_of_row(trials[i])), signs_->note_leased(leased.back().lease, began + seconds);
    told_.clear();
    if (std::ssize(leased) >= most || (is_slow() && !leased.empty()))
      told_ = targets_of_rows(wanted), told_at_ = seconds_now();
    return Done{};
  };
  if (auto taken = take(); !taken) return taken.failure();
  // Where the server is slow, others tidy as well.
  if (was_its_turn && std::ssize(leased) < most && (!is_slow() || seconds_now() - tidied_at_ > kHeartbeatSeconds)) {
    auto ended = tidy();
    if (!ended) return ended.failure();
    tidied_at_ = seconds_now();
    if (*ended > 0) {
      if (auto taken = take(); !taken) return taken.failure();
    }
  }
  rest_.note_lease(!leased.empty());
  if (!leased.empty()) {
    if (auto stopped = stop_listening(); !stopped) return stopped.failure();
  }
  std::ranges::sort(leased, {}, &LeasedTrial::id);
  return leased;
}

// Some results of these leases may have been stored although no answer came: gives their records, by lease. A role that
// may not read records finds none, and its results count as late or repeated.
DatabaseResult<std::map<i64, i64>> TrialQueue::stored_before(const std::vector<i64>& leases) {
  std::map<i64, i64> found;
  std::erase_if(unanswered_, [&](const Unanswered& one) { return std::ranges::count(leases, one.lease) == 0; });
  if (unanswered_.empty()) return found;
  auto rows = run(postgres_sql::kFindRecent,
                  {array_of(unanswered_, &Unanswered::digest), static_cast<i64>(unanswered_.size())});
  if (!rows && rows.failure().state != "42501") return rows.failure();
  for (int i = 0; rows && i < rows->size(); ++i) {
    for (const Unanswered& one : unanswered_) {
      if (one.digest == (*rows)[i].text(1)) found.emplace(one.lease, (*rows)[i].integer(0));
    }
  }
  std::erase_if(unanswered_, [&](const Unanswered& one) { return !found.contains(one.lease); });
  return found;
}

namespace {

Record as_stored(const Record& record) {
  Record stored = record;
  stored.error = clean_text(record.error, kLongestMessage);
  stored.created = now_ms();
  return stored;
}

}  // namespace

// The lease has ended already: that is counted.
DatabaseResult<Finished> TrialQueue::ignored(i64 machine, const LeasedTrial& trial) {
  auto rows = connection_.run(queue_sql::kTrialState, {trial.id});
  if (!rows) return rows.failure();
  const bool is_repeated = !rows->empty() && (*rows)[0].text(0) == "done" && (*rows)[0].integer(1) == trial.lease;
  auto counted = connection_.run(queue_sql::kCountIgnored, {machine, i64{!is_repeated}, i64{is_repeated}});
  if (!counted) return counted.failure();
  return Finished{is_repeated ? Accepted::Repeated : Accepted::Late, is_repeated ? (*rows)[0].integer(2) : 0};
}

// Runs a statement that writes results. Where the server is slow, machines do so by turn (queue_sql::lease_gate); a
// quick one flushes the results of many together. If a turn does not come, results are written without one for a while.
DatabaseResult<PostgresRows> TrialQueue::run_by_turn(i64 machine, const std::string& statement,
                                                     const std::vector<PostgresValue>& values) {
  constexpr double kWithoutTurn = 60;  // seconds
  if (!is_slow() || seconds_now() < without_turn_until_) return connection_.run(statement, values);
  auto rows = connection_.run_behind(queue_sql::lease_gate(machine), statement, values);
  if (rows) return std::move(rows->first);
  if (rows.failure().state != kLockTimedOut) return rows.failure();
  without_turn_until_ = seconds_now() + kWithoutTurn;
  return connection_.run(statement, values);
}

// Ends a lease if it is valid, by one statement. `by_turn`: not within a transaction.
DatabaseResult<Finished> TrialQueue::end_lease(i64 machine, const LeasedTrial& trial, const Ending& ending,
                                               bool by_turn) {
  const bool is_fault = !ending.fault.empty(), is_good = !is_fault && (!ending.stored || ending.stored->ok());
  std::vector<PostgresValue> values = {trial.id, trial.lease,  or_null(ending.fault),      or_null(ending.message),
                                       machine,  i64{is_good}, i64{!is_fault && !is_good}, i64{is_fault}};
  std::string lock, stored, record;
  if (ending.stored) {
    BoundStatement insert = postgres_insert_record(*ending.stored, static_cast<int>(values.size()));
    lock = cat(", (", postgres_sql::kWriterGate, ")"), stored = cat(" stored as (", insert.text, "),");
    record = "(select id from stored)";
    values.insert(values.end(), insert.values.begin(), insert.values.end());
  } else {
    values.push_back(or_null(ending.record));
    record = cat("$", values.size());
  }
  const std::string statement = queue_sql::finish_statement(lock, stored, record);
  auto rows = by_turn ? run_by_turn(machine, statement, values) : connection_.run(statement, values);
  if (!rows) return rows.failure();
  if (rows->empty()) return ignored(machine, trial);
  return Finished{Accepted::Yes, (*rows)[0].integer(0)};
}

// What `fleet` shows of a trial that failed or ended with a fault.
DatabaseStatus TrialQueue::note(i64 machine, const LeasedTrial& trial, const Ending& ending) {
  if (!ending.fault.empty())
    return done(connection_.run(queue_sql::kNoteFault, {machine, ending.fault, clean_text(trial.trial.task, 1024),
                                                        trial.trial.program, ending.message}));
  return done(
      connection_.run(queue_sql::kNoteFailure, {machine, clean_text(ending.stored->status, 64), ending.stored->error}));
}

// Most results are good: the one statement that ends their lease is a transaction by itself.
DatabaseResult<Finished> TrialQueue::end_and_note(i64 machine, const LeasedTrial& trial, const Ending& ending) {
  if (ending.stored) unanswered_.push_back({trial.lease, content_digest(*ending.stored)});
  auto end_with_note = [&]() -> DatabaseResult<Finished> {
    auto ended = end_lease(machine, trial, ending, /*by_turn=*/false);
    if (!ended || ended->accepted != Accepted::Yes) return ended;
    if (auto noted = note(machine, trial, ending); !noted) return noted.failure();
    return ended;
  };
  const bool is_noted = !ending.fault.empty() || (ending.stored && ending.stored->is_trial() && !ending.stored->ok());
  auto finished = is_noted ? transaction<Finished>(end_with_note)
                           : repeated([&] { return end_lease(machine, trial, ending, /*by_turn=*/true); });
  if (!finished && !finished.failure().is_connection_lost && ending.stored) unanswered_.pop_back();
  return finished;
}

// Good results, by one statement. What it leaves out is late or repeated.
DatabaseStatus TrialQueue::end_together(i64 machine, const std::vector<TrialResult>& results,
                                        const std::vector<std::size_t>& which, std::vector<Finished>& finished) {
  std::vector<Record> records;
  std::vector<i64> trials, leases;
  for (std::size_t i : which) {
    const auto& [leased, record] = results[i];
    records.push_back(as_stored(record)), trials.push_back(leased.id), leases.push_back(leased.lease);
    unanswered_.push_back({leased.lease, content_digest(records.back())});
  }
  RecordArrays columns = arrays_of(records);
  std::vector<PostgresValue> values = {machine, PostgresValue::numbers(trials), PostgresValue::numbers(leases)};
  std::vector<std::string> arrays;
  for (const std::string& type : columns.types)
    arrays.push_back(cat("$", values.size() + arrays.size() + 1, "::", type));
  values.insert(values.end(), columns.arrays.begin(), columns.arrays.end());
  const std::string statement =
      queue_sql::finish_together_statement(postgres_sql::kWriterGate, join(columns.names, ", "), join(arrays, ", "));
  auto rows = repeated([&] { return run_by_turn(machine, statement, values); });
  if (!rows && !rows.failure().is_connection_lost) unanswered_.resize(unanswered_.size() - which.size());
  if (!rows) return rows.failure();
  std::map<i64, i64> ended;
  for (int i = 0; i < rows->size(); ++i) ended.emplace((*rows)[i].integer(0), (*rows)[i].integer(1));
  for (std::size_t i : which) {
    if (auto record = ended.find(results[i].leased.id); record != ended.end()) {
      finished[i] = {Accepted::Yes, record->second};
      continue;
    }
    auto left_out = ignored(machine, results[i].leased);
    if (!left_out) return left_out.failure();
    finished[i] = *left_out;
  }
  return Done{};
}

// The lease has ended. If its result was accepted, the server has heard of the machine since `began`.
void TrialQueue::note_end(i64 lease, const Finished& finished, double began) {
  signs_->note_ended(lease);
  if (finished.accepted == Accepted::Yes) signs_->note_written(began);
}

DatabaseResult<Finished> TrialQueue::finished(i64 machine, const LeasedTrial& trial, const Ending& ending) {
  auto before = stored_before({trial.lease});
  if (!before) return before.failure();
  if (before->contains(trial.lease)) {
    unanswered_.clear();
    signs_->note_ended(trial.lease);
    return Finished{Accepted::Yes, before->at(trial.lease)};
  }
  const double began = seconds_now();
  auto finished = end_and_note(machine, trial, ending);
  if (!finished) return finished;
  unanswered_.clear();
  note_end(trial.lease, *finished, began);
  return finished;
}

// What was sent stays unanswered until all is answered: the call may be repeated from its beginning.
DatabaseResult<std::vector<Finished>> TrialQueue::finish(i64 machine, const std::vector<TrialResult>& results) {
  std::vector<i64> leases;
  for (const TrialResult& result : results) leases.push_back(result.leased.lease);
  auto before = stored_before(leases);
  if (!before) return before.failure();
  std::vector<Finished> finished(results.size());
  std::vector<std::size_t> together, alone;
  std::set<i64> seen;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (before->contains(leases[i]))
      finished[i] = {Accepted::Yes, before->at(leases[i])};
    else if (results[i].record.ok() && seen.insert(leases[i]).second)
      together.push_back(i);
    else
      alone.push_back(i);
  }
  const double began = seconds_now();
  // All lock trials in the same order.
  std::ranges::sort(together, {}, [&](std::size_t i) { return results[i].leased.id; });
  DatabaseStatus ended = together.size() > 1 ? end_together(machine, results, together, finished) : Done{};
  if (!ended && ended.failure().is_connection_lost) return ended.failure();
  // One has a simpler statement; and where the server refuses one, it does not refuse the others.
  if (!ended || together.size() == 1) alone.insert(alone.begin(), together.begin(), together.end());
  for (std::size_t i : alone) {
    const Record stored = as_stored(results[i].record);
    auto one = end_and_note(machine, results[i].leased, {.stored = &stored});
    if (!one) return one.failure();
    finished[i] = *one;
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (before->contains(leases[i]))
      signs_->note_ended(leases[i]);
    else
      note_end(leases[i], finished[i], began);
  }
  unanswered_.clear();
  return finished;
}

DatabaseResult<Finished> TrialQueue::finish(i64 machine, const LeasedTrial& trial, const Record& record) {
  const Record stored = as_stored(record);
  return finished(machine, trial, {.stored = &stored});
}

DatabaseResult<Finished> TrialQueue::finish_known(i64 machine, const LeasedTrial& trial, i64 record) {
  return finished(machine, trial, {.record = record});
}

DatabaseResult<i64> TrialQueue::known_result(const QueuedTrial& trial, const std::string& machine) {
  return number(run(guard_sql::kKnownResult, {trial.workload, trial.target, trial.program, key_of_texts(machine)}));
}

DatabaseResult<Finished> TrialQueue::finish_with_fault(i64 machine, const LeasedTrial& trial, std::string_view kind,
                                                       const std::string& message) {
  return finished(machine, trial, {.fault = std::string(kind), .message = clean_text(message, kLongestMessage)});
}

DatabaseResult<i64> TrialQueue::give_back(i64 machine) {
  auto back = number(run(queue_sql::kGiveBack, {machine}));
  if (back) signs_->forget_leases();
  return back;
}

DatabaseResult<std::optional<i64>> TrialQueue::beat_machine(i64 machine) {
  auto rows = run(queue_sql::kBeatMachine, {machine, kLeaseSeconds, kLongestLeaseSeconds, kProlongedSeconds});
  if (!rows) return rows.failure();
  return rows->empty() ? std::optional<i64>() : (*rows)[0].integer(0);
}

DatabaseStatus TrialQueue::leave(i64 machine) { return done(run(queue_sql::kLeave, {machine})); }

}  // namespace tw
