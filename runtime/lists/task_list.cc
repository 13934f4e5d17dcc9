#include "runtime/lists/task_list.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "dsl/base/text.h"
#include "runtime/lists/yaml_decode.h"

namespace tw {
namespace {

using namespace yaml;

constexpr i64 known_version = 1;
constexpr i64 most_trials = 1000000000;

// ---- values
// -------------------------------------------------------------------------------------------------------

void decode_version(const Item& item, Located<i64>& out) {
  if (number<i64>(item.node) != known_version) return item.expected(std::to_string(known_version));
  out = {known_version, item.node.span, true};
}

void decode_texts(const Item& item, std::vector<Located<std::string>>& out) {
  if (item.node.kind != YamlKind::List) {
    bool word = item.node.kind == YamlKind::Word;
    return item.expected("a list", word ? cat("write `", item.name, ": [", item.node.text, "]`") : "");
  }
  for (const YamlNode& node : item.node.items) {
    Located<std::string> text;
    decode_text({item.name, node, item.diagnostics}, text);
    if (text.given) out.push_back(text);
  }
}

auto option_of(std::vector<TargetOption>& options, std::string_view key) {
  return std::ranges::find_if(options, [&](const TargetOption& option) { return option.key == key; });
}

bool wants_found_device(std::vector<TargetOption>& options) {
  auto device = option_of(options, "device"), kind = option_of(options, "kind");
  return device != options.end() && device->value == "auto" && kind != options.end() && kind->value == "cuda";
}

void decode_target_mapping(const Item& item, TargetEntry& out) {
  std::vector<TargetOption> options;
  for (const auto& [key, value] : item.node.entries) {
    if (key.kind == YamlKind::Word && value.kind == YamlKind::Word) {
      options.push_back({key.text, value.text, key.span, value.span});
    } else {
      Item{key.text, value, item.diagnostics}.expected("a word or number");
    }
  }
  out.span = item.node.span;
  if (wants_found_device(options)) {
    out.to_find = std::move(options);
  } else if (std::optional<Target> target = resolve_target(options, item.node.span, item.diagnostics)) {
    out.value = *target, out.given = true;
  }
}

void decode_target(const Item& item, TargetEntry& out) {
  const YamlNode& node = item.node;
  if (node.kind == YamlKind::Mapping) return decode_target_mapping(item, out);
  if (node.kind != YamlKind::Word) return item.expected("a target", "write `cpu`, or `{kind: cpu, threads: 1}`");
  std::optional<Target> target = parse_target(node.text, node.span.begin, item.diagnostics);
  if (target) out.value = *target, out.span = node.span, out.given = true;
}

void find_device(TargetEntry& entry, const FindDevice& first_device, Diagnostics& diagnostics) {
  if (entry.to_find.empty()) return;
  std::vector<TargetOption> options = std::move(entry.to_find);
  entry.to_find.clear();
  auto device = option_of(options, "device");
  std::string error;
  std::optional<FoundDevice> found = first_device(error);
  if (!found)
    return diagnostics.error(device->span, cat("there is no device to find: ", error),
                             "name one, as in `device: h100`, or an `arch`");
  TargetOption arch{"arch", found->arch, device->key_span, device->span};
  device->value = found->gpu;
  if (found->gpu.empty()) options.erase(device);
  if (option_of(options, "arch") == options.end()) options.push_back(arch);
  if (std::optional<Target> target = resolve_target(options, entry.span, diagnostics))
    entry.value = *target, entry.given = true;
}

bool is_identifier(std::string_view text) {
  auto letter = [](unsigned char c) { return std::isalpha(c) || c == '_'; };
  return !text.empty() && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](unsigned char c) { return letter(c) || std::isdigit(c); });
}

void decode_name(const Item& item, Located<std::string>& out) {
  if (item.node.kind != YamlKind::Word || !is_identifier(item.node.text)) {
    return item.expected("a name of letters, digits and `_`", "export makes a C symbol from it");
  }
  out = {item.node.text, item.node.span, true};
}

void decode_machine(const Item& item, Located<std::string>& out) {
  constexpr std::size_t longest = 256;  // bytes, of the queue's tables
  if (item.node.kind != YamlKind::Word || item.node.text.size() > longest)
    return item.expected("words of a machine's fingerprint, such as `\"EPYC 7313, class 1\"`",
                         "`tracewright fleet` prints fingerprints");
  out = {item.node.text, item.node.span, true};
}

void decode_part(const Item& item, Located<double>& out) {
  std::optional<double> part = number<double>(item.node);
  if (!part || !(*part >= 0 && *part < 1))
    return item.expected("a number from 0 to below 1, such as 0.005 for half a percent");
  out = {*part, item.node.span, true};
}

// One of two words.
template <class Enum>
void decode_either(const Item& item, const char* first, const char* second, Located<Enum>& out) {
  bool is_second = item.node.text == second;
  if (item.node.kind != YamlKind::Word || (!is_second && item.node.text != first))
    return item.expected(cat("`", first, "` or `", second, "`"));
  out = {static_cast<Enum>(is_second), item.node.span, true};
}

void decode_tolerance(const Item& item, Located<Tolerance>& out) {
  const std::vector<YamlNode>& list = item.node.items;
  std::optional<double> absolute = list.size() == 2 ? number<double>(list[0]) : std::nullopt,
                        relative = list.size() == 2 ? number<double>(list[1]) : std::nullopt;
  bool good = absolute && relative && *absolute >= 0 && *relative >= 0 && std::isfinite(*absolute) &&
              std::isfinite(*relative) && *absolute + *relative > 0;
  if (!good) return item.expected("two numbers, absolute and relative, such as `[1e-2, 1e-2]`");
  out = {{*absolute, *relative}, item.node.span, true};
}

// ---- mappings
// -----------------------------------------------------------------------------------------------------

const std::vector<Key<TaskList>>& budget_keys() {
  static const std::vector<Key<TaskList>> keys = {
      {"trials", [](const Item& item, TaskList& list) { decode_integer<i64>(item, 1, most_trials, list.trials); }},
      {"total_trials",
       [](const Item& item, TaskList& list) { decode_integer<i64>(item, 1, most_trials, list.total_trials); }},
      {"seconds", [](const Item& item, TaskList& list) { decode_positive(item, list.seconds); }},
      {"min_gain", [](const Item& item, TaskList& list) { decode_part(item, list.min_gain); }},
  };
  return keys;
}

void decode_args(const Item& item, TaskEntry& task) {
  task.args_span = item.node.span;
  task.args_readable = item.node.kind == YamlKind::Mapping;
  if (!task.args_readable) return item.expected("a mapping such as `{M: 128, N: 64}`");
  for_each_entry(item.node, item.diagnostics, [&](const YamlNode& key, const YamlNode& value) {
    std::optional<i64> integer = number<i64>(value);
    bool word = value.kind == YamlKind::Word && !value.quoted;
    if (!word) {
      task.args_readable = false;
      return Item{key.text, value, item.diagnostics}.expected("an integer or a type");
    }
    TaskArgument argument{key.text, value.text, key.span, value.span};
    if (integer) argument.value = *integer;
    task.args.push_back(std::move(argument));
  });
}

void decode_shapes(const Item& item, TaskEntry& task) {
  constexpr const char* expected = "shapes of inputs, such as `{x: [1, 3, 224, 224]}`";
  if (item.node.kind != YamlKind::Mapping) return item.expected(expected);
  for_each_entry(item.node, item.diagnostics, [&](const YamlNode& key, const YamlNode& value) {
    ModelShape shape{key.text, {}};
    for (const YamlNode& extent : value.items) {
      std::optional<i64> number = yaml::number<i64>(extent);
      if (!number || *number < 1) return Item{key.text, extent, item.diagnostics}.expected("a positive integer");
      shape.extents.push_back(*number);
    }
    if (value.kind != YamlKind::List) return Item{key.text, value, item.diagnostics}.expected("a list of extents");
    task.shapes.push_back(std::move(shape));
  });
}

void decode_precision(const Item& item, TaskEntry& task) {
  std::optional<DType> type = parse_dtype(item.node.text);
  if (item.node.kind != YamlKind::Word || !type || (*type != DType::F32 && !is_half(*type)))
    return item.expected("`f32`, `bf16` or `f16`");
  task.precision = {*type, item.node.span, true};
}

const std::vector<Key<TaskEntry>>& task_keys() {
  static const std::vector<Key<TaskEntry>> keys = {
      {"name", [](const Item& item, TaskEntry& task) { decode_name(item, task.name); },
       "give the task a name of its own"},
      {"op", [](const Item& item, TaskEntry& task) { decode_text(item, task.op); }},
      {"args", decode_args},
      {"epilogue", [](const Item& item, TaskEntry& task) { decode_texts(item, task.epilogue); }},
      {"workload", [](const Item& item, TaskEntry& task) { decode_text(item, task.workload); }},
      {"use", [](const Item& item, TaskEntry& task) { decode_text(item, task.use); }},
      {"model", [](const Item& item, TaskEntry& task) { decode_text(item, task.model); }},
      {"shapes", decode_shapes},
      {"precision", decode_precision},
      {"weight", [](const Item& item, TaskEntry& task) { decode_positive(item, task.weight); }},
      {"layout", [](const Item& item, TaskEntry& task) { decode_either(item, "fixed", "free", task.layout); }},
      {"timing", [](const Item& item, TaskEntry& task) { decode_either(item, "warm", "cold", task.timing); }},
      {"tolerance", [](const Item& item, TaskEntry& task) { decode_tolerance(item, task.tolerance); }},
      {"target", [](const Item& item, TaskEntry& task) { decode_target(item, task.target); }},
      {"machine", [](const Item& item, TaskEntry& task) { decode_machine(item, task.machine); }},
  };
  return keys;
}

// A task is an operator, a use of a workload in a file, or a model: one of them.
void check_form(const YamlNode& node, TaskEntry& task, Diagnostics& diagnostics) {
  if (node.kind != YamlKind::Mapping) return;
  std::vector<const char*> forms;
  for (const char* key : {"op", "workload", "model"}) {
    if (node.find(key)) forms.push_back(key);
  }
  if (forms.empty()) {
    diagnostics.error(
        node.span, "a task needs `op`, `workload` or `model`",
        "`op: dense` with `args`, `workload: file.tw` with `use: \"name(M = 1)\"`, or `model: file.onnx`");
    return;
  }
  if (forms.size() > 1) {
    diagnostics.error(node.find(forms[1])->span, cat("a task has `", forms[0], "` or `", forms[1], "`, not both"));
    task.op.given = task.model.given = false;  // which one was meant is not known
    return;
  }
  auto goes_with = [&](const char* key, const char* form, const char* note = "") {
    const YamlNode* value = node.find(key);
    if (value && !node.find(form))
      diagnostics.error(value->span, cat("`", key, "` goes with `", form, "`, not with `", forms[0], "`"), note);
  };
  const char* in_text = node.find("workload") ? "write it in the workload or in `use`" : "";
  goes_with("args", "op", in_text);
  goes_with("epilogue", "op", in_text);
  goes_with("use", "workload");
  goes_with("shapes", "model");
  goes_with("precision", "model");
  if (node.find("workload") && !node.find("use"))
    diagnostics.error(node.span, "missing key `use` in a task",
                      "which workload of the file, as in `use: \"name(M = 512)\"`");
}

const std::vector<Key<ModuleEntry>>& module_keys() {
  static const std::vector<Key<ModuleEntry>> keys = {
      {"file", [](const Item& item, ModuleEntry& entry) { decode_text(item, entry.file); },
       "the module, as in `{file: my_rules.tw, before: register_tiling}`"},
      {"before", [](const Item& item, ModuleEntry& entry) { decode_text(item, entry.before); }},
      {"after", [](const Item& item, ModuleEntry& entry) { decode_text(item, entry.after); }},
      {"replace", [](const Item& item, ModuleEntry& entry) { decode_text(item, entry.replace); }},
  };
  return keys;
}

void decode_modules(const Item& item, std::vector<ModuleEntry>& out) {
  if (item.node.kind != YamlKind::List) {
    bool word = item.node.kind == YamlKind::Word;
    return item.expected("a list", word ? cat("write `", item.name, ": [", item.node.text, "]`") : "");
  }
  for (const YamlNode& node : item.node.items) {
    ModuleEntry entry;
    if (node.kind == YamlKind::Mapping) {
      decode_mapping("a module", node, module_keys(), entry, item.diagnostics);
    } else {
      decode_text({item.name, node, item.diagnostics}, entry.file);
    }
    if (entry.before.given + entry.after.given + entry.replace.given > 1)
      item.diagnostics.error(node.span, "a module has one of `before`, `after`, `replace`");
    if (entry.file.given) out.push_back(std::move(entry));
  }
}

void decode_tasks(const Item& item, TaskList& list) {
  if (item.node.kind != YamlKind::List || item.node.items.empty()) {
    return item.expected("a list of at least one task", "`- {name: mm, op: matmul, args: {M: 64, N: 64, K: 64}}`");
  }
  std::set<std::string> names;
  for (const YamlNode& node : item.node.items) {
    TaskEntry task;
    decode_mapping("a task", node, task_keys(), task, item.diagnostics);
    check_form(node, task, item.diagnostics);
    if (task.name.given && !names.insert(task.name.value).second) {
      item.diagnostics.error(task.name.span, cat("another task has the name `", task.name.value, "`"));
    }
    list.tasks.push_back(std::move(task));
  }
}

const std::vector<Key<TaskList>>& list_keys() {
  static const std::vector<Key<TaskList>> keys = {
      {"version", [](const Item& item, TaskList& list) { decode_version(item, list.version); },
       "begin with `version: 1`"},
      {"target", [](const Item& item, TaskList& list) { decode_target(item, list.target); }},
      {"machine", [](const Item& item, TaskList& list) { decode_machine(item, list.machine); }},
      {"budget", [](const Item& item,
                    TaskList& list) { decode_mapping("`budget`", item.node, budget_keys(), list, item.diagnostics); }},
      {"database", [](const Item& item, TaskList& list) { decode_text(item, list.database); }},
      {"modules", [](const Item& item, TaskList& list) { decode_modules(item, list.modules); }},
      {"rewrites", [](const Item& item, TaskList& list) { decode_texts(item, list.rewrites); }},
      {"rules", [](const Item& item, TaskList& list) { decode_text(item, list.rules); }},
      {"search", [](const Item& item, TaskList& list) { decode_search(item, list.search); }},
      {"seed", [](const Item& item, TaskList& list) { decode_integer<u64>(item, 0, ~u64{0}, list.seed); }},
      {"tasks", decode_tasks, "a list of what to tune"},
  };
  return keys;
}

// Rewritings and operators are for models alone: without one the key stands in the wrong list.
void check_rewrites(const YamlNode& root, Diagnostics& diagnostics) {
  const YamlNode *rewrites = root.find("rewrites"), *tasks = root.find("tasks");
  if (!rewrites || !tasks || tasks->items.empty()) return;
  auto is_model = [](const YamlNode& task) { return task.find("model") != nullptr; };
  if (std::ranges::none_of(tasks->items, is_model))
    diagnostics.error(rewrites->span, "`rewrites` goes with tasks that have `model`, and the list has none");
}

// ---- operators
// ----------------------------------------------------------------------------------------------------

void check_argument(const TaskArgument& argument, const OperatorSignature::Parameter& parameter,
                    Diagnostics& diagnostics) {
  const i64* integer = std::get_if<i64>(&argument.value);
  std::string found = integer ? std::to_string(*integer) : std::get<std::string>(argument.value);
  if (!parameter.is_type) {
    constexpr i64 most = (i64{1} << 31) - 1;
    if (integer && *integer >= parameter.least && *integer <= most) return;
    diagnostics.error(argument.span, cat("expected `", argument.name, "` to be an integer from ", parameter.least,
                                         " to ", most, ", found `", found, "`"));
    return;
  }
  if (!integer && parse_dtype(found)) return;
  std::vector<std::string> types;
  for (int type = 0; type < kDTypes; ++type) types.push_back(name_of(static_cast<DType>(type)));
  diagnostics.error(argument.span, cat("expected `", argument.name, "` to be a type, found `", found, "`"),
                    suggestion(found, types));
}

void check_arguments(const TaskEntry& task, const OperatorSignature& signature, Diagnostics& diagnostics) {
  std::vector<std::string> known;
  for (const auto& parameter : signature.parameters) known.push_back(parameter.name);
  std::set<std::string> present;
  for (const TaskArgument& argument : task.args) {
    auto parameter = std::find(known.begin(), known.end(), argument.name);
    if (parameter == known.end()) {
      diagnostics.error(argument.name_span, cat("`", signature.name, "` has no argument `", argument.name, "`"),
                        suggestion(argument.name, known));
      present.insert(meant(argument.name, known));
      continue;
    }
    present.insert(argument.name);
    check_argument(argument, signature.parameters[parameter - known.begin()], diagnostics);
  }
  std::vector<std::string> missing;
  for (const auto& parameter : signature.parameters) {
    if (parameter.required && !present.count(parameter.name)) missing.push_back(cat("`", parameter.name, "`"));
  }
  if (missing.empty() || !task.args_readable) return;
  bool no_args = task.args_span.end == 0;
  diagnostics.error(
      no_args ? task.op.span : task.args_span,
      cat("`", signature.name, "` needs ", missing.size() > 1 ? "arguments " : "argument ", join(missing, ", ")),
      cat("its arguments: ", join(known, ", ")));
}

void check_epilogue(const TaskEntry& task, const OperatorSignature& signature, Diagnostics& diagnostics) {
  const std::vector<std::string>& allowed = signature.epilogues;
  for (const Located<std::string>& step : task.epilogue) {
    if (std::find(allowed.begin(), allowed.end(), step.value) != allowed.end()) continue;
    diagnostics.error(step.span, cat("`", signature.name, "` has no epilogue `", step.value, "`"),
                      allowed.empty() ? "it takes none" : suggestion(step.value, allowed));
  }
}

}  // namespace

// Six names; any other key is a number.
void decode_search(const Item& item, SearchEntry& out) {
  if (item.node.kind != YamlKind::Mapping) {
    bool is_word = item.node.kind == YamlKind::Word;
    return item.expected("a mapping", is_word ? cat("write `", item.name, ": {strategy: ", item.node.text, "}`") : "");
  }
  for_each_entry(item.node, item.diagnostics, [&](const YamlNode& key, const YamlNode& value) {
    Item named{key.text, value, item.diagnostics};
    if (key.text == "strategy") return decode_text(named, out.strategy);
    if (key.text == "select") return decode_text(named, out.select);
    if (key.text == "acquisition") return decode_text(named, out.acquisition);
    if (key.text == "model") return decode_text(named, out.model);
    if (key.text == "objective") return decode_text(named, out.objective);
    if (key.text == "transfer") return decode_text(named, out.transfer);
    out.settings.push_back({key.text, number<double>(value), describe(value), key.span, value.span});
  });
}

TaskList parse_task_list(Diagnostics& diagnostics) {
  TaskList list;
  list.target.value = host_target();
  std::optional<YamlNode> root = parse_yaml(diagnostics);
  if (!root) return list;
  // With another version every other complaint would be noise.
  const YamlNode* version = root->find("version");
  std::optional<i64> found = version ? number<i64>(*version) : std::nullopt;
  if (found && *found != known_version) {
    diagnostics.error(version->span,
                      cat("unknown version ", *found, "; this tracewright reads version ", known_version));
    return list;
  }
  decode_mapping("the task list", *root, list_keys(), list, diagnostics);
  check_rewrites(*root, diagnostics);
  return list;
}

void find_devices(TaskList& list, const FindDevice& first_device, Diagnostics& diagnostics) {
  find_device(list.target, first_device, diagnostics);
  for (TaskEntry& task : list.tasks) find_device(task.target, first_device, diagnostics);
}

void check_tasks(const TaskList& list, const std::vector<OperatorSignature>& operators, Diagnostics& diagnostics) {
  std::vector<std::string> names;
  for (const OperatorSignature& signature : operators) names.push_back(signature.name);
  for (const TaskEntry& task : list.tasks) {
    if (!task.op.given) continue;
    auto name = std::find(names.begin(), names.end(), task.op.value);
    if (name == names.end()) {
      diagnostics.error(task.op.span, cat("unknown operator `", task.op.value, "`"), suggestion(task.op.value, names));
      continue;
    }
    const OperatorSignature& signature = operators[name - names.begin()];
    check_arguments(task, signature, diagnostics);
    check_epilogue(task, signature, diagnostics);
  }
}

}  // namespace tw
