// `measure` as a process: how it begins, and what ends it.
#include <gtest/gtest.h>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "tests/unit/fleet_programs.h"

namespace tw {
namespace {

// A machine with nothing to do, whose server comes back with another database of the name.
TEST_F(FleetPrograms, AnIdleMachineDoesNotLendItselfToAnotherDatabase) {
  std::unique_ptr<Machine> machine = start_machine();
  wait_until([](const FleetStatus& status) { return !status.machines.empty(); });
  server_->sql("postgres", cat("DROP DATABASE ", name_, " WITH (FORCE)"));
  server_->sql("postgres", cat("ALTER DATABASE ", make_tuning_database(*server_), " RENAME TO ", name_));
  test::Finished ended = machine->finished.get();
  EXPECT_EQ(ended.code, 3);
  EXPECT_NE(ended.err.find("is another one than before"), std::string::npos) << ended.err;
  auto status = queue().status();
  ASSERT_TRUE(status) << status.error();
  EXPECT_TRUE(status->machines.empty());
}

// What a person has to mend is not waited for.
TEST_F(FleetPrograms, MeasureSaysAtItsStartWhatIsWrong) {
  struct Row {
    std::string address, says;
    int code;
  };
  const Row rows[] = {
      {server_->address("no_such"), "the server has no database of that name", 3},
      {server_->address(name_, "nobody_here"), "the server does not let this role in", 3},
      {"postgresql://a@127.0.0.1:99999/b", "an option of the address cannot be used", 3},
      {"host=127.0.0.1 dbname=b", "does not begin with postgresql://", 3},
      {"tuning.db", "is a file", 2},
  };
  for (const Row& row : rows) {
    const double begin = seconds_now();
    test::Finished ended = run({"measure", "--database", row.address});
    EXPECT_EQ(ended.code, row.code) << row.address;
    EXPECT_NE(ended.err.find(row.says), std::string::npos) << row.address << ": " << ended.err;
    EXPECT_LT(seconds_now() - begin, 20) << row.address;
  }
  EXPECT_EQ(run({"measure", "--database", address_, "--name", "two\nlines"}).code, 2);
}

// A machine and its server may be started together.
TEST_F(FleetPrograms, MeasureWaitsForAServerThatIsAwayAtItsStart) {
  std::string why;
  std::unique_ptr<test::PostgresServer> server = test::PostgresServer::start({}, &why);
  ASSERT_TRUE(server) << why;
  name_ = make_tuning_database(*server), address_ = server->address(name_);
  server->stop();
  std::unique_ptr<Machine> machine = start_machine();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ASSERT_TRUE(server->start_again());
  wait_until([&](const FleetStatus& status) {
    return !status.machines.empty() || machine->finished.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  EXPECT_EQ(machine->stop().code, 130);
}

}  // namespace
}  // namespace tw
