// Searches whose trials the machines of a fleet measure, with a database of a real server.
#pragma once
#include <optional>
#include <string>

#include "sampler/search/fleet_runner.h"
#include "tests/unit/fleet_kit.h"
#include "tests/unit/search_kit.h"

namespace tw {

// Skips where there is no server.
class SearchOnFleet : public Search {
 protected:
  void SetUp() override {
    TW_POSTGRES_OR_SKIP(server);
    server_ = server;
    name_ = make_tuning_database(*server);
    address_ = server->address(name_);
    open_database(address_, database_);
  }
  void sql(const std::string& text) const { server_->sql(name_, text); }

  TuneResult tune_with_fleet(const TuneOptions& options, Watcher& watcher) {
    auto link = TunerLink::open(address_, "tuner");
    EXPECT_TRUE(link) << link.error();
    TuneResult result = tune_on_fleet(tasks_, library(), options, *database_, **link, watcher, watcher.stop);
    faults_ = (*link)->faults();
    return result;
  }
  FleetStatus status() const {
    auto queue = TrialQueue::open(address_);
    EXPECT_TRUE(queue) << queue.error();
    auto status = queue->status();
    EXPECT_TRUE(status) << status.error();
    return *status;
  }

  test::PostgresServer* server_ = nullptr;
  std::string name_, address_;
  std::optional<Database> database_;
  i64 faults_ = 0;  // trials of the last search that ended without a measurement
};

}  // namespace tw
