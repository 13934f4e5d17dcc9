// How `tune` has the trials of a device timed, with a measurer whose times follow from the kernel's code alone: no
// process, no clock, no device.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "dsl/text/workload.h"
#include "runtime/store/database.h"
#include "sampler/search/trial.h"
#include "sampler/search/tune.h"
#include "sampler/space/parallel_for.h"
#include "support/nvrtc.h"
#include "support/support.h"

namespace tw {
namespace {

constexpr double kCold = 5;  // so many times longer than with warm caches

class FakeMeasurer : public Measurer {
 public:
  TaskStart begin_task(const Kernel&, Tolerance, u64) override { return {.task = 0, .error = {}}; }
  void end_task(int) override {}
  MeasureResult measure(int, const Kernel& candidate, const MeasureOptions& options) override {
    is_beside |= std::this_thread::get_id() != own_;
    u64 hash = 0;
    for (unsigned char byte : candidate.code) hash = mix64(hash ^ byte);
    MeasureResult result;
    result.status = hash % 3 == 0 ? MeasureStatus::Noisy : MeasureStatus::Ok;
    result.seconds = from_picoseconds(1000000 + static_cast<i64>(hash % 999000000));
    if (options.single_call_seconds > 0) result.seconds = 1;  // the untuned program
    EXPECT_GT(options.cold_samples, 0);
    bool is_confirmed = options.cold_samples >= 20;
    EXPECT_EQ(is_confirmed, options.pairs >= 20);
    confirmed_[candidate.code] |= is_confirmed;
    result.median_seconds = result.seconds;
    result.cold_seconds = kCold * result.seconds;
    // A kernel that is fast with warm caches is slow with cold ones.
    if (options.cold_caches) result.seconds = result.cold_seconds = 2 - result.seconds;
    if (options.incumbent) result.ratio = result.seconds / times_.at(options.incumbent->code);
    times_[candidate.code] = result.seconds;
    return result;
  }

  bool is_beside = false;  // it was asked by another thread than the one that made it
  bool was_confirmed(const std::string& object) const {
    return std::ranges::any_of(
        confirmed_, [&](const auto& entry) { return entry.second && to_hex(hash_bytes(entry.first)) == object; });
  }

 private:
  std::thread::id own_ = std::this_thread::get_id();
  std::map<std::string, double> times_;
  std::map<std::string, bool> confirmed_;  // by code
};

class Silent : public TuneObserver {
 public:
  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record&) override {}
  void on_message(const std::string& text) override {
    EXPECT_NE(text.find("of another machine or timing"), std::string::npos) << text;
  }
};

// Tunes a small product for the target, with few trials.
TuneResult tune_product(const std::string& target, const std::string& rules, i64 trials, Database& database,
                        FakeMeasurer& measurer, Timing timing = Timing::Warm) {
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program =
      instantiate(operator_library(), "matmul", {{"M", i64{64}}, {"N", i64{64}}, {"K", i64{64}}}, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  std::vector<TuneTask> tasks(1);
  tasks[0].name = "mm";
  tasks[0].program = std::move(*program);
  tasks[0].target = *parse_target(target, 0, diagnostics);
  tasks[0].timing = timing;
  Silent observer;
  std::atomic<bool> stop{false};
  TuneOptions options{.trials = trials, .seed = 1, .threads = 1, .rules = rules, .cost_model = "random"};
  return tune(tasks, rules::Library::built_in(), options, database, &measurer, observer, stop);
}

// An OpenCL device may be this processor; a GPU leaves it alone.
TEST(DeviceTrials, KernelsForAGpuAreSearchedAndCompiledWhileOthersAreMeasured) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  if (usable_threads() < 2) GTEST_SKIP() << "one core";
  for (const auto& [target, rules] : {std::pair{"cuda -arch=sm_80", "cuda"}, std::pair{"opencl", "opencl"}}) {
    test::TemporaryDirectory folder;
    auto database = Database::open(folder.path() + "/t.db", DatabaseMode::Write);
    ASSERT_TRUE(database) << database.error();
    FakeMeasurer measurer;
    EXPECT_EQ(tune_product(target, rules, 12, *database, measurer).error, "");
    EXPECT_EQ(measurer.is_beside, std::string(rules) == "cuda") << rules;
  }
}

TEST(DeviceTrials, WhatBecomesTheBestIsTimedLonger) {
  test::TemporaryDirectory folder;
  auto database = Database::open(folder.path() + "/t.db", DatabaseMode::Write);
  ASSERT_TRUE(database) << database.error();
  FakeMeasurer measurer;
  TuneResult result = tune_product("opencl", "opencl", 40, *database, measurer);
  ASSERT_EQ(result.error, "");
  double best = 0, cold_of_best = 0;
  int were_best = 0, had_none = 0;
  EXPECT_TRUE(database->visit({}, [&](Record& record) {
    if (!record.is_trial()) return;
    bool is_baseline = record.trace.empty(), is_best = best == 0 || record.seconds < best;
    EXPECT_EQ(measurer.was_confirmed(record.object), is_best && !is_baseline) << "record " << record.id;
    EXPECT_EQ(to_picoseconds(record.cold), to_picoseconds(kCold * record.seconds));
    if (!is_best) return void(++had_none);
    ++were_best;
    best = record.seconds, cold_of_best = record.cold;
  }));
  EXPECT_GT(were_best, 1);
  EXPECT_GT(had_none, 1);
  EXPECT_EQ(to_picoseconds(result.tasks[0].best_seconds), to_picoseconds(best));
  EXPECT_EQ(to_picoseconds(result.tasks[0].best_cold_seconds), to_picoseconds(cold_of_best));
}

// The order of times with cold caches is another one, and neither run takes the other's for its own.
TEST(DeviceTrials, TimesWithColdCachesAreComparedWithTheirLike) {
  test::TemporaryDirectory folder;
  auto database = Database::open(folder.path() + "/t.db", DatabaseMode::Write);
  ASSERT_TRUE(database) << database.error();
  FakeMeasurer measurer;
  TuneResult warm = tune_product("opencl", "opencl", 24, *database, measurer),
             cold = tune_product("opencl", "opencl", 24, *database, measurer, Timing::Cold);
  EXPECT_EQ(cold.measured, warm.measured) << "what the first has measured is measured again";
  double best_warm = 9, best_cold = 9;
  EXPECT_TRUE(database->visit({}, [&](Record& record) {
    if (!record.ok() || !record.is_trial() || record.trace.empty()) return;
    bool is_cold = record.host.ends_with(kColdCaches);
    (is_cold ? best_cold : best_warm) = std::min(is_cold ? best_cold : best_warm, record.seconds);
    EXPECT_GT(record.cold, 0);
    if (!is_cold) return;
    EXPECT_EQ(to_picoseconds(record.seconds), to_picoseconds(record.cold)) << "what is compared";
    EXPECT_EQ(to_picoseconds(record.median + record.cold), to_picoseconds(2)) << "with warm caches";
  }));
  EXPECT_EQ(to_picoseconds(warm.tasks[0].best_seconds), to_picoseconds(best_warm));
  EXPECT_EQ(to_picoseconds(cold.tasks[0].best_seconds), to_picoseconds(best_cold));
}

}  // namespace
}  // namespace tw
