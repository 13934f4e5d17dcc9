// The calls of machines: which trials they lease, and how a lease ends.
#include <algorithm>

#include "dsl/base/text.h"
#include "runtime/fleet/guard_sql.h"
#include "runtime/fleet/queue_answers.h"
#include "runtime/fleet/queue_sql.h"
#include "runtime/fleet/sql_array.h"
#include "runtime/fleet/trial_queue.h"
#include "runtime/store/postgres_rows.h"

namespace tw {

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
    targets.push_back({.target = (*rows)[i].text(0),
                       .host = "",
                       .machine = "",
                       .wanted = (*rows)[i].text(1),
                       .has_machine = (*rows)[i].is_true(2)});
  return targets;
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
  constexpr const char* kLockTimedOut = "55P03";  // SQLSTATE
  std::vector<LeasedTrial> leased;
  bool was_its_turn = true;
  auto take = [&]() -> DatabaseStatus {
    auto rows = repeated([&] {
      return connection_.run_behind(
          queue_sql::lease_gate(machine), queue_sql::kLease,
          {machine, array_of(targets, &MeasuredTarget::target), array_of(targets, &MeasuredTarget::machine),
           most - static_cast<int>(leased.size()), kLeaseSeconds, kOtherMachineSeconds,
           built ? array_of(*built) : PostgresValue(std::nullopt)});
    });
    was_its_turn = rows || rows.failure().state != kLockTimedOut;
    if (!was_its_turn) return Done{};
    if (!rows) return rows.failure();
    for (int i = 0; i < rows->size(); ++i) leased.push_back(leased_of_row((*rows)[i]));
    return Done{};
  };
  if (auto taken = take(); !taken) return taken.failure();
  if (was_its_turn && std::ssize(leased) < most) {
    auto ended = tidy();
    if (!ended) return ended.failure();
    if (*ended > 0) {
      if (auto taken = take(); !taken) return taken.failure();
    }
  }
  if (!leased.empty() && is_listening_) {
    if (auto done = connection_.unlisten(queue_sql::kTrialsChannel); !done) return done.failure();
    is_listening_ = false;
  }
  std::ranges::sort(leased, {}, &LeasedTrial::id);
  return leased;
}

// The id of its record, 0 = it is not there. A role that may not ask is told that it is not: then the result counts as
// late or repeated.
DatabaseResult<i64> TrialQueue::stored_as(const Unanswered& result) {
  auto rows = run(postgres_sql::kFindRecent, {result.digest});
  if (rows) return rows->empty() ? i64{0} : (*rows)[0].integer(0);
  if (rows.failure().state == "42501") return i64{0};
  return rows.failure();
}

// The lease has ended already: that is counted.
DatabaseResult<Finished> TrialQueue::ignored(i64 machine, const LeasedTrial& trial) {
  auto rows = connection_.run(queue_sql::kTrialState, {trial.id});
  if (!rows) return rows.failure();
  const bool is_repeated = !rows->empty() && (*rows)[0].text(0) == "done" && (*rows)[0].integer(1) == trial.lease;
  auto counted = connection_.run(queue_sql::kCountIgnored, {machine, i64{!is_repeated}, i64{is_repeated}});
  if (!counted) return counted.failure();
  return Finished{is_repeated ? Accepted::Repeated : Accepted::Late, is_repeated ? (*rows)[0].integer(2) : 0};
}

// Ends a lease if it is valid, by one statement.
DatabaseResult<Finished> TrialQueue::end_lease(i64 machine, const LeasedTrial& trial, const Ending& ending) {
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
  auto rows = connection_.run(queue_sql::finish_statement(lock, stored, record), values);
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
DatabaseResult<Finished> TrialQueue::finished(i64 machine, const LeasedTrial& trial, const Ending& ending) {
  if (unanswered_.lease == trial.lease) {
    auto record = stored_as(unanswered_);
    if (!record) return record.failure();
    unanswered_ = {};
    if (*record != 0) return Finished{Accepted::Yes, *record};
  }
  if (ending.stored) unanswered_ = {trial.lease, content_digest(*ending.stored)};
  auto end = [&] { return end_lease(machine, trial, ending); };
  auto end_and_note = [&]() -> DatabaseResult<Finished> {
    auto ended = end();
    if (!ended || ended->accepted != Accepted::Yes) return ended;
    if (auto noted = note(machine, trial, ending); !noted) return noted.failure();
    return ended;
  };
  const bool is_noted = !ending.fault.empty() || (ending.stored && ending.stored->is_trial() && !ending.stored->ok());
  auto finished = is_noted ? transaction<Finished>(end_and_note) : repeated(end);
  if (finished || !finished.failure().is_connection_lost) unanswered_ = {};
  return finished;
}

DatabaseResult<Finished> TrialQueue::finish(i64 machine, const LeasedTrial& trial, const Record& record) {
  Record stored = record;
  stored.error = clean_text(record.error, kLongestMessage);
  stored.created = now_ms();
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

DatabaseResult<i64> TrialQueue::give_back(i64 machine) { return number(run(queue_sql::kGiveBack, {machine})); }

DatabaseResult<std::optional<i64>> TrialQueue::beat_machine(i64 machine) {
  auto rows = run(queue_sql::kBeatMachine, {machine, kLeaseSeconds, kLongestLeaseSeconds, kProlongedSeconds});
  if (!rows) return rows.failure();
  return rows->empty() ? std::optional<i64>() : (*rows)[0].integer(0);
}

DatabaseStatus TrialQueue::leave(i64 machine) { return done(run(queue_sql::kLeave, {machine})); }

}  // namespace tw
