// The search with a measurer whose times follow from the kernel's code alone: no process, no clock.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/text/workload.h"
#include "runtime/database.h"
#include "sampler/search/evolution.h"
#include "sampler/search/expected_gain.h"
#include "sampler/search/machine_bound.h"
#include "sampler/search/task_scheduler.h"
#include "sampler/search/trial.h"
#include "sampler/search/tune.h"
#include "support/support.h"

namespace tw {
namespace {

u64 hash_of(const Kernel& kernel) {
  u64 hash = 0;
  for (unsigned char byte : kernel.code) hash = mix64(hash ^ byte);
  return hash;
}

// 1 to 1000 us.
MeasureResult time_of(const Kernel& kernel) {
  MeasureResult result;
  result.status = MeasureStatus::Ok;
  result.seconds = result.min_seconds = result.median_seconds = from_picoseconds(1000000 + static_cast<i64>(hash_of(kernel) % 999000000));
  return result;
}

MeasureResult failure(MeasureStatus status, const std::string& message) {
  MeasureResult result;
  result.status = status;
  result.message = message;
  return result;
}

class FakeMeasurer : public Measurer {
 public:
  using Answer = std::function<MeasureResult(const Kernel&, const MeasureOptions&)>;
  FakeMeasurer() : FakeMeasurer(time_of) {}
  explicit FakeMeasurer(std::function<MeasureResult(const Kernel&)> answer)
      : answer_([answer = std::move(answer)](const Kernel& kernel, const MeasureOptions&) { return answer(kernel); }) {}
  explicit FakeMeasurer(Answer answer) : answer_(std::move(answer)) {}
  TaskStart begin_task(const Kernel&, Tolerance, u64) override {
    TaskStart start;
    start.task = tasks_++;
    return start;
  }
  void end_task(int) override {}
  MeasureResult measure(int task, const Kernel& candidate, const MeasureOptions& options) override {
    EXPECT_LT(task, tasks_);
    ++calls;
    return answer_(candidate, options);
  }
  int calls = 0;

 private:
  Answer answer_;
  int tasks_ = 0;
};

// Keeps what it is told; may set the stop flag after some trials.
class Watcher : public TuneObserver {
 public:
  void on_trial(const std::vector<TaskProgress>&, std::size_t task, const Record& last) override {
    candidates.emplace_back(task, last.program);
    if (static_cast<int>(candidates.size()) == stop_after) stop = true;
  }
  void on_message(const std::string& text) override { messages.push_back(text); }
  std::vector<std::pair<std::size_t, std::string>> candidates;
  std::vector<std::string> messages;
  int stop_after = 0;
  std::atomic<bool> stop{false};
};

TuneTask task_of(const std::string& workload, const WorkloadArguments& arguments) {
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program = instantiate(operator_library(), workload, arguments, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  Target target = host_target();
  target.threads = 1;
  target.vector_bits = 256;  // the spaces are the same on every machine
  return {.name = workload, .program = std::move(*program), .target = target, .weight = 1, .templates = {}};
}

// The space of this softmax is small: 4 ways to unroll each of two reductions, and the untuned program.
constexpr i64 kSoftmaxSpace = 4 * 4 + 1;
constexpr i64 kTrials = 40;
i64 trials_of(const std::string& task, i64 wanted = kTrials) { return task == "softmax" ? kSoftmaxSpace : wanted; }

class Search : public testing::Test {
 protected:
  static const rules::Library& library() {
    static const rules::Library built_in = rules::Library::built_in();
    return built_in;
  }
  static TuneOptions options(u64 seed = 1, int threads = 1, i64 trials = kTrials) {
    return {.trials = trials, .seconds = 0, .seed = seed, .threads = threads, .rules = "cpu", .cost_model = "tree"};
  }
  Database database(const std::string& name) const {
    auto opened = Database::open(directory_.path() + "/" + name, DatabaseMode::Write);
    EXPECT_TRUE(opened) << opened.error();
    return std::move(opened).operator*();
  }
  TuneResult run(const TuneOptions& options, Database& database, Measurer* measurer, Watcher& watcher,
                 const rules::Library& rules = library()) const {
    return tune(tasks_, rules, options, database, measurer, watcher, watcher.stop);
  }
  // The built-in rules and those of a module.
  static rules::Library library_with(const std::string& text) {
    auto source = std::make_shared<Source>(Source{"my.tw", text});
    Diagnostics diagnostics(*source);
    rules::Library made = rules::Library::built_in();
    std::shared_ptr<const rules::Module> module = rules::parse_module(source, diagnostics);
    EXPECT_TRUE(module && made.add(module, diagnostics)) << diagnostics.render();
    return made;
  }
  static std::vector<Record> records(Database& database) {
    std::vector<Record> list;
    EXPECT_TRUE(database.visit({}, [&](Record& record) { list.push_back(record); }));
    return list;
  }
  // Without those that were not measured because their code was known.
  static std::vector<Record> trials(Database& database) {
    std::vector<Record> list = records(database);
    std::erase_if(list, [](const Record& record) { return !record.is_trial(); });
    return list;
  }
  // (task, trace) of every candidate in stored order.
  static std::vector<std::pair<std::string, std::string>> traces(Database& database) {
    std::vector<std::pair<std::string, std::string>> list;
    for (const Record& record : records(database)) list.emplace_back(record.task, record.trace);
    return list;
  }

  test::TemporaryDirectory directory_;
  std::vector<TuneTask> tasks_ = [] {
    std::vector<TuneTask> tasks;
    tasks.push_back(task_of("dense", {{"M", i64{32}}, {"N", i64{64}}, {"K", i64{32}}}));
    tasks.push_back(task_of("softmax", {{"M", i64{8}}, {"N", i64{64}}}));
    return tasks;
  }();
};

TEST_F(Search, TheSeedAloneDecidesWhatIsMeasured) {
  auto stored = [&](const std::string& name, u64 seed, int threads) {
    Database file = database(name);
    FakeMeasurer measurer;
    Watcher watcher;
    TuneResult result = run(options(seed, threads), file, &measurer, watcher);
    EXPECT_EQ(result.error, "");
    EXPECT_FALSE(result.interrupted);
    EXPECT_EQ(result.measured, measurer.calls);
    for (const TaskProgress& task : result.tasks) {
      EXPECT_EQ(task.trials, trials_of(task.name)) << task.name;
      EXPECT_TRUE(task.done && task.problem.empty()) << task.name << ": " << task.problem;
    }
    EXPECT_EQ(watcher.messages, std::vector<std::string>{"softmax: the space holds no further candidate"});
    return traces(file);
  };
  auto one = stored("one", 1, 1);
  ASSERT_GE(one.size(), kTrials + kSoftmaxSpace);
  EXPECT_EQ(stored("three", 1, 3), one);
  EXPECT_NE(stored("other", 2, 1), one);
}

TEST_F(Search, ResumesWhereItStopped) {
  Database file = database("resumed");
  FakeMeasurer first, again, more;
  Watcher watcher;
  run(options(), file, &first, watcher);
  EXPECT_EQ(first.calls, kTrials + kSoftmaxSpace);
  TuneResult nothing = run(options(), file, &again, watcher);
  EXPECT_EQ(again.calls, 0);
  EXPECT_EQ(nothing.measured, 0);
  run(options(1, 1, kTrials + 20), file, &more, watcher);
  EXPECT_EQ(more.calls, 20);  // of softmax there is nothing left
  EXPECT_EQ(trials(file).size(), kTrials + 20 + kSoftmaxSpace);
  std::set<std::string> programs;
  for (const Record& record : records(file)) EXPECT_TRUE(programs.insert(record.program).second) << "measured twice: record " << record.id;
}

// ---- ends

TuneOptions ending(double min_gain, std::function<Bound(const TuneTask&)> bound = [](const TuneTask&) { return Bound{}; }) {
  TuneOptions chosen{.trials = 400, .min_gain = min_gain, .bound = std::move(bound), .seed = 1, .threads = 1, .rules = "cpu", .cost_model = "tree"};
  return chosen;
}

// Every kernel takes the same time but for a thousandth: after 80 trials another batch is expected to gain less than half a percent.
TEST_F(Search, ATaskEndsWhenNothingIsLeftToGain) {
  tasks_.pop_back();
  Database file = database("flat"), other = database("other");
  auto flat = [](const Kernel& kernel) {
    MeasureResult result = time_of(kernel);
    result.seconds = result.min_seconds = result.median_seconds = 1e-4 * (1 + 1e-12 * static_cast<double>(hash_of(kernel) % 1000000000));
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
    TuneOptions chosen = ending(1e-9, [&looks, bound = bound](const TuneTask&) { return Bound{++looks == 1 ? bound * 1.001 : bound, "the FMA peak"}; });
    chosen.trials = 60;
    TuneResult result = run(chosen, file, &measurer, watcher);
    EXPECT_EQ(result.tasks[0].ended, is_near ? Ended::Bound : Ended::Trials);
    EXPECT_EQ(result.measured, is_near ? 8 : 60);
    EXPECT_EQ(looks, is_near ? 2 : 1) << "what seems near is looked at again";
    EXPECT_EQ(result.tasks[0].bound.what, "the FMA peak");
    EXPECT_DOUBLE_EQ(result.tasks[0].bound.seconds, is_near ? bound : bound * 1.001);
  }
}

// All tasks get kernels; a batch is never that of the task in flight, so the one with the greatest weight gets about half of the rest.
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

TEST(MachineBound, IsTheArithmeticOrTheBytes) {
  TuneTask dense = task_of("dense", {{"M", i64{256}}, {"N", i64{256}}, {"K", i64{256}}});
  TuneTask softmax = task_of("softmax", {{"M", i64{256}}, {"N", i64{256}}});
  TuneTask strided = task_of("conv2d", {{"N", i64{1}}, {"H", i64{16}}, {"W", i64{16}}, {"CI", i64{8}}, {"CO", i64{8}}, {"K", i64{1}}, {"stride", i64{2}}});
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

// The records of one machine seem a thousand times as fast as anything here.
TEST_F(Search, RecordsOfAnotherMachineSeedAndAreNotCompared) {
  tasks_.pop_back();  // the space of softmax is so small that all of it is measured anyway
  Database theirs = database("theirs"), merged = database("merged");
  FakeMeasurer first, third;
  Watcher watcher;
  run(options(), theirs, &first, watcher);
  std::vector<Record> foreign = records(theirs);
  std::string best;
  double least = 1;
  for (Record& record : foreign) {
    record.host = "another, 2 of 2 cores, Linux 1";
    record.seconds *= 1e-3;
    if (record.ok() && record.seconds < least) least = record.seconds, best = record.program;
    ASSERT_TRUE(merged.add_record(record));
  }
  std::set<std::string> known;
  for (const Record& record : foreign) known.insert(record.program);
  // The incumbents are kernels that were measured here.
  std::set<std::string> codes;
  FakeMeasurer watched([&](const Kernel& kernel, const MeasureOptions& how) {
    EXPECT_TRUE(!how.incumbent || codes.count(how.incumbent->code)) << "an incumbent that was not measured";
    codes.insert(kernel.code);
    return time_of(kernel);
  });
  TuneResult result = run(options(2), merged, &watched, watcher);
  EXPECT_EQ(result.measured, kTrials) << "trials of another machine are not counted";
  EXPECT_EQ(result.tasks[0].trials, kTrials);
  EXPECT_GE(result.tasks[0].best_seconds, 1e-6);
  EXPECT_NE(watcher.messages.back().find("of another machine: the best of them are measured again here"), std::string::npos) << watcher.messages.back();
  std::vector<Record> all = records(merged);
  std::vector<Record> own(all.begin() + static_cast<std::ptrdiff_t>(foreign.size()), all.end());
  std::set<i64> foreign_ids;
  for (std::size_t i = 0; i < foreign.size(); ++i) foreign_ids.insert(all[i].id);
  bool best_in_first_batch = false;
  std::size_t again = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (i < 8) best_in_first_batch |= own[i].program == best;
    again += known.count(own[i].program);
    EXPECT_EQ(own[i].host, host_description());
    for (i64 id : foreign_ids) EXPECT_NE(own[i].error, cat("as record ", id)) << "measured elsewhere only";
  }
  EXPECT_TRUE(best_in_first_batch);
  EXPECT_GE(again, 4u);
  // A run that goes on knows both: no trial is left.
  TuneResult nothing = run(options(2), merged, &third, watcher);
  EXPECT_EQ(third.calls, 0);
  EXPECT_EQ(nothing.tasks[0].best_seconds, result.tasks[0].best_seconds);
}

// Also where one task has more trials than another: dense has 12, softmax 5.
TEST_F(Search, MoreIsCountedFromEachTasksOwnTrials) {
  Database file = database("more");
  FakeMeasurer first, second, third;
  Watcher watcher;
  run(options(1, 1, 5), file, &first, watcher);
  std::vector<TuneTask> both = std::exchange(tasks_, {tasks_[0]});
  run(options(1, 1, 12), file, &second, watcher);
  EXPECT_EQ(second.calls, 7);
  tasks_ = both;
  TuneOptions more = options();
  more.more = 6;
  TuneResult result = run(more, file, &third, watcher);
  EXPECT_EQ(third.calls, 12);
  EXPECT_EQ(result.measured, 12);
  ASSERT_EQ(result.tasks.size(), 2u);
  EXPECT_EQ(result.tasks[0].trials, 18);
  EXPECT_EQ(result.tasks[1].trials, 11);
  for (const TaskProgress& task : result.tasks) EXPECT_TRUE(task.done && task.wanted == task.trials) << task.name;
}

// The space holds programs that differ, by a note that no code depends on, and compile to the same code.
TEST_F(Search, NoCodeIsMeasuredTwice) {
  Database file = database("codes");
  std::set<std::string> codes;
  FakeMeasurer measurer([&](const Kernel& kernel) {
    EXPECT_TRUE(codes.insert(kernel.code).second) << "measured twice";
    return time_of(kernel);
  });
  Watcher watcher;
  rules::Library noted = library_with(R"(
mark note: int
rule note(b: block)
  when is_reduction(b)
{
  either { annotate(b, "note", 1) } or { annotate(b, "note", 2) }
}
rules noted {
  register_tiling
  note
}
)");
  TuneOptions chosen = options();
  chosen.rules = "noted";
  TuneResult first = run(chosen, file, &measurer, watcher, noted);
  EXPECT_GT(first.same_code, 0);
  EXPECT_EQ(first.measured, measurer.calls);
  // Also by a later run, which knows the codes from the database.
  TuneOptions more = chosen;
  more.more = 30;
  TuneResult second = run(more, file, &measurer, watcher, noted);
  EXPECT_EQ(second.measured + first.measured, static_cast<i64>(codes.size()));
  std::map<std::string, i64> trials;
  std::map<std::string, std::string> objects;  // code -> record
  for (const Record& record : records(file)) {
    EXPECT_EQ(record.object.size(), 32u);
    trials[record.task] += record.is_trial();
    std::string key = record.task + record.object, id = std::to_string(record.id);
    EXPECT_EQ(objects.count(key) == 0, record.is_trial()) << id;
    if (!record.is_trial()) {
      EXPECT_EQ(record.error, "as record " + objects[key]);
    }
    objects.emplace(key, id);
  }
  for (const TaskProgress& task : second.tasks) EXPECT_EQ(task.trials, trials[task.name]);
  for (const TuneTask& task : tasks_) {
    std::string workload = to_hex(structural_hash(task.program.program));
    EXPECT_EQ(*file.trials(workload, to_string(task.target), machine_of(host_description())), trials[task.name]);
  }
}

TEST_F(Search, ReplaysMeasurementsInTheSameOrder) {
  Database file = database("replayed");
  FakeMeasurer measurer;
  Watcher measured, one, three;
  run(options(), file, &measurer, measured);
  std::size_t stored = records(file).size();
  TuneOptions replaying = options();
  replaying.replay_measurements = true;
  TuneResult result = run(replaying, file, nullptr, one);
  replaying.threads = 3;
  run(replaying, file, nullptr, three);
  EXPECT_EQ(one.candidates, three.candidates);
  EXPECT_EQ(one.candidates, measured.candidates);
  EXPECT_EQ(records(file).size(), stored) << "replaying stored something";
  for (const TaskProgress& task : result.tasks) EXPECT_EQ(task.failed, 0) << task.name << ": some candidates were not recorded";
}

TEST_F(Search, SaysSoIfEveryCandidateFails) {
  Database file = database("crashes");
  FakeMeasurer measurer([](const Kernel&) { return failure(MeasureStatus::Crash, "SIGSEGV at 0x10"); });
  Watcher watcher;
  TuneResult result = run(options(), file, &measurer, watcher);
  for (const TaskProgress& task : result.tasks) {
    std::string count = std::to_string(trials_of(task.name));
    EXPECT_EQ(task.problem, "every candidate failed (" + count + " crash); the first one: crash: SIGSEGV at 0x10");
    EXPECT_EQ(task.failed, trials_of(task.name)) << task.name;
    EXPECT_EQ(task.best_seconds, 0) << task.name;
  }
}

TEST_F(Search, SaysOnceThatAReferenceFails) {
  class NoReference : public FakeMeasurer {
    TaskStart begin_task(const Kernel&, Tolerance, u64) override { return {.task = -1, .error = "out of memory", .reference_seconds = 0}; }
  };
  Database file = database("reference");
  NoReference measurer;
  Watcher watcher;
  TuneResult result = run(options(), file, &measurer, watcher);
  EXPECT_EQ(measurer.calls, 0);
  EXPECT_TRUE(records(file).empty());
  for (const TaskProgress& task : result.tasks) EXPECT_EQ(task.problem, "the reference program cannot be run: out of memory") << task.name;
  EXPECT_EQ(watcher.messages.size(), result.tasks.size()) << "one message for each task";
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

TEST_F(Search, StoresFailuresAndGoesOn) {
  Database file = database("failures");
  FakeMeasurer measurer([](const Kernel& kernel) {
    switch (hash_of(kernel) % 6) {
      case 0: return failure(MeasureStatus::Timeout, "no answer");
      case 1: return failure(MeasureStatus::WrongResult, "3 is not 4");
      case 2: return failure(MeasureStatus::OutOfBounds, "behind Y");
      default: return time_of(kernel);
    }
  });
  Watcher watcher;
  TuneResult result = run(options(), file, &measurer, watcher);
  std::map<std::string, std::set<std::string>> errors;  // by status
  std::map<std::string, i64> failed;                    // by task
  for (const Record& record : trials(file)) {
    errors[record.status].insert(record.error);
    failed[record.task] += !record.ok();
    EXPECT_EQ(record.ok(), record.seconds > 0) << record.status;
  }
  EXPECT_EQ(errors, (std::map<std::string, std::set<std::string>>{
                        {"ok", {""}}, {"timeout", {"no answer"}}, {"wrong result", {"3 is not 4"}}, {"out of bounds", {"behind Y"}}}));
  for (const TaskProgress& task : result.tasks) {
    EXPECT_EQ(task.problem, "") << task.name;
    EXPECT_EQ(task.trials, trials_of(task.name)) << task.name;
    EXPECT_EQ(task.failed, failed[task.name]) << task.name;
    EXPECT_GT(task.best_seconds, 0) << task.name;
  }
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

// Times alone are not comparable on a busy machine: a candidate is timed in turn with the best one so far, also after a resume.
TEST_F(Search, TheIncumbentIsTheFastestCandidateSoFar) {
  struct Best {
    std::string code;  // of the fastest candidate
    double seconds = std::numeric_limits<double>::infinity();
  };
  std::map<int, Best> bests;
  class WithIncumbent : public FakeMeasurer {
   public:
    explicit WithIncumbent(std::map<int, Best>& bests) : bests_(bests) {}
    MeasureResult measure(int task, const Kernel& candidate, const MeasureOptions& options) override {
      Best& best = bests_[task];
      MeasureResult result = FakeMeasurer::measure(task, candidate, options);
      bool is_untuned = options.max_pairs == 1;  // timed alone, by one call
      EXPECT_TRUE((options.incumbent ? options.incumbent->code : "") == (is_untuned ? "" : best.code)) << "call " << calls << " of task " << task;
      if (!is_untuned && result.seconds < best.seconds) best.code = candidate.code;
      if (result.seconds < best.seconds) best.seconds = result.seconds;
      return result;
    }

   private:
    std::map<int, Best>& bests_;
  };
  tasks_.pop_back();
  Database file = database("incumbent");
  Watcher watcher;
  WithIncumbent first(bests), second(bests);
  run(options(), file, &first, watcher);
  EXPECT_NE(bests[0].code, "");
  run(options(1, 1, kTrials + 20), file, &second, watcher);
  EXPECT_EQ(second.calls, 20);
}

// The zero-trial kernel, then the untuned program; small batches first; each task has one before any has a second one.
TEST_F(Search, FirstBatchesAreSmallAndEveryTaskHasOne) {
  tasks_ = {task_of("dense", {{"M", i64{32}}, {"N", i64{64}}, {"K", i64{32}}}), task_of("matmul", {{"M", i64{48}}, {"N", i64{32}}, {"K", i64{64}}}),
            task_of("matmul", {{"M", i64{64}}, {"N", i64{64}}, {"K", i64{64}}})};
  for (std::size_t i = 0; i < tasks_.size(); ++i) tasks_[i].name = cat("task", i);
  Database file = database("first");
  FakeMeasurer measurer;
  Watcher watcher;
  run(options(1, 1, 80), file, &measurer, watcher);
  std::map<std::string, std::map<i64, i64>> sizes;
  std::set<std::string> begun;
  for (const Record& record : records(file)) {
    if (record.generation == 1) {
      EXPECT_EQ(begun.size(), tasks_.size()) << "a second batch of " << record.task << " came first";
    }
    if (begun.insert(record.task).second) {
      EXPECT_NE(record.trace, "") << "the untuned program of " << record.task << " came first";
    }
    ++sizes[record.task][record.generation];
  }
  for (auto& [task, of_generation] : sizes) {
    EXPECT_EQ(of_generation[0], 8) << task;
    EXPECT_LE(of_generation[1], 16) << task;
    EXPECT_LE(of_generation[2], 32) << task;
  }
}

// A tolerance that the program as it is written does not keep is the workload's fault, not that of every candidate.
TEST_F(Search, ThatTheUntunedProgramIsWrongIsSaidOnce) {
  class Strict : public FakeMeasurer {
   public:
    explicit Strict(bool is_untuned_wrong) : is_untuned_wrong_(is_untuned_wrong) {}
    MeasureResult measure(int task, const Kernel& candidate, const MeasureOptions& options) override {
      MeasureResult result = FakeMeasurer::measure(task, candidate, options);
      bool is_untuned = options.max_pairs == 1;  // timed alone, by one call
      return task == 0 && is_untuned == is_untuned_wrong_ ? failure(MeasureStatus::WrongResult, "element [3] is off") : result;
    }

   private:
    bool is_untuned_wrong_;
  };
  auto said = [](const Watcher& watcher) {
    std::vector<std::string> out;
    for (const std::string& message : watcher.messages) {
      if (message.find("untuned") != std::string::npos) out.push_back(message);
    }
    return out;
  };
  Database file = database("strict"), other = database("candidates");
  Watcher first, resumed, watcher;
  Strict strict(true), candidates(false);
  run(options(), file, &strict, first);
  EXPECT_EQ(said(first), std::vector<std::string>{cat(tasks_[0].name, ": the untuned program itself is called wrong (element [3] is off): the tolerance is too tight "
                                                                      "for this workload; state one (`tolerance`)")});
  run(options(1, 1, kTrials + 8), file, &strict, resumed);
  EXPECT_EQ(said(resumed), std::vector<std::string>{}) << "it was measured, and is not again";
  run(options(), other, &candidates, watcher);
  EXPECT_EQ(said(watcher), std::vector<std::string>{}) << "of candidates that are wrong nothing is said of it";
}

// Where nothing is searched while kernels are measured, the second batch depends on what the first one took; with other times it is another one.
TEST_F(Search, WhatIsMeasuredAloneIsUsedInTheNextBatch) {
  tasks_ = {task_of("matmul", {{"M", i64{96}}, {"N", i64{96}}, {"K", i64{96}}})};
  tasks_[0].target.threads = 2;
  auto batch = [](Database& file, i64 generation) {
    std::set<std::string> programs;
    for (const Record& record : records(file)) {
      if (record.generation == generation) programs.insert(record.program);
    }
    return programs;
  };
  Database one = database("one"), other = database("other");
  FakeMeasurer measurer, reversed([](const Kernel& kernel) {
    MeasureResult result = time_of(kernel);
    result.seconds = 1e-12 / result.seconds;
    return result;
  });
  Watcher watcher;
  run(options(1, 1, 24), one, &measurer, watcher);
  run(options(1, 1, 24), other, &reversed, watcher);
  EXPECT_EQ(batch(one, 0), batch(other, 0));
  EXPECT_GE(batch(one, 1).size(), 8u);
  EXPECT_NE(batch(one, 1), batch(other, 1));
}

TEST_F(Search, ANewBestIsBelievedIfASecondMeasurementConfirmsIt) {
  tasks_.pop_back();
  Database file = database("leaps");
  std::map<std::string, int> calls;  // by code
  // Each looks twice as fast as the incumbent; at the second look half of them are slower, the others faster still.
  FakeMeasurer measurer([&](const Kernel& kernel) {
    MeasureResult result = time_of(kernel);
    bool is_second = ++calls[kernel.code] == 2, is_slower = hash_of(kernel) % 2 == 0;
    result.seconds = !is_second ? 5e-6 : is_slower ? 9e-6 : 3e-6;
    result.ratio = 0.5;
    return result;
  });
  Watcher watcher;
  run(options(), file, &measurer, watcher);
  std::map<i64, int> times;
  for (const Record& record : trials(file)) ++times[to_picoseconds(record.seconds)];
  for (const auto& [code, count] : calls) EXPECT_EQ(count, 2);
  EXPECT_EQ(times.size(), 2u);
  EXPECT_GT(times[5000000], 5) << "the second look was faster: the first one counts";
  EXPECT_GT(times[9000000], 5);
}

TEST_F(Search, ALostWorkerIsNotTheKernelsFault) {
  Database file = database("lost");
  std::map<std::string, int> calls;  // by code
  auto is_deadly = [](const Kernel& kernel) { return hash_of(kernel) % 5 == 0; };
  FakeMeasurer measurer([&](const Kernel& kernel) {
    bool is_lost = ++calls[kernel.code] == 1 || is_deadly(kernel);
    return is_lost ? failure(MeasureStatus::WorkerLost, "gone") : time_of(kernel);
  });
  Watcher watcher;
  run(options(), file, &measurer, watcher);
  std::map<i64, std::string> status;
  for (const Record& record : records(file)) status[record.id] = record.status;
  i64 ok = 0, lost = 0;
  for (const Record& record : records(file)) {
    ok += record.ok(), lost += record.status == "worker lost";
    if (record.is_trial()) continue;
    EXPECT_EQ(status[std::stoll(record.error.substr(10))], "ok") << record.error << ": nothing is known about that code";
  }
  EXPECT_EQ(ok + lost, kTrials + kSoftmaxSpace);
  EXPECT_GT(ok, kTrials / 2) << "what was lost once was measured again";
  EXPECT_GT(lost, 0) << "and what kills twice is stored";
}

TEST_F(Search, WithoutAWorkerTheRunEndsAndNoCandidateHasFailed) {
  Database file = database("workerless");
  int left = 5;
  FakeMeasurer measurer([&](const Kernel& kernel) {
    if (left-- > 0) return time_of(kernel);
    MeasureResult none = failure(MeasureStatus::WorkerLost, "the worker does not start: no such file");
    none.was_tried = false;
    return none;
  });
  Watcher watcher;
  TuneResult result = run(options(), file, &measurer, watcher);
  EXPECT_EQ(result.error, "kernels cannot be measured any more: the worker does not start: no such file");
  EXPECT_EQ(trials(file).size(), 5u);
  for (const Record& record : records(file)) EXPECT_TRUE(record.ok() || !record.is_trial()) << record.status;
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

// Times that the draft model cannot know, but the learned one can: by the size of the code.
TEST_F(Search, LearnsFromWhatItMeasured) {
  auto mean_of_late_trials = [&](const std::string& model) {
    Database file = database("learning-" + model);
    FakeMeasurer measurer([](const Kernel& kernel) {
      MeasureResult result = time_of(kernel);
      result.seconds = 1e-12 * static_cast<double>(kernel.code.size() * kernel.code.size());
      return result;
    });
    Watcher watcher;
    TuneOptions learning = options(1, 1, 96);
    learning.cost_model = model;
    run(learning, file, &measurer, watcher);
    std::vector<Record> all = trials(file);
    double sum = 0;
    for (std::size_t i = all.size() - 32; i < all.size(); ++i) sum += all[i].seconds;
    return sum / 32;
  };
  tasks_.clear();
  tasks_.push_back(task_of("dense", {{"M", i64{96}}, {"N", i64{192}}, {"K", i64{120}}}));
  double learned = mean_of_late_trials("tree"), random = mean_of_late_trials("random");
  std::printf("mean time of the last 32 trials: %g us with the learned model, %g us at random\n", learned * 1e6, random * 1e6);
  EXPECT_LT(learned, 0.5 * random);
}

// ---- evolution

class Evolve : public testing::Test {
 protected:
  std::vector<Candidate> run(EvolutionOptions options, int count, const std::vector<Candidate>& elites = {}, const CostModel* model = nullptr,
                             u64 seed = 3) {
    KnownCandidates known;
    EvolutionStats stats;
    HashSet measured;
    for (const Candidate& elite : elites) measured.insert(elite.program);
    return evolve(space_, elites, measured, model, count, Rng(seed), options, known, stats);
  }
  Candidate any_candidate() const {
    Rng rng(17);
    Candidate candidate;
    CandidateBuilder builder(space_);
    EXPECT_TRUE(builder.draw(0, candidate, rng));
    EXPECT_TRUE(builder.build(candidate, &rng));
    return candidate;
  }

  rules::Library library_ = rules::Library::built_in();
  TuneTask task_ = task_of("dense", {{"M", i64{96}}, {"N", i64{192}}, {"K", i64{120}}});
  CandidateSpace space_ = [this] {
    std::string errors;
    CandidateSpace space = make_candidate_space(task_.program.program, *library_.find_set("cpu"), library_, task_.target, errors);
    EXPECT_EQ(errors, "");
    return space;
  }();
};

// What a model thinks of a sketch that it has seen nothing of is a guess: no such sketch takes a whole batch.
TEST_F(Evolve, SketchesWithoutMeasurementsShareABatch) {
  ASSERT_GE(space_.space.sketches.size(), 4u);
  auto most_of_one_sketch = [](const std::vector<Candidate>& batch) {
    std::map<int, int> counts;
    int most = 0;
    for (const Candidate& candidate : batch) most = std::max(most, ++counts[candidate.sketch]);
    return most;
  };
  std::vector<Candidate> shared = run({.epsilon = 0}, 40), free = run({.epsilon = 0, .unproven_share = 1}, 40);
  ASSERT_EQ(shared.size(), 40u);
  EXPECT_LE(most_of_one_sketch(shared), 10);
  EXPECT_GT(most_of_one_sketch(free), 10) << "else nothing is to be shared";
  for (std::size_t i = 1; i < shared.size(); ++i) EXPECT_GE(shared[i - 1].score, shared[i].score);
  // Of one that was measured there may be more.
  std::vector<Candidate> more = run({.epsilon = 0}, 40, {free[0]});
  EXPECT_GT(most_of_one_sketch(more), 10);
}

TEST_F(Evolve, TheBestComeFirstThenSomeAtRandom) {
  std::vector<Candidate> best = run({.epsilon = 0, .unproven_share = 1}, 64), mixed = run({.epsilon = 0.25, .unproven_share = 1}, 64);
  ASSERT_EQ(best.size(), 64u);
  ASSERT_EQ(mixed.size(), 64u);
  for (std::size_t i = 1; i < best.size(); ++i) EXPECT_GE(best[i - 1].score, best[i].score);
  HashSet top;
  for (const Candidate& candidate : best) top.insert(candidate.program);
  int random = 0;
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    EXPECT_TRUE(i >= 48 || mixed[i].program == best[i].program) << i;
    random += top.count(mixed[i].program) == 0;
  }
  EXPECT_GT(random, 8) << "of 16 that come from the whole pool";
  // By the draft model the best of the search is far better than a draw.
  EXPECT_LT(best[0].draft, any_candidate().draft);
}

TEST_F(Evolve, WhatIsMeasuredIsNotProposed) {
  Candidate elite = any_candidate();
  for (const Candidate& candidate : run({}, 1 << 20, {elite})) EXPECT_NE(candidate.program, elite.program);
}

TEST_F(Evolve, EveryGenerationDrawsAnew) {
  constexpr int all = 1 << 20;
  std::size_t one = run({.population = 128, .draws = 128, .generations = 1, .mutate_probability = 0}, all).size();
  std::size_t four = run({.population = 128, .draws = 128, .generations = 4, .mutate_probability = 0}, all).size();
  EXPECT_GT(four, one * 3 / 2);
}

// 1 for candidates with these features, 0 for all others.
class OneIsGood : public CostModel {
 public:
  explicit OneIsGood(std::vector<float> features) : features_(std::move(features)) {}
  const char* name() const override { return "one is good"; }
  std::vector<float> predict(const FeatureBatch& batch) const override {
    std::vector<float> scores;
    for (int i = 0; i < batch.size(); ++i) {
      std::vector<float> features(batch.row(batch.first_row[i]), batch.row(batch.first_row[i + 1]));
      scores.push_back(features == features_ ? 1.0f : 0.0f);
    }
    return scores;
  }
  TrainReport update(const Dataset&, Effort) override { return {}; }
  std::string save() const override { return ""; }
  Status load(std::string_view) override { return Unit{}; }

 private:
  std::vector<float> features_;
};

// One decision differs, or none.
bool is_relative(const Candidate& a, const Candidate& b) {
  if (a.sketch != b.sketch) return false;
  int different = 0;
  for (std::size_t i = 0; i < a.decisions.size(); ++i) different += !(a.decisions[i] == b.decisions[i]);
  return different <= 1;
}

TEST_F(Evolve, GoodOnesHaveMoreChildren) {
  Candidate elite = any_candidate();
  std::vector<float> features;
  CandidateBuilder builder(space_);
  ASSERT_TRUE(builder.build(elite, nullptr, &features));
  OneIsGood model(features);
  constexpr int all = 1 << 20;
  auto relatives = [&](const std::vector<Candidate>& elites) {
    int count = 0;
    for (u64 seed = 1; seed <= 5; ++seed) {
      for (const Candidate& candidate : run({}, all, elites, &model, seed)) count += is_relative(candidate, elite);
    }
    return count;
  };
  EXPECT_GT(relatives({elite}), 5 + relatives({}) * 3 / 2);
}

TEST(TaskScheduler, EachTaskHasARoundFirst) {
  std::vector<TaskHistory> tasks(3);
  EXPECT_EQ(next_task(tasks), 0);
  tasks[0].best = {1e-6};
  EXPECT_EQ(next_task(tasks), 1);
  tasks[1].best = {1.0};
  EXPECT_EQ(next_task(tasks), 2);
  tasks[2].alive = false;
  EXPECT_EQ(next_task(tasks), 1);
}

TEST(TaskScheduler, ATaskInFlightWaitsWhereOthersAreAlive) {
  std::vector<TaskHistory> tasks(2);
  tasks[0].in_flight = true;
  EXPECT_EQ(next_task(tasks), 1);
  tasks[1].best = {1e-6, 1e-6};
  EXPECT_EQ(next_task(tasks), 1) << "with more rounds, too";
  tasks[1].alive = false;
  EXPECT_EQ(next_task(tasks), 0) << "rather than nothing";
}

TEST(TaskScheduler, ThenTheLargerWeightedGain) {
  std::vector<TaskHistory> tasks{{.weight = 1, .best = {1, 1}}, {.weight = 3, .best = {1, 1}}};
  EXPECT_EQ(next_task(tasks), 1);  // same times, larger weight
  tasks[0].weight = 4;
  EXPECT_EQ(next_task(tasks), 0);
  tasks = {{.weight = 1, .best = {1.2, 1}}, {.weight = 1, .best = {8, 1}}};
  EXPECT_EQ(next_task(tasks), 1);  // same weight and time, more improvement lately
  tasks[1].alive = false;
  EXPECT_EQ(next_task(tasks), 0);
  tasks[0].alive = false;
  EXPECT_EQ(next_task(tasks), -1);
}

}  // namespace
}  // namespace tw
