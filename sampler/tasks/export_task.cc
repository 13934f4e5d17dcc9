#include "sampler/tasks/export_task.h"

#include "dsl/base/text.h"
#include "sampler/tasks/best_kernel.h"
#include "sampler/tasks/load_list.h"

namespace tw {

std::string export_doc(const Program& program) {
  return cat("workload ", program.name, ", ", count_flops(program) * 1e-6, " million operations a call");
}

std::optional<ExportedTask> export_task(Database& database, const TuneTask& task, const std::string& library,
                                        std::string& message, WhichRecord which, const OwnedProgram* placed) {
  std::optional<StoredKernel> stored =
      stored_kernel(database, task, kernel_symbol(library, task.name), message, which, placed);
  if (!stored) return std::nullopt;
  TraceFile file{stored->record.version, key_of(task).target, task.program, stored->file.trace};
  return ExportedTask{.name = task.name,
                      .doc = export_doc(task.program.program),
                      .kernel = std::move(stored->kernel),
                      .target = task.target,
                      .seconds = stored->record.seconds,
                      .record = stored->record.id,
                      .trace_file = print_trace_file(file),
                      .flops = count_flops(task.program.program)};
}

}  // namespace tw
