#include "sampler/tasks/load_list.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/text/workload.h"
#include "graph/import_onnx.h"
#include "rules/lang/rule_modules.h"
#include "runtime/measure/found_device.h"
#include "sampler/search/task_memory.h"
#include "sampler/search/trial.h"
#include "sampler/tasks/drafted_layouts.h"
#include "sampler/tasks/list_search.h"
#include "sampler/tasks/model_tasks.h"

namespace tw {
namespace {

std::vector<OperatorSignature> operator_signatures() {
  std::vector<std::string> epilogues;
  for (const EpilogueSignature& epilogue : epilogue_signatures(operator_library())) epilogues.push_back(epilogue.name);
  std::vector<OperatorSignature> out;
  for (const Signature& signature : signatures(operator_library())) {
    OperatorSignature converted{signature.name, {}, epilogues};
    for (const Signature::Parameter& parameter : signature.parameters) {
      i64 least = parameter.name == "padding" ? 0 : 1;
      converted.parameters.push_back(
          {parameter.name, parameter.kind == ParameterKind::Type, parameter.required, parameter.fallback, least});
    }
    out.push_back(std::move(converted));
  }
  return out;
}

// Turns the entries of one list into programs. Errors go to the list's diagnostics; those inside
// other files to `other_errors`.
class TaskMaker {
 public:
  TaskMaker(std::string folder, Diagnostics& diagnostics) : folder_(std::move(folder)), diagnostics_(diagnostics) {}

  std::optional<OwnedProgram> make(const TaskEntry& entry) {
    if (entry.workload.given) return from_file(entry);
    return entry.op.given && entry.args_readable ? from_operator(entry) : std::nullopt;
  }
  // False after errors.
  bool add_rewrites(const Located<std::string>& file, graph::OwnRewrites& out) {
    std::optional<Source> source = read(file);
    if (!source) return false;
    if (out.add(*source, other_errors_)) return true;
    return diagnostics_.error(file.span, cat(source->name, " has errors, see below")), false;
  }
  std::string resolve(const std::string& path) const {
    return (std::filesystem::path(folder_) / path).lexically_normal().string();
  }
  const std::string& other_errors() const { return other_errors_; }
  void add_errors(const std::string& text) { other_errors_ += text; }

 private:
  // Was something about this call reported already? Then what instantiation would say only repeats
  // it.
  bool is_reported(const TaskEntry& entry) const {
    auto holds = [](Span span, const Diagnostic& found) {
      return span.begin <= found.span.begin && found.span.begin < span.end;
    };
    return std::ranges::any_of(diagnostics_.all(), [&](const Diagnostic& found) {
      auto about = [&](const TaskArgument& argument) {
        return holds(argument.name_span, found) || holds(argument.span, found);
      };
      return holds(entry.op.span, found) || holds(entry.args_span, found) || std::ranges::any_of(entry.args, about);
    });
  }

  std::optional<OwnedProgram> from_operator(const TaskEntry& entry) {
    if (is_reported(entry)) return std::nullopt;
    WorkloadArguments arguments;
    for (const TaskArgument& argument : entry.args) {
      if (const i64* number = std::get_if<i64>(&argument.value)) {
        arguments.push_back({argument.name, *number});
      } else if (std::optional<DType> type = parse_dtype(std::get<std::string>(argument.value))) {
        arguments.push_back({argument.name, *type});
      } else {
        return std::nullopt;  // check_tasks has reported it
      }
    }
    std::vector<std::string> epilogues;
    for (const Located<std::string>& epilogue : entry.epilogue) epilogues.push_back(epilogue.value);
    const WorkloadModule& module = operator_library();
    std::vector<CallProblem> problems = check_call(module, entry.op.value, arguments, epilogues);
    for (const CallProblem& problem : problems) {
      if (!diagnostics_.has_errors()) diagnostics_.error(entry.op.span, problem.message, problem.note);
    }
    if (!problems.empty()) return std::nullopt;
    Diagnostics inner(*module.source);
    std::optional<OwnedProgram> program = instantiate(module, entry.op.value, arguments, epilogues, inner);
    for (const Diagnostic& found : inner.all()) diagnostics_.error(entry.args_span, found.message, found.note);
    return program;
  }

  std::optional<OwnedProgram> from_file(const TaskEntry& entry) {
    const WorkloadModule* module = open_module(entry);
    if (!module || !entry.use.given) return std::nullopt;
    Source text{diagnostics_.source().name, entry.use.value};
    Diagnostics inner(text);
    std::optional<WorkloadUse> use = parse_use(text, inner);
    auto place = [&](Span span) { return Span{entry.use.span.begin + span.begin, entry.use.span.begin + span.end}; };
    for (const Diagnostic& found : inner.all()) diagnostics_.error(place(found.span), found.message, found.note);
    if (!use) return std::nullopt;
    std::vector<CallProblem> problems = check_call(*module, use->workload, use->arguments, {});
    for (const CallProblem& problem : problems) diagnostics_.error(entry.use.span, problem.message, problem.note);
    if (!problems.empty()) return std::nullopt;
    Diagnostics failed(*module->source);
    std::optional<OwnedProgram> program = instantiate(*module, use->workload, use->arguments, {}, failed);
    if (!program)
      diagnostics_.error(entry.use.span,
                         cat("this use of `", use->workload, "` is not possible, see ", module->source->name));
    other_errors_ += failed.render();
    return program;
  }

  // A file that the list names; nullopt after an error.
  std::optional<Source> read(const Located<std::string>& file) {
    std::string path = resolve(file.value);
    if (!std::filesystem::is_regular_file(path)) {
      diagnostics_.error(file.span, cat("there is no file ", path),
                         "paths are relative to the folder of the task list");
      return std::nullopt;
    }
    std::string error;
    std::optional<std::string> text = read_text_file(path, error);
    if (!text) return diagnostics_.error(file.span, error), std::nullopt;
    return Source{path, *text};
  }

  // Null after errors; a file with errors reports them once.
  const WorkloadModule* open_module(const TaskEntry& entry) {
    std::string path = resolve(entry.workload.value);
    auto [found, is_new] = modules_.try_emplace(path);
    if (!is_new) return found->second ? &*found->second : nullptr;
    std::optional<Source> source = read(entry.workload);
    if (!source) return nullptr;
    Diagnostics inner(*source);
    WorkloadModule module = parse_workloads(*source, inner);
    other_errors_ += inner.render();
    if (inner.has_errors()) {
      diagnostics_.error(entry.workload.span, cat(path, " has errors, see below"));
      return nullptr;
    }
    found->second = std::move(module);
    return &*found->second;
  }

  std::string folder_;
  Diagnostics& diagnostics_;
  std::map<std::string, std::optional<WorkloadModule>> modules_;
  std::string other_errors_;
};

// What is wrong with a module as a whole: it is left out.
struct ModuleProblem {
  Span span;
  std::string message, note;
};

// Puts the rules of a module where the task list wants them.
std::optional<ModuleProblem> place_module(const ModuleEntry& entry, const std::shared_ptr<const rules::Module>& module,
                                          const std::string& set, rules::Library& library) {
  using Place = rules::Library::Place;
  struct Row {
    const Located<std::string>& anchor;
    Place place;
  };
  for (const Row& row :
       {Row{entry.before, Place::Before}, Row{entry.after, Place::After}, Row{entry.replace, Place::Instead}}) {
    if (!row.anchor.given) continue;
    std::string wrong = library.place(module, set, row.place, row.anchor.value);
    if (!wrong.empty()) return ModuleProblem{row.anchor.span, wrong, library.near_rule(row.anchor.value)};
  }
  return std::nullopt;
}

// A module of whose rules none is in the set does nothing.
void check_use(const ModuleEntry& entry, const std::shared_ptr<const rules::Module>& module, const std::string& set,
               const rules::Library& library, Diagnostics& diagnostics) {
  const std::vector<rules::RuleUse>* uses = library.find_set(set);
  bool is_used = module->rules.empty() || !uses ||
                 std::ranges::any_of(*uses, [&](const rules::RuleUse& use) { return use.module == module; });
  if (!is_used)
    diagnostics.warning(entry.file.span, cat("no rule of this module runs in the set `", set, "`"),
                        cat("place it: `{file: ", entry.file.value, ", before: NAME}`, `after` or `replace`"));
}

// A schedule by hand that is for no task of the list is a misspelt one.
void check_schedules(const ModuleEntry& entry, const rules::Module& module, const std::vector<TuneTask>& tasks,
                     Diagnostics& diagnostics) {
  std::vector<std::string> names;
  for (const TuneTask& task : tasks) names.emplace_back(task.program.program.name);
  for (const rules::Rule& rule : module.rules) {
    const std::string wanted(rule.workload);
    if (!rule.is_schedule() || std::ranges::find(names, wanted) != names.end()) continue;
    std::string near = closest(wanted, names);
    diagnostics.warning(entry.file.span,
                        cat("the schedule `", rule.name, "` is for `", wanted, "`, which no task computes"),
                        near.empty() ? "" : cat("did you mean `", near, "`?"));
  }
}

// A bad module is left out if there are others to go on with.
void add_modules(LoadedList& out, TaskMaker& maker, Diagnostics& diagnostics) {
  struct Row {
    const ModuleEntry* entry;
    std::shared_ptr<const rules::Module> module;
    std::optional<ModuleProblem> problem;
  };
  rules::RuleModules modules(out.library);
  std::vector<Row> rows;
  for (const ModuleEntry& entry : out.list.modules) {
    std::string path = maker.resolve(entry.file.value);
    Row& row = rows.emplace_back(Row{&entry, nullptr, std::nullopt});
    if (!std::filesystem::is_regular_file(path))
      row.problem = {entry.file.span, cat("there is no file ", path),
                     "paths are relative to the folder of the task list"};
    else if (!(row.module = modules.add_file(path)))
      row.problem = {entry.file.span, cat(path, " has errors, see below"), ""};
  }
  maker.add_errors(modules.errors());
  const std::string& set = out.list.rules.value;
  for (Row& row : rows) {
    if (row.module) row.problem = place_module(*row.entry, row.module, set, out.library);
  }
  bool has_good = std::ranges::any_of(rows, [](const Row& row) { return !row.problem; });
  for (const Row& row : rows) {
    if (!row.problem) {
      check_use(*row.entry, row.module, set, out.library, diagnostics);
      check_schedules(*row.entry, *row.module, out.tasks, diagnostics);
    } else if (has_good) {
      diagnostics.warning(row.problem->span, cat(row.problem->message, "; it is left out"), row.problem->note);
    } else {
      diagnostics.error(row.problem->span, row.problem->message, row.problem->note);
    }
  }
}

// `flag`: the set is that of --rules, which has no place in the list.
void check_rule_set(const TaskList& list, const std::string& flag, const rules::Library& library, TaskMaker& maker,
                    Diagnostics& diagnostics) {
  if (library.find_set(list.rules.value)) return;
  std::vector<std::string> names = library.set_names();
  std::string near = closest(list.rules.value, names);
  std::string note = near.empty() ? cat("there are: ", join(names, ", ")) : cat("did you mean `", near, "`?");
  std::string message = cat("there is no rule set `", list.rules.value, "`");
  if (flag.empty()) return diagnostics.error(list.rules.span, message, note);
  Source words{"--rules", flag};
  Diagnostics about_flag(words);
  about_flag.error({0, flag.size()}, message, note);
  maker.add_errors(about_flag.render());
}

// The description of a device by the path that means the same wherever the program is started, since a task's target is
// its key in databases. Targets are texts of words: where the whole path has others, the one from here.
Target with_whole_path(Target target, const std::string& path) {
  target.gpu = std::filesystem::absolute(path).lexically_normal().string();
  Source text{"target", to_string(target)};
  Diagnostics ignored(text);
  if (parse_target(text.text, 0, ignored) != target) target.gpu = is_device_file(path) ? path : "./" + path;
  return target;
}

// The tasks of a model, which take the place of its entry. False after errors.
bool add_model(const TaskEntry& entry, const Target& target, const std::string& path, std::vector<TaskEntry>& entries,
               LoadedList& out, Diagnostics& diagnostics) {
  const std::vector<const graph::RewriteModule*> rewrites = out.rewrites.modules();
  graph::ImportOptions options{.modules = rewrites};
  std::vector<std::string> inputs = graph::onnx_inputs(path);
  for (const ModelShape& shape : entry.shapes) {
    if (!inputs.empty() && std::ranges::count(inputs, shape.name) == 0)
      return diagnostics.error(entry.model.span,
                               cat("the model has no input `", shape.name, "`; its inputs are ", join(inputs, ", "))),
             false;
    options.shapes[shape.name] = shape.extents;
  }
  auto imported = graph::import_onnx(path, options);
  if (auto* problems = std::get_if<graph::ImportProblems>(&imported)) {
    for (const std::string& line : problems->lines) diagnostics.error(entry.model.span, line);
    return false;
  }
  std::size_t first = out.tasks.size();
  graph::Graph graph = simplified_for(std::get<graph::Graph>(imported), target, rewrites, entry.precision.value);
  for (TuneTask& task : model_tasks(graph, target).tasks) {
    TaskEntry own = entry;
    if (entry.timing.given) task.timing = entry.timing.value;
    task.name = own.name.value = cat(entry.name.value, "_", task.name);
    task.weight = own.weight.value = entry.weight.value * task.weight;
    entries.push_back(std::move(own));
    out.tasks.push_back(std::move(task));
  }
  out.models.push_back(
      {entry.name.value, path, entry.shapes, entry.precision.value, target, first, out.tasks.size() - first});
  return true;
}

// Which machine of a fleet measures a task: what its entry says, else what the list says.
void set_machines(LoadedList& out) {
  for (TuneTask& task : out.tasks) {
    auto entry = std::ranges::find_if(out.list.tasks, [&](const TaskEntry& e) { return e.name.value == task.name; });
    const Located<std::string>& said = entry->machine.given ? entry->machine : out.list.machine;
    task.machine = said.value;
  }
}

// The files that the list names, behind those of the caller. False after errors.
bool add_rewrites(LoadedList& out, TaskMaker& maker) {
  bool is_good = true;
  for (const Located<std::string>& file : out.list.rewrites) is_good &= maker.add_rewrites(file, out.rewrites);
  return is_good;
}

// Makes the programs of all entries. Where there is none, an entry is left without a task. Without all rewritings
// and operators models are left out, to avoid follow-up errors.
void add_tasks(LoadedList& out, TaskMaker& maker, bool has_rewrites, Diagnostics& diagnostics) {
  std::vector<TaskEntry> entries;
  for (const TaskEntry& entry : out.list.tasks) {
    Target target = entry.target.given ? entry.target.value : out.list.target.value;
    if (is_device_file(target.gpu)) target = with_whole_path(target, maker.resolve(target.gpu));
    if (entry.model.given) {
      if (!has_rewrites || !add_model(entry, target, maker.resolve(entry.model.value), entries, out, diagnostics))
        entries.push_back(entry);
      continue;
    }
    entries.push_back(entry);
    std::optional<OwnedProgram> program = maker.make(entry);
    if (!program) continue;
    if (entry.layout.value == TaskLayout::Free) mark_free_layout(*program);
    if (entry.tolerance.given) program->program.tolerance = entry.tolerance.value;
    out.tasks.push_back({entry.name.value, std::move(*program), target, entry.weight.value, {}, entry.timing.value});
  }
  out.list.tasks = std::move(entries);
  set_machines(out);
}

// The list of one model, as text; its name is that of the file.
std::string list_of_model(const std::string& path, const std::vector<ModelShape>& shapes, DType precision) {
  std::filesystem::path file(path);
  std::string text;
  for (const ModelShape& shape : shapes)
    text += cat(text.empty() ? "" : ", ", quote(shape.name), ": [", join(shape.extents, ", "), "]");
  return cat("version: 1\ntasks:\n  - name: ", c_identifier(file.stem().string()),
             "\n    model: ", quote(file.filename().string()), "\n    shapes: {", text,
             "}\n    precision: ", name_of(precision), "\n");
}

}  // namespace

std::optional<LoadedList> load_list(const std::string& path, std::string& messages, const std::string& rules,
                                    const std::string& strategy, const std::vector<ModelShape>& shapes,
                                    const graph::OwnRewrites& rewrites, DType precision) {
  std::string error;
  std::optional<std::string> text =
      path.ends_with(".onnx") ? list_of_model(path, shapes, precision) : read_text_file(path, error);
  if (!text) return messages += cat("error: ", error, "\n"), std::nullopt;
  Source source{path, *text};
  Diagnostics diagnostics(source);
  LoadedList out{parse_task_list(diagnostics), {}, {}, rules::Library::built_in(), source, rewrites};
  find_devices(out.list, first_cuda_device, diagnostics);
  if (!rules.empty())
    out.list.rules.value = rules;
  else if (!out.list.rules.given && is_device(out.list.target.value))
    out.list.rules.value = name_of(out.list.target.value.kind);
  check_tasks(out.list, operator_signatures(), diagnostics);
  TaskMaker maker(std::filesystem::path(path).parent_path().string(), diagnostics);
  const bool has_rewrites = add_rewrites(out, maker);
  add_tasks(out, maker, has_rewrites, diagnostics);
  add_modules(out, maker, diagnostics);
  check_rule_set(out.list, rules, out.library, maker, diagnostics);
  if (Located<std::string>& transfer = out.list.search.transfer;
      transfer.given && transfer.value != kNoTransfer && transfer.value != kShippedModel)
    transfer.value = maker.resolve(transfer.value);
  std::string wrong_flag = check_search(out.list.search, strategy, diagnostics);
  messages += diagnostics.render() + maker.other_errors() + wrong_flag;
  bool has_set = out.library.find_set(out.list.rules.value);
  bool is_whole =
      has_set && wrong_flag.empty() && !diagnostics.has_errors() && out.tasks.size() == out.list.tasks.size();
  return is_whole ? std::optional<LoadedList>(std::move(out)) : std::nullopt;
}

std::string why_not_in_memory(const LoadedList& list, const std::string& only) {
  Diagnostics diagnostics(list.source);
  std::map<std::string, i64> device_bytes;
  for (std::size_t i = 0; i < list.tasks.size(); ++i) {
    const TuneTask& task = list.tasks[i];
    if (!only.empty() && task.name != only) continue;
    auto [bytes, is_new] = device_bytes.try_emplace(to_string(task.target), 0);
    if (is_new && is_device(task.target)) bytes->second = device_memory_bytes(worker_options(task.target));
    std::string why = why_too_large(task.program.program, task.target, bytes->second);
    const TaskEntry& entry = list.list.tasks[i];
    if (!why.empty()) diagnostics.error(entry.name.given ? entry.name.span : entry.op.span, cat("the task ", why));
  }
  return diagnostics.render();
}

TaskKey key_of(const TuneTask& task) { return {to_hex(structural_hash(task.program.program)), to_string(task.target)}; }

}  // namespace tw
