// The report: what databases and compiled models have to say, as one value. `tracewright report` fills it, prints it as
// JSON (report_json) or makes a page of it (report_page). Databases are only read; of a model every kernel is timed.
#pragma once
#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "runtime/store/database.h"
#include "sampler/report/decisions.h"
#include "sampler/report/roofline.h"

namespace tw {

// What a report holds at most, so that its size does not grow with the number of trials.
struct ReportLimits {
  std::size_t dots = 20000;  // trials that are drawn, of all tasks
  std::size_t dots_of_a_task = 600;
  std::size_t curve = 2000;  // steps of a tuning curve
  std::size_t trace_bytes = 64 << 10;
  std::size_t name_bytes = 200, message_bytes = 500;
};

// A trial with a time.
struct ReportTrial {
  i64 trial = 0;  // counts from 1 among those of its task and machine
  i64 record = 0;
  double seconds = 0;
};

struct ReportFailure {
  std::string status;  // "crash"
  i64 count = 0;
  i64 record = 0;       // of the example, the first one
  std::string message;  // its first lines
};

// The trials of one task on one machine. Times are seconds of one call, 0 = not known.
struct TaskReport {
  std::string database, name, workload, target, machine;
  int roof = 0;           // Report::roofs
  bool has_work = false;  // false: the workload's text is missing or damaged
  Work work;
  RoofBound bound;
  i64 trials = 0, failed = 0;
  ReportTrial best, first;        // first: the zero-trial kernel: trial 1, if it has a schedule and worked
  double best_cold = 0;           // Record::cold of the best
  double untuned = 0;             // of the program as it was written
  i64 timed = 0;                  // trials with a time, beside that of the untuned program
  std::vector<ReportTrial> dots;  // of them, evenly thinned
  std::vector<ReportTrial>
      curve;  // those that were faster than all before, the last one the best; thinned if very many
  bool is_curve_thinned = false;
  std::vector<ReportFailure> failures;  // by status, most first
  i64 decided = 0;                      // trials of the best one's sketch
  std::vector<DecisionEffect> decisions;
  std::string best_schedule;
};

// A compiled model, each step of which was timed by itself.
struct ModelReport {
  struct Step {
    std::string name, kernel;
    double seconds = 0;
    bool has_work = false;
    Work work;
    RoofBound bound;
  };
  std::string folder, name, target;
  int threads = 1;
  int roof = 0;
  i64 memory_bytes = 0;
  std::vector<Step> steps;
};

struct Report {
  ReportLimits limits;
  std::string version, host;  // of the program and machine that made it
  i64 created = 0;            // milliseconds since 1970, UTC
  std::vector<std::string> databases;
  i64 damaged = 0;  // rows of databases that were left out
  std::vector<Roof> roofs;
  std::vector<TaskReport> tasks;
  std::vector<ModelReport> models;
};
Report begin_report();

// Counts a record of the task, if it is a trial; in the order in which they were stored.
void add_trial(TaskReport& task, const Record& record, const ReportLimits& limits);
// After the last one: what follows from all. Thins the curve.
void end_trials(TaskReport& task, const ReportLimits& limits);
// The roof of the task's machine, which is added to the report if it has none, and what follows from it for
// TaskReport::work.
DatabaseStatus set_roof(Report& report, Database& database, TaskReport& task);
// What the workload of this text does; without it the task has no work.
void set_work(TaskReport& task, const std::string& text);

// Adds all tasks of a database.
DatabaseStatus add_database(Report& report, Database& database);
// Divides Report::limits between the tasks that were added.
void thin_out(Report& report);

// Measures the roofs of this machine and, for `seconds`, each step of the model that `compile` wrote into a folder,
// with its target's threads; of several entries each one. On failure false, and why in `error`; `is_measured` says
// whether it had begun to measure.
bool add_model(Report& report, const std::string& folder, double seconds, std::string& error, bool& is_measured);

boost::json::object to_json(const Report& report);
// One HTML file that needs nothing else. All text out of files is shown, never obeyed.
std::string report_page(const Report& report);

}  // namespace tw
