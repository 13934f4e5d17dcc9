// A long run stays level: what it remembers, opens and reads is bounded, and counted here. Seconds are
// bench/search_scale's.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <set>
#include <thread>

#include "bench/simulated.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "sampler/search/bounded_sample.h"
#include "sampler/space/known.h"
#include "support/support.h"

namespace tw {
namespace {

// ---- the parts

struct Thing {
  double seconds;
  Hash128 hash;
  int number;
};

std::vector<Thing> some_things(int count, u64 seed) {
  Rng rng(seed);
  std::vector<Thing> things;
  for (int i = 0; i < count; ++i) {
    double seconds = i % 7 == 0 ? std::numeric_limits<double>::infinity() : static_cast<double>(1 + rng.below(50));
    things.push_back({seconds, hash_bytes(cat(seed, " ", i)), i});
  }
  return things;
}

std::vector<int> kept(const std::vector<Thing>& things, SampleLimits limits) {
  BoundedSample<int> sample(limits);
  for (const Thing& thing : things) sample.add(thing.seconds, thing.hash, thing.number);
  std::vector<int> numbers;
  sample.each([&](const auto& entry) { numbers.push_back(entry.value); });
  EXPECT_EQ(numbers.size(), sample.size());
  return numbers;
}

// The fastest, and of all others those with the smallest hashes: by sorting everything.
TEST(BoundedSample, KeepsTheFastestAndAUniformSampleOfTheOthers) {
  for (u64 seed = 1; seed <= 20; ++seed) {
    for (SampleLimits limits : {SampleLimits{10, 30}, SampleLimits{0, 5}, SampleLimits{7, 0}, SampleLimits{}}) {
      std::vector<Thing> things = some_things(200, seed);
      std::vector<int> found = kept(things, limits);
      EXPECT_TRUE(std::is_sorted(found.begin(), found.end())) << "not in the order in which they were added";
      std::stable_sort(things.begin(), things.end(),
                       [](const Thing& a, const Thing& b) { return a.seconds < b.seconds; });
      auto rest = things.begin() + static_cast<std::ptrdiff_t>(std::min(limits.fastest, things.size()));
      std::sort(rest, things.end(), [](const Thing& a, const Thing& b) { return a.hash.low < b.hash.low; });
      std::set<int> wanted;
      for (auto thing = things.begin(); thing != things.end(); ++thing) {
        if (thing < rest || thing - rest < static_cast<std::ptrdiff_t>(std::min(limits.others, things.size())))
          wanted.insert(thing->number);
      }
      EXPECT_EQ(std::set<int>(found.begin(), found.end()), wanted);
    }
  }
}

TEST(BoundedSample, FastestFirstAndOfEqualOnesTheOlder) {
  BoundedSample<int> sample({2, 8});
  for (auto [number, seconds] : {std::pair(0, 5.0), {1, 3.0}, {2, 5.0}, {3, 1.0}, {4, 3.0}})
    sample.add(seconds, hash_bytes(cat(number)), number);
  std::vector<int> order;
  for (const auto* entry : sample.fastest(4)) order.push_back(entry->value);
  EXPECT_EQ(order, (std::vector<int>{3, 1, 4, 0}));
}

TEST(KnownCandidates, ForgetsWhatLiesFarBackAndKeepsWhatWasAddedLately) {
  KnownCandidates known;
  known.room = 1 << 20;
  constexpr u64 count = 100000;
  for (u64 i = 1; i <= count; ++i) {
    known.add(i, {hash_bytes(cat(i)), 1});
    EXPECT_TRUE(known.add_program(hash_bytes(cat(i)), i));
    known.keep_features(hash_bytes(cat(i)), std::vector<float>(64, static_cast<float>(i)));
    ASSERT_LE(known.bytes(), known.room) << i;
  }
  for (u64 i = count; i > count - 1000; --i) {  // half of the room holds 1,200
    ASSERT_TRUE(known.find(i)) << i;
    ASSERT_TRUE(known.features(hash_bytes(cat(i)))) << i;
    EXPECT_EQ((*known.features(hash_bytes(cat(i))))[0], static_cast<float>(i));
    EXPECT_FALSE(known.add_program(hash_bytes(cat(i)), 0));
    EXPECT_EQ(*known.draft(hash_bytes(cat(i))), i);
  }
  EXPECT_FALSE(known.find(1));
  known.forget();
  EXPECT_EQ(known.bytes(), 0u);
  EXPECT_FALSE(known.find(count));
}

// ---- whole runs

class Watcher : public TuneObserver {
 public:
  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record& last) override {
    ++trials;
    EXPECT_TRUE(programs.insert(cat(last.workload, last.program)).second) << "measured twice";
    if (at_trial) at_trial(trials);
  }
  void on_message(const std::string& text) override { messages.push_back(text); }
  i64 trials = 0;
  std::function<void(i64)> at_trial;
  std::set<std::string> programs;
  std::vector<std::string> messages;
};

class Scale : public testing::Test {
 protected:
  Database database(const std::string& name) const {
    auto opened = Database::open(directory_.path() + "/" + name, DatabaseMode::Write);
    EXPECT_TRUE(opened) << opened.error();
    return std::move(opened).operator*();
  }
  static TuneOptions options(i64 trials, TuneLimits limits = {}) {
    return {.trials = trials, .seed = 1, .threads = 1, .rules = "cpu", .cost_model = "tree", .limits = limits};
  }
  TuneResult run(const std::vector<TuneTask>& tasks, const TuneOptions& options, Database& database) {
    return tune(tasks, library_, options, database, &measurer_, watcher_, stop_);
  }

  const rules::Library library_ = rules::Library::built_in();
  test::TemporaryDirectory directory_;
  bench::SimulatedMeasurer measurer_;
  Watcher watcher_;
  std::atomic<bool> stop_{false};
};

std::size_t live_bytes() {
  struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

// The heap while a kernel is measured and nothing is searched beside it (its target has two threads). What is forgotten
// in halves makes a saw of it: the highest points of two parts of a run are compared, which hold several teeth each.
class LevelMemory : public Scale {
 protected:
  double growth_of_a_trial(TuneLimits limits) {
    constexpr i64 quarter = 160;
    std::vector<TuneTask> tasks = {bench::simulated_large_task()};
    tasks[0].target.threads = 2;
    Database file = database(cat("level", limits.learned));
    std::array<std::size_t, 4> highest{};
    watcher_ = {};
    watcher_.at_trial = [&](i64 trials) {
      std::size_t& here = highest[static_cast<std::size_t>(std::min<i64>((trials - 1) / quarter, 3))];
      here = std::max(here, live_bytes());
    };
    TuneResult result = run(tasks, options(4 * quarter, limits), file);
    EXPECT_EQ(result.measured, 4 * quarter);
    EXPECT_LE(result.most_learned, static_cast<i64>(std::min<std::size_t>(limits.learned, 4 * quarter)));
    return (static_cast<double>(highest[3]) - static_cast<double>(highest[1])) / (2 * quarter);
  }
};

TEST_F(LevelMemory, AnotherTrialCostsSomeHundredBytes) {
  double bounded = growth_of_a_trial({.learned = 128, .learned_of_a_task = 16, .known_bytes = 512 << 10});
  double free = growth_of_a_trial({});
  std::printf("bytes of a trial: %.0f with small limits, %.0f where the run is below its limits\n", bounded, free);
  // Its program, its object code, its record's number, and what the test itself keeps: 600. SQLite keeps the pages of
  // its record, too, up to 2 MB of all.
  EXPECT_LT(bounded, 4000);
  EXPECT_GT(free, 20 * 1000) << "else the limits are not what makes it level";
}

TEST_F(Scale, TasksAreOpenedLateAndEndedWhenTheyAreDone) {
  constexpr int count = 12, most_open = 3;
  std::vector<TuneTask> tasks = bench::simulated_tasks(count);
  i64 largest = 0;
  for (const TuneTask& task : tasks) {
    i64 bytes = 0;
    for (const Param& param : task.program.program.params)
      bytes += 4 * 3 * bytes_of(param.buffer);  // doubles and their variances at most
    largest = std::max(largest, bytes);
  }
  watcher_.at_trial = [&](i64 trials) { EXPECT_LE(measurer_.begun(), 1 + trials) << "before its first trial"; };
  Database file = database("many");
  TuneResult result =
      run(tasks, options(24, {.learned = 200, .learned_of_a_task = 8, .open_bytes = most_open * largest}), file);
  for (const TaskProgress& task : result.tasks)
    EXPECT_TRUE(task.done && task.problem.empty() && task.trials == 24) << task.name << " " << task.problem;
  EXPECT_GT(measurer_.begun(), count) << "no task had to make room: the test tests nothing";
  EXPECT_GE(measurer_.most_open(), static_cast<std::size_t>(most_open));
  EXPECT_LT(measurer_.most_open(), static_cast<std::size_t>(count));
  EXPECT_EQ(measurer_.open(), 0u);
  EXPECT_LE(result.most_learned, 200);
  EXPECT_GE(result.most_learned, 180);
}

// Whatever says that there is no memory for a further task, the others are closed for it, and each task has its trials.
class FullMachine : public Scale {
 protected:
  static constexpr int kCount = 5;
  void expect_at_most_open(std::size_t most, TuneLimits limits) {
    std::vector<TuneTask> tasks = bench::simulated_tasks(kCount);
    Database file = database("full");
    TuneResult result = run(tasks, options(24, std::move(limits)), file);
    for (const TaskProgress& task : result.tasks)
      EXPECT_TRUE(task.done && task.problem.empty() && task.trials == 24) << task.name << " " << task.problem;
    EXPECT_EQ(measurer_.most_open(), most);
    EXPECT_GT(measurer_.begun(), kCount) << "no task had to make room: the test tests nothing";
  }
};

TEST_F(FullMachine, ATaskThatIsLargerThanTheLimitIsOpenAlone) { expect_at_most_open(1, {.open_bytes = 1}); }

TEST_F(FullMachine, MemoryOfTheMachineIsHeeded) {
  expect_at_most_open(2, {.free_bytes = [&] { return measurer_.open() < 2 ? i64{1} << 30 : 0; }});
}

TEST_F(FullMachine, AWorkerThatHasLessThanTheMachineIsHeeded) {
  measurer_.room = 3;
  expect_at_most_open(3, {});
}

// Without the limit each is begun once, and ended as soon as it has its trials: not at the end of the run.
TEST_F(Scale, ATaskThatIsDoneIsEndedBeforeTheOthersAre) {
  std::vector<TuneTask> tasks = bench::simulated_tasks(4);
  std::size_t last_open = 9;
  watcher_.at_trial = [&](i64) { last_open = measurer_.open(); };
  Database file = database("few");
  run(tasks, options(24), file);
  EXPECT_EQ(measurer_.begun(), 4);
  EXPECT_LE(last_open, 2u);
  EXPECT_EQ(measurer_.open(), 0u);
}

TEST_F(Scale, OfManyRecordsAFewAreReadAndNoneIsMeasuredAgain) {
  constexpr i64 stored = 2000;
  std::vector<TuneTask> tasks = bench::simulated_tasks(2);
  tasks[0] = bench::simulated_large_task();
  tasks[1].name = "other";
  Database file = database("records");
  ASSERT_EQ(bench::store_simulated_records(file, {tasks[0]}, library_, stored), "");
  std::set<std::string> programs;
  double best = 1;
  ASSERT_TRUE(
      file.visit({}, [&](Record& record) { programs.insert(record.program), best = std::min(best, record.seconds); }));
  ASSERT_EQ(programs.size(), static_cast<std::size_t>(stored));
  TuneOptions more = options(0, {.learned = 200});
  more.more = 40;
  TuneResult result = run(tasks, more, file);
  EXPECT_EQ(result.traces_read, 100);
  EXPECT_EQ(result.tasks[0].trials, stored + 40);
  EXPECT_LE(result.tasks[0].best_seconds, best);
  EXPECT_EQ(result.tasks[1].trials, 40);
  std::size_t again = 0;
  ASSERT_TRUE(file.visit({.after = stored}, [&](Record& record) {
    again += record.task == tasks[0].name && programs.count(record.program);
  }));
  EXPECT_EQ(again, 0u);
}

TEST_F(Scale, ReadingRecordsOutlivesNoBudgetAndThatIsSaid) {
  std::vector<TuneTask> tasks = bench::simulated_tasks(1);
  Database file = database("cut");
  ASSERT_EQ(bench::store_simulated_records(file, tasks, library_, 20), "");
  for (bool is_cut : {true, false}) {
    watcher_ = {};
    TuneOptions hurried = options(1000, {.reading_seconds = is_cut ? 0.0 : 60.0});
    hurried.seconds = 1e-9;
    TuneResult result = run(tasks, hurried, file);
    EXPECT_EQ(result.tasks[0].trials, is_cut ? 0 : 20);
    EXPECT_EQ(result.tasks[0].problem, "") << "for it has trials";
    EXPECT_EQ(
        std::count_if(
            watcher_.messages.begin(), watcher_.messages.end(),
            [](const std::string& text) {
              return text ==
                     "the records of earlier runs were not all read within 1e-09 s: what is said of them is a part";
            }),
        is_cut)
        << join(watcher_.messages, "; ");
  }
}

// A task that has its trials costs its records only: no space is built, no worker has it, nothing is read of its
// traces.
TEST_F(Scale, WhatIsDoneIsNotOpened) {
  std::vector<TuneTask> tasks = bench::simulated_tasks(6);
  Database file = database("done");
  ASSERT_EQ(bench::store_simulated_records(file, {tasks.begin(), tasks.begin() + 5}, library_, 5 * 40), "");
  TuneResult result = run(tasks, options(40), file);
  EXPECT_EQ(result.measured, 40);
  EXPECT_EQ(result.traces_read, 0);
  EXPECT_EQ(measurer_.begun(), 1);
  for (const TaskProgress& task : result.tasks) EXPECT_TRUE(task.done && task.trials == 40) << task.name;
}

TEST_F(Scale, ReadingRecordsHearsTheStop) {
  std::vector<TuneTask> tasks = {bench::simulated_large_task()};
  Database file = database("stopped");
  ASSERT_EQ(bench::store_simulated_records(file, tasks, library_, 200), "");
  i64 asked = 0, seen = 0;
  ASSERT_TRUE(file.visit({.stop = [&] { return ++asked > 5; }}, [&](Record&) { ++seen; }));
  EXPECT_EQ(seen, 5);
  stop_ = true;
  TuneResult result = run(tasks, options(1000), file);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.measured, 0);
  EXPECT_EQ(result.tasks[0].trials, 0) << "records were read after the stop";
  EXPECT_EQ(result.traces_read, 0);
}

}  // namespace
}  // namespace tw
