// A connection to a PostgreSQL server: statements with bound values, transactions, notifications. The one place that
// speaks to libpq. It knows no table.
//
// Values are always bound to $1, $2, ..., never written into a statement. They travel as text in UTF-8. Errors are one
// sentence that names the address; they never hold a password, nor a value that was bound.
//
// A connection that was lost (the server stopped, the network failed) stays lost: every call fails until reconnect().
// Nothing is repeated here, because a lost answer does not say whether the server did what was asked.
//
// Every session has: names that must be qualified (search_path is pg_catalog), waits for locks of at most 20 seconds,
// an end of transactions that idle for 30 seconds, commits that are on disk when they are acknowledged.
//
// A connection belongs to one thread at a time and must not be used after fork().
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dsl/base/arena.h"
#include "runtime/store/database_result.h"

struct pg_conn;
struct pg_result;

namespace tw {

// What is bound to $1, ...: text, a number or NULL. Text must be UTF-8 without zero bytes.
class PostgresValue {
 public:
  PostgresValue(std::string text) : text_(std::move(text)) {}     // NOLINT: implicit on purpose, as the next ones
  PostgresValue(const char* text) : text_(text) {}                // NOLINT
  PostgresValue(i64 number) : text_(std::to_string(number)) {}    // NOLINT
  PostgresValue(int number) : text_(std::to_string(number)) {}    // NOLINT
  PostgresValue(bool value) : text_(value ? "t" : "f") {}         // NOLINT
  PostgresValue(std::nullopt_t) {}                                // NOLINT: NULL
  static PostgresValue bytes(const std::string& bytes);           // for a column of type bytea
  static PostgresValue numbers(const std::vector<i64>& numbers);  // for bigint[]
  // For text[], and for arrays of all that is written as text.
  static PostgresValue texts(const std::vector<std::string>& texts);
  const std::optional<std::string>& text() const { return text_; }

 private:
  std::optional<std::string> text_;
};

// One row of an answer; columns count from 0. Lives as long as the answer.
class PostgresRow {
 public:
  PostgresRow(const pg_result* result, int row) : result_(result), row_(row) {}
  bool is_null(int column) const;
  std::string text(int column) const;  // "" for NULL
  i64 integer(int column) const;       // 0 for NULL
  bool is_true(int column) const;
  std::string bytes(int column) const;  // of a column of type bytea

 private:
  const pg_result* result_;
  int row_;
};

// The answer to one statement.
class PostgresRows {
 public:
  explicit PostgresRows(pg_result* result);
  int size() const;
  bool empty() const { return size() == 0; }
  PostgresRow operator[](int row) const { return {result_.get(), row}; }
  // Rows that the statement inserted, updated, deleted or returned.
  i64 changed() const;
  pg_result* raw() const { return result_.get(); }

 private:
  struct Clear {
    void operator()(pg_result* result) const;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

struct PostgresNotification {
  std::string channel, payload;
};

class PostgresConnection {
 public:
  // `address` as check_address() accepts it. Waits for the server for at most the address's connect_timeout, 10 seconds
  // if it has none. `settings`: statements that every session of this connection begins with.
  static DatabaseResult<PostgresConnection> open(const std::string& address, const std::string& settings = "");
  PostgresConnection(PostgresConnection&&) noexcept = default;
  PostgresConnection& operator=(PostgresConnection&&) noexcept = default;

  const std::string& address() const { return address_; }
  std::string role() const;                 // that the server knows this session by
  i64 session() const { return process_; }  // the server's process
  // False once a call has found the connection lost.
  bool is_connected() const;
  // A new session with the same address, which listens to the same channels. What a transaction had done is gone. The
  // session before is ended where the server still has it: it changes nothing any more.
  DatabaseStatus reconnect();

  void close() { connection_.reset(); }

  // Runs one statement. All rows of the answer are in memory. What is run again is prepared: the server reads and plans
  // it once for the session.
  DatabaseResult<PostgresRows> run(const std::string& sql, const std::vector<PostgresValue>& values = {});
  // The same in a transaction that begins with `lock`, a statement without values. All is sent together, so that no
  // client is waited for while the lock is held. The statement sees what was committed while it waited for the lock.
  // The second answer is that of `then`, a statement without values that is run behind it; that of COMMIT, if there is
  // none.
  DatabaseResult<std::pair<PostgresRows, PostgresRows>> run_behind(const std::string& lock, const std::string& sql,
                                                                   const std::vector<PostgresValue>& values,
                                                                   const std::string& then = "");
  // Runs several statements without values. Together they are one transaction, unless they hold BEGIN or COMMIT.
  DatabaseStatus script(const std::string& sql);
  // The same; gives the answer of the last one.
  DatabaseResult<PostgresRows> run_script(const std::string& sql);
  // Runs one statement and calls use(row) for every row as it arrives, until it returns false. `use` must not use this
  // connection.
  DatabaseStatus each(const std::string& sql, const std::vector<PostgresValue>& values,
                      const std::function<bool(const PostgresRow&)>& use);

  // Runs `body`, which returns a DatabaseResult<T>, in a transaction: committed if it returns a value, rolled back if
  // it returns an error. An error with is_connection_lost may stand for a transaction that was committed.
  template <class T, class Body>
  DatabaseResult<T> transaction(Body&& body) {
    if (auto begun = begin(); !begun) return begun.failure();
    DatabaseResult<T> result = body();
    if (!result) {
      roll_back();
      return result;
    }
    if (auto done = commit(); !done) return done.failure();
    return result;
  }

  // Notifications of `channel` (an SQL name) from now on.
  DatabaseStatus listen(const std::string& channel);
  DatabaseStatus unlisten(const std::string& channel);
  // Waits for notifications for at most `most`, and returns all that have arrived; none if the time is over. It returns
  // early, with none, on a signal, or when `other`, a file descriptor, can be read; -1 = there is none.
  DatabaseResult<std::vector<PostgresNotification>> wait(std::chrono::milliseconds most, int other = -1);
  // To be polled for reading together with others; -1 = lost. When it is readable, wait(0) gives what arrived.
  int descriptor() const;

  // A name of a role, a database or a channel as a statement can hold it where no value can be bound.
  std::string quoted_name(const std::string& name) const;

 private:
  struct Finish {
    void operator()(pg_conn* connection) const;
  };
  PostgresConnection(std::string address, std::string settings)
      : address_(std::move(address)), settings_(std::move(settings)) {}
  DatabaseStatus connect();
  DatabaseStatus end_session();
  DatabaseStatus begin();
  DatabaseStatus commit();
  void roll_back();
  DatabaseStatus send(const std::string& sql, const std::vector<PostgresValue>& values, const std::string& name = "");
  DatabaseResult<std::string> prepared(const std::string& sql);
  DatabaseResult<PostgresRows> collect();
  DatabaseResult<std::vector<PostgresRows>> collect_pipeline();
  void forget_outdated(const std::string& sql, const DatabaseError& error);
  void drain();
  DatabaseError failed(const pg_result* result) const;
  DatabaseError lost() const;

  std::string address_, settings_;
  std::unique_ptr<pg_conn, Finish> connection_;
  std::vector<std::string> channels_;
  std::unordered_map<std::string, std::string> prepared_;  // statements of this session; "" = it was run once
  int statements_ = 0;                                     // that were prepared: their names differ
  i64 process_ = 0;                                        // of the session at the server; 0 = none
  std::string beginning_;                                  // of that process, as the server writes it
};

}  // namespace tw
