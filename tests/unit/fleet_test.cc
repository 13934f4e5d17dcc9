// Tuners and measuring machines on one database of a real PostgreSQL server: within this process with a measurer whose
// times follow from the code, and as programs.
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/fleet/tuner_link.h"
#include "sampler/fleet/measuring_machine.h"
#include "sampler/search/fleet_runner.h"
#include "tests/unit/fleet_programs.h"
#include "tests/unit/search_on_fleet.h"

namespace tw {
namespace {

class FleetSearch : public SearchOnFleet {};

// A machine of this process.
class Lent {
 public:
  explicit Lent(
      const std::string& address,
      FakeMeasurer::Answer answer = [](const Kernel& kernel, const MeasureOptions&) { return time_of(kernel); })
      : Lent(address, [answer] { return std::make_unique<FakeMeasurer>(answer); }) {}
  Lent(const std::string& address, std::function<std::unique_ptr<Measurer>()> make) {
    MachineOptions options{.address = address,
                           .announced = {.name = "lent", .host = host_description()},
                           .why_no_device = [](const Target&) { return "no devices here"; },
                           .start_worker =
                               [make](const Target&) {
                                 WorkerStart start;
                                 start.measurer = make();
                                 return start;
                               },
                           .calibrator = fixed_calibration()};
    Waiting waiting{.must_stop = [this] { return stop_.load(); }, .say = [](const std::string&) {}};
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

 private:
  std::atomic<bool> stop_ = false;
  MachineReport report_;
  std::thread thread_;
};

TEST_F(FleetSearch, WithOneMachineTheCandidatesAreThoseOfToday) {
  Database local = database("local.db");
  FakeMeasurer measurer;
  Watcher here, fleet;
  TuneResult expected = run(options(), local, &measurer, here);
  Lent machine(address_);
  TuneResult found = tune_with_fleet(options(), fleet);
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(fleet.candidates, here.candidates);
  EXPECT_EQ(traces(*database_), traces(local));
  EXPECT_EQ(found.measured, expected.measured);
  EXPECT_EQ(found.same_code, expected.same_code);
  for (std::size_t i = 0; i < tasks_.size(); ++i)
    EXPECT_EQ(found.tasks[i].best_seconds, expected.tasks[i].best_seconds);
  MachineReport report = machine.take_back();
  EXPECT_EQ(report.counts.good, static_cast<i64>(records(*database_).size()));
  EXPECT_EQ(report.counts.late + report.counts.repeated + report.counts.faults, 0);
  EXPECT_TRUE(status().tuners.empty()) << "a tuner that has ended leaves nothing";
}

// While a trial is measured, the result before it is in the database, and the next trials are leased.
TEST_F(FleetSearch, AMachineDoesAllElseWhileItMeasures) {
  auto connection = PostgresConnection::open(address_);
  ASSERT_TRUE(connection) << connection.error();
  i64 measured = 0, unwritten = 0, without_next = 0;
  Lent machine(address_, [&](const Kernel& kernel, const MeasureOptions&) {
    auto rows = connection->run(
        "SELECT (SELECT count(*) FROM tracewright.records), count(*) FILTER (WHERE state = 'leased'), "
        "count(*) FILTER (WHERE state = 'queued') FROM tracewright_fleet.trials");
    EXPECT_TRUE(rows) << rows.error();
    unwritten += (*rows)[0].integer(0) < measured;
    without_next += (*rows)[0].integer(1) < 2 && (*rows)[0].integer(2) > 0;
    ++measured;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the next kernel is compiled
    return time_of(kernel);
  });
  Watcher watcher;
  EXPECT_EQ(tune_with_fleet(options(), watcher).error, "");
  machine.take_back();
  EXPECT_GT(measured, 40);
  EXPECT_EQ(unwritten, 0);
  EXPECT_LT(10 * without_next, measured) << "trials that were put in meanwhile may still be there";
}

// Asks now and then whether it shall stop, as one does whose kernels run.
class SlowMeasurer : public FakeMeasurer {
 public:
  // `seconds`: of the kernel of this number.
  SlowMeasurer(std::function<double(int)> seconds, std::function<void(int)> at_end)
      : seconds_(std::move(seconds)), at_end_(std::move(at_end)) {}
  void stop_when(std::function<bool()> is_wanted) override { is_wanted_ = std::move(is_wanted); }
  MeasureResult measure(int task, const Kernel& kernel, const MeasureOptions& options) override {
    for (double end = seconds_now() + seconds_(calls); seconds_now() < end && !is_wanted_();)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    at_end_(calls);
    return FakeMeasurer::measure(task, kernel, options);
  }

 private:
  std::function<double(int)> seconds_;
  std::function<void(int)> at_end_;
  std::function<bool()> is_wanted_;
};

// Where the server takes long to store a result, several are written together; but none waits for a long trial.
TEST_F(FleetSearch, ASlowServerGetsResultsTogether) {
  sql("create table public.writes (of bigint); create function public.slow() returns trigger language plpgsql as "
      "'begin insert into public.writes select count(*) from added; perform pg_catalog.pg_sleep(0.1); return null; "
      "end'; "
      "create trigger slow after insert on tracewright.records referencing new table as added for each statement "
      "execute function public.slow()");
  auto connection = PostgresConnection::open(address_);
  ASSERT_TRUE(connection) << connection.error();
  constexpr int kLongOnes = 10;  // every tenth trial is a long one
  int waited = 0, waited_for_long = 0;
  auto count = [&](int measured) {
    auto rows = connection->run("SELECT count(*) FROM tracewright.records");
    EXPECT_TRUE(rows) << rows.error();
    const bool is_one_unwritten = (*rows)[0].integer(0) < measured;
    (measured % kLongOnes == 0 ? waited_for_long : waited) += is_one_unwritten;
  };
  auto seconds = [](int number) { return number % kLongOnes == 0 ? kLongestHeldSeconds + 1 : 0.1; };
  Lent machine(address_, [&] { return std::make_unique<SlowMeasurer>(seconds, count); });
  Watcher watcher;
  EXPECT_EQ(tune_with_fleet(options(1, 1, 40), watcher).error, "");
  MachineReport report = machine.take_back();
  EXPECT_EQ(report.counts.good, static_cast<i64>(records(*database_).size())) << "each is stored and counted once";
  EXPECT_EQ(report.counts.late + report.counts.repeated, 0);
  EXPECT_GT(waited, 5);
  EXPECT_EQ(waited_for_long, 0);
  auto writes = connection->run("SELECT count(*), sum(of)::bigint FROM public.writes");
  EXPECT_LT(static_cast<double>((*writes)[0].integer(0)), 0.8 * static_cast<double>((*writes)[0].integer(1)));
}

// Its heartbeats go on while there are no results.
TEST_F(FleetSearch, AMachineThatMeasuresForLongIsHeard) {
  constexpr double kLongest = 3 * kHeartbeatSeconds;
  auto seen = TrialQueue::open(address_);
  ASSERT_TRUE(seen) << seen.error();
  double age = 0;
  bool is_first = true;
  Lent machine(address_, [&](const Kernel& kernel, const MeasureOptions&) {
    if (!std::exchange(is_first, false)) return time_of(kernel);
    sql("update tracewright_fleet.machines set heartbeat = heartbeat - interval '1 hour'");
    for (const double begin = seconds_now(); seconds_now() - begin < kLongest;) {
      age = seen->status()->machines.at(0).heartbeat_age;
      if (age < kLongest) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return time_of(kernel);
  });
  Watcher watcher;
  EXPECT_EQ(tune_with_fleet(options(1, 1, 4), watcher).error, "");
  EXPECT_GT(age, 0);
  EXPECT_LT(age, kLongest);
}

TEST_F(FleetSearch, SeveralMachinesAndTunersMeasureNothingTwice) {
  std::vector<std::unique_ptr<Lent>> machines;
  for (int i = 0; i < 3; ++i) machines.push_back(std::make_unique<Lent>(address_));
  Watcher first, second;
  std::thread other([&] {
    auto opened = Database::open(address_, DatabaseMode::Write);
    auto link = TunerLink::open(address_, "other");
    EXPECT_EQ(tune_on_fleet(tasks_, library(), options(/*seed=*/2), *opened, **link, second, second.stop).error, "");
  });
  EXPECT_EQ(tune_with_fleet(options(/*seed=*/1), first).error, "");
  other.join();
  i64 done = 0;
  for (auto& machine : machines) {
    MachineReport report = machine->take_back();
    done += report.counts.good;
  }
  EXPECT_GE(done, static_cast<i64>(records(*database_).size()));
  for (const TuneTask& task : tasks_) {
    std::multiset<std::string> programs;
    for (const Record& record : trials(*database_)) {
      if (record.task == task.name) programs.insert(record.program);
    }
    EXPECT_GE(static_cast<i64>(programs.size()), trials_of(task.name));
    // Two tuners may have put the same program into the queue at the same time.
    std::set<std::string> different(programs.begin(), programs.end());
    EXPECT_LE(programs.size() - different.size(), programs.size() / 10);
  }
}

TEST_F(FleetSearch, GoesOnWhereAnotherRunStopped) {
  Lent machine(address_);
  Watcher first, second;
  tune_with_fleet(options(1, 1, 10), first);
  std::size_t before = trials(*database_).size();
  TuneResult found = tune_with_fleet(options(1, 1, 20), second);
  EXPECT_EQ(found.tasks[0].trials, 20);
  EXPECT_EQ(trials(*database_).size(), before + static_cast<std::size_t>(found.measured));
  std::set<std::pair<std::string, std::string>> programs;
  for (const Record& record : trials(*database_))
    EXPECT_TRUE(programs.emplace(record.task, record.program).second) << "measured twice";
}

TEST_F(FleetSearch, AProgramThatDiffersIsNotMeasured) {
  Lent machine(address_);
  auto link = TunerLink::open(address_, "hostile");
  ASSERT_TRUE(link) << link.error();
  Waiting waiting{.must_stop = [] { return false; }, .say = [](const std::string&) {}};
  const TuneTask& task = tasks_[0];
  const Program& program = task.program.program;
  std::string workload = to_hex(structural_hash(program)), target = to_string(task.target);
  ASSERT_TRUE(database_->add_workload(workload, workload_text(program)));
  ASSERT_TRUE((*link)->machine_for(target, waiting));
  QueuedTrial good{
      .workload = workload, .target = target, .program = to_hex(normalized_hash(program)), .task = "dense"};
  std::vector<QueuedTrial> rows(5, good);
  rows[1].program = std::string(32, '0');                                         // not what the trace gives
  rows[2].program = std::string(32, '1'), rows[2].trace = "rm -rf /; import os";  // no trace
  rows[3].program = std::string(32, '2'),
  rows[3].trace = "schedule {\n  b = get_block(\"D\")\n  l0, l1 = get_loops(b)\n  fuse([l1, l0])\n}\n";
  rows[4].program = std::string(32, 'x');  // no hash
  std::map<std::size_t, TrialOutcome> ended;
  EXPECT_TRUE((*link)->measure(rows, waiting, [&](std::size_t i, const TrialOutcome& outcome) { ended[i] = outcome; }));
  ASSERT_EQ(ended.size(), rows.size());
  EXPECT_NE(ended[0].record, 0) << ended[0].message;
  for (std::size_t i : {1, 2, 3}) EXPECT_EQ(ended[i].fault, fault::kProgramDiffers) << i << ended[i].message;
  EXPECT_EQ(ended[4].fault, fault::kRefused);
  EXPECT_EQ(records(*database_).size(), 1u);
  EXPECT_EQ(machine.take_back().counts.faults, 4);
}

// What another one has measured is not measured again, although its program is another one.
TEST_F(FleetSearch, CodeThatIsKnownIsNotMeasured) {
  Waiting waiting{.must_stop = [] { return false; }, .say = [](const std::string&) {}};
  const Program& program = tasks_[0].program.program;
  QueuedTrial untuned{.workload = to_hex(structural_hash(program)),
                      .target = to_string(tasks_[0].target),
                      .program = to_hex(normalized_hash(program)),
                      .task = "dense"};
  auto measure = [&] {
    Lent machine(address_);
    auto link = TunerLink::open(address_, "tuner");
    EXPECT_TRUE(link) << link.error();
    EXPECT_TRUE(database_->add_workload(untuned.workload, workload_text(program)));
    EXPECT_TRUE((*link)->machine_for(untuned.target, waiting));
    EXPECT_TRUE((*link)->measure({untuned}, waiting, [](std::size_t, const TrialOutcome&) {}));
  };
  measure();
  Record known = records(*database_).at(0);
  ASSERT_TRUE(known.ok());
  SetUp();  // an empty database
  known.program = std::string(32, '7');
  ASSERT_TRUE(database_->add_record(known));
  measure();
  Record same = records(*database_).at(1);
  EXPECT_EQ(same.program, untuned.program);
  EXPECT_EQ(same.status, Record::same_code);
  EXPECT_EQ(same.object, known.object);
}

TEST_F(FleetSearch, AForeignWorkloadIsRefused) {
  Lent machine(address_);
  auto link = TunerLink::open(address_, "hostile");
  Waiting waiting{.must_stop = [] { return false; }, .say = [](const std::string&) {}};
  const Program& program = tasks_[0].program.program;
  std::string target = to_string(tasks_[0].target), other(32, 'a');
  ASSERT_TRUE(database_->add_workload(other, workload_text(program)));  // under a hash that is not its own
  ASSERT_TRUE((*link)->machine_for(target, waiting));
  std::vector<QueuedTrial> rows(2, {.workload = other, .target = target, .program = to_hex(normalized_hash(program))});
  rows[1].workload = std::string(32, 'b');  // that nobody has stored
  std::map<std::size_t, TrialOutcome> ended;
  EXPECT_TRUE((*link)->measure(rows, waiting, [&](std::size_t i, const TrialOutcome& outcome) { ended[i] = outcome; }));
  for (std::size_t i : {0, 1}) EXPECT_EQ(ended[i].fault, fault::kRefused) << i << ended[i].message;
  EXPECT_TRUE(records(*database_).empty());
}

// All trials of a batch end with a fault: the run says why, and ends.
TEST_F(FleetSearch, ATaskThatNobodyCanMeasureEnds) {
  Lent machine(address_);
  sql("create function tracewright_fleet.other() returns trigger language plpgsql as "
      "'begin new.program = md5(random()::text); return new; end'; "
      "create trigger other before insert on tracewright_fleet.trials for each row execute function "
      "tracewright_fleet.other()");
  Watcher watcher;
  TuneOptions how = options(1, 1, 4);
  TuneResult found = tune_with_fleet(how, watcher);
  EXPECT_EQ(found.error, "");
  EXPECT_NE(found.tasks[0].problem.find("program differs"), std::string::npos) << found.tasks[0].problem;
  EXPECT_GT(faults_, 0);
  EXPECT_TRUE(records(*database_).empty());
}

TEST_F(FleetSearch, StopsWithoutAMachine) {
  Watcher watcher;
  TuneOptions how = options();
  how.seconds = 0.01;
  TuneResult found = tune_with_fleet(how, watcher);
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(found.measured, 0);
  EXPECT_TRUE(records(*database_).empty());
}

// The first machine stops for good in the middle of a lease; the second one does its trials.
TEST_F(FleetSearch, AMachineThatHangsLosesItsTrialsToAnother) {
  std::atomic<bool> is_hanging = false, may_go_on = false;
  auto hanging = std::make_unique<Lent>(address_, [&](const Kernel& kernel, const MeasureOptions&) {
    is_hanging = true;
    is_hanging.notify_all();
    may_go_on.wait(false);
    return time_of(kernel);
  });
  Watcher watcher;
  TuneResult found;
  std::thread tuner([&] { found = tune_with_fleet(options(1, 1, 12), watcher); });
  is_hanging.wait(false);
  // As if its heartbeats had ended, too.
  sql("update tracewright_fleet.trials set deadline = deadline - interval '1 hour' where state = 'leased'");
  {
    Lent second(address_);
    tuner.join();
    EXPECT_GT(second.take_back().counts.good, 0);
  }
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(found.tasks[0].trials, 12);
  may_go_on = true;
  may_go_on.notify_all();
  EXPECT_GT(hanging->take_back().counts.late, 0);
  std::set<std::pair<std::string, std::string>> programs;
  for (const Record& record : trials(*database_))
    EXPECT_TRUE(programs.emplace(record.task, record.program).second) << "stored twice";
}

// The server is killed in the middle of a measurement, and comes back.
TEST_F(FleetSearch, ARestartOfTheServerLosesNothing) {
  std::string why;
  std::unique_ptr<test::PostgresServer> server = test::PostgresServer::start({{"fsync", "on"}}, &why);
  ASSERT_TRUE(server) << why;
  address_ = server->address(make_tuning_database(*server));
  open_database(address_, database_);
  ASSERT_TRUE(database_);
  int calls = 0;
  Lent machine(address_, [&](const Kernel& kernel, const MeasureOptions&) {
    if (++calls == 5) {
      server->kill_all();
      EXPECT_TRUE(server->start_again());
    }
    return time_of(kernel);
  });
  Watcher watcher;
  TuneResult found = tune_with_fleet(options(1, 1, 12), watcher);
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(found.tasks[0].trials, 12);
  std::set<std::pair<std::string, std::string>> programs;
  for (const Record& record : trials(*database_))
    EXPECT_TRUE(programs.emplace(record.task, record.program).second) << "stored twice";
  machine.take_back();
  database_.reset();
}

// A database that cannot be asked says nothing of the trial.
TEST_F(FleetSearch, ALostDatabaseIsNoFaultOfTheTrial) {
  QueuedTrial trial{.workload = std::string(32, 'a'), .target = to_string(host_target())};
  TrialFault fault;
  EXPECT_FALSE(read_task(trial, {}, *database_, fault));
  EXPECT_EQ(fault.kind, fault::kRefused) << "there is no such workload";
  fault = {};
  // A session that ended is opened again; here that cannot be done.
  server_->sql("postgres", cat("ALTER DATABASE ", name_, " ALLOW_CONNECTIONS false"));
  server_->end_sessions(name_);
  EXPECT_FALSE(read_task(trial, {}, *database_, fault));
  EXPECT_EQ(fault.kind, "");
  EXPECT_NE(fault.message, "");
}

// ---- as programs

TEST_F(FleetPrograms, OneTunerAndTwoMachines) {
  std::unique_ptr<Machine> first = start_machine(), second = start_machine();
  test::Finished tuned = run({"tune", "small.yaml", "--database", address_, "--measure-on", "fleet", "--json"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  boost::json::value result = boost::json::parse(tuned.out);
  EXPECT_EQ(result.at("faults").as_int64(), 0);
  test::Finished seen = run({"fleet", address_, "--json"});
  EXPECT_EQ(seen.code, 0) << seen.err;
  EXPECT_EQ(boost::json::parse(seen.out).at("machines").as_array().size(), 2u);
  EXPECT_NE(run({"fleet", address_}).out.find("trials/s"), std::string::npos);
  i64 good = 0;
  for (Machine* machine : {first.get(), second.get()}) {
    kill(machine->pid, SIGINT);
    test::Finished ended = machine->finished.get();
    EXPECT_EQ(ended.code, 130) << ended.err;
    good += boost::json::parse(ended.out).at("good").as_int64();
  }
  EXPECT_GT(good, 0);
  for (const boost::json::value& task : result.at("tasks").as_array()) {
    EXPECT_GT(task.at("best_us").to_number<double>(), 0);
    test::Finished replayed =
        run({"replay", "--record", std::to_string(task.at("record").as_int64()), "--database", address_, "--check"});
    EXPECT_EQ(replayed.code, 0) << replayed.err;
  }
}

TEST_F(FleetPrograms, AKilledMachineIsReplaced) {
  std::unique_ptr<Machine> first = start_machine();
  auto tuned = std::async(std::launch::async, [this] {
    return run({"tune", "small.yaml", "--database", address_, "--measure-on", "fleet", "--trials", "30", "--json"});
  });
  wait_until([](const FleetStatus& status) { return !status.machines.empty() && status.machines[0].leased > 0; });
  kill(first->pid, SIGKILL);
  EXPECT_EQ(first->finished.get().code, 128 + SIGKILL);
  server_->sql(name_,
               "update tracewright_fleet.trials set deadline = deadline - interval '1 hour' where state = 'leased'");
  std::unique_ptr<Machine> second = start_machine();
  test::Finished finished = tuned.get();
  EXPECT_EQ(finished.code, 0) << finished.err;
  kill(second->pid, SIGTERM);
  EXPECT_EQ(second->finished.get().code, 130);
  auto database = Database::open(address_, DatabaseMode::Read);
  ASSERT_TRUE(database) << database.error();
  std::set<std::pair<std::string, std::string>> programs;
  auto read = database->visit(
      {}, [&](Record& record) { EXPECT_TRUE(programs.emplace(record.task, record.program).second) << "stored twice"; });
  EXPECT_TRUE(read);
}

TEST_F(FleetPrograms, SaysWhatIsWrong) {
  EXPECT_EQ(run({"measure", "--database", "tuning.db"}).code, 2);
  EXPECT_EQ(run({"fleet", "tuning.db"}).code, 2);
  EXPECT_EQ(run({"tune", "small.yaml", "--measure-on", "fleet"}).code, 2);
  EXPECT_EQ(run({"tune", "small.yaml", "--measure-on", "moon"}).code, 2);
  test::Finished away = run({"measure", "--database", "postgresql://127.0.0.1:1/nothing", "--seconds", "1"});
  EXPECT_EQ(away.code, 3);
  EXPECT_NE(away.err.find("no server answers"), std::string::npos) << away.err;
  EXPECT_NE(away.err.find("waiting until the server can go on"), std::string::npos) << away.err;
  test::Finished alone =
      run({"tune", "small.yaml", "--database", address_, "--measure-on", "fleet", "--seconds", "0.1"});
  EXPECT_EQ(alone.code, 1);
  EXPECT_NE(alone.err.find("no machine measured for"), std::string::npos) << alone.err;
}

}  // namespace
}  // namespace tw
