// What the tuner knows about one task while it runs: space, records, incumbent, dataset rows. Loading it from the database is how a
// run resumes.
#pragma once
#include <map>

#include "sampler/search/evolution.h"
#include "sampler/search/tune.h"

namespace tw {

// A measured candidate of this task, of this or an earlier run.
struct Measured {
  Candidate candidate;
  double seconds = 0;  // infinity = failed
};

struct TaskState {
  const TuneTask* task = nullptr;
  CandidateSpace space;
  std::string workload_key, target_key;  // of the database
  std::string host;                      // what measures (Record::host)
  TaskProgress progress;
  i64 rounds = 0;
  i64 last_record = 0;                   // the latest record of the database that was read
  HashSet measured;                      // programs, failed ones too
  KnownCandidates known;                 // what the search has built
  std::vector<Measured> history;         // those whose sketch is in the space, oldest first
  std::vector<Candidate> seeds;          // the best ones of other machines; their times say nothing about this one
  std::map<Hash128, Record> recorded;    // for --replay-measurements
  std::map<Hash128, i64> objects;        // object code that was measured, and the record of it
  std::map<std::string, i64> failures;   // by status
  std::string example_failure;
  int worker_task = -1;
  Kernel incumbent;                      // best kernel so far; empty code = none
  Tolerance tolerance;
  double least_flops = 0;                // see least_flops.h

  // Measured candidates that were right, fastest first.
  std::vector<Candidate> elites(std::size_t most) const;
  // Where evolution begins: these, and then the seeds.
  std::vector<Candidate> parents(std::size_t most) const;
  bool is_own(const Record& record) const { return machine_of(record.host) == machine_of(host); }
};

// Builds the space (until `stop` says true) and reads the records. Asks for `host` if it is empty. `problem` of the progress is set if nothing can be tuned.
void open_task(TaskState& state, const TuneTask& task, const rules::Library& library, const TuneOptions& options, Database& database,
               TuneObserver& observer, const std::function<bool()>& stop = {});

// Remembers the object code of a trial, unless the worker was lost with it.
void note_object(TaskState& state, const Record& record);

// Adds what one trial gave, of this run or, from its record, of another. False: its trace cannot be read.
void note_trial(TaskState& state, const Candidate* candidate, const Hash128& program, const Record& record);
bool note_record(TaskState& state, const Record& record);

}  // namespace tw
