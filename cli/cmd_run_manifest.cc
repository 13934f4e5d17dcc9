// tracewright run-manifest: measures on a GPU what `tune --compile-only` found on a machine without one.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>
#include <map>
#include <set>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/devices.h"
#include "cli/open_list.h"
#include "cli/stored.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/text/workload.h"
#include "runtime/console/output.h"
#include "runtime/export/finalist_files.h"
#include "sampler/search/least_flops.h"
#include "sampler/search/trial.h"
#include "sampler/tasks/rebuild.h"

namespace tw::cli {
namespace {

struct Options {
  std::string folder, database;
  int device = 0;
  double timeout = 2;
  bool json = false;
};

// A workload that is open in the worker, with the best of its finalists so far.
struct OpenWorkload {
  TaskStart start;  // without a task: why it cannot be run here
  Kernel incumbent;
  double best = 0;
  double least_flops = 0;
  std::string text;
};

struct Row {
  const FinalistFile* finalist = nullptr;
  MeasureResult result;
};

// Begins a finalist's workload with its reference result, once. Null after a message; a workload that cannot be run
// here has no task.
OpenWorkload* open_workload(const FinalistFile& finalist, const TraceFile& file, Measurer& measurer,
                            std::map<std::string, OpenWorkload>& open) {
  auto [at, is_new] = open.try_emplace(finalist.workload);
  if (!is_new) return &at->second;
  const Program& program = file.program.program;
  if (to_hex(structural_hash(program)) != finalist.workload)
    return say(cat(finalist.task, ": the trace file is not for the workload of the manifest")), nullptr;
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(target_of(file)));
  if (!compiler) return say(to_string(compiler.rejected())), nullptr;
  TaskStart start = begin_judged_task(measurer, program, target_of(file), *compiler, finalist.seed);
  if (start.task < 0) say(cat(finalist.task, ": ", start.error));
  at->second.start = start;
  at->second.least_flops = least_flops(program);
  at->second.text = workload_text(program);
  return &at->second;
}

Record record_of(const FinalistFile& finalist, const TraceFile& file, const std::string& host,
                 const MeasureResult& measured) {
  Record record{.workload = finalist.workload, .target = finalist.target, .seed = finalist.seed};
  record.task = finalist.task;
  record.program = finalist.program;
  record.object = finalist.object.empty() ? to_hex(object_hash(finalist.kernel)) : finalist.object;
  record.version = TW_VERSION;
  record.host = host;
  record.trace = file.trace.print(0);
  set_result(record, measured);
  return record;
}

std::optional<TraceFile> read_trace(const FinalistFile& finalist, const std::string& folder) {
  return read_trace_file(cat(folder, ": trace of ", finalist.task, ", rank ", finalist.rank), finalist.trace_file);
}

// The other tasks go on.
MeasureResult not_begun(const TaskStart& start) {
  MeasureResult out;
  out.status = start.status;
  out.was_tried = true;
  out.message = start.error;
  return out;
}

int measure_all(const std::vector<FinalistFile>& finalists, const Options& options, Database& database,
                Measurer& measurer, std::vector<Row>& rows) {
  Target cuda;
  cuda.kind = TargetKind::Cuda;
  const std::string host = measuring_host(cuda, options.device);
  std::map<std::string, OpenWorkload> open;
  std::map<std::string, std::size_t> left;  // of each workload
  for (const FinalistFile& finalist : finalists) ++left[finalist.workload];
  for (const FinalistFile& finalist : finalists) {
    std::optional<TraceFile> file = read_trace(finalist, options.folder);
    if (!file) return Usage;
    OpenWorkload* workload = open_workload(finalist, *file, measurer, open);
    if (!workload) return Environment;
    MeasureOptions how{.incumbent = workload->incumbent.code.empty() ? nullptr : &workload->incumbent,
                       .least_flops = workload->least_flops,
                       .timeout_seconds = options.timeout,
                       .pairs = 20,
                       .max_pairs = 40,
                       .budget_seconds = 0.5,
                       .cold_samples = kColdSamples};
    MeasureResult measured = workload->start.task < 0 ? not_begun(workload->start)
                                                      : measurer.measure(workload->start.task, finalist.kernel, how);
    if (measured.status == MeasureStatus::WorkerLost && !measured.was_tried) return say(measured.message), Environment;
    Record record = record_of(finalist, *file, host, measured);
    if (!checked(database.add_workload(finalist.workload, workload->text)) || !checked(database.add_record(record)))
      return Environment;
    if (record.ok() && (workload->best == 0 || record.seconds < workload->best)) {
      workload->best = record.seconds;
      workload->incumbent = finalist.kernel;
    }
    rows.push_back({&finalist, measured});
    // Its data need not be made again by a worker that replaces this one.
    if (--left[finalist.workload] == 0 && workload->start.task >= 0) measurer.end_task(workload->start.task);
  }
  return Ok;
}

void print_rows(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> table;
  for (const Row& row : rows)
    table.push_back({row.finalist->task, std::to_string(row.finalist->rank), show_time(row.finalist->predicted_seconds),
                     show_time(row.result.seconds),
                     show_number(row.result.seconds > 0 ? row.result.seconds / row.finalist->predicted_seconds : 0, 2),
                     name_of(row.result.status), row.result.message});
  if (!table.empty()) print_table({"task", "rank", "predicted", "measured", "ratio", "status", "message"}, table);
}

boost::json::array to_json(const std::vector<Row>& rows) {
  boost::json::array out;
  for (const Row& row : rows)
    out.push_back({{"task", row.finalist->task},
                   {"rank", row.finalist->rank},
                   {"predicted_us", row.finalist->predicted_seconds * 1e6},
                   {"us", row.result.seconds * 1e6},
                   {"median_us", row.result.median_seconds * 1e6},
                   {"cold_us", row.result.cold_seconds * 1e6},
                   {"status", name_of(row.result.status)},
                   {"message", row.result.message},
                   {"max_error", json_number(row.result.max_error)}});
  return out;
}

// Wrong results, and writes beside buffers, of kernels that the checks had let pass have an exit code of their own;
// faults are recorded failures, as in `tune`.
int exit_code_of(const std::vector<Row>& rows) {
  std::map<std::string, bool> has_good;
  bool is_wrong = false;
  for (const Row& row : rows) {
    bool good = row.result.status == MeasureStatus::Ok || row.result.status == MeasureStatus::Noisy;
    has_good[row.finalist->task] |= good;
    is_wrong |= row.result.status == MeasureStatus::WrongResult || row.result.status == MeasureStatus::OutOfBounds;
  }
  if (is_wrong) return WrongResults;
  for (const auto& [task, good] : has_good) {
    if (!good) return TargetMissed;
  }
  return Ok;
}

// What is wrong with the device is found before anything is stored: it is no failure of a kernel.
std::string why_none_runs(const std::vector<FinalistFile>& finalists, int device) {
  std::set<std::string> asked;
  for (const FinalistFile& finalist : finalists) {
    if (!asked.insert(cat(finalist.target, " ", finalist.nvrtc)).second) continue;
    Source text{"target", finalist.target};
    Diagnostics diagnostics(text);
    std::optional<Target> target = parse_target(text.text, 0, diagnostics);
    if (!target) return diagnostics.render();
    if (std::string problem = why_no_device(*target, finalist.nvrtc, device); !problem.empty()) return problem;
  }
  return "";
}

int run_folder(const Options& options) {
  std::string error;
  std::optional<std::vector<FinalistFile>> finalists = read_finalists(options.folder, error);
  if (!finalists) return say(error), Usage;
  if (finalists->empty()) return say(cat(options.folder, " holds no finalist")), TargetMissed;
  Target cuda;
  cuda.kind = TargetKind::Cuda;
  WorkerOptions worker = worker_options(cuda);
  worker.device = options.device;
  if (std::string problem = why_none_runs(*finalists, options.device); !problem.empty())
    return say(cat(problem, "\n`tracewright doctor` says what is missing")), Environment;
  WorkerStart started = start_worker(worker);
  if (!started.measurer) return say(started.error), Environment;
  std::optional<Database> database =
      open_database(options.database.empty() ? options.folder + "/records.db" : options.database, DatabaseMode::Write);
  if (!database) return Environment;
  std::vector<Row> rows;
  int code = measure_all(*finalists, options, *database, *started.measurer, rows);
  options.json ? print_json({{"database", database->path()}, {"rows", to_json(rows)}}) : print_rows(rows);
  if (!options.json && !rows.empty())
    std::printf("\n%zu records in %s; `tracewright db export` carries them home\n", rows.size(),
                database->path().c_str());
  return code == Ok ? exit_code_of(rows) : code;
}

}  // namespace

int run_run_manifest(int count, char** words) {
  Options options;
  App app(
      "run-manifest",
      "Run the finalists that `tune --compile-only` wrote on this machine's GPU: load the machine code, compare with "
      "the reference "
      "result,\ntime by events, store a record of each. Needs the driver of an NVIDIA GPU, not the CUDA toolkit.",
      "examples:\n  tracewright run-manifest quickstart_finalists --database gpu.db");
  app.add_option("DIR", options.folder, "the folder with manifest.json").required();
  app.add_option("--database", options.database, "where the records go; default: records.db in the folder");
  app.add_option("--device", options.device, "which GPU; `tracewright doctor` lists them").range(0, 255);
  app.add_option("--timeout", options.timeout,
                 "seconds that a call of a kernel may take; the first one ten times as long")
      .positive();
  app.add_flag("--json", options.json, "print one JSON object");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  return run_folder(options);
}

}  // namespace tw::cli
