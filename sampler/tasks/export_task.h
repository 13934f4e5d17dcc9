// A task's fastest kernel, ready for write_export (runtime/export/export.h).
#pragma once
#include <optional>
#include <string>

#include "runtime/export/export.h"
#include "sampler/search/tune.h"
#include "sampler/tasks/best_kernel.h"

namespace tw {

// One line about a program, for the header of an export.
std::string export_doc(const Program& program);

// What stored_kernel finds, under the task's name. `library`: prefix of all symbols. nullopt if there is none; then
// `message` says why. `placed`: see there.
std::optional<ExportedTask> export_task(Database& database, const TuneTask& task, const std::string& library,
                                        std::string& message, WhichRecord which = WhichRecord::Fastest,
                                        const OwnedProgram* placed = nullptr);

}  // namespace tw
