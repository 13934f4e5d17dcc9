// How many trials are on their way: the plan, and a fleet in virtual time that the real search keeps busy.
#include "sampler/search/flight.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "bench/fleet/virtual_fleet.h"
#include "tests/unit/search_kit.h"

namespace tw {
namespace {

TEST(FlightPlan, OneMachineHasOneBatchInFlight) {
  for (double rate : {0.0, 5.0, 1e6}) {
    for (double round : {0.0, 0.3, 100.0}) {
      FlightPlan plan = plan_flight({1, rate}, round);
      EXPECT_FALSE(plan.is_wide);
      EXPECT_EQ(plan.batch, 0) << "the usual one";
    }
  }
}

TEST(FlightPlan, GrowsWithMachinesSpeedAndTheTimeOfARound) {
  FlightPlan unknown = plan_flight({64, 0}, 0);
  EXPECT_TRUE(unknown.is_wide);
  EXPECT_GE(unknown.batch, 64) << "a trial for each";
  EXPECT_GE(unknown.depth, 64);
  FlightPlan before = unknown;
  for (double rate : {320.0, 640.0, 1280.0}) {
    FlightPlan plan = plan_flight({64, rate}, 0.5);
    EXPECT_GE(plan.batch, rate * 0.5) << "what is measured while it is searched";
    EXPECT_GE(plan.depth, 64 + rate * 0.5);
    EXPECT_GT(plan.depth, before.depth);
    EXPECT_GE(plan.batch, before.batch);
    before = plan;
  }
  EXPECT_LE(plan_flight({64, 1e9}, 100).batch, 2000) << "a batch has an end";
}

// The search with a fleet in virtual time, which measures by a kernel's code.
class VirtualSearch : public Search {
 protected:
  struct Found {
    TuneResult result;
    Watcher watcher;
    std::vector<bench::VirtualResult> results;
    bench::VirtualFleet* fleet = nullptr;
    double busy = 0;  // share of the machines' time, from the first trial to the last
  };
  void search(const TuneOptions& how, bench::VirtualMachines machines, Database& database, Found& found) {
    if (machines.seconds == 0) machines.seconds = 1e9;
    FakeMeasurer measurer;
    auto make = [&](const RunnerParts& with) {
      return std::make_unique<bench::VirtualFleet>(with, machines, &measurer, found.watcher.stop, found.results);
    };
    found.result = tune_with(tasks_, library(), how, database, make, found.watcher, found.watcher.stop);
    EXPECT_EQ(found.result.error, "");
    double end = 0, trials = static_cast<double>(found.results.size());
    for (const bench::VirtualResult& result : found.results) end = std::max(end, result.at);
    found.busy = trials * machines.trial_seconds / (end * machines.machines);
  }
};

TEST_F(VirtualSearch, WithOneMachineTheCandidatesAreThoseOfToday) {
  Database here = database("here.db"), there = database("there.db");
  FakeMeasurer measurer;
  Watcher expected;
  run(options(), here, &measurer, expected);
  Found found;
  search(options(), {.machines = 1}, there, found);
  EXPECT_EQ(found.watcher.candidates, expected.candidates);
  EXPECT_EQ(traces(there), traces(here));
}

TEST_F(VirtualSearch, ManyMeasureNothingTwiceAndEachTaskHasItsTrials) {
  for (int machines : {2, 16, 64}) {
    Database file = database(std::to_string(machines) + ".db");
    Found found;
    search(options(1, 2, 120), {.machines = machines}, file, found);
    std::set<std::pair<std::string, std::string>> programs;
    for (const Record& record : records(file))
      EXPECT_TRUE(programs.emplace(record.task, record.program).second) << machines << " machines: measured twice";
    for (const TaskProgress& task : found.result.tasks) {
      EXPECT_EQ(task.trials, trials_of(task.name, 120)) << machines << " " << task.name;
      EXPECT_TRUE(task.done);
    }
  }
}

TEST_F(VirtualSearch, MachinesAreBusy) {
  tasks_.pop_back();
  for (int machines : {4, 16}) {
    Database file = database(std::to_string(machines) + ".db");
    Found found;
    // A tenth of the time and more is begin and end.
    search(options(1, 2, 40 * machines), {.machines = machines, .trial_seconds = 0.2, .round_seconds = 0.3}, file,
           found);
    EXPECT_GT(found.busy, 0.9) << machines;
  }
}

TEST_F(VirtualSearch, TrialsOfAllTasksEndWithTheirTotal) {
  Database file = database("total.db");
  TuneOptions how = options(1, 2, 1000);
  how.total_trials = 100;
  Found found;
  search(how, {.machines = 16}, file, found);
  i64 trials = 0;
  for (const TaskProgress& task : found.result.tasks) trials += task.trials;
  EXPECT_EQ(trials, 100);
}

}  // namespace
}  // namespace tw
