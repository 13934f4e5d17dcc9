// Experiments: their files, stored results, and that a run with stored results repeats what was measured.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bench/experiments/curves.h"
#include "bench/experiments/in_turn.h"
#include "bench/experiments/run_arm.h"
#include "bench/simulated.h"
#include "support/support.h"

namespace tw::bench {
namespace {

class Experiments : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  std::string messages_of(const std::string& text) {
    std::string messages;
    EXPECT_FALSE(load_experiment(file("e.yaml", text), messages));
    return messages;
  }
  test::TemporaryDirectory folder_;
};

constexpr const char* kExperiment =
    "title: a\nlist: list.yaml\ntrials: 40\nseeds: 2\narms:\n"
    "  - {name: one, search: {strategy: annealing, steps: 20, random_first: 1}, model: tree, objective: rank}\n"
    "  - {name: two, rules: reference-cpu, search: {strategy: random}, trials: 24}\n";
constexpr const char* kList =
    "version: 1\ntarget: {kind: cpu, cpu: znver3, threads: 1}\ntasks:\n"
    "  - {name: mm, op: matmul, args: {M: 64, N: 64, K: 64}}\n";

TEST_F(Experiments, FilesSayWhatIsWrong) {
  std::string messages;
  std::optional<Experiment> good = load_experiment(file("e.yaml", kExperiment), messages);
  ASSERT_TRUE(good) << messages;
  EXPECT_EQ(good->list, folder_.path() + "/list.yaml");
  ASSERT_EQ(good->arms.size(), 2u);
  EXPECT_EQ(good->arms[0].search.strategy, "annealing");
  EXPECT_EQ(good->arms[0].search.settings.at("steps"), 20);
  EXPECT_EQ(good->arms[1].trials, 24);
  std::string head = "title: a\nlist: l.yaml\ntrials: 4\nseeds: 1\narms:\n";
  EXPECT_NE(messages_of("title: a\n").find("missing key `list`"), std::string::npos);
  EXPECT_NE(messages_of(head + "  - {name: a, serch: {}}\n").find("unknown key `serch` in an arm"), std::string::npos);
  EXPECT_NE(messages_of(head + "  - {name: a, model: xgbost}\n").find("did you mean `xgboost`?"), std::string::npos);
  EXPECT_NE(messages_of(head + "  - {name: a, search: {strategy: anealing}}\n").find("did you mean `annealing`?"),
            std::string::npos);
  EXPECT_NE(messages_of(head + "  - {name: a, objective: order}\n").find("to be usual, rank, regression"),
            std::string::npos);
}

TEST_F(Experiments, WhatDoesNotFitTheListIsSaidBefore) {
  std::string messages, list_path = file("list.yaml", kList);
  std::optional<LoadedList> list = load_list(list_path, messages);
  ASSERT_TRUE(list) << messages;
  Experiment good{.tasks = {"mm"}, .arms = {{.name = "a", .rules = "cpu"}, {.name = "b"}}};
  EXPECT_EQ(problems_of(good, *list), "");
  Experiment wrong{.tasks = {"mmm"}, .arms = {{.name = "a", .rules = "cpus"}, {.name = "a"}, {.name = "c"}}};
  wrong.arms[1].learns_from = {"other"};
  wrong.arms[1].learns_by = "d";
  wrong.arms[2].search.transfer = "nothing.model";
  std::string problems = problems_of(wrong, *list);
  for (const char* each :
       {"tasks: no `mmm`; there are mm", "arm `a`: rules: no `cpus`; there are cpu", "two arms have the name `a`",
        "learns_from: no `other`", "learns_by: no arm `d`", "arm `c`: transfer: cannot read nothing.model"})
    EXPECT_NE(problems.find(each), std::string::npos) << each << "\n" << problems;
}

TEST_F(Experiments, StoredResultsAreReadAgain) {
  std::string error, path = folder_.path() + "/r.csv";
  Record ok{.workload = "w", .target = "cpu -mattr=+a,+b", .status = "ok", .seconds = 1.25e-3, .program = "p"};
  Record bad{.workload = "w", .target = "cpu", .status = "wrong result", .program = "q"};
  {
    auto results = StoredResults::open(path, error);
    ASSERT_TRUE(results && results->set_rates({.memory_line = 12, .memory_speed_up = 1.5, .parallel_start = 900}));
    ASSERT_TRUE(results->add(ok) && results->add(bad) &&
                results->set_in_turn("w", ok.target, {{"p", 1e-3}, {"o", 2e-3}}));
    ASSERT_TRUE(results->set_in_turn("w", ok.target, {{"p", 1.5e-3}}));
  }
  auto again = StoredResults::open(path, error);
  ASSERT_TRUE(again) << error;
  EXPECT_EQ(again->size(), 2u);
  EXPECT_EQ(again->rates().memory_line, 12);
  EXPECT_EQ(again->of("w", ok.target).at("p").seconds, ok.seconds);
  EXPECT_FALSE(again->of("w", "cpu").at("q").ok());
  EXPECT_EQ(again->in_turn("w", ok.target), (StoredResults::Times{{"p", 1.5e-3}})) << "times of two runs are mixed";
  EXPECT_EQ(again->in_turn("w", "cpu").size(), 0u);
  EXPECT_EQ(StoredResults::open(file("bad.csv", "w,t,p,ok,1e-3\nw,t,p,ok,fast\n"), error), nullptr);
  EXPECT_NE(error.find("bad.csv: line 2: expected workload,target,program,status,seconds"), std::string::npos) << error;
}

TEST_F(Experiments, ARunWithStoredResultsIsTheOneThatWasMeasured) {
  std::string messages, path = folder_.path() + "/r.csv", scratch = folder_.path() + "/scratch.db";
  file("list.yaml", kList);
  std::optional<Experiment> experiment = load_experiment(file("e.yaml", kExperiment), messages);
  ASSERT_TRUE(experiment) << messages;
  std::optional<LoadedList> list = load_list(experiment->list, messages);
  ASSERT_TRUE(list) << messages;
  std::atomic<bool> stop{false};
  SimulatedMeasurer measurer;
  auto results = StoredResults::open(path, messages);
  auto run = [&](const Arm& arm, u64 seed, Measurer* with) {
    return run_arm({*list, *results, with, scratch, stop}, list->tasks[0], arm,
                   arm.trials ? arm.trials : experiment->trials, seed);
  };
  std::vector<ArmRun> measured;
  for (const Arm& arm : experiment->arms)
    for (u64 seed : {0, 1}) measured.push_back(run(arm, seed, &measurer));
  EXPECT_EQ(measured[0].problem, "");
  EXPECT_EQ(measured[0].seconds.size(), 40u);
  EXPECT_EQ(measured[2].seconds.size(), 24u);
  EXPECT_FALSE(std::filesystem::exists(scratch));
  i64 calls = measurer.measured();
  run(experiment->arms[0], 0, &measurer);
  EXPECT_EQ(measurer.measured(), calls) << "what is stored was measured again";
  results = StoredResults::open(path, messages);
  ASSERT_TRUE(results) << messages;
  std::size_t i = 0;
  for (const Arm& arm : experiment->arms) {
    for (u64 seed : {0, 1}) {
      ArmRun replayed = run(arm, seed, nullptr);
      EXPECT_EQ(replayed.seconds, measured[i++].seconds) << arm.name << seed;
      EXPECT_EQ(replayed.unknown, 0);
    }
  }
  EXPECT_GT(run(experiment->arms[1], 7, nullptr).unknown, 0) << "another seed was never measured";
}

// What an arm learned from other tasks scores its first batch: other programs than without are found, the same ones
// each time.
TEST_F(Experiments, AnArmMayLearnFromOtherTasks) {
  std::string messages;
  file("list.yaml", std::string(kList) + "  - {name: other, op: matmul, args: {M: 96, N: 64, K: 32}}\n");
  std::optional<LoadedList> list = load_list(folder_.path() + "/list.yaml", messages);
  ASSERT_TRUE(list) << messages;
  std::atomic<bool> stop{false};
  SimulatedMeasurer measurer;
  auto results = StoredResults::open(folder_.path() + "/r.csv", messages);
  Surroundings with{*list, *results, &measurer, folder_.path() + "/scratch.db", stop};
  Arm arm{.name = "taught", .model = "tree", .objective = Objective::Rank};
  std::string problem;
  std::string model = learned_model(with, {list->tasks[1]}, arm, arm, 40, 0, problem);
  ASSERT_EQ(problem, "");
  ArmRun taught = run_arm(with, list->tasks[0], arm, 16, 0, model), plain = run_arm(with, list->tasks[0], arm, 16, 0);
  EXPECT_EQ(taught.problem, "");
  EXPECT_NE(taught.seconds, plain.seconds);
  // Neither measured again nor searched again; a model of another kind learns from the same programs.
  i64 calls = measurer.measured();
  EXPECT_EQ(learned_model(with, {list->tasks[1]}, arm, arm, 40, 0, problem), model);
  Arm gru{.name = "gru", .model = "treegru"};
  std::string other = learned_model(with, {list->tasks[1]}, gru, arm, 40, 0, problem);
  EXPECT_EQ(problem, "");
  EXPECT_NE(other, "");
  EXPECT_NE(other, model);
  EXPECT_EQ(measurer.measured(), calls);
  Arm none{.name = "none", .model = "random"};
  EXPECT_EQ(learned_model(with, {list->tasks[1]}, none, arm, 40, 0, problem), "");
  EXPECT_NE(problem, "");
}

// By a worker, which runs kernels: the simulated one has no ratios.
TEST_F(Experiments, BestProgramsAreBuiltAgainAndMeasuredInTurn) {
  std::string messages;
  file("list.yaml", kList);
  std::optional<LoadedList> list = load_list(folder_.path() + "/list.yaml", messages);
  ASSERT_TRUE(list) << messages;
  WorkerStart worker = start_worker();
  ASSERT_TRUE(worker.measurer) << worker.error;
  auto results = StoredResults::open(folder_.path() + "/r.csv", messages);
  std::atomic<bool> stop{false};
  ArmRun run = run_arm({*list, *results, worker.measurer.get(), folder_.path() + "/scratch.db", stop}, list->tasks[0],
                       {.name = "ours"}, 8, 0);
  ASSERT_EQ(run.problem, "");
  ASSERT_FALSE(run.first.trace.empty() || run.best.trace.empty());
  std::map<std::string, double> times = times_in_turn(
      list->tasks[0], {{run.best.program, run.best.trace}, {run.first.program, run.first.trace}, {"x", "no schedule"}},
      3, *worker.measurer);
  EXPECT_EQ(times.size(), run.best.program == run.first.program ? 1u : 2u);
  double best = best_after(run.seconds, run.seconds.size());
  EXPECT_GT(times.at(run.best.program), best / 20);
  EXPECT_LT(times.at(run.best.program), best * 20);
}

// Each program that its searches find has a stored result. Where a change of the search or of features leads to other
// programs, they are measured again by
//   build/release/tracewright-experiments bench/experiments/small.yaml --output OUT
// and OUT/small.results.csv is compressed to bench/experiments/small.results.csv.gz.
TEST_F(Experiments, TheSmallOneIsRepeatedWithoutMeasuring) {
  std::string messages, folder = TW_SOURCE_DIR "/bench/experiments/";
  std::optional<Experiment> experiment = load_experiment(folder + "small.yaml", messages);
  ASSERT_TRUE(experiment) << messages;
  std::optional<LoadedList> list = load_list(experiment->list, messages);
  ASSERT_TRUE(list) << messages;
  auto results = StoredResults::open(folder + "small.results.csv.gz", messages);
  ASSERT_TRUE(results) << messages;
  std::atomic<bool> stop{false};
  std::map<std::string, double> best;
  int unknown = 0;
  for (const Arm& arm : experiment->arms) {
    std::vector<double> seconds;
    for (u64 seed = 0; seed < static_cast<u64>(experiment->seeds); ++seed) {
      ArmRun run = run_arm({*list, *results, nullptr, folder_.path() + "/scratch.db", stop}, list->tasks[0], arm,
                           experiment->trials, seed);
      seconds.push_back(best_after(run.seconds, run.seconds.size()));
      unknown += run.unknown;
    }
    best[arm.name] = spread(seconds).median;
  }
  EXPECT_EQ(unknown, 0) << "programs without a stored result";
  for (const auto& [arm, seconds] : best) EXPECT_LT(seconds, kNever) << arm;
}

// All experiments can be read, with their lists and rule sets.
TEST(ExperimentFiles, CanBeRead) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TW_SOURCE_DIR "/bench/experiments")) {
    std::string text, messages;
    std::ifstream file(entry.path());
    std::getline(file, text, '\0');
    if (entry.path().extension() != ".yaml" || text.find("\narms:") == std::string::npos) continue;
    ++files;
    std::optional<Experiment> experiment = load_experiment(entry.path().string(), messages);
    ASSERT_TRUE(experiment) << messages;
    std::optional<LoadedList> list = load_list(experiment->list, messages);
    ASSERT_TRUE(list) << messages;
    std::vector<std::string> names = experiment->tasks;
    for (const Arm& arm : experiment->arms) names.insert(names.end(), arm.learns_from.begin(), arm.learns_from.end());
    for (const std::string& task : names)
      EXPECT_TRUE(std::ranges::any_of(list->tasks, [&](const TuneTask& t) { return t.name == task; })) << task;
    for (const Arm& arm : experiment->arms)
      EXPECT_TRUE(arm.rules.empty() || list->library.find_set(arm.rules)) << entry.path() << ": " << arm.rules;
  }
  EXPECT_GE(files, 6);
}

TEST(Curves, BestAndTrials) {
  std::vector<double> seconds = {kNever, 4, 5, 2, 3};
  EXPECT_EQ(best_after(seconds, 1), kNever);
  EXPECT_EQ(best_after(seconds, 3), 4);
  EXPECT_EQ(best_after(seconds, 100), 2);
  EXPECT_EQ(trials_to(seconds, 4), 2);
  EXPECT_EQ(trials_to(seconds, 2.5), 4);
  EXPECT_EQ(trials_to(seconds, 1), kNever);
  EXPECT_EQ(spread({1, kNever, kNever}).median, kNever);
  EXPECT_EQ(spread({1, 2, kNever}).median, 2);
  EXPECT_EQ(spread({kNever, kNever}).median, kNever);
  EXPECT_EQ(spread({3, 1, 2}).least, 1);
}

}  // namespace
}  // namespace tw::bench
