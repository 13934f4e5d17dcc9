// A graph as tasks: the programs of its fused groups, each different one once.
#pragma once
#include <vector>

#include "graph/fusion.h"
#include "sampler/search/tune.h"

namespace tw {

struct ModelTasks {
  graph::FusedGraph fused;
  std::vector<TuneTask> tasks;       // weighted by how often they run; with cold caches, on processors
  std::vector<std::size_t> task_of;  // of each group
};
ModelTasks model_tasks(const graph::Graph& graph, const Target& target);

}  // namespace tw
