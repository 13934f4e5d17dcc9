// When the search ends: tasks of which nothing is left to gain, totals, limits of time, Ctrl-C.
#include <chrono>
#include <limits>
#include <map>
#include <thread>

#include "dsl/base/text.h"
#include "sampler/search/expected_gain.h"
#include "sampler/search/machine_bound.h"
#include "tests/unit/search_kit.h"

namespace tw {
namespace {

TuneOptions ending(
    double min_gain, std::function<Bound(const TuneTask&)> bound = [](const TuneTask&) { return Bound{}; }) {
  TuneOptions chosen{.trials = 400,
                     .min_gain = min_gain,
                     .bound = std::move(bound),
                     .seed = 1,
                     .threads = 1,
                     .rules = "cpu",
                     .cost_model = "tree"};
  return chosen;
}

// Every kernel takes the same time but for a thousandth: after 80 trials another batch is expected to gain less than
// half a percent.
TEST_F(Search, ATaskEndsWhenNothingIsLeftToGain) {
  tasks_.pop_back();
  Database file = database("flat"), other = database("other");
  auto flat = [](const Kernel& kernel) {
    MeasureResult result = time_of(kernel);
    result.seconds = result.min_seconds = result.median_seconds =
        1e-4 * (1 + 1e-12 * static_cast<double>(hash_of(kernel) % 1000000000));
    return result;
  };
  FakeMeasurer measurer(flat), again(flat), all(flat);
  Watcher watcher;
  TuneResult result = run(ending(0.005), file, &measurer, watcher);
  EXPECT_EQ(result.tasks[0].ended, Ended::MinGain);
  EXPECT_EQ(result.measured, 88) << "8, 16, 32 and 32";
  EXPECT_LT(result.tasks[0].expected_gain, 0.005);
  TuneResult resumed = run(ending(0.005), file, &again, watcher);
  EXPECT_EQ(again.calls, 0) << "a second run comes to the same conclusion";
  EXPECT_EQ(resumed.tasks[0].ended, Ended::MinGain);
  // Who wants more gets more; who wants all gets all.
  TuneOptions more = ending(0.005);
  more.more = 5;
  EXPECT_EQ(run(more, file, &again, watcher).measured, 5);
  TuneOptions everything = ending(0);
  everything.trials = 130;
  result = run(everything, other, &all, watcher);
  EXPECT_EQ(result.measured, 130);
  EXPECT_EQ(result.tasks[0].ended, Ended::Trials);
}

// Each trial is a thousandth faster than the one before.
TEST_F(Search, ATaskGoesOnWhileItGains) {
  tasks_.pop_back();
  Database file = database("falling");
  double next = 1e-3;
  FakeMeasurer measurer([&](const Kernel& kernel) {
    MeasureResult result = time_of(kernel);
    result.seconds = result.min_seconds = result.median_seconds = next *= 0.999;
    return result;
  });
  Watcher watcher;
  TuneOptions chosen = ending(0.005);
  chosen.trials = 150;
  TuneResult result = run(chosen, file, &measurer, watcher);
  EXPECT_EQ(result.tasks[0].ended, Ended::Trials);
  EXPECT_EQ(result.measured, 150);
}

TEST_F(Search, ATaskEndsAtTheBoundOfTheMachine) {
  tasks_.pop_back();
  for (auto [bound, is_near] : {std::pair{0.99e-4, true}, std::pair{0.97e-4, false}}) {
    Database file = database(cat("bound", is_near));
    FakeMeasurer measurer([](const Kernel& kernel) {
      MeasureResult result = time_of(kernel);
      result.seconds = result.min_seconds = result.median_seconds = 1e-4 * (1 + result.seconds);
      return result;
    });
    // The first look finds a busy machine.
    int looks = 0;
    Watcher watcher;
    TuneOptions chosen = ending(1e-9, [&looks, bound = bound](const TuneTask&) {
      return Bound{++looks == 1 ? bound * 1.001 : bound, "the FMA peak"};
    });
    chosen.trials = 60;
    TuneResult result = run(chosen, file, &measurer, watcher);
    EXPECT_EQ(result.tasks[0].ended, is_near ? Ended::Bound : Ended::Trials);
    EXPECT_EQ(result.measured, is_near ? 8 : 60);
    EXPECT_EQ(looks, is_near ? 2 : 1) << "what seems near is looked at again";
    EXPECT_EQ(result.tasks[0].bound.what, "the FMA peak");
    EXPECT_DOUBLE_EQ(result.tasks[0].bound.seconds, is_near ? bound : bound * 1.001);
  }
}

// All tasks get kernels; a batch is never that of the task in flight, so the one with the greatest weight gets about
// half of the rest.
TEST_F(Search, ATotalIsDividedByWeight) {
  tasks_.pop_back();
  for (i64 n : {48, 96, 128}) tasks_.push_back(task_of("dense", {{"M", i64{32}}, {"N", n}, {"K", i64{32}}}));
  for (std::size_t i = 0; i < tasks_.size(); ++i) tasks_[i].name = cat("task", i);
  auto trials_of_first = [&](double weight, i64 total) {
    Database file = database(cat("total", weight, "_", total));
    tasks_[0].weight = weight;
    FakeMeasurer measurer;
    Watcher watcher;
    TuneOptions chosen = options();
    chosen.trials = chosen.total_trials = total;
    TuneResult result = run(chosen, file, &measurer, watcher);
    EXPECT_EQ(result.measured, total);
    for (const TaskProgress& task : result.tasks) EXPECT_GT(task.best_seconds, 0) << task.name;
    EXPECT_EQ(result.tasks[0].ended, Ended::TotalTrials);
    FakeMeasurer none;
    EXPECT_EQ(run(chosen, file, &none, watcher).measured, 0) << "earlier runs are counted";
    return result.tasks[0].trials;
  };
  EXPECT_GT(trials_of_first(100, 160), 60);
  EXPECT_LT(trials_of_first(0.01, 160), 30);
  EXPECT_EQ(trials_of_first(1, 7), 2) << "the last of four tasks has no untuned program";
  i64 of_thirteen = trials_of_first(1, 13);
  EXPECT_TRUE(of_thirteen == 3 || of_thirteen == 4) << of_thirteen << ": each its part, at first";
}

// Strategies that measure 64 together, too.
TEST_F(Search, EachTaskHasItsPartOfASmallTotal) {
  tasks_ = {task_of("dense", {{"M", i64{32}}, {"N", i64{48}}, {"K", i64{32}}}),
            task_of("dense", {{"M", i64{32}}, {"N", i64{96}}, {"K", i64{32}}}),
            task_of("dense", {{"M", i64{32}}, {"N", i64{128}}, {"K", i64{32}}})};
  for (std::size_t i = 0; i < tasks_.size(); ++i) tasks_[i].name = cat("task", i);
  for (const char* strategy : {"annealing", "metropolis", "reference", "genetic", "random"}) {
    Database file = database(cat("part_", strategy));
    FakeMeasurer measurer;
    Watcher watcher;
    TuneOptions chosen = options();
    chosen.search.strategy = strategy;
    chosen.search = completed(chosen.search);
    chosen.trials = chosen.total_trials = 30;
    TuneResult result = run(chosen, file, &measurer, watcher);
    for (const TaskProgress& task : result.tasks) EXPECT_GE(task.trials, 5) << strategy << ", " << task.name;
  }
}

TEST(MachineBound, IsTheArithmeticOrTheBytes) {
  TuneTask dense = task_of("dense", {{"M", i64{256}}, {"N", i64{256}}, {"K", i64{256}}});
  TuneTask softmax = task_of("softmax", {{"M", i64{256}}, {"N", i64{256}}});
  TuneTask strided = task_of("conv2d", {{"N", i64{1}},
                                        {"H", i64{16}},
                                        {"W", i64{16}},
                                        {"CI", i64{8}},
                                        {"CO", i64{8}},
                                        {"K", i64{1}},
                                        {"stride", i64{2}}});
  constexpr double kFloat = 4;
  EXPECT_EQ(least_bytes(dense.program.program).read, 2 * 256 * 256 * kFloat);
  EXPECT_EQ(least_bytes(dense.program.program).written, 256 * 256 * kFloat);
  EXPECT_EQ(least_bytes(softmax.program.program).read, 256 * 256 * kFloat);
  EXPECT_EQ(least_bytes(strided.program.program).read, 8 * 8 * kFloat) << "of the image a quarter only";
  MachineBound machine;
  Bound of_dense = machine.of(dense), of_softmax = machine.of(softmax);
  EXPECT_EQ(of_dense.what, "the FMA peak");
  EXPECT_EQ(of_softmax.what, "the bandwidth");
  // A core does 1 to 1,000 GFLOP/s and moves 1 to 1,000 GB/s.
  EXPECT_GT(of_dense.seconds, 2.0 * 256 * 256 * 256 / 1e12);
  EXPECT_LT(of_dense.seconds, 2.0 * 256 * 256 * 256 / 1e9);
  EXPECT_GT(of_softmax.seconds, 2 * 256 * 256 * kFloat / 1e12);
  EXPECT_LT(of_softmax.seconds, 2 * 256 * 256 * kFloat / 1e9);
  dense.target.kind = TargetKind::Cuda;
  EXPECT_EQ(machine.of(dense).seconds, 0);
}

TEST(ExpectedGain, LooksAtWhatWasGainedAndAtHowFarTheFastestLieApart) {
  std::vector<double> seconds(79, 2.0);
  seconds[3] = 1;
  EXPECT_EQ(expected_gain(seconds), 1) << "too few";
  seconds.push_back(2.0);
  EXPECT_NEAR(expected_gain(seconds), 1.0 / 4 / 3, 1e-12) << "the others are far: one more like the best may be lucky";
  for (std::size_t i = 30; i < 50; ++i) seconds[i] = 1.0001;
  EXPECT_NEAR(expected_gain(seconds), 1e-4 / 4 / 3, 1e-12);
  seconds[60] = 0.9;
  EXPECT_NEAR(expected_gain(seconds), 0.05, 1e-12) << "10 % in two batches";
  EXPECT_EQ(expected_gain(std::vector<double>(100, std::numeric_limits<double>::infinity())), 1);
}

// What a measurer was told to give up is no trial, and no error.
TEST_F(Search, AMeasurementThatWasStoppedLeavesNothing) {
  Database file = database("stopped");
  Watcher watcher;
  FakeMeasurer measurer([&](const Kernel& kernel) {
    MeasureResult result = time_of(kernel);
    if (measurer.calls < 5) return result;
    watcher.stop = true;
    result = {};
    result.was_stopped = true;
    return result;
  });
  TuneResult result = run(options(), file, &measurer, watcher);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.measured, 4);
  EXPECT_EQ(trials(file).size(), 4u);
  for (const TaskProgress& task : result.tasks) EXPECT_EQ(task.problem, "") << task.name;
}

// So is a task whose reference was.
TEST_F(Search, AReferenceThatWasStoppedIsNoProblem) {
  class Stopped : public FakeMeasurer {
   public:
    explicit Stopped(std::atomic<bool>& stop) : stop_(stop) {}
    void stop_when(std::function<bool()> is_wanted) override { is_wanted_ = std::move(is_wanted); }
    TaskStart begin_task(const Kernel&, Tolerance, u64) override {
      EXPECT_FALSE(is_wanted_());
      stop_ = true;
      EXPECT_TRUE(is_wanted_());
      return {.was_stopped = true};
    }

   private:
    std::atomic<bool>& stop_;
    std::function<bool()> is_wanted_;
  };
  Database file = database("reference");
  Watcher watcher;
  Stopped measurer(watcher.stop);
  TuneResult result = run(options(), file, &measurer, watcher);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(measurer.calls, 0);
  for (const TaskProgress& task : result.tasks) EXPECT_EQ(task.problem, "") << task.name;
}

TEST_F(Search, StopsAfterTheTrialAtHand) {
  Database file = database("stopped");
  FakeMeasurer measurer;
  Watcher watcher;
  watcher.stop_after = 5;
  TuneResult result = run(options(), file, &measurer, watcher);
  EXPECT_TRUE(result.interrupted);
  std::size_t stored = trials(file).size();
  EXPECT_TRUE(stored == 5 || stored == 6) << stored;
  EXPECT_EQ(result.measured, static_cast<i64>(stored));
}

// A trial takes 0.1 s at least, so that no more than these begin in time; a whole batch would be 32.
TEST_F(Search, StopsWhenItsTimeIsOver) {
  tasks_.pop_back();
  Database file = database("time");
  FakeMeasurer measurer([&](const Kernel& kernel) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return time_of(kernel);
  });
  Watcher watcher;
  TuneOptions limited = options(1, 1, 100000);
  limited.seconds = 1.5;
  TuneResult result = run(limited, file, &measurer, watcher);
  EXPECT_FALSE(result.interrupted);
  EXPECT_LE(measurer.calls, 16);
}

}  // namespace
}  // namespace tw
