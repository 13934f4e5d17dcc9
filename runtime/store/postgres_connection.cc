#include "runtime/store/postgres_connection.h"

#include <poll.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>

#include "dsl/base/text.h"
#include "runtime/store/libpq.h"
#include "runtime/store/postgres_address.h"
#include "runtime/store/postgres_errors.h"

namespace tw {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int oldest_server = 120000;
constexpr int default_connect_seconds = 10;

// Every session begins with it. An error of the server never quotes a statement, and so no value. Commits are on disk
// when they are acknowledged, whatever the server's settings are. The server, too, notices within 15 seconds that the
// network has failed: until then it holds what the session has locked. No statement is worth compiling (jit): with
// millions of rows that would cost a tenth of a second for each page. The answer tells the session from all others.
constexpr const char* kSession =
    "SET search_path = pg_catalog, pg_temp; SET client_encoding = 'UTF8'; SET client_min_messages = error; "
    "SET standard_conforming_strings = on; SET jit = off; SET datestyle = 'ISO'; SET bytea_output = 'hex'; SET "
    "lock_timeout = '20s'; "
    "SET idle_in_transaction_session_timeout = '30s'; SET default_transaction_isolation = 'read committed'; "
    "SET tcp_keepalives_idle = 6; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3; "
    "SET tcp_user_timeout = '15s'; "
    "SELECT set_config('synchronous_commit', 'local', false) WHERE current_setting('synchronous_commit') = 'off'; "
    "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()";

// The server may not have noticed yet that a session has ended. $1, $2: its process and its beginning.
constexpr const char* kEndSession =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1::integer AND backend_start = "
    "$2::timestamptz";

// The library; a connection exists only if there is one.
const libpq::Api& pq() {
  std::string why;
  const libpq::Api* api = libpq::api(&why);
  TW_CHECK(api, "libpq was there when the connection was opened");
  return *api;
}

// Readiness of a socket; false once the time is over, or on a signal.
bool ready(int descriptor, short events, Clock::time_point deadline) {
  if (descriptor < 0) return false;
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd one{descriptor, events, 0};
  return poll(&one, 1, static_cast<int>(std::max<i64>(0, left))) > 0;
}

// The same of two; true only if the first one can be read.
bool readable(int descriptor, int other, Clock::time_point deadline) {
  if (other < 0) return ready(descriptor, POLLIN, deadline);
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd both[] = {{descriptor, POLLIN, 0}, {other, POLLIN, 0}};
  return descriptor >= 0 && poll(both, 2, static_cast<int>(std::max<i64>(0, left))) > 0 && both[0].revents != 0;
}

// The address's connect_timeout in seconds.
int connect_seconds(const std::string& address) {
  std::size_t at = address.find("connect_timeout=");
  int seconds = at == std::string::npos ? 0 : std::atoi(address.c_str() + at + std::strlen("connect_timeout="));
  return seconds > 0 ? seconds : default_connect_seconds;
}

pg_conn* start(const std::string& address) {
  // What follows `dbname` wins over what stands before it. A network that fails is noticed after about 15 seconds.
  const char* names[] = {"client_encoding",  "fallback_application_name", "keepalives_idle", "keepalives_interval",
                         "keepalives_count", "tcp_user_timeout",          "dbname",          nullptr};
  const char* values[] = {"UTF8", "tracewright", "6", "3", "3", "15000", address.c_str(), nullptr};
  return pq().connectStartParams(names, values, 1);
}

// Until the session is there, refused, or the time is over.
PostgresPollingStatusType finish_connecting(pg_conn* connection, Clock::time_point deadline) {
  PostgresPollingStatusType state = PGRES_POLLING_WRITING;
  while (state == PGRES_POLLING_READING || state == PGRES_POLLING_WRITING) {
    short events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (!ready(pq().socket(connection), events, deadline) && Clock::now() >= deadline) return state;
    state = pq().connectPoll(connection);
  }
  return state;
}

std::string hex_of(const std::string& bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text = "\\x";
  text.reserve(2 + 2 * bytes.size());
  for (unsigned char byte : bytes) text += digits[byte >> 4], text += digits[byte & 15];
  return text;
}

int digit(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

}  // namespace

// ---- values and rows
// ----------------------------------------------------------------------------------------------

PostgresValue PostgresValue::bytes(const std::string& bytes) { return PostgresValue(hex_of(bytes)); }

PostgresValue PostgresValue::numbers(const std::vector<i64>& numbers) {
  return PostgresValue(cat("{", join(numbers, ","), "}"));
}

PostgresValue PostgresValue::texts(const std::vector<std::string>& texts) {
  std::string out = "{";
  for (const std::string& text : texts) {
    out += out.size() > 1 ? ",\"" : "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    out += '"';
  }
  return out + "}";
}

bool PostgresRow::is_null(int column) const { return pq().getisnull(result_, row_, column) != 0; }

std::string PostgresRow::text(int column) const {
  TW_CHECK(column < pq().nfields(result_), "a column of the answer");
  return {pq().getvalue(result_, row_, column), static_cast<std::size_t>(pq().getlength(result_, row_, column))};
}

i64 PostgresRow::integer(int column) const {
  std::string digits = text(column);
  i64 number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

bool PostgresRow::is_true(int column) const { return text(column) == "t"; }

std::string PostgresRow::bytes(int column) const {
  std::string hex = text(column), bytes;
  for (std::size_t i = 2; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1]));
  return bytes;
}

PostgresRows::PostgresRows(pg_result* result) : result_(result) {}
void PostgresRows::Clear::operator()(pg_result* result) const { pq().clear(result); }
int PostgresRows::size() const { return pq().ntuples(result_.get()); }

i64 PostgresRows::changed() const {
  const char* digits = pq().cmdTuples(result_.get());
  i64 number = 0;
  std::from_chars(digits, digits + std::strlen(digits), number);
  return number;
}

// ---- opening
// ------------------------------------------------------------------------------------------------------

void PostgresConnection::Finish::operator()(pg_conn* connection) const { pq().finish(connection); }

DatabaseResult<PostgresConnection> PostgresConnection::open(const std::string& address, const std::string& settings) {
  if (std::string problem = check_address(address); !problem.empty()) return DatabaseError{problem};
  PostgresConnection opened(address, settings);
  DatabaseStatus done = opened.connect();
  const bool was_reached = opened.connection_ != nullptr;
  if (!done && was_reached && done.failure().is_connection_lost) done = opened.connect();  // it went away just then
  if (!done) return done.failure();
  return opened;
}

DatabaseStatus PostgresConnection::connect() {
  prepared_.clear();
  connection_.reset(start(address_));
  pg_conn* raw = connection_.get();
  if (!raw) return DatabaseError{cat("cannot open database ", address_, ": out of memory")};
  pq().setErrorVerbosity(raw, PQERRORS_VERBOSE);  // gives the state of a refusal, too
  pq().setNoticeProcessor(raw, [](void*, const char*) {}, nullptr);
  PostgresPollingStatusType state = PGRES_POLLING_FAILED;
  int seconds = connect_seconds(address_);
  if (pq().status(raw) != CONNECTION_BAD) state = finish_connecting(raw, Clock::now() + std::chrono::seconds(seconds));
  if (state != PGRES_POLLING_OK) {
    std::string text = state == PGRES_POLLING_FAILED ? pq().errorMessage(raw) : cat("no answer in ", seconds, " s");
    DatabaseError error = connection_error(address_, text, pq().connectionNeedsPassword(raw) != 0);
    error.is_connection_lost = true;
    connection_.reset();
    return error;
  }
  if (pq().serverVersion(raw) < oldest_server) {
    connection_.reset();
    return DatabaseError{cat("cannot open database ", address_, ": its server is older than PostgreSQL 12")};
  }
  auto begun = run_script(kSession);
  if (!begun) return begun.failure();
  if (!settings_.empty()) {
    if (auto set = script(settings_); !set) return set;
  }
  if (auto ended = end_session(); !ended) return ended;
  if (!begun->empty()) process_ = (*begun)[0].integer(0), beginning_ = (*begun)[0].text(1);
  for (const std::string& channel : channels_) {
    if (auto done = script("LISTEN " + quoted_name(channel)); !done) return done;
  }
  return Done{};
}

DatabaseStatus PostgresConnection::reconnect() { return connect(); }

// Of the session before this one: what it holds is free, and it does nothing any more. A server that was started again
// has no such session.
DatabaseStatus PostgresConnection::end_session() {
  constexpr int kAttempts = 50;
  constexpr std::chrono::milliseconds kPause(20);  // between two looks whether it has ended
  for (int attempt = 0; process_ != 0 && attempt < kAttempts; ++attempt) {
    auto found = run(kEndSession, {process_, beginning_});
    if (!found && !is_connected()) return found.failure();
    if (!found || found->empty()) break;  // it has no right to, or it has ended
    std::this_thread::sleep_for(kPause);
  }
  process_ = 0;
  return Done{};
}

bool PostgresConnection::is_connected() const { return connection_ && pq().status(connection_.get()) == CONNECTION_OK; }

std::string PostgresConnection::role() const {
  const char* name = connection_ ? pq().user(connection_.get()) : nullptr;
  return name ? name : "";
}

// ---- statements
// ---------------------------------------------------------------------------------------------------

DatabaseError PostgresConnection::lost() const {
  return connection_lost(address_, connection_ ? pq().errorMessage(connection_.get()) : "");
}

DatabaseError PostgresConnection::failed(const pg_result* result) const {
  if (!is_connected()) return lost();
  const char* state = pq().resultErrorField(result, PG_DIAG_SQLSTATE);
  const char* text = pq().resultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  return statement_error(address_, state ? state : "", text ? text : pq().resultErrorMessage(result));
}

// `name`: of the prepared statement; "" = it is not prepared.
DatabaseStatus PostgresConnection::send(const std::string& sql, const std::vector<PostgresValue>& values,
                                        const std::string& name) {
  if (!is_connected()) return lost();
  std::vector<const char*> texts;
  for (const PostgresValue& value : values) {
    const std::optional<std::string>& text = value.text();
    if (text && text->find('\0') != std::string::npos)
      return DatabaseError{cat("database ", address_, " cannot store text with zero bytes"), "22021"};
    texts.push_back(text ? text->c_str() : nullptr);
  }
  const int count = static_cast<int>(texts.size());
  int sent =
      name.empty()
          ? pq().sendQueryParams(connection_.get(), sql.c_str(), count, nullptr, texts.data(), nullptr, nullptr, 0)
          : pq().sendQueryPrepared(connection_.get(), name.c_str(), count, texts.data(), nullptr, nullptr, 0);
  if (sent == 0) return lost();
  return Done{};
}

// Reads what is left of an answer.
void PostgresConnection::drain() {
  while (pg_result* result = pq().getResult(connection_.get())) pq().clear(result);
}

// The first answer, or the first error.
DatabaseResult<PostgresRows> PostgresConnection::collect() {
  PostgresRows rows(pq().getResult(connection_.get()));
  pg_result* result = rows.raw();
  ExecStatusType state = result ? pq().resultStatus(result) : PGRES_FATAL_ERROR;
  drain();
  if (!result) return lost();
  if (state == PGRES_TUPLES_OK || state == PGRES_COMMAND_OK) return rows;
  return failed(result);
}

// The name of the statement where it is prepared, which it is when it is run for the second time; else "".
DatabaseResult<std::string> PostgresConnection::prepared(const std::string& sql) {
  constexpr std::size_t kMost = 128;  // statements of a session
  auto found = prepared_.find(sql);
  if (found == prepared_.end()) {
    if (prepared_.size() < kMost) prepared_.emplace(sql, "");
    return std::string();
  }
  if (!found->second.empty()) return found->second;
  std::string name = cat("tracewright_", ++statements_);
  if (pq().sendPrepare(connection_.get(), name.c_str(), sql.c_str(), 0, nullptr) == 0) return lost();
  if (auto made = collect(); !made) return made.failure();
  return found->second = name;
}

DatabaseResult<PostgresRows> PostgresConnection::run(const std::string& sql, const std::vector<PostgresValue>& values) {
  if (!is_connected()) return lost();
  auto name = prepared(sql);
  if (!name) return name.failure();
  if (auto sent = send(sql, values, *name); !sent) return sent.failure();
  auto rows = collect();
  if (!rows) forget_outdated(sql, rows.failure());
  return rows;
}

// A prepared statement that cannot be run any more.
void PostgresConnection::forget_outdated(const std::string& sql, const DatabaseError& error) {
  constexpr const char *kOutdated = "0A000", *kUnknown = "26000";  // SQLSTATE: tables have changed; it is forgotten
  if (error.state == kOutdated || error.state == kUnknown) prepared_.erase(sql);
}

DatabaseResult<std::pair<PostgresRows, PostgresRows>> PostgresConnection::run_behind(
    const std::string& lock, const std::string& sql, const std::vector<PostgresValue>& values,
    const std::string& then) {
  constexpr std::size_t kStatement = 2, kThen = 3;  // places in the pipeline
  if (!is_connected()) return lost();
  auto name = prepared(sql), then_name = then.empty() ? DatabaseResult<std::string>("") : prepared(then);
  if (!name || !then_name) return (name ? then_name : name).failure();
  if (pq().enterPipelineMode(connection_.get()) == 0) return lost();
  DatabaseStatus sent = Done{};
  auto add = [&](const std::string& text, const std::vector<PostgresValue>& bound, const std::string& prepared) {
    if (sent) sent = send(text, bound, prepared);
  };
  add("BEGIN", {}, ""), add(lock, {}, ""), add(sql, values, *name);
  if (!then.empty()) add(then, {}, *then_name);
  add("COMMIT", {}, "");
  pq().pipelineSync(connection_.get());
  auto answers = collect_pipeline();
  pq().exitPipelineMode(connection_.get());
  if (!sent) answers = sent.failure();
  if (answers) return std::pair(std::move((*answers)[kStatement]), std::move((*answers)[kThen]));
  forget_outdated(sql, answers.failure()), forget_outdated(then, answers.failure());
  roll_back();
  return answers.failure();
}

// Reads the answers of a pipeline, one for each statement; or gives the first error.
DatabaseResult<std::vector<PostgresRows>> PostgresConnection::collect_pipeline() {
  DatabaseResult<std::vector<PostgresRows>> found = std::vector<PostgresRows>();
  while (is_connected()) {
    pg_result* result = pq().getResult(connection_.get());
    if (!result) continue;  // the end of a statement's answer
    PostgresRows rows(result);
    ExecStatusType state = pq().resultStatus(result);
    if (state == PGRES_PIPELINE_SYNC) return found;
    if (!found || state == PGRES_PIPELINE_ABORTED) continue;
    if (state == PGRES_TUPLES_OK || state == PGRES_COMMAND_OK)
      found->push_back(std::move(rows));
    else
      found = failed(result);
  }
  return lost();
}

DatabaseResult<PostgresRows> PostgresConnection::run_script(const std::string& sql) {
  if (!is_connected()) return lost();
  PostgresRows rows(pq().exec(connection_.get(), sql.c_str()));
  ExecStatusType state = pq().resultStatus(rows.raw());
  if (state == PGRES_TUPLES_OK || state == PGRES_COMMAND_OK) return rows;
  return failed(rows.raw());
}

DatabaseStatus PostgresConnection::script(const std::string& sql) {
  auto rows = run_script(sql);
  if (!rows) return rows.failure();
  return Done{};
}

DatabaseStatus PostgresConnection::each(const std::string& sql, const std::vector<PostgresValue>& values,
                                        const std::function<bool(const PostgresRow&)>& use) {
  if (auto sent = send(sql, values); !sent) return sent;
  pq().setSingleRowMode(connection_.get());
  bool goes_on = true;
  DatabaseStatus status = Done{};
  while (pg_result* raw = pq().getResult(connection_.get())) {
    PostgresRows rows(raw);
    ExecStatusType state = pq().resultStatus(raw);
    if (state == PGRES_SINGLE_TUPLE) {
      goes_on = goes_on && use(rows[0]);
    } else if (state != PGRES_TUPLES_OK && state != PGRES_COMMAND_OK) {
      status = failed(raw);
    }
  }
  if (status && !is_connected()) return lost();
  return status;
}

// ---- transactions and notifications
// -------------------------------------------------------------------------------

DatabaseStatus PostgresConnection::begin() {
  TW_CHECK(!is_connected() || pq().transactionStatus(connection_.get()) == PQTRANS_IDLE,
           "transactions do not lie within each other");
  return script("BEGIN");
}

DatabaseStatus PostgresConnection::commit() {
  if (is_connected() && pq().transactionStatus(connection_.get()) != PQTRANS_INTRANS) {
    roll_back();
    return DatabaseError{cat("database ", address_, ": a statement of the transaction failed; nothing of it was done")};
  }
  return script("COMMIT");
}

void PostgresConnection::roll_back() {
  if (is_connected()) (void)script("ROLLBACK");
}

DatabaseStatus PostgresConnection::listen(const std::string& channel) {
  channels_.push_back(channel);
  return script("LISTEN " + quoted_name(channel));
}

DatabaseStatus PostgresConnection::unlisten(const std::string& channel) {
  std::erase(channels_, channel);
  return script("UNLISTEN " + quoted_name(channel));
}

int PostgresConnection::descriptor() const { return is_connected() ? pq().socket(connection_.get()) : -1; }

DatabaseResult<std::vector<PostgresNotification>> PostgresConnection::wait(std::chrono::milliseconds most, int other) {
  std::vector<PostgresNotification> arrived;
  auto take = [&] {
    while (PGnotify* one = pq().notifies(connection_.get())) {
      arrived.push_back({one->relname, one->extra});
      pq().freemem(one);
    }
  };
  if (!is_connected()) return lost();
  Clock::time_point deadline = Clock::now() + most;
  take();  // what came with the answer to a statement
  if (!arrived.empty()) deadline = Clock::now();
  do {
    if (!readable(descriptor(), other, deadline)) break;
    if (pq().consumeInput(connection_.get()) == 0 || !is_connected()) return lost();
    take();
  } while (arrived.empty());
  return arrived;
}

std::string PostgresConnection::quoted_name(const std::string& name) const {
  TW_CHECK(connection_, "a name is quoted for an open connection");
  char* quoted = pq().escapeIdentifier(connection_.get(), name.c_str(), name.size());
  if (!quoted) return "\"\"";  // not UTF-8: no such name
  std::string text = quoted;
  pq().freemem(quoted);
  return text;
}

}  // namespace tw
