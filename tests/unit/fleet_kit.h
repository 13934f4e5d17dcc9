// A database of a real server with the tables of records and of the queue, for tests of the queue and of fleets.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "runtime/fleet/trial_queue.h"
#include "runtime/store/database.h"
#include "runtime/store/postgres_schema.h"
#include "sampler/fleet/measuring_machine.h"
#include "support/postgres_server.h"

namespace tw {

// Returns its name.
inline std::string make_tuning_database(test::PostgresServer& server) {
  std::string name = server.make_database();
  auto connection = PostgresConnection::open(server.address(name));
  EXPECT_TRUE(connection) << connection.error();
  auto made = make_postgres_schema(*connection, {.tuner = "", .worker = "", .reader = ""});
  EXPECT_TRUE(made) << made.error();
  auto queue = make_queue_tables(*connection, {.tuner = "", .worker = "", .reader = ""});
  EXPECT_TRUE(queue) << queue.error();
  return name;
}

// Opens it for records; fails the test where that cannot be done.
inline void open_database(const std::string& address, std::optional<Database>& database) {
  auto opened = Database::open(address, DatabaseMode::Write);
  ASSERT_TRUE(opened) << opened.error();
  database.emplace(std::move(*opened));
}

// Times of a calibration, each `slower` times those of all others.
inline CalibrationTimes calibration_times(double slower = 1) {
  return {{"arithmetic", 6e-6 * slower}, {"caches", 3e-6 * slower}, {"memory", 8e-4 * slower}};
}
// For machines whose calibration is no matter: MachineOptions::calibrator.
inline std::function<Calibrate(Measurer&, const Target&)> fixed_calibration() {
  return [](Measurer&, const Target&) -> Calibrate {
    return [](const std::function<bool()>&) { return Calibration{.times = calibration_times(), .is_steady = true}; };
  };
}

// Each test has such a database, and skips where there is no server.
class TuningDatabaseTest : public testing::Test {
 protected:
  void SetUp() override {
    TW_POSTGRES_OR_SKIP(server);
    server_ = server;
    name_ = make_tuning_database(*server);
    address_ = server->address(name_);
  }
  TrialQueue queue() const {
    auto opened = TrialQueue::open(address_);
    EXPECT_TRUE(opened) << opened.error();
    return std::move(*opened);
  }
  void sql(const std::string& text) const { server_->sql(name_, text); }
  template <class T>
  static T good(DatabaseResult<T> result) {
    EXPECT_TRUE(result) << result.error();
    return std::move(*result);
  }
  test::PostgresServer* server_ = nullptr;
  std::string name_, address_;
};

}  // namespace tw
