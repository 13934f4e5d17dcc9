// From a graph to the plan of a library: groups of nodes become kernels, each different program once, and constants are
// packed as these want them. Kernels come from a database or, without trials, from the draft model. Nothing is
// measured.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/export/export.h"
#include "sampler/tasks/best_kernel.h"
#include "sampler/tasks/model_tasks.h"

namespace tw {

struct ModelOptions {
  std::string library;  // a C identifier
  Target target;
  Database* database = nullptr;  // of tuned kernels; null = none
  WhichRecord which = WhichRecord::Fastest;
  MachineRates rates = {};
  u64 seed = 0;
  int threads = 1;  // that compile
  std::function<bool()> stop = {};
};

// A graph for other shapes of the inputs, and its tasks: their names are those of one TaskNames.
struct EntryGraph {
  const graph::Graph& graph;
  const ModelTasks& tasks;
};

// One library for all graphs, an entry for each, in order. Equal programs are one kernel; weights with equal bytes are
// stored once, and kernels without trials that pack them as those of a larger entry do are preferred. Nothing, and why
// in `error`.
std::optional<ExportPlan> compile_model(const std::vector<EntryGraph>& entries, const ModelOptions& options,
                                        std::string& error);
std::optional<ExportPlan> compile_model(const graph::Graph& graph, const ModelTasks& tasks, const ModelOptions& options,
                                        std::string& error);

}  // namespace tw
