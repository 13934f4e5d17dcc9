// What bench/fleet runs beside the tuner: a server, and simulated machines in a process of their own.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>

#include "bench/fleet/simulated_machines.h"
#include "tests/support/postgres_server.h"

namespace tw::bench {

// A server with the tables of records and of the queue; commits are on disk when they are acknowledged.
class FleetServer {
 public:
  // Starts a server that accepts so many connections. Null after a message on stderr.
  static std::unique_ptr<FleetServer> start(int connections, bool counts_statements = false);
  const std::string& address() const { return address_; }
  // Processor time of the server so far.
  double processor_seconds() const;
  // Prints the statements that took most of the server's time, per trial; it must count them.
  void print_statements(i64 trials) const;

 private:
  std::unique_ptr<test::PostgresServer> server_;
  std::string address_;
};

// Simulated machines in a process of their own. Must be made before this process has threads.
class FleetProcess {
 public:
  explicit FleetProcess(const SimulatedFleet& fleet);
  ~FleetProcess();
  FleetProcess(const FleetProcess&) = delete;
  // As of 20 ms ago at most.
  SimulatedCounts counts() const;
  double processor_seconds() const;
  // Ends the process. False after a message on stderr: a machine had an error.
  bool stop();

 private:
  struct Shared;
  void work(const SimulatedFleet& fleet) const;
  Shared* shared_;
  pid_t process_ = -1;
};

double resident_mebibytes();  // of this process

}  // namespace tw::bench
