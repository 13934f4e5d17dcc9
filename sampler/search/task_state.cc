#include "sampler/search/task_state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "costmodel/make_model.h"
#include "dsl/analysis/points.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/workload.h"
#include "sampler/search/least_flops.h"
#include "sampler/search/transfer_seeds.h"
#include "sampler/search/trial.h"
#include "sampler/space/build_neighbours.h"
#include "sampler/space/parallel_for.h"

namespace tw {
namespace {

// The trace of a record, or nothing if this version cannot read it.
std::optional<Trace> trace_of(const std::string& text) {
  Source source{"record", text};
  Diagnostics diagnostics(source);
  return parse_schedule(source, diagnostics);
}

double seconds_of(const Record& record) {
  return record.ok() ? record.seconds : std::numeric_limits<double>::infinity();
}

// Notes a record of another machine. The best records of each machine become candidates later.
void note_foreign(TaskState& state, Record& record) {
  constexpr SampleLimits kBest{.fastest = 32, .others = 0};
  ++state.foreign_records;
  std::optional<Hash128> program = parse_hash(record.program);
  if (!program || !record.ok()) return;
  state.foreign.try_emplace(machine_of(record.host), kBest)
      .first->second.add(record.seconds, *program, std::move(record.trace));
}

// Notes a record of an earlier run. Its trace is parsed later, if the sample keeps it.
void note_earlier(TaskState& state, Record& record) {
  std::optional<Hash128> program = parse_hash(record.program);
  if (!program) return;
  state.rounds = std::max(state.rounds, record.generation + 1);  // a round of its own draws what no earlier one did
  note_object(state, record);
  note_trial(state, *program, record);
  if (record.trace.empty() && record.ok()) state.progress.baseline_seconds = record.seconds;
  if (record.is_trial()) state.unread.add(seconds_of(record), *program, std::move(record.trace));
}

// Gives features, and the candidate's draft score; its decisions stay as they are. False if it cannot be built.
bool build_features(CandidateBuilder& builder, Candidate& candidate, std::vector<float>& features) {
  Candidate built = candidate;
  if (!builder.build(built, nullptr, &features)) return false;
  candidate.draft = built.draft;
  return true;
}

// A trial of an earlier run whose trace the sample kept.
struct EarlierTrial {
  double seconds = 0;
  Hash128 program;
  const std::string* text = nullptr;
  std::optional<Trace> trace = {};  // parsed
  std::optional<Candidate> candidate = {};
  std::vector<float> features = {};
  bool is_built = false;
};

// Finds the candidates of the traces. Gives the number of those that this version cannot read.
i64 find_candidates(TaskState& state, std::vector<EarlierTrial>& trials, int threads,
                    const std::function<bool()>& stop) {
  constexpr std::size_t kTogether = 256;  // parsed traces are large
  i64 skipped = 0;
  for (std::size_t first = 0; first < trials.size() && !(stop && stop()); first += kTogether) {
    const std::span<EarlierTrial> part(trials.data() + first, std::min(kTogether, trials.size() - first));
    parallel_for(static_cast<int>(part.size()), threads, [&](int i, int) { part[i].trace = trace_of(*part[i].text); });
    for (EarlierTrial& trial : part) {
      skipped += !trial.trace;
      if (trial.trace) trial.candidate = find_candidate(state.space, *std::exchange(trial.trace, std::nullopt));
      if (trial.candidate) trial.candidate->program = trial.program;
    }
  }
  return skipped;
}

void build_candidates(const TaskState& state, std::vector<EarlierTrial>& trials, int threads,
                      const std::function<bool()>& stop) {
  std::vector<EarlierTrial*> found;
  for (EarlierTrial& trial : trials) {
    if (trial.candidate) found.push_back(&trial);
  }
  std::vector<std::unique_ptr<CandidateBuilder>> builders;
  for (int i = 0; i < threads; ++i) builders.push_back(std::make_unique<CandidateBuilder>(state.space));
  build_neighbours(
      static_cast<int>(found.size()), builders, [&](int i) -> const Candidate& { return *found[i]->candidate; },
      [&](int i, CandidateBuilder& builder) {
        EarlierTrial& trial = *found[i];
        if (!stop || !stop()) trial.is_built = build_features(builder, *trial.candidate, trial.features);
      });
}

void note_built(TaskState& state, EarlierTrial& trial) {
  if (trial.is_built)
    state.sample.add(trial.seconds, trial.program, {std::move(*trial.candidate), std::move(trial.features)});
}

// Turns the traces that the sample kept into candidates.
void read_traces(TaskState& state, int threads, TuneObserver& observer, const std::function<bool()>& stop) {
  auto remembered = std::exchange(state.unread, BoundedSample<std::string>());
  std::vector<EarlierTrial> trials;
  remembered.each([&](const auto& entry) { trials.push_back({entry.seconds, entry.hash, &entry.value}); });
  const i64 skipped = find_candidates(state, trials, threads, stop);
  build_candidates(state, trials, threads, stop);
  for (EarlierTrial& trial : trials) note_built(state, trial);
  if (skipped)
    observer.on_message(
        cat(state.task->name, ": ", skipped, " records have traces that this version cannot read; they are not used"));
}

// Takes the fastest records of the other machines in turn.
void read_seeds(TaskState& state) {
  CandidateBuilder builder(state.space);
  HashSet programs;
  std::size_t most = 0;
  for (const auto& [machine, records] : state.foreign) most = std::max(most, records.size());
  for (std::size_t rank = 0; rank < most; ++rank) {
    for (const auto& [machine, records] : state.foreign) {
      if (rank >= records.size()) continue;
      std::optional<Trace> trace = trace_of(records.fastest(rank + 1).back()->value);
      std::optional<Candidate> seed = trace ? find_candidate(state.space, *trace) : std::nullopt;
      if (seed && builder.build(*seed, nullptr) && programs.insert(seed->program).second)
        state.seeds.push_back(std::move(*seed));
    }
  }
}

// What others measured of the task is taken as far as the search begins with what others found at all.
void take_foreign(TaskState& state, bool has_transfer, TuneObserver& observer) {
  if (has_transfer) read_seeds(state);
  state.foreign.clear();
  if (state.foreign_records == 0) return;
  observer.on_message(cat(
      state.task->name, ": ", state.foreign_records, state.foreign_records == 1 ? " record is" : " records are",
      " of another machine or timing: ",
      has_transfer ? "the best of them are measured again here, their times are not compared" : "they are not used"));
}

// The records for --replay-measurements: those of this machine if there are any, else of the machine that measured
// last.
class RecordsToReplay {
 public:
  void add(Record record) {
    std::optional<Hash128> program = parse_hash(record.program);
    if (!program) return;
    last_ = record.host;
    by_machine_[machine_of(record.host)][*program] = std::move(record);
  }
  void choose(TaskState& state) {
    if (!by_machine_.count(state.machine)) state.host = last_, state.machine = machine_of(last_);
    state.recorded = std::move(by_machine_[state.machine]);
  }

 private:
  std::string last_;
  std::map<std::string, std::map<Hash128, Record>> by_machine_;
};

}  // namespace

std::vector<Candidate> TaskState::elites(std::size_t most) const {
  std::vector<Candidate> best;
  for (const auto* entry : sample.fastest(most)) {
    if (entry->seconds < std::numeric_limits<double>::infinity()) best.push_back(entry->value.candidate);
  }
  return best;
}

std::vector<Candidate> TaskState::parents(std::size_t most) const {
  std::vector<Candidate> found = elites(most);
  for (const std::vector<Candidate>* list : {&seeds, &carried}) {
    for (const Candidate& seed : *list) {
      if (found.size() < most && !measured.count(seed.program)) found.push_back(seed);
    }
  }
  return found;
}

void note_object(TaskState& state, const Record& record) {
  std::optional<Hash128> object = parse_hash(record.object);
  bool is_measured = record.is_trial() && record.status != name_of(MeasureStatus::WorkerLost);
  if (object && is_measured) state.objects.emplace(*object, record.id);
}

void note_trial(TaskState& state, const Hash128& program, const Record& record) {
  bool good = record.ok();
  state.measured.insert(program);
  bool is_baseline = record.trace.empty();
  if (!record.is_trial()) return;
  ++state.progress.trials;
  state.times[program] = seconds_of(record);
  if (!is_baseline) state.trial_seconds.push_back(good ? record.seconds : std::numeric_limits<double>::infinity());
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

bool note_candidate(TaskState& state, Candidate candidate, double seconds) {
  const std::vector<float>* kept = state.known.features(candidate.program);
  std::vector<float> features;
  if (kept && candidate.draft != 0) {
    features = *kept;
  } else {
    CandidateBuilder builder(state.space);
    if (!build_features(builder, candidate, features)) return false;
  }
  Hash128 program = candidate.program;
  state.sample.add(seconds, program, {std::move(candidate), std::move(features)});
  return true;
}

bool note_record(TaskState& state, const Record& record) {
  std::optional<Hash128> program = parse_hash(record.program);
  if (!program) return false;
  note_trial(state, *program, record);
  if (record.trace.empty() && record.ok()) state.progress.baseline_seconds = record.seconds;
  std::optional<Trace> trace = record.is_trial() ? trace_of(record.trace) : std::nullopt;
  std::optional<Candidate> candidate = trace ? find_candidate(state.space, *trace) : std::nullopt;
  if (!candidate) return false;
  candidate->program = *program;
  return note_candidate(state, std::move(*candidate), seconds_of(record));
}

void name_task(TaskState& state, const TuneTask& task, const rules::Library& library, const TuneOptions& options,
               SampleLimits limits) {
  state.task = &task;
  state.progress.name = task.name;
  state.progress.wanted = options.total_trials > 0 ? std::min(options.trials, options.total_trials) : options.trials;
  state.progress.flops = count_flops(task.program.program);
  state.workload_key = to_hex(structural_hash(task.program.program));
  state.target_key = to_string(task.target);
  if (state.host.empty()) state.host = measuring_host(task.target, worker_options(task.target).device, task.timing);
  state.machine = machine_of(state.host);
  state.sample = BoundedSample<Measured>(limits);
  state.unread = BoundedSample<std::string>(limits);
  if (library.find_set(options.rules)) return;
  std::vector<std::string> names = library.set_names();
  state.progress.problem = cat("there is no rule set `", options.rules, "`; there are ", join(names, ", "));
}

bool read_records(std::span<TaskState> states, Database& database, const TuneOptions& options,
                  const std::function<bool()>& stop) {
  auto latest = database.latest_record();
  std::map<std::pair<std::string_view, std::string_view>, std::vector<TaskState*>> of_key;
  for (TaskState& state : states) of_key[{state.workload_key, state.target_key}].push_back(&state);
  std::map<TaskState*, RecordsToReplay> replayed;
  auto note = [&](Record& record) {
    auto found = of_key.find({record.workload, record.target});
    if (found == of_key.end()) return;
    for (TaskState* state : found->second) {
      state->last_record = std::max(state->last_record, record.id);
      Record copy = record;
      if (options.replay_measurements) {
        replayed[state].add(std::move(copy));
      } else if (state->is_own(record)) {
        note_earlier(*state, copy);
      } else {
        note_foreign(*state, copy);
      }
    }
  };
  // With one task, only its records are read.
  bool is_cut = false;
  RecordFilter filter{.stop = [&] { return is_cut = stop && stop(); }};
  if (of_key.size() == 1) filter.workload = states[0].workload_key, filter.target = states[0].target_key;
  DatabaseStatus read = latest ? database.visit(filter, note) : DatabaseError{latest.error()};
  for (auto& [state, records] : replayed) records.choose(*state);
  for (TaskState& state : states) {
    if (!read) state.progress.problem = read.error();
    // Records that another tuner stores during this pass may have been missed, so they are read again later.
    if (read && !options.replay_measurements) state.last_record = std::max(state.last_record, *latest);
    if (options.more > 0) state.progress.wanted = state.progress.trials + options.more;
  }
  return !is_cut;
}

void open_space(TaskState& state, const rules::Library& library, const TuneOptions& options, TuneObserver& observer,
                const std::function<bool()>& stop, int threads) {
  const TuneTask& task = *state.task;
  const std::vector<rules::RuleUse>* uses = library.find_set(options.rules);
  if (!uses) return;  // name_task has said so
  state.is_open = true;
  state.least_flops = least_flops(task.program.program);
  if (int cores = usable_threads(); task.target.threads > cores) {
    observer.on_message(cat(task.name, ": its target has ", task.target.threads, " threads, but this process may use ",
                            cores, cores == 1 ? " core" : " cores",
                            " only; its times will be those of threads that wait for each other"));
  }
  std::string errors;
  state.space = make_candidate_space(task.program.program, *uses, library, task.target, errors, 1, stop);
  state.space.feature_target.rates = options.rates;
  state.space.features = feature_kind_of(options.cost_model);
  if (!errors.empty()) observer.on_message(errors);
  for (const Trace& trace : task.templates) add_template(state.space.space, trace);
  if (state.space.space.sketches.empty()) state.progress.problem = "the rules leave no sketch";
  read_traces(state, std::max(threads, 1), observer, stop);
  take_foreign(state, plan_of(options.search).has_transfer, observer);
  carry_transfer_seeds(state, observer, stop);
}

void open_task(TaskState& state, const TuneTask& task, const rules::Library& library, const TuneOptions& options,
               Database& database, TuneObserver& observer) {
  name_task(state, task, library, options);
  if (!state.progress.problem.empty()) return;
  read_records({&state, 1}, database, options);
  open_space(state, library, options, observer);
}

void close_space(TaskState& state) {
  state.space = {};
  state.known.forget();
  state.incumbent = {};
  state.objects.clear();
  state.measured.clear();
  state.times.clear();
  state.strategy.reset();
  state.unread = BoundedSample<std::string>();
  state.foreign.clear();
  state.seeds.clear();
  state.others.clear();
  state.carried.clear();
}

std::string why_not_searched(const TuneTask& task, const rules::Library& library, const TuneOptions& options) {
  const SearchPlan plan = plan_of(options.search);
  const std::vector<rules::RuleUse>* uses = library.find_set(options.rules);
  if (!plan.kind->why_not || !uses) return "";
  std::string errors;  // they are said when the space is built for the search
  CandidateSpace space = make_candidate_space(task.program.program, *uses, library, task.target, errors);
  for (const Trace& trace : task.templates) add_template(space.space, trace);
  return plan.kind->why_not(space, plan.settings);
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
  summary.count = space.count;
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
    case Kind::Load:
    case Kind::IntImm:
    case Kind::FloatImm:
    case Kind::Var:
      return 0;
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
