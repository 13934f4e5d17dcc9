// Experiments: their files, stored results, and that a run with stored results repeats what was measured.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "bench/experiments/curves.h"
#include "bench/experiments/in_turn.h"
#include "bench/experiments/report.h"
#include "bench/experiments/run_arm.h"
#include "bench/experiments/run_experiment.h"
#include "bench/simulated.h"
#include "costmodel/make_model.h"
#include "dsl/base/text.h"
#include "sampler/space/space.h"
#include "sampler/strategies/reference_mutators.h"
#include "sampler/tasks/list_search.h"
#include "support/python.h"
#include "support/run_program.h"
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

// Names of arms in the first space are as without spaces, so that stored results and figures keep them.
TEST_F(Experiments, ArmsWithoutRulesAreInEachSpace) {
  std::string messages, list_path = file("list.yaml", kList);
  std::optional<Experiment> experiment =
      load_experiment(file("e.yaml",
                           "title: a\nlist: list.yaml\ntrials: 4\nseeds: 1\nspaces: [reference-cpu, cpu]\narms:\n"
                           "  - {name: one, model: tree}\n"
                           "  - {name: fixed, rules: untuned, learns_by: one}\n"
                           "  - {name: two, model: tree, learns_from: [mm], learns_by: one}\n"
                           "  - {name: three, model: tree, learns_from: [mm], learns_by: fixed}\n"),
                      messages);
  ASSERT_TRUE(experiment) << messages;
  std::vector<std::string> said;
  for (const Arm& arm : experiment->arms)
    said.push_back(cat(arm.name, ", ", arm.rules, ", ", arm.space, ", ", arm.learns_by));
  EXPECT_EQ(said, (std::vector<std::string>{"one, reference-cpu, reference-cpu, ", "fixed, untuned, , one",
                                            "two, reference-cpu, reference-cpu, one",
                                            "three, reference-cpu, reference-cpu, fixed", "one in cpu, cpu, cpu, ",
                                            "two in cpu, cpu, cpu, one in cpu", "three in cpu, cpu, cpu, fixed"}));
}

TEST_F(Experiments, SpacesThatCannotBeAreSaid) {
  std::string messages;
  std::optional<LoadedList> list = load_list(file("list.yaml", kList), messages);
  ASSERT_TRUE(list) << messages;
  auto problems = [&](const std::string& spaces) {
    std::optional<Experiment> experiment =
        load_experiment(file("e.yaml", cat("title: a\nlist: list.yaml\ntrials: 4\nseeds: 1\nspaces: ", spaces,
                                           "\narms:\n", "  - {name: a, model: tree}\n",
                                           "  - {name: b, model: tree, learns_from: [mm], learns_by: a}\n")),
                        messages);
    return experiment ? problems_of(*experiment, *list) : messages;
  };
  EXPECT_EQ(problems("[reference-cpu, cpu]"), "");
  EXPECT_NE(problems("[cpu, cpus]").find("arm `a in cpus`: rules: no `cpus`; there are"), std::string::npos);
  EXPECT_NE(problems("[cpu, cpu]").find("two arms have the name `a`"), std::string::npos);
}

// In the words of `tune --transfer` (TransfersWhatAModelFileHolds in cli_test.cc).
TEST_F(Experiments, ArmsThatCannotUseWhatOthersTaughtAreRefused) {
  std::string messages, list_path = file("list.yaml", kList);
  std::optional<LoadedList> list = load_list(list_path, messages);
  ASSERT_TRUE(list) << messages;
  auto problems = [&](const Arm& arm) { return problems_of({.tasks = {"mm"}, .arms = {arm}}, *list); };
  const std::vector<std::string> from = {"mm"};
  EXPECT_EQ(problems({.name = "a", .model = "tree", .learns_from = from}), "");
  for (const char* model : {"xgboost-knobs", "xgboost-relation", "treegru", "tlp"})
    EXPECT_EQ(problems({.name = "a", .model = model, .learns_from = from}), "");
  EXPECT_NE(problems({.name = "a", .search = {.transfer = "none"}, .model = "tree", .learns_from = from})
                .find("what the arm learns from takes the place of `transfer`"),
            std::string::npos);
  EXPECT_EQ(problems({.name = "a", .model = "random", .learns_from = from}),
            "arm `a`: learns_from: the cost model `random` learns nothing\n");
  EXPECT_EQ(problems({.name = "a", .model = "tree", .objective = Objective::Regression, .learns_from = from}),
            "arm `a`: learns_from: a global model has learned the order, and the objective is regression\n");
  for (const char* strategy : {"random", "reference", "genetic"})
    EXPECT_EQ(
        problems({.name = "a", .search = {.strategy = strategy}, .model = "tree", .learns_from = from}),
        cat("arm `a`: learns_from: the strategy `", strategy, "` picks its batches itself and has no `transfer`\n"));
  std::string of_loops = problems({.name = "a", .search = {.transfer = "shipped"}, .model = "treegru"});
  EXPECT_NE(of_loops.find("the model `mlp` sees stores, and the cost model `treegru` sees loops"), std::string::npos)
      << of_loops;
}

constexpr const char* kTwoTasks =
    "version: 1\ntarget: {kind: cpu, cpu: znver3, threads: 1}\ntasks:\n"
    "  - {name: mm, op: matmul, args: {M: 64, N: 64, K: 64}}\n"
    "  - {name: other, op: matmul, args: {M: 96, N: 64, K: 32}}\n";

TEST_F(Experiments, ModelsThatCannotRunHereAreSaid) {
  file("list.yaml", kTwoTasks);
  std::string path = file("e.yaml",
                          "title: a\nlist: list.yaml\ntrials: 4\nseeds: 1\narms:\n"
                          "  - {name: a, search: {strategy: random}, model: xgboost}\n");
  auto missing = [](const std::string& model) { return missing_models({.arms = {{.name = "a", .model = model}}}); };
  std::atomic<bool> stop{false};
  SimulatedMeasurer measurer;
  setenv("TRACEWRIGHT_XGBOOST", "/nowhere/libxgboost.so", 1);
  const std::string without = missing("xgboost");
  EXPECT_EQ(run_experiment(path, {.output = folder_.path()}, &measurer, stop), Environment);
  unsetenv("TRACEWRIGHT_XGBOOST");
  EXPECT_EQ(without.find("arm `a`: model: the cost model `xgboost` needs XGBoost, which did not open"), 0u) << without;
  for (const char* model : {"tree", "draft", "random"}) EXPECT_EQ(missing(model), "");
}

TEST_F(Experiments, SearchesThatCannotBeAreRefused) {
  std::string messages, list_path = file("list.yaml", kList);
  std::optional<LoadedList> list = load_list(list_path, messages);
  ASSERT_TRUE(list) << messages;
  auto problems = [&](const Arm& arm) { return problems_of({.arms = {arm}}, *list); };
  EXPECT_EQ(problems({.name = "a", .search = {.acquisition = "ei"}, .model = "draft"}),
            "arm `a`: search: the acquisition function `ei` goes by what a learned cost model predicts, and `draft` is "
            "none\n");
  EXPECT_EQ(problems({.name = "a", .search = {.strategy = "grid", .settings = {{"limit", 100}}}}),
            "arm `a`: search: mm: the strategy `grid` is for spaces of at most 100 points, and this one has more; "
            "choose another strategy, or a larger `limit`\n");
}

TEST_F(Experiments, StoredResultsAreReadAgain) {
  std::string error, path = folder_.path() + "/r.csv";
  Record ok{.workload = "w", .target = "cpu -mattr=+a,+b", .status = "ok", .seconds = 1.25e-3, .program = "p"};
  Record bad{.workload = "w", .target = "cpu", .status = "wrong result", .program = "q"};
  const StoredResults::Times times = {
      {"n", {0, {}}}, {"p", {1.5e-3, "vectorize a, b\n  parallel c\n"}}, {"u", {2, ""}}};
  {
    auto results = StoredResults::open(path, error);
    ASSERT_TRUE(results && results->set_rates({.memory_line = 12, .memory_speed_up = 1.5, .parallel_start = 900}));
    ASSERT_TRUE(results->add(ok) && results->add(bad) &&
                results->set_in_turn("w", ok.target, {{"p", {1e-3}}, {"o", {2e-3}}}));
    ASSERT_TRUE(results->set_in_turn("w", ok.target, times));
  }
  auto again = StoredResults::open(path, error);
  ASSERT_TRUE(again) << error;
  EXPECT_EQ(again->size(), 2u);
  EXPECT_EQ(again->rates().memory_line, 12);
  EXPECT_EQ(again->of("w", ok.target).at("p").seconds, ok.seconds);
  EXPECT_FALSE(again->of("w", "cpu").at("q").ok());
  EXPECT_EQ(again->in_turn("w", ok.target), times) << "times of two runs are mixed";
  EXPECT_EQ(again->in_turn("w", "cpu").size(), 0u);
  EXPECT_EQ(StoredResults::open(file("bad.csv", "w,t,p,ok,1e-3\nw,t,p,ok,fast\n"), error), nullptr);
  EXPECT_NE(error.find("bad.csv: line 2: expected workload,target,program,status,seconds"), std::string::npos) << error;
}

// The last that was stored counts; a file without them, as those of before, is read, too (StoredResultsAreReadAgain).
TEST_F(Experiments, SecondsOfSearchesAreReadAgain) {
  std::string error, path = folder_.path() + "/r.csv";
  const StoredResults::SearchKey key{"w", "cpu -mattr=+a,+b", "a, \nb", "5", 40, 7};
  StoredResults::SearchKey other = key;
  other.search = "6";
  {
    auto results = StoredResults::open(path, error);
    EXPECT_EQ(results->took(key), nullptr);
    ASSERT_TRUE(results->set_took(key, {.tuning = 3, .search = 2, .training = 1, .measured = 4}));
    ASSERT_TRUE(results->set_took(key, {.tuning = 0.1, .search = 1e-7, .training = 0, .measured = 39}));
  }
  auto again = StoredResults::open(path, error);
  ASSERT_TRUE(again) << error;
  EXPECT_EQ(again->size(), 0u) << "they are no results of programs";
  ASSERT_TRUE(again->took(key));
  EXPECT_EQ(again->took(key)->tuning, 0.1);
  EXPECT_EQ(again->took(key)->search, 1e-7);
  EXPECT_EQ(again->took(key)->training, 0);
  EXPECT_EQ(again->took(key)->measured, 39);
  EXPECT_EQ(again->took(other), nullptr);
  EXPECT_EQ(StoredResults::open(file("bad.csv", "w,t,,took,a,5,40,7,1,2,3,x\n"), error), nullptr);
  EXPECT_NE(error.find("bad.csv: line 1: expected the seconds of a search"), std::string::npos) << error;
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
  // Whatever the models see, what the others taught is used.
  for (const char* kind : {"treegru", "tlp", "xgboost-knobs", "xgboost-relation"}) {
    if (!make_model(kind, model_columns(kind), 0).model) continue;
    Arm seeing{.name = kind, .model = kind, .objective = Objective::Rank};
    std::string sees = learned_model(with, {list->tasks[1]}, seeing, arm, 40, 0, problem);
    ASSERT_EQ(problem, "") << kind;
    EXPECT_NE(run_arm(with, list->tasks[0], seeing, 16, 0, sees).seconds,
              run_arm(with, list->tasks[0], seeing, 16, 0).seconds)
        << kind;
  }
  Arm none{.name = "none", .model = "random"};
  EXPECT_EQ(learned_model(with, {list->tasks[1]}, none, arm, 40, 0, problem), "");
  EXPECT_NE(problem, "");
}

// A database of sources has all trials of its search, those whose results were known before, too. Without it the same
// model comes of the stored results.
TEST_F(Experiments, WhatOthersTaughtFollowsFromStoredResults) {
  std::string messages, problem, scratch = folder_.path() + "/scratch.db";
  file("list.yaml", kList);
  std::optional<LoadedList> list = load_list(folder_.path() + "/list.yaml", messages);
  ASSERT_TRUE(list) << messages;
  std::atomic<bool> stop{false};
  SimulatedMeasurer measurer;
  auto results = StoredResults::open(folder_.path() + "/r.csv", messages);
  Arm arm{.name = "taught", .model = "tree", .objective = Objective::Rank};
  auto learn = [&](Measurer* with, i64 trials) {
    return learned_model({*list, *results, with, scratch, stop}, {list->tasks[0]}, arm, arm, trials, 0, problem);
  };
  run_arm({*list, *results, &measurer, scratch, stop}, list->tasks[0], arm, 24, 0);
  i64 calls = measurer.measured();
  std::string model = learn(&measurer, 24);
  EXPECT_EQ(problem, "");
  EXPECT_NE(model, "");
  EXPECT_EQ(measurer.measured(), calls) << "all of it was known";
  DatabaseResult<Database> sources = Database::open(folder_.path() + "/scratch.taught.24.0.db", DatabaseMode::Read);
  ASSERT_TRUE(sources) << sources.error();
  i64 stored = 0;
  ASSERT_TRUE(sources->visit({}, [&](Record&) { ++stored; }));
  EXPECT_EQ(stored, 24);
  EXPECT_EQ(learn(&measurer, 24), model);
  EXPECT_EQ(measurer.measured(), calls);
  std::filesystem::remove(folder_.path() + "/scratch.taught.24.0.db");
  EXPECT_EQ(learn(nullptr, 24), model);
  EXPECT_EQ(problem, "");
  EXPECT_EQ(learn(nullptr, 32), "");
  EXPECT_EQ(problem, "8 of its trials have no stored result");
}

// The simulated measurer with ratios; of some kernels other than the incumbent it gives none. Or it has
// them of all, and longer code is faster, so that the untuned program is not the best.
class WithRatios : public SimulatedMeasurer {
 public:
  explicit WithRatios(bool of_all = false) : of_all_(of_all) {}

  MeasureResult measure(int task, const Kernel& candidate, const MeasureOptions& options) override {
    MeasureResult result = SimulatedMeasurer::measure(task, candidate, options);
    if (of_all_) result.seconds = result.min_seconds = result.median_seconds = 1e-12 / result.seconds;
    if (!options.incumbent) return result;
    bool has_none = !of_all_ && candidate.code != options.incumbent->code && hash_bytes(candidate.code).low % 3 == 0;
    result.ratio = has_none ? 0 : 0.5;
    return result;
  }

 private:
  bool of_all_;
};

// Both seeds learn from the same programs in part, and the arms find some of the same.
TEST_F(Experiments, ASecondRunMeasuresNothingAndGivesTheSame) {
  file("list.yaml", kTwoTasks);
  std::string path = file("e.yaml",
                          "title: a\nlist: list.yaml\ntrials: 24\nseeds: 2\narms:\n"
                          "  - {name: alone, search: {strategy: annealing, steps: 20, random_first: 1}, model: tree}\n"
                          "  - {name: taught, search: {strategy: annealing, steps: 20}, model: tree,\n"
                          "     learns_from: [mm, other], learns_by: alone}\n");
  ExperimentOptions options{.output = folder_.path()};
  std::atomic<bool> stop{false};
  WithRatios measurer;
  const ExitCode code = run_experiment(path, options, &measurer, stop);  // not reached where an arm has no ratio
  ASSERT_TRUE(code == Reached || code == NotReached) << code;
  auto written = [&](const char* end) { return test::read_file(folder_.path() + "/e" + end); };
  const std::string curves = written(".curves.csv"), summary = written(".summary.csv");
  EXPECT_EQ(std::ranges::count(curves, '\n'), 1 + 2 * 2 * 2 * 24);
  const i64 calls = measurer.measured();
  EXPECT_EQ(run_experiment(path, options, &measurer, stop), code);
  EXPECT_EQ(measurer.measured(), calls);
  EXPECT_EQ(written(".curves.csv"), curves);
  EXPECT_EQ(written(".summary.csv"), summary);
  options.replay = true;
  EXPECT_EQ(run_experiment(path, options, nullptr, stop), code);
  EXPECT_EQ(written(".curves.csv"), curves);
  EXPECT_EQ(written(".summary.csv"), summary) << "with the seconds of the searches";
}

// The fields of a line of CSV without quotes, by the names in the first line. `line` begins with `begin`.
std::map<std::string, std::string> fields(const std::string& csv, const std::string& begin) {
  std::map<std::string, std::string> out;
  const std::vector<std::string> lines = split(csv, '\n'), names = split(lines[0], ',');
  auto line = std::ranges::find_if(lines, [&](const std::string& each) { return each.starts_with(begin); });
  if (line == lines.end()) return out;
  const std::vector<std::string> cells = split(*line, ',');
  for (std::size_t i = 0; i < names.size() && i < cells.size(); ++i) out[names[i]] = cells[i];
  return out;
}

constexpr const char* kOneArm =
    "title: a\nlist: list.yaml\ntrials: 8\nseeds: 2\narms:\n"
    "  - {name: plain, search: {strategy: random}}\n";

// An experiment with one arm on one task.
class OneArm : public Experiments {
 protected:
  OneArm() : path_(file("e.yaml", kOneArm)), stored_(folder_.path() + "/e.results.csv") { file("list.yaml", kList); }
  // What the last run says of the arm, by column.
  std::map<std::string, std::string> line() const {
    return fields(test::read_file(folder_.path() + "/e.summary.csv"), "mm,plain,");
  }
  std::string path_, stored_;
  std::atomic<bool> stop_{false};
  SimulatedMeasurer measurer_;
};

// A replay has the seconds of the run that measured; without them it has none, for its own are no search's.
TEST_F(OneArm, SecondsAreThoseOfTheSearchThatMeasured) {
  ASSERT_EQ(run_experiment(path_, {.output = folder_.path()}, &measurer_, stop_), Reached);
  EXPECT_EQ(line()["seeds"], "2");
  EXPECT_GT(std::stod(line()["tuning_seconds"]), 0);
  EXPECT_GE(std::stod(line()["tuning_seconds"]), std::stod(line()["search_seconds"]));
  EXPECT_GT(std::stod(line()["measured"]), 0);
  std::string others;
  for (const std::string& each : split(test::read_file(stored_), '\n'))
    if (each.find(",took,") == std::string::npos) others += each + "\n";
  file("e.results.csv", others);
  ASSERT_EQ(run_experiment(path_, {.output = folder_.path(), .replay = true}, nullptr, stop_), Reached);
  for (const char* column : {"tuning_seconds", "search_seconds", "training_seconds", "measured"})
    EXPECT_EQ(line()[column], "") << column;
}

// Whoever repeats an experiment has another processor than the one that measured.
TEST_F(OneArm, AReplayIsForTheProcessorThatMeasured) {
  ExperimentOptions options{.output = folder_.path()};
  run_experiment(path_, options, &measurer_, stop_);
  const std::string curves = test::read_file(folder_.path() + "/e.curves.csv");
  auto list_for = [&](const char* processor) {
    std::string list = kList;
    list.replace(list.find("znver3"), 6, processor);
    file("list.yaml", list);
  };
  options.replay = true;
  list_for("znver4");
  std::filesystem::remove(folder_.path() + "/e.curves.csv");
  EXPECT_EQ(run_experiment(path_, options, nullptr, stop_), Reached);
  EXPECT_EQ(test::read_file(folder_.path() + "/e.curves.csv"), curves);
  options.replay = false, options.trials = 2;
  run_experiment(path_, options, &measurer_, stop_);  // results of two processors
  list_for("haswell");
  options.replay = true;
  EXPECT_EQ(run_experiment(path_, options, nullptr, stop_), NotReached) << "nobody knows which of them is meant";
}

// Where programs of a task were measured in turn, one without such a time counts in no median.
TEST_F(OneArm, TimesOfSearchesAndTimesInTurnAreNotMixed) {
  ASSERT_EQ(run_experiment(path_, {.output = folder_.path()}, &measurer_, stop_), Reached);
  EXPECT_EQ(line()["in_turn"], "0") << "this measurer has no ratios";
  EXPECT_NE(line()["gflops"], "");
  const std::string results = test::read_file(stored_);
  auto replay_with = [&](const std::string& seconds, ExitCode code) {
    std::string in_turn;
    for (const std::string& each : split(results, '\n')) {
      const std::vector<std::string> cells = split(each, ',');
      if (cells.size() == 5 && cells[3] == "ok")
        in_turn += cat(cells[0], ",", cells[1], ",", cells[2], ",in turn,", seconds, "\n");
    }
    file("e.results.csv", results + in_turn);
    EXPECT_EQ(run_experiment(path_, {.output = folder_.path(), .replay = true}, nullptr, stop_), code);
  };
  replay_with("0.5", Reached);
  EXPECT_EQ(line()["in_turn"], "2");
  EXPECT_EQ(line()["of_fastest"], "1.0000");
  replay_with("0", NotReached);
  EXPECT_EQ(line()["seeds"], "2");
  EXPECT_EQ(line()["in_turn"], "0");
  for (const char* column : {"gflops", "gflops_least", "gflops_most", "of_fastest"})
    EXPECT_EQ(line()[column], "") << column;
}

// A run that measures a part of a search anew says little of all of it; one that measures nothing says nothing.
TEST_F(OneArm, SecondsAreOfTheRunThatMeasuredMost) {
  auto run = [&] { EXPECT_EQ(run_experiment(path_, {.output = folder_.path()}, &measurer_, stop_), Reached); };
  run();
  const std::string measured = line()["measured"], tuning = line()["tuning_seconds"], all = test::read_file(stored_);
  std::string fewer, no_seconds;
  int results = 0;
  for (const std::string& each : split(all, '\n')) {
    if (each.empty()) continue;
    if (each.find(",ok,") == std::string::npos || ++results != 3) fewer += each + "\n";
    if (each.find(",took,") == std::string::npos) no_seconds += each + "\n";
  }
  ASSERT_LT(fewer.size(), all.size());
  file("e.results.csv", fewer);
  run();
  EXPECT_EQ(line()["measured"], measured);
  EXPECT_EQ(line()["tuning_seconds"], tuning);
  file("e.results.csv", no_seconds);
  run();
  EXPECT_EQ(line()["tuning_seconds"], "");
  EXPECT_EQ(test::read_file(stored_), no_seconds);
}

// They belong to what an arm does, not to its name.
TEST_F(Experiments, SecondsOfAnArmThatWasChangedAreNotItsOwn) {
  file("list.yaml", kList);
  std::string path = file("e.yaml", kOneArm);
  std::atomic<bool> stop{false};
  SimulatedMeasurer measurer;
  auto line = [&] { return fields(test::read_file(folder_.path() + "/e.summary.csv"), "mm,plain,"); };
  ASSERT_EQ(run_experiment(path, {.output = folder_.path()}, &measurer, stop), Reached);
  ASSERT_NE(line()["tuning_seconds"], "");
  file("e.yaml",
       "title: a\nlist: list.yaml\ntrials: 8\nseeds: 2\narms:\n  - {name: plain, search: {strategy: genetic}}\n");
  run_experiment(path, {.output = folder_.path(), .replay = true}, nullptr, stop);
  EXPECT_EQ(line()["tuning_seconds"], "");
}

// The first trial of these arms is the untuned program, which is timed, too.
TEST_F(Experiments, APartialRunKeepsTheTimesOfOtherArms) {
  file("list.yaml", kList);
  const std::string stored = folder_.path() + "/e.results.csv";
  const std::string path = file("e.yaml",
                                "title: a\nlist: list.yaml\ntrials: 8\nseeds: 1\narms:\n"
                                "  - {name: one, search: {strategy: random}}\n"
                                "  - {name: two, search: {strategy: genetic}}\n");
  std::atomic<bool> stop{false};
  WithRatios measurer(true);
  const ExperimentOptions whole{.output = folder_.path()}, part{.arms = {"one"}, .output = folder_.path(), .seeds = 6},
      again{.output = folder_.path(), .replay = true};
  auto line = [&](const std::string& arm) {
    return fields(test::read_file(folder_.path() + "/e.summary.csv"), cat("mm,", arm, ","));
  };
  ASSERT_EQ(run_experiment(path, whole, &measurer, stop), Reached);
  ASSERT_EQ(line("two")["in_turn"], "1");
  EXPECT_NE(line("one")["first_gflops"], "");
  std::string without_traces;
  for (const std::string& each : split(test::read_file(stored), '\n')) {
    std::vector<std::string> cells = split(each, ',');
    if (cells.size() > 5 && cells[3] == "in turn") cells.resize(5);
    if (!each.empty()) without_traces += join(cells, ",") + "\n";
  }
  ASSERT_EQ(run_experiment(path, part, &measurer, stop), Reached);
  EXPECT_EQ(line("one")["in_turn"], "6");
  EXPECT_EQ(run_experiment(path, again, nullptr, stop), Reached);
  EXPECT_EQ(line("two")["in_turn"], "1");
  // As a file of an older version has them.
  file("e.results.csv", without_traces);
  ASSERT_EQ(run_experiment(path, part, &measurer, stop), Reached);
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_experiment(path, again, nullptr, stop), NotReached);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("two: nothing to compare on mm"), std::string::npos) << said;
}

// Of the tasks that are begun, the second one does not fit into memory.
class WithoutRoom : public SimulatedMeasurer {
 public:
  TaskStart begin_task(const Kernel& reference, Tolerance tolerance, u64 seed) override {
    if (++tried_ == 2) return {.task = -1, .error = "out of memory"};
    return SimulatedMeasurer::begin_task(reference, tolerance, seed);
  }

 private:
  int tried_ = 0;
};

TEST_F(Experiments, RunsThatEndEarlyAreCountedAndLeftOut) {
  file("list.yaml", kList);
  std::atomic<bool> stop{false};
  WithoutRoom measurer;
  EXPECT_EQ(run_experiment(file("e.yaml", kOneArm), {.output = folder_.path()}, &measurer, stop), NotReached);
  const std::string curves = test::read_file(folder_.path() + "/e.curves.csv"),
                    summary = test::read_file(folder_.path() + "/e.summary.csv");
  EXPECT_EQ(std::ranges::count(curves, '\n'), 1 + 8) << curves;
  auto line = fields(summary, "mm,plain,");
  EXPECT_EQ(line["seeds"], "1") << summary;
  EXPECT_EQ(line["ended_early"], "1");
  EXPECT_NE(line["gflops"], "");
}

TEST_F(Experiments, MediansAreOfWhatCanBeCompared) {
  TuneTask task{.name = "mm"};
  Arm arm{.name = "a"}, there{.name = "a in cpu", .space = "cpu"};
  ArmRun run{.seconds = {1}}, timed = run;
  timed.took = SearchSeconds{.tuning = 5, .search = 4, .training = 3, .measured = 1};
  std::vector<Cell> cells = {{&task, 2e9, &arm, {run, timed}, {{1, std::nullopt}, {1, 0.5}}, true, 3},
                             {&task, 2e9, &there, {run}, {{1, 0.25}}, true},
                             {&task, 2e9, &there, {}, {}, false, 2}};
  const std::string summary = summary_csv(cells);
  auto line = fields(summary, "mm,a,");
  EXPECT_EQ(line["seeds"], "2") << summary;
  EXPECT_EQ(line["gflops"], "4.000");
  EXPECT_EQ(line["gflops_least"], "4.000");
  EXPECT_EQ(line["in_turn"], "1");
  EXPECT_EQ(line["ended_early"], "3");
  EXPECT_EQ(line["of_fastest"], "1.0000") << "of its own space";
  EXPECT_EQ(line["tuning_seconds"], "5.000");
  EXPECT_EQ(line["measured"], "1");
  EXPECT_NE(summary.find("\nmm,a in cpu,1,1,8.000,"), std::string::npos) << summary;
  EXPECT_NE(summary.find("\nmm,a in cpu,0,0,,,,,,,,,0,0,2,,,,\n"), std::string::npos) << summary;
}

TEST_F(Experiments, MeansAreOverTheTasksThatAllArmsHave) {
  TuneTask mm{.name = "mm"}, other{.name = "other"};
  std::vector<Arm> arms = {{.name = "a"}, {.name = "b"}, {.name = "none"}};
  ArmRun run{.seconds = {1}}, unknown{.seconds = {kNever, kNever}, .unknown = 2};
  const std::optional<double> no;
  std::vector<Cell> cells = {{&mm, 2e9, &arms[0], {run}, {{2, 1}}, true},
                             {&mm, 2e9, &arms[1], {run}, {{2, 2}}, true},
                             {&mm, 2e9, &arms[2], {unknown}, {{no, no}}, true},
                             {&other, 2e9, &arms[0], {run}, {{4, 4}}, true},
                             {&other, 2e9, &arms[1], {run, run}, {{no, no}, {kNever, kNever}}, true}};
  testing::internal::CaptureStdout();
  const std::string lacking = print_arms(cells, arms), printed = testing::internal::GetCapturedStdout();
  EXPECT_EQ(lacking, "b: nothing to compare on other; all trials failed on other\nnone: nothing to compare on mm\n");
  auto row = [&](const std::string& arm) {
    std::vector<std::string> words;
    for (const std::string& line : split(printed, '\n'))
      if (line.starts_with(arm + " ")) words = split(line, ' ');
    std::erase(words, "");
    return words;
  };
  ASSERT_GE(row("a").size(), 4u) << printed;
  EXPECT_EQ(row("a")[1], "1") << printed;
  EXPECT_EQ(row("a")[2], "100.0");
  EXPECT_EQ(row("a")[3], "50.0") << "not with the other task";
  EXPECT_EQ(row("b")[2], "50.0");
  EXPECT_EQ(row("none"), (std::vector<std::string>{"none", "0", "2", "0"})) << "its trials without a stored result";
  const std::string summary = summary_csv(cells);
  EXPECT_EQ(fields(summary, "other,b,")["in_turn"], "0") << "all trials failed";
  for (const char* column : {"gflops", "of_fastest", "trials_to_95"})
    EXPECT_EQ(fields(summary, "mm,none,")[column], "") << column;
}

// What is not stored may be the best.
TEST_F(Experiments, NothingFollowsFromUnknownTrialsAlone) {
  file("list.yaml", kList);
  std::string path = file("e.yaml", kOneArm);
  std::atomic<bool> stop{false};
  SimulatedMeasurer measurer;
  ASSERT_EQ(run_experiment(path, {.output = folder_.path()}, &measurer, stop), Reached);
  const std::string results = test::read_file(folder_.path() + "/e.results.csv");
  file("e.results.csv", results.substr(0, results.find('\n') + 1) + "w,t,p,ok,1\n");
  EXPECT_EQ(run_experiment(path, {.output = folder_.path(), .replay = true}, nullptr, stop), NotReached);
  auto line = fields(test::read_file(folder_.path() + "/e.summary.csv"), "mm,plain,");
  EXPECT_EQ(line["not_recorded"], "16");
  for (const char* column : {"gflops", "of_fastest", "first_gflops", "trials_to_95"})
    EXPECT_EQ(line[column], "") << column;
}

// Lines behind a compressed file would be lost.
TEST_F(Experiments, NothingIsAddedToACompressedFile) {
  file("list.yaml", kTwoTasks);
  std::string path = file("e.yaml",
                          "title: a\nlist: list.yaml\ntrials: 4\nseeds: 1\narms:\n"
                          "  - {name: alone, search: {strategy: random}, model: tree}\n");
  ExperimentOptions options{.output = folder_.path(), .results = folder_.path() + "/stored.csv.gz"};
  std::atomic<bool> stop{false};
  WithRatios measurer;
  EXPECT_EQ(run_experiment(path, options, &measurer, stop), Usage);
  EXPECT_EQ(measurer.measured(), 0);
  EXPECT_FALSE(std::filesystem::exists(options.results));
}

// One trial teaches nothing.
TEST_F(Experiments, CurvesAreWrittenWhereAnotherArmFails) {
  file("list.yaml", kTwoTasks);
  std::string path = file("e.yaml",
                          "title: a\nlist: list.yaml\ntrials: 4\nseeds: 1\narms:\n"
                          "  - {name: plain, search: {strategy: random}}\n"
                          "  - {name: taught, model: tree, trials: 1, learns_from: [mm]}\n"
                          "  - {name: last, search: {strategy: genetic}}\n");
  std::atomic<bool> stop{false};
  SimulatedMeasurer measurer;
  EXPECT_EQ(run_experiment(path, {.output = folder_.path()}, &measurer, stop), NotReached);
  const std::string curves = test::read_file(folder_.path() + "/e.curves.csv"),
                    summary = test::read_file(folder_.path() + "/e.summary.csv");
  for (const char* arm : {"mm,plain,0,4,", "other,plain,0,4,", "mm,last,0,4,"})
    EXPECT_NE(curves.find(arm), std::string::npos) << arm << "\n" << curves;
  EXPECT_EQ(curves.find("taught"), std::string::npos) << curves;
  EXPECT_NE(summary.find("mm,last,1,4,"), std::string::npos) << summary;
}

// RFC 4180.
TEST_F(Experiments, NamesInFilesAreQuoted) {
  TuneTask task{.name = "mm"};
  Arm arm{.name = "a \"b\", c"};
  std::vector<Cell> cells = {{&task, 2e9, &arm, {{.seed = 3, .seconds = {kNever, 1}}}, {{1, 1}}}};
  EXPECT_EQ(curves_csv(cells),
            "task,arm,seed,trial,gflops\n"
            "mm,\"a \"\"b\"\", c\",3,1,0.000\n"
            "mm,\"a \"\"b\"\", c\",3,2,2.000\n");
  EXPECT_NE(summary_csv(cells).find("\nmm,\"a \"\"b\"\", c\",1,2,2.000,"), std::string::npos) << summary_csv(cells);
}

TEST_F(Experiments, ExitCodesAreThoseOfTracewright) {
  const std::string program = TW_BINARY_DIR "/tracewright-experiments";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "the benchmarks were not built";
  auto code = [&](std::vector<std::string> words) {
    words.insert(words.begin(), program);
    return test::run_program(words, {.folder = folder_.path()}).code;
  };
  EXPECT_EQ(code({"--help"}), 0);
  EXPECT_EQ(code({}), 2) << "no file";
  EXPECT_EQ(code({"e.yaml", "--seeds", "0"}), 2);
  EXPECT_EQ(code({"e.yaml", "--seeds", "many"}), 2);
  EXPECT_EQ(code({"e.yaml", "--sedes", "1"}), 2);
  EXPECT_EQ(code({"none.yaml", "--replay-measurements"}), 2);
}

TEST_F(Experiments, PlotSaysWhatIsNoFileOfCurves) {
  const std::string python = test::python_with("csv");
  if (python.empty()) GTEST_SKIP() << "there is no Python";
  // In place of the module that may not be installed.
  std::filesystem::create_directories(folder_.path() + "/modules/matplotlib");
  file("modules/matplotlib/__init__.py", "rcParams = {}\ndef use(name): pass\n");
  file("modules/matplotlib/pyplot.py", "");
  file("empty.curves.csv", "");
  file("no.curves.csv", "task,arm\nmm,a\n");
  for (const auto& [name, message] :
       {std::pair("none", "cannot read none.curves.csv: No such file or directory\n"),
        {"empty", "empty.curves.csv has no curves\n"},
        {"no", "no.curves.csv is no file of curves that tracewright-experiments wrote\n"}}) {
    test::Finished done =
        test::run_program({python, TW_SOURCE_DIR "/bench/experiments/plot.py", cat(name, ".curves.csv")},
                          {.folder = folder_.path(), .environment = {"PYTHONPATH=" + folder_.path() + "/modules"}});
    EXPECT_EQ(done.code, 1);
    EXPECT_EQ(done.err, message);
  }
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
      list->tasks[0],
      {{run.best.program, {run.best.trace}}, {run.first.program, {run.first.trace}}, {"x", {"no schedule"}}, {"y", {}}},
      3, *worker.measurer);
  EXPECT_EQ(times.size(), run.best.program == run.first.program ? 2u : 3u);
  EXPECT_GT(times["y"], times.at(run.best.program)) << "the untuned program";
  double best = best_after(run.seconds, run.seconds.size());
  EXPECT_GT(times.at(run.best.program), best / 20);
  EXPECT_LT(times.at(run.best.program), best * 20);
}

// Writes down what it measures.
class WithNotes : public WithRatios {
 public:
  MeasureResult measure(int task, const Kernel& candidate, const MeasureOptions& options) override {
    codes.push_back(candidate.code), incumbents.push_back(options.incumbent ? options.incumbent->code : "");
    return WithRatios::measure(task, candidate, options);
  }
  std::vector<std::string> codes, incumbents;
};

TEST_F(Experiments, AllAreComparedWithTheFastestOfTheirSearches) {
  std::string messages;
  file("list.yaml", kList);
  std::optional<LoadedList> list = load_list(folder_.path() + "/list.yaml", messages);
  ASSERT_TRUE(list) << messages;
  auto results = StoredResults::open(folder_.path() + "/r.csv", messages);
  std::atomic<bool> stop{false};
  WithNotes measurer;
  ArmRun run = run_arm({*list, *results, &measurer, folder_.path() + "/scratch.db", stop}, list->tasks[0],
                       {.name = "ours"}, 4, 0);
  ASSERT_FALSE(run.first.trace.empty());
  measurer.codes.clear(), measurer.incumbents.clear();
  times_in_turn(list->tasks[0], {{"a", {"", 2}}, {"b", {run.first.trace, 1}}, {"c", {}}}, 1, measurer);
  ASSERT_EQ(measurer.codes.size(), 4u);  // one alone, then a, b and c
  EXPECT_NE(measurer.codes[1], measurer.codes[2]);
  EXPECT_EQ(measurer.codes[0], measurer.codes[2]);
  EXPECT_EQ(measurer.incumbents[1], measurer.codes[2]);
}

// The speeds of a task's stored results, as curves say them.
std::set<std::string> stored_gflops(const TuneTask& task, StoredResults& results) {
  std::set<std::string> out;
  const TaskKey key = key_of(task);
  const Cell cell{.task = &task, .flops = count_flops(task.program.program), .arm = nullptr};
  for (const auto& [program, record] : results.of(key.workload, key.target)) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", gflops(cell, record.ok() ? record.seconds : kNever));
    out.insert(text);
  }
  return out;
}

// Each program that its searches find has a stored result, and its curves are the stored ones. Where a change of the
// search or of features leads to other programs, they are measured again by
//   build/release/tracewright-experiments bench/experiments/small.yaml --output OUT
// and OUT/small.results.csv is compressed to bench/experiments/small.results.csv.gz, beside OUT/small.curves.csv.
TEST_F(Experiments, TheSmallOneIsRepeatedWithoutMeasuring) {
  std::string messages;
  const std::string folder = TW_SOURCE_DIR "/bench/experiments/", stored = folder + "small.results.csv.gz";
  std::atomic<bool> stop{false};
  EXPECT_EQ(run_experiment(folder + "small.yaml", {.output = folder_.path(), .results = stored, .replay = true},
                           nullptr, stop),
            Reached)
      << "programs without a stored result";
  const std::string curves = test::read_file(folder_.path() + "/small.curves.csv");
  EXPECT_EQ(curves, test::read_file(folder + "small.curves.csv"));
  std::optional<LoadedList> list = load_list(folder + "small_tasks.yaml", messages);
  auto results = StoredResults::open(stored, messages);
  ASSERT_TRUE(list && results) << messages;
  const std::set<std::string> known = stored_gflops(list->tasks[0], *results);
  double before = 0;
  for (const std::string& line : split(curves, '\n')) {
    if (line.empty() || line.starts_with("task,")) continue;
    const std::vector<std::string> cells = split(line, ',');  // task, arm, seed, trial, GFLOP/s
    ASSERT_EQ(cells.size(), 5u) << line;
    EXPECT_TRUE(known.contains(cells[4])) << line << ": no stored result";
    EXPECT_TRUE(cells[3] == "1" || std::stod(cells[4]) >= before) << line << ": the best so far became worse";
    before = std::stod(cells[4]);
  }
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
    EXPECT_EQ(problems_of(*experiment, *list), "") << entry.path();
  }
  EXPECT_GE(files, 6);
}

// What is compared with MetaSchedule and AutoTVM has their models, and searches both spaces.
TEST(ExperimentFiles, HaveTheModelsOfThePapersInBothSpaces) {
  std::string messages;
  auto load = [&](const std::string& name) {
    return load_experiment(cat(TW_SOURCE_DIR "/bench/experiments/", name, ".yaml"), messages).value_or(Experiment());
  };
  const Experiment suite = load("suite"), models = load("models");
  ASSERT_TRUE(find_arm(suite, "reference")) << messages;
  EXPECT_EQ(find_arm(suite, "reference")->model, "xgboost-reference");
  for (const char* arm : {"TreeGRU rank", "TreeGRU regression", "TreeGRU rank in cpu", "TreeGRU regression in cpu"}) {
    ASSERT_TRUE(find_arm(models, arm)) << arm;
    EXPECT_EQ(find_arm(models, arm)->model, "treegru");
  }
  for (const char* name : {"models", "selection", "strategies", "transfer"}) {
    const Experiment experiment = load(name);
    auto searches = [&](const char* rules) { return std::ranges::count(experiment.arms, rules, &Arm::rules); };
    EXPECT_GT(searches("cpu"), 0) << name;
    EXPECT_EQ(searches("cpu"), searches("reference-cpu")) << name;
  }
}

// So its mutators have their own probabilities in each of its searches (reference_mutators.h).
TEST(ExperimentFiles, TheReferenceDrawsWhatMetaScheduleDraws) {
  std::string messages;
  std::optional<Experiment> suite = load_experiment(TW_SOURCE_DIR "/bench/experiments/suite.yaml", messages);
  ASSERT_TRUE(suite) << messages;
  std::optional<LoadedList> list = load_list(suite->list, messages);
  const Arm* reference = find_arm(*suite, "reference");
  ASSERT_TRUE(list && reference) << messages;
  int sketches = 0;
  for (const TuneTask* task : tasks_of(*list, suite->tasks)) {
    std::string errors;
    const Space space = build_space(task->program.program, *list->library.find_set(reference->rules), list->library,
                                    facts_of(task->target), errors);
    EXPECT_EQ(errors, "") << task->name;
    EXPECT_GE(space.sketches.size(), 3u) << task->name;
    for (const Sketch& sketch : space.sketches)
      EXPECT_TRUE(draws_as_reference(sketch.trace)) << task->name << ", sketch " << sketches;
    sketches += static_cast<int>(space.sketches.size());
  }
  EXPECT_GE(sketches, 52 * 3);
}

// Its tasks are those that the papers compare with libraries.
TEST(ExperimentFiles, OperatorsAreAListOfTasks) {
  std::string messages;
  std::optional<LoadedList> list = load_list(TW_SOURCE_DIR "/bench/experiments/operators.yaml", messages);
  ASSERT_TRUE(list) << messages;
  std::map<char, int> kinds;  // by the first letter of the names
  for (const TuneTask& task : list->tasks) {
    ++kinds[task.name[0]];
    EXPECT_EQ(why_not_searched(task, list->library, {.rules = list->list.rules.value}), "") << task.name;
  }
  EXPECT_EQ(kinds, (std::map<char, int>{{'c', 12}, {'d', 9}, {'p', 3}}));
}

TEST(Curves, BestAndTrials) {
  std::vector<double> seconds = {kNever, 4, 5, 2, 3};
  EXPECT_EQ(best_after(seconds, 1), kNever);
  EXPECT_EQ(best_after(seconds, 3), 4);
  EXPECT_EQ(best_after(seconds, 100), 2);
  EXPECT_EQ(trials_to(seconds, 4), 2);
  EXPECT_EQ(trials_to(seconds, 2.5), 4);
  EXPECT_EQ(trials_to(seconds, 1), kNever);
  EXPECT_EQ(trials_to({kNever, 1}, kNever), kNever) << "there is no goal";
  EXPECT_EQ(spread({1, kNever, kNever}).median, kNever);
  EXPECT_EQ(spread({1, 2, kNever}).median, 2);
  EXPECT_EQ(spread({kNever, kNever}).median, kNever);
  EXPECT_EQ(spread({3, 1, 2}).least, 1);
}

}  // namespace
}  // namespace tw::bench
