#include "sampler/tasks/rebuild.h"

#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/schedule/state.h"
#include "dsl/text/parse_program.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

// The cap on code is the search's. The trace of a target with wider vectors has more code on one with narrower ones.
constexpr i64 kMostCode = 8000, kMostDeviceCode = 16000;  // vector operations of a nest of loops

Status lower_for_processor(Rebuilt& out, const LoweringOptions& options) {
  TW_TRY(out.lowered, lower(*out.arena, out.scheduled, options, &out.dumps));
  return ok();
}

Status lower_for_device(Rebuilt& out, const Target& target, const LoweringOptions& options) {
  TW_TRY(out.lowered_device, lower_gpu(*out.arena, out.scheduled, options, gpu_limits(target), &out.dumps));
  return ok();
}

}  // namespace

std::optional<Rebuilt> rebuild(const OwnedProgram& program, const Trace& trace, const Target& target,
                               std::string& error) {
  Rebuilt out{std::make_shared<Arena>(), program, trace, {}, {}, {}, {}};
  State state(*out.arena, program.program);
  Status replayed = replay(trace, state, ReplayMode::Strict);
  if (!replayed) {
    error = explain(replayed.rejected(), state);
    return std::nullopt;
  }
  out.scheduled = state.program();
  auto lower_with = [&](const LoweringOptions& options) {
    out.dumps.clear();
    return is_device(target) ? lower_for_device(out, target, options) : lower_for_processor(out, options);
  };
  LoweringOptions options = lowering_options(target);
  Status lowered = lower_with(options);
  if (!lowered) {
    // What the search made is never lowered with the larger cap, and so stays the same code.
    options.max_instructions = is_device(target) ? kMostDeviceCode : kMostCode;
    if (Status again = lower_with(options); again) lowered = again;
  }
  if (!lowered) {
    error = explain(lowered.rejected(), state);
    return std::nullopt;
  }
  return out;
}

std::optional<Kernel> compile(const Rebuilt& rebuilt, const Target& target, std::string_view symbol,
                              std::string& error) {
  if (is_device(target)) {
    Result<Kernel> source = device_source(rebuilt.lowered_device, target, symbol);
    if (!source) error = to_string(source.rejected());
    return source ? std::optional(std::move(*source)) : std::nullopt;
  }
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(target));
  if (!compiler) {
    error = to_string(compiler.rejected());
    return std::nullopt;
  }
  Result<Kernel> kernel = compiler->compile(rebuilt.lowered, symbol);
  if (!kernel) {
    error = to_string(kernel.rejected());
    return std::nullopt;
  }
  return std::move(*kernel);
}

std::optional<TraceFile> trace_file_of(Database& database, const Record& record, std::string& error) {
  DatabaseResult<std::string> text = database.workload_text(record.workload);
  if (!text) {
    error = text.error();
    return std::nullopt;
  }
  if (text->empty()) {
    error = cat("the workload of record ", record.id, " is missing or damaged in ", database.path());
    return std::nullopt;
  }
  Source workload{cat("workload of record ", record.id), *text}, schedule{cat("record ", record.id), record.trace};
  Diagnostics workload_diagnostics(workload), schedule_diagnostics(schedule);
  std::optional<OwnedProgram> program = parse_program(workload, workload_diagnostics);
  std::optional<Trace> trace = parse_schedule(schedule, schedule_diagnostics);
  error = workload_diagnostics.render() + schedule_diagnostics.render();
  if (!program || !trace) return std::nullopt;
  return TraceFile{record.version, record.target, std::move(*program), std::move(*trace)};
}

Target target_of(const TraceFile& file) {
  Source source{"target", file.target};
  Diagnostics diagnostics(source);
  std::optional<Target> target = parse_target(file.target, 0, diagnostics);
  TW_CHECK(target, "a trace file with an unknown target");
  return *target;
}

}  // namespace tw
