#include "bench/simulated.h"

#include <algorithm>
#include <cmath>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "sampler/search/task_state.h"

namespace tw::bench {
namespace {

class Silent : public TuneObserver {
 public:
  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record&) override {}
  void on_message(const std::string&) override {}
};

TuneTask product(const std::string& name, i64 m, i64 n, i64 k) {
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program =
      instantiate(operator_library(), "matmul", {{"M", m}, {"N", n}, {"K", k}}, {}, diagnostics);
  TW_CHECK(program, "a product that cannot be made");
  Target target = host_target();
  target.threads = 1;
  target.vector_bits = 256;  // the spaces are the same on every machine
  return {.name = name, .program = std::move(*program), .target = target, .weight = 1, .templates = {}};
}

Record record_of(const TaskState& state, const Candidate& candidate, const Trace& trace, i64 generation) {
  Record record;
  record.workload = state.workload_key;
  record.target = state.target_key;
  record.status = name_of(MeasureStatus::Ok);
  record.seconds = record.minimum = record.first_quartile = record.median = record.third_quartile = candidate.draft;
  record.generation = generation;
  record.task = state.task->name;
  record.program = to_hex(candidate.program);
  record.object = to_hex(hash_bytes(record.program));
  record.version = TW_VERSION;
  record.host = host_description();
  record.trace = trace.print(0);
  return record;
}

std::string store_records_of(Database& database, const TuneTask& task, const rules::Library& library, i64 count,
                             u64 seed) {
  constexpr i64 kBatch = 32;
  Silent silent;
  TaskState state;
  open_task(state, task, library, {.trials = 0}, database, silent);
  if (!state.progress.problem.empty()) return state.progress.problem;
  CandidateBuilder builder(state.space);
  Rng rng(seed);
  HashSet stored;
  i64 sketches = static_cast<i64>(state.space.space.sketches.size());
  for (i64 draw = 0, most = 100 * count + 1000; static_cast<i64>(stored.size()) < count; ++draw) {
    if (draw == most) return cat(task.name, ": its space holds no ", count, " programs");
    Candidate candidate;
    if (!builder.draw(static_cast<int>(draw % sketches), candidate, rng) || !builder.build(candidate, &rng)) continue;
    if (!stored.insert(candidate.program).second) continue;
    Result<Trace> trace = full_trace(state.space, candidate);
    TW_CHECK(trace, "a candidate that was built has no trace");
    auto id = database.add_record(record_of(state, candidate, *trace, static_cast<i64>(stored.size()) / kBatch));
    if (!id) return id.error();
  }
  return "";
}

}  // namespace

TaskStart SimulatedMeasurer::begin_task(const Kernel&, Tolerance, u64) {
  TaskStart start;
  if (open_.size() >= room) return {.status = MeasureStatus::OutOfMemory, .error = "there is no memory"};
  start.task = static_cast<int>(begun_++);
  start.status = MeasureStatus::Ok;
  open_.insert(start.task);
  most_open_ = std::max(most_open_, open_.size());
  return start;
}

void SimulatedMeasurer::end_task(int task) { open_.erase(task); }

MeasureResult SimulatedMeasurer::measure(int task, const Kernel& candidate, const MeasureOptions&) {
  TW_CHECK(open_.count(task) > 0, "a kernel of a task that is not open");
  ++measured_;
  double noise = static_cast<double>(hash_bytes(candidate.code).low % 1000) / 1000;
  MeasureResult result;
  result.status = MeasureStatus::Ok;
  result.seconds = result.min_seconds = result.median_seconds =
      1e-9 * static_cast<double>(candidate.code.size()) * (1 + 0.05 * noise);
  return result;
}

std::vector<TuneTask> simulated_tasks(int count) {
  std::vector<TuneTask> tasks;
  for (i64 i = 0; i < count; ++i)
    tasks.push_back(product(cat("product_", i), 16 * (1 + i % 8), 32 * (1 + i / 8 % 6), 16 * (1 + i / 48)));
  return tasks;
}

TuneTask simulated_large_task() { return product("large_product", 240, 240, 240); }

std::string store_simulated_records(Database& database, const std::vector<TuneTask>& tasks,
                                    const rules::Library& library, i64 count) {
  i64 number = static_cast<i64>(tasks.size());
  for (i64 i = 0; i < number; ++i) {
    std::string problem = store_records_of(database, tasks[static_cast<std::size_t>(i)], library,
                                           count * (i + 1) / number - count * i / number, static_cast<u64>(i + 1));
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace tw::bench
