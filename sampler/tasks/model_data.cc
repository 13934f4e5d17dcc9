#include "sampler/tasks/model_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "costmodel/gpu/gpu_draft.h"
#include "costmodel/row_extractor.h"
#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/schedule/state.h"
#include "dsl/text/parse_program.h"
#include "runtime/lists/device_file.h"
#include "sampler/space/candidate.h"

namespace tw {
namespace {

// Features of the programs of one task's records.
class RecordReader {
 public:
  RecordReader(OwnedProgram program, const Target& target, FeatureKind features)
      : program_(std::move(program)), extractor_(features, feature_target_of(target)) {
    std::string none;
    if (std::optional<GpuDevice> device = is_gpu(target) ? device_of(target, none) : std::nullopt)
      gpu_draft_.emplace(*device);
  }

  // False, and why, if the trace is none, or does not apply.
  bool read(const Record& record, std::vector<float>& rows, std::string& why) {
    Source source{cat("record ", record.id), record.trace};
    Diagnostics diagnostics(source);
    std::optional<Trace> trace = parse_schedule(source, diagnostics);
    if (!trace) return why = diagnostics.render(), false;
    Arena arena;
    State state(arena, program_.program);
    if (Status replayed = replay(*trace, state, ReplayMode::Strict); !replayed)
      return why = cat("record ", record.id, ": ", to_string(replayed.rejected())), false;
    extractor_.extract(state.program(), *trace, trace->decisions(), rows);
    draft_seconds_ = gpu_draft_ ? gpu_draft_->seconds(state.program()) : extractor_.draft_seconds();
    return true;
  }
  double draft_seconds() const { return draft_seconds_; }
  std::vector<KernelEstimate> estimates() const {
    return gpu_draft_ ? gpu_draft_->kernels() : std::vector<KernelEstimate>();
  }
  std::string op() const { return std::string(program_.program.name); }

 private:
  OwnedProgram program_;
  RowExtractor extractor_;
  std::optional<GpuDraft> gpu_draft_;  // of a target that is a GPU with a description
  double draft_seconds_ = 0;
};

std::optional<RecordReader> reader_of(Database& database, const TaskSummary& task, FeatureKind features,
                                      std::string& why) {
  DatabaseResult<std::string> text = database.workload_text(task.workload);
  if (!text || text->empty()) return why = cat("the workload of `", task.task, "` is missing"), std::nullopt;
  Source workload{task.task, *text}, target_text{task.task, task.target};
  Diagnostics workload_problems(workload), target_problems(target_text);
  std::optional<OwnedProgram> program = parse_program(workload, workload_problems);
  std::optional<Target> target = parse_target(task.target, 0, target_problems);
  if (!program || !target) return why = workload_problems.render() + target_problems.render(), std::nullopt;
  return RecordReader(std::move(*program), *target, features);
}

// By the mark that rules leave.
std::string rule_of(const std::string& trace) {
  constexpr std::string_view kMark = "\"tiled_by\", \"";
  std::size_t at = trace.find(kMark);
  return at == std::string::npos
             ? "-"
             : trace.substr(at + kMark.size(), trace.find('"', at + kMark.size()) - at - kMark.size());
}

const MachineSummary& busiest(const TaskSummary& task) {
  return *std::max_element(task.machines.begin(), task.machines.end(),
                           [](const MachineSummary& a, const MachineSummary& b) { return a.trials < b.trials; });
}

// Is there no such record yet?
bool is_first(ModelData& data, const ModelData::Task& task, const std::string& program) {
  const std::string key = cat(task.workload, "\n", task.target, "\n", task.machine, "\n", program);
  return data.taken.insert(hash_bytes(key)).second;
}

void leave_out(ModelData& data, i64 records, const std::string& why) {
  data.left_out += records;
  if (data.first_left_out.empty()) data.first_left_out = why;
}

}  // namespace

DatabaseStatus add_model_data(ModelData& data, Database& database, const std::function<bool()>& stop) {
  data.data.features.columns = columns_of(data.features);
  auto summaries = database.tasks();
  if (!summaries) return DatabaseError{summaries.error()};
  for (const TaskSummary& summary : *summaries) {
    if (summary.machines.empty() || (stop && stop())) continue;
    std::string machine = busiest(summary).machine, why;
    std::optional<RecordReader> reader = reader_of(database, summary, data.features, why);
    if (!reader) {
      leave_out(data, summary.trials, why);
      continue;
    }
    ModelData::Task task{summary.task, summary.workload, summary.target, machine, reader->op()};
    std::set<std::string> programs;
    std::vector<float> rows;
    auto add = [&](Record& record) {
      if (!record.is_trial() || machine_of(record.host) != machine) return;
      if (record.trace.empty() || !programs.insert(record.program).second) return;
      if (!is_first(data, task, record.program)) return void(++data.repeated);
      if (!reader->read(record, rows, why)) return leave_out(data, 1, why);
      data.data.features.add(rows);
      data.data.seconds.push_back(record.ok() ? record.seconds : std::numeric_limits<double>::infinity());
      data.data.group.push_back(static_cast<i32>(data.tasks.size()));
      data.draft.push_back(static_cast<float>(-std::log(reader->draft_seconds())));
      data.estimates.push_back(reader->estimates());
      data.rules.push_back(rule_of(record.trace));
      ++task.candidates, task.failed += !record.ok();
    };
    auto visited = database.visit({.workload = summary.workload, .target = summary.target, .stop = stop}, add);
    if (!visited) return visited;
    if (task.candidates > 0) data.tasks.push_back(task);
  }
  return Done{};
}

std::vector<int> kinds_of(const ModelData& data, Holdout holdout) {
  std::map<std::string, int> numbers;
  std::vector<int> kinds;
  for (const ModelData::Task& task : data.tasks) {
    const std::string& kind = holdout == Holdout::Operators ? task.op : task.workload;
    kinds.push_back(numbers.try_emplace(kind, static_cast<int>(numbers.size())).first->second);
  }
  return kinds;
}

}  // namespace tw
