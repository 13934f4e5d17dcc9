#include "bench/experiments/experiment.h"

#include <filesystem>

#include "costmodel/make_model.h"
#include "dsl/base/files.h"
#include "runtime/lists/yaml_decode.h"
#include "sampler/tasks/global_model.h"
#include "sampler/tasks/list_search.h"

namespace tw::bench {
namespace {

using yaml::Item;
using yaml::Key;

void decode_name(const Item& item, std::string& out) {
  Located<std::string> text;
  decode_text(item, text);
  out = text.value;
}

void decode_names(const Item& item, std::vector<std::string>& out) {
  if (item.node.kind != YamlKind::List) return item.expected("a list of names");
  for (const YamlNode& node : item.node.items) decode_name({item.name, node, item.diagnostics}, out.emplace_back());
}

template <class T>
void decode_count(const Item& item, T& out) {
  Located<i64> value;
  decode_integer<i64>(item, 1, 1000000, value);
  out = static_cast<T>(value.value);
}

void decode_model(const Item& item, std::string& out) {
  decode_name(item, out);
  std::vector<std::string> names = model_names();
  if (!out.empty() && std::ranges::find(names, out) == names.end())
    item.expected("a cost model", yaml::suggestion(out, names));
}

void decode_objective(const Item& item, Objective& out) {
  std::string name;
  decode_name(item, name);
  if (std::optional<Objective> found = parse_objective(name)) {
    out = *found;
  } else {
    item.expected(join(objective_names(), ", "));
  }
}

void decode_choice(const Item& item, SearchChoice& out) {
  SearchEntry entry;
  decode_search(item, entry);
  out = choice_of(entry);  // before defaults are filled in: nothing is transferred where the arm does not say so
  check_search(entry, "", item.diagnostics);
  for (const Located<std::string>* said : {&entry.model, &entry.objective})
    if (said->given) item.diagnostics.error(said->span, "an arm names its cost model and objective beside `search`");
}

const std::vector<Key<Arm>>& arm_keys() {
  static const std::vector<Key<Arm>> keys = {
      {"name", [](const Item& item, Arm& arm) { decode_name(item, arm.name); }, "what its curve is called"},
      {"rules", [](const Item& item, Arm& arm) { decode_name(item, arm.rules); }},
      {"search", [](const Item& item, Arm& arm) { decode_choice(item, arm.search); }},
      {"model", [](const Item& item, Arm& arm) { decode_model(item, arm.model); }},
      {"objective", [](const Item& item, Arm& arm) { decode_objective(item, arm.objective); }},
      {"trials", [](const Item& item, Arm& arm) { decode_count(item, arm.trials); }},
      {"learns_from", [](const Item& item, Arm& arm) { decode_names(item, arm.learns_from); }},
      {"learns_by", [](const Item& item, Arm& arm) { decode_name(item, arm.learns_by); }},
  };
  return keys;
}

void decode_arms(const Item& item, std::vector<Arm>& arms) {
  if (item.node.kind != YamlKind::List || item.node.items.empty()) return item.expected("a list of at least one arm");
  for (const YamlNode& node : item.node.items)
    decode_mapping("an arm", node, arm_keys(), arms.emplace_back(), item.diagnostics);
}

const std::vector<Key<Experiment>>& experiment_keys() {
  static const std::vector<Key<Experiment>> keys = {
      {"title", [](const Item& item, Experiment& out) { decode_name(item, out.title); }, "what is compared"},
      {"paper", [](const Item& item, Experiment& out) { decode_name(item, out.paper); }},
      {"list", [](const Item& item, Experiment& out) { decode_name(item, out.list); }, "the path of a task list"},
      {"tasks", [](const Item& item, Experiment& out) { decode_names(item, out.tasks); }},
      {"trials", [](const Item& item, Experiment& out) { decode_count(item, out.trials); }, "of an arm, task and seed"},
      {"seeds", [](const Item& item, Experiment& out) { decode_count(item, out.seeds); }, "how many"},
      {"spaces", [](const Item& item, Experiment& out) { decode_names(item, out.spaces); }},
      {"arms", [](const Item& item, Experiment& out) { decode_arms(item, out.arms); }, "what is compared"},
  };
  return keys;
}

// What one of the spaces calls an arm; one that is in no space keeps its name.
std::string name_in(const std::string& space, const Experiment& experiment, const std::string& name) {
  const Arm* arm = find_arm(experiment, name);
  bool is_first = space == experiment.spaces[0];
  return is_first || !arm || !arm->rules.empty() ? name : cat(name, " in ", space);
}

// Arms without rules become those of the spaces, the others stay as they are.
void put_into_spaces(Experiment& experiment) {
  if (experiment.spaces.empty()) return;
  std::vector<Arm> arms;
  for (const std::string& space : experiment.spaces) {
    for (Arm arm : experiment.arms) {
      bool has_rules = !arm.rules.empty();
      if (has_rules && space != experiment.spaces[0]) continue;
      arm.name = name_in(space, experiment, arm.name);
      if (!has_rules) {
        arm.rules = arm.space = space;
        arm.learns_by = name_in(space, experiment, arm.learns_by);
      }
      arms.push_back(std::move(arm));
    }
  }
  experiment.arms = std::move(arms);
}

// "no `x`; there are a, b", or "" if it is there.
std::string missing(const std::string& name, const std::vector<std::string>& known) {
  if (std::ranges::find(known, name) != known.end()) return "";
  return cat("no `", name, "`; there are ", join(known, ", "));
}

// A line of messages; "" if there is no problem.
std::string with(const std::string& what, const std::string& problem) {
  return problem.empty() ? "" : cat(what, ": ", problem, "\n");
}

// Why the arm's searches would not use a model that has learned from others, in the words of `tune --transfer`; "" if
// they would.
std::string why_no_transfer(const Arm& arm) {
  if (!arm.learns_from.empty() && !arm.search.transfer.empty())
    return "what the arm learns from takes the place of `transfer`; leave one of them away";
  SearchChoice choice = arm.search;
  choice.transfer = kShippedModel;
  for (const ChoiceError& error : errors_of(choice))
    if (error.of == ChoiceError::Of::Transfer) return error.text;
  // What others teach is the order (learned_model()); what a file has learned is known when it is read.
  return why_no_global_model(arm.model, arm.objective, arm.learns_from.empty() ? arm.objective : Objective::Rank);
}

// Why the arm cannot search the tasks, as lines of messages.
std::string why_no_search(const Arm& arm, const Experiment& experiment, const LoadedList& list) {
  const std::string what = cat("arm `", arm.name, "`: search");
  std::string out = with(what, why_no_acquisition(arm.search, arm.model));
  const TuneOptions options{.rules = arm.rules.empty() ? list.list.rules.value : arm.rules, .search = arm.search};
  for (const TuneTask* task : tasks_of(list, experiment.tasks))
    out += with(cat(what, ": ", task->name), why_not_searched(*task, list.library, options));
  return out;
}

}  // namespace

bool is_chosen(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

std::vector<const TuneTask*> tasks_of(const LoadedList& list, const std::vector<std::string>& names) {
  std::vector<const TuneTask*> tasks;
  for (const TuneTask& task : list.tasks) {
    if (is_chosen(names, task.name)) tasks.push_back(&task);
  }
  return tasks;
}

const Arm* find_arm(const Experiment& experiment, const std::string& name) {
  auto found = std::ranges::find(experiment.arms, name, &Arm::name);
  return found == experiment.arms.end() ? nullptr : &*found;
}

std::string missing_models(const Experiment& experiment) {
  std::string out;
  for (const Arm& arm : experiment.arms) {
    MadeModel made = make_model(arm.model, model_columns(arm.model), /*seed=*/0);
    if (!made.model && learns(arm.model)) out += with(cat("arm `", arm.name, "`: model"), made.note);
  }
  return out;
}

std::string problems_of(const Experiment& experiment, const LoadedList& list) {
  std::vector<std::string> tasks, arms;
  for (const TuneTask& task : list.tasks) tasks.push_back(task.name);
  std::string out;
  for (const std::string& task : experiment.tasks) out += with("tasks", missing(task, tasks));
  for (const Arm& arm : experiment.arms) {
    if (std::ranges::find(arms, arm.name) != arms.end()) out += cat("two arms have the name `", arm.name, "`\n");
    arms.push_back(arm.name);
    for (const std::string& task : arm.learns_from)
      out += with(cat("arm `", arm.name, "`: learns_from"), missing(task, tasks));
    if (!arm.learns_by.empty() && !find_arm(experiment, arm.learns_by))
      out += cat("arm `", arm.name, "`: learns_by: no arm `", arm.learns_by, "`\n");
    if (!arm.rules.empty() && !list.library.find_set(arm.rules))
      out += with(cat("arm `", arm.name, "`: rules"), missing(arm.rules, list.library.set_names()));
    out += why_no_search(arm, experiment, list);
    if (!arm.learns_from.empty()) out += with(cat("arm `", arm.name, "`: learns_from"), why_no_transfer(arm));
    if (arm.search.transfer.empty() || arm.search.transfer == kNoTransfer) continue;
    std::string error = why_no_transfer(arm);
    if (error.empty()) read_global_model(arm.search.transfer, arm.model, arm.objective, error);
    out += with(cat("arm `", arm.name, "`: transfer"), error);
  }
  return out;
}

std::optional<Experiment> load_experiment(const std::string& path, std::string& messages) {
  std::optional<std::string> text = read_text_file(path, messages);
  if (!text) return std::nullopt;
  Source source{path, *text};
  Diagnostics diagnostics(source);
  Experiment experiment;
  if (std::optional<YamlNode> tree = parse_yaml(diagnostics))
    decode_mapping("an experiment", *tree, experiment_keys(), experiment, diagnostics);
  messages += diagnostics.render();
  if (diagnostics.has_errors()) return std::nullopt;
  put_into_spaces(experiment);
  experiment.list = (std::filesystem::path(path).parent_path() / experiment.list).lexically_normal().string();
  return experiment;
}

}  // namespace tw::bench
