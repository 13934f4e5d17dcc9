// The search as a whole: what is measured, stored and learned from, with one thread or several, and what it does about
// failures.
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "sampler/search/task_state.h"
#include "tests/unit/search_kit.h"

namespace tw {
namespace {

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
    EXPECT_EQ(watcher.messages, std::vector<std::string>{"softmax: the search found no further candidate"});
    return traces(file);
  };
  auto one = stored("one", 1, 1);
  ASSERT_GE(one.size(), kTrials + kSoftmaxSpace);
  EXPECT_EQ(stored("three", 1, 3), one);
  EXPECT_NE(stored("other", 2, 1), one);
}

// Candidates of earlier trials are built by several threads, in another order.
TEST_F(Search, EarlierTrialsAreTheSameWithAnyNumberOfThreads) {
  Database file = database("read");
  FakeMeasurer measurer;
  Watcher watcher;
  run(options(1, 1), file, &measurer, watcher);
  std::vector<std::string> programs, stored;
  auto read = [&](int threads) {
    programs.clear();
    TaskState state;
    name_task(state, tasks_[0], library(), options(1, 1), {16, 16});
    EXPECT_TRUE(read_records({&state, 1}, file, options(1, 1)));
    open_space(state, library(), options(1, 1), watcher, {}, threads);
    std::vector<std::string> lines;
    state.sample.each([&](const auto& entry) {
      const Candidate& candidate = entry.value.candidate;
      Candidate again = candidate;
      std::vector<float> features;
      EXPECT_TRUE(CandidateBuilder(state.space).build(again, nullptr, &features));
      EXPECT_EQ(again.program, entry.hash);
      EXPECT_EQ(again.draft, candidate.draft);
      EXPECT_EQ(features, entry.value.features);
      programs.push_back(to_hex(entry.hash));
      std::string line = cat(to_hex(entry.hash), " ", entry.seconds, " ", candidate.sketch, " ", candidate.draft);
      for (const Decision& decision : candidate.decisions) {
        for (int i = 0; i < decision.count; ++i) line += cat(" ", decision.values[i]);
      }
      for (float feature : entry.value.features) line += cat(" ", feature);
      lines.push_back(std::move(line));
    });
    return lines;
  };
  const std::vector<std::string> one = read(1);
  EXPECT_GE(one.size(), 20u);
  EXPECT_EQ(read(4), one);
  ASSERT_TRUE(file.visit({}, [&](Record& record) { stored.push_back(record.program); }));
  std::erase_if(stored, [&](const std::string& program) { return std::ranges::count(programs, program) == 0; });
  EXPECT_EQ(programs, stored) << "in the order of the records";
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
  for (const Record& record : records(file))
    EXPECT_TRUE(programs.insert(record.program).second) << "measured twice: record " << record.id;
}

// ---- ends

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
  EXPECT_NE(watcher.messages.back().find("of another machine or timing: the best of them are measured again here"),
            std::string::npos)
      << watcher.messages.back();
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

// With `transfer: none`, or a strategy that has no transfer, what others measured changes nothing.
TEST_F(Search, WithoutTransferRecordsOfAnotherMachineSeedNothing) {
  tasks_.pop_back();
  Database theirs = database("theirs");
  FakeMeasurer measurer;
  Watcher watcher;
  run(options(), theirs, &measurer, watcher);
  std::vector<Record> foreign = trials(theirs);
  // The last one was no part of a first batch.
  ASSERT_TRUE(foreign.back().ok() && foreign.back().generation > 0 && !foreign.back().trace.empty());
  foreign.back().seconds = 1e-9;
  const std::string best = foreign.back().program;
  int databases = 0;
  auto first_batch = [&](const TuneOptions& how, bool is_there) {
    Database file = database(cat("own", ++databases));
    for (Record& record : foreign) {
      record.host = "another, 2 of 2 cores, Linux 1";
      EXPECT_TRUE(!is_there || file.add_record(record));
    }
    run(how, file, &measurer, watcher);
    std::vector<std::string> programs;
    for (const Record& record : records(file)) {
      if (record.host == host_description()) programs.push_back(record.program);
    }
    return programs;
  };
  TuneOptions how = options(2, 1, 8);
  EXPECT_EQ(std::ranges::count(first_batch(how, true), best), 1) << "with transfer it is there";
  EXPECT_EQ(std::ranges::count(first_batch(how, false), best), 0) << "and would not be by itself";
  for (const char* strategy : {"evolutionary", "annealing", "metropolis", "reference", "genetic", "random"}) {
    how.search = {.strategy = strategy, .transfer = "none"};
    watcher.messages.clear();
    const std::vector<std::string> with = first_batch(how, true), without = first_batch(how, false);
    EXPECT_EQ(with, without) << strategy;
    EXPECT_GE(with.size(), 8u) << strategy;
    EXPECT_EQ(watcher.messages,
              std::vector<std::string>{
                  cat("dense: ", foreign.size(), " records are of another machine or timing: they are not used")});
  }
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
  for (const TaskProgress& task : result.tasks)
    EXPECT_EQ(task.failed, 0) << task.name << ": some candidates were not recorded";
}

// What is known is neither built nor measured, the rest is, and the search takes the same way.
TEST_F(Search, KnownResultsTakeThePlaceOfMeasurements) {
  tasks_.pop_back();
  Database file = database("whole"), part = database("part"), none = database("none");
  FakeMeasurer measurer, rest;
  Watcher measured, partly, replayed;
  TuneOptions options = this->options();
  options.overlaps = false;
  std::map<std::string, Record> known;
  options.known = [](const TuneTask&, const Hash128&) -> const Record* { return nullptr; };
  TuneResult first = run(options, file, &measurer, measured);
  for (const Record& record : records(file)) known.emplace(record.program, record);
  ASSERT_EQ(static_cast<i64>(known.size()), kTrials);
  auto find = [&known](const TuneTask&, const Hash128& program) {
    auto found = known.find(to_hex(program));
    return found == known.end() ? nullptr : &found->second;
  };
  std::map<std::string, Record> all = known;
  int left_out = 0;
  for (auto it = known.begin(); it != known.end();) it = left_out++ % 3 == 0 ? known.erase(it) : std::next(it);
  options.known = find;
  TuneResult result = run(options, part, &rest, partly);
  EXPECT_EQ(result.measured, kTrials);
  EXPECT_EQ(rest.calls, kTrials - static_cast<i64>(known.size()));
  EXPECT_EQ(partly.candidates.size(), measured.candidates.size());
  EXPECT_EQ(trials(part).size(), static_cast<std::size_t>(rest.calls)) << "what is known is stored elsewhere";
  known = all;
  options.replay_measurements = true;
  TuneResult again = run(options, none, nullptr, replayed);
  EXPECT_EQ(replayed.candidates, measured.candidates);
  EXPECT_EQ(again.tasks[0].failed, 0);
  EXPECT_EQ(again.tasks[0].expected_gain, first.tasks[0].expected_gain) << "a result that is known counts as one";
  known.erase(replayed.candidates[5].second);
  TuneResult lacking = run(options, none, nullptr, replayed);
  EXPECT_GE(lacking.tasks[0].failed, 1) << "a result that is not known counts as failed";
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
    TaskStart begin_task(const Kernel&, Tolerance, u64) override {
      return {.task = -1, .error = "out of memory", .reference_seconds = 0};
    }
  };
  Database file = database("reference");
  NoReference measurer;
  Watcher watcher;
  TuneResult result = run(options(), file, &measurer, watcher);
  EXPECT_EQ(measurer.calls, 0);
  EXPECT_TRUE(records(file).empty());
  for (const TaskProgress& task : result.tasks)
    EXPECT_EQ(task.problem, "the reference program cannot be run: out of memory") << task.name;
  EXPECT_EQ(watcher.messages.size(), result.tasks.size()) << "one message for each task";
}

TEST_F(Search, StoresFailuresAndGoesOn) {
  Database file = database("failures");
  FakeMeasurer measurer([](const Kernel& kernel) {
    switch (hash_of(kernel) % 6) {
      case 0:
        return failure(MeasureStatus::Timeout, "no answer");
      case 1:
        return failure(MeasureStatus::WrongResult, "3 is not 4");
      case 2:
        return failure(MeasureStatus::OutOfBounds, "behind Y");
      default:
        return time_of(kernel);
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
  EXPECT_EQ(errors, (std::map<std::string, std::set<std::string>>{{"ok", {""}},
                                                                  {"timeout", {"no answer"}},
                                                                  {"wrong result", {"3 is not 4"}},
                                                                  {"out of bounds", {"behind Y"}}}));
  for (const TaskProgress& task : result.tasks) {
    EXPECT_EQ(task.problem, "") << task.name;
    EXPECT_EQ(task.trials, trials_of(task.name)) << task.name;
    EXPECT_EQ(task.failed, failed[task.name]) << task.name;
    EXPECT_GT(task.best_seconds, 0) << task.name;
  }
}

// Times alone are not comparable on a busy machine: a candidate is timed in turn with the best one so far, also after a
// resume.
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
      if (is_untuned)
        result.seconds = result.min_seconds = result.median_seconds =
            0.9 * best.seconds;  // a best one, if it were a candidate
      EXPECT_TRUE((options.incumbent ? options.incumbent->code : "") == (is_untuned ? "" : best.code))
          << "call " << calls << " of task " << task;
      if (!is_untuned && result.seconds < best.seconds) best = {candidate.code, result.seconds};
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
  tasks_ = {task_of("dense", {{"M", i64{32}}, {"N", i64{64}}, {"K", i64{32}}}),
            task_of("matmul", {{"M", i64{48}}, {"N", i64{32}}, {"K", i64{64}}}),
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

// Where one full batch would take all of the time, each task still gets its first kernel.
TEST_F(Search, SlowKernelsHaveSmallerFirstBatches) {
  auto size = [](i64 m, i64 n, i64 k) { return task_of("dense", {{"M", m}, {"N", n}, {"K", k}}); };
  tasks_ = {size(4096, 4096, 4096), size(2048, 4096, 4096), size(32, 64, 32)};
  for (std::size_t i = 0; i < tasks_.size(); ++i) tasks_[i].name = cat("task", i);
  auto first_batches = [&](const char* name, double seconds) {
    Database file = database(name);
    FakeMeasurer measurer;
    Watcher watcher;
    TuneOptions limited = options(1, 1, 40);
    limited.seconds = seconds;
    run(limited, file, &measurer, watcher);
    std::vector<i64> sizes(tasks_.size());
    for (const Record& record : records(file)) sizes[std::size_t(record.task.back() - '0')] += record.generation == 0;
    return sizes;
  };
  // A trial of the first task takes 4 s by its arithmetic, and each task has half of a third of the time.
  EXPECT_EQ(first_batches("an hour", 3600), (std::vector<i64>{8, 8, 8}));
  EXPECT_EQ(first_batches("a minute", 60), (std::vector<i64>{2, 4, 8}));
  EXPECT_EQ(first_batches("ten seconds", 10), (std::vector<i64>{1, 1, 8}));
}

// A tolerance that the program as it is written does not keep is the workload's fault, not that of every candidate.
TEST_F(Search, ThatTheUntunedProgramIsWrongIsSaidOnce) {
  class Strict : public FakeMeasurer {
   public:
    explicit Strict(bool is_untuned_wrong) : is_untuned_wrong_(is_untuned_wrong) {}
    MeasureResult measure(int task, const Kernel& candidate, const MeasureOptions& options) override {
      MeasureResult result = FakeMeasurer::measure(task, candidate, options);
      bool is_untuned = options.max_pairs == 1;  // timed alone, by one call
      return task == 0 && is_untuned == is_untuned_wrong_ ? failure(MeasureStatus::WrongResult, "element [3] is off")
                                                          : result;
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
  EXPECT_EQ(said(first),
            std::vector<std::string>{
                cat(tasks_[0].name,
                    ": the untuned program itself is called wrong (element [3] is off): the tolerance is too tight "
                    "for this workload; state one (`tolerance`)")});
  run(options(1, 1, kTrials + 8), file, &strict, resumed);
  EXPECT_EQ(said(resumed), std::vector<std::string>{}) << "it was measured, and is not again";
  run(options(), other, &candidates, watcher);
  EXPECT_EQ(said(watcher), std::vector<std::string>{}) << "of candidates that are wrong nothing is said of it";
}

// Where nothing is searched while kernels are measured, the second batch depends on what the first one took; with other
// times it is another one.
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

TEST_F(Search, ANewBestIsBelievedIfASecondTimingConfirmsIt) {
  tasks_.pop_back();
  Database file = database("leaps");
  int with_incumbent = 0;
  FakeMeasurer measurer([&](const Kernel& kernel, const MeasureOptions& how) {
    with_incumbent += how.incumbent != nullptr;
    EXPECT_GT(how.confirmation.below, 0.99);
    EXPECT_LT(how.confirmation.below, 1);
    EXPECT_GT(how.confirmation.pairs, how.pairs);
    return time_of(kernel);
  });
  Watcher watcher;
  run(options(), file, &measurer, watcher);
  EXPECT_GT(with_incumbent, 10);
}

// Beside the search a trial is stored while the next one is measured, the last one of a batch behind it; none is lost,
// none stored twice.
TEST_F(Search, TrialsAreStoredWhileTheNextOneIsMeasured) {
  class Busy : public FakeMeasurer {
   public:
    void do_meanwhile(std::function<void()> work) override { work_ = std::move(work); }
    MeasureResult measure(int task, const Kernel& candidate, const MeasureOptions& options) override {
      i64 before = observed;
      std::exchange(work_, {})();
      meanwhile += observed - before;
      return FakeMeasurer::measure(task, candidate, options);
    }
    i64 observed = 0, meanwhile = 0;

   private:
    std::function<void()> work_;
  };
  class Counter : public Watcher {
   public:
    explicit Counter(Busy& measurer) : measurer_(measurer) {}
    void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record&) override { ++measurer_.observed; }

   private:
    Busy& measurer_;
  };
  Database file = database("meanwhile");
  Busy measurer;
  Counter watcher(measurer);
  run(options(), file, &measurer, watcher);
  EXPECT_EQ(measurer.observed, measurer.calls);
  EXPECT_EQ(trials(file).size(), static_cast<std::size_t>(measurer.calls));
  EXPECT_GT(measurer.meanwhile, measurer.calls / 2);
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
    EXPECT_EQ(status[std::stoll(record.error.substr(10))], "ok")
        << record.error << ": nothing is known about that code";
  }
  EXPECT_EQ(ok + lost, kTrials + kSoftmaxSpace);
  EXPECT_GT(ok, kTrials / 2) << "what was lost once was measured again";
  EXPECT_GT(lost, 0) << "and what kills twice is stored";
}

TEST(TaskStates, CodeWithWhichAWorkerWasLostIsMeasuredAgain) {
  auto noted = [](const std::string& status) {
    TaskState state;
    Record record;
    record.id = 7, record.status = status, record.object = to_hex(hash_bytes("code"));
    note_object(state, record);
    return state.objects.size();
  };
  EXPECT_EQ(noted("ok"), 1u);
  EXPECT_EQ(noted("crash"), 1u);
  EXPECT_EQ(noted(name_of(MeasureStatus::WorkerLost)), 0u);
  EXPECT_EQ(noted(Record::same_code), 0u);
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
  std::printf("mean time of the last 32 trials: %g us with the learned model, %g us at random\n", learned * 1e6,
              random * 1e6);
  EXPECT_LT(learned, 0.5 * random);
}

}  // namespace
}  // namespace tw
