// A task list read from its file and made ready: every task's program, target and rules. Used by
// tune, space, export, bench, replay. All errors of all files that belong to the list are printed
// at once; nothing is started here.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "rules/lang/library.h"
#include "runtime/task_list.h"
#include "sampler/search/tune.h"

namespace tw::cli {

struct LoadedList {
  TaskList list;
  std::vector<TuneTask> tasks;  // in the order of list.tasks
  rules::Library library;
  Source source;  // of the list
};

// nullopt after printing every error to standard error. Paths of workloads and modules are relative
// to the folder of the list. `rules` replaces the list's rule set, if not empty.
std::optional<LoadedList> load_list(const std::string& path, const std::string& rules = "");

// Can all tasks (or the one of that name) be measured in the memory that this machine and its device have? If not, it says so where they stand in the list.
bool fits_in_memory(const LoadedList& list, const std::string& only = "");

// The key of a task in the database.
struct TaskKey {
  std::string workload, target;
};
TaskKey key_of(const TuneTask& task);

}  // namespace tw::cli
