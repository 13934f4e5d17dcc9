// A graph as tasks: the programs of its fused groups, each different one once.
#pragma once
#include <map>
#include <string>
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

// Names of tasks over several graphs: equal programs have the same name in all of them, others have different ones.
class TaskNames {
 public:
  // `name`: what the group is called; `program`: the text of its workload.
  std::string name(const std::string& name, const std::string& program);

 private:
  std::map<std::string, std::string> known_;  // by program
  std::map<std::string, int> counts_;
};
ModelTasks model_tasks(const graph::Graph& graph, const Target& target, TaskNames& names);

}  // namespace tw
