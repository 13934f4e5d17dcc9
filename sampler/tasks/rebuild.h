// Rebuild: from a workload, a trace and a target to the same program and the same machine code
// again. Used by replay, export and bench. Replay is strict: nothing is adapted, drawn or
// postprocessed (that is part of the stored trace). It runs nothing.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "backends/backend.h"
#include "backends/target.h"
#include "dsl/passes/lower_gpu.h"
#include "runtime/store/database.h"
#include "runtime/store/trace_file.h"

namespace tw {

// A program after its trace, and lowered.
struct Rebuilt {
  std::shared_ptr<Arena> arena;  // of what replay and lowering made
  OwnedProgram base;             // the unscheduled program, whose nodes the others share
  Trace trace;                   // its texts live on in the scheduled program
  Program scheduled;
  LoweredProgram lowered;            // for processors
  LoweredGpuProgram lowered_device;  // for devices
  std::vector<PassDump> dumps;       // text after each lowering pass that changed something
};

// On failure nullopt, and `error` explains it with the program at that step.
std::optional<Rebuilt> rebuild(const OwnedProgram& program, const Trace& trace, const Target& target,
                               std::string& error);

// The kernel of a rebuilt program; `symbol` is the prefix of its entry points.
std::optional<Kernel> compile(const Rebuilt& rebuilt, const Target& target, std::string_view symbol,
                              std::string& error);

// What a record of a database says, as a trace file.
std::optional<TraceFile> trace_file_of(Database& database, const Record& record, std::string& error);

// The resolved target of a trace file: its text was checked when it was read.
Target target_of(const TraceFile& file);

}  // namespace tw
