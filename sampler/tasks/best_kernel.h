// The fastest kernel that a database has of a task, or the one that was measured first, built again. For whatever
// exports, replays or compares what was found.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "backends/kernel.h"
#include "runtime/store/database.h"
#include "runtime/store/trace_file.h"
#include "sampler/search/tune.h"

namespace tw {

// This machine, as records for the target name it (machine_of).
const std::string& own_machine(const std::string& target, Timing timing = Timing::Warm);

// FirstMeasured: what a search chose without trials, before it had measured anything.
enum class WhichRecord : u8 { Fastest, FirstMeasured };

// The fastest good record of a task, or the one that was measured first: of this machine and timing, else of this
// machine, else of another one (TaskSummary::chosen), which `message` says. An empty record (id 0) if there is none.
DatabaseResult<Record> stored_record(Database& database, const TaskSummary& task, std::string& message,
                                     Timing timing = Timing::Warm, WhichRecord which = WhichRecord::Fastest);
DatabaseResult<Record> stored_record(Database& database, const std::string& workload, const std::string& target,
                                     std::string& message, Timing timing = Timing::Warm,
                                     WhichRecord which = WhichRecord::Fastest);

// Built again for the task's own program, or for `placed`, which is the same on rows that lie apart: names of buffers
// are those that the task gives now.
struct StoredKernel {
  Record record;
  TraceFile file;
  Kernel kernel;
};
// `symbol` is the prefix of its entry points. nullopt if there is none or it cannot be built; then `message` says why.
std::optional<StoredKernel> stored_kernel(Database& database, const TuneTask& task, std::string_view symbol,
                                          std::string& message, WhichRecord which = WhichRecord::Fastest,
                                          const OwnedProgram* placed = nullptr);

}  // namespace tw
