#include "sampler/tasks/model_tasks.h"

#include <map>

#include "dsl/base/text.h"
#include "dsl/text/workload.h"

namespace tw {

ModelTasks model_tasks(const graph::Graph& graph, const Target& target) {
  ModelTasks made{graph::fuse(graph), {}, {}};
  std::map<std::string, std::size_t> known;  // by the text of the program
  std::map<std::string, int> names;
  for (const graph::Group& group : made.fused.groups) {
    OwnedProgram program = graph::program_of(graph, group);
    auto [at, is_new] = known.try_emplace(workload_text(program.program), made.tasks.size());
    made.task_of.push_back(at->second);
    if (is_new) {
      int number = ++names[group.name];
      TuneTask task{number == 1 ? group.name : cat(group.name, "_", number), std::move(program), target, 0, {}};
      if (!is_device(target)) task.timing = Timing::Cold;  // other kernels run before it is called again
      made.tasks.push_back(std::move(task));
    }
    made.tasks[at->second].weight += 1;
  }
  return made;
}

}  // namespace tw
