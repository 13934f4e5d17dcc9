// Measuring machines of several classes on one database of a real PostgreSQL server: within this process, with a
// measurer whose times follow from the code, and calibrations that a test slows down.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "dsl/base/text.h"
#include "runtime/fleet/tuner_link.h"
#include "sampler/fleet/measuring_machine.h"
#include "sampler/search/fleet_runner.h"
#include "tests/unit/search_on_fleet.h"

namespace tw {
namespace {

// A machine of this process. `slower`: what its calibrations take, as a multiple of the usual times.
class Lent {
 public:
  explicit Lent(
      const std::string& address, double slower = 1,
      FakeMeasurer::Answer answer = [](const Kernel& kernel, const MeasureOptions&) { return time_of(kernel); },
      bool is_calibrated = true)
      : slower(slower) {
    MachineOptions options{.address = address,
                           .announced = {.name = "lent", .host = host_description(), .version = "0"},
                           .why_no_device = [](const Target&) { return "no devices here"; },
                           .start_worker =
                               [this, answer](const Target&) {
                                 WorkerStart start;
                                 start.measurer = std::make_unique<FakeMeasurer>(
                                     [this, answer](const Kernel& kernel, const MeasureOptions& options) {
                                       ++measured;
                                       return answer(kernel, options);
                                     });
                                 return start;
                               },
                           .calibrate_every = 4,
                           .aside_seconds = 0.02,
                           .calibrator = [this, is_calibrated](Measurer&, const Target&) -> Calibrate {
                             if (!is_calibrated) return {};
                             return [this](const std::function<bool()>&) {
                               ++calibrated;
                               return Calibration{.times = calibration_times(this->slower)};
                             };
                           }};
    Waiting waiting{.must_stop = [this] { return stop_.load(); },
                    .say =
                        [this](const std::string& text) {
                          std::lock_guard lock(mutex_);
                          said_ += text + "\n";
                        }};
    thread_ = std::thread([this, machine = std::make_shared<MeasuringMachine>(std::move(options), waiting)] {
      report_ = machine->run();
    });
  }
  ~Lent() {
    if (thread_.joinable()) take_back();
  }
  MachineReport take_back() {
    stop_ = true;
    thread_.join();
    EXPECT_EQ(report_.error, "");
    return report_;
  }
  std::string said() {
    std::lock_guard lock(mutex_);
    return said_;
  }
  std::atomic<double> slower;
  std::atomic<int> measured = 0, calibrated = 0;

 private:
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::string said_;
  MachineReport report_;
  std::thread thread_;
};

class FleetClasses : public SearchOnFleet {
 protected:
  // Until `is_true` of the queue's state.
  void wait_until(const std::function<bool(const FleetStatus&)>& is_true) const {
    auto queue = TrialQueue::open(address_);
    ASSERT_TRUE(queue) << queue.error();
    for (;;) {
      auto status = queue->status();
      ASSERT_TRUE(status) << status.error();
      if (is_true(*status)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  static bool has_class(const FleetStatus& status, std::size_t machines) {
    return status.machines.size() == machines &&
           std::ranges::all_of(status.machines, [](const FleetMachine& m) { return !m.calibrations.empty(); });
  }
  std::set<std::string> machines_of(const std::string& task) {
    std::set<std::string> machines;
    for (const Record& record : records(*database_)) {
      if (record.task == task) machines.insert(machine_of(record.host));
    }
    return machines;
  }
};

// One of two machines drifts in the middle of a run: it stops, the other one does the rest, and it comes back.
TEST_F(FleetClasses, AMachineThatDriftsIsSetAsideAndComesBack) {
  Lent steady(address_);
  wait_until([](const FleetStatus& status) { return has_class(status, 1); });
  std::atomic<bool> has_begun = false;
  Lent drifting(address_, 1, [&](const Kernel& kernel, const MeasureOptions&) {
    has_begun = true;
    return time_of(kernel);
  });
  wait_until([](const FleetStatus& status) { return has_class(status, 2); });
  Watcher watcher;
  TuneResult found;
  std::thread tuner([&] { found = tune_with_fleet(options(1, 1, 80), watcher); });
  while (!has_begun) std::this_thread::yield();
  drifting.slower = 1.1;
  wait_until([](const FleetStatus& status) { return status.machines[1].calibrations[0].is_aside; });
  const int at = drifting.measured;
  const FleetStatus seen = status();
  EXPECT_FALSE(seen.machines[0].calibrations[0].is_aside);
  EXPECT_NEAR(
      largest_difference(seen.machines[1].calibrations[0].times, seen.machines[1].calibrations[0].class_times)->ratio(),
      1.1, 1e-3);
  tuner.join();
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(drifting.measured, at) << "it went on measuring";
  EXPECT_NE(drifting.said().find("set aside and gets no trials: arithmetic takes 6.6 us, 10.0 % more"),
            std::string::npos)
      << drifting.said();
  drifting.slower = 1;
  wait_until([](const FleetStatus& status) { return !status.machines[1].calibrations[0].is_aside; });
  EXPECT_NE(drifting.said().find("agrees with its class again"), std::string::npos);
  EXPECT_EQ(drifting.take_back().times_aside, 1);
  EXPECT_EQ(steady.take_back().times_aside, 0);
}

TEST_F(FleetClasses, CalibratesAgainEverySoManyTrials) {
  Lent machine(address_);
  Watcher watcher;
  tune_with_fleet(options(1, 1, 20), watcher);
  MachineReport report = machine.take_back();
  EXPECT_EQ(report.calibrations, machine.calibrated);
  // A lease of four trials may be halfway through when the fourth is done.
  EXPECT_GE(machine.calibrated, 1 + machine.measured / 8);
  EXPECT_LE(machine.calibrated, 1 + machine.measured / 4);
}

TEST_F(FleetClasses, AnotherClassLeavesTheTrialsAlone) {
  Lent fast(address_);
  wait_until([](const FleetStatus& status) { return has_class(status, 1); });
  Lent slow(address_, 1.5);
  wait_until([](const FleetStatus& status) { return has_class(status, 2); });
  Watcher watcher;
  EXPECT_EQ(tune_with_fleet(options(1, 1, 20), watcher).error, "");
  for (const TuneTask& task : tasks_) EXPECT_EQ(machines_of(task.name).size(), 1u);
  EXPECT_EQ(status().machines[1].calibrations[0].number, 2);
}

// It shares the trials of the first class, though its calibration would say otherwise.
TEST_F(FleetClasses, UncalibratedMachinesAreOneClass) {
  auto answer = [](const Kernel& kernel, const MeasureOptions&) { return time_of(kernel); };
  Lent calibrated(address_);
  wait_until([](const FleetStatus& status) { return has_class(status, 1); });
  Lent slow(address_, 1.5, answer, /*is_calibrated=*/false);
  wait_until([](const FleetStatus& status) { return status.machines.size() == 2; });
  Watcher watcher;
  EXPECT_EQ(tune_with_fleet(options(1, 1, 20), watcher).error, "");
  for (const TuneTask& task : tasks_)
    EXPECT_EQ(machines_of(task.name), std::set<std::string>{machine_of(host_description())});
  EXPECT_GT(slow.measured, 0);
  EXPECT_EQ(slow.take_back().calibrations, 0);
  EXPECT_EQ(slow.calibrated, 0);
}

// Two tasks with one program, each for a class of its own.
TEST_F(FleetClasses, OneTaskOnTwoClasses) {
  auto slowed = [](double factor) {
    return [factor](const Kernel& kernel, const MeasureOptions&) {
      MeasureResult result = time_of(kernel);
      result.seconds *= factor;
      return result;
    };
  };
  Lent fast(address_, 1, slowed(1));
  wait_until([](const FleetStatus& status) { return has_class(status, 1); });
  Lent slow(address_, 1.5, slowed(1.5));
  wait_until([](const FleetStatus& status) { return has_class(status, 2); });
  tasks_ = {};
  for (const char* machine : {"class 1", "class 2"}) {
    TuneTask task = task_of("softmax", {{"M", i64{8}}, {"N", i64{64}}});
    task.name = machine, task.machine = machine;
    tasks_.push_back(std::move(task));
  }
  Watcher watcher;
  TuneResult found = tune_with_fleet(options(1, 1, kSoftmaxSpace), watcher);
  EXPECT_EQ(found.error, "");
  const std::string here = machine_of(host_description());
  EXPECT_EQ(machines_of("class 1"), std::set<std::string>{here});
  EXPECT_EQ(machines_of("class 2"), std::set<std::string>{in_class(here, 2)});
  ASSERT_EQ(found.tasks.size(), 2u);
  for (const TaskProgress& task : found.tasks) EXPECT_EQ(task.trials, kSoftmaxSpace) << task.name;
  // The whole space was measured on both.
  EXPECT_NEAR(found.tasks[1].best_seconds / found.tasks[0].best_seconds, 1.5, 1e-4);
}

TEST_F(FleetClasses, WaitsForTheMachineThatIsNamed) {
  Lent machine(address_);
  tasks_[0].machine = "Cray-1";
  Watcher watcher;
  TuneOptions how = options();
  how.seconds = 0.3;
  TuneResult found = tune_with_fleet(how, watcher);
  EXPECT_EQ(found.measured, 0);
  EXPECT_EQ(machine.take_back().counts.good, 0);
}

// Kernels' times lie close together, and the second machine is 3 % slower than the first one: within their class. The
// trials of both are compared by ratios: times in records are those of one machine, whichever measured.
class FleetRatios : public FleetClasses {
 protected:
  // By object code: what a kernel takes on the first machine.
  std::map<std::string, double> true_;
  std::mutex mutex_;

  static double true_seconds(const Kernel& kernel) {
    return 1e-3 * (1 + 1e-4 * static_cast<double>(hash_of(kernel) % 997));
  }
  FakeMeasurer::Answer answer(double slower) {
    return [this, slower](const Kernel& kernel, const MeasureOptions& options) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // so that both get their part
      MeasureResult result;
      result.status = MeasureStatus::Ok;
      result.seconds = result.min_seconds = result.median_seconds = slower * true_seconds(kernel);
      if (options.incumbent) result.ratio = true_seconds(kernel) / true_seconds(*options.incumbent);
      std::lock_guard lock(mutex_);
      true_[to_hex(object_hash(kernel))] = true_seconds(kernel);
      return result;
    };
  }
  void expect_one_scale(const std::string& address) {
    Lent first(address, 1, answer(1)), second(address, 1.02, answer(1.03));
    wait_until([](const FleetStatus& status) { return has_class(status, 2); });
    tasks_.erase(tasks_.begin() + 1, tasks_.end());
    Watcher watcher;
    EXPECT_EQ(tune_with_fleet(options(1, 1, 120), watcher).error, "");
    first.take_back(), second.take_back();
    EXPECT_GT(first.measured, 30);
    EXPECT_GT(second.measured, 30);
    std::vector<Record> all = trials(*database_);
    ASSERT_GT(all.size(), 100u);
    double least = 1e9, most = 0;
    for (std::size_t i = all.size() - 50; i < all.size(); ++i) {
      double scale = all[i].seconds / true_.at(all[i].object);
      least = std::min(least, scale), most = std::max(most, scale);
    }
    // A candidate that is slower by less than what can be told is taken for as fast as the best.
    EXPECT_LT(most / least, 1.0025);
  }
};

TEST_F(FleetRatios, AreComparedAcrossMachines) { expect_one_scale(address_); }

// The tuner tells these what the best kernel is.
TEST_F(FleetRatios, AreComparedAcrossMachinesThatReadNoRecords) {
  server_->sql(name_, "do $$ begin create role tw_worker login; exception when duplicate_object then null; end $$");
  auto owner = PostgresConnection::open(address_);
  SchemaOptions roles{.tuner = "", .worker = "tw_worker", .reader = ""};
  ASSERT_TRUE(make_postgres_schema(*owner, roles));
  ASSERT_TRUE(make_queue_tables(*owner, roles));
  expect_one_scale(server_->address(name_, "tw_worker"));
}

}  // namespace
}  // namespace tw
