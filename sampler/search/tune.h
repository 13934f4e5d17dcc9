// tune: the whole search over a list of tasks: build spaces, draw, evolve, measure, store, learn. The command and C++
// programs call this; progress is told to a TuneObserver, results are in the database.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/target.h"
#include "costmodel/cost_model.h"
#include "costmodel/machine_rates.h"
#include "costmodel/objective.h"
#include "dsl/ir/program.h"
#include "rules/lang/library.h"
#include "runtime/lists/task_list.h"
#include "runtime/measure/measurer.h"
#include "runtime/store/database.h"
#include "sampler/strategies/search_choice.h"

namespace tw {

struct TuneTask {
  std::string name;
  OwnedProgram program;  // unscheduled
  Target target;
  double weight = 1;
  std::vector<Trace> templates;  // hand-written schedules with open samples; added to the rules' sketches
  Timing timing = Timing::Warm;
  std::string machine = {};  // of a fleet, that measures it (TaskEntry::machine)
};

// Bounds of what a run keeps in memory and reads, so that memory and the time of a round do not grow with its length.
// Beside these it keeps some hundred bytes of each trial, in order to measure nothing twice.
struct TuneLimits {
  std::size_t learned = 8192;          // measured candidates that the cost model learns from, of all tasks
  std::size_t learned_of_a_task = 32;  // of each task at least
  std::size_t known_bytes = std::size_t{192} << 20;  // candidates that the search has built, with their features
  i64 open_bytes = i64{2} << 30;  // data of the tasks that are open in the measurer at once; one alone may have more
  std::function<i64()>
      free_bytes;  // of memory, which bounds them, too; empty: of this machine (runtime/measure/machine_memory.h)
  double reading_seconds = 1;  // for records of earlier runs, however small the budget is: what is known is said
};

// The least time that any kernel of a task can take on a machine; 0 = not known.
struct Bound {
  double seconds = 0;
  std::string what;  // that sets it: "the FMA peak", "the bandwidth"
};

struct TuneOptions {
  i64 trials = 512;      // per task, those of earlier runs included
  i64 total_trials = 0;  // > 0: of all tasks together, those of earlier runs included; the scheduler divides them
  // A task ends early when the next batch is expected to lower its best time by a smaller part (expected_gain.h), or
  // its best is within 2 % of the bound. 0 = never.
  double min_gain = 0;
  std::function<Bound(const TuneTask&)> bound;  // empty: measured (machine_bound.h)
  i64 more = 0;        // > 0: in place of `trials`, so many of each task beyond those that are stored
  double seconds = 0;  // of this run; 0 = no limit
  u64 seed = 0;
  bool overlaps = true;  // where cores allow, the next batch is searched while one is measured, without its results
  int threads = 0;       // of the search itself; 0 = all this process may use
  std::string rules = "cpu";  // name of a set in the library
  SearchChoice search = {};   // how candidates are proposed and picked
  // The learned model and its objective; `search.model` and `search.objective` are what a list says of them, and are
  // not looked at here.
  std::string cost_model = "auto";
  Objective objective = Objective::Usual;
  std::string model_bytes;  // what a cost model of that name knew (TuneResult): it scores from the first batch on
  // A trained model (CostModel::save) that is the global one of a TransferModel; "" = none. The model of this run
  // learns of its trials by the same objective, and that is added to its scores. Not used with `model_bytes` or an
  // `objective` that is not its own, nor by strategies that do not go by scores or a model that learns nothing.
  std::string global_model;
  bool keep_model = false;  // learn from all that was measured at the end, and give TuneResult::model_bytes
  bool replay_measurements =
      false;  // take results from the database instead of measuring; what is not there counts as failed
  // Results of programs that are known beforehand, null = not known: what is known is not built and not measured. Asked
  // by several threads.
  std::function<const Record*(const TuneTask& task, const Hash128& program)> known;
  TuneLimits limits = {};
  MachineRates rates = {};  // of the machine that measures, for the draft model
};

// Why a task has no further trials.
enum class Ended : u8 { No, Trials, TotalTrials, Space, Bound, MinGain, Problem };
const char* name_of(Ended ended);  // "", "trials", "total_trials", "space", "bound", "min_gain", "problem"

// Where one task stands. Times are seconds of one kernel call.
struct TaskProgress {
  std::string name;
  i64 trials = 0, failed = 0;     // stored, earlier runs included
  i64 wanted = 0;                 // trials to reach
  double best_seconds = 0;        // 0 = none yet
  double best_cold_seconds = 0;   // of the same trial, with cold caches (Record::cold); 0 = not known
  double baseline_seconds = 0;    // the untuned program: program order, same backend
  double zero_trial_seconds = 0;  // the first candidate, chosen without any measurement
  double flops = 0;               // arithmetic operations of one call, as the workload states them
  i64 best_record = 0;            // id in the database
  bool done = false;
  Ended ended = Ended::No;
  Bound bound;               // as far as it was measured
  double expected_gain = 1;  // of another batch, a part of the best time; 1 = there are too few trials to say
  std::string problem;       // why nothing can be tuned, if so
};

// Where the time of a run went, in seconds.
struct TuneProfile {
  double space = 0;
  // The search; where it has several threads, of all together. Features include the draft score
  // wherever there is a model.
  double draw = 0, replay = 0, postprocess = 0, hash = 0, draft = 0, features = 0, model = 0;
  double first_kernels = 0;  // wall time of choosing them by their machine code, no part of search_seconds
  double training = 0;
  double waiting = 0;  // of the search for the measuring thread
  // Of the measuring thread and the one that compiles ahead of it, which work beside the search
  // where cores allow.
  double lower = 0, compile = 0, measure = 0, database = 0;
  double reference = 0;  // of the measuring thread: data and reference results of tasks
  MeasureSeconds parts;  // of `measure`, in the worker
  i64 pairs = 0;         // of samples
  i64 measurements = 0;  // a trial that may be the best has two or more
};

struct TuneResult {
  std::vector<TaskProgress> tasks;
  i64 measured = 0;      // trials of this run
  i64 same_code = 0;     // candidates that compiled to the code of an earlier trial: not measured, no trial
  i64 candidates = 0;    // different ones, as far as the run remembers, that were replayed, postprocessed and scored
  i64 repeats = 0;       // draws and mutations that gave what it remembers
  i64 rejected = 0;      // draws and mutations that an instruction rejected
  i64 most_learned = 0;  // measured candidates that the cost model learned from at once
  i64 traces_read = 0;   // of records of earlier runs
  double search_seconds = 0;  // wall time of drawing, evolving and scoring
  double seconds = 0;         // wall time of the run
  double trials_per_second() const { return seconds > 0 ? static_cast<double>(measured) / seconds : 0; }
  double candidates_per_second() const {
    return search_seconds > 0 ? static_cast<double>(candidates) / search_seconds : 0;
  }
  TuneProfile profile;
  std::string model_bytes;   // what the cost model knows at the end (CostModel::save); "" = nothing
  bool interrupted = false;  // `stop` was set: everything measured is stored
  std::string error;         // the database failed or the worker cannot be started again: what was stored is safe
};

class TuneObserver {
 public:
  virtual ~TuneObserver() = default;
  // After every trial. `task` indexes the tasks; `last` is the trial just stored.
  virtual void on_trial(const std::vector<TaskProgress>& tasks, std::size_t task, const Record& last) = 0;
  // Things that a person should know once: a fallback cost model, failures of one kind, a task that cannot be tuned.
  virtual void on_message(const std::string& text) = 0;
};

// With options whose search is none (errors_of) it ends at once, with an error. Runs until every task has its trials,
// the time is over, or *stop is set (then the trial at hand is finished and stored). `measurer` may be null if
// replay_measurements is set.
TuneResult tune(const std::vector<TuneTask>& tasks, const rules::Library& library, const TuneOptions& options,
                Database& database, Measurer* measurer, TuneObserver& observer, const std::atomic<bool>& stop);

// Why the strategy cannot search the space of a task, as a sentence; "" if it can. To be asked before tune(), which
// finds it out when the task's turn comes.
std::string why_not_searched(const TuneTask& task, const rules::Library& library, const TuneOptions& options);

// What a task's space looks like before anything is measured: for `space` and `tune --dry-run`.
struct SpaceSummary {
  struct Row {
    std::string trace;
    double log10_points;
    std::vector<std::string> rules;
  };
  std::vector<Row> sketches;
  double count = 0;  // of all sketches; more than there are rows: about so many
  std::string errors;
};
SpaceSummary summarize_space(const TuneTask& task, const rules::Library& library, const std::string& rule_set);

// Arithmetic operations of one call: adds, multiplications, divisions, comparisons and function calls on non-index
// values, each 1.
double count_flops(const Program& program);

}  // namespace tw
