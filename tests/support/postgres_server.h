// A real PostgreSQL server for tests, from Debian's package `postgresql`: its own data folder below /tmp, a Unix socket
// there and a free port of loopback. It is run by another user where the test is run by root, and ends with the test.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/support.h"

namespace tw::test {

class PostgresServer {
 public:
  using Settings = std::map<std::string, std::string>;  // of postgresql.conf

  static bool is_installed();
  // A server of its own. By default nothing is forced to disk, which a killed server does not need; {"fsync", "on"}
  // forces it. Null if there is none; *why says why (no package).
  static std::unique_ptr<PostgresServer> start(const Settings& settings, std::string* why);
  // The one of this process, made by the first call.
  static PostgresServer* shared(std::string* why);
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // A fresh, empty database; returns its name.
  std::string make_database();
  // Over the Unix socket, where every role is let in without a password. `postgres` is the superuser.
  std::string address(const std::string& database, const std::string& role = "postgres") const;
  // Over loopback, where every role needs its password (from $PGPASSFILE, say).
  std::string loopback_address(const std::string& database, const std::string& role) const;
  // Runs statements as the superuser; fails the test if they fail.
  void sql(const std::string& database, const std::string& statements) const;

  // Ends the sessions of a database, and waits until their sockets are closed.
  void end_sessions(const std::string& database) const;
  // Kills every process of the server, as a power cut would.
  void kill_all();
  // Asks it to stop; clients lose their connections.
  void stop();
  // Starts it again on the same data and ports. False if it does not come up.
  bool start_again();
  pid_t process() const { return process_; }
  int port() const { return port_; }
  const std::string& folder() const { return folder_.path(); }  // holds `data`, the socket, `log`

 private:
  PostgresServer() = default;
  bool run_server();
  bool run(const std::string& program, const std::vector<std::string>& arguments);
  pid_t launch(const std::string& program, const std::vector<std::string>& arguments);

  TemporaryDirectory folder_;
  std::string programs_;
  pid_t process_ = -1, owner_ = getpid();
  int port_ = 0, databases_ = 0;
};

}  // namespace tw::test

// Skips the test if the package is not there. `server` becomes a PostgresServer*; one that does not start is a failure.
#define TW_POSTGRES_OR_SKIP(server)                                                                  \
  if (!tw::test::PostgresServer::is_installed()) GTEST_SKIP() << "no PostgreSQL server: no package"; \
  std::string server##_why;                                                                          \
  tw::test::PostgresServer* server = tw::test::PostgresServer::shared(&server##_why);                \
  ASSERT_TRUE(server) << server##_why
