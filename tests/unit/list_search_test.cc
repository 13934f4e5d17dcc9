// `search` of a task list: what is chosen, and what is said of a wrong choice before anything starts.
#include "sampler/tasks/list_search.h"

#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "runtime/lists/yaml_decode.h"
#include "sampler/strategies/strategies.h"

namespace tw {
namespace {

struct Checked {
  TaskList list;
  std::string errors;
};

Checked check(const std::string& search, const std::string& flag = "") {
  Source source{"tasks.yaml",
                "version: 1\nsearch: " + search + "\ntasks: [{name: s, op: softmax, args: {M: 2, N: 3}}]\n"};
  Diagnostics diagnostics(source);
  Checked out{parse_task_list(diagnostics), ""};
  std::string of_flag = check_search(out.list.search, flag, diagnostics);
  out.errors = diagnostics.render() + of_flag;
  return out;
}

TEST(ListSearch, WhatIsLeftOutIsFilledIn) {
  Checked plain = check("{}");
  EXPECT_EQ(plain.errors, "");
  EXPECT_EQ(plain.list.search.strategy.value, "evolutionary");
  EXPECT_EQ(plain.list.search.select.value, "greedy");
  EXPECT_EQ(plain.list.search.acquisition.value, "mean");
  EXPECT_EQ(plain.list.search.transfer.value, "shipped");
  EXPECT_NE(to_json(plain.list)
                .find(R"("search":{"strategy":"evolutionary","select":"greedy","acquisition":"mean",)"
                      R"("model":"auto","objective":"usual","transfer":"shipped",)"),
            std::string::npos);
  Checked said = check("{strategy: annealing, select: diverse, acquisition: ei, chains: 64, lambda: 4, models: 3}");
  EXPECT_EQ(said.errors, "");
  SearchChoice choice = choice_of(said.list.search);
  EXPECT_EQ(choice.settings.at("chains"), 64);
  EXPECT_EQ(choice.settings.at("steps"), 500);
  SearchPlan plan = plan_of(choice);
  EXPECT_STREQ(plan.kind->name, "annealing");
  EXPECT_TRUE(plan.selection.is_diverse);
  EXPECT_EQ(plan.selection.lambda, 4);
  EXPECT_EQ(plan.selection.epsilon, 0.05);
  EXPECT_EQ(plan.acquisition.kind, Acquisition::Kind::ExpectedImprovement);
  EXPECT_EQ(plan.models, 3);
}

TEST(ListSearch, ACostModelAndItsObjective) {
  Checked said = check("{strategy: annealing, model: treegru, objective: rank, select: diverse, acquisition: ei}");
  EXPECT_EQ(said.errors, "");
  EXPECT_EQ(choice_of(said.list.search).model, "treegru");
  EXPECT_EQ(choice_of(said.list.search).objective, "rank");
  EXPECT_EQ(check("{model: treegr, objective: ranks}").errors,
            R"(tasks.yaml:2:17: error: unknown cost model `treegr`
    2 | search: {model: treegr, objective: ranks}
      |                 ^~~~~~
note: did you mean `treegru`?
tasks.yaml:2:36: error: unknown objective `ranks`
    2 | search: {model: treegr, objective: ranks}
      |                                    ^~~~~
note: did you mean `rank`?
)");
  for (const StrategyKind& kind : strategies())
    EXPECT_EQ(check(cat("{strategy: ", kind.name, ", model: tree}")).errors.empty(), kind.uses_model) << kind.name;
  EXPECT_EQ(check("{strategy: random, model: tree}").errors,
            R"(tasks.yaml:2:35: error: the strategy `random` asks no cost model and has no `model`
    2 | search: {strategy: random, model: tree}
      |                                   ^~~~
)");
}

TEST(ListSearch, EveryStrategyCanBeChosenAlone) {
  for (const StrategyKind& kind : strategies()) {
    Checked chosen = check(cat("{strategy: ", kind.name, "}"));
    EXPECT_EQ(chosen.errors, "");
    EXPECT_EQ(plan_of(choice_of(chosen.list.search)).new_strategy()->name(), std::string(kind.name));
    EXPECT_EQ(check("{strategy: annealing, chains: 3}", kind.name).list.search.strategy.value, kind.name);
  }
}

TEST(ListSearch, WrongChoices) {
  EXPECT_EQ(check("{strategy: anealing, select: divers, acquisition: pi}").errors,
            R"(tasks.yaml:2:20: error: unknown strategy `anealing`
    2 | search: {strategy: anealing, select: divers, acquisition: pi}
      |                    ^~~~~~~~
note: did you mean `annealing`?
tasks.yaml:2:38: error: unknown way to select `divers`
    2 | search: {strategy: anealing, select: divers, acquisition: pi}
      |                                      ^~~~~~
note: did you mean `diverse`?
tasks.yaml:2:59: error: unknown acquisition function `pi`
    2 | search: {strategy: anealing, select: divers, acquisition: pi}
      |                                                           ^~
note: known: mean, ei, ucb
)");
  EXPECT_EQ(check("{strategy: genetic, select: diverse, acquisition: ei, epsilon: 0.1}").errors,
            R"(tasks.yaml:2:37: error: the strategy `genetic` picks its batches itself and has no `select`
    2 | search: {strategy: genetic, select: diverse, acquisition: ei, epsilon: 0.1}
      |                                     ^~~~~~~
tasks.yaml:2:59: error: the strategy `genetic` picks its batches itself and has no `acquisition`
    2 | search: {strategy: genetic, select: diverse, acquisition: ei, epsilon: 0.1}
      |                                                           ^~
tasks.yaml:2:63: error: the strategy `genetic` has no setting `epsilon` here
    2 | search: {strategy: genetic, select: diverse, acquisition: ei, epsilon: 0.1}
      |                                                               ^~~~~~~
note: it is one of `select: greedy`
)");
  EXPECT_EQ(check("{strategy: annealing, lambda: 2, chain: 3, chains: 0, steps: 2.5, temperature: hot}").errors,
            R"(tasks.yaml:2:31: error: the strategy `annealing` has no setting `lambda` here
    2 | search: {strategy: annealing, lambda: 2, chain: 3, chains: 0, steps: 2.5, temperature: hot}
      |                               ^~~~~~
note: it is one of `select: diverse`
tasks.yaml:2:42: error: the strategy `annealing` has no setting `chain` here
    2 | search: {strategy: annealing, lambda: 2, chain: 3, chains: 0, steps: 2.5, temperature: hot}
      |                                          ^~~~~
note: did you mean `chains`?
tasks.yaml:2:60: error: expected `chains` to be an integer from 1 to 65536, found `0`
    2 | search: {strategy: annealing, lambda: 2, chain: 3, chains: 0, steps: 2.5, temperature: hot}
      |                                                            ^
tasks.yaml:2:70: error: expected `steps` to be an integer from 1 to 1000000, found `2.5`
    2 | search: {strategy: annealing, lambda: 2, chain: 3, chains: 0, steps: 2.5, temperature: hot}
      |                                                                      ^~~
tasks.yaml:2:88: error: expected `temperature` to be a number from 0 to 100000, found `hot`
    2 | search: {strategy: annealing, lambda: 2, chain: 3, chains: 0, steps: 2.5, temperature: hot}
      |                                                                                        ^~~
)");
}

TEST(ListSearch, TransferIsForStrategiesThatGoByScores) {
  for (const StrategyKind& kind : strategies()) {
    EXPECT_EQ(check(cat("{strategy: ", kind.name, ", transfer: none}")).errors, "");
    EXPECT_EQ(check(cat("{strategy: ", kind.name, ", transfer: shipped}")).errors.empty(), kind.has_scores);
    EXPECT_EQ(plan_of(choice_of(check(cat("{strategy: ", kind.name, "}")).list.search)).has_transfer, kind.has_scores);
    EXPECT_FALSE(
        plan_of(choice_of(check(cat("{strategy: ", kind.name, ", transfer: none}")).list.search)).has_transfer);
  }
  EXPECT_EQ(check("{strategy: random, transfer: shipped}").errors,
            R"(tasks.yaml:2:38: error: the strategy `random` picks its batches itself and has no `transfer`
    2 | search: {strategy: random, transfer: shipped}
      |                                      ^~~~~~~
)");
}

TEST(ListSearch, RangesHaveTheirEnds) {
  EXPECT_EQ(check("{strategy: annealing, chains: 65536, epsilon: 0}").errors, "");
  EXPECT_NE(check("{strategy: annealing, chains: 65537}").errors, "");
  EXPECT_NE(check("{strategy: annealing, epsilon: -0.1}").errors, "");
  EXPECT_NE(check("{strategy: annealing, epsilon: 1.1}").errors, "");
}

TEST(ListSearch, ASettingMayBeBoundedByAnother) {
  EXPECT_EQ(check("{strategy: genetic, population: 10, elites: 10}").errors, "");
  EXPECT_EQ(check("{strategy: genetic, population: 10, elites: 11}").errors,
            R"(tasks.yaml:2:53: error: expected `elites` to be at most `population`, which is 10, found `11`
    2 | search: {strategy: genetic, population: 10, elites: 11}
      |                                                     ^~
)");
  EXPECT_NE(check("{strategy: genetic, elites: 101}").errors, "") << "`population` is 100 if nothing is said";
  EXPECT_EQ(check("{strategy: genetic, population: 2}").errors, "") << "`elites` is not said";
}

TEST(ListSearch, AnAcquisitionNeedsALearnedModel) {
  EXPECT_EQ(check("{acquisition: mean, model: draft}").errors, "");
  EXPECT_EQ(check("{acquisition: ei, model: tree}").errors, "");
  EXPECT_EQ(
      check("{acquisition: ei, model: draft}").errors,
      R"(tasks.yaml:2:23: error: the acquisition function `ei` goes by what a learned cost model predicts, and `draft` is none
    2 | search: {acquisition: ei, model: draft}
      |                       ^~
)");
}

TEST(ListSearch, NobodyIsAskedWhetherTheWordItselfWasMeant) {
  EXPECT_EQ(closest("shipped", {"shipped", "none"}), "");
  EXPECT_EQ(closest("Shipped", {"none", "shipped"}), "shipped");
  EXPECT_EQ(yaml::suggestion("trials", {"trials", "tasks"}), "known: trials, tasks");
  EXPECT_EQ(yaml::suggestion("Trials", {"trials", "tasks"}), "did you mean `trials`?");
}

TEST(ListSearch, AStrategyOfTheCommandLine) {
  EXPECT_EQ(check("{chains: 3}", "metropolis").errors, "") << "it takes the place of all of `search`";
  EXPECT_EQ(check("{}", "metropols").errors, R"(--strategy:1:1: error: unknown strategy `metropols`
    1 | metropols
      | ^~~~~~~~~
note: did you mean `metropolis`?
)");
}

}  // namespace
}  // namespace tw
