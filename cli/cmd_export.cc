// tracewright export: the best kernels of a task list as one C library.
#include <cctype>
#include <cstdio>
#include <filesystem>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/loaded_list.h"
#include "cli/output.h"
#include "cli/stored.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "runtime/export_device.h"
#include "sampler/search/trial.h"

namespace tw::cli {
namespace {

struct Options {
  std::string file, database, output, name;
  bool make_static = false, make_shared = false;
};

// A C identifier from the list's file name: examples/quickstart.yaml -> quickstart.
std::string library_name(const Options& options) {
  std::string name =
      options.name.empty() ? std::filesystem::path(options.file).stem().string() : options.name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "k" + name;
  return name;
}

std::string doc_of(const TuneTask& task) {
  const Program& program = task.program.program;
  return cat("workload ", program.name, ", ", count_flops(program) * 1e-6,
             " million operations a call");
}

// What becomes of one task; nullopt after a message.
std::optional<ExportedTask> export_task(Database& database, const TuneTask& task,
                                        const std::string& library) {
  std::optional<StoredKernel> stored = best_kernel(database, task, kernel_symbol(library, task.name));
  if (!stored) return std::nullopt;
  return ExportedTask{task.name,
                      doc_of(task),
                      std::move(stored->kernel),
                      task.target,
                      stored->record.seconds,
                      stored->record.id,
                      print_trace_file({stored->record.version, key_of(task).target, task.program, stored->file.trace})};
}

// Of kernels for OpenCL, where their device is there; else says that there are none.
void add_binaries(ExportPlan& plan) {
  for (ExportedTask& task : plan.tasks) {
    if (task.target.kind != TargetKind::OpenCl) return;
    task.binary = make_device_binary(worker_options(task.target), task.kernel.code);
    if (!task.binary.error.empty()) return say(cat("sources without device binaries: ", task.binary.error));
  }
}

int export_list(const Options& options) {
  std::optional<LoadedList> list = load_list(options.file);
  if (!list) return Usage;
  std::optional<Database> database = open_database(
      options.database.empty() ? list->list.database.value : options.database, DatabaseMode::Read);
  if (!database) return Environment;
  ExportPlan plan{library_name(options),
                  {},
                  options.make_static || !options.make_shared,
                  options.make_shared || !options.make_static};
  for (const TuneTask& task : list->tasks) {
    std::optional<ExportedTask> exported = export_task(*database, task, plan.library);
    if (!exported) return TargetMissed;
    bool fits = plan.tasks.empty() || (plan.tasks[0].target.triple == task.target.triple && plan.tasks[0].target.kind == task.target.kind);
    if (!fits) return say("one library cannot hold kernels for different triples or kinds of targets"), Usage;
    plan.tasks.push_back(std::move(*exported));
  }
  bool for_device = is_device(plan.tasks[0].target);
  add_binaries(plan);
  ExportResult result = for_device ? write_device_export(plan, options.output) : write_export(plan, options.output);
  if (!result.note.empty()) say(result.note);
  if (!result.error.empty()) return say(result.error), Environment;
  for (const std::string& file : result.files)
    std::printf("%s/%s\n", options.output.c_str(), file.c_str());
  return result.note.empty() ? Ok : Environment;
}

}  // namespace

int run_export(int count, char** words) {
  Options options;
  auto app =
      make_app("export",
               "Write the best kernels of a task list as one C library: header, objects, archive, "
               "shared library, manifest, traces.\n"
               "The library needs nothing of tracewright and checks the CPU when it is loaded.",
               "examples:\n  tracewright export examples/quickstart.yaml --database quickstart.db "
               "--output kernels\n"
               "  cc -Ikernels program.c kernels/libquickstart.a -lm");
  app->add_option("FILE", options.file, "the task list, YAML")->required();
  app->add_option("--database", options.database, "the database, instead of the list's");
  app->add_option("--output", options.output, "folder to write to")->required();
  app->add_option("--name", options.name,
                  "of the library and prefix of its symbols; default: the name of the list");
  app->add_flag("--static", options.make_static, "only the archive");
  app->add_flag("--shared", options.make_shared, "only the shared library");
  if (std::optional<int> code = parse_arguments(*app, count, words)) return *code;
  return export_list(options);
}

}  // namespace tw::cli
