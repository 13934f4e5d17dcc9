// tracewright replay: from a recipe to the same kernel again: check it, run it, print it.
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>
#include <functional>
#include <optional>

#include "backends/cuda/nvrtc.h"
#include "cli/arguments.h"
#include "cli/build_id.h"
#include "cli/commands.h"
#include "cli/open_list.h"
#include "cli/stored.h"
#include "costmodel/draft_report.h"
#include "costmodel/gpu/gpu_draft.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "runtime/console/output.h"
#include "runtime/lists/device_file.h"
#include "runtime/measure/measurer.h"
#include "sampler/search/emulation_gate.h"
#include "sampler/search/least_flops.h"
#include "sampler/search/task_memory.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"
#include "sampler/tasks/rebuild.h"

namespace tw::cli {
namespace {

struct Options {
  std::string file, database, task, target, emit, output;
  i64 record = 0;
  bool check = false, run = false, hash = false, json = false;
};

// One recipe and where it came from.
struct Recipe {
  std::string name;
  TraceFile file;
};

struct Printer {
  const char* name;
  const char* help;
  // The text, or nothing with a reason in `error`.
  std::optional<std::string> (*print)(const Recipe& recipe, const Rebuilt& rebuilt, std::string& error);
  // Why a kernel for this target has no such text, as a sentence; "" if it has. Null: all have it.
  std::string (*why_not)(const Target& target) = nullptr;
  bool is_binary = false;
};

std::string why_no_host_code(const Target& target) {
  if (!is_device(target)) return "";
  const char* has = target.kind == TargetKind::Cuda ? "source, ptx or cubin" : "source";
  return cat("a kernel for `", name_of(target.kind), "` has no such code; it has --emit ", has);
}

std::string why_no_source(const Target& target) {
  return is_device(target) ? "" : "a kernel for processors has no source text; --emit llvm or asm prints it";
}

std::string why_no_cuda_code(const Target& target) {
  return target.kind == TargetKind::Cuda ? "" : "only kernels for `cuda` have such code";
}

std::string why_no_estimate(const Target& target) {
  bool has_model = !is_device(target) || is_gpu(target);
  return has_model ? "" : "of `opencl` targets there is a model only if they say which `gpu` they are";
}

template <Emit What>
std::optional<std::string> print_code(const Recipe& recipe, const Rebuilt& rebuilt, std::string& error) {
  Target target = target_of(recipe.file);
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(target));
  if (!compiler) return error = to_string(compiler.rejected()), std::nullopt;
  Result<std::string> text = compiler->emit(rebuilt.lowered, recipe.name, What);
  if (!text) return error = to_string(text.rejected()), std::nullopt;
  return std::move(*text);
}

std::optional<std::string> print_source(const Recipe& recipe, const Rebuilt& rebuilt, std::string& error) {
  std::optional<Kernel> kernel = compile(rebuilt, target_of(recipe.file), recipe.name, error);
  return kernel ? std::optional(kernel->code) : std::nullopt;
}

// For CUDA: what NVRTC makes of the source.
template <std::string cuda::Compiled::* What>
std::optional<std::string> print_cuda(const Recipe& recipe, const Rebuilt& rebuilt, std::string& error) {
  Target target = target_of(recipe.file);
  std::optional<Kernel> kernel = compile(rebuilt, target, recipe.name, error);
  std::optional<cuda::Compiled> compiled = kernel ? cuda::compile(kernel->code, target.arch, error) : std::nullopt;
  return compiled ? std::optional((*compiled).*What) : std::nullopt;
}

// What the draft model says, which the search begins with; for processors beside the cycles of the machine code.
std::optional<std::string> print_cpu_estimate(const Rebuilt& rebuilt, const Target& target, std::string& error) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(target));
  if (!compiler) return error = to_string(compiler.rejected()), std::nullopt;
  Result<double> cycles = compiler->cycles(rebuilt.lowered, "kernel");
  if (!cycles) return error = to_string(cycles.rejected()), std::nullopt;
  return report_draft(rebuilt.scheduled, feature_target_of(target), *cycles);
}

std::optional<std::string> print_estimate(const Recipe& recipe, const Rebuilt& rebuilt, std::string& error) {
  Target target = target_of(recipe.file);
  if (!is_device(target)) return print_cpu_estimate(rebuilt, target, error);
  std::optional<GpuDevice> device = device_of(target, error);
  if (!device) return std::nullopt;
  GpuDraft draft(*device);
  draft.seconds(rebuilt.scheduled);
  std::string out = cat(device->full_name, "\n");
  for (const KernelEstimate& kernel : draft.kernels()) out += to_string(kernel);
  return out;
}

std::optional<std::string> print_passes(const Recipe&, const Rebuilt& rebuilt, std::string&) {
  std::string out;
  for (const PassDump& dump : rebuilt.dumps) out += cat("# after ", dump.pass, "\n", dump.text, "\n");
  return out;
}

constexpr Printer printers[] = {
    {"ir", "the scheduled program",
     [](const Recipe&, const Rebuilt& r, std::string&) { return std::optional(print(r.scheduled)); }},
    {"passes", "the program after each lowering pass", print_passes},
    {"source", "for devices: OpenCL C or CUDA C", print_source, why_no_source},
    {"ptx", "for cuda: PTX, by NVRTC", print_cuda<&cuda::Compiled::ptx>, why_no_cuda_code},
    {"cubin", "for cuda: machine code, by NVRTC", print_cuda<&cuda::Compiled::cubin>, why_no_cuda_code,
     /*is_binary=*/true},
    {"estimate", "what the analytic model says of each store, for GPUs of each kernel", print_estimate,
     why_no_estimate},
    {"llvm", "LLVM IR as it is compiled", print_code<Emit::OptimizedIr>, why_no_host_code},
    {"asm", "assembly", print_code<Emit::Assembly>, why_no_host_code},
    {"object", "the object file", print_code<Emit::Object>, why_no_host_code, /*is_binary=*/true},
    {"trace", "the trace file",
     [](const Recipe& r, const Rebuilt&, std::string&) { return std::optional(print_trace_file(r.file)); }},
};

const Printer* find_printer(const std::string& name) {
  std::vector<std::string> names;
  for (const Printer& printer : printers) {
    if (name == printer.name) return &printer;
    names.emplace_back(printer.name);
  }
  say(cat("--emit takes one of ", join(names, ", ")));
  return nullptr;
}

// ---- where recipes come from

std::optional<std::vector<Recipe>> from_trace_file(const std::string& path) {
  std::optional<std::string> text = read_file(path);
  if (!text) return std::nullopt;
  std::optional<TraceFile> file = read_trace_file(path, *text);
  if (!file) return std::nullopt;
  std::string name(file->program.program.name);
  return std::vector<Recipe>{{name, std::move(*file)}};
}

std::optional<std::vector<Recipe>> from_list(const Options& options) {
  std::optional<LoadedList> list = open_list(options.file);
  if (!list || !has_task(*list, options.task)) return std::nullopt;
  std::optional<Database> database =
      open_database(options.database.empty() ? list->list.database.value : options.database, DatabaseMode::Read);
  if (!database) return std::nullopt;
  std::vector<Recipe> recipes;
  for (const TuneTask& task : list->tasks) {
    if (!options.task.empty() && task.name != options.task) continue;
    std::optional<Record> best = best_record(*database, task);
    if (!best) return std::nullopt;
    if (!best->id) {
      say(cat(task.name, ": no kernel in ", database->path(), "; `tracewright tune` finds some"));
      continue;
    }
    std::optional<TraceFile> file = open_trace_file(*database, *best);
    if (!file) return std::nullopt;
    recipes.push_back({task.name, std::move(*file)});
  }
  if (recipes.empty()) return say("nothing to replay"), std::nullopt;
  return recipes;
}

std::optional<std::vector<Recipe>> from_record(const Options& options) {
  std::optional<Database> database = open_database(options.database, DatabaseMode::Read);
  if (!database) return std::nullopt;
  std::optional<Record> record = checked(database->record(options.record));
  if (!record) return std::nullopt;
  std::optional<TraceFile> file = open_trace_file(*database, *record);
  if (!file) return std::nullopt;
  return std::vector<Recipe>{{record->task, std::move(*file)}};
}

std::optional<std::vector<Recipe>> find_recipes(const Options& options) {
  if (options.record) {
    if (options.database.empty()) return say("--record needs --database"), std::nullopt;
    return from_record(options);
  }
  if (options.file.empty()) return say("give a trace file, a task list, or --record with --database"), std::nullopt;
  return options.file.ends_with(".tw") ? from_trace_file(options.file) : from_list(options);
}

bool change_target(std::vector<Recipe>& recipes, const std::string& text) {
  Source source{"--target", text};
  Diagnostics diagnostics(source);
  std::optional<Target> target = parse_target(text, 0, diagnostics);
  std::fputs(diagnostics.render().c_str(), stderr);
  if (!target) return false;
  for (Recipe& recipe : recipes) recipe.file.target = to_string(*target);
  return true;
}

// ---- what is done with one

int measure_one(const Recipe& recipe, const Rebuilt& rebuilt, const Options& options, Measurer& measurer,
                boost::json::object& json) {
  Target target = target_of(recipe.file);
  std::string error;
  BuiltKernel built = loadable({compile(rebuilt, target, "kernel", error), ""}, target);
  const std::optional<Kernel>& kernel = built.kernel;
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(target));
  if (!kernel || !compiler)
    return say(cat(recipe.name, ": ", kernel ? to_string(compiler.rejected()) : error + built.problem)), Environment;
  TaskStart start = begin_judged_task(measurer, rebuilt.base.program, target, *compiler, /*seed=*/1);
  if (start.task < 0) return say(cat(recipe.name, ": ", start.error)), Environment;
  MeasureOptions how{
      .threads = target.threads, .least_flops = least_flops(rebuilt.base.program), .timeout_seconds = 120};
  if (options.run) how.first_pairs = how.pairs = 50, how.max_pairs = 200, how.budget_seconds = 3;
  MeasureResult result = measurer.measure(start.task, *kernel, how);
  measurer.end_task(start.task);
  bool is_right = result.status == MeasureStatus::Ok || result.status == MeasureStatus::Noisy;
  json["status"] = name_of(result.status);
  json["message"] = result.message;
  json["us"] = result.seconds * 1e6;
  json["median_us"] = result.median_seconds * 1e6;
  json["max_error"] = json_number(result.max_error);
  if (result.device_seconds > 0) json["device_us"] = result.device_seconds * 1e6;
  if (!options.json && is_right) {
    std::printf("%s: right (largest difference from the reference %.3g), %s, median %s of %d samples\n",
                recipe.name.c_str(), result.max_error, show_time(result.seconds).c_str(),
                show_time(result.median_seconds).c_str(), result.pairs);
    if (result.device_seconds > 0)
      std::printf("%s: %s of these by the device's own clock\n", recipe.name.c_str(),
                  show_time(result.device_seconds).c_str());
  }
  if (!is_right) say(cat(recipe.name, ": ", name_of(result.status), ": ", result.message));
  return is_right ? Ok : result.status == MeasureStatus::WorkerLost ? Environment : WrongResults;
}

// Which recipes are for a GPU that is not here? The devices are asked for once, and only if there is one for a GPU.
class MissingGpus {
 public:
  bool operator()(const Recipe& recipe) {
    Target target = target_of(recipe.file);
    if (target.kind != TargetKind::Cuda) return false;
    if (!devices_) devices_ = static_cast<int>(list_devices(worker_options(target)).devices.size());
    return *devices_ <= target.device;
  }

 private:
  std::optional<int> devices_;
};

// Right or wrong, and no time.
int emulate_one(const Recipe& recipe, const Rebuilt& rebuilt, const Options& options, boost::json::object& json) {
  std::string error;
  std::optional<Kernel> kernel = compile(rebuilt, target_of(recipe.file), "kernel", error);
  if (!kernel) return say(cat(recipe.name, ": ", error)), Environment;
  EmulationVerdict verdict = check_by_emulation(rebuilt.base.program, {*kernel, rebuilt.scheduled});
  const EmulationReport& report = verdict.report;
  constexpr const char* kWords[] = {"right", "wrong", "unknown"};
  json["status"] = kWords[verdict.kind];
  json["message"] = verdict.message;
  json["max_error"] = json_number(verdict.max_error);
  json["compared"] = verdict.compared;
  json["barriers"] = report.barriers;
  json["warp_accesses"] = report.warp_accesses;
  json["bank_conflicts"] = report.bank_conflicts;
  if (verdict.kind == EmulationVerdict::Unknown) {
    const char* what = report.status == EmulationStatus::Ok ? ": not compared: " : ": cannot be emulated: ";
    return say(cat(recipe.name, what, verdict.message)), Environment;
  }
  if (verdict.kind == EmulationVerdict::Wrong) return say(cat(recipe.name, ": ", verdict.message)), WrongResults;
  if (options.json) return Ok;
  std::printf(
      "%s: right in the emulator (%lld outputs compared, largest difference from the reference %.3g; %s%lld "
      "work-group%s)\n",
      recipe.name.c_str(), static_cast<long long>(verdict.compared), verdict.max_error,
      report.is_complete ? "all " : "only ", static_cast<long long>(report.groups), report.groups == 1 ? "" : "s");
  std::printf("%s: %lld bank conflicts in %lld accesses of warps to shared memory (one work-group of each kernel)\n",
              recipe.name.c_str(), static_cast<long long>(report.bank_conflicts),
              static_cast<long long>(report.warp_accesses));
  return Ok;
}

// The hash of one of the things that --emit prints. That of the program is independent of how programs are printed; for
// the others the kernel has one name, whatever its task is called.
std::optional<Hash128> hash_of(const Recipe& recipe, const Rebuilt& rebuilt, std::string_view what,
                               std::string& error) {
  if (what == "ir") return structural_hash(rebuilt.scheduled);
  if (what == "object") {
    // Of what is run, as records have it: for CUDA the machine code, not its source.
    Target target = target_of(recipe.file);
    BuiltKernel built = loadable({compile(rebuilt, target, "kernel", error), ""}, target);
    if (!built.problem.empty()) error = built.problem;
    return built.kernel ? std::optional(object_hash(*built.kernel)) : std::nullopt;
  }
  std::optional<std::string> text = find_printer(std::string(what))->print({"kernel", recipe.file}, rebuilt, error);
  return text ? std::optional(hash_bytes(*text)) : std::nullopt;
}

// Of what --emit names, else of the program and of the machine code; and who made the machine code.
int print_hashes(const Recipe& recipe, const Rebuilt& rebuilt, const Options& options, boost::json::object& json) {
  std::vector<std::string> wanted = {"ir", "object"};
  if (!options.emit.empty()) wanted = {options.emit};
  std::string line, error;
  for (const std::string& what : wanted) {
    std::optional<Hash128> hash = hash_of(recipe, rebuilt, what, error);
    if (!hash) return say(cat(recipe.name, ": ", error)), Environment;
    json[what + "_hash"] = to_hex(*hash);
    line += cat(" ", what, " ", to_hex(*hash));
  }
  json["build"] = build_name();
  if (!options.json)
    std::printf("%s:%s by %s for %s\n", recipe.name.c_str(), line.c_str(), build_name().c_str(),
                recipe.file.target.c_str());
  if (recipe.file.version != TW_VERSION) {
    say(cat(recipe.name, ": the trace was written by tracewright ", recipe.file.version,
            ": its program is the same here, machine code may differ"));
  }
  return Ok;
}

int emit_one(const Recipe& recipe, const Rebuilt& rebuilt, const Printer& printer, const Options& options) {
  std::string error;
  std::optional<std::string> text = printer.print(recipe, rebuilt, error);
  if (!text) return say(cat(recipe.name, ": ", error)), Environment;
  return write_output(options.output, *text) ? Ok : Environment;
}

int replay_all(const std::vector<Recipe>& recipes, const Options& options) {
  const Printer* printer = options.emit.empty() ? nullptr : find_printer(options.emit);
  if (!options.emit.empty() && !printer) return Usage;
  bool is_object_hash = options.hash && options.emit == "object";  // devices have that, of their machine code
  for (const Recipe& recipe : recipes) {
    bool is_asked = printer && printer->why_not && !is_object_hash;
    std::string why = is_asked ? printer->why_not(target_of(recipe.file)) : "";
    if (!why.empty()) return say(cat(recipe.name, ": ", why)), Usage;
  }
  if (printer && printer->is_binary && !options.hash && options.output.empty() && isatty(STDOUT_FILENO)) {
    say(cat("--emit ", options.emit, " writes bytes that a terminal cannot show; give --output ", recipes[0].name,
            ".o, or a pipe"));
    return Usage;
  }
  bool is_measured = options.check || options.run || (!printer && !options.hash);
  WorkerStart worker;
  MissingGpus is_emulated;
  for (const Recipe& recipe : recipes) {
    Target target = target_of(recipe.file);
    if (!is_measured || is_emulated(recipe)) continue;
    std::string why = why_too_large(recipe.file.program.program, target,
                                    is_device(target) ? device_memory_bytes(worker_options(target)) : 0);
    if (!why.empty()) return say(cat(recipe.name, ": the workload ", why)), Usage;
  }
  auto first = is_measured ? std::find_if_not(recipes.begin(), recipes.end(), std::ref(is_emulated)) : recipes.end();
  if (first != recipes.end()) {
    worker = start_worker(worker_options(target_of(first->file)));
    if (!worker.measurer) return say(worker.error), Environment;
  }
  int code = Ok;
  boost::json::array all;
  for (const Recipe& recipe : recipes) {
    std::string error;
    std::optional<Rebuilt> rebuilt = rebuild(recipe.file.program, recipe.file.trace, target_of(recipe.file), error);
    if (!rebuilt) return say(cat(recipe.name, ": the trace cannot be replayed: ", error)), Usage;
    boost::json::object json{{"name", recipe.name}, {"target", recipe.file.target}};
    if (printer && !options.hash) code = std::max(code, emit_one(recipe, *rebuilt, *printer, options));
    if (options.hash) code = std::max(code, print_hashes(recipe, *rebuilt, options, json));
    if (is_measured && is_emulated(recipe))
      code = std::max(code, emulate_one(recipe, *rebuilt, options, json));
    else if (is_measured)
      code = std::max(code, measure_one(recipe, *rebuilt, options, *worker.measurer, json));
    all.push_back(std::move(json));
  }
  if (options.json) print_json({{"kernels", all}});
  return code;
}

}  // namespace

int run_replay(int count, char** words) {
  Options options;
  std::vector<std::string> kinds;
  for (const Printer& printer : printers) kinds.push_back(cat(printer.name, " (", printer.help, ")"));
  App app("replay",
          "Rebuild a kernel from a trace file, from one record, or the best kernels of "
          "a task list. Without --emit and --hash it is\n"
          "compared with the reference result and timed, in the worker.",
          "examples:\n  tracewright replay gemm.tw --check\n  tracewright replay "
          "--record 17 --database tuning.db --emit asm\n"
          "  tracewright replay examples/gemm.yaml --database tuning.db --hash");
  app.add_option("FILE", options.file, "a trace file (.tw), or a task list: its best kernels in the database");
  app.add_option("--record", options.record, "the record with this id");
  app.add_option("--database", options.database, "the database of --record or of the task list");
  app.add_option("--task", options.task, "of a task list: only this task");
  app.add_flag(
      "--check", options.check,
      "compare with the reference result, and time it; for cuda without a GPU: in the emulator, without a time");
  app.add_flag("--run", options.run, "the same with many more samples");
  app.add_option("--target", options.target,
                 "rebuild for this target instead, as `cuda -arch=sm_80` for a trace of `opencl`");
  app.add_option("--emit", options.emit, "print " + join(kinds, ", "));
  app.add_option("--output", options.output, "file for --emit, instead of standard output");
  app.add_flag("--hash", options.hash,
               "print the hash of what --emit names instead of it; without --emit those of the program (ir) and of the "
               "object code");
  app.add_flag("--json", options.json, "print JSON");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  std::optional<std::vector<Recipe>> recipes = find_recipes(options);
  if (recipes && !options.target.empty() && !change_target(*recipes, options.target)) return Usage;
  return recipes ? replay_all(*recipes, options) : Usage;
}

}  // namespace tw::cli
