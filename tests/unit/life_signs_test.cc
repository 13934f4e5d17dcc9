// Signs of life of machines: results count as one, and which heartbeats are left out behind them (life_signs.h).
#include "runtime/fleet/life_signs.h"

#include <gtest/gtest.h>

#include <deque>

#include "bench/fleet/simulated_machines.h"
#include "dsl/base/clock.h"
#include "dsl/base/rng.h"
#include "runtime/store/postgres_rows.h"
#include "tests/unit/queue_kit.h"

namespace tw {
namespace {

// ---- which are left out

TEST(LifeSigns, AMachineThatWritesNothingBeatsEachTime) {
  LifeSigns signs;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(signs.leave_out(4.0 * i));
  signs.note_leased(1, 20);
  for (int i = 5; i < 10; ++i) EXPECT_FALSE(signs.leave_out(4.0 * i));
}

TEST(LifeSigns, BehindAResultTwoAreLeftOut) {
  LifeSigns signs;
  for (int i = 0; i < 30; ++i) {
    signs.note_written(4.0 * i - 1);
    EXPECT_EQ(signs.leave_out(4.0 * i), i % 3 != 2) << i;
  }
  LifeSigns old;
  old.note_written(1);
  EXPECT_FALSE(old.leave_out(1 + kHeartbeatSeconds)) << "the last result is too old";
}

TEST(LifeSigns, AnOldLeaseIsProlonged) {
  LifeSigns signs;
  signs.note_leased(1, kLeaseSeconds), signs.note_leased(2, 7 + kLeaseSeconds);
  signs.note_written(7);
  EXPECT_TRUE(signs.leave_out(7.9));
  EXPECT_FALSE(signs.leave_out(8.1));
  EXPECT_FALSE(signs.leave_out(8.1)) << "nobody has said that the first lease has ended";
  signs.note_ended(1);
  EXPECT_TRUE(signs.leave_out(8.1));
  signs.note_leased(3, kLeaseSeconds), signs.forget_leases();
  EXPECT_TRUE(signs.leave_out(9));
}

// A machine and what the server knows of it, in virtual time.
struct VirtualMachine {
  struct Lease {
    i64 id;
    double leased, deadline;
  };
  explicit VirtualMachine(u64 seed) : rng(seed, 0) {}
  void lease() {
    for (int i = 0; i < 4; ++i) {
      leases.push_back({next++, now, now + (rng.below(2) == 0 ? kLeaseSeconds : kSlowLeaseSeconds)});
      signs.note_leased(leases.back().id, leases.back().deadline - rng.uniform() * kLatency);
    }
  }
  // Writes a result and leases trials when one has ended. `trial`: mean seconds of one.
  void work(double trial) {
    if (now < end) return;
    if (!leases.empty()) {
      signs.note_ended(leases.front().id), signs.note_written(now - rng.uniform() * kLatency);
      leases.pop_front();
      heard = now;
    }
    if (leases.size() <= 1) lease();
    end = now + trial * 2 * rng.uniform();
  }
  void beat() {
    if (signs.leave_out(now)) return;
    for (Lease& lease : leases) {
      if (lease.deadline < now + kProlongedSeconds)
        lease.deadline = std::min(now + kLeaseSeconds, lease.leased + kLongestLeaseSeconds);
    }
    heard = beaten = now;
    ++beats;
  }
  static constexpr double kLatency = 0.5;
  Rng rng;
  LifeSigns signs;
  std::deque<Lease> leases;
  i64 next = 1, beats = 0;
  double now = 0, end = 0, heard = 0, beaten = 0;
};

TEST(LifeSigns, NoLeaseRunsOutWhileItsMachineLives) {
  constexpr double kLong = 400, kMoment = 0.05;
  for (double trial : {0.1, 0.5, 1.0, 1.9, 2.5, 4.0, 7.0, 25.0}) {
    for (u64 seed = 0; seed < 20; ++seed) {
      VirtualMachine machine(seed);
      double next_beat = 0, least_left = kLeaseSeconds;
      for (; machine.now < kLong; machine.now += kMoment) {
        machine.work(trial);
        for (const VirtualMachine::Lease& lease : machine.leases)
          least_left = std::min(least_left, lease.deadline - machine.now);
        ASSERT_LE(machine.now - machine.heard, 2 * kHeartbeatSeconds + 4 * kMoment) << trial;
        ASSERT_LE(machine.now - machine.beaten, 3 * kHeartbeatSeconds + 4 * kMoment) << trial;
        if (machine.now < next_beat) continue;
        machine.beat();
        next_beat = machine.now + kHeartbeatSeconds;
      }
      EXPECT_GE(least_left, kProlongedSeconds - kHeartbeatSeconds - 4 * kMoment) << trial;
      if (trial <= 0.5) {
        EXPECT_LT(static_cast<double>(machine.beats), 0.4 * kLong / kHeartbeatSeconds) << trial;
      }
    }
  }
}

// ---- what the server knows

class LifeSignsOfQueue : public OneMachineTest {
 protected:
  // As if it had been silent for a while, and had said goodbye.
  void silence() const {
    sql("update tracewright_fleet.machines set heartbeat = heartbeat - interval '30 seconds', is_gone = true");
  }
  void expect_alive(const std::string& behind) {
    FleetMachine shown = this->shown(*queue_, machine_);
    EXPECT_LT(shown.heartbeat_age, 5) << behind;
    EXPECT_FALSE(shown.is_gone) << behind;
  }
  bool leave_out(double later = 0) { return queue_->life_signs()->leave_out(seconds_now() + later); }
};

TEST_F(LifeSignsOfQueue, AResultIsOne) {
  good(queue_->put(tuner_, trials(6)));
  std::vector<LeasedTrial> leased = lease(*queue_, machine_);
  ASSERT_EQ(leased.size(), 6u);
  std::vector<Record> records;
  for (const LeasedTrial& trial : leased) records.push_back(record_of(trial));
  records[1].status = "crash", records[1].seconds = 0;
  silence();
  good(queue_->finish(machine_, leased[0], records[0]));
  expect_alive("a good one");
  silence();
  good(queue_->finish(machine_, leased[1], records[1]));
  expect_alive("a failed one");
  silence();
  good(queue_->finish_with_fault(machine_, leased[2], fault::kRefused, ""));
  expect_alive("a fault");
  silence();
  good(queue_->finish(machine_, {{leased[3], records[3]}, {leased[4], records[4]}}));
  expect_alive("several");
  silence();
  good(queue_->finish(machine_, leased[0], records[0]));
  EXPECT_TRUE(shown(*queue_, machine_).is_gone) << "one that is ignored says nothing";
}

TEST_F(LifeSignsOfQueue, TheQueueKnowsLeasesAndResults) {
  good(queue_->put(tuner_, trials(6)));
  std::vector<LeasedTrial> leased = lease(*queue_, machine_);
  ASSERT_EQ(leased.size(), 6u);
  EXPECT_FALSE(leave_out()) << "no result";
  good(queue_->finish(machine_, leased[0], record_of(leased[0])));
  EXPECT_TRUE(leave_out());
  // The results that follow, where no lease is known any more that was made before.
  auto is_held = [&] {
    queue_->life_signs()->note_written(seconds_now() + 100);
    return !leave_out(100);
  };
  EXPECT_TRUE(is_held());
  good(queue_->finish_known(machine_, leased[1], 1));
  good(queue_->finish_with_fault(machine_, leased[2], fault::kRefused, ""));
  std::vector<Record> records = {record_of(leased[3]), record_of(leased[4])};
  good(queue_->finish(machine_, {{leased[3], records[0]}, {leased[4], records[1]}}));
  EXPECT_TRUE(is_held()) << "one lease is left";
  let_leases_run_out();
  EXPECT_EQ(good(queue_->finish(machine_, leased[5], record_of(leased[5]))).accepted, Accepted::Late);
  EXPECT_FALSE(is_held());
  good(queue_->put(tuner_, trials(2, 10)));
  EXPECT_EQ(lease(*queue_, machine_, 1).size(), 1u);
  EXPECT_TRUE(is_held());
  good(queue_->give_back(machine_));
  EXPECT_FALSE(is_held());
}

TEST_F(LifeSignsOfQueue, AResultThatIsIgnoredIsNone) {
  good(queue_->put(tuner_, trials(1)));
  std::vector<LeasedTrial> leased = lease(*queue_, machine_);
  let_leases_run_out();
  EXPECT_EQ(good(queue_->finish(machine_, leased[0], record_of(leased[0]))).accepted, Accepted::Late);
  EXPECT_FALSE(leave_out());
}

// ---- machines

class MachinesLive : public LifeSignsOfQueue {
 protected:
  // Simulated machines for some seconds; what `fleet` shows of them meanwhile.
  bench::SimulatedCounts live(bench::SimulatedFleet fleet, double seconds, double oldest) {
    fleet.address = address_;
    good(queue_->leave(machine_));
    bench::SimulatedMachines machines(fleet);
    const double begin = seconds_now();
    while (seconds_now() - begin < seconds) {
      for (const FleetMachine& shown : good(queue_->status()).machines) {
        if (shown.id == machine_) continue;
        EXPECT_LT(shown.heartbeat_age, oldest);
        EXPECT_FALSE(shown.is_gone);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    bench::SimulatedCounts counts = machines.counts();
    machines.stop();
    EXPECT_EQ(machines.error(), "");
    EXPECT_EQ(counts.late, 0);
    for (const FleetMachine& shown : good(queue_->status()).machines) EXPECT_EQ(shown.counts.lost, 0);
    return counts;
  }
};

TEST_F(MachinesLive, ThoseThatWriteResultsLeaveHeartbeatsOut) {
  const i64 of_any = tuner(*queue_, {.target = kCpu.target, .host = "", .machine = ""});
  good(queue_->put(of_any, trials(2000)));
  bench::SimulatedCounts counts = live({.machines = 4, .seconds = 0.2}, 13.5, kHeartbeatSeconds);
  EXPECT_GT(counts.trials(), 100);
  EXPECT_GE(counts.left_out, 4);
  EXPECT_GE(counts.beats, 2) << "the third one is sent";
}

TEST_F(MachinesLive, ThoseThatWriteNoneBeat) {
  bench::SimulatedCounts counts = live({.machines = 4, .seconds = 0.2}, 10.5, 2 * kHeartbeatSeconds);
  EXPECT_EQ(counts.left_out, 0);
  EXPECT_GE(counts.beats, 4);
}

}  // namespace
}  // namespace tw
