// Real tuners with many simulated machines on a real PostgreSQL server: what is in flight, what is measured, who gets
// how much, and what is left.
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <set>
#include <thread>

#include "bench/fleet/simulated_machines.h"
#include "dsl/base/text.h"
#include "sampler/search/fleet_runner.h"
#include "tests/unit/fleet_kit.h"
#include "tests/unit/search_kit.h"

namespace tw {
namespace {

class ManyMachines : public Search {
 protected:
  void SetUp() override {
    TW_POSTGRES_OR_SKIP(server);
    address_ = server->address(make_tuning_database(*server));
    open_database(address_, database_);
    for (i64 size : {48, 80}) {
      tasks_.push_back(task_of("dense", {{"M", size}, {"N", i64{64}}, {"K", i64{32}}}));
      tasks_.back().name = cat("dense_", size);
    }
  }
  TuneResult tune_with_fleet(const TuneOptions& options, Watcher& watcher) {
    auto link = TunerLink::open(address_, "tuner");
    EXPECT_TRUE(link) << link.error();
    return tune_on_fleet(tasks_, library(), options, *database_, **link, watcher, watcher.stop);
  }
  // All of these are there.
  std::unique_ptr<bench::SimulatedMachines> start(bench::SimulatedFleet fleet) const {
    fleet.address = address_;
    auto machines = std::make_unique<bench::SimulatedMachines>(fleet);
    while (ask("select count(*) from tracewright_fleet.machines")[0] < fleet.machines)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return machines;
  }
  // The numbers of the first row of an answer, if there is one.
  std::vector<i64> ask(const std::string& statement, int columns = 1) const {
    auto connection = PostgresConnection::open(address_);
    EXPECT_TRUE(connection) << connection.error();
    auto rows = connection->run(statement);
    EXPECT_TRUE(rows) << rows.error();
    std::vector<i64> numbers;
    for (int column = 0; column < columns && !rows->empty(); ++column) numbers.push_back((*rows)[0].integer(column));
    return numbers;
  }
  void expect_each_once() {
    std::set<std::pair<std::string, std::string>> programs;
    for (const Record& record : records(*database_))
      EXPECT_TRUE(programs.emplace(record.task, record.program).second) << "measured twice";
  }
  // The first task, and another one of the same workload.
  void take_one_workload_twice() {
    tasks_.resize(1);
    tasks_.push_back(tasks_[0]);
    tasks_[1].name = "again";
  }
  void expect_nothing_left() const {
    EXPECT_EQ(ask("select count(*) from tracewright_fleet.trials")[0], 0) << "in the queue";
  }

  std::string address_;
  std::optional<Database> database_;
};

TEST_F(ManyMachines, BatchesOfSeveralTasksAreInFlight) {
  constexpr int kMachines = 24;
  auto machines = start({.machines = kMachines, .seconds = 0.4, .failed = 0.05});
  Watcher watcher;
  std::atomic<bool> is_done = false;
  i64 most_trials = 0, most_tasks = 0, most_machines = 0;
  std::thread looker([&] {
    while (!is_done) {
      std::vector<i64> now =
          ask("select count(*), count(distinct task), count(distinct machine) from tracewright_fleet.trials "
              "where state <> 'done'",
              3);
      most_trials = std::max(most_trials, now[0]), most_tasks = std::max(most_tasks, now[1]);
      most_machines = std::max(most_machines, now[2]);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  TuneResult found = tune_with_fleet(options(1, 2, 100), watcher);
  is_done = true;
  looker.join();
  EXPECT_EQ(found.error, "");
  EXPECT_GT(most_trials, 2 * 32) << "more than a batch that is measured and one that was searched";
  EXPECT_GE(most_tasks, 2);
  EXPECT_GT(most_machines, kMachines / 2);
  expect_each_once();
  i64 failed = 0;
  for (const TaskProgress& task : found.tasks) {
    EXPECT_EQ(task.trials, trials_of(task.name, 100)) << task.name;
    failed += task.failed;
  }
  EXPECT_GT(failed, 0);
  EXPECT_EQ(machines->counts().late + machines->counts().repeated, 0);
  expect_nothing_left();
}

// Two lists may name the same workload twice: then two tasks wait for the same trials.
TEST_F(ManyMachines, TwoTasksOfOneWorkloadEnd) {
  take_one_workload_twice();
  auto machines = start({.machines = 8, .seconds = 0.01});
  Watcher watcher;
  TuneResult found = tune_with_fleet(options(1, 2, 60), watcher);
  EXPECT_EQ(found.error, "");
  for (const TaskProgress& task : found.tasks) EXPECT_EQ(task.trials, 60) << task.name;
}

// Trials take so long that both tasks have put in the same ones before the first has ended: each is measured once, and
// both tasks know its result.
TEST_F(ManyMachines, TwoTasksWaitForOneTrial) {
  take_one_workload_twice();
  auto machines = start({.machines = 8, .seconds = 3});
  Watcher watcher;
  TuneResult found = tune_with_fleet(options(1, 2, 8), watcher);
  EXPECT_EQ(found.error, "");
  for (const TaskProgress& task : found.tasks) EXPECT_EQ(task.trials, 8) << task.name;
  EXPECT_LT(machines->counts().trials(), 16) << "nothing was shared";
}

TEST_F(ManyMachines, StoppingEndsAllThatIsInFlight) {
  auto machines = start({.machines = 16, .seconds = 0.05});
  Watcher watcher;
  watcher.stop_after = 100;
  TuneResult found = tune_with_fleet(options(1, 2, 2000), watcher);
  EXPECT_EQ(found.error, "");
  EXPECT_TRUE(found.interrupted);
  EXPECT_GE(found.measured, 100);
  expect_nothing_left();
  EXPECT_EQ(static_cast<i64>(trials(*database_).size()), found.measured) << "what was measured is known";
}

// Machines are lost in the middle of their trials and come back as others.
TEST_F(ManyMachines, LostMachinesCostNoTrial) {
  auto machines = start({.machines = 8, .seconds = 0.02, .lost = 0.02, .lost_seconds = 0.1});
  std::atomic<bool> is_done = false;
  std::thread clock([&] {  // leases run out sooner than they would
    while (!is_done) {
      ask("update tracewright_fleet.trials set deadline = deadline - interval '10 seconds' "
          "where state = 'leased' and leased < clock_timestamp() - interval '0.5 seconds'");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  Watcher watcher;
  TuneResult found = tune_with_fleet(options(1, 2, 100), watcher);
  is_done = true;
  clock.join();
  EXPECT_EQ(found.error, "");
  EXPECT_GT(machines->counts().lost, 0);
  for (const TaskProgress& task : found.tasks) EXPECT_EQ(task.trials, trials_of(task.name, 100)) << task.name;
  expect_each_once();
}

TEST_F(ManyMachines, TwoTunersHaveTheSameShare) {
  auto machines = start({.machines = 8, .seconds = 0.4});
  tasks_.resize(1);
  Watcher first, second;
  TuneOptions how = options(1, 1, 10000);
  how.seconds = 12;
  std::thread other([&] {
    auto opened = Database::open(address_, DatabaseMode::Write);
    auto link = TunerLink::open(address_, "other");
    std::vector<TuneTask> tasks;
    tasks.push_back(task_of("dense", {{"M", i64{64}}, {"N", i64{64}}, {"K", i64{64}}}));
    TuneResult result = tune_on_fleet(tasks, library(), how, *opened, **link, second, second.stop);
    EXPECT_EQ(result.error, "");
  });
  EXPECT_EQ(tune_with_fleet(how, first).error, "");
  other.join();
  double a = static_cast<double>(first.candidates.size()), b = static_cast<double>(second.candidates.size());
  EXPECT_GT(std::min(a, b) / std::max(a, b), 0.7) << a << " and " << b << " trials";
  EXPECT_GT(a + b, 8 / 0.4 * how.seconds / 2) << "the machines were idle";
}

// What a trial in flight needs is gone when it has ended.
TEST_F(ManyMachines, TheMemoryOfATunerIsLevel) {
  tasks_.clear();
  tasks_.push_back(task_of("dense", {{"M", i64{240}}, {"N", i64{240}}, {"K", i64{240}}}));
  constexpr i64 kQuarter = 400;
  struct Counter : Watcher {
    std::array<std::size_t, 4> highest{};
    i64 count = 0;
    void on_trial(const std::vector<TaskProgress>& tasks, std::size_t task, const Record& last) override {
      Watcher::on_trial(tasks, task, last);
      struct mallinfo2 heap = mallinfo2();
      std::size_t& here = highest[static_cast<std::size_t>(std::min<i64>(count++ / kQuarter, 3))];
      here = std::max(here, heap.uordblks + heap.hblkhd);
    }
  } watcher;
  auto machines = start({.machines = 32, .seconds = 0.03});
  TuneOptions limited = options(1, 1, 4 * kQuarter);
  limited.limits = {.learned = 128, .learned_of_a_task = 16, .known_bytes = 512 << 10};
  TuneResult found = tune_with_fleet(limited, watcher);
  EXPECT_EQ(found.error, "");
  double growth = (static_cast<double>(watcher.highest[3]) - static_cast<double>(watcher.highest[1])) / (2 * kQuarter);
  std::printf("bytes of a trial: %.0f\n", growth);
  EXPECT_LT(growth, 4000) << "its trace alone is as long";
}

}  // namespace
}  // namespace tw
