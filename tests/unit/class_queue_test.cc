// Classes of machines in the queue of trials, on a real PostgreSQL server: who joins which, who is set aside, and that
// no trial of one class is measured in another.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "runtime/fleet/trial_queue.h"
#include "runtime/fleet/tuner_link.h"
#include "runtime/store/database.h"
#include "tests/unit/fleet_kit.h"

namespace tw {
namespace {

const std::string kTarget = "cpu -mcpu=znver3 -threads=1", kAmd = "AMD, 2 of 2 cores, L3 32 MiB, Linux 6.1",
                  kIntel = "Intel, 2 of 2 cores, L3 30 MiB, Linux 6.1";

std::string hash_of(i64 i) {
  char text[33];
  std::snprintf(text, sizeof text, "%032llx", static_cast<unsigned long long>(i));
  return text;
}

QueuedTrial trial(i64 i, const std::string& wanted = "") {
  return {
      .workload = hash_of(7), .target = kTarget, .program = hash_of(i), .trace = "", .task = "gemm", .wanted = wanted};
}

Record record_of(const LeasedTrial& leased, const std::string& host) {
  Record record{.workload = leased.trial.workload, .target = leased.trial.target, .status = "ok", .seconds = 1e-3};
  record.program = leased.trial.program, record.task = leased.trial.task, record.trace = "schedule {\n}\n";
  record.host = host, record.version = "0";
  return record;
}

class ClassQueue : public TuningDatabaseTest {
 protected:
  static i64 machine(TrialQueue& queue, const std::string& name = "machine", const std::string& host = kAmd) {
    return good(queue.add_machine({.name = name, .host = host, .version = "0", .targets = kTarget}));
  }
  static Classified calibrate(TrialQueue& queue, i64 machine, double slower, const std::string& host = kAmd,
                              bool is_final = true) {
    return good(queue.calibrate(machine, host, calibration_times(slower), is_final));
  }
  static MeasuredTarget target_of(const Classified& own, const std::string& wanted = "") {
    return {kTarget, own.host, machine_of(own.host), wanted};
  }
  static FleetMachine shown(TrialQueue& queue, i64 machine) {
    for (const FleetMachine& shown : good(queue.status()).machines) {
      if (shown.id == machine) return shown;
    }
    ADD_FAILURE() << "no machine " << machine;
    return {};
  }
};

TEST_F(ClassQueue, MachinesThatAgreeAreOneClass) {
  TrialQueue queue = this->queue();
  Classified first = calibrate(queue, machine(queue), 1), like_it = calibrate(queue, machine(queue), 1.02),
             slower = calibrate(queue, machine(queue), 1.2), other = calibrate(queue, machine(queue), 1, kIntel),
             like_slower = calibrate(queue, machine(queue), 1.19), again = calibrate(queue, machine(queue), 0.98);
  EXPECT_EQ(first.number, 1);
  EXPECT_EQ(first.host, kAmd);
  EXPECT_EQ(like_it.number, 1);
  EXPECT_EQ(again.number, 1);
  EXPECT_EQ(slower.number, 2);
  EXPECT_EQ(slower.host, in_class(kAmd, 2));
  EXPECT_EQ(like_slower.number, 2);
  EXPECT_EQ(other.number, 1);
  EXPECT_EQ(other.host, kIntel) << "another fingerprint has classes of its own";
  for (const Classified& one : {first, like_it, slower, other, like_slower, again}) EXPECT_FALSE(one.is_aside);
}

TEST_F(ClassQueue, ADriftingMachineIsSetAsideAndComesBack) {
  TrialQueue queue = this->queue();
  i64 steady = machine(queue, "steady"), drifting = machine(queue, "drifting");
  Classified own = calibrate(queue, steady, 1);
  calibrate(queue, drifting, 1.01);
  i64 tuner = good(queue.add_tuner("tuner"));
  good(queue.want(tuner, {kTarget, own.host, machine_of(own.host)}));
  std::vector<QueuedTrial> trials;
  for (i64 i = 0; i < 4; ++i) trials.push_back(trial(i));
  good(queue.put(tuner, trials));
  EXPECT_EQ(good(queue.lease(drifting, {target_of(own)}, 1)).size(), 1u);

  EXPECT_EQ(calibrate(queue, drifting, 1.08, kAmd, /*is_final=*/false).number, 0) << "it may have been disturbed";
  EXPECT_EQ(good(queue.lease(drifting, {target_of(own)}, 1)).size(), 1u);
  Classified aside = calibrate(queue, drifting, 1.08);
  EXPECT_EQ(aside.number, 1);
  EXPECT_TRUE(aside.is_aside);
  EXPECT_NEAR(aside.difference.ratio(), 1.08, 1e-3);
  EXPECT_TRUE(good(queue.lease(drifting, {target_of(own)}, 1)).empty()) << "even if it asks";
  EXPECT_EQ(good(queue.lease(steady, {target_of(own)}, 1)).size(), 1u);
  FleetMachine named = shown(queue, drifting);
  ASSERT_EQ(named.calibrations.size(), 1u);
  EXPECT_TRUE(named.calibrations[0].is_aside);
  EXPECT_NEAR(largest_difference(named.calibrations[0].times, named.calibrations[0].class_times)->ratio(), 1.08, 1e-3);
  EXPECT_FALSE(shown(queue, steady).calibrations[0].is_aside);

  EXPECT_TRUE(calibrate(queue, drifting, 1.05).is_aside);
  EXPECT_FALSE(calibrate(queue, drifting, 1.02).is_aside) << "it agrees again";
  EXPECT_EQ(good(queue.lease(drifting, {target_of(own)}, 1)).size(), 1u);
}

TEST_F(ClassQueue, ATunerIsToldWhichMachinesAreSetAside) {
  TrialQueue queue = this->queue();
  i64 drifting = machine(queue, "drifting");
  machine(queue, "other");
  Classified own = calibrate(queue, drifting, 1);
  i64 tuner = good(queue.add_tuner("tuner"));
  good(queue.want(tuner, {kTarget, own.host, machine_of(own.host)}));
  good(queue.put(tuner, {trial(0), trial(1)}));
  auto why = [&] { return why_idle(good(queue.status()), tuner); };
  EXPECT_EQ(why(), "no machine takes the 2 trials in the queue");
  calibrate(queue, drifting, 1.08);
  EXPECT_EQ(why(),
            "no machine takes the 2 trials in the queue; set aside, as calibrations differ from those of the class: "
            "drifting (`tracewright fleet` says more)");
  calibrate(queue, drifting, 1);
  EXPECT_EQ(good(queue.lease(drifting, {target_of(own)}, 1)).size(), 1u);
  EXPECT_EQ(why(), "");
}

// Nothing makes a machine faster than it is: its class was founded when it was disturbed.
TEST_F(ClassQueue, AFasterMachineIsClassifiedAnew) {
  TrialQueue queue = this->queue();
  i64 id = machine(queue);
  EXPECT_EQ(calibrate(queue, id, 1.2).number, 1);
  EXPECT_EQ(calibrate(queue, id, 1, kAmd, /*is_final=*/false).number, 0);
  Classified anew = calibrate(queue, id, 1);
  EXPECT_EQ(anew.number, 2);
  EXPECT_FALSE(anew.is_aside);
  EXPECT_TRUE(calibrate(queue, id, 1.2).is_aside) << "it does not go back to the slower class";
  EXPECT_EQ(calibrate(queue, machine(queue), 1.2).number, 1);
}

TEST_F(ClassQueue, AClassIsNotFoundedByADisturbedCalibration) {
  TrialQueue queue = this->queue();
  EXPECT_EQ(calibrate(queue, machine(queue), 1, kAmd, /*is_final=*/false).number, 1) << "there was none";
  i64 id = machine(queue);
  EXPECT_EQ(calibrate(queue, id, 1.3, kAmd, /*is_final=*/false).number, 0);
  EXPECT_TRUE(shown(queue, id).calibrations.empty());
  EXPECT_EQ(calibrate(queue, id, 1.01, kAmd, /*is_final=*/false).number, 1);
}

TEST_F(ClassQueue, FoundsAClassOnceWhereManyComeAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<i64> others = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      TrialQueue own = queue();
      others += calibrate(own, machine(own), 1).number != 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(others, 0);
}

TEST_F(ClassQueue, AMachineThatIsNotKnownIsNoError) {
  TrialQueue queue = this->queue();
  EXPECT_EQ(calibrate(queue, machine(queue) + 100, 1).number, 1);
  EXPECT_FALSE(queue.calibrate(1, kAmd, {})) << "no times";
}

TEST_F(ClassQueue, OneTargetIsWantedOnTwoClasses) {
  TrialQueue queue = this->queue();
  i64 fast = machine(queue, "fast"), slow = machine(queue, "slow"), tuner = good(queue.add_tuner("tuner"));
  Classified first = calibrate(queue, fast, 1), second = calibrate(queue, slow, 1.5);
  for (const char* wanted : {"class 1", "class 2"}) good(queue.want(tuner, {kTarget, "", "", wanted}));
  EXPECT_EQ(good(queue.wanted_targets()).size(), 2u);
  EXPECT_EQ(good(queue.status()).tuners.at(0).waiting,
            (std::vector<std::string>{kTarget + " on class 1", kTarget + " on class 2"}));
  good(queue.offer({target_of(first, "class 1")}));
  good(queue.offer({target_of(second, "class 2")}));
  EXPECT_EQ(good(queue.found(tuner, kTarget, "class 1"))->machine, machine_of(first.host));
  EXPECT_EQ(good(queue.found(tuner, kTarget, "class 2"))->machine, machine_of(second.host));
  EXPECT_FALSE(good(queue.found(tuner, kTarget)));
  // The same program for both.
  good(queue.put(tuner, {trial(1, "class 1"), trial(1, "class 2")}));
  std::vector<MeasuredTarget> all = {target_of(first, "class 1"), target_of(second, "class 2")};
  std::vector<LeasedTrial> of_fast = good(queue.lease(fast, all, 9)), of_slow = good(queue.lease(slow, all, 9));
  ASSERT_EQ(of_fast.size(), 1u);
  ASSERT_EQ(of_slow.size(), 1u) << "what is measured in another class is no reason to wait";
  EXPECT_EQ(of_fast[0].trial.wanted, "class 1");
  EXPECT_EQ(of_slow[0].trial.wanted, "class 2");
}

TEST_F(ClassQueue, AWorkerReadsTheIncumbentOfItsTrialAlone) {
  server_->sql(name_,
               "do $$ begin create role tw_worker login; exception when duplicate_object then null; end $$; "
               "do $$ begin create role tw_tuner login; exception when duplicate_object then null; end $$");
  auto owner = PostgresConnection::open(address_);
  SchemaOptions roles{.tuner = "tw_tuner", .worker = "tw_worker", .reader = ""};
  ASSERT_TRUE(make_postgres_schema(*owner, roles));
  good(make_queue_tables(*owner, roles));
  TrialQueue tuners = good(TrialQueue::open(server_->address(name_, "tw_tuner"))),
             machines = good(TrialQueue::open(server_->address(name_, "tw_worker")));
  i64 id = machine(machines), tuner = good(tuners.add_tuner("tuner"));
  Classified own = calibrate(machines, id, 1);
  EXPECT_TRUE(calibrate(machines, id, 1.1).is_aside) << "a worker may change its own calibration";
  EXPECT_FALSE(calibrate(machines, id, 1).is_aside);
  good(tuners.want(tuner, {kTarget, own.host, machine_of(own.host)}));
  good(tuners.put(tuner, {trial(1)}));
  LeasedTrial measured = good(machines.lease(id, {target_of(own)}, 1)).at(0);
  EXPECT_FALSE(good(machines.incumbent(measured)));
  i64 best = good(machines.finish(id, measured, record_of(measured, own.host))).record;
  QueuedTrial next = trial(2);
  next.incumbent = best;
  good(tuners.put(tuner, {next}));
  LeasedTrial leased = good(machines.lease(id, {target_of(own)}, 1)).at(0);
  EXPECT_EQ(leased.trial.incumbent, best);
  std::optional<IncumbentRecord> told = good(machines.incumbent(leased));
  ASSERT_TRUE(told);
  EXPECT_EQ(told->id, best);
  EXPECT_EQ(told->program, hash_of(1));
  EXPECT_EQ(told->host, own.host);
  EXPECT_EQ(told->seconds, 1e-3);
  auto worker = PostgresConnection::open(server_->address(name_, "tw_worker"));
  EXPECT_FALSE(worker->run("SELECT trace FROM tracewright.records"));
  EXPECT_EQ(good(worker->run("SELECT count(*) FROM tracewright_fleet.incumbents"))[0].integer(0), 1);
  for (const char* change : {"UPDATE tracewright_fleet.classes SET times = ''", "DELETE FROM tracewright_fleet.classes",
                             "DELETE FROM tracewright_fleet.calibrations"})
    EXPECT_FALSE(worker->run(change)) << change;
}

// ---- random machines

// One machine that drifts, calibrates, leases for whatever class it has heard of, and measures.
class AnyMachine {
 public:
  AnyMachine(TrialQueue queue, i64 id, std::string host, double speed, Rng rng)
      : queue_(std::move(queue)), id_(id), host_(std::move(host)), speed_(speed), rng_(rng) {
    calibrate();
  }
  void step(const std::vector<MeasuredTarget>& heard_of) {
    switch (rng_.below(6)) {
      case 0:
        drift_ = rng_.below(3) > 0 ? 1 : 1 + 0.01 * static_cast<double>(rng_.below(40));
        return calibrate();
      case 1:
        return calibrate();
      case 2:
        return offer();
      default:
        return measure(heard_of);
    }
  }
  void measure(const std::vector<MeasuredTarget>& heard_of) {
    auto leased = queue_.lease(id_, heard_of, 3);
    ASSERT_TRUE(leased) << leased.error();
    EXPECT_TRUE(leased->empty() || !own_.is_aside) << "a machine that is set aside got a trial";
    for (const LeasedTrial& one : *leased) {
      auto finished = queue_.finish(id_, one, record_of(one, own_.host));
      ASSERT_TRUE(finished) << finished.error();
    }
  }
  void recover() { drift_ = 1, calibrate(), offer(); }
  const Classified& own() const { return own_; }

 private:
  void calibrate() {
    double noise = 1 + 1e-3 * (static_cast<double>(rng_.below(10)) - 5);
    auto found = queue_.calibrate(id_, host_, calibration_times(speed_ * drift_ * noise));
    ASSERT_TRUE(found) << found.error();
    own_ = *found;
    EXPECT_EQ(own_.is_aside, std::max(own_.difference.ratio(), 1 / own_.difference.ratio()) > 1 + kAgreement);
  }
  void offer() {
    if (own_.is_aside) return;
    std::vector<MeasuredTarget> own;
    FleetMachine machine{.version = "0"};
    auto wanted = queue_.wanted_targets();
    ASSERT_TRUE(wanted) << wanted.error();
    for (const MeasuredTarget& target : *wanted) {
      if (is_wanted_machine(target.wanted, fingerprint_of(machine, host_, own_.number)))
        own.push_back({kTarget, own_.host, machine_of(own_.host), target.wanted});
    }
    auto offered = own.empty() ? DatabaseStatus(Done{}) : queue_.offer(own);
    EXPECT_TRUE(offered) << offered.error();
  }

  TrialQueue queue_;
  i64 id_;
  std::string host_;
  double speed_, drift_ = 1;
  Rng rng_;
  Classified own_;
};

// Whatever machines do, the records of a tuner's target are all of one class.
TEST_F(ClassQueue, TwoClassesNeverMix) {
  constexpr int kMachines = 6, kSteps = 60, kTrials = 12;
  test::Seeds seeds = test::seeds_from_environment(2);
  const std::vector<std::string> wants = {"", "class 1", "class 2", "AMD", "Intel, class 1"};
  std::vector<MeasuredTarget> all;  // what a machine may ask for
  for (const std::string& host : {kAmd, kIntel}) {
    for (i64 number : {1, 2, 3, 4, 5, 6})
      all.push_back({kTarget, in_class(host, number), machine_of(in_class(host, number)), ""});
  }
  for (i64 seed = seeds.first; seed < seeds.end; ++seed) {
    SCOPED_TRACE(seed);
    TrialQueue tuners = queue();
    std::vector<i64> ids;
    for (const std::string& wanted : wants) {
      ids.push_back(good(tuners.add_tuner("tuner")));
      good(tuners.want(ids.back(), {kTarget, "", "", wanted}));
      std::vector<QueuedTrial> trials;
      for (i64 i = 0; i < kTrials; ++i)
        trials.push_back(trial(1000 * seed + 100 * static_cast<i64>(ids.size()) + i, wanted));
      good(tuners.put(ids.back(), trials));
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < kMachines; ++i) {
      threads.emplace_back([&, i] {
        TrialQueue own = queue();
        const std::string host = i % 2 == 0 ? kAmd : kIntel;
        i64 id = machine(own, cat("machine ", i), host);
        AnyMachine any(std::move(own), id, host, i < kMachines / 2 ? 1 : 1.25,
                       Rng(static_cast<u64>(seed), static_cast<u64>(i)));
        for (int step = 0; step < kSteps; ++step) any.step(all);
        any.recover();
        for (int step = 0; step < kTrials; ++step) any.measure(all);
      });
    }
    for (std::thread& thread : threads) thread.join();
    auto database = Database::open(address_, DatabaseMode::Read);
    ASSERT_TRUE(database) << database.error();
    i64 measured = 0;
    for (std::size_t i = 0; i < wants.size(); ++i) {
      std::optional<MeasuredTarget> found = good(tuners.found(ids[i], kTarget, wants[i]));
      for (const TrialOutcome& outcome : good(tuners.outcomes(ids[i]))) {
        ASSERT_TRUE(found);
        EXPECT_EQ(machine_of(good(database->record(outcome.record)).host), found->machine) << wants[i];
        ++measured;
      }
      good(tuners.remove_tuner(ids[i]));
    }
    EXPECT_GT(measured, kTrials) << "too little was measured to say anything";
  }
}

}  // namespace
}  // namespace tw
