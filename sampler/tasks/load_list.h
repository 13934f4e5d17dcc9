// A task list read from its file and made ready: every task's program, target and rules. For whatever tunes, exports or
// compares the tasks of a list. No kernel runs here; for `device: auto` the CUDA devices are asked.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graph/own_rewrites.h"
#include "rules/lang/library.h"
#include "runtime/lists/task_list.h"
#include "sampler/search/tune.h"

namespace tw {

// A model of a list: its tasks lie side by side.
struct ListedModel {
  std::string name, path;
  std::vector<ModelShape> shapes;
  DType precision = DType::F32;
  Target target;
  std::size_t first_task = 0, tasks = 0;
};

struct LoadedList {
  TaskList list;
  std::vector<TuneTask> tasks;  // in the order of list.tasks
  std::vector<ListedModel> models;
  rules::Library library;
  Source source;                // of the list
  graph::OwnRewrites rewrites;  // of the caller, then of the list: what its models are made with
};

// nullopt after errors. An ONNX file stands for the list of its one model. `messages`: errors and warnings of all files
// that belong to the list, with their places. `shapes` and `precision` are of an ONNX file. Paths of workloads,
// modules and rewritings are relative to the folder of the list. `rules` replaces the list's rule set, if not empty,
// and `strategy` all of its `search`. What the list leaves out of `search` is filled in. `rewrites` are tried on its
// models before those of the list and those that are built in, and their operators are known.
std::optional<LoadedList> load_list(const std::string& path, std::string& messages, const std::string& rules = "",
                                    const std::string& strategy = "", const std::vector<ModelShape>& shapes = {},
                                    const graph::OwnRewrites& rewrites = {}, DType precision = DType::F32);

// Why not all tasks (or the one of that name) can be measured in the memory that this machine and its device have, with
// the places in the list; "" if they can.
std::string why_not_in_memory(const LoadedList& list, const std::string& only = "");

// The key of a task in the database.
struct TaskKey {
  std::string workload, target;
};
TaskKey key_of(const TuneTask& task);

}  // namespace tw
