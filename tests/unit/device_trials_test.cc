// How `tune` has the trials of a device timed, with a measurer whose times follow from the kernel's code alone: no
// process, no clock, no device.
#include <gtest/gtest.h>

#include <map>

#include "dsl/text/workload.h"
#include "runtime/store/database.h"
#include "sampler/search/tune.h"
#include "support/support.h"

namespace tw {
namespace {

constexpr double kCold = 5;  // so many times longer than with warm caches

class FakeMeasurer : public Measurer {
 public:
  TaskStart begin_task(const Kernel&, Tolerance, u64) override { return {.task = 0, .error = {}}; }
  void end_task(int) override {}
  MeasureResult measure(int, const Kernel& candidate, const MeasureOptions& options) override {
    u64 hash = 0;
    for (unsigned char byte : candidate.code) hash = mix64(hash ^ byte);
    MeasureResult result;
    result.status = hash % 3 == 0 ? MeasureStatus::Noisy : MeasureStatus::Ok;
    result.seconds = from_picoseconds(1000000 + static_cast<i64>(hash % 999000000));
    if (options.single_call_seconds > 0) result.seconds = 1;  // the untuned program
    if (options.cold_samples > 0) {
      EXPECT_GE(options.cold_samples, 20);
      EXPECT_GE(options.pairs, 20);
      result.cold_seconds = kCold * result.seconds;
    }
    if (options.incumbent) result.ratio = result.seconds / times_.at(options.incumbent->code);
    times_[candidate.code] = result.seconds;
    return result;
  }

 private:
  std::map<std::string, double> times_;
};

class Silent : public TuneObserver {
 public:
  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record&) override {}
  void on_message(const std::string& text) override { ADD_FAILURE() << text; }
};

TEST(DeviceTrials, WhatBecomesTheBestIsTimedLongerAndWithColdCaches) {
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program =
      instantiate(operator_library(), "matmul", {{"M", i64{64}}, {"N", i64{64}}, {"K", i64{64}}}, {}, diagnostics);
  ASSERT_TRUE(program) << diagnostics.render();
  std::vector<TuneTask> tasks(1);
  tasks[0].name = "mm";
  tasks[0].program = std::move(*program);
  tasks[0].target.kind = TargetKind::OpenCl;
  test::TemporaryDirectory folder;
  auto database = Database::open(folder.path() + "/t.db", DatabaseMode::Write);
  ASSERT_TRUE(database) << database.error();
  FakeMeasurer measurer;
  Silent observer;
  std::atomic<bool> stop{false};
  TuneOptions options{.trials = 40, .seed = 1, .threads = 1, .rules = "opencl", .cost_model = "random"};
  TuneResult result = tune(tasks, rules::Library::built_in(), options, *database, &measurer, observer, stop);
  ASSERT_EQ(result.error, "");
  double best = 0, cold_of_best = 0;
  int were_best = 0, had_none = 0;
  EXPECT_TRUE(database->visit({}, [&](Record& record) {
    if (!record.is_trial()) return;
    bool is_baseline = record.trace.empty(), is_best = best == 0 || record.seconds < best;
    EXPECT_EQ(record.cold > 0, is_best && !is_baseline) << "record " << record.id;
    if (!is_best) return void(++had_none);
    ++were_best;
    best = record.seconds, cold_of_best = record.cold;
    EXPECT_TRUE(is_baseline || to_picoseconds(record.cold) == to_picoseconds(kCold * record.seconds));
  }));
  EXPECT_GT(were_best, 1);
  EXPECT_GT(had_none, 1);
  EXPECT_EQ(to_picoseconds(result.tasks[0].best_seconds), to_picoseconds(best));
  EXPECT_EQ(to_picoseconds(result.tasks[0].best_cold_seconds), to_picoseconds(cold_of_best));
}

}  // namespace
}  // namespace tw
