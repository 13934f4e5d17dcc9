// tracewright bench: the best kernels of a task list, or whole models, measured side by side with other libraries.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>
#include <cstring>
#include <map>

#include "cli/arguments.h"
#include "cli/bench_device.h"
#include "cli/bench_models.h"
#include "cli/commands.h"
#include "cli/known_names.h"
#include "cli/open_graph.h"
#include "cli/open_list.h"
#include "cli/stored.h"
#include "dsl/base/quantile.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/measure/elements.h"
#include "runtime/peers/bench.h"
#include "sampler/search/trial.h"

namespace tw::cli {
namespace {

struct Options {
  BenchModels models;  // what lists have too, as well
  std::string task;
  int pairs = 21;
};

std::vector<char> random_bytes(const KernelArgument& input) {
  std::vector<char> bytes(static_cast<std::size_t>(input.bytes));
  fill_input(1, input.name, 0, input.dtype, input.bytes / bytes_of(input.dtype), bytes.data(), input.indices);
  return bytes;
}

// The task as the libraries know it. Only whole-f32 operator tasks are.
PeerProblem problem_of(const TaskEntry& entry, const TuneTask& task, const std::vector<KernelProcess::Input>& inputs) {
  PeerProblem problem;
  for (const Param& param : task.program.program.params) {
    if (param.buffer->dtype != DType::F32) return problem;
  }
  for (const TaskArgument& argument : entry.args) {
    if (const i64* number = std::get_if<i64>(&argument.value)) problem.args.emplace_back(argument.name, *number);
  }
  for (const Located<std::string>& epilogue : entry.epilogue) problem.epilogue.push_back(epilogue.value);
  for (const KernelProcess::Input& input : inputs) {
    problem.inputs.emplace_back(reinterpret_cast<const float*>(input.bytes.data()), input.bytes.size() / sizeof(float));
  }
  problem.op = entry.op.value;
  return problem;
}

// nullopt after a message.
std::optional<BenchTask> prepare(Database& database, const TaskEntry& entry, const TuneTask& task) {
  std::optional<StoredKernel> stored = best_kernel(database, task, "kernel");
  if (!stored) return std::nullopt;
  BenchTask out{.name = task.name,
                .kernel = std::move(stored->kernel),
                .threads = task.target.threads,
                .vector_bits = task.target.vector_bits,
                .flops = count_flops(task.program.program)};
  if (is_device(task.target)) return out;
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(task.target));
  if (!compiler) return say(cat(task.name, ": ", to_string(compiler.rejected()))), std::nullopt;
  BuiltKernel reference = build_reference(task.program.program, task.target, *compiler);
  if (!reference.kernel)
    return say(cat(task.name, ": the reference cannot be compiled: ", reference.problem)), std::nullopt;
  out.reference = std::move(*reference.kernel), out.tolerance = tolerance_of(task.program.program);
  for (const KernelArgument& argument : out.reference.manifest.run) {
    if (argument.role != ArgumentRole::Output) out.inputs.push_back({argument.name, random_bytes(argument)});
  }
  out.problem = problem_of(entry, task, out.inputs);
  return out;
}

// What all tasks gave together.
struct Report {
  void add_device(const BenchTask& task, const DeviceTimes& times) {
    double gflops = times.seconds > 0 ? task.flops / times.seconds * 1e-9 : 0;
    rows.push_back({{"task", task.name},
                    {"threads", task.threads},
                    {"library", "tracewright"},
                    {"us", times.seconds * 1e6},
                    {"us_quartiles", {times.lower * 1e6, times.upper * 1e6}},
                    {"device_us", times.device_seconds * 1e6},
                    {"cold_us", times.cold_seconds * 1e6},
                    {"gflops", gflops},
                    {"pairs", times.samples},
                    {"verdict", times.is_wrong ? "wrong" : "own"}});
    is_wrong |= times.is_wrong;
    table.push_back({task.name, "-", "tracewright", "", show_time(times.seconds), show_number(gflops), "-", "", "",
                     times.cold_seconds > 0 ? cat("cold caches: ", show_time(times.cold_seconds)) : ""});
  }

  boost::json::array rows, skipped;  // skipped: libraries that gave no time, and why
  std::vector<std::vector<std::string>> table;
  std::map<int, std::vector<double>> peaks;  // GFLOP/s by threads
  bool is_wrong = false, has_failed = false;

  void add(const BenchTask& task, const BenchRow& row) {
    bool is_own = row.library == "tracewright";
    if (row.seconds == 0) {
      skipped.push_back(
          {{"task", task.name}, {"library", row.library}, {"verdict", name_of(row.verdict)}, {"reason", row.detail}});
      say(cat(task.name, ": ", row.library, ": ", row.detail));
      return;
    }
    double gflops = row.seconds > 0 ? task.flops / row.seconds * 1e-9 : 0;
    const char* verdict = is_own && row.verdict != Verdict::Wrong ? "own" : name_of(row.verdict);
    is_wrong |= row.verdict == Verdict::Wrong;
    rows.push_back({{"task", task.name},
                    {"threads", task.threads},
                    {"library", row.library},
                    {"version", row.version},
                    {"us", row.seconds * 1e6},
                    {"gflops", gflops},
                    {"ratio", row.ratio},
                    {"ratio_quartiles", {row.lower, row.upper}},
                    {"percent_of_peak", row.peak_share * 100},
                    {"pairs", row.pairs},
                    {"verdict", verdict},
                    {"detail", row.detail}});
    std::string ratio = is_own          ? ""
                        : row.ratio > 0 ? fmt::format("{:.2f} ({:.2f} to {:.2f})", row.ratio, row.lower, row.upper)
                                        : "-";
    table.push_back({task.name, std::to_string(task.threads), row.library, row.version, show_time(row.seconds),
                     show_number(gflops), row.peak_share > 0 ? fmt::format("{:.0f} %", row.peak_share * 100) : "-",
                     ratio, is_own && row.verdict != Verdict::Wrong ? "" : verdict,
                     row.verdict == Verdict::Wrong ? row.detail : ""});
  }
};

boost::json::object peaks_of(Report& report, int vector_bits) {
  boost::json::object peaks;
  for (int threads : {1, 2}) {
    if (threads > usable_threads()) continue;
    if (report.peaks.count(threads)) continue;
    // 0 where the FMA probe is not installed or fails.
    if (double gflops = measure_fma_peak(threads, vector_bits); gflops > 0) report.peaks[threads] = {gflops};
  }
  for (auto& [threads, values] : report.peaks) {
    peaks[std::to_string(threads)] = median(values);
  }
  return peaks;
}

int bench_list(const Options& options, const std::string& file) {
  std::vector<std::string> libraries = split(options.models.against, ',');
  if (!are_known("--against", "library", libraries, peer_libraries())) return Usage;
  std::optional<LoadedList> list = open_list(file);
  if (!list || !has_task(*list, options.task) || !fits_in_memory(*list, options.task)) return Usage;
  const std::string& named = options.models.database;
  std::optional<Database> database =
      open_database(named.empty() ? list->list.database.value : named, DatabaseMode::Read);
  if (!database) return Environment;
  Report report;
  DeviceBench devices;
  int vector_bits = list->list.target.value.vector_bits;
  for (std::size_t i = 0; i < list->tasks.size(); ++i) {
    if (!options.task.empty() && list->tasks[i].name != options.task) continue;
    if (int threads = list->tasks[i].target.threads; threads > usable_threads())
      say(cat(list->tasks[i].name, ": ", threads, " threads share ", usable_threads(),
              " of the machine's cores; these times say little about as many cores"));
    std::optional<BenchTask> task = prepare(*database, list->list.tasks[i], list->tasks[i]);
    BenchResult result;
    if (task && is_device(list->tasks[i].target)) {
      std::optional<DeviceTimes> times = devices.measure(list->tasks[i], task->kernel, options.pairs);
      if (times) report.add_device(*task, *times);
      if (!libraries.empty())
        say(cat(task->name,
                ": on devices other libraries are not compared here; tracewright-gpu-bench does it on NVIDIA's"));
      report.has_failed |= !times;
      continue;
    }
    if (task) result = bench_task(*task, libraries, options.pairs);
    if (!result.error.empty()) say(cat(task->name, ": ", result.error));
    report.has_failed |= !task || !result.error.empty();
    for (const BenchRow& row : result.rows) report.add(*task, row);
    if (result.fma_gflops > 0) report.peaks[task->threads].push_back(result.fma_gflops);
  }
  boost::json::object peaks = peaks_of(report, vector_bits);
  if (options.models.json) {
    print_json({{"fma_peak_gflops", peaks}, {"rows", report.rows}, {"skipped", report.skipped}});
  } else {
    print_table({"task", "threads", "library", "version", "time", "GFLOP/s", "of FMA peak", "its time / ours",
                 "tracewright is", ""},
                report.table);
    for (const auto& [threads, gflops] : peaks)
      std::printf("FMA peak on %s thread(s): %.1f GFLOP/s\n", std::string(threads).c_str(), gflops.as_double());
  }
  return report.is_wrong ? WrongResults : report.has_failed ? TargetMissed : Ok;
}

// Is FILE a list, and were no flags given that are for models?
bool is_good_list(const Options& options) {
  const BenchModels& models = options.models;
  if (models.files.size() > 1) return say("bench takes one task list, or ONNX models"), false;
  if (!models.shapes.empty() || !models.rewrites.empty() || !models.precision.empty() || models.threads > 0)
    return say("--shape, --rewrites, --precision and --threads are for ONNX models; a task list says these itself"),
           false;
  return true;
}

}  // namespace

int run_bench(int count, char** words) {
  Options options;
  BenchModels& models = options.models;
  App app(
      "bench",
      "Measure the best kernels of a task list, or whole ONNX models, side by side with other libraries: at the "
      "same thread\n"
      "count, on the same CPUs, in turn; each ratio is the median of (its time / our time). Packing of constant "
      "operands lies\n"
      "outside the time. $TRACEWRIGHT_PYTHON names the Python that has the libraries of wheels; else it is python3.",
      "examples:\n  tracewright bench examples/gemm.yaml --database gemm.db "
      "--against openblas,blis,onednn --json\n"
      "  tracewright bench resnet50.onnx --against onnxruntime,openvino,torch --threads 1");
  app.add_option("FILE", models.files, "the task list, YAML; or models, ONNX").required();
  app.add_option("--database", models.database,
                 "the database, instead of the list's; models take the fastest kernels from there");
  app.add_option(
      "--against", models.against,
      "comma-separated: " + join(peer_libraries(), ", ") + "; for models: " + join(model_library_names(), ", "));
  app.add_option("--task", options.task, "of a list: only the task of this name");
  app.add_option("--pairs", options.pairs, "of a list: pairs of samples for each ratio").range(20, 10000);
  app.add_option("--threads", models.threads, "of models: threads that one inference uses; 0 = all that there are")
      .range(0, 1024);
  app.add_option("--shape", models.shapes, "of models: NAME=EXTENT,...: the shape of an input that a file leaves open");
  app.add_option("--rewrites", models.rewrites,
                 "of models: a file of rewritings of graphs and of operators (docs/models.md)");
  app.add_option("--precision", models.precision, "of models: bf16 or f16, as for `compile`");
  app.add_option("--seconds", models.seconds, "of models: how long each is measured; five rounds at least").positive();
  app.add_option("--limit", models.limit, "of models: seconds that a library may take to start, and to load one")
      .positive();
  app.add_flag("--json", models.json, "print JSON");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  auto are_models = std::ranges::all_of(models.files, is_onnx);
  if (!are_models) return is_good_list(options) ? bench_list(options, models.files[0]) : Usage;
  if (!options.task.empty()) return say("--task is for a task list"), Usage;
  return bench_models(models);
}

}  // namespace tw::cli
