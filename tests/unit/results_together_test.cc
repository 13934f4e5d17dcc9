// Results that a machine writes together: when it does (result_batch.h), and what becomes of each (TrialQueue::finish).
#include <gtest/gtest.h>

#include "bench/fleet/simulated_machines.h"
#include "runtime/fleet/queue_sql.h"
#include "runtime/fleet/result_batch.h"
#include "runtime/store/postgres_rows.h"
#include "support/lossy_proxy.h"
#include "tests/unit/queue_kit.h"

namespace tw {
namespace {

// ---- when

// A batch after a quick answer and many that took so long, with a result of the time 0.
ResultBatch<int> batch_behind(double answer) {
  ResultBatch<int> batch;
  batch.add(0, 0), batch.take_written(0.001);
  for (int i = 0; i < 50; ++i) batch.add(i, 0), batch.take_written(answer);
  batch.add(50, 0);
  return batch;
}

TEST(ResultBatch, AQuickServerGetsEachResultAtOnce) {
  for (double trial : {0.001, 0.2, 60.0}) {
    EXPECT_TRUE(batch_behind(0.005).is_due(0, trial)) << trial;
    EXPECT_TRUE(batch_behind(0.02).is_due(0, trial)) << trial;
  }
  ResultBatch<int> first;
  EXPECT_FALSE(first.is_due(0, 0.2)) << "there is none";
  first.add(1, 0);
  EXPECT_TRUE(first.is_due(0, 0.2)) << "nothing is known of the server";
}

TEST(ResultBatch, ASlowServerGetsThemTogether) {
  ResultBatch<int> batch = batch_behind(0.05);
  EXPECT_FALSE(batch.is_due(0, 0.4));
  batch.add(51, 0.4);
  EXPECT_FALSE(batch.is_due(0.35, 0.4));
  EXPECT_TRUE(batch.is_due(0.45, 0.4)) << "the next chance would be too late";
  EXPECT_EQ(batch.take_written(0.1), (std::vector<int>{50, 51}));
  EXPECT_TRUE(batch.empty());
  batch.add(52, 10);
  EXPECT_TRUE(batch.is_due(10, 0)) << "who knows when the next chance comes";
  for (int i = 0; i < 20; ++i) batch.take_written(0.005);
  batch.add(53, 20);
  EXPECT_TRUE(batch.is_due(20, 0.4)) << "it is quick again";
}

// Machines wait for leases first.
TEST(ResultBatch, AServerThatTakesLongToLeaseIsSlow) {
  ResultBatch<int> batch = batch_behind(0.005);
  for (int i = 0; i < 50; ++i) batch.note_lease(0.04);
  EXPECT_TRUE(batch.is_due(0, 0.2)) << "some wait is usual";
  for (int i = 0; i < 50; ++i) batch.note_lease(0.5);
  EXPECT_FALSE(batch.is_due(0, 0.2));
}

TEST(ResultBatch, NothingWaitsForLong) {
  ResultBatch<int> batch = batch_behind(1000);
  EXPECT_FALSE(batch.is_due(0, 0.9 * kLongestHeldSeconds));
  EXPECT_TRUE(batch.is_due(0, 1.1 * kLongestHeldSeconds));
  EXPECT_FALSE(batch.is_overdue(0.9 * kLongestHeldSeconds));
  EXPECT_TRUE(batch.is_overdue(1.1 * kLongestHeldSeconds));
  EXPECT_NEAR(batch.overdue_in(0.5), kLongestHeldSeconds - 0.5, 1e-9);
  batch.take_written(0.001);
  EXPECT_FALSE(batch.is_overdue(1e9));
}

TEST(ResultBatch, TheSlowerTheServerTheLongerResultsWait) {
  auto held = [](double answer) {
    double seconds = 0.01;
    for (ResultBatch<int> batch = batch_behind(answer); !batch.is_due(0, seconds); seconds += 0.01) continue;
    return seconds;
  };
  EXPECT_NEAR(held(0.03), 0.28, 0.05) << "eight answers";
  EXPECT_NEAR(held(0.06), 1.12, 0.1) << "twice as slow, twice as many answers";
  EXPECT_NEAR(held(0.5), kLongestHeldSeconds, 0.1);
}

// What every answer takes, also the quickest, is the way.
TEST(ResultBatch, AServerThatIsFarAwayIsNotASlowOne) {
  ResultBatch<int> batch;
  for (int i = 0; i < 50; ++i) batch.add(i, 0), batch.take_written(0.15), batch.note_lease(0.16);
  batch.add(50, 0);
  EXPECT_TRUE(batch.is_due(0, 0.2));
  EXPECT_EQ(batch.lease_size(4), 4);
}

// A machine asks a slow server less often.
TEST(ResultBatch, ASlowServerGivesMoreTrialsAtOnce) {
  ResultBatch<int> batch;
  EXPECT_EQ(batch.lease_size(4), 4) << "nothing is known of the server";
  batch.note_lease(0.002);
  for (int i = 0; i < 50; ++i) batch.note_lease(0.02);
  EXPECT_EQ(batch.lease_size(4), 4);
  for (int i = 0; i < 50; ++i) batch.note_lease(0.5);
  EXPECT_EQ(batch.lease_size(4), 8);
  for (int i = 0; i < 50; ++i) batch.add(i, 0), batch.take_written(0.4);
  EXPECT_EQ(batch.lease_size(4), 16);
}

// ---- what becomes of each

class ResultsTogether : public OneMachineTest {
 protected:
  std::vector<LeasedTrial> leased(int count) {
    good(queue_->put(tuner_, trials(count)));
    std::vector<LeasedTrial> all = lease(*queue_, machine_, count);
    EXPECT_EQ(std::ssize(all), count);
    return all;
  }
  static std::vector<Record> records_of(const std::vector<LeasedTrial>& trials) {
    std::vector<Record> all;
    for (const LeasedTrial& trial : trials) all.push_back(record_of(trial));
    return all;
  }
  static std::vector<TrialResult> results_of(const std::vector<LeasedTrial>& trials,
                                             const std::vector<Record>& records) {
    std::vector<TrialResult> all;
    for (std::size_t i = 0; i < trials.size(); ++i) all.push_back({trials[i], records[i]});
    return all;
  }
  // Each is accepted, and its record is that of its trial.
  void expect_stored(const std::vector<LeasedTrial>& trials, const std::vector<Finished>& finished) {
    ASSERT_EQ(finished.size(), trials.size());
    for (std::size_t i = 0; i < trials.size(); ++i) {
      EXPECT_EQ(finished[i].accepted, Accepted::Yes) << i;
      EXPECT_EQ(database_->record(finished[i].record)->program, trials[i].trial.program) << i;
    }
  }
  MachineCounts counts() { return shown(*queue_, machine_).counts; }
};

TEST_F(ResultsTogether, EachHasItsRecord) {
  std::vector<LeasedTrial> trials = leased(5);
  std::ranges::reverse(trials);
  std::swap(trials[1], trials[3]);
  std::vector<Record> records = records_of(trials);
  for (std::size_t i = 0; i < records.size(); ++i)
    records[i].seconds = 1e-3 * static_cast<double>(i + 1),
    records[i].trace = cat("a \"quoted\" \\ trace, {", i, "}\n");
  std::vector<Finished> finished = good(queue_->finish(machine_, results_of(trials, records)));
  expect_stored(trials, finished);
  std::map<i64, i64> outcomes;
  for (const TrialOutcome& outcome : good(queue_->outcomes(tuner_))) outcomes[outcome.trial] = outcome.record;
  EXPECT_EQ(outcomes.size(), trials.size());
  for (std::size_t i = 0; i < trials.size(); ++i) {
    EXPECT_EQ(outcomes[trials[i].id], finished[i].record);
    Record stored = *database_->record(finished[i].record);
    EXPECT_EQ(stored.trace, records[i].trace);
    EXPECT_EQ(stored.seconds, records[i].seconds);
  }
  EXPECT_EQ(counts().good, 5);
}

TEST_F(ResultsTogether, EachIsAcceptedLateOrRepeatedByItself) {
  std::vector<LeasedTrial> trials = leased(6);
  std::vector<Record> records = records_of(trials);
  records[4].status = "crash", records[4].seconds = 0;
  good(queue_->finish(machine_, trials[1], records[1]));  // repeated
  sql(cat("update tracewright_fleet.trials set deadline = deadline - interval '1 hour' where id = ", trials[2].id));
  LeasedTrial guessed = trials[3];
  ++guessed.lease;
  std::vector<TrialResult> results = {{trials[0], records[0]}, {trials[1], records[1]}, {trials[2], records[2]},
                                      {guessed, records[3]},   {trials[4], records[4]}, {trials[5], records[5]},
                                      {trials[0], records[0]}};
  std::vector<Finished> finished = good(queue_->finish(machine_, results));
  const Accepted expected[] = {Accepted::Yes, Accepted::Repeated, Accepted::Late,    Accepted::Late,
                               Accepted::Yes, Accepted::Yes,      Accepted::Repeated};
  for (std::size_t i = 0; i < results.size(); ++i) EXPECT_EQ(finished[i].accepted, expected[i]) << i;
  EXPECT_EQ(finished[6].record, finished[0].record) << "it is told which one counts";
  EXPECT_EQ(this->records().size(), 4u);
  MachineCounts counted = counts();
  EXPECT_EQ(counted.good, 3);
  EXPECT_EQ(counted.failed, 1);
  EXPECT_EQ(counted.late, 2);
  EXPECT_EQ(counted.repeated, 2);
}

// What the server refuses does not take the others with it.
TEST_F(ResultsTogether, OneThatIsRefusedIsAloneWithThat) {
  std::vector<LeasedTrial> trials = leased(3);
  std::vector<Record> records = records_of(trials);
  records[2].trace = std::string(kLongestTrace + 1, 'x');
  EXPECT_FALSE(queue_->finish(machine_, results_of(trials, records)));
  EXPECT_EQ(this->records().size(), 2u);
  EXPECT_EQ(counts().good, 2);
}

// The server has stored all, but the machine has not heard of it; and the tuner has removed the trials.
TEST_F(ResultsTogether, WithoutAnAnswerEachCountsOnce) {
  test::LossyProxy proxy(*server_);
  LastingQueue machines(good(TrialQueue::open(proxy.address(name_))));
  Waiting waiting{.must_stop = [] { return false; }, .say = [](const std::string&) {}};
  auto finish = [&](const std::vector<LeasedTrial>& trials, const std::vector<Record>& records, const char* lost) {
    proxy.lose_answer_to(lost);
    using All = std::vector<Finished>;
    auto finished = machines.call<All>(
        waiting, [&](TrialQueue& queue) { return queue.finish(machine_, results_of(trials, records)); });
    EXPECT_TRUE(finished) << machines.error();
    expect_stored(trials, *finished);
  };
  std::vector<LeasedTrial> trials = leased(12);
  std::vector<LeasedTrial> first(trials.begin(), trials.begin() + 4), second(trials.begin() + 4, trials.begin() + 8),
      third(trials.begin() + 8, trials.end());
  finish(first, records_of(first), "INSERT INTO tracewright.records");
  std::vector<Record> mixed = records_of(second);
  mixed[1].status = "crash", mixed[1].seconds = 0;
  // The answer about the result that failed is lost when the others have been stored.
  finish(second, mixed, "insert into tracewright_fleet.failures");
  sql("create function tracewright_fleet.forget() returns trigger language plpgsql as 'begin delete from "
      "tracewright_fleet.trials where id = new.id; return null; end'; create constraint trigger forget after update on "
      "tracewright_fleet.trials deferrable initially deferred for each row when (new.state = 'done') execute function "
      "tracewright_fleet.forget()");
  finish(third, records_of(third), "INSERT INTO tracewright.records");
  EXPECT_EQ(proxy.lost(), 3);
  EXPECT_EQ(records().size(), 12u);
  MachineCounts counted = counts();
  EXPECT_EQ(counted.good, 11);
  EXPECT_EQ(counted.failed, 1);
  EXPECT_EQ(counted.late + counted.repeated, 0);
}

// Sessions may plan while the tables are empty, and trials leave dead rows.
TEST_F(ResultsTogether, TheirStatementHasAnIndexThatFits) {
  RecordArrays columns = arrays_of({Record()});
  std::vector<std::string> arrays, nothing;
  for (const std::string& type : columns.types)
    arrays.push_back(cat("$", arrays.size() + 4, "::", type)), nothing.push_back("'{}'");
  const std::string text =
      queue_sql::finish_together_statement(postgres_sql::kWriterGate, join(columns.names, ", "), join(arrays, ", "));
  good(queue_->connection().run_script(cat("PREPARE together AS ", text)));
  auto rows = good(
      queue_->connection().run(cat("EXPLAIN (COSTS OFF) EXECUTE together(1, '{}', '{}', ", join(nothing, ", "), ")")));
  std::string plan;
  for (int i = 0; i < rows.size(); ++i) plan += rows[i].text(0) + "\n";
  for (const char* part : {"Index Cond: (id = g", "Index Cond: (id = ANY (", "machines_pkey"})
    EXPECT_NE(plan.find(part), std::string::npos) << part << " in\n" << plan;
  EXPECT_EQ(plan.find("Seq Scan"), std::string::npos) << plan;
  EXPECT_EQ(plan.find("Bitmap"), std::string::npos) << plan;
}

// A full lease tells what is wanted, so that a machine that has enough to do need not ask.
TEST_F(ResultsTogether, AFullLeaseTellsWhatIsWanted) {
  good(queue_->put(tuner_, trials(3)));
  TrialQueue other = queue();
  lease(*queue_, machine_, 2);
  good(other.want(tuner_, {.target = "another", .host = "", .machine = ""}));
  EXPECT_EQ(good(queue_->wanted_targets()).size(), 1u) << "as the lease told";
  EXPECT_EQ(good(queue_->wanted_targets()).size(), 2u) << "it is told once";
  lease(*queue_, machine_, 2);
  good(other.want(tuner_, {.target = "a third", .host = "", .machine = ""}));
  EXPECT_EQ(good(queue_->wanted_targets()).size(), 3u) << "the lease was not full";
}

// ---- machines that do so

class MachinesWrite : public ResultsTogether {
 protected:
  // Machines that work for some seconds, and then have written all.
  bench::SimulatedCounts work(bench::SimulatedFleet fleet, double seconds) {
    fleet.address = address_;
    // Any machine may measure for this tuner.
    const i64 tuner = this->tuner(*queue_, {.target = kCpu.target, .host = "", .machine = ""});
    good(queue_->put(tuner, trials(2000)));
    bench::SimulatedMachines machines(fleet);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    machines.stop();
    EXPECT_EQ(machines.error(), "");
    bench::SimulatedCounts counts = machines.counts();
    EXPECT_EQ(counts.late + counts.repeated, 0);
    EXPECT_GT(counts.trials(), 0);
    EXPECT_EQ(std::ssize(records()), counts.trials()) << "what was measured is stored";
    return counts;
  }
  // Each statement that stores records takes so long.
  void slow_down(double seconds) {
    sql(cat("create function public.slow() returns trigger language plpgsql as 'begin perform pg_catalog.pg_sleep(",
            seconds,
            "); return null; end'; create trigger slow after insert on tracewright.records for each statement "
            "execute function public.slow()"));
  }
};

TEST_F(MachinesWrite, AtOnceWhereTheServerIsQuick) {
  bench::SimulatedCounts counts = work({.machines = 2, .seconds = 0.15}, 4);
  EXPECT_GT(static_cast<double>(counts.writes), 0.9 * static_cast<double>(counts.trials()));
  EXPECT_LT(counts.longest_held, 0.1);
}

TEST_F(MachinesWrite, TogetherWhereItIsSlow) {
  slow_down(0.1);
  bench::SimulatedCounts counts = work({.machines = 2, .seconds = 0.15}, 6);
  EXPECT_LT(static_cast<double>(counts.writes), 0.6 * static_cast<double>(counts.trials()));
  EXPECT_LT(counts.longest_held, kLongestHeldSeconds);
}

// The next trial takes longer than all before.
TEST_F(MachinesWrite, NoResultWaitsForALongTrial) {
  slow_down(1);
  bench::SimulatedCounts counts = work({.machines = 4, .seconds = 0.8, .spread = 1}, 10);
  EXPECT_LT(static_cast<double>(counts.writes), static_cast<double>(counts.trials()));
  EXPECT_LT(counts.longest_held, kLongestHeldSeconds + 0.5);
}

}  // namespace
}  // namespace tw
