#include "sampler/tasks/model_tasks.h"

#include "dsl/base/text.h"
#include "dsl/text/workload.h"

namespace tw {

std::string TaskNames::name(const std::string& name, const std::string& program) {
  auto [at, is_new] = known_.try_emplace(program, name);
  int number = is_new ? ++counts_[name] : 1;
  if (number > 1) at->second = cat(name, "_", number);
  return at->second;
}

ModelTasks model_tasks(const graph::Graph& graph, const Target& target) {
  TaskNames names;
  return model_tasks(graph, target, names);
}

ModelTasks model_tasks(const graph::Graph& graph, const Target& target, TaskNames& names) {
  using graph::InPlace;
  ModelTasks made{is_device(target) ? graph::fuse(graph, InPlace::No, 0) : graph::fuse(graph, InPlace::Yes), {}, {}};
  std::map<std::string, std::size_t> known;  // by the text of the program
  for (const graph::Group& group : made.fused.groups) {
    OwnedProgram program = graph::program_of(graph, group);
    std::string text = workload_text(program.program);
    auto [at, is_new] = known.try_emplace(text, made.tasks.size());
    made.task_of.push_back(at->second);
    if (is_new) {
      TuneTask task{names.name(group.name, text), std::move(program), target, 0, {}};
      if (!is_device(target)) task.timing = Timing::Cold;  // other kernels run before it is called again
      made.tasks.push_back(std::move(task));
    }
    made.tasks[at->second].weight += 1;
  }
  return made;
}

}  // namespace tw
