#include "sampler/search/task_state.h"

#include <algorithm>
#include <limits>

#include "dsl/analysis/points.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/workload.h"
#include "sampler/search/least_flops.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

std::optional<Trace> trace_of(const Record& record) {
  Source source{cat("record ", record.id), record.trace};
  Diagnostics diagnostics(source);
  return parse_schedule(source, diagnostics);
}

std::optional<Candidate> candidate_of(const CandidateSpace& space, const Record& record) {
  std::optional<Trace> trace = trace_of(record);
  return trace ? find_candidate(space, *trace) : std::nullopt;
}

// Those of this machine if there are any, else of the machine that measured last.
void replay_records(TaskState& state, const std::vector<Record>& records) {
  bool any_own = std::any_of(records.begin(), records.end(), [&](const Record& record) { return state.is_own(record); });
  if (!any_own && !records.empty()) state.host = records.back().host;
  for (const Record& record : records) {
    std::optional<Hash128> program = parse_hash(record.program);
    if (program && state.is_own(record)) state.recorded[*program] = record;
  }
}

// The fastest of each other machine, in turn.
void read_seeds(TaskState& state, const std::vector<Record>& records, TuneObserver& observer) {
  constexpr std::size_t kMost = 32;  // of each machine
  std::map<std::string, std::vector<const Record*>> by_machine;
  i64 foreign = 0;
  for (const Record& record : records) {
    if (state.is_own(record)) continue;
    ++foreign;
    if (record.ok()) by_machine[machine_of(record.host)].push_back(&record);
  }
  for (auto& [machine, good] : by_machine) {
    std::stable_sort(good.begin(), good.end(), [](const Record* a, const Record* b) { return a->seconds < b->seconds; });
    good.resize(std::min(good.size(), kMost));
  }
  CandidateBuilder builder(state.space);
  HashSet programs;
  for (std::size_t rank = 0; rank < kMost; ++rank) {
    for (const auto& [machine, good] : by_machine) {
      std::optional<Candidate> seed = rank < good.size() ? candidate_of(state.space, *good[rank]) : std::nullopt;
      if (seed && builder.build(*seed, nullptr) && programs.insert(seed->program).second) state.seeds.push_back(std::move(*seed));
    }
  }
  if (foreign == 0) return;
  observer.on_message(cat(state.task->name, ": ", foreign, foreign == 1 ? " record is" : " records are",
                          " of another machine: the best of them are measured again here, their times are not compared"));
}

void read_records(TaskState& state, Database& database, const TuneOptions& options, TuneObserver& observer) {
  auto records = database.all(state.workload_key, state.target_key);
  if (!records) {
    state.progress.problem = records.error();
    return;
  }
  i64 skipped = 0;
  if (options.replay_measurements) return replay_records(state, *records);
  read_seeds(state, *records, observer);
  for (const Record& record : *records) {
    if (!parse_hash(record.program) || !state.is_own(record)) continue;
    state.last_record = std::max(state.last_record, record.id);
    state.rounds = std::max(state.rounds, record.generation + 1);  // a round of its own draws what no earlier one did
    note_object(state, record);
    skipped += !note_record(state, record);
  }
  if (skipped) observer.on_message(cat(state.task->name, ": ", skipped, " records have traces that this version cannot read; they are not used"));
}

}  // namespace

std::vector<Candidate> TaskState::elites(std::size_t most) const {
  std::vector<const Measured*> good;
  for (const Measured& measured : history) {
    if (measured.seconds < std::numeric_limits<double>::infinity()) good.push_back(&measured);
  }
  std::stable_sort(good.begin(), good.end(), [](const Measured* a, const Measured* b) { return a->seconds < b->seconds; });
  std::vector<Candidate> best;
  for (const Measured* measured : good) {
    if (best.size() < most) best.push_back(measured->candidate);
  }
  return best;
}

std::vector<Candidate> TaskState::parents(std::size_t most) const {
  std::vector<Candidate> found = elites(most);
  for (const Candidate& seed : seeds) {
    if (found.size() < most && !measured.count(seed.program)) found.push_back(seed);
  }
  return found;
}

void note_object(TaskState& state, const Record& record) {
  std::optional<Hash128> object = parse_hash(record.object);
  bool is_measured = record.is_trial() && record.status != name_of(MeasureStatus::WorkerLost);
  if (object && is_measured) state.objects.emplace(*object, record.id);
}

void note_trial(TaskState& state, const Candidate* candidate, const Hash128& program, const Record& record) {
  bool good = record.ok();
  state.measured.insert(program);
  if (!record.is_trial()) return;
  ++state.progress.trials;
  if (candidate) state.history.push_back({*candidate, good ? record.seconds : std::numeric_limits<double>::infinity()});
  if (!good) {
    ++state.progress.failed;
    ++state.failures[record.status];
    if (state.example_failure.empty()) state.example_failure = cat(record.status, ": ", record.error);
    return;
  }
  if (state.progress.best_seconds == 0 || record.seconds < state.progress.best_seconds) {
    state.progress.best_seconds = record.seconds;
    state.progress.best_record = record.id;
    state.progress.best_cold_seconds = record.cold;
  }
}

bool note_record(TaskState& state, const Record& record) {
  std::optional<Hash128> program = parse_hash(record.program);
  if (!program) return true;
  std::optional<Trace> trace = trace_of(record);
  std::optional<Candidate> candidate = trace ? find_candidate(state.space, *trace) : std::nullopt;
  if (candidate) candidate->program = *program;
  note_trial(state, candidate ? &*candidate : nullptr, *program, record);
  bool is_baseline = trace && trace->instructions().empty();
  if (is_baseline && record.ok()) state.progress.baseline_seconds = record.seconds;
  return trace.has_value();
}

void open_task(TaskState& state, const TuneTask& task, const rules::Library& library, const TuneOptions& options, Database& database,
               TuneObserver& observer, const std::function<bool()>& stop) {
  state.task = &task;
  state.progress.name = task.name;
  state.progress.wanted = options.trials;
  state.progress.flops = count_flops(task.program.program);
  state.tolerance = tolerance_of(task.program.program);
  state.least_flops = least_flops(task.program.program);
  state.workload_key = to_hex(structural_hash(task.program.program));
  state.target_key = to_string(task.target);
  if (state.host.empty()) state.host = measuring_host(task.target, worker_options(task.target).device);
  const std::vector<rules::RuleUse>* uses = library.find_set(options.rules);
  if (!uses) {
    std::vector<std::string> names = library.set_names();
    state.progress.problem = cat("there is no rule set `", options.rules, "`; there are ", join(names, ", "));
    return;
  }
  if (int cores = usable_threads(); task.target.threads > cores) {
    observer.on_message(cat(task.name, ": its target has ", task.target.threads, " threads, but this process may use ", cores,
                            cores == 1 ? " core" : " cores", " only; its times will be those of threads that wait for each other"));
  }
  std::string errors;
  state.space = make_candidate_space(task.program.program, *uses, library, task.target, errors, 1, stop);
  if (!errors.empty()) observer.on_message(errors);
  for (const Trace& trace : task.templates) add_template(state.space.space, trace);
  if (state.space.space.sketches.empty()) state.progress.problem = "the rules leave no sketch";
  auto stored = database.add_workload(state.workload_key, workload_text(task.program.program));
  if (!stored) state.progress.problem = stored.error();
  read_records(state, database, options, observer);
  if (options.more > 0) state.progress.wanted = state.progress.trials + options.more;
}

SpaceSummary summarize_space(const TuneTask& task, const rules::Library& library, const std::string& rule_set) {
  SpaceSummary summary;
  const std::vector<rules::RuleUse>* uses = library.find_set(rule_set);
  if (!uses) {
    summary.errors = cat("there is no rule set `", rule_set, "`; there are ", join(library.set_names(), ", "));
    return summary;
  }
  Space space = build_space(task.program.program, *uses, library, facts_of(task.target), summary.errors);
  for (const Trace& trace : task.templates) add_template(space, trace);
  for (const Sketch& sketch : space.sketches) {
    Trace open = sketch.trace.with_decisions(std::vector<Decision>(sketch.trace.sample_count()));
    summary.sketches.push_back({open.print(0), log10_points(sketch), sketch.rules});
  }
  return summary;
}

namespace {
// Operations of one evaluation of an expression; indices are not arithmetic of the workload.
double operations(const Expr* e) {
  switch (e->kind) {
    case Kind::Load: case Kind::IntImm: case Kind::FloatImm: case Kind::Var: return 0;
    case Kind::Binary: {
      auto* n = static_cast<const Binary*>(e);
      return n->a->type.dtype == DType::I64 ? 0 : 1 + operations(n->a) + operations(n->b);
    }
    case Kind::Select: {
      auto* n = static_cast<const Select*>(e);
      return std::max(operations(n->then), operations(n->otherwise));
    }
    default: {
      double total = e->kind == Kind::Call ? 1 : 0;
      for_each_child(e, [&](const Node* child) { total += operations(static_cast<const Expr*>(child)); });
      return total;
    }
  }
}
}  // namespace

double count_flops(const Program& program) {
  double total = 0;
  for_each<Block>(program.body, [&](const Block* block) {
    double per_point = 0;
    for_each<Store>(block->body, [&](const Store* store) {
      for (const Expr* value : store->values) per_point += operations(value);
    });
    total += points_of(block) * per_point;
  });
  return total;
}

}  // namespace tw
