// Trials, machines and results on a database of a real server, for tests of the queue.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dsl/base/text.h"
#include "runtime/store/database.h"
#include "tests/unit/fleet_kit.h"

namespace tw {

inline const MeasuredTarget kCpu{"cpu -mcpu=znver3 -threads=1", "AMD, 2 of 2 cores, L3 32 MiB, Linux 6.1",
                                 "AMD, L3 32 MiB"};

inline std::string hash_of(int i) {
  char text[33];
  std::snprintf(text, sizeof text, "%032x", i);
  return text;
}

inline QueuedTrial trial(int i) {
  return {.workload = hash_of(7),
          .target = kCpu.target,
          .program = hash_of(i),
          .trace = cat("schedule { # ", i, "\n}"),
          .task = "gemm",
          .seed = 1,
          .generation = 2};
}

inline std::vector<QueuedTrial> trials(int count, int first = 0) {
  std::vector<QueuedTrial> all;
  for (int i = 0; i < count; ++i) all.push_back(trial(first + i));
  return all;
}

inline Record record_of(const LeasedTrial& leased) {
  Record record{.workload = leased.trial.workload, .target = leased.trial.target, .status = "ok", .seconds = 1e-3};
  record.program = leased.trial.program, record.task = leased.trial.task, record.trace = leased.trial.trace;
  record.host = kCpu.host, record.version = "0";
  return record;
}

class TrialQueueTest : public TuningDatabaseTest {
 protected:
  void SetUp() override {
    TuningDatabaseTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    open_database(address_, database_);
  }

  // A tuner that wants machines for kCpu.
  i64 tuner(TrialQueue& queue, const MeasuredTarget& target = kCpu) const {
    i64 id = good(queue.add_tuner("tuner"));
    good(queue.want(id, target));
    return id;
  }
  i64 machine(TrialQueue& queue, const std::string& name = "machine") const {
    return good(queue.add_machine({.name = name, .host = kCpu.host, .version = "0", .targets = kCpu.target}));
  }
  std::vector<LeasedTrial> lease(TrialQueue& queue, i64 machine, int most = 100) const {
    return good(queue.lease(machine, {kCpu}, most));
  }
  // All leases run out.
  void let_leases_run_out() const {
    sql("update tracewright_fleet.trials set deadline = deadline - interval '1 hour' where state = 'leased'");
  }
  std::vector<Record> records() {
    std::vector<Record> all;
    auto read = database_->visit({}, [&](Record& record) { all.push_back(record); });
    EXPECT_TRUE(read) << read.error();
    return all;
  }
  FleetMachine shown(TrialQueue& queue, i64 machine) const {
    for (const FleetMachine& shown : good(queue.status()).machines) {
      if (shown.id == machine) return shown;
    }
    ADD_FAILURE() << "no machine " << machine;
    return {};
  }

  void expect_each_ended_once(const std::vector<TrialOutcome>& outcomes, const std::vector<QueuedTrial>& batch,
                              int accepted) {
    EXPECT_EQ(outcomes.size(), batch.size());
    std::set<i64> named;
    for (const TrialOutcome& outcome : outcomes) {
      EXPECT_NE(outcome.record != 0, !outcome.fault.empty()) << outcome.trial;
      if (outcome.record) named.insert(outcome.record);
    }
    std::set<std::string> programs;
    std::size_t stored = 0;
    for (const Record& record : records()) {
      if (record.workload != batch[0].workload) continue;
      ++stored;
      EXPECT_TRUE(programs.insert(record.program).second) << "measured twice: " << record.program;
      EXPECT_TRUE(named.count(record.id)) << "a record that no trial names";
    }
    EXPECT_EQ(stored, named.size());
    EXPECT_EQ(accepted, static_cast<int>(stored));
  }

  std::optional<Database> database_;
};

// With a tuner, and a machine that measures for it.
class OneMachineTest : public TrialQueueTest {
 protected:
  void SetUp() override {
    TrialQueueTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    queue_.emplace(queue());
    tuner_ = tuner(*queue_), machine_ = machine(*queue_);
  }

  std::optional<TrialQueue> queue_;
  i64 tuner_ = 0, machine_ = 0;
};

}  // namespace tw
