// Rows of the database as SQLite statements, made from the field lists of runtime/store/record.h, and
// SQLite's errors as sentences. The inside of sqlite_store.cc: this is where SQLiteCpp is seen, and
// nobody else includes it.
#pragma once
#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <sqlite3.h>

#include <cstring>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dsl/base/text.h"
#include "runtime/store/database.h"
#include "runtime/store/database_file.h"
#include "runtime/store/stored_rows.h"

namespace tw {

using Sql = SQLite::Database;
using Statement = SQLite::Statement;
using DamagedRows = std::set<std::pair<std::string, i64>>;  // table and id

inline bool is_damage(const SQLite::Exception& problem) {
  return problem.getErrorCode() == SQLITE_CORRUPT || problem.getErrorCode() == SQLITE_NOTADB;
}

inline DatabaseError explain(const std::string& path, const SQLite::Exception& problem) {
  struct Row {
    int code;
    const char* text;
  };
  constexpr Row rows[] = {
      {SQLITE_FULL,
       "cannot be written: the disk is full; what was stored before is safe, free some space and "
       "start again"},
      {SQLITE_READONLY, "is read-only; name another one to write to"},
      {SQLITE_BUSY, "is held by another program for more than 20 seconds; try again later"},
      {SQLITE_CORRUPT, "is damaged; it was not changed, what can still be read can be exported into a new one"},
      {SQLITE_NOTADB, "is damaged, or is not a database; it was not changed"},
      {SQLITE_CANTOPEN, "cannot be opened, or the files beside it cannot be made"},
      {SQLITE_IOERR,
       "cannot be read or written; what was stored before is safe, look at the disk (is it full, "
       "is there a size limit?)"},
      {SQLITE_TOOBIG, "has a value that is too long"},
  };
  for (const Row& row : rows) {
    if (problem.getErrorCode() == row.code) return {cat("database ", path, " ", row.text, " (", problem.what(), ")")};
  }
  return {cat("database ", path, ": ", problem.what())};
}

// Runs `body`; an SQLite exception becomes an error that names the file.
template <class T, class Body>
DatabaseResult<T> guarded(const std::string& path, Body&& body) {
  try {
    return body();
  } catch (const SQLite::Exception& problem) {
    return explain(path, problem);
  }
}

// ---- rows
// ---------------------------------------------------------------------------------------------------------

// The format of the file as it is now: another process may bring an older one up to date.
inline unsigned format_of(Sql& sql) {
  Statement statement(sql, "PRAGMA user_version");
  statement.executeStep();
  return statement.getColumn(0).getUInt();
}

// The same as expressions that the file's table can give: 0 for what its format does not have.
template <class Row>
std::vector<std::string> readable_columns(Sql& sql) {
  std::vector<std::string> names;
  bool is_old = format_of(sql) < kFormatWithColdTimes;
  const Row row;
  Row::fields(row, [&]<class Field>(const char* name, const Field&) {
    bool is_missing = is_old && std::is_same_v<Field, OptionalTime<const double>>;
    names.push_back(is_missing ? "0" : name);
  });
  return names;
}

// ":name" of every field gets its value.
struct Binder {
  Statement& statement;
  void operator()(const char* name, const std::string& text) {
    if (std::strcmp(name, "data") == 0)
      return statement.bind(cat(":", name), text.data(), static_cast<int>(text.size()));
    statement.bind(cat(":", name), text);
  }
  void operator()(const char* name, double seconds) {
    statement.bind(cat(":", name), static_cast<int64_t>(to_picoseconds(seconds)));
  }
  void operator()(const char* name, OptionalTime<const double> time) { (*this)(name, time.seconds); }
  void operator()(const char* name, i64 value) { statement.bind(cat(":", name), static_cast<int64_t>(value)); }
  void operator()(const char* name, u64 value) { statement.bind(cat(":", name), static_cast<int64_t>(value)); }
};

// Reads id, digest, then the fields in their order.
struct Reader {
  Statement& statement;
  int column = 2;
  void operator()(const char*, std::string& text) { text = statement.getColumn(column++).getString(); }
  void operator()(const char*, double& seconds) {
    seconds = from_picoseconds(statement.getColumn(column++).getInt64());
  }
  void operator()(const char* name, OptionalTime<double> time) { (*this)(name, time.seconds); }
  void operator()(const char*, i64& value) { value = statement.getColumn(column++).getInt64(); }
  void operator()(const char*, u64& value) { value = static_cast<u64>(statement.getColumn(column++).getInt64()); }
};

// id, digest and the fields of every row that fits; at the end, whether it fits `flag`.
template <class Row>
std::string select_text(Sql& sql, const std::string& condition, const std::string& flag = "true") {
  return cat("SELECT id, digest, ", join(readable_columns<Row>(sql), ", "), ", ", flag, " FROM ", Row::table, " WHERE ",
             condition);
}

// The row at which `statement` stands. False = its digest does not fit.
template <class Row>
bool read_row(Statement& statement, Row& row) {
  row.id = statement.getColumn(0).getInt64();
  Row::fields(row, Reader{statement});
  return statement.getColumn(1).getString() == digest(row);
}

template <class Row>
i64 next_id(Sql& sql) {
  Statement statement(sql, cat("SELECT max(id) FROM ", Row::table));
  statement.executeStep();
  i64 largest = statement.getColumn(0).getInt64();
  if (largest < 0 || largest >= i64{1} << 60) throw SQLite::Exception("an id is out of range", SQLITE_CORRUPT);
  return largest + 1;
}

// Inserts the row; `replace`: in place of the one with its id.
template <class Row>
void write_row(Sql& sql, const Row& row, bool replace = false) {
  std::vector<std::string> names = columns_of<Row>();
  Statement statement(sql, cat(replace ? "REPLACE" : "INSERT", " INTO ", Row::table, " (id, digest, ",
                               join(names, ", "), ") VALUES (:id, :digest, :", join(names, ", :"), ")"));
  statement.bind(":id", static_cast<int64_t>(row.id));
  statement.bind(":digest", digest(row));
  Row::fields(row, Binder{statement});
  statement.exec();
}

// Calls use(row) for every good row that fits `condition` (whose parameters `bind` sets), by rising
// id, until it returns false if it returns something. Where the file's structure is damaged it goes on behind the
// damage, id by id. Throws if nothing at all can be reached.
template <class Row, class Bind, class Use>
void scan(Sql& sql, DamagedRows& damaged, const std::string& condition, Bind&& bind, Use&& use) {
  constexpr int most_failures =
      4096;          // ids in a row that cannot be read, before the rest is lost; a page holds far fewer
  i64 after = 0;     // the id of the last good row, or the one that failed last
  int failures = 0;  // since the last good row
  bool any = false, salvage = false;
  while (true) {
    try {
      // Behind damage every row is looked at, so that `after` moves on over rows that do not fit,
      // too.
      std::string text = salvage ? select_text<Row>(sql, "id > :after", condition)
                                 : select_text<Row>(sql, cat("(", condition, ") AND id > :after"));
      Statement statement(sql, text + " ORDER BY id");
      bind(statement);
      statement.bind(":after", static_cast<int64_t>(after));
      while (statement.executeStep()) {
        Row row;
        if (!read_row(statement, row)) {
          damaged.insert({Row::table, row.id});
        } else if (row.id > after) {
          after = row.id;
          failures = 0;
          any = true;
          if (statement.getColumn(statement.getColumnCount() - 1).getInt() == 0) continue;
          if constexpr (std::is_same_v<decltype(use(row)), bool>) {
            if (!use(row)) return;
          } else {
            use(row);
          }
        }
      }
      return;
    } catch (const SQLite::Exception& problem) {
      if (!is_damage(problem)) throw;
      salvage = true;
      damaged.insert({Row::table, ++after});
      if (++failures < most_failures) continue;
      if (!any) throw;
      // How much is lost is not known: count it as one.
      for (i64 id = after - failures + 2; id <= after; ++id) damaged.erase({Row::table, id});
      return;
    }
  }
}

// The commit of `body` as one short transaction that excludes other writers from its first
// statement on.
template <class Body>
void write_transaction(Sql& sql, Body&& body) {
  SQLite::Transaction transaction(sql, SQLite::TransactionBehavior::IMMEDIATE);
  body();
  transaction.commit();
}

}  // namespace tw
