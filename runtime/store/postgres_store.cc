#include "runtime/store/postgres_store.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <set>

#include "dsl/base/text.h"
#include "runtime/store/postgres_rows.h"
#include "runtime/store/postgres_schema.h"
#include "runtime/store/server_wait.h"

namespace tw {
namespace {

namespace sql = postgres_sql;

constexpr int rows_of_a_page = 256;  // of which no more are in memory

class PostgresStore : public DatabaseStore {
 public:
  PostgresStore(PostgresConnection connection, DatabaseMode mode) : connection_(std::move(connection)), mode_(mode) {}
  // Fails unless the schema is there.
  DatabaseStatus begin();

  const std::string& path() const override { return connection_.address(); }
  i64 damaged() const override { return static_cast<i64>(damaged_.size()); }

  DatabaseStatus add_workload(const std::string& hash, const std::string& text) override;
  DatabaseResult<std::vector<WorkloadText>> workloads(const std::string& hash) override;
  DatabaseResult<i64> add_records(std::vector<Record> records) override;
  DatabaseStatus visit(const RecordFilter& filter, const std::function<void(Record&)>& visit) override;
  DatabaseResult<std::vector<Record>> best(const std::string& workload, const std::string& target,
                                           const std::string& machine, std::size_t n) override;
  DatabaseResult<Record> record(i64 id) override;
  DatabaseResult<i64> trials(const std::string& workload, const std::string& target,
                             const std::string& machine) override;
  DatabaseResult<std::vector<TaskSummary>> tasks() override;
  DatabaseResult<i64> latest_record() override;
  DatabaseStatus save_model(const StoredModel& model) override;
  DatabaseResult<std::vector<StoredModel>> models(const std::string& name, const std::string& target) override;
  DatabaseResult<i64> add_run(const StoredRun& run) override;
  DatabaseStatus finish_run(i64 id, i64 finished, const std::string& outcome) override;
  DatabaseResult<std::vector<StoredRun>> runs() override;
  DatabaseResult<Verification> verify() override;
  DatabaseResult<i64> remove_host(const std::string& host) override;

 private:
  // Prepares the session, checks the schema and notes which database it is.
  DatabaseStatus identify();
  // After every new session.
  DatabaseStatus prepare() { return mode_ == DatabaseMode::Read ? connection_.script(sql::kReadOnly) : Done{}; }
  DatabaseStatus reconnect();
  // Every call begins with it: a connection that was lost is made again.
  DatabaseStatus ready();
  // body(), a DatabaseResult; repeated while the server is waited for.
  template <class Body>
  auto lasting(Body&& body);
  // The id of the last of the rows that insert() has put in, all in one transaction. `rows`: pairs of id and digest.
  using Inserted = std::vector<std::pair<i64, std::string>>;
  DatabaseResult<i64> insert_once(const char* table, const std::function<DatabaseStatus(Inserted&)>& insert);
  DatabaseResult<PostgresRows> run(const std::string& statement, const std::vector<PostgresValue>& values = {});
  // The row, or nothing after it was noted as damaged.
  template <class Row>
  std::optional<Row> good(const PostgresRow& stored);
  // Which rows: `condition` holds the values $1, ...; ids are above `after` and at most `last`; those of one task.
  struct Wanted {
    std::string condition = "true";
    std::vector<PostgresValue> values = {};
    i64 after = 0, last = i64{1} << 62;
    std::optional<i64> task_key = {};
  };
  // Calls use(row) for every good one, by rising id and in pages, until it returns false.
  template <class Row, class Use>
  DatabaseStatus scan(const Wanted& wanted, Use&& use);
  template <class Row>
  DatabaseResult<std::vector<Row>> collect(const std::string& condition, const std::vector<PostgresValue>& values);

  PostgresConnection connection_;
  DatabaseMode mode_;
  std::string identity_;  // of the database
  std::optional<Waiting> waiting_ = LongRun::waiting();
  std::set<std::pair<std::string, i64>> damaged_;  // table and id
};

// ---- reading
// ------------------------------------------------------------------------------------------------------

// A long run does not end because the server went away between its first connection and its first answer.
DatabaseStatus PostgresStore::begin() {
  auto begun = identify();
  if (begun || !begun.failure().is_connection_lost || !waiting_) return begun;
  return repeat_while_it_may_pass(*waiting_, [this] { return connection_.reconnect(); }, [this] { return identify(); });
}

DatabaseStatus PostgresStore::identify() {
  if (auto done = prepare(); !done) return done;
  if (auto done = check_postgres_schema(connection_); !done) return done;
  auto identity = identity_of(connection_);
  if (!identity) return identity.failure();
  identity_ = std::move(*identity);
  return Done{};
}

DatabaseStatus PostgresStore::reconnect() {
  if (auto done = connection_.reconnect(); !done) return done;
  if (auto same = check_identity(connection_, identity_); !same) {
    connection_.close();  // the next call looks again
    return same;
  }
  return prepare();
}

DatabaseStatus PostgresStore::ready() {
  // Looks at what has arrived: a server that was started again has ended the session meanwhile.
  if (connection_.is_connected() && connection_.wait(std::chrono::milliseconds(0))) return Done{};
  return reconnect();
}

template <class Body>
auto PostgresStore::lasting(Body&& body) {
  auto once = [&] {
    auto is_ready = ready();
    return is_ready ? body() : decltype(body())(is_ready.failure());
  };
  if (!waiting_) return once();
  return repeat_while_it_may_pass(*waiting_, [this] { return reconnect(); }, once);
}

DatabaseResult<PostgresRows> PostgresStore::run(const std::string& statement,
                                                const std::vector<PostgresValue>& values) {
  return lasting([&] { return connection_.run(statement, values); });
}

// Where COMMIT got no answer, the rows tell whether it was done: their ids are known, and the session has ended.
DatabaseResult<i64> PostgresStore::insert_once(const char* table,
                                               const std::function<DatabaseStatus(Inserted&)>& insert) {
  Inserted unanswered;
  return lasting([&]() -> DatabaseResult<i64> {
    if (!unanswered.empty()) {
      const auto& [id, digest] = unanswered.back();
      auto found = connection_.run(
          cat("SELECT EXISTS (SELECT FROM tracewright.", table, " WHERE id = $1::bigint AND digest = $2)"),
          {id, digest});
      if (!found) return found.failure();
      if ((*found)[0].is_true(0)) return id;
    }
    auto inserted = connection_.transaction<Inserted>([&]() -> DatabaseResult<Inserted> {
      unanswered.clear();
      if (auto done = insert(unanswered); !done) return done.failure();
      return unanswered;
    });
    if (!inserted) return inserted.failure();
    return inserted->empty() ? i64{0} : inserted->back().first;
  });
}

template <class Row>
std::optional<Row> PostgresStore::good(const PostgresRow& stored) {
  Row row;
  if (read_postgres_row(stored, row)) return row;
  damaged_.insert({Row::table, row.id});
  return std::nullopt;
}

template <class Row, class Use>
DatabaseStatus PostgresStore::scan(const Wanted& wanted, Use&& use) {
  const std::string statement =
      postgres_page<Row>(wanted.condition, wanted.values.size(), wanted.task_key.has_value(), rows_of_a_page);
  for (i64 after = wanted.after;;) {
    std::vector<PostgresValue> values = wanted.values;
    if (wanted.task_key) values.push_back(*wanted.task_key);
    values.push_back(after), values.push_back(wanted.last);
    auto page = run(statement, values);
    if (!page) return page.failure();
    for (int at = 0; at < page->size(); ++at) {
      after = (*page)[at].integer(0);
      std::optional<Row> row = good<Row>((*page)[at]);
      if (row && !use(*row)) return Done{};
    }
    if (page->size() < rows_of_a_page) return Done{};
  }
}

template <class Row>
DatabaseResult<std::vector<Row>> PostgresStore::collect(const std::string& condition,
                                                        const std::vector<PostgresValue>& values) {
  std::vector<Row> found;
  auto done = scan<Row>({condition, values}, [&](Row& row) { return found.push_back(std::move(row)), true; });
  if (!done) return done.failure();
  return found;
}

// ---- workloads and records
// ----------------------------------------------------------------------------------------

DatabaseStatus PostgresStore::add_workload(const std::string& hash, const std::string& text) {
  auto known = workloads(hash);
  if (!known) return known.failure();
  if (!known->empty()) return Done{};
  return lasting([&] {
    return connection_.transaction<Done>([&]() -> DatabaseStatus {
      if (auto locked = connection_.run(sql::kLockWorkloads); !locked) return locked.failure();
      auto found = connection_.run(cat(postgres_select<WorkloadText>(), "WHERE hash = $1"), {hash});
      if (!found) return found.failure();
      for (int row = 0; row < found->size(); ++row) {
        if (good<WorkloadText>((*found)[row])) return Done{};  // another tuner was faster
      }
      auto id = run_insert(connection_, postgres_insert(WorkloadText{0, hash, text}));
      if (!id) return id.failure();
      return Done{};
    });
  });
}

DatabaseResult<std::vector<WorkloadText>> PostgresStore::workloads(const std::string& hash) {
  return hash.empty() ? collect<WorkloadText>("true", {}) : collect<WorkloadText>("hash = $1", {hash});
}

DatabaseResult<i64> PostgresStore::add_records(std::vector<Record> records) {
  return insert_once(Record::table, [&](Inserted& rows) -> DatabaseStatus {
    for (const Record& record : records) {
      auto id = run_insert(connection_, postgres_insert_record(record), sql::kWriterGate);
      if (!id) return id.failure();
      rows.emplace_back(*id, content_digest(record));
    }
    return Done{};
  });
}

DatabaseStatus PostgresStore::visit(const RecordFilter& filter, const std::function<void(Record&)>& visit) {
  Wanted wanted{.after = filter.after};
  auto add = [&](const char* comparison, const std::string& value) {
    if (value.empty()) return;
    wanted.values.push_back(value);
    wanted.condition += cat(" AND ", comparison, " $", wanted.values.size());
  };
  // A task is found by its key alone (postgres_page), and its texts are compared here.
  const bool is_of_task = !filter.workload.empty() && !filter.target.empty();
  if (is_of_task) wanted.task_key = key_of_texts(filter.workload, filter.target);
  add("workload =", is_of_task ? "" : filter.workload);
  add("target =", is_of_task ? "" : filter.target);
  add("target <>", filter.not_target);
  auto last = latest_record();
  if (!last) return last.failure();
  wanted.last = *last;
  if (wanted.last <= wanted.after) return Done{};
  return scan<Record>(wanted, [&](Record& record) {
    if (filter.stop && filter.stop()) return false;
    bool is_other = is_of_task && (record.workload != filter.workload || record.target != filter.target);
    if (!is_other) visit(record);
    return true;
  });
}

DatabaseResult<i64> PostgresStore::latest_record() {
  auto found = lasting([&] {
    auto latest = connection_.run_script(sql::kLatest);
    if (!latest && latest.failure().state == "55P03") latest = connection_.run(sql::kLatestSeen);
    return latest;
  });
  if (!found) return found.failure();
  return (*found)[0].integer(0);
}

DatabaseResult<std::vector<Record>> PostgresStore::best(const std::string& workload, const std::string& target,
                                                        const std::string& machine, std::size_t n) {
  std::vector<Record> found;
  const std::string statement = postgres_best();
  i64 seconds = -1, id = 0;  // where the next page begins
  while (found.size() < n) {
    i64 wanted = static_cast<i64>(std::min<std::size_t>(n - found.size(), rows_of_a_page));
    auto page = run(statement, {key_of_texts(workload, target), key_of_texts(machine), seconds, id, wanted});
    if (!page) return page.failure();
    for (int at = 0; at < page->size(); ++at) {
      id = (*page)[at].integer(0);
      seconds = (*page)[at].integer(2 + 3);  // behind id, digest, workload, target, status
      std::optional<Record> record = good<Record>((*page)[at]);
      // Texts may share a key.
      bool is_of_task = record && record->workload == workload && record->target == target;
      if (is_of_task && machine_of(record->host) == machine) found.push_back(std::move(*record));
    }
    if (page->size() < wanted) break;
  }
  return found;
}

DatabaseResult<Record> PostgresStore::record(i64 id) {
  auto rows = run(cat(postgres_select<Record>(), "WHERE id = $1::bigint"), {id});
  if (!rows) return rows.failure();
  if (rows->empty()) return DatabaseError{cat("database ", path(), " has no record ", id)};
  std::optional<Record> record = good<Record>((*rows)[0]);
  if (record) return std::move(*record);
  return DatabaseError{cat("record ", id, " of database ", path(), " is damaged: its digest does not fit")};
}

DatabaseResult<i64> PostgresStore::trials(const std::string& workload, const std::string& target,
                                          const std::string& machine) {
  auto rows = run(sql::kTrials, {key_of_texts(workload, target), key_of_texts(machine), Record::same_code});
  if (!rows) return rows.failure();
  return (*rows)[0].integer(0);
}

DatabaseResult<std::vector<TaskSummary>> PostgresStore::tasks() {
  auto rows = run(sql::kSummaries, {Record::same_code});
  if (!rows) return rows.failure();
  std::vector<TaskSummary> tasks;
  for (int at = 0; at < rows->size(); ++at) {
    PostgresRow row = (*rows)[at];
    const std::string workload = row.text(0), target = row.text(1);
    if (tasks.empty() || tasks.back().workload != workload || tasks.back().target != target)
      tasks.push_back({workload, target, row.text(2)});
    TaskSummary& task = tasks.back();
    MachineSummary machine{.machine = machine_of(row.text(3)), .trials = row.integer(4), .failed = row.integer(5)};
    if (machine.trials == 0) continue;
    machine.first_good = row.integer(6), machine.last_good = row.integer(7);
    auto fastest = best(workload, target, machine.machine, 1);
    if (!fastest) return fastest.failure();
    if (!fastest->empty()) machine.best_record = fastest->front().id, machine.best_seconds = fastest->front().seconds;
    task.trials += machine.trials, task.failed += machine.failed;
    task.machines.push_back(std::move(machine));
  }
  return tasks;
}

DatabaseResult<i64> PostgresStore::remove_host(const std::string& host) {
  auto hosts = run(sql::kHosts);
  if (!hosts) return hosts.failure();
  return connection_.transaction<i64>([&]() -> DatabaseResult<i64> {
    auto of_role = connection_.run(sql::kRemoveRole, {host});
    if (!of_role) return of_role.failure();
    i64 removed = of_role->changed();
    if (auto rates = connection_.run(sql::kRemoveRates, {host}); !rates) return rates.failure();
    for (int at = 0; at < hosts->size(); ++at) {
      std::string name = (*hosts)[at].text(0);
      if (name != host && machine_of(name) != host) continue;
      auto done = connection_.run(sql::kRemoveHost, {name});
      if (!done) return done.failure();
      removed += done->changed();
    }
    return removed;
  });
}

// ---- models and runs
// ----------------------------------------------------------------------------------------------

DatabaseStatus PostgresStore::save_model(const StoredModel& model) {
  auto id = lasting([&] { return run_insert(connection_, postgres_insert(model, {}, 0, sql::kReplaceModel)); });
  if (!id) return id.failure();
  return Done{};
}

DatabaseResult<std::vector<StoredModel>> PostgresStore::models(const std::string& name, const std::string& target) {
  return collect<StoredModel>("($1 = '' OR name = $1) AND ($2 = '' OR target = $2)", {name, target});
}

DatabaseResult<i64> PostgresStore::add_run(const StoredRun& run) {
  return insert_once(StoredRun::table, [&](Inserted& rows) -> DatabaseStatus {
    auto id = run_insert(connection_, postgres_insert(run));
    if (!id) return id.failure();
    rows.emplace_back(*id, content_digest(run));
    return Done{};
  });
}

DatabaseStatus PostgresStore::finish_run(i64 id, i64 finished, const std::string& outcome) {
  auto found = collect<StoredRun>("id = $1::bigint", {id});
  if (!found) return found.failure();
  if (found->empty()) return Done{};  // its row was damaged meanwhile: nothing to finish
  StoredRun& run = found->front();
  run.finished = finished;
  run.outcome = outcome;
  auto done = this->run(sql::kFinishRun, {id, content_digest(run), finished, outcome});
  if (!done) return done.failure();
  return Done{};
}

DatabaseResult<std::vector<StoredRun>> PostgresStore::runs() { return collect<StoredRun>("true", {}); }

DatabaseResult<Verification> PostgresStore::verify() {
  Verification verification;
  auto before = std::exchange(damaged_, {});
  auto count = [&](const auto&) { return ++verification.rows, true; };
  auto note = [&](const DatabaseStatus& done) -> DatabaseStatus {
    if (done || !done.failure().state.starts_with("XX")) return done;
    verification.problems.push_back(done.error());  // the server cannot read on
    return Done{};
  };
  DatabaseStatus done = note(scan<WorkloadText>({}, count));
  if (done) done = note(scan<Record>({}, count));
  if (done) done = note(scan<StoredModel>({}, count));
  if (done) done = note(scan<StoredRun>({}, count));
  verification.damaged = damaged();
  damaged_.insert(before.begin(), before.end());
  if (!done) return done.failure();
  return verification;
}

}  // namespace

DatabaseResult<std::unique_ptr<DatabaseStore>> open_postgres(const std::string& address, DatabaseMode mode) {
  auto connection = PostgresConnection::open(address);
  if (!connection) return connection.failure();
  auto store = std::make_unique<PostgresStore>(std::move(*connection), mode);
  if (auto done = store->begin(); !done) return done.failure();
  return std::unique_ptr<DatabaseStore>(std::move(store));
}

}  // namespace tw
