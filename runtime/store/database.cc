#include "runtime/store/database.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "dsl/base/text.h"
#include "runtime/store/database_file.h"
#include "runtime/store/database_rescue.h"
#include "runtime/store/sqlite_rows.h"

namespace tw {

struct Database::Handle {
  std::string path;
  std::unique_ptr<SQLite::Database> sql;
  DamagedRows damaged = {};
  std::optional<FileIdentity> identity = {};  // of a file that is open for writing
  std::string lost = {};                      // why nothing can be written under this name any more
  std::string notice = {};
};

namespace {

constexpr int busy_timeout_ms = 20000;
constexpr int longest_value = 256 << 20;  // bytes; more is refused in a file that a stranger made
constexpr std::size_t longest_error = 4096;
constexpr const char* kColdColumn = "cold_ps INTEGER NOT NULL DEFAULT 0";

// No indices: a scan is quick (the long texts lie at the end of a row, outside the page that is
// scanned), and a flipped bit in an index would hide many good rows. Ids are never used twice
// because nothing is ever removed.
std::vector<std::string> schema_of(unsigned format) {
  return {
      "CREATE TABLE workloads (id INTEGER PRIMARY KEY, hash TEXT NOT NULL, text TEXT NOT NULL, "
      "digest TEXT NOT NULL) STRICT",
      cat("CREATE TABLE records (id INTEGER PRIMARY KEY, digest TEXT NOT NULL, workload TEXT NOT NULL, "
          "target TEXT NOT NULL, "
          "status TEXT NOT NULL, seconds_ps INTEGER NOT NULL, minimum_ps INTEGER NOT NULL, "
          "first_quartile_ps INTEGER NOT NULL, "
          "median_ps INTEGER NOT NULL, third_quartile_ps INTEGER NOT NULL, created INTEGER NOT NULL, "
          "seed INTEGER NOT NULL, "
          "generation INTEGER NOT NULL, task TEXT NOT NULL, program TEXT NOT NULL, object TEXT NOT "
          "NULL, version TEXT NOT NULL, host TEXT NOT NULL, "
          "error TEXT NOT NULL, trace TEXT NOT NULL",
          format >= kFormatWithColdTimes ? cat(", ", kColdColumn) : "", ") STRICT"),
      "CREATE TABLE models (id INTEGER PRIMARY KEY, digest TEXT NOT NULL, name TEXT NOT NULL, target "
      "TEXT NOT NULL, "
      "version INTEGER NOT NULL, data BLOB NOT NULL) STRICT",
      "CREATE TABLE runs (id INTEGER PRIMARY KEY, digest TEXT NOT NULL, command TEXT NOT NULL, seed "
      "INTEGER NOT NULL, "
      "started INTEGER NOT NULL, finished INTEGER NOT NULL, outcome TEXT NOT NULL, version TEXT NOT "
      "NULL, host TEXT NOT NULL) STRICT",
  };
}

// ---- opening
// ------------------------------------------------------------------------------------------------------

// The file may come from a stranger: nothing in it may act, however it was made.
void harden(Sql& sql) {
  sqlite3* raw = sql.getHandle();
  constexpr std::pair<int, int> settings[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                              {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                              {SQLITE_DBCONFIG_DQS_DML, 0},        {SQLITE_DBCONFIG_DQS_DDL, 0}};
  for (auto [setting, value] : settings) sqlite3_db_config(raw, setting, value, nullptr);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, longest_value);
  sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED, 0);
  sql.exec("PRAGMA cell_size_check = ON");
  sql.exec("PRAGMA mmap_size = 0");
}

// "" if the tables are exactly ours.
std::string check_schema(const std::string& path, Sql& sql) {
  SQLite::Transaction together(sql);  // another process may bring the file up to date meanwhile
  unsigned format = format_of(sql);
  if (!is_known_format(format)) return unknown_format(path, format);
  std::vector<std::string> tables = schema_of(format);
  std::set<std::string> missing(tables.begin(), tables.end());
  Statement statement(sql, "SELECT type, name, coalesce(sql, '') FROM sqlite_schema");
  while (statement.executeStep()) {
    if (missing.erase(statement.getColumn(2).getString()) == 0) {
      return cat("database ", path, " is refused: it has a ", statement.getColumn(0).getString(), " `",
                 statement.getColumn(1).getString(), "` that tracewright did not make");
    }
  }
  return missing.empty() ? "" : cat("database ", path, " is damaged: tables are missing");
}

// A file of an older format that is opened for writing becomes one of ours: columns are added, no row is changed.
void bring_up_to_date(Sql& sql) {
  if (format_of(sql) == kDatabaseFormat) return;
  write_transaction(sql, [&] {
    if (format_of(sql) == kDatabaseFormat) return;  // another process was faster
    sql.exec(cat("ALTER TABLE records ADD COLUMN ", kColdColumn));
    sql.exec(cat("PRAGMA user_version = ", kDatabaseFormat));
  });
}

void prepare_to_write(Sql& sql) {
  sql.exec("PRAGMA synchronous = FULL");
  bring_up_to_date(sql);
}

std::vector<std::string> structure_problems(Sql& sql, const char* pragma) {
  std::vector<std::string> problems;
  Statement statement(sql, cat("PRAGMA ", pragma, "(20)"));
  while (statement.executeStep()) {
    std::string line = statement.getColumn(0).getString();
    if (line != "ok") problems.push_back(line);
  }
  return problems;
}

// Makes the file under another name and renames it, so that nobody ever sees half a database.
std::string create(const std::string& path) {
  static std::atomic<int> count = 0;
  std::string temporary = cat(path, ".new-", getpid(), "-", count++);
  try {
    Sql sql(temporary, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, busy_timeout_ms);
    harden(sql);
    write_transaction(sql, [&] {
      for (const std::string& table : schema_of(kDatabaseFormat)) sql.exec(table);
      sql.exec(cat("PRAGMA application_id = ", kDatabaseApplicationId));
      sql.exec(cat("PRAGMA user_version = ", kDatabaseFormat));
    });
    sql.exec("PRAGMA journal_mode = WAL");
  } catch (const SQLite::Exception& problem) {
    for (const char* suffix : {"", "-journal", "-wal", "-shm"}) unlink((temporary + suffix).c_str());
    return explain(path, problem).message;
  }
  if (publish_database_file(temporary, path)) return "";
  return cat("cannot make database ", path, ": ", std::strerror(errno));
}

// A file in a folder where nothing can be written: SQLite cannot make its shared-memory file there,
// but reads a file that nobody writes to without one.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (unsigned char c : path) {
    char hex[4];
    std::snprintf(hex, sizeof hex, "%%%02x", c);
    if (std::isalnum(c) || std::strchr("/._-", c)) {
      uri += static_cast<char>(c);
    } else {
      uri += hex;
    }
  }
  return uri + "?immutable=1";
}

Sql connect(const std::string& path, DatabaseMode mode) {
  std::string absolute = std::filesystem::absolute(path).string();  // ":memory:" is a file name like any other
  if (mode == DatabaseMode::Write) return Sql(absolute, SQLite::OPEN_READWRITE, busy_timeout_ms);
  std::string folder = std::filesystem::path(absolute).parent_path().string();
  std::error_code none;
  auto log_bytes = std::filesystem::file_size(absolute + "-wal", none);
  bool frozen = access(folder.c_str(), W_OK) != 0 && (none || log_bytes == 0);
  if (frozen) return Sql(immutable_uri(absolute), SQLite::OPEN_READONLY | SQLite::OPEN_URI, busy_timeout_ms);
  return Sql(absolute, SQLite::OPEN_READONLY, busy_timeout_ms);
}

}  // namespace

Database::Database(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;
const std::string& Database::path() const { return handle_->path; }
bool Database::is_in_place() const {
  return handle_->lost.empty() && (!handle_->identity || identity_of(path()) == handle_->identity);
}
std::string Database::take_notice() { return std::exchange(handle_->notice, ""); }
i64 Database::damaged() const { return static_cast<i64>(handle_->damaged.size()); }

DatabaseResult<Database> Database::open(const std::string& path, DatabaseMode mode) {
  bool to_write = mode == DatabaseMode::Write;
  DatabaseFile file = examine_database_file(path, to_write);
  if (file.state == DatabaseFileState::Missing && !to_write) return DatabaseError{cat("there is no database ", path)};
  if (file.state == DatabaseFileState::Missing) {
    std::string problem = create(path);
    if (!problem.empty()) return DatabaseError{problem};
    file = examine_database_file(path, to_write);
  }
  if (file.state == DatabaseFileState::Refused) return DatabaseError{file.problem};
  return guarded<Database>(path, [&]() -> DatabaseResult<Database> {
    auto handle = std::make_unique<Handle>(Handle{path, std::make_unique<Sql>(connect(path, mode))});
    harden(*handle->sql);
    std::string problem = check_schema(path, *handle->sql);
    if (!problem.empty()) return DatabaseError{problem};
    if (!to_write) return Database(std::move(handle));
    std::vector<std::string> damage = structure_problems(*handle->sql, "quick_check");
    if (!damage.empty()) return explain(path, SQLite::Exception(damage[0], SQLITE_CORRUPT));
    prepare_to_write(*handle->sql);
    handle->identity = identity_of(path);
    return Database(std::move(handle));
  });
}

// ---- writing
// ----------------------------------------------------------------------------------------------------

// "" or why nothing can be written.
std::string Database::keep_in_place() {
  if (is_in_place() || !handle_->lost.empty()) return handle_->lost;
  const char* happened = identity_of(path()) ? "was replaced by another file" : "was removed or renamed";
  Rescued rescued = rescue(*handle_->sql, path());
  if (rescued.path == path()) {
    auto sql = std::make_unique<Sql>(connect(path(), DatabaseMode::Write));
    harden(*sql);
    prepare_to_write(*sql);
    handle_->sql = std::move(sql);
    handle_->identity = identity_of(path());
    handle_->notice =
        cat("database ", path(), " ", happened, " while it was in use; a new file of that name has all that it held");
    return "";
  }
  return handle_->lost =
             cat("database ", path(), " ", happened, " while it was in use; ",
                 rescued.path.empty() ? cat("what it held is lost, for no other file can be made: ", rescued.problem)
                                      : cat("what it held is in ", rescued.path, " (", rescued.problem, ")"));
}

template <class T, class Body>
DatabaseResult<T> Database::written(Body&& body) {
  return guarded<T>(path(), [&]() -> DatabaseResult<T> {
    std::string lost = keep_in_place();
    if (!lost.empty()) return DatabaseError{lost};
    std::optional<T> result;
    write_transaction(*handle_->sql, [&] { result = body(); });
    return *result;
  });
}

// ---- workloads
// ----------------------------------------------------------------------------------------------------

DatabaseStatus Database::add_workload(const std::string& hash, const std::string& text) {
  TW_CHECK(is_hash(hash), "a workload's key is a 128-bit hash");
  return written<Done>([&] {
    bool known = false;
    scan<WorkloadText>(
        *handle_->sql, handle_->damaged, "hash = :hash", [&](Statement& statement) { statement.bind(":hash", hash); },
        [&](const WorkloadText&) { known = true; });
    if (!known) write_row(*handle_->sql, WorkloadText{next_id<WorkloadText>(*handle_->sql), hash, text});
    return Done{};
  });
}

DatabaseResult<std::vector<WorkloadText>> Database::workloads() {
  return guarded<std::vector<WorkloadText>>(path(), [&] {
    std::vector<WorkloadText> found;
    scan<WorkloadText>(
        *handle_->sql, handle_->damaged, "true", [](Statement&) {},
        [&](const WorkloadText& row) { found.push_back(row); });
    return found;
  });
}

DatabaseResult<std::string> Database::workload_text(const std::string& hash) {
  auto found = workloads();
  if (!found) return DatabaseError{found.error()};
  for (const WorkloadText& row : *found) {
    if (row.hash == hash) return row.text;
  }
  return std::string();
}

// ---- records
// ------------------------------------------------------------------------------------------------------

DatabaseResult<i64> Database::add_record(const Record& record) {
  TW_CHECK(is_hash(record.workload) && is_hash(record.program), "keys of a record are 128-bit hashes");
  TW_CHECK(!record.status.empty() && !record.target.empty(), "a record has a status and a target");
  TW_CHECK(!record.ok() || to_picoseconds(record.seconds) > 0, "a good trial has a time");
  Record stored = record;
  stored.error = clean_text(record.error, longest_error);
  if (stored.created == 0) stored.created = now_ms();
  return written<i64>([&] {
    stored.id = next_id<Record>(*handle_->sql);
    write_row(*handle_->sql, stored);
    return stored.id;
  });
}

DatabaseStatus Database::visit(const RecordFilter& filter, const std::function<void(Record&)>& visit) {
  return guarded<Done>(path(), [&] {
    auto bind = [&](Statement& statement) {
      statement.bind(":workload", filter.workload);
      statement.bind(":target", filter.target);
      statement.bind(":since", filter.after);
      statement.bind(":not_target", filter.not_target);
    };
    scan<Record>(*handle_->sql, handle_->damaged,
                 "id > :since AND (:workload = '' OR workload = :workload) AND (:target = '' OR target = :target) "
                 "AND (:not_target = '' OR target <> :not_target)",
                 bind, [&](Record& record) {
                   if (filter.stop && filter.stop()) return false;
                   visit(record);
                   return true;
                 });
    return Done{};
  });
}

DatabaseResult<std::vector<Record>> Database::all(const std::string& workload, const std::string& target, i64 after) {
  std::vector<Record> found;
  DatabaseStatus done = visit({workload, target, after}, [&](Record& record) { found.push_back(std::move(record)); });
  if (!done) return DatabaseError{done.error()};
  return found;
}

DatabaseResult<std::vector<Record>> Database::best(const std::string& workload, const std::string& target,
                                                   const std::string& machine, std::size_t n) {
  auto slower = [](const Record& a, const Record& b) {
    return std::pair(a.seconds, a.id) < std::pair(b.seconds, b.id);
  };
  std::vector<Record> heap;  // the slowest of the best in front
  DatabaseStatus done = visit({workload, target}, [&](Record& record) {
    if (!record.ok() || n == 0 || machine_of(record.host) != machine) return;
    if (heap.size() == n) {
      if (!slower(record, heap.front())) return;
      std::pop_heap(heap.begin(), heap.end(), slower);
      heap.pop_back();
    }
    heap.push_back(std::move(record));
    std::push_heap(heap.begin(), heap.end(), slower);
  });
  if (!done) return DatabaseError{done.error()};
  std::sort_heap(heap.begin(), heap.end(), slower);
  return heap;
}

DatabaseResult<Record> Database::record(i64 id) {
  return guarded<Record>(path(), [&]() -> DatabaseResult<Record> {
    Statement statement(*handle_->sql, select_text<Record>(*handle_->sql, "id = :id"));
    statement.bind(":id", static_cast<int64_t>(id));
    if (!statement.executeStep()) return DatabaseError{cat("database ", path(), " has no record ", id)};
    Record row;
    if (read_row(statement, row)) return row;
    handle_->damaged.insert({Record::table, id});
    return DatabaseError{cat("record ", id, " of database ", path(), " is damaged: its digest does not fit")};
  });
}

DatabaseResult<i64> Database::trials(const std::string& workload, const std::string& target,
                                     const std::string& machine) {
  return guarded<i64>(path(), [&] {
    Statement statement(*handle_->sql,
                        "SELECT host, count(*) FROM records WHERE workload = :workload AND target = :target "
                        "AND status <> :same_code GROUP BY host");
    statement.bind(":workload", workload);
    statement.bind(":target", target);
    statement.bind(":same_code", std::string(Record::same_code));
    i64 count = 0;
    while (statement.executeStep()) {
      if (machine_of(statement.getColumn(0).getString()) == machine) count += statement.getColumn(1).getInt64();
    }
    return count;
  });
}

namespace {

void add_trial(TaskSummary& task, const Record& record) {
  std::string name = machine_of(record.host);
  auto at = std::find_if(task.machines.begin(), task.machines.end(),
                         [&](const MachineSummary& known) { return known.machine == name; });
  if (at == task.machines.end()) at = task.machines.insert(at, {.machine = name});
  MachineSummary& machine = *at;
  ++machine.trials, ++task.trials;
  if (!record.ok()) {
    ++machine.failed, ++task.failed;
    return;
  }
  if (machine.first_good == 0) machine.first_good = record.id;
  machine.last_good = record.id;
  if (machine.best_seconds > 0 && machine.best_seconds <= record.seconds) return;
  machine.best_seconds = record.seconds;
  machine.best_record = record.id;
}

}  // namespace

const MachineSummary* TaskSummary::chosen(const std::string& own) const {
  const MachineSummary* latest = nullptr;
  for (const MachineSummary& machine : machines) {
    if (machine.last_good == 0) continue;
    if (machine.machine == own) return &machine;
    if (!latest || machine.last_good > latest->last_good) latest = &machine;
  }
  return latest;
}

DatabaseResult<std::vector<TaskSummary>> Database::tasks() {
  std::vector<TaskSummary> summaries;
  std::map<std::pair<std::string, std::string>, std::size_t> place;
  DatabaseStatus done = visit({}, [&](const Record& record) {
    auto [at, is_new] = place.insert({{record.workload, record.target}, summaries.size()});
    if (is_new) summaries.push_back({record.workload, record.target, record.task});
    TaskSummary& summary = summaries[at->second];
    summary.task = record.task;
    if (record.is_trial()) add_trial(summary, record);
  });
  if (!done) return DatabaseError{done.error()};
  return summaries;
}

DatabaseResult<i64> Database::latest_record() {
  return guarded<i64>(path(), [&] { return next_id<Record>(*handle_->sql) - 1; });
}

// ---- models and runs
// ----------------------------------------------------------------------------------------------

DatabaseStatus Database::save_model(const std::string& name, const std::string& target, i64 version,
                                    const std::string& data) {
  return written<Done>([&] {
    Statement find(*handle_->sql, "SELECT id FROM models WHERE name = :name AND target = :target");
    find.bind(":name", name);
    find.bind(":target", target);
    bool known = find.executeStep();
    i64 id = known ? static_cast<i64>(find.getColumn(0).getInt64()) : next_id<StoredModel>(*handle_->sql);
    write_row(*handle_->sql, StoredModel{id, name, target, version, data}, known);
    return Done{};
  });
}

DatabaseResult<StoredModel> Database::load_model(const std::string& name, const std::string& target, i64 version) {
  return guarded<StoredModel>(path(), [&] {
    StoredModel found{0, name, target, version, ""};
    auto bind = [&](Statement& statement) {
      statement.bind(":name", name);
      statement.bind(":target", target);
      statement.bind(":version", static_cast<int64_t>(version));
    };
    scan<StoredModel>(*handle_->sql, handle_->damaged, "name = :name AND target = :target AND version = :version", bind,
                      [&](const StoredModel& row) { found = row; });
    return found;
  });
}

DatabaseResult<i64> Database::begin_run(const StoredRun& run) {
  StoredRun stored = run;
  if (stored.started == 0) stored.started = now_ms();
  return written<i64>([&] {
    stored.id = next_id<StoredRun>(*handle_->sql);
    write_row(*handle_->sql, stored);
    return stored.id;
  });
}

DatabaseStatus Database::finish_run(i64 id, const std::string& outcome) {
  return written<Done>([&] {
    auto bind = [&](Statement& statement) { statement.bind(":id", static_cast<int64_t>(id)); };
    StoredRun run;
    scan<StoredRun>(*handle_->sql, handle_->damaged, "id = :id", bind, [&](const StoredRun& row) { run = row; });
    if (run.id == 0) return Done{};  // its row was damaged meanwhile: nothing to finish
    run.finished = now_ms();
    run.outcome = outcome;
    write_row(*handle_->sql, run, true);
    return Done{};
  });
}

DatabaseResult<std::vector<StoredRun>> Database::runs() {
  return guarded<std::vector<StoredRun>>(path(), [&] {
    std::vector<StoredRun> found;
    scan<StoredRun>(
        *handle_->sql, handle_->damaged, "true", [](Statement&) {},
        [&](const StoredRun& row) { found.push_back(row); });
    return found;
  });
}

DatabaseResult<Verification> Database::verify() {
  return guarded<Verification>(path(), [&] {
    Verification verification;
    DamagedRows damaged;
    auto note_damage = [&](auto&& step) {
      try {
        step();
      } catch (const SQLite::Exception& problem) {
        if (!is_damage(problem)) throw;
        verification.problems.push_back(problem.what());
      }
    };
    auto everything = [](Statement&) {};
    auto count = [&](const auto&) { ++verification.rows; };
    note_damage([&] { verification.problems = structure_problems(*handle_->sql, "integrity_check"); });
    note_damage([&] { scan<WorkloadText>(*handle_->sql, damaged, "true", everything, count); });
    note_damage([&] { scan<Record>(*handle_->sql, damaged, "true", everything, count); });
    note_damage([&] { scan<StoredModel>(*handle_->sql, damaged, "true", everything, count); });
    note_damage([&] { scan<StoredRun>(*handle_->sql, damaged, "true", everything, count); });
    verification.damaged = static_cast<i64>(damaged.size());
    handle_->damaged.insert(damaged.begin(), damaged.end());
    return verification;
  });
}

}  // namespace tw
