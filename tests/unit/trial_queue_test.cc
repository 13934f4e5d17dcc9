// The queue of trials on a real PostgreSQL server: what is leased, by whom, and what becomes of it. Time passes by
// moving deadlines and heartbeats into the past: nothing waits.
#include "runtime/fleet/trial_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "dsl/base/clock.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "runtime/fleet/lasting_queue.h"
#include "runtime/fleet/queue_sql.h"
#include "support/lossy_proxy.h"
#include "tests/unit/queue_kit.h"

namespace tw {
namespace {

const MeasuredTarget kOtherCpu{kCpu.target, "Intel, 2 of 2 cores, Linux 6.1", "Intel"};

TEST_F(TrialQueueTest, CarriesTrialsAndRecords) {
  TrialQueue tuners = queue(), machines = queue();
  i64 tuner = this->tuner(tuners), machine = this->machine(machines);
  QueuedTrial hostile = trial(1);
  hostile.task = "'); drop table tracewright_fleet.trials; --", hostile.seed = ~u64{0}, hostile.is_cold = true;
  std::vector<i64> ids = good(tuners.put(tuner, {trial(0), hostile}));
  std::vector<LeasedTrial> leased = lease(machines, machine);
  ASSERT_EQ(leased.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(leased[i].id, ids[i]);
  EXPECT_EQ(leased[0].trial.trace, trial(0).trace);
  EXPECT_EQ(leased[1].trial.task, hostile.task);
  EXPECT_EQ(leased[1].trial.seed, hostile.seed);
  EXPECT_TRUE(leased[1].trial.is_cold);
  EXPECT_TRUE(good(tuners.outcomes(tuner)).empty());
  Finished finished = good(machines.finish(machine, leased[1], record_of(leased[1])));
  EXPECT_EQ(finished.accepted, Accepted::Yes);
  std::vector<TrialOutcome> outcomes = good(tuners.outcomes(tuner));
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].trial, ids[1]);
  EXPECT_EQ(outcomes[0].record, finished.record);
  EXPECT_EQ(outcomes[0].machine, "machine");
  ASSERT_EQ(records().size(), 1u);
  EXPECT_EQ(records()[0].id, finished.record);
  EXPECT_EQ(records()[0].task, hostile.task);
  FleetMachine counts = shown(machines, machine);
  EXPECT_EQ(counts.counts.good, 1);
  EXPECT_EQ(counts.leased, 1);
}

TEST_F(TrialQueueTest, LeasesEachTrialOnce) {
  constexpr int kTrials = 240, kThreads = 8;
  TrialQueue tuners = queue();
  i64 tuner = this->tuner(tuners);
  good(tuners.put(tuner, trials(kTrials)));
  std::mutex mutex;
  std::multiset<i64> taken;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      TrialQueue own = queue();
      i64 id = machine(own, cat("machine ", thread));
      for (int most = 1;; most = most % 3 + 1) {
        std::vector<LeasedTrial> leased = lease(own, id, most);
        // A row that another one is leasing at this moment is passed over.
        if (leased.empty() && good(own.status()).tuners.at(0).queued == 0) return;
        EXPECT_LE(leased.size(), static_cast<std::size_t>(most));
        for (const LeasedTrial& one : leased) {
          EXPECT_EQ(good(own.finish(id, one, record_of(one))).accepted, Accepted::Yes);
          std::lock_guard lock(mutex);
          taken.insert(one.id);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken.size(), static_cast<std::size_t>(kTrials));
  EXPECT_EQ(std::set<i64>(taken.begin(), taken.end()).size(), taken.size()) << "a trial was leased twice";
  EXPECT_EQ(good(tuners.outcomes(tuner)).size(), static_cast<std::size_t>(kTrials));
  EXPECT_EQ(records().size(), static_cast<std::size_t>(kTrials));
}

TEST_F(TrialQueueTest, GoesBackOnceThenTheMachineIsLost) {
  TrialQueue tuners = queue(), machines = queue();
  i64 tuner = this->tuner(tuners), first = machine(machines, "first"), second = machine(machines, "second");
  good(tuners.put(tuner, trials(1)));
  std::vector<LeasedTrial> early = lease(machines, first);
  ASSERT_EQ(early.size(), 1u);
  let_leases_run_out();
  EXPECT_TRUE(lease(machines, first).empty()) << "it is for another machine";
  EXPECT_TRUE(good(tuners.outcomes(tuner)).empty());
  std::vector<LeasedTrial> again = lease(machines, second);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].id, early[0].id);
  EXPECT_NE(again[0].lease, early[0].lease);
  EXPECT_EQ(good(machines.finish(first, early[0], record_of(early[0]))).accepted, Accepted::Late);
  let_leases_run_out();
  std::vector<TrialOutcome> outcomes = good(tuners.outcomes(tuner));
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].fault, fault::kMachineLost);
  EXPECT_EQ(outcomes[0].record, 0);
  EXPECT_TRUE(lease(machines, machine(machines, "third")).empty());
  EXPECT_EQ(good(machines.finish(second, again[0], record_of(again[0]))).accepted, Accepted::Late);
  EXPECT_TRUE(records().empty());
  EXPECT_EQ(shown(machines, first).counts.lost, 1);
  EXPECT_EQ(shown(machines, first).counts.late, 1);
  EXPECT_EQ(shown(machines, second).counts.lost, 1);
  EXPECT_EQ(good(tuners.status()).faults.size(), 2u) << "one of each machine";
}

TEST_F(TrialQueueTest, ComesBackToItsOnlyMachineInTheEnd) {
  TrialQueue queue = this->queue();
  i64 tuner = this->tuner(queue), machine = this->machine(queue);
  good(queue.put(tuner, trials(1)));
  ASSERT_EQ(lease(queue, machine).size(), 1u);
  let_leases_run_out();
  EXPECT_TRUE(lease(queue, machine).empty());
  sql("update tracewright_fleet.trials set lost = lost - interval '1 hour'");
  EXPECT_EQ(lease(queue, machine).size(), 1u);
}

TEST_F(TrialQueueTest, IgnoresAResultAfterTheDeadline) {
  TrialQueue queue = this->queue();
  i64 tuner = this->tuner(queue), machine = this->machine(queue);
  good(queue.put(tuner, trials(1)));
  std::vector<LeasedTrial> leased = lease(queue, machine);
  let_leases_run_out();  // and nobody has noticed yet
  EXPECT_EQ(good(queue.finish(machine, leased[0], record_of(leased[0]))).accepted, Accepted::Late);
  EXPECT_TRUE(records().empty());
  EXPECT_EQ(shown(queue, machine).counts.late, 1);
  i64 other = this->machine(queue, "other");
  std::vector<LeasedTrial> again = lease(queue, other);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(good(queue.finish(other, again[0], record_of(again[0]))).accepted, Accepted::Yes);
  EXPECT_EQ(records().size(), 1u);
}

TEST_F(TrialQueueTest, IgnoresARepeatedResult) {
  TrialQueue queue = this->queue();
  i64 tuner = this->tuner(queue), machine = this->machine(queue);
  good(queue.put(tuner, trials(1)));
  std::vector<LeasedTrial> leased = lease(queue, machine);
  EXPECT_EQ(good(queue.finish(machine, leased[0], record_of(leased[0]))).accepted, Accepted::Yes);
  EXPECT_EQ(good(queue.finish(machine, leased[0], record_of(leased[0]))).accepted, Accepted::Repeated);
  EXPECT_EQ(good(queue.finish_with_fault(machine, leased[0], fault::kRefused, "no")).accepted, Accepted::Repeated);
  EXPECT_EQ(records().size(), 1u);
  EXPECT_EQ(shown(queue, machine).counts.repeated, 2);
  EXPECT_EQ(shown(queue, machine).counts.good, 1);
  EXPECT_TRUE(good(queue.outcomes(tuner)).at(0).fault.empty());
}

TEST_F(TrialQueueTest, RefusesALeaseThatIsNotItsOwn) {
  TrialQueue queue = this->queue();
  i64 tuner = this->tuner(queue), machine = this->machine(queue), other = this->machine(queue, "other");
  good(queue.put(tuner, trials(2)));
  std::vector<LeasedTrial> leased = lease(queue, machine, 1);
  LeasedTrial guessed = leased[0];
  ++guessed.lease;
  EXPECT_EQ(good(queue.finish(other, guessed, record_of(guessed))).accepted, Accepted::Late);
  LeasedTrial queued = leased[0];  // that nobody has leased
  ++queued.id;
  EXPECT_EQ(good(queue.finish(other, queued, record_of(queued))).accepted, Accepted::Late);
  EXPECT_TRUE(records().empty());
}

TEST_F(TrialQueueTest, HeartbeatsProlongLeasesButNotForEver) {
  TrialQueue queue = this->queue();
  i64 tuner = this->tuner(queue), machine = this->machine(queue);
  good(queue.put(tuner, trials(1)));
  std::vector<LeasedTrial> leased = lease(queue, machine);
  const std::string changed = "select string_agg(xmin::text, ' ') from tracewright_fleet.trials";
  auto row = [&] { return good(queue.connection().run(changed))[0].text(0); };
  const std::string before = row();
  EXPECT_TRUE(good(queue.beat_machine(machine)));
  EXPECT_EQ(row(), before) << "most trials end before their lease has to be prolonged";
  sql("update tracewright_fleet.trials set deadline = clock_timestamp() + interval '1 second'");
  EXPECT_TRUE(good(queue.beat_machine(machine)));
  sql(cat("update tracewright_fleet.trials set deadline = deadline - interval '", kLeaseSeconds / 2, " seconds'"));
  EXPECT_EQ(good(queue.tidy()), 0) << "the heartbeat had not prolonged it";
  sql("update tracewright_fleet.trials set leased = leased - interval '1 day'");
  EXPECT_TRUE(good(queue.beat_machine(machine)));
  EXPECT_EQ(good(queue.tidy()), 1) << "a lease must not be prolonged for ever";
  EXPECT_FALSE(good(queue.beat_machine(machine + 100))) << "a machine that is not known";
}

TEST_F(TrialQueueTest, GivesBackWithoutBlame) {
  TrialQueue queue = this->queue();
  i64 tuner = this->tuner(queue), machine = this->machine(queue);
  good(queue.put(tuner, trials(3)));
  std::vector<LeasedTrial> leased = lease(queue, machine, 2);
  EXPECT_EQ(good(queue.give_back(machine)), 2);
  EXPECT_EQ(good(queue.finish(machine, leased[0], record_of(leased[0]))).accepted, Accepted::Late);
  EXPECT_EQ(lease(queue, machine).size(), 3u) << "the same machine may take them again";
  EXPECT_EQ(shown(queue, machine).counts.lost, 0);
}

TEST_F(TrialQueueTest, RemovesTheTrialsOfATunerThatIsGone) {
  TrialQueue queue = this->queue();
  i64 gone = tuner(queue), alive = tuner(queue), machine = this->machine(queue);
  good(queue.put(gone, trials(2)));
  good(queue.put(alive, trials(1)));
  std::vector<LeasedTrial> leased = lease(queue, machine, 1);
  sql("update tracewright_fleet.tuners set heartbeat = heartbeat - interval '1 hour'");
  EXPECT_TRUE(good(queue.beat_tuner(alive)));
  good(queue.tidy());
  EXPECT_FALSE(good(queue.beat_tuner(gone)));
  EXPECT_EQ(good(queue.finish(machine, leased[0], record_of(leased[0]))).accepted, Accepted::Late);
  EXPECT_EQ(lease(queue, machine).size(), 1u);
  FleetStatus status = good(queue.status());
  ASSERT_EQ(status.tuners.size(), 1u);
  EXPECT_EQ(status.tuners[0].id, alive);
}

TEST_F(TrialQueueTest, AProgramIsMeasuredForOneTunerAtATime) {
  TrialQueue queue = this->queue();
  i64 first = tuner(queue), second = tuner(queue), machine = this->machine(queue), other = this->machine(queue);
  good(queue.put(first, trials(1)));
  good(queue.put(second, trials(1)));
  std::vector<LeasedTrial> leased = lease(queue, machine, 1);
  ASSERT_EQ(leased.size(), 1u);
  EXPECT_TRUE(lease(queue, other).empty());
  Finished done = good(queue.finish(machine, leased[0], record_of(leased[0])));
  std::vector<LeasedTrial> again = lease(queue, other);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(good(queue.finish_known(other, again[0], done.record)).accepted, Accepted::Yes);
  EXPECT_EQ(records().size(), 1u);
  EXPECT_EQ(good(queue.outcomes(second)).at(0).record, done.record);
}

TEST_F(TrialQueueTest, AWorkerPutsNothingIn) {
  sql("do $$ begin create role tw_worker login; exception when duplicate_object then null; end $$; "
      "do $$ begin create role tw_tuner login; exception when duplicate_object then null; end $$");
  auto owner = PostgresConnection::open(address_);
  SchemaOptions roles{.tuner = "tw_tuner", .worker = "tw_worker", .reader = ""};
  ASSERT_TRUE(make_postgres_schema(*owner, roles));
  good(make_queue_tables(*owner, roles));
  auto open = [&](const std::string& role) { return good(TrialQueue::open(server_->address(name_, role))); };
  TrialQueue tuners = open("tw_tuner"), machines = open("tw_worker");
  i64 tuner = this->tuner(tuners), machine = this->machine(machines);
  good(tuners.put(tuner, trials(2)));
  std::vector<LeasedTrial> leased = lease(machines, machine);
  ASSERT_EQ(leased.size(), 2u);
  EXPECT_EQ(good(machines.finish(machine, leased[0], record_of(leased[0]))).accepted, Accepted::Yes);
  EXPECT_TRUE(good(machines.beat_machine(machine)));
  let_leases_run_out();
  EXPECT_EQ(good(tuners.tidy()), 1);
  EXPECT_EQ(good(tuners.outcomes(tuner)).size(), 1u);
  good(machines.leave(machine));
  EXPECT_FALSE(machines.put(tuner, trials(3))) << "a worker must not make others work";
  EXPECT_FALSE(machines.add_tuner("worker"));
  EXPECT_FALSE(machines.remove_trials(tuner, true));
  auto worker = PostgresConnection::open(server_->address(name_, "tw_worker"));
  ASSERT_TRUE(worker);
  for (const char* change : {"trials SET trace = ''", "trials SET program = program", "trials SET seed = 1",
                             "trials SET tuner = tuner", "targets SET target = ''", "tuners SET name = ''"})
    EXPECT_FALSE(worker->run(cat("UPDATE tracewright_fleet.", change))) << change;
  good(tuners.remove_tuner(tuner));
}

// Another session locks the machine, then the trial; a result needs the trial, then the machine. The server ends the
// queue's transaction, because the other session would wait for much longer before it looks for a deadlock.
TEST_F(TrialQueueTest, ADeadlockIsNoError) {
  TrialQueue tuners = queue(), machines = queue();
  i64 tuner = this->tuner(tuners), machine = this->machine(machines);
  good(tuners.put(tuner, trials(1)));
  LeasedTrial leased = lease(machines, machine).at(0);
  auto other = PostgresConnection::open(address_);
  ASSERT_TRUE(other);
  good(other->script(cat(
      "SET deadlock_timeout = '20s'; BEGIN; UPDATE tracewright_fleet.machines SET lost = lost WHERE id = ", machine)));
  std::thread finishing([&] {
    auto finished = machines.finish(machine, leased, record_of(leased));
    ASSERT_TRUE(finished) << finished.error();
    EXPECT_EQ(finished->accepted, Accepted::Yes);
  });
  auto is_waiting = [&] {
    return good(other->run("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"))[0].integer(
               0) > 0;
  };
  while (!is_waiting()) std::this_thread::yield();
  auto locked = other->run("SELECT 1 FROM tracewright_fleet.trials WHERE id = $1 FOR UPDATE", {leased.id});
  EXPECT_TRUE(locked) << locked.error();
  good(other->script("ROLLBACK"));
  finishing.join();
  EXPECT_EQ(records().size(), 1u);
}

TEST_F(TrialQueueTest, TheFirstMachineDecidesWhoMeasures) {
  TrialQueue queue = this->queue();
  i64 tuner = this->tuner(queue, {kCpu.target, "", ""}), machine = this->machine(queue);
  ASSERT_EQ(good(queue.wanted_targets()).size(), 1u);
  EXPECT_EQ(good(queue.wanted_targets())[0].target, kCpu.target);
  EXPECT_FALSE(good(queue.found(tuner, kCpu.target)));
  EXPECT_EQ(good(queue.status()).tuners.at(0).waiting, std::vector<std::string>{kCpu.target});
  good(queue.offer({kCpu}));
  good(queue.offer({kOtherCpu}));
  std::optional<MeasuredTarget> found = good(queue.found(tuner, kCpu.target));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->host, kCpu.host);
  good(queue.put(tuner, trials(1)));
  EXPECT_TRUE(good(queue.lease(machine, {kOtherCpu}, 1)).empty()) << "its times are not comparable";
  EXPECT_EQ(lease(queue, machine).size(), 1u);
}

TEST_F(TrialQueueTest, TheDatabaseRefusesHugeRows) {
  TrialQueue queue = this->queue();
  i64 tuner = this->tuner(queue), machine = this->machine(queue);
  QueuedTrial huge = trial(1), wrong = trial(1);
  huge.trace.assign(kLongestTrace + 1, 'x');
  wrong.program = "no hash";
  EXPECT_FALSE(queue.put(tuner, {trial(0), huge}));
  EXPECT_FALSE(queue.put(tuner, {trial(0), wrong}));
  EXPECT_TRUE(lease(queue, machine).empty()) << "all of a batch, or nothing";
  huge.trace.resize(kLongestTrace);
  good(queue.put(tuner, {huge}));
  std::vector<LeasedTrial> leased = lease(queue, machine);
  ASSERT_EQ(leased.size(), 1u);
  EXPECT_EQ(good(queue.finish_with_fault(machine, leased[0], fault::kRefused, std::string(100000, 'x'))).accepted,
            Accepted::Yes);
  EXPECT_EQ(good(queue.outcomes(tuner)).at(0).message.size(), kLongestMessage);
}

// A machine that does anything, in any order.
class AnyMachine {
 public:
  AnyMachine(TrialQueue queue, i64 id, Rng rng, std::function<void()> let_time_pass)
      : queue_(std::move(queue)), id_(id), rng_(rng), let_time_pass_(std::move(let_time_pass)) {}

  // Returns how many records were accepted.
  int step() {
    switch (rng_.below(8)) {
      case 0:
        if (rng_.below(2) == 0) let_time_pass_();
        return 0;
      case 1:
        EXPECT_TRUE(rng_.below(2) == 0 ? static_cast<bool>(queue_.give_back(id_))
                                       : static_cast<bool>(queue_.beat_machine(id_)));
        return 0;
      case 2:
        if (old_.empty()) return 0;
        EXPECT_EQ(finish(old_.back()), 0) << "the end of a lease that has ended";
        return 0;
      case 3:
      case 4:
        lease(3);
        return 0;
      default:
        return held_.empty() ? 0 : finish_last();
    }
  }
  int finish_all() {
    int accepted = 0;
    while (!held_.empty()) accepted += finish_last();
    return accepted;
  }
  void lease(int most) {
    auto leased = queue_.lease(id_, {kCpu}, most);
    ASSERT_TRUE(leased) << leased.error();
    held_.insert(held_.end(), leased->begin(), leased->end());
  }

 private:
  int finish_last() {
    LeasedTrial last = held_.back();
    held_.pop_back();
    old_.push_back(last);
    if (rng_.below(8) > 0) return finish(last);
    EXPECT_TRUE(queue_.finish_with_fault(id_, last, fault::kProgramDiffers, ""));
    return 0;
  }
  int finish(const LeasedTrial& leased) {
    auto finished = queue_.finish(id_, leased, record_of(leased));
    EXPECT_TRUE(finished) << finished.error();
    return finished->accepted == Accepted::Yes;
  }

  TrialQueue queue_;
  i64 id_;
  Rng rng_;
  std::function<void()> let_time_pass_;
  std::vector<LeasedTrial> held_, old_;  // held: maybe not any more
};

// Whatever machines do, each trial ends once: with one record, or with a fault and none.
TEST_F(TrialQueueTest, NothingIsLostOrDoneTwiceUnderRandomCalls) {
  constexpr int kTrials = 60, kMachines = 4, kSteps = 400;
  test::Seeds seeds = test::seeds_from_environment(3);
  auto let_time_pass = [this] {
    sql("update tracewright_fleet.trials set deadline = deadline - interval '1 hour', lost = lost - interval '1 hour'");
  };
  for (i64 seed = seeds.first; seed < seeds.end; ++seed) {
    SCOPED_TRACE(seed);
    TrialQueue tuners = queue();
    i64 tuner = this->tuner(tuners);
    std::vector<QueuedTrial> batch = trials(kTrials);
    for (QueuedTrial& one : batch) one.workload = hash_of(100 + static_cast<int>(seed));
    good(tuners.put(tuner, batch));
    std::atomic<int> accepted = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kMachines; ++i) {
      threads.emplace_back([&, i] {
        TrialQueue own = queue();
        i64 id = machine(own, cat("machine ", i));
        AnyMachine any(std::move(own), id, Rng(static_cast<u64>(seed), static_cast<u64>(i)), let_time_pass);
        for (int step = 0; step < kSteps; ++step) accepted += any.step();
        accepted += any.finish_all();
      });
    }
    for (std::thread& thread : threads) thread.join();
    let_time_pass();
    good(tuners.tidy());
    let_time_pass();
    TrialQueue own = queue();
    i64 id = machine(own, "last");
    AnyMachine last(std::move(own), id, Rng(1), let_time_pass);
    last.lease(kTrials);
    accepted += last.finish_all();
    expect_each_ended_once(good(tuners.outcomes(tuner)), batch, accepted);
    good(tuners.remove_tuner(tuner));
  }
}

TEST_F(TrialQueueTest, TwoThatMakeTheTablesAtOnce) {
  sql("drop schema tracewright_fleet cascade");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) threads.emplace_back([&] { queue(); });
  for (std::thread& thread : threads) thread.join();
}

// The server has done what a machine asked for, but the machine has not heard of it.
TEST_F(TrialQueueTest, AResultWithoutAnAnswerCountsOnce) {
  test::LossyProxy proxy(*server_);
  TrialQueue tuners = queue();
  i64 tuner = this->tuner(tuners), machine = this->machine(tuners);
  good(tuners.put(tuner, trials(3)));
  LastingQueue machines(good(TrialQueue::open(proxy.address(name_))));
  Waiting waiting{.must_stop = [] { return false; }, .say = [](const std::string&) {}};
  std::vector<LeasedTrial> leased = lease(tuners, machine, 3);
  auto finish = [&](std::size_t i, const char* lost, const char* status = "ok") {
    proxy.lose_answer_to(lost);
    Record record = record_of(leased[i]);
    record.status = status;
    auto finished =
        machines.call<Finished>(waiting, [&](TrialQueue& queue) { return queue.finish(machine, leased[i], record); });
    EXPECT_TRUE(finished) << machines.error();
    EXPECT_EQ(finished->accepted, Accepted::Yes);
    EXPECT_EQ(database_->record(finished->record)->program, leased[i].trial.program);
  };
  finish(0, "INSERT INTO tracewright.records");
  finish(1, "COMMIT", "crash");
  // The tuner has read the result and removed the trial before the machine asks again.
  sql("create function tracewright_fleet.forget() returns trigger language plpgsql as 'begin delete from "
      "tracewright_fleet.trials where id = new.id; return null; end'; create constraint trigger forget after update on "
      "tracewright_fleet.trials deferrable initially deferred for each row when (new.state = 'done') execute function "
      "tracewright_fleet.forget()");
  finish(2, "INSERT INTO tracewright.records");
  EXPECT_EQ(proxy.lost(), 3);
  EXPECT_EQ(records().size(), 3u);
  FleetMachine counted = shown(tuners, machine);
  EXPECT_EQ(counted.counts.good, 2);
  EXPECT_EQ(counted.counts.failed, 1);
  EXPECT_EQ(counted.counts.late + counted.counts.repeated, 0);
}

// What a connection holds is free as soon as its client has made another one: it need not wait until the server notices
// that the network has failed.
TEST_F(TrialQueueTest, AConnectionThatHangsIsEndedByTheNextOne) {
  test::LossyProxy proxy(*server_);
  auto opened = PostgresConnection::open(proxy.address(name_));
  ASSERT_TRUE(opened) << opened.error();
  PostgresConnection& connection = *opened;
  auto other = PostgresConnection::open(address_);
  i64 before = good(connection.run("SELECT pg_backend_pid()"))[0].integer(0);
  good(connection.script("BEGIN; LOCK TABLE tracewright.about"));
  proxy.hold();
  good(connection.reconnect());
  EXPECT_NE(good(connection.run("SELECT pg_backend_pid()"))[0].integer(0), before);
  EXPECT_EQ(good(other->run("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", {before}))[0].integer(0), 0);
  EXPECT_TRUE(other->script("SET lock_timeout = '1s'; LOCK TABLE tracewright.about"));
}

// A role that is refused, or a server without a connection left: said, and waited for.
TEST_F(TrialQueueTest, RefusalsAreSaid) {
  const std::string role = name_ + "_role";
  sql(cat("CREATE ROLE ", role, " LOGIN SUPERUSER"));
  LastingQueue queue(good(TrialQueue::open(server_->address(name_, role))));
  std::vector<std::string> said;
  Waiting waiting{.must_stop = [] { return false; },
                  .say =
                      [&](const std::string& text) {
                        said.push_back(text);
                        // Somebody reads it, and mends it.
                        if (text.find("does not let this role in") != std::string::npos)
                          sql(cat("ALTER ROLE ", role, " LOGIN NOSUPERUSER CONNECTION LIMIT 0"));
                        if (text.find("has no connection left") != std::string::npos)
                          sql(cat("ALTER ROLE ", role, " SUPERUSER"));
                      }};
  sql(cat("ALTER ROLE ", role, " NOLOGIN"));
  sql(cat("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '", role, "'"));
  EXPECT_TRUE(queue.call<Done>(waiting, [](TrialQueue& q) { return q.wait(std::chrono::milliseconds(5000)); }));
  ASSERT_EQ(said.size(), 4u) << join(said, "\n");
  EXPECT_NE(said[0].find("the connection to the server is lost"), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("does not let this role in"), std::string::npos) << said[1];
  EXPECT_NE(said[2].find("has no connection left"), std::string::npos) << said[2];
  EXPECT_EQ(said[3], "the server is there again");
  DatabaseError lost{"lost", "", true}, refused{"refused", "28P01", true};
  ServerWait wait(waiting, /*refused_seconds=*/0);
  DatabaseStatus ended = wait.pass(lost, [&] { return DatabaseStatus(refused); });
  EXPECT_EQ(ended.error(), "refused") << "nobody mends it: it ends";
  EXPECT_FALSE(may_pass(ended.failure()));
}

// The name leads to another database once the connection is made anew.
TEST_F(TrialQueueTest, NothingIsDoneInAnotherDatabaseOfTheName) {
  LastingQueue queue(this->queue());
  server_->sql("postgres", cat("DROP DATABASE ", name_, " WITH (FORCE)"));
  server_->sql("postgres", cat("ALTER DATABASE ", make_tuning_database(*server_), " RENAME TO ", name_));
  std::vector<std::string> said;
  Waiting waiting{.must_stop = [] { return false; }, .say = [&](const std::string& text) { said.push_back(text); }};
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_FALSE(queue.call<i64>(waiting, [](TrialQueue& q) { return q.add_machine({.name = "stray"}); }));
  EXPECT_NE(queue.error().find("is another one than before"), std::string::npos) << queue.error();
  EXPECT_EQ(good(this->queue().connection().run("select from tracewright_fleet.machines")).size(), 0);
}

TEST(TrialQueueServer, OutlivesTheServer) {
  std::string why;
  std::unique_ptr<test::PostgresServer> server = test::PostgresServer::start({{"fsync", "on"}}, &why);
  if (!test::PostgresServer::is_installed()) GTEST_SKIP() << "no PostgreSQL server: no package";
  ASSERT_TRUE(server) << why;
  std::string address = server->address(make_tuning_database(*server));
  auto database = Database::open(address, DatabaseMode::Write);
  ASSERT_TRUE(database) << database.error();
  auto opened = TrialQueue::open(address);
  ASSERT_TRUE(opened) << opened.error();
  LastingQueue queue(std::move(*opened));
  std::vector<std::string> said;
  Waiting waiting{.must_stop = [] { return false; }, .say = [&](const std::string& text) { said.push_back(text); }};
  auto call = [&]<class T>(std::type_identity<T>, auto body) {
    std::optional<T> value = queue.call<T>(waiting, body);
    EXPECT_TRUE(value) << queue.error();
    return value.value_or(T());
  };
  i64 tuner = call(std::type_identity<i64>(), [](TrialQueue& q) { return q.add_tuner("tuner"); });
  call(std::type_identity<Done>(), [&](TrialQueue& q) { return q.want(tuner, kCpu); });
  i64 machine = call(std::type_identity<i64>(), [](TrialQueue& q) { return q.add_machine({.name = "machine"}); });
  call(std::type_identity<std::vector<i64>>(), [&](TrialQueue& q) { return q.put(tuner, trials(2)); });
  auto lease = [&](TrialQueue& q) { return q.lease(machine, {kCpu}, 1); };
  std::vector<LeasedTrial> leased = call(std::type_identity<std::vector<LeasedTrial>>(), lease);
  ASSERT_EQ(leased.size(), 1u);
  server->kill_all();
  ASSERT_TRUE(server->start_again());
  Finished done = call(std::type_identity<Finished>(),
                       [&](TrialQueue& q) { return q.finish(machine, leased[0], record_of(leased[0])); });
  EXPECT_EQ(done.accepted, Accepted::Yes) << "the lease outlives the server";
  EXPECT_EQ(said.size(), 2u) << "away, and there again";
  // A batch whose acknowledgement was lost is put in again.
  call(std::type_identity<std::vector<i64>>(), [&](TrialQueue& q) { return q.put(tuner, trials(2)); });
  EXPECT_EQ(call(std::type_identity<std::vector<LeasedTrial>>(), lease).size(), 1u);
  EXPECT_EQ(call(std::type_identity<std::vector<LeasedTrial>>(), lease).size(), 0u);
}

// ---- fairness

// Trials of tuners who want the same machines. A trial's seed says whose it is.
class Fairness : public TrialQueueTest {
 protected:
  struct Customer {
    i64 id;
    double cost;
    i64 put = 0;
    double served = 0;  // seconds of machines
  };
  void put(TrialQueue& queue, Customer& customer, int count) {
    std::vector<QueuedTrial> batch;
    for (int i = 0; i < count; ++i) {
      batch.push_back(trial(static_cast<int>(1000000 * customer.id + customer.put++)));
      batch.back().seed = static_cast<u64>(customer.id);
    }
    good(queue.put(customer.id, batch, customer.cost));
  }
  void serve(TrialQueue& queue, i64 machine, std::vector<Customer>& customers, int leases, int most = 3) {
    for (int i = 0; i < leases; ++i) {
      for (const Customer& customer : customers) good(queue.beat_tuner(customer.id));
      for (const LeasedTrial& leased : lease(queue, machine, most)) {
        auto whose = std::ranges::find(customers, static_cast<i64>(leased.trial.seed), &Customer::id);
        whose->served += whose->cost;
        good(queue.finish(machine, leased, record_of(leased)));
      }
    }
  }
};

TEST_F(Fairness, TunersGetTheSameShareHoweverMuchTheyPutIn) {
  TrialQueue queue = this->queue();
  i64 machine = this->machine(queue);
  std::vector<Customer> customers = {{tuner(queue), 1}, {tuner(queue), 1}};
  put(queue, customers[0], 400);
  serve(queue, machine, customers, 20);
  EXPECT_EQ(customers[0].served, 60) << "alone it has all of them";
  customers[0].served = 0;
  put(queue, customers[1], 60);
  serve(queue, machine, customers, 30);
  EXPECT_NEAR(customers[0].served, 45, 3);
  EXPECT_NEAR(customers[1].served, 45, 3);
}

TEST_F(Fairness, TheShareIsOneOfTime) {
  TrialQueue queue = this->queue();
  i64 machine = this->machine(queue);
  std::vector<Customer> customers = {{tuner(queue), 4}, {tuner(queue), 0.5}};
  put(queue, customers[0], 60);
  put(queue, customers[1], 300);
  serve(queue, machine, customers, 60);
  EXPECT_NEAR(customers[0].served, customers[1].served, 8);
}

// Whoever comes later, puts in less or in pieces: none of those who wait is ever far behind another.
TEST_F(Fairness, NobodyWhoWaitsFallsBehind) {
  for (u64 seed = 1; seed <= 3; ++seed) {
    SetUp();  // an empty queue
    Rng rng(seed);
    TrialQueue queue = this->queue();
    i64 machine = this->machine(queue);
    std::vector<Customer> customers;
    for (int i = 0; i < 3; ++i) customers.push_back({tuner(queue), 0.5 + static_cast<double>(rng.below(4))});
    for (int step = 0; step < 15; ++step) {
      // They always have something in the queue, one of them much.
      for (Customer& customer : customers) put(queue, customer, static_cast<int>(step == 0 ? 60 : 8 + rng.below(8)));
      if (step % 5 == 0) put(queue, customers[0], 60);
      serve(queue, machine, customers, 2);
    }
    auto [least, most] = std::ranges::minmax(customers, {}, &Customer::served);
    // A trial of each, and a lease.
    EXPECT_LE(most.served - least.served, 2 * 3.5 + 3 * 3.5) << seed;
  }
}

// ---- many machines

// The server wakes all that listen for each notification, so results must not notify.
TEST_F(TrialQueueTest, NewTrialsWakeAMachineThatWaitsAndResultsDoNot) {
  TrialQueue tuner_queue = this->queue(), busy_queue = this->queue(), idle_queue = this->queue();
  i64 tuner = this->tuner(tuner_queue), busy = this->machine(busy_queue);
  this->machine(idle_queue);
  auto is_woken = [&] {
    constexpr std::chrono::milliseconds kMost(300);
    double begin = seconds_now();
    good(idle_queue.wait(kMost));
    return seconds_now() - begin < 0.9 * std::chrono::duration<double>(kMost).count();
  };
  EXPECT_TRUE(is_woken()) << "what came before it listened is not told";
  good(tuner_queue.put(tuner, trials(3)));
  EXPECT_TRUE(is_woken());
  for (const LeasedTrial& leased : lease(busy_queue, busy)) good(busy_queue.finish(busy, leased, record_of(leased)));
  EXPECT_FALSE(is_woken());
}

// Two tuners want the same programs, and two machines lease at the same moment.
TEST_F(TrialQueueTest, AProgramIsNotLeasedAgainBeforeItsLeaseIsCommitted) {
  TrialQueue first = this->queue(), second = this->queue();
  good(first.put(tuner(first), trials(1)));
  good(first.put(tuner(first), trials(1)));
  i64 one = machine(first), other = machine(second);
  ASSERT_NE(one % 4, other % 4) << "they may lease together";
  ASSERT_TRUE(first.connection().script("BEGIN"));
  auto taken = first.connection().run(
      queue_sql::lease_statement(false),
      {one, cat("{\"", kCpu.target, "\"}"), cat("{\"", kCpu.machine, "\"}"), 1, 60, 60, std::nullopt});
  EXPECT_EQ(good(std::move(taken)).size(), 1);
  EXPECT_EQ(lease(second, other, 1).size(), 0u) << "the lease cannot be seen yet";
  ASSERT_TRUE(first.connection().script("COMMIT"));
  EXPECT_EQ(lease(second, other, 1).size(), 0u) << "it waits for the result";
}

// A statement that began before another machine's lease was committed does not see it.
TEST_F(TrialQueueTest, AProgramIsNotLeasedAgainByAStatementThatBeganBefore) {
  TrialQueue first = this->queue(), second = this->queue();
  good(first.put(tuner(first), trials(1)));
  good(first.put(tuner(first), trials(2)));
  const std::vector<i64> all = {1, 2, 3};  // the first two are of one program
  auto run = [&](const std::string& sql) { return good(second.connection().run_script(sql))[0].text(0); };
  const std::string not_measured = "tracewright_fleet.not_measured('{1, 2, 3}'::bigint[])";
  EXPECT_EQ(run(cat("select ", not_measured)), "{1,2,3}");
  // The statement has begun, and waits for this lock, when the lease is committed.
  good(first.connection().run_script("select pg_advisory_lock(1)"));
  std::thread leases([&] {
    auto is_waiting = [&] {
      return good(first.connection().run("select exists (select from pg_locks where not granted)"))[0].is_true(0);
    };
    while (!is_waiting()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(lease(first, machine(first), 1).at(0).id, 1);
    good(first.connection().run_script("select pg_advisory_unlock(1)"));
  });
  EXPECT_EQ(run(cat("select ", not_measured, " from pg_advisory_lock(1)")), "{3}");
  leases.join();
}

// ---- parts of the queue

class QueueInParts : public TrialQueueTest {
 protected:
  // The trials that a machine gets that leases in parts, and begins with this one.
  std::vector<i64> lease_from(TrialQueue& queue, i64 part, int most) {
    auto rows = good(queue.connection().run(queue_sql::lease_statement(true),
                                            {machine(queue), cat("{\"", kCpu.target, "\"}"),
                                             cat("{\"", kCpu.machine, "\"}"), most, 60, 60, std::nullopt, part}));
    std::vector<i64> ids;
    for (int i = 0; i < rows.size(); ++i) ids.push_back(rows[i].integer(0));
    std::ranges::sort(ids);
    return ids;
  }
};

constexpr const char* kSlowDown =
    "create function public.slow() returns trigger language plpgsql as 'begin perform pg_catalog.pg_sleep(0.2); "
    "return null; end'; create trigger slow after update on tracewright_fleet.trials for each statement "
    "execute function public.slow()";

TEST_F(QueueInParts, ALeaseBeginsWithItsPart) {
  TrialQueue queue = this->queue();
  good(queue.put(tuner(queue, kCpu), trials(40)));
  EXPECT_EQ(lease_from(queue, 3, 3), (std::vector<i64>{3, 11, 19})) << "in order";
  EXPECT_EQ(lease_from(queue, 3, 1), (std::vector<i64>{27}));
  EXPECT_EQ(lease_from(queue, 0, 2), (std::vector<i64>{8, 16}));
}

TEST_F(QueueInParts, ALeaseGoesOnToTheNextParts) {
  TrialQueue queue = this->queue();
  good(queue.put(tuner(queue, kCpu), trials(16)));
  EXPECT_EQ(lease_from(queue, 6, 5), (std::vector<i64>{6, 7, 8, 14, 15}));
  EXPECT_EQ(lease_from(queue, 6, 100).size(), 11u) << "whatever is there";
  EXPECT_TRUE(lease_from(queue, 1, 5).empty());
}

// Where each lease takes long, machines lease in parts, each from another one, and get everything.
TEST_F(QueueInParts, SlowLeasesAreInParts) {
  TrialQueue queue = this->queue();
  const i64 machine = this->machine(queue);
  good(queue.put(tuner(queue, kCpu), trials(64)));
  auto next = [&] { return lease(queue, machine, 1).at(0).id; };
  for (i64 i = 1; i <= 8; ++i) EXPECT_EQ(next(), i) << "while leases are quick";
  sql(kSlowDown);
  next();
  std::set<i64> parts;
  for (int i = 0; i < 8; ++i) {
    std::vector<LeasedTrial> two = lease(queue, machine, 2);
    EXPECT_EQ(two.at(1).id - two.at(0).id, 8);
    parts.insert(two[0].id % 8);
  }
  EXPECT_EQ(std::ssize(parts), 8);
  EXPECT_EQ(std::ssize(lease(queue, machine, 100)), 64 - 25);
}

// A machine that hangs while it leases keeps only those of its gate from leasing, and they wait for a time.
TEST_F(TrialQueueTest, AMachineWhoseTurnDoesNotComeGetsNothing) {
  TrialQueue queue = this->queue(), hanging = this->queue();
  good(queue.put(tuner(queue), trials(2)));
  std::vector<i64> machines;
  do machines.push_back(machine(queue));
  while (machines.size() < 2 || queue_sql::lease_gate(machines.back()) != queue_sql::lease_gate(machines[0]));
  ASSERT_NE(queue_sql::lease_gate(machines[0]), queue_sql::lease_gate(machines[1]));
  ASSERT_TRUE(hanging.connection().script(cat("BEGIN; ", queue_sql::lease_gate(machines[0]))));
  ASSERT_TRUE(queue.connection().script("SET lock_timeout = '100ms'"));
  EXPECT_EQ(lease(queue, machines.back(), 1).size(), 0u) << "it has the same gate";
  EXPECT_EQ(lease(queue, machines[1], 1).size(), 1u);
  ASSERT_TRUE(hanging.connection().script("ROLLBACK"));
  EXPECT_EQ(lease(queue, machines.back(), 1).size(), 1u);
}

// Where the server is slow, leases are longer, and results are written in the machine's turn, too; but none is lost
// because it does not come.
TEST_F(TrialQueueTest, ASlowServerWritesResultsByTurn) {
  TrialQueue queue = this->queue(), hanging = this->queue();
  good(queue.put(tuner(queue), trials(6)));
  const i64 machine = this->machine(queue);
  auto seconds_of_lease = [&](const LeasedTrial& leased) {
    return good(
               queue.connection().run("SELECT round(extract(epoch FROM deadline - leased))::bigint FROM "
                                      "tracewright_fleet.trials WHERE id = $1::bigint",
                                      {leased.id}))[0]
        .integer(0);
  };
  auto hold = [&] { return hanging.connection().script(cat("BEGIN; ", queue_sql::lease_gate(machine))); };
  std::vector<LeasedTrial> leased = lease(queue, machine, 1);
  EXPECT_EQ(seconds_of_lease(leased.at(0)), kLeaseSeconds);
  ASSERT_TRUE(hold());
  ASSERT_TRUE(queue.connection().script("SET lock_timeout = '1s'"));
  double began = seconds_now();
  EXPECT_EQ(good(queue.finish(machine, leased[0], record_of(leased[0]))).accepted, Accepted::Yes);
  EXPECT_LT(seconds_now() - began, 1) << "while the server is quick";
  ASSERT_TRUE(hanging.connection().script("ROLLBACK"));

  sql(kSlowDown);
  lease(queue, machine, 1);
  leased = lease(queue, machine, 4);
  ASSERT_EQ(leased.size(), 4u);
  EXPECT_EQ(seconds_of_lease(leased[0]), kSlowLeaseSeconds);
  sql("drop trigger slow on tracewright_fleet.trials");
  ASSERT_TRUE(hold());
  began = seconds_now();
  EXPECT_EQ(good(queue.finish(machine, leased[0], record_of(leased[0]))).accepted, Accepted::Yes);
  EXPECT_GE(seconds_now() - began, 1) << "it has waited for its turn";
  const Record second = record_of(leased[1]), third = record_of(leased[2]);
  began = seconds_now();
  for (const Finished& one : good(queue.finish(machine, {{leased[1], second}, {leased[2], third}})))
    EXPECT_EQ(one.accepted, Accepted::Yes);
  EXPECT_LT(seconds_now() - began, 1) << "others do not wait again";
}

// A slow server wakes only machines that find something, and they listen again when nothing keeps it busy.
TEST_F(TrialQueueTest, AMachineThatFindsNothingForLongDoesNotListen) {
  constexpr int kMost = 30;
  TrialQueue tuners = this->queue(), machines = this->queue();
  const i64 tuner = this->tuner(tuners), machine = this->machine(machines);
  EXPECT_TRUE(lease(machines, machine, 1).empty()) << "a quick one";
  sql(kSlowDown);
  auto listens = [&] {
    return good(machines.connection().run("SELECT count(*) FROM pg_listening_channels()"))[0].integer(0) > 0;
  };
  auto tell = [&] { good(tuners.connection().run(queue_sql::kNotifyMachines)); };
  good(machines.wait(std::chrono::milliseconds(1)));
  ASSERT_TRUE(listens());
  int looks = 0;
  for (; listens() && looks < kMost; ++looks) {
    tell();
    good(machines.wait(std::chrono::milliseconds(1)));
    EXPECT_TRUE(lease(machines, machine, 1).empty());
  }
  EXPECT_GT(looks, 5);
  ASSERT_LT(looks, kMost) << "it still listens";

  good(tuners.remove_tuner(tuner));
  for (int i = 0; i < kMost; ++i) EXPECT_TRUE(good(machines.wanted_targets()).empty());
  good(machines.wait(std::chrono::milliseconds(1)));
  EXPECT_TRUE(listens()) << "nobody wants anything";
}

// A thousand machines answer a new tuner at once.
TEST_F(TrialQueueTest, NobodyWaitsForAnAnswerThatAnotherOneGives) {
  TrialQueue queue = this->queue(), other = this->queue();
  good(queue.want(tuner(queue), {.target = kCpu.target, .host = "", .machine = ""}));
  good(other.connection().run("BEGIN"));
  good(other.connection().run("UPDATE tracewright_fleet.targets SET host = 'other', machine = 'other'"));
  good(queue.connection().run("SET lock_timeout = '5s'"));
  good(queue.offer({kCpu}));
  good(other.connection().run("ROLLBACK"));
  good(queue.offer({kCpu}));
  EXPECT_EQ(good(queue.connection().run("SELECT host FROM tracewright_fleet.targets"))[0].text(0), kCpu.host);
}

TEST_F(TrialQueueTest, ManyOutcomesAreReadInParts) {
  TrialQueue queue = this->queue();
  i64 tuner = this->tuner(queue), machine = this->machine(queue);
  const int count = kMostOutcomes + 20;
  good(queue.put(tuner, trials(count)));
  for (const LeasedTrial& leased : lease(queue, machine, count))
    good(queue.finish_with_fault(machine, leased, fault::kRefused, ""));
  std::set<i64> ended;
  for (int expected : {kMostOutcomes, 20, 0}) {
    std::vector<TrialOutcome> outcomes = good(queue.outcomes(tuner));
    EXPECT_EQ(std::ssize(outcomes), expected);
    EXPECT_TRUE(std::ranges::is_sorted(outcomes, {}, &TrialOutcome::trial));
    std::vector<i64> ids;
    for (const TrialOutcome& outcome : outcomes) ids.push_back(outcome.trial), ended.insert(outcome.trial);
    good(queue.remove_ended(tuner, ids));
  }
  EXPECT_EQ(std::ssize(ended), count);
}

// A queue whose indices are those of the schema's second step, with a trial in it.
TEST_F(TrialQueueTest, AnOlderQueueIsBroughtUpToDate) {
  {
    TrialQueue before = this->queue();
    good(before.put(tuner(before), trials(1)));
  }
  sql("DROP INDEX tracewright_fleet.trials_deadline, tracewright_fleet.trials_of_machine, "
      "tracewright_fleet.trials_part; "
      "CREATE INDEX trials_leased ON tracewright_fleet.trials (deadline) WHERE state = 'leased'; "
      "CREATE INDEX trials_program ON tracewright_fleet.trials (program) WHERE state = 'leased'; "
      "ALTER TABLE tracewright_fleet.trials DROP CONSTRAINT trials_distinct, "
      "ADD CONSTRAINT trials_once UNIQUE (tuner, workload, target, program, is_cold, wanted), "
      "ADD CHECK (state IN ('queued', 'leased', 'done')), ALTER COLUMN trace SET STORAGE EXTENDED; "
      "DROP TABLE tracewright_fleet.lease_gate_4, tracewright_fleet.lease_gate_5, tracewright_fleet.lease_gate_6, "
      "tracewright_fleet.lease_gate_7; "
      "ALTER TABLE tracewright_fleet.failures RESET (autovacuum_analyze_threshold); "
      "ALTER TABLE tracewright.records RESET (autovacuum_analyze_threshold)");
  TrialQueue queue = this->queue();
  EXPECT_EQ(good(queue.connection().run("SELECT string_agg(indexname, ' ' ORDER BY indexname) FROM pg_indexes WHERE "
                                        "schemaname = 'tracewright_fleet' AND tablename = 'trials'"))[0]
                .text(0),
            "trials_deadline trials_distinct trials_of_machine trials_of_tuner trials_part trials_pkey trials_turn");
  EXPECT_TRUE(good(queue.connection().run(queue_sql::kHasNoChecks))[0].is_true(0));
  EXPECT_TRUE(good(queue.connection().run(queue_sql::kHasGates))[0].is_true(0));
  EXPECT_TRUE(good(queue.connection().run(queue_sql::kHasVacuum))[0].is_true(0));
  EXPECT_TRUE(good(queue.connection().run(queue_sql::kHasVacuumOfRecords))[0].is_true(0));
  EXPECT_EQ(lease(queue, machine(queue)).size(), 1u);
}

// Each trial leaves dead rows, and sessions may plan while the tables are empty: no statement may walk through all.
TEST_F(TrialQueueTest, EachStatementHasAnIndexThatFits) {
  TrialQueue queue = this->queue();
  const std::string in_order = queue_sql::lease_statement(false), in_parts = queue_sql::lease_statement(true);
  struct Case {
    const char *statement, *types, *values;
    std::vector<std::string> wanted;
  };
  const Case cases[] = {
      {queue_sql::kEndLeases, "text", "'lost'", {"using trials_deadline", "Index Cond: (deadline <", "trials_pkey"}},
      {queue_sql::kBeatMachine,
       "bigint, bigint, bigint, bigint",
       "1, 1, 1, 1",
       {"using trials_of_machine", "Index Cond: (machine = "}},
      {queue_sql::kGiveBack, "bigint", "1", {"using trials_of_machine", "Index Cond: (machine = "}},
      {queue_sql::kOutcomes, "bigint, bigint", "1, 1", {"Index Cond: ((tuner = $1) AND (state = 'done'"}},
      {in_order.c_str(),
       "bigint, text[], text[], bigint, bigint, bigint, text[]",
       "1, '{a}', '{b}', 4, 1, 1, null",
       {"using trials_turn", "Index Cond: (target = u.target)", "Index Cond: ((program = q", "trials_pkey"}},
      {in_parts.c_str(),
       "bigint, text[], text[], bigint, bigint, bigint, text[], bigint",
       "1, '{a}', '{b}', 4, 1, 1, null, 3",
       {"using trials_part", "Index Cond: ((target = u.target) AND ((id % ", "Index Cond: ((program = q",
        "trials_pkey"}}};
  int number = 0;
  for (const Case& one : cases) {
    const std::string name = cat("statement_", ++number);
    good(queue.connection().run_script(cat("PREPARE ", name, "(", one.types, ") AS ", one.statement)));
    auto rows = good(queue.connection().run(cat("EXPLAIN (COSTS OFF) EXECUTE ", name, "(", one.values, ")")));
    std::string plan;
    for (int i = 0; i < rows.size(); ++i) plan += rows[i].text(0) + "\n";
    for (const std::string& part : one.wanted) EXPECT_NE(plan.find(part), std::string::npos) << part << " in\n" << plan;
    EXPECT_EQ(plan.find("Seq Scan"), std::string::npos) << plan;
    EXPECT_EQ(plan.find("Bitmap"), std::string::npos) << plan;
  }
}

TEST_F(TrialQueueTest, ATrialThatIsNotDoneIsNotRemovedAsEnded) {
  TrialQueue queue = this->queue();
  i64 tuner = this->tuner(queue);
  std::vector<i64> ids = good(queue.put(tuner, trials(2)));
  good(queue.remove_ended(tuner, ids));
  EXPECT_EQ(good(queue.count(tuner, ids)), 2);
}

TEST_F(TrialQueueTest, AShareCountsMachinesOfTheKindAndTunersThatHaveTrials) {
  TrialQueue queue = this->queue();
  i64 first = tuner(queue, kCpu), second = tuner(queue, kCpu);
  for (int i = 0; i < 3; ++i) machine(queue);
  good(queue.add_machine({.name = "other", .host = kOtherCpu.host, .version = "0", .targets = kCpu.target}));
  i64 gone = machine(queue), silent = machine(queue);
  good(queue.leave(gone));
  sql(cat("update tracewright_fleet.machines set heartbeat = heartbeat - interval '30 seconds' where id = ", silent));
  FleetShare share = good(queue.share(first));
  EXPECT_EQ(share.machines, 3);
  EXPECT_EQ(share.tuners, 1) << "the other one has nothing to measure";
  EXPECT_EQ(share.busy, 0);
  good(queue.put(first, {trial(0)}));
  good(queue.put(second, {trial(1)}));
  lease(queue, 1);
  share = good(queue.share(first));
  EXPECT_EQ(share.tuners, 2);
  EXPECT_EQ(share.busy, 1);
}

TEST_F(TrialQueueTest, RecordsAreReadByTheirIds) {
  TrialQueue queue = this->queue();
  i64 tuner = this->tuner(queue), machine = this->machine(queue);
  good(queue.put(tuner, trials(3)));
  std::vector<i64> ids;
  for (const LeasedTrial& leased : lease(queue, machine))
    ids.push_back(good(queue.finish(machine, leased, record_of(leased))).record);
  ASSERT_EQ(ids.size(), 3u);
  std::vector<Record> found = good(queue.records({ids[0], ids[2], 999}));
  ASSERT_EQ(found.size(), 2u);
  std::vector<Record> all = records();
  for (const Record& record : found) EXPECT_TRUE(std::ranges::count(all, record)) << record.id;
  sql(cat("update tracewright.records set seconds_ps = 1 where id = ", ids[0]));
  EXPECT_EQ(good(queue.records({ids[0], ids[2]})).size(), 1u) << "a damaged one is left out";
}

}  // namespace
}  // namespace tw
