// The task list as JSON.
#include <boost/json.hpp>
#include <cmath>

#include "runtime/lists/task_list.h"

namespace tw {
namespace {

boost::json::object to_json(const SearchEntry& search) {
  boost::json::object object;
  if (!search.strategy.value.empty()) object["strategy"] = search.strategy.value;
  if (!search.select.value.empty()) object["select"] = search.select.value;
  if (!search.acquisition.value.empty()) object["acquisition"] = search.acquisition.value;
  if (!search.model.value.empty()) object["model"] = search.model.value;
  if (!search.objective.value.empty()) object["objective"] = search.objective.value;
  if (!search.transfer.value.empty()) object["transfer"] = search.transfer.value;
  for (const SearchEntry::Setting& setting : search.settings) {
    if (!setting.value) continue;
    double value = *setting.value;
    if (value == std::floor(value) && std::abs(value) < 0x1p53)
      object[setting.name] = static_cast<i64>(value);
    else
      object[setting.name] = value;
  }
  return object;
}

}  // namespace

std::string to_json(const TaskList& list) {
  namespace json = boost::json;
  auto texts = [](const std::vector<Located<std::string>>& values) {
    json::array array;
    for (const auto& value : values) array.emplace_back(value.value);
    return array;
  };
  json::array modules;
  for (const ModuleEntry& entry : list.modules) {
    json::object object{{"file", entry.file.value}};
    if (entry.before.given) object["before"] = entry.before.value;
    if (entry.after.given) object["after"] = entry.after.value;
    if (entry.replace.given) object["replace"] = entry.replace.value;
    bool is_plain = object.size() == 1;
    modules.push_back(is_plain ? json::value(entry.file.value) : json::value(object));
  }
  json::array tasks;
  for (const TaskEntry& task : list.tasks) {
    json::object object{{"name", task.name.value}};
    if (task.op.given) {
      json::object args;
      for (const TaskArgument& argument : task.args) {
        std::visit([&](const auto& value) { args[argument.name] = value; }, argument.value);
      }
      object["op"] = task.op.value;
      object["args"] = args;
      object["epilogue"] = texts(task.epilogue);
    } else if (task.model.given) {
      object["model"] = task.model.value;
      json::object shapes;
      for (const ModelShape& shape : task.shapes)
        shapes[shape.name] = json::array(shape.extents.begin(), shape.extents.end());
      object["shapes"] = shapes;
      if (task.precision.given) object["precision"] = name_of(task.precision.value);
    } else {
      object["workload"] = task.workload.value;
      object["use"] = task.use.value;
    }
    object["weight"] = task.weight.value;
    object["layout"] = task.layout.value == TaskLayout::Free ? "free" : "fixed";
    if (task.timing.given) object["timing"] = task.timing.value == Timing::Cold ? "cold" : "warm";
    if (task.tolerance.given) object["tolerance"] = {task.tolerance.value.absolute, task.tolerance.value.relative};
    object["target"] = to_string(task.target.given ? task.target.value : list.target.value);
    if (const auto& machine = task.machine.given ? task.machine : list.machine; machine.given)
      object["machine"] = machine.value;
    tasks.push_back(std::move(object));
  }
  json::object object{{"version", list.version.value},
                      {"target", to_string(list.target.value)},
                      {"budget",
                       {{"trials", list.trials.value},
                        {"total_trials", list.total_trials.value},
                        {"seconds", list.seconds.value},
                        {"min_gain", list.min_gain.value}}},
                      {"database", list.database.value},
                      {"modules", std::move(modules)},
                      {"rewrites", texts(list.rewrites)},
                      {"rules", list.rules.value},
                      {"search", to_json(list.search)},
                      {"seed", list.seed.value},
                      {"tasks", std::move(tasks)}};
  return json::serialize(object);
}

}  // namespace tw
