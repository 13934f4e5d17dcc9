#include "runtime/store/database.h"

#include "dsl/base/text.h"
#include "runtime/store/postgres_address.h"
#include "runtime/store/postgres_store.h"
#include "runtime/store/sqlite_store.h"

namespace tw {
namespace {

constexpr std::size_t longest_error = 4096;

Record to_be_stored(const Record& record) {
  TW_CHECK(is_hash(record.workload) && is_hash(record.program), "keys of a record are 128-bit hashes");
  TW_CHECK(!record.status.empty() && !record.target.empty(), "a record has a status and a target");
  TW_CHECK(!record.ok() || to_picoseconds(record.seconds) > 0, "a good trial has a time");
  Record stored = record;
  stored.error = clean_text(record.error, longest_error);
  if (stored.created == 0) stored.created = now_ms();
  return stored;
}

}  // namespace

Database::Database(std::unique_ptr<DatabaseStore> store) : store_(std::move(store)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;
const std::string& Database::path() const { return store_->path(); }
bool Database::is_in_place() const { return store_->is_in_place(); }
std::string Database::take_notice() { return store_->take_notice(); }
i64 Database::damaged() const { return store_->damaged(); }

DatabaseResult<Database> Database::open(const std::string& path, DatabaseMode mode) {
  auto store = is_database_address(path) ? open_postgres(path, mode) : open_sqlite(path, mode);
  if (!store) return store.failure();
  return Database(std::move(*store));
}

DatabaseStatus Database::add_workload(const std::string& hash, const std::string& text) {
  TW_CHECK(is_hash(hash), "a workload's key is a 128-bit hash");
  return store_->add_workload(hash, text);
}

DatabaseResult<std::vector<WorkloadText>> Database::workloads() { return store_->workloads(""); }

DatabaseResult<std::string> Database::workload_text(const std::string& hash) {
  auto found = store_->workloads(hash);
  if (!found) return found.failure();
  return found->empty() ? std::string() : found->front().text;
}

DatabaseResult<i64> Database::add_record(const Record& record) { return store_->add_records({to_be_stored(record)}); }

DatabaseStatus Database::add_records(const std::vector<Record>& records) {
  std::vector<Record> stored;
  for (const Record& record : records) stored.push_back(to_be_stored(record));
  if (stored.empty()) return Done{};
  auto last = store_->add_records(std::move(stored));
  if (!last) return last.failure();
  return Done{};
}

DatabaseStatus Database::visit(const RecordFilter& filter, const std::function<void(Record&)>& visit) {
  return store_->visit(filter, visit);
}

DatabaseResult<std::vector<Record>> Database::all(const std::string& workload, const std::string& target, i64 after) {
  std::vector<Record> found;
  DatabaseStatus done = visit({workload, target, after}, [&](Record& record) { found.push_back(std::move(record)); });
  if (!done) return done.failure();
  return found;
}

DatabaseResult<std::vector<Record>> Database::best(const std::string& workload, const std::string& target,
                                                   const std::string& machine, std::size_t n) {
  return store_->best(workload, target, machine, n);
}

DatabaseResult<Record> Database::record(i64 id) { return store_->record(id); }

DatabaseResult<i64> Database::trials(const std::string& workload, const std::string& target,
                                     const std::string& machine) {
  return store_->trials(workload, target, machine);
}

DatabaseResult<std::vector<TaskSummary>> Database::tasks() { return store_->tasks(); }
DatabaseResult<i64> Database::latest_record() { return store_->latest_record(); }

const MachineSummary* TaskSummary::chosen(const std::string& own) const {
  const MachineSummary* latest = nullptr;
  for (const MachineSummary& machine : machines) {
    if (machine.last_good == 0) continue;
    if (machine.machine == own) return &machine;
    if (!latest || machine.last_good > latest->last_good) latest = &machine;
  }
  return latest;
}

DatabaseStatus Database::save_model(const std::string& name, const std::string& target, i64 version,
                                    const std::string& data) {
  return store_->save_model({0, name, target, version, data});
}

DatabaseResult<StoredModel> Database::load_model(const std::string& name, const std::string& target, i64 version) {
  auto found = store_->models(name, target);
  if (!found) return found.failure();
  for (StoredModel& model : *found) {
    if (model.version == version) return std::move(model);
  }
  return StoredModel{0, name, target, version, ""};
}

DatabaseResult<std::vector<StoredModel>> Database::models() { return store_->models("", ""); }

DatabaseResult<i64> Database::begin_run(const StoredRun& run) {
  StoredRun stored = run;
  if (stored.started == 0) stored.started = now_ms();
  return store_->add_run(stored);
}

DatabaseStatus Database::finish_run(i64 id, const std::string& outcome) {
  return store_->finish_run(id, now_ms(), outcome);
}

DatabaseResult<std::vector<StoredRun>> Database::runs() { return store_->runs(); }
DatabaseResult<Verification> Database::verify() { return store_->verify(); }
DatabaseResult<i64> Database::remove_host(const std::string& host) { return store_->remove_host(host); }

}  // namespace tw
