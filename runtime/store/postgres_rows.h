// Rows of the tuning database as statements of PostgreSQL, made from the field lists of runtime/store/record.h.
#pragma once
#include <string>
#include <vector>

#include "dsl/base/text.h"
#include "runtime/store/postgres_connection.h"
#include "runtime/store/postgres_sql.h"
#include "runtime/store/stored_rows.h"

namespace tw {

// Every field becomes a bound value, with the type that the server shall read it as.
struct PostgresBinder {
  std::vector<PostgresValue> values = {};
  std::vector<std::string> types = {};
  void add(PostgresValue value, const char* type) { values.push_back(std::move(value)), types.push_back(type); }
  void operator()(const char* name, const std::string& text) {
    if (std::string(name) == "data") return add(PostgresValue::bytes(text), "bytea");
    add(text, "text");
  }
  void operator()(const char*, double seconds) { add(to_picoseconds(seconds), "bigint"); }
  void operator()(const char* name, OptionalTime<const double> time) { (*this)(name, time.seconds); }
  void operator()(const char*, i64 value) { add(value, "bigint"); }
  void operator()(const char*, u64 value) { add(static_cast<i64>(value), "bigint"); }
};

// Reads id, digest, then the fields in their order.
struct PostgresReader {
  const PostgresRow& row;
  int column = 2;
  void operator()(const char* name, std::string& text) {
    text = std::string(name) == "data" ? row.bytes(column) : row.text(column);
    ++column;
  }
  void operator()(const char*, double& seconds) { seconds = from_picoseconds(row.integer(column++)); }
  void operator()(const char* name, OptionalTime<double> time) { (*this)(name, time.seconds); }
  void operator()(const char*, i64& value) { value = row.integer(column++); }
  void operator()(const char*, u64& value) { value = static_cast<u64>(row.integer(column++)); }
};

// "SELECT id, digest, ... FROM tracewright.TABLE "
template <class Row>
std::string postgres_select() {
  return cat("SELECT id, digest, ", join(columns_of<Row>(), ", "), " FROM tracewright.", Row::table, " ");
}

// The next rows by rising id, of those that fit `condition` with its values $1 to $`count`. Further values: the last id
// seen, the last id wanted; `of_task`: in front of them the task's key, and only its rows. Comparing key and id as one
// leaves the server no other way than the index of the task, however its rows lie in the table, as long as `condition`
// does not let it expect next to none: of a task that is new to its statistics it would expect just that, and read the
// whole table for each page.
template <class Row>
std::string postgres_page(const std::string& condition, std::size_t count, bool of_task, int rows) {
  const std::string key = of_task ? "task_key, " : "", value = of_task ? cat("$", ++count, "::bigint, ") : "";
  return cat(postgres_select<Row>(), "WHERE ", condition, " AND (", key, "id) > (", value, "$", count + 1,
             "::bigint) AND (", key, "id) <= (", value, "$", count + 2, "::bigint) ORDER BY ", key, "id LIMIT ", rows);
}

// The fastest good records of a task on a machine. Values: the task's key, the machine's key, the last time and id
// seen, how many. It compares keys, not texts: else the server would expect next to no row, and sort all that the task
// has.
inline std::string postgres_best() {
  return cat(postgres_select<Record>(), "WHERE task_key = $1::bigint AND machine_key = $2::bigint AND ",
             postgres_sql::kIsGood,
             " AND (seconds_ps, id) > ($3::bigint, $4::bigint) ORDER BY seconds_ps, id LIMIT $5::bigint");
}

// False = the digest does not fit.
template <class Row>
bool read_postgres_row(const PostgresRow& stored, Row& row) {
  row.id = stored.integer(0);
  Row::fields(row, PostgresReader{stored});
  return stored.text(1) == content_digest(row);
}

// A statement with the values that are bound to it.
struct BoundStatement {
  std::string text;
  std::vector<PostgresValue> values;
};

// Columns that the field list of a row does not have.
using MoreColumns = std::vector<std::pair<std::string, i64>>;

// Digest, further columns and fields of a row: names, and values with their types.
struct BoundRow {
  std::vector<std::string> names;
  PostgresBinder bound;
};
template <class Row>
BoundRow bound_row(const Row& row, const MoreColumns& more) {
  BoundRow made{.names = {"digest"}};
  made.bound.add(content_digest(row), "text");
  for (const auto& [name, value] : more) made.names.push_back(name), made.bound.add(value, "bigint");
  for (const std::string& name : columns_of<Row>()) made.names.push_back(name);
  Row::fields(row, made.bound);
  return made;
}

// "INSERT INTO tracewright.TABLE (...) SELECT ... FROM gate RETURNING id". The values come behind `first` others.
// `tail` follows the values in the statement.
template <class Row>
BoundStatement postgres_insert(const Row& row, const MoreColumns& more = {}, int first = 0,
                               const std::string& tail = "") {
  auto [names, bound] = bound_row(row, more);
  std::vector<std::string> places;
  for (std::size_t i = 0; i < bound.types.size(); ++i) places.push_back(cat("$", first + i + 1, "::", bound.types[i]));
  return {cat("INSERT INTO tracewright.", Row::table, " (", join(names, ", "), ") SELECT ", join(places, ", "),
              " FROM gate", tail, " RETURNING id"),
          std::move(bound.values)};
}

// Runs an insertion and gives the id; 0 = nothing was inserted. `gate` is a common table expression that comes first.
inline DatabaseResult<i64> run_insert(PostgresConnection& connection, const BoundStatement& insert,
                                      const std::string& gate = "SELECT 1") {
  auto rows = connection.run(cat("WITH gate AS MATERIALIZED (", gate, ") ", insert.text), insert.values);
  if (!rows) return rows.failure();
  return rows->empty() ? i64{0} : (*rows)[0].integer(0);
}

inline MoreColumns keys_of(const Record& record) {
  return {{"task_key", key_of_texts(record.workload, record.target)},
          {"machine_key", key_of_texts(machine_of(record.host))}};
}

// A record, whose fields the caller has checked and cleaned (Database::add_record). Its gate is
// postgres_sql::kWriterGate.
inline BoundStatement postgres_insert_record(const Record& record, int first = 0) {
  return postgres_insert(record, keys_of(record), first);
}

// Such records for unnest(): the names of their columns, the types of arrays of them, and the arrays.
struct RecordArrays {
  std::vector<std::string> names, types;
  std::vector<PostgresValue> arrays;
};
inline RecordArrays arrays_of(const std::vector<Record>& records) {
  RecordArrays made;
  std::vector<std::vector<std::string>> columns;
  for (const Record& record : records) {
    auto [names, bound] = bound_row(record, keys_of(record));
    columns.resize(names.size());
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].push_back(bound.values[i].text().value_or(""));
    made.names = std::move(names), made.types = std::move(bound.types);
  }
  for (std::string& type : made.types) type += "[]";
  for (const std::vector<std::string>& column : columns) made.arrays.push_back(PostgresValue::texts(column));
  return made;
}

}  // namespace tw
