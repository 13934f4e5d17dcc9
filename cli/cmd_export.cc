// tracewright export: the best kernels of a task list, the first finalists of a folder, or what a trace file makes, as
// one C library.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>
#include <filesystem>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/library_name.h"
#include "cli/open_list.h"
#include "cli/stored.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "runtime/console/output.h"
#include "runtime/export/export_device.h"
#include "runtime/export/finalist_files.h"
#include "sampler/search/trial.h"
#include "sampler/tasks/export_task.h"
#include "sampler/tasks/rebuild.h"

namespace tw::cli {
namespace {

struct Options {
  std::string file, database, output, name;
  bool make_static = false, make_shared = false, json = false;
};

bool add_tasks_of_list(const Options& options, ExportPlan& plan, int& code) {
  std::optional<LoadedList> list = open_list(options.file);
  if (!list) return code = Usage, false;
  std::optional<Database> database =
      open_database(options.database.empty() ? list->list.database.value : options.database, DatabaseMode::Read);
  if (!database) return code = Environment, false;
  for (const TuneTask& task : list->tasks) {
    std::string message;
    std::optional<ExportedTask> exported = export_task(*database, task, plan.library, message);
    if (!message.empty()) say(message);
    if (!exported) return code = TargetMissed, false;
    plan.tasks.push_back(std::move(*exported));
  }
  return true;
}

// What a trace file makes, measured or not.
bool add_trace(const std::string& path, const std::string& text, const std::string& task, ExportPlan& plan) {
  std::optional<TraceFile> file = read_trace_file(path, text);
  if (!file) return false;
  std::string name = task.empty() ? std::string(file->program.program.name) : task, error;
  Target target = target_of(*file);
  std::optional<Rebuilt> rebuilt = rebuild(file->program, file->trace, target, error);
  std::optional<Kernel> kernel =
      rebuilt ? compile(*rebuilt, target, kernel_symbol(plan.library, name), error) : std::nullopt;
  if (!kernel) return say(cat(path, ": ", error)), false;
  plan.tasks.push_back({.name = name,
                        .doc = export_doc(file->program.program),
                        .kernel = std::move(*kernel),
                        .target = target,
                        .trace_file = text,
                        .flops = count_flops(file->program.program)});
  return true;
}

// Of each task the finalist that is predicted to be the fastest.
bool add_finalists(const std::string& folder, ExportPlan& plan) {
  std::string error;
  std::optional<std::vector<FinalistFile>> finalists = read_finalists(folder, error);
  if (!finalists) return say(error), false;
  for (const FinalistFile& finalist : *finalists) {
    if (finalist.rank == 1 &&
        !add_trace(cat(folder, ": the trace of ", finalist.task), finalist.trace_file, finalist.task, plan))
      return false;
  }
  return plan.tasks.empty() ? (say(cat(folder, " holds no finalist")), false) : true;
}

bool add_tasks(const Options& options, ExportPlan& plan, int& code) {
  code = Usage;
  std::error_code ignored;
  if (std::filesystem::is_directory(options.file, ignored)) return add_finalists(options.file, plan);
  if (!options.file.ends_with(".tw")) return add_tasks_of_list(options, plan, code);
  std::optional<std::string> text = read_file(options.file);
  return text && add_trace(options.file, *text, "", plan);
}

// Of kernels for OpenCL, where their device is there; else says that there are none.
void add_binaries(ExportPlan& plan) {
  for (ExportedTask& task : plan.tasks) {
    if (task.target.kind != TargetKind::OpenCl) return;
    task.binary = make_device_binary(worker_options(task.target), task.kernel.code);
    if (!task.binary.error.empty()) return say(cat("sources without device binaries: ", task.binary.error));
  }
}

boost::json::object to_json(const ExportPlan& plan, const ExportResult& result, const std::string& folder) {
  boost::json::array files, tasks;
  for (const std::string& file : result.files) files.push_back(boost::json::string(file));
  for (const ExportedTask& task : plan.tasks)
    tasks.push_back(
        {{"name", task.name}, {"target", to_string(task.target)}, {"us", task.seconds * 1e6}, {"record", task.record}});
  return {{"folder", folder}, {"library", plan.library}, {"files", files}, {"tasks", tasks}, {"note", result.note}};
}

int export_library(const Options& options) {
  ExportPlan plan{.library = library_name_of(options.name.empty() ? options.file : options.name),
                  .make_static = options.make_static || !options.make_shared,
                  .make_shared = options.make_shared || !options.make_static};
  int code = Ok;
  if (!add_tasks(options, plan, code)) return code;
  for (const ExportedTask& task : plan.tasks) {
    const Target &first = plan.tasks[0].target, &here = task.target;
    if (first.triple == here.triple && first.kind == here.kind) continue;
    return say("one library cannot hold kernels for different triples or kinds of targets"), Usage;
  }
  bool for_device = is_device(plan.tasks[0].target);
  if (for_device && (options.make_static || options.make_shared))
    return say("--static and --shared are for processors: kernels for devices are loaded by the launcher"), Usage;
  add_binaries(plan);
  ExportResult result = for_device ? write_device_export(plan, options.output) : write_export(plan, options.output);
  if (!result.note.empty()) say(result.note);
  if (!result.error.empty()) return say(result.error), Environment;
  if (options.json) {
    print_json(to_json(plan, result, options.output));
  } else {
    for (const std::string& file : result.files) std::printf("%s/%s\n", options.output.c_str(), file.c_str());
  }
  return result.note.empty() ? Ok : Environment;
}

}  // namespace

int run_export(int count, char** words) {
  Options options;
  App app("export",
          "Write the best kernels of a task list as one C library: header, objects, archive, "
          "shared library, manifest, traces.\n"
          "The library needs nothing of tracewright and checks the CPU when it is loaded. For devices: "
          "source, machine code, manifest, traces, and a launcher in C with its header.",
          "examples:\n  tracewright export examples/quickstart.yaml --database quickstart.db "
          "--output kernels\n"
          "  cc -Ikernels program.c kernels/libquickstart.a -lm\n"
          "  tracewright export found --output kernels --name lib    # what `tune --compile-only` has put into found");
  app.add_option("FILE", options.file,
                 "the task list, YAML; or a folder of finalists, of which each task's first one is taken; or a trace "
                 "file (.tw)")
      .required();
  app.add_option("--database", options.database, "the database, instead of the list's");
  app.add_option("--output", options.output, "folder to write to").required();
  app.add_option("--name", options.name, "of the library and prefix of its symbols; default: the name of the list");
  app.add_flag("--static", options.make_static, "only the archive; not for devices");
  app.add_flag("--shared", options.make_shared, "only the shared library; not for devices");
  app.add_flag("--json", options.json, "print one JSON object");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  return export_library(options);
}

}  // namespace tw::cli
