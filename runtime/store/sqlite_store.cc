#include "runtime/store/sqlite_store.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "dsl/base/text.h"
#include "runtime/store/database_file.h"
#include "runtime/store/database_rescue.h"
#include "runtime/store/sqlite_rows.h"

namespace tw {
namespace {

constexpr int busy_timeout_ms = 20000;
constexpr int longest_value = 256 << 20;  // bytes; more is refused in a file that a stranger made
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

class SqliteStore : public DatabaseStore {
 public:
  SqliteStore(std::string path, Sql sql) : path_(std::move(path)), sql_(std::make_unique<Sql>(std::move(sql))) {}
  // "" or why the file cannot be used as `mode` wants.
  std::string prepare(DatabaseMode mode);

  const std::string& path() const override { return path_; }
  bool is_in_place() const override { return lost_.empty() && (!identity_ || identity_of(path_) == identity_); }
  std::string take_notice() override { return std::exchange(notice_, ""); }
  i64 damaged() const override { return static_cast<i64>(damaged_.size()); }

  DatabaseStatus add_workload(const std::string& hash, const std::string& text) override;
  DatabaseResult<std::vector<WorkloadText>> workloads(const std::string& hash) override;
  DatabaseResult<i64> add_records(std::vector<Record> records) override;
  DatabaseStatus visit(const RecordFilter& filter, const std::function<void(Record&)>& visit) override;
  DatabaseResult<Record> record(i64 id) override;
  DatabaseResult<i64> trials(const std::string& workload, const std::string& target,
                             const std::string& machine) override;
  DatabaseResult<i64> latest_record() override;
  DatabaseStatus save_model(const StoredModel& model) override;
  DatabaseResult<std::vector<StoredModel>> models(const std::string& name, const std::string& target) override;
  DatabaseResult<i64> add_run(const StoredRun& run) override;
  DatabaseStatus finish_run(i64 id, i64 finished, const std::string& outcome) override;
  DatabaseResult<std::vector<StoredRun>> runs() override;
  DatabaseResult<Verification> verify() override;
  DatabaseResult<i64> remove_host(const std::string& host) override;

 private:
  // Runs `body` in a transaction on the file that has the name.
  template <class T, class Body>
  DatabaseResult<T> written(Body&& body);
  std::string keep_in_place();
  // The good rows that fit.
  template <class Row, class Bind>
  DatabaseResult<std::vector<Row>> collect(const std::string& condition, Bind&& bind);

  std::string path_;
  std::unique_ptr<Sql> sql_;
  DamagedRows damaged_ = {};
  std::optional<FileIdentity> identity_ = {};  // of a file that is open for writing
  std::string lost_ = {};                      // why nothing can be written under this name any more
  std::string notice_ = {};
};

std::string SqliteStore::prepare(DatabaseMode mode) {
  harden(*sql_);
  std::string problem = check_schema(path_, *sql_);
  if (!problem.empty() || mode == DatabaseMode::Read) return problem;
  std::vector<std::string> damage = structure_problems(*sql_, "quick_check");
  if (!damage.empty()) return explain(path_, SQLite::Exception(damage[0], SQLITE_CORRUPT)).message;
  prepare_to_write(*sql_);
  identity_ = identity_of(path_);
  return "";
}

// ---- writing
// ----------------------------------------------------------------------------------------------------

// "" or why nothing can be written.
std::string SqliteStore::keep_in_place() {
  if (is_in_place() || !lost_.empty()) return lost_;
  const char* happened = identity_of(path_) ? "was replaced by another file" : "was removed or renamed";
  Rescued rescued = rescue(*sql_, path_);
  if (rescued.path == path_) {
    auto sql = std::make_unique<Sql>(connect(path_, DatabaseMode::Write));
    harden(*sql);
    prepare_to_write(*sql);
    sql_ = std::move(sql);
    identity_ = identity_of(path_);
    notice_ =
        cat("database ", path_, " ", happened, " while it was in use; a new file of that name has all that it held");
    return "";
  }
  return lost_ =
             cat("database ", path_, " ", happened, " while it was in use; ",
                 rescued.path.empty() ? cat("what it held is lost, for no other file can be made: ", rescued.problem)
                                      : cat("what it held is in ", rescued.path, " (", rescued.problem, ")"));
}

template <class T, class Body>
DatabaseResult<T> SqliteStore::written(Body&& body) {
  return guarded<T>(path_, [&]() -> DatabaseResult<T> {
    std::string lost = keep_in_place();
    if (!lost.empty()) return DatabaseError{lost};
    std::optional<T> result;
    write_transaction(*sql_, [&] { result = body(); });
    return *result;
  });
}

template <class Row, class Bind>
DatabaseResult<std::vector<Row>> SqliteStore::collect(const std::string& condition, Bind&& bind) {
  return guarded<std::vector<Row>>(path_, [&] {
    std::vector<Row> found;
    scan<Row>(*sql_, damaged_, condition, bind, [&](const Row& row) { found.push_back(row); });
    return found;
  });
}

// ---- rows
// ---------------------------------------------------------------------------------------------------------

DatabaseStatus SqliteStore::add_workload(const std::string& hash, const std::string& text) {
  return written<Done>([&] {
    bool known = false;
    scan<WorkloadText>(
        *sql_, damaged_, "hash = :hash", [&](Statement& statement) { statement.bind(":hash", hash); },
        [&](const WorkloadText&) { known = true; });
    if (!known) write_row(*sql_, WorkloadText{next_id<WorkloadText>(*sql_), hash, text});
    return Done{};
  });
}

DatabaseResult<std::vector<WorkloadText>> SqliteStore::workloads(const std::string& hash) {
  return collect<WorkloadText>(":hash = '' OR hash = :hash",
                               [&](Statement& statement) { statement.bind(":hash", hash); });
}

DatabaseResult<i64> SqliteStore::add_records(std::vector<Record> records) {
  return written<i64>([&] {
    i64 id = next_id<Record>(*sql_);
    for (Record& record : records) {
      record.id = id++;
      write_row(*sql_, record);
    }
    return id - 1;
  });
}

DatabaseStatus SqliteStore::visit(const RecordFilter& filter, const std::function<void(Record&)>& visit) {
  return guarded<Done>(path_, [&] {
    auto bind = [&](Statement& statement) {
      statement.bind(":workload", filter.workload);
      statement.bind(":target", filter.target);
      statement.bind(":since", filter.after);
      statement.bind(":not_target", filter.not_target);
    };
    scan<Record>(*sql_, damaged_,
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

DatabaseResult<Record> SqliteStore::record(i64 id) {
  return guarded<Record>(path_, [&]() -> DatabaseResult<Record> {
    Statement statement(*sql_, select_text<Record>(*sql_, "id = :id"));
    statement.bind(":id", static_cast<int64_t>(id));
    if (!statement.executeStep()) return DatabaseError{cat("database ", path_, " has no record ", id)};
    Record row;
    if (read_row(statement, row)) return row;
    damaged_.insert({Record::table, id});
    return DatabaseError{cat("record ", id, " of database ", path_, " is damaged: its digest does not fit")};
  });
}

DatabaseResult<i64> SqliteStore::trials(const std::string& workload, const std::string& target,
                                        const std::string& machine) {
  return guarded<i64>(path_, [&] {
    Statement statement(*sql_,
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

DatabaseResult<i64> SqliteStore::latest_record() {
  return guarded<i64>(path_, [&] { return next_id<Record>(*sql_) - 1; });
}

DatabaseStatus SqliteStore::save_model(const StoredModel& model) {
  return written<Done>([&] {
    Statement find(*sql_, "SELECT id FROM models WHERE name = :name AND target = :target");
    find.bind(":name", model.name);
    find.bind(":target", model.target);
    bool known = find.executeStep();
    StoredModel stored = model;
    stored.id = known ? static_cast<i64>(find.getColumn(0).getInt64()) : next_id<StoredModel>(*sql_);
    write_row(*sql_, stored, known);
    return Done{};
  });
}

DatabaseResult<std::vector<StoredModel>> SqliteStore::models(const std::string& name, const std::string& target) {
  return collect<StoredModel>("(:name = '' OR name = :name) AND (:target = '' OR target = :target)",
                              [&](Statement& statement) {
                                statement.bind(":name", name);
                                statement.bind(":target", target);
                              });
}

DatabaseResult<i64> SqliteStore::add_run(const StoredRun& run) {
  return written<i64>([&] {
    StoredRun stored = run;
    stored.id = next_id<StoredRun>(*sql_);
    write_row(*sql_, stored);
    return stored.id;
  });
}

DatabaseStatus SqliteStore::finish_run(i64 id, i64 finished, const std::string& outcome) {
  return written<Done>([&] {
    auto bind = [&](Statement& statement) { statement.bind(":id", static_cast<int64_t>(id)); };
    StoredRun run;
    scan<StoredRun>(*sql_, damaged_, "id = :id", bind, [&](const StoredRun& row) { run = row; });
    if (run.id == 0) return Done{};  // its row was damaged meanwhile: nothing to finish
    run.finished = finished;
    run.outcome = outcome;
    write_row(*sql_, run, true);
    return Done{};
  });
}

DatabaseResult<std::vector<StoredRun>> SqliteStore::runs() {
  return collect<StoredRun>("true", [](Statement&) {});
}

DatabaseResult<Verification> SqliteStore::verify() {
  return guarded<Verification>(path_, [&] {
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
    note_damage([&] { verification.problems = structure_problems(*sql_, "integrity_check"); });
    note_damage([&] { scan<WorkloadText>(*sql_, damaged, "true", everything, count); });
    note_damage([&] { scan<Record>(*sql_, damaged, "true", everything, count); });
    note_damage([&] { scan<StoredModel>(*sql_, damaged, "true", everything, count); });
    note_damage([&] { scan<StoredRun>(*sql_, damaged, "true", everything, count); });
    verification.damaged = static_cast<i64>(damaged.size());
    damaged_.insert(damaged.begin(), damaged.end());
    return verification;
  });
}

DatabaseResult<i64> SqliteStore::remove_host(const std::string&) {
  return DatabaseError{cat("database ", path_,
                           " is a file, of which nothing is removed; `tracewright db export` it, and "
                           "import the lines that shall stay into a new one")};
}

}  // namespace

DatabaseResult<std::unique_ptr<DatabaseStore>> open_sqlite(const std::string& path, DatabaseMode mode) {
  bool to_write = mode == DatabaseMode::Write;
  DatabaseFile file = examine_database_file(path, to_write);
  if (file.state == DatabaseFileState::Missing && !to_write) return DatabaseError{cat("there is no database ", path)};
  if (file.state == DatabaseFileState::Missing) {
    std::string problem = create(path);
    if (!problem.empty()) return DatabaseError{problem};
    file = examine_database_file(path, to_write);
  }
  if (file.state == DatabaseFileState::Refused) return DatabaseError{file.problem};
  return guarded<std::unique_ptr<DatabaseStore>>(path, [&]() -> DatabaseResult<std::unique_ptr<DatabaseStore>> {
    auto store = std::make_unique<SqliteStore>(path, connect(path, mode));
    if (std::string problem = store->prepare(mode); !problem.empty()) return DatabaseError{problem};
    return std::unique_ptr<DatabaseStore>(std::move(store));
  });
}

}  // namespace tw
