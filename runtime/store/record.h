// What the database stores, as plain values: records of trials, workloads, models, runs. Each kind
// lists its fields once
// (`fields`); the digest, the columns and the exchange format come from that list. Knows nothing of
// SQLite or JSON.
#pragma once
#include <string>

#include "dsl/base/arena.h"

namespace tw {

// A field that rows of older formats do not have. 0 = not known; then the digest is the one they have.
template <class Seconds>
struct OptionalTime {
  Seconds& seconds;  // double, or const double
};

// One trial: a trace that was built, run, checked and timed, or failed on the way.
struct Record {
  i64 id = 0;            // given by the database, counts from 1
  std::string workload;  // structural hash, 32 hex digits
  std::string target;    // canonical text of a resolved Target
  std::string status;    // the name that the measurer gives: "ok", "noisy", "crash", ...
  // Seconds of one call, kept to the picosecond; all 0 if the trial failed. `seconds` is what
  // trials are compared by, with quartiles; minimum and median are of warm caches.
  double seconds = 0, minimum = 0, first_quartile = 0, median = 0, third_quartile = 0;
  // Seconds of one call on a device whose caches hold other data, median, by the device's clock; 0 = not known.
  double cold = 0;
  i64 created = 0;      // milliseconds since 1970, UTC
  u64 seed = 0;         // of the run that made it
  i64 generation = 0;   // of the search in that run
  std::string task;     // name in the task list
  std::string program;  // normalized hash of the program that the trace gives, 32 hex digits
  std::string object;   // hash of its object code, 32 hex digits; "" if there is none
  std::string version;  // of tracewright
  std::string host;     // description of the machine that measured
  std::string error;    // what went wrong; "" if ok
  std::string trace;    // .tw text

  // Correct and timed. "noisy": the machine was disturbed, the time is the best guess.
  bool ok() const { return status == "ok" || status == "noisy"; }
  // Not a trial: it compiles to the object code of an earlier one, so nothing was measured. It is
  // kept so that it is not proposed again; `error` names the other record.
  static constexpr const char* same_code = "same code";
  bool is_trial() const { return status != same_code; }
  // Of a trial whose result was to be taken from what is stored, and is not there. It counts as failed.
  static constexpr const char* not_recorded = "not recorded";
  bool operator==(const Record&) const = default;

  static constexpr const char* table = "records";
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("workload", self.workload), visit("target", self.target), visit("status", self.status);
    visit("seconds_ps", self.seconds), visit("minimum_ps", self.minimum),
        visit("first_quartile_ps", self.first_quartile);
    visit("median_ps", self.median), visit("third_quartile_ps", self.third_quartile), visit("created", self.created);
    visit("seed", self.seed), visit("generation", self.generation), visit("task", self.task);
    visit("program", self.program), visit("object", self.object);
    visit("version", self.version), visit("host", self.host);
    visit("error", self.error), visit("trace", self.trace);
    visit("cold_ps", OptionalTime{self.cold});
  }
};

struct WorkloadText {
  i64 id = 0;
  std::string hash;  // structural, 32 hex digits
  std::string text;  // .tw
  bool operator==(const WorkloadText&) const = default;

  static constexpr const char* table = "workloads";
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("hash", self.hash), visit("text", self.text);
  }
};

// The weights of a cost model, one per name and target.
struct StoredModel {
  i64 id = 0;
  std::string name, target;
  i64 version = 0;   // of the format of `data`
  std::string data;  // bytes
  bool operator==(const StoredModel&) const = default;

  static constexpr const char* table = "models";
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("name", self.name), visit("target", self.target), visit("version", self.version), visit("data", self.data);
  }
};

// One start of the program that wrote to the database.
struct StoredRun {
  i64 id = 0;
  std::string command;  // the command line
  u64 seed = 0;
  i64 started = 0,
      finished = 0;     // milliseconds since 1970, UTC; finished = 0: still going, or killed
  std::string outcome;  // one line, set when it finished
  std::string version, host;
  bool operator==(const StoredRun&) const = default;

  static constexpr const char* table = "runs";
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("command", self.command), visit("seed", self.seed), visit("started", self.started);
    visit("finished", self.finished), visit("outcome", self.outcome), visit("version", self.version);
    visit("host", self.host);
  }
};

// The part of a host description (Record::host) on which times depend: device, processor and caches, without the number
// of usable cores and the release of the system. Times of two records may be compared if it is the same.
std::string machine_of(const std::string& host);

// How a time is stored. Negative, infinite and undefined times become 0.
i64 to_picoseconds(double seconds);
inline double from_picoseconds(i64 picoseconds) { return static_cast<double>(picoseconds) * 1e-12; }

// Milliseconds since 1970, UTC.
i64 now_ms();

// XXH3-128 over kind, id and every field, as 32 hex digits. It finds damage; it does not stop
// somebody who forges a record.
std::string digest(const Record& record);
std::string digest(const WorkloadText& workload);
std::string digest(const StoredModel& model);
std::string digest(const StoredRun& run);

// 32 lower-case hex digits?
bool is_hash(const std::string& text);

// `text` with bytes that are not UTF-8 replaced by '?', cut to `most` bytes. For messages of
// strange programs.
std::string clean_text(const std::string& text, std::size_t most);

}  // namespace tw
