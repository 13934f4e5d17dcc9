// The search with a measurer whose times follow from the kernel's code alone: no process, no clock.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "dsl/text/workload.h"
#include "runtime/store/database.h"
#include "sampler/search/trial.h"
#include "sampler/search/tune.h"
#include "support/support.h"

namespace tw {

inline u64 hash_of(const Kernel& kernel) {
  u64 hash = 0;
  for (unsigned char byte : kernel.code) hash = mix64(hash ^ byte);
  return hash;
}

// 1 to 1000 us.
inline MeasureResult time_of(const Kernel& kernel) {
  MeasureResult result;
  result.status = MeasureStatus::Ok;
  result.seconds = result.min_seconds = result.median_seconds =
      from_picoseconds(1000000 + static_cast<i64>(hash_of(kernel) % 999000000));
  return result;
}

inline MeasureResult failure(MeasureStatus status, const std::string& message) {
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

inline TuneTask task_of(const std::string& workload, const WorkloadArguments& arguments,
                        const std::vector<std::string>& epilogues = {}) {
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program = instantiate(operator_library(), workload, arguments, epilogues, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  Target target = host_target();
  target.threads = 1;
  // The spaces are the same on every machine.
  target.vector_bits = 256, target.vector_registers = 16;
  return {.name = workload, .program = std::move(*program), .target = target, .weight = 1, .templates = {}};
}

// The space of this softmax is small: of 4 by 4 ways to unroll two reductions 15 with 16 vector registers
// (16 with 32), and the untuned program.
inline constexpr i64 kSoftmaxSpace = 15 + 1;
inline constexpr i64 kTrials = 40;
inline i64 trials_of(const std::string& task, i64 wanted = kTrials) {
  return task == "softmax" ? kSoftmaxSpace : wanted;
}

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

}  // namespace tw
