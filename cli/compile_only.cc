#include "cli/compile_only.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>
#include <filesystem>

#include "cli/commands.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/export/finalist_files.h"
#include "runtime/lists/device_file.h"
#include "runtime/store/trace_file.h"
#include "sampler/search/emulation_gate.h"
#include "sampler/search/finalists.h"
#include "sampler/search/trial.h"

namespace tw::cli {
namespace {

std::vector<FinalistKernel> describe_kernels(const Finalist& finalist) {
  std::vector<FinalistKernel> out;
  for (const FinalistFit& fit : finalist.kernels) {
    FinalistKernel kernel{.name = fit.name,
                          .registers = static_cast<int>(fit.needs.registers),
                          .shared_bytes = fit.needs.shared_bytes,
                          .blocks_per_multiprocessor = fit.blocks,
                          .predicted_seconds = fit.seconds};
    for (const cuda::CubinKernel& code : finalist.compiled.code) {
      if (code.name != fit.name) continue;
      kernel.stack_bytes = code.stack_bytes;
      kernel.register_conflicts = code.register_conflicts;
      for (const auto& [opcode, count] : code.opcodes) kernel.opcodes[code.opcode_name(opcode)] += count;
    }
    out.push_back(std::move(kernel));
  }
  return out;
}

FinalistFile as_file(const TuneTask& task, const Finalist& finalist, int rank, u64 seed) {
  TaskKey key = key_of(task);
  std::string errors;
  std::optional<GpuDevice> device = device_of(task.target, errors);
  TW_CHECK(device, "a finalist of a device that nobody describes");
  FinalistFile out{.task = task.name,
                   .rank = rank,
                   .workload = key.workload,
                   .program = to_hex(finalist.candidate.program),
                   .target = key.target,
                   .device = device->name,
                   .nvrtc = cuda::nvrtc_version(errors).value_or(""),
                   .object = to_hex(object_hash(finalist.source)),
                   .seed = seed,
                   .predicted_seconds = finalist.seconds,
                   .emulation = !finalist.is_checked            ? "interrupted"
                                : finalist.gate.not_run.empty() ? "right"
                                                                : finalist.gate.not_run,
                   .kernel = finalist.source,
                   .source = finalist.source.code,
                   .ptx = finalist.compiled.ptx,
                   .trace_file = print_trace_file({TW_VERSION, key.target, task.program, finalist.trace}),
                   .kernels = describe_kernels(finalist)};
  out.kernel.code = finalist.compiled.cubin;
  return out;
}

boost::json::object to_json(const TuneTask& task, const FinalistResult& result) {
  boost::json::array finalists;
  for (const Finalist& finalist : result.finalists) {
    boost::json::array kernels;
    for (const FinalistFit& fit : finalist.kernels)
      kernels.push_back(
          {{"name", fit.name}, {"registers", fit.needs.registers}, {"shared_bytes", fit.needs.shared_bytes}});
    finalists.push_back({{"predicted_us", finalist.seconds * 1e6}, {"kernels", kernels}});
  }
  boost::json::object dropped;
  for (const auto& [stage, row] : result.dropped) dropped[stage] = {{"count", row.count}, {"example", row.example}};
  auto rate = [](i64 count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; };
  return {{"name", task.name},
          {"problem", result.problem},
          {"finalists", finalists},
          {"dropped", dropped},
          {"compiled", result.compiled},
          {"compiled_per_second", rate(result.compiled, result.compile_seconds)},
          {"candidates", result.stats.candidates},
          {"candidates_per_second", rate(result.stats.candidates, result.search_seconds)}};
}

// Of several kernels, what is said about blocks and so on is that of the slowest.
void print_task(const TuneTask& task, const FinalistResult& result, double flops) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < result.finalists.size(); ++i) {
    const Finalist& finalist = result.finalists[i];
    const FinalistFit& slowest =
        *std::max_element(finalist.kernels.begin(), finalist.kernels.end(),
                          [](const FinalistFit& a, const FinalistFit& b) { return a.seconds < b.seconds; });
    i64 blocks = 0;
    for (const KernelLaunch& launch : finalist.source.manifest.run_launches) {
      if (launch.name == slowest.name) blocks = launch.group_count();
    }
    rows.push_back({task.name, std::to_string(i + 1), show_time(finalist.seconds),
                    show_number(flops / finalist.seconds * 1e-9, 0),
                    std::to_string(finalist.source.manifest.run_launches.size()), std::to_string(blocks),
                    std::to_string(slowest.needs.threads), std::to_string(slowest.needs.registers),
                    std::to_string(slowest.needs.shared_bytes)});
  }
  if (!rows.empty())
    print_table({"task", "rank", "predicted", "GFLOP/s", "kernels", "blocks", "threads", "registers", "shared bytes"},
                rows);
  for (const auto& [stage, row] : result.dropped)
    std::printf("%s: %lld dropped by %s, as: %s\n", task.name.c_str(), static_cast<long long>(row.count), stage.c_str(),
                row.example.c_str());
}

// A wrong program is a bug of a rule or of lowering; its trace says which. False after a message.
bool keep_wrong(const TuneTask& task, const FinalistResult& result, const std::string& folder) {
  auto found = result.dropped.find("emulation");
  if (found == result.dropped.end() || !found->second.trace) return true;
  std::string path = cat(folder, "/", task.name, "_wrong.tw");
  say(cat(task.name, ": the emulator finds a wrong kernel in the space; `tracewright replay ", path,
          " --check` shows it again, `tracewright reduce` makes it small"));
  return write_file(path, print_trace_file({TW_VERSION, to_string(task.target), task.program, *found->second.trace}));
}

// What cannot be emulated (no compiler, too large) is not held against a kernel: `run-manifest` checks it again.
GateVerdict ask(const EmulationGate& gate, const ScheduledKernel& kernel) {
  EmulationVerdict verdict = gate.check(kernel);
  if (verdict.kind == EmulationVerdict::Right) return {};
  return verdict.kind == EmulationVerdict::Wrong ? GateVerdict{verdict.message, ""} : GateVerdict{"", verdict.message};
}

}  // namespace

int compile_only(const LoadedList& list, const CompileOnlyOptions& options, const std::atomic<bool>& stop) {
  std::error_code unusable;
  std::filesystem::create_directories(options.output, unusable);
  if (unusable) return say(cat("cannot make the folder ", options.output, ": ", unusable.message())), Environment;
  std::vector<FinalistFile> files;
  boost::json::array tasks;
  int code = Ok;
  double end = seconds_now() + options.seconds;
  for (const TuneTask& task : list.tasks) {
    if (stop) break;
    FinalistOptions search{
        .count = options.finalists, .seed = options.seed, .threads = options.threads, .rules = list.list.rules.value};
    double left = static_cast<double>(list.tasks.size() - tasks.size());
    if (options.seconds > 0) search.seconds = std::max(1.0, (end - seconds_now()) / left);
    EmulationGate gate(task.program.program);
    search.gate = [&gate](const Kernel& source, const Program& scheduled) { return ask(gate, {source, scheduled}); };
    FinalistResult result = find_finalists(task, list.library, search, stop);
    tasks.push_back(to_json(task, result));
    if (!result.problem.empty()) return say(cat(task.name, ": ", result.problem)), Environment;
    if (!options.json) print_task(task, result, count_flops(task.program.program)), std::fflush(stdout);
    if (!keep_wrong(task, result, options.output)) return Environment;
    for (const Finalist& finalist : result.finalists) {
      if (finalist.gate.not_run.empty()) continue;
      say(cat(task.name, ": not all finalists could be run by the emulator: ", finalist.gate.not_run));
      break;
    }
    if (result.finalists.empty() && !stop)
      say(cat(task.name, ": no candidate is fit to be launched")), code = TargetMissed;
    for (std::size_t i = 0; i < result.finalists.size(); ++i)
      files.push_back(as_file(task, result.finalists[i], static_cast<int>(i) + 1, options.seed));
  }
  ExportResult written = write_finalists(files, options.output);
  if (options.json) print_json({{"tasks", tasks}, {"output", options.output}});
  if (!written.error.empty()) return say(written.error), Environment;
  if (!options.json)
    std::printf("\n%zu finalists in %s; on a machine with such a GPU: tracewright run-manifest %s\n", files.size(),
                options.output.c_str(), options.output.c_str());
  if (!stop) return code;
  return say(cat("interrupted: ", tasks.size(), " of ", list.tasks.size(),
                 " tasks were begun, the last one is not whole")),
         Interrupted;
}

}  // namespace tw::cli
