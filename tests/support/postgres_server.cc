#include "support/postgres_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "dsl/base/text.h"
#include "runtime/fleet/trial_queue.h"
#include "runtime/store/postgres_connection.h"
#include "support/processes.h"

namespace tw::test {
namespace {

namespace fs = std::filesystem;

// The folder of the newest server's programs; "" = none.
std::string find_programs() {
  std::string best;
  int newest = 0;
  std::error_code none;
  for (const auto& version : fs::directory_iterator("/usr/lib/postgresql", none)) {
    std::string folder = version.path().string() + "/bin";
    int number = std::atoi(version.path().filename().c_str());
    if (number > newest && fs::exists(folder + "/postgres") && fs::exists(folder + "/initdb"))
      best = folder, newest = number;
  }
  return best;
}

// A server refuses to be run by root.
const passwd* other_user() {
  if (geteuid() != 0) return nullptr;
  const passwd* user = getpwnam("postgres");
  return user ? user : getpwnam("nobody");
}

int free_port() {
  int socket_of = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  bool found = bind(socket_of, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
               getsockname(socket_of, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(socket_of);
  return found ? ntohs(address.sin_port) : 0;
}

}  // namespace

pid_t PostgresServer::launch(const std::string& program, const std::vector<std::string>& arguments) {
  std::string path = programs_ + "/" + program, log = folder_.path() + "/log";
  std::vector<char*> words{path.data()};
  std::vector<std::string> copies = arguments;
  for (std::string& word : copies) words.push_back(word.data());
  words.push_back(nullptr);
  const passwd* user = other_user();
  pid_t child = fork();
  if (child != 0) return child;
  int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  dup2(out, 1), dup2(out, 2);
  if (user && (setgroups(0, nullptr) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)) _exit(126);
  prctl(PR_SET_PDEATHSIG, SIGQUIT);  // "stop at once": nothing is left if the test is killed
  execv(path.c_str(), words.data());
  _exit(127);
}

bool PostgresServer::run(const std::string& program, const std::vector<std::string>& arguments) {
  int status = -1;
  return waitpid(launch(program, arguments), &status, 0) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool PostgresServer::run_server() {
  process_ = launch("postgres", {"-D", folder_.path() + "/data"});
  return wait_until([&] {
           if (waitpid(process_, nullptr, WNOHANG) == process_) return process_ = -1, true;
           return bool(PostgresConnection::open(address("postgres")));
         }) &&
         process_ > 0;
}

bool PostgresServer::is_installed() { return !find_programs().empty(); }

std::unique_ptr<PostgresServer> PostgresServer::start(const Settings& settings, std::string* why) {
  std::unique_ptr<PostgresServer> server(new PostgresServer);
  server->programs_ = find_programs();
  if (server->programs_.empty())
    return *why = "there is no /usr/lib/postgresql/*/bin/postgres (Debian's package postgresql)", nullptr;
  const std::string folder = server->folder_.path(), data = folder + "/data";
  const passwd* user = other_user();
  if (user && chown(folder.c_str(), user->pw_uid, user->pw_gid) != 0) return *why = "chown failed", nullptr;
  chmod(folder.c_str(), 0755);  // other users connect to the socket
  if (!server->run("initdb",
                   {"-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"}))
    return *why = cat("initdb failed: ", read_file(folder + "/log")), nullptr;
  Settings all = {{"fsync", "off"},
                  {"full_page_writes", "off"},
                  {"shared_buffers", "32MB"},
                  {"max_connections", "200"},
                  {"listen_addresses", "'127.0.0.1'"},
                  {"unix_socket_directories", cat("'", folder, "'")}};
  for (const auto& [name, value] : settings) all[name] = value;
  write_file(data + "/pg_hba.conf", "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n");
  constexpr int kAttempts = 3;  // another process may take the port first
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    server->port_ = free_port();
    all["port"] = std::to_string(server->port_);
    std::ofstream configuration(data + "/postgresql.conf", std::ios::app);
    for (const auto& [name, value] : all) configuration << name << " = " << value << '\n';
    configuration.close();
    if (server->run_server()) return server;
  }
  return *why = cat("it does not start: ", read_file(folder + "/log")), nullptr;
}

PostgresServer* PostgresServer::shared(std::string* why) {
  static std::string problem;
  static std::unique_ptr<PostgresServer> server = start({}, &problem);
  *why = problem;
  return server.get();
}

PostgresServer::~PostgresServer() {
  if (getpid() != owner_ || process_ <= 0) return;
  ::kill(process_, SIGQUIT);  // it ends at once, and takes its shared memory with it
  if (wait_until([&] { return waitpid(process_, nullptr, WNOHANG) == process_; }))
    process_ = -1;
  else
    kill_all();
}

std::string PostgresServer::make_database() {
  std::string name = cat("test", ++databases_);
  sql("postgres", cat("CREATE DATABASE ", name));
  return name;
}

std::string PostgresServer::address(const std::string& database, const std::string& role) const {
  return cat("postgresql://", role, "@/", database, "?host=", folder_.path(), "&port=", port_);
}

std::string PostgresServer::loopback_address(const std::string& database, const std::string& role) const {
  return cat("postgresql://", role, "@127.0.0.1:", port_, "/", database);
}

void PostgresServer::sql(const std::string& database, const std::string& statements) const {
  auto connection = PostgresConnection::open(address(database));
  ASSERT_TRUE(connection) << connection.error();
  auto done = TrialQueue::repeated([&] { return connection->script(statements); });
  ASSERT_TRUE(done) << done.error();
}

void PostgresServer::end_sessions(const std::string& database) const {
  auto connection = PostgresConnection::open(address("postgres"));
  ASSERT_TRUE(connection) << connection.error();
  auto ended =
      connection->run("SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", {database});
  ASSERT_TRUE(ended) << ended.error();
  for (int i = 0; i < ended->size(); ++i) {
    const auto session = static_cast<pid_t>((*ended)[i].integer(0));
    EXPECT_TRUE(wait_until([&] { return !is_alive(session); }));
  }
}

void PostgresServer::kill_all() {
  if (process_ <= 0) return;
  std::vector<pid_t> children = children_of(process_);
  ::kill(process_, SIGSTOP);  // it starts no others meanwhile
  for (pid_t child : children_of(process_)) children.push_back(child);
  for (pid_t child : children) ::kill(child, SIGKILL);
  ::kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  for (pid_t child : children) wait_until([&] { return !is_alive(child); });
  process_ = -1;
}

void PostgresServer::stop() {
  if (process_ <= 0) return;
  ::kill(process_, SIGINT);  // "fast": ends sessions
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

bool PostgresServer::start_again() { return run_server(); }

}  // namespace tw::test
