#include "bench/fleet/fleet_processes.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "dsl/base/text.h"
#include "runtime/fleet/trial_queue.h"
#include "runtime/store/postgres_schema.h"
#include "tests/support/processes.h"

namespace tw::bench {
namespace {

// The processor time of a process; `with_children` adds that of the children that have ended.
double processor_seconds_of(pid_t process, bool with_children) {
  std::ifstream file(cat("/proc/", process, "/stat"));
  std::stringstream text;
  text << file.rdbuf();
  std::istringstream fields(text.str().substr(std::min(text.str().rfind(')') + 1, text.str().size())));
  std::string skipped;
  constexpr int kBeforeTimes = 11;  // fields behind the name, before utime
  for (int i = 0; i < kBeforeTimes; ++i) fields >> skipped;
  double user = 0, system = 0, user_of_children = 0, system_of_children = 0;
  fields >> user >> system >> user_of_children >> system_of_children;
  double ticks = user + system + (with_children ? user_of_children + system_of_children : 0);
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

double resident_mebibytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

std::unique_ptr<FleetServer> FleetServer::start(int connections, bool counts_statements) {
  auto started = std::make_unique<FleetServer>();
  std::string why;
  started->server_ =
      test::PostgresServer::start({{"fsync", "on"},
                                   {"full_page_writes", "on"},
                                   {"shared_buffers", "256MB"},
                                   {"max_wal_size", "4GB"},
                                   {"shared_preload_libraries", counts_statements ? "pg_stat_statements" : "''"},
                                   {"pg_stat_statements.track_planning", "on"},
                                   {"max_connections", std::to_string(connections)}},
                                  &why);
  if (!started->server_) return std::fprintf(stderr, "no PostgreSQL server: %s\n", why.c_str()), nullptr;
  started->address_ = started->server_->address(started->server_->make_database());
  SchemaOptions nobody{.tuner = "", .worker = "", .reader = ""};
  auto connection = PostgresConnection::open(started->address_);
  if (!connection) return std::fprintf(stderr, "%s\n", connection.error().c_str()), nullptr;
  auto made = make_postgres_schema(*connection, nobody);
  DatabaseStatus queue = made ? make_queue_tables(*connection, nobody) : DatabaseStatus(made.failure());
  if (!queue) return std::fprintf(stderr, "%s\n", queue.error().c_str()), nullptr;
  if (counts_statements) {
    if (auto counted = connection->script("CREATE EXTENSION pg_stat_statements SCHEMA public"); !counted)
      return std::fprintf(stderr, "%s\n", counted.error().c_str()), nullptr;
  }
  return started;
}

void FleetServer::print_statements(i64 trials) const {
  auto connection = PostgresConnection::open(address_);
  if (!connection) return void(std::fprintf(stderr, "%s\n", connection.error().c_str()));
  auto rows = connection->run(
      "SELECT round(1000000 * total_exec_time)::bigint, calls, shared_blks_hit, wal_bytes, plans, "
      "round(1000000 * total_plan_time)::bigint, "
      "left(regexp_replace(query, '\\s+', ' ', 'g'), 100) FROM public.pg_stat_statements ORDER BY total_exec_time DESC "
      "LIMIT 25");
  if (!rows) return void(std::fprintf(stderr, "%s\n", rows.error().c_str()));
  std::printf("of a trial: %8s %8s %8s %8s; %8s %8s\n", "us", "calls", "pages", "WAL", "plans", "ms each");
  for (int i = 0; i < rows->size(); ++i) {
    auto of_trial = [&](int column) {
      return static_cast<double>((*rows)[i].integer(column)) / static_cast<double>(std::max<i64>(trials, 1));
    };
    const i64 plans = (*rows)[i].integer(4);
    const double planning =
        1e-6 * static_cast<double>((*rows)[i].integer(5)) / static_cast<double>(std::max<i64>(plans, 1));
    std::printf("%20.1f %8.2f %8.1f %8.0f  %8lld %8.2f  %s\n", 1e-3 * of_trial(0), of_trial(1), of_trial(2),
                of_trial(3), static_cast<long long>(plans), planning, (*rows)[i].text(6).c_str());
  }
}

double FleetServer::processor_seconds() const {
  double sum = processor_seconds_of(server_->process(), /*with_children=*/true);
  for (pid_t child : test::children_of(server_->process())) sum += processor_seconds_of(child, false);
  return sum;
}

struct FleetProcess::Shared {
  std::atomic<bool> stop = false, is_bad = false;
  std::atomic<i64> version = 0;  // odd while the counts are written
  SimulatedCounts counts;
};

FleetProcess::FleetProcess(const SimulatedFleet& fleet) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  TW_CHECK(memory != MAP_FAILED, "memory that two processes share");
  shared_ = new (memory) Shared;
  process_ = fork();
  if (process_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  work(fleet);
  _exit(0);
}

void FleetProcess::work(const SimulatedFleet& fleet) const {
  constexpr std::chrono::milliseconds kBetween(20);
  SimulatedMachines machines(fleet);
  auto show = [&] {
    ++shared_->version;
    shared_->counts = machines.counts();
    ++shared_->version;
  };
  while (!shared_->stop) {
    show();
    std::this_thread::sleep_for(kBetween);
  }
  machines.stop();
  show();
  if (machines.error().empty()) return;
  shared_->is_bad = true;
  std::fprintf(stderr, "a simulated machine: %s\n", machines.error().c_str());
}

SimulatedCounts FleetProcess::counts() const {
  for (;;) {
    i64 before = shared_->version;
    SimulatedCounts counts = shared_->counts;
    if (before % 2 == 0 && before == shared_->version) return counts;
  }
}

double FleetProcess::processor_seconds() const { return processor_seconds_of(process_, false); }

bool FleetProcess::stop() {
  shared_->stop = true;
  if (process_ > 0) waitpid(process_, nullptr, 0);
  process_ = -1;
  return !shared_->is_bad;
}

FleetProcess::~FleetProcess() {
  stop();
  munmap(shared_, sizeof(Shared));
}

}  // namespace tw::bench
