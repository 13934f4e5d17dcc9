// What the tuner knows about one task while it runs: space, records, incumbent, dataset rows. Loading it from the
// database is how a run resumes.
#pragma once
#include <map>
#include <span>

#include "sampler/search/bounded_sample.h"
#include "sampler/search/tune.h"
#include "sampler/strategies/strategy.h"

namespace tw {

// A measured candidate of this or an earlier run, with its features.
struct Measured {
  Candidate candidate;
  std::vector<float> features;
};

struct TaskState {
  const TuneTask* task = nullptr;
  CandidateSpace space;
  bool is_open = false;                  // the space was built
  bool is_stored = false;                // the database has the workload
  std::string workload_key, target_key;  // of the database
  std::string host, machine;             // what measures (Record::host, machine_of)
  TaskProgress progress;
  i64 rounds = 0;
  i64 last_record = 0;                 // the latest record of the database that was read
  HashSet measured;                    // programs that were measured or are about to be, failed ones too
  MeasuredTimes times;                 // of those that were
  std::unique_ptr<Strategy> strategy;  // made when the task is searched for the first time
  KnownCandidates known;               // what the search has built
  BoundedSample<Measured> sample;      // of those whose sketch is in the space
  BoundedSample<std::string> unread;   // traces of earlier runs' records, until the space is built
  std::vector<double> trial_seconds;   // of all that candidates had, oldest first; infinite where they failed
  std::map<std::string, BoundedSample<std::string>> foreign;  // the same of the best of each other machine
  i64 foreign_records = 0;
  std::vector<Candidate> seeds;         // made of them; their times say nothing about this machine
  std::vector<std::string> others;      // traces of other tasks' records, see transfer_seeds.h
  std::vector<Candidate> carried;       // made of them, best first
  std::map<Hash128, Record> recorded;   // for --replay-measurements
  std::map<Hash128, i64> objects;       // object code that was measured, and the record of it
  std::map<std::string, i64> failures;  // by status
  std::string example_failure;
  int worker_task = -1;
  Kernel incumbent;        // best kernel so far; empty code = none
  double least_flops = 0;  // see least_flops.h

  // Measured candidates that were right, fastest first.
  std::vector<Candidate> elites(std::size_t most) const;
  // Where a strategy begins: the elites, and after them the seeds of other machines and transfer seeds.
  std::vector<Candidate> parents(std::size_t most) const;
  bool is_own(const Record& record) const { return machine_of(record.host) == machine; }
};

// A task is opened in three steps, so that a long list begins at once and a task that is not tuned costs little. They
// set `problem` of the progress if the task cannot be tuned, and end early once `stop` is true.
// 1. What is known without building anything. Asks for `host` if it is empty. At most so many measured candidates are
// remembered.
void name_task(TaskState& state, const TuneTask& task, const rules::Library& library, const TuneOptions& options,
               SampleLimits limits = {});
// 2. The records of all tasks, in one pass over the database. False if `stop` cut it short.
bool read_records(std::span<TaskState> states, Database& database, const TuneOptions& options,
                  const std::function<bool()>& stop = {});
// 3. The space, and in it the candidates of the records that are remembered, which `threads` build. It does not touch
// the database, which a batch that is measured meanwhile writes to.
void open_space(TaskState& state, const rules::Library& library, const TuneOptions& options, TuneObserver& observer,
                const std::function<bool()>& stop = {}, int threads = 1);
// All three for one task.
void open_task(TaskState& state, const TuneTask& task, const rules::Library& library, const TuneOptions& options,
               Database& database, TuneObserver& observer);
// Frees what is needed only while the task is tuned. Its progress and the sample for cost models stay.
void close_space(TaskState& state);

// Remembers the object code of a trial, unless the worker was lost with it.
void note_object(TaskState& state, const Record& record);

// Counts one trial in the progress.
void note_trial(TaskState& state, const Hash128& program, const Record& record);
// Adds a measured candidate to the sample. False if its features are not known and it cannot be built.
bool note_candidate(TaskState& state, Candidate candidate, double seconds);
// Does both for a record of another tuner. False if its trace is none of the space.
bool note_record(TaskState& state, const Record& record);

}  // namespace tw
