// An experiment: arms of a search that are compared on tasks, each with several seeds. A YAML file describes it; its
// tasks are those of a task list.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "costmodel/objective.h"
#include "sampler/tasks/load_list.h"

namespace tw::bench {

// One way to search: what `tune` would be given.
struct Arm {
  std::string name;
  std::string rules;    // of this arm; "" = those of the list
  std::string space;    // of Experiment::spaces, where it was put into one; "" = its rules are its own
  SearchChoice search;  // `transfer` is `none` where it is not said
  std::string model = "auto";
  Objective objective = Objective::Usual;
  i64 trials = 0;  // 0 = as many as the experiment says
  // Tasks of the list that are tuned before, each with as many trials as the arm has: a cost model of the arm's kind
  // that has learned from them is the global one of its searches (costmodel/transfer_model.h).
  std::vector<std::string> learns_from;
  std::string learns_by;  // the arm that tunes these; "" = this one. Models of several arms learn from the same then.
};

struct Experiment {
  std::string title;
  std::string paper;               // what is repeated: paper and figure
  std::string list;                // path of the task list, as it can be opened
  std::vector<std::string> tasks;  // names of the list's tasks; empty = all
  i64 trials = 0;                  // of each arm, task and seed
  int seeds = 0;                   // from 0
  // Rule sets. An arm without rules of its own is an arm in each of them, "NAME in SPACE" but in the first.
  std::vector<std::string> spaces;
  std::vector<Arm> arms;
};

// The arms are those in all spaces. nullopt after errors, which are in `messages` with their places. The path of the
// list is relative to the file.
std::optional<Experiment> load_experiment(const std::string& path, std::string& messages);

// Is it one of the names? All are where there are none.
bool is_chosen(const std::vector<std::string>& names, const std::string& name);

// The tasks of a list that have one of the names; all where there are no names.
std::vector<const TuneTask*> tasks_of(const LoadedList& list, const std::vector<std::string>& names);

// The arm of this name; null if there is none.
const Arm* find_arm(const Experiment& experiment, const std::string& name);

// What of it does not fit its list, a sentence a line: tasks, rule sets, models to begin with, arms that could not use
// what others have learned, arms of one name; "" if nothing is wrong.
std::string problems_of(const Experiment& experiment, const LoadedList& list);
// The arms whose models cannot run here, a line each: a tune would go on without them, under names that are not its
// own.
std::string missing_models(const Experiment& experiment);

}  // namespace tw::bench
