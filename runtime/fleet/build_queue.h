// BuildQueue: the part of the queue that is about machine code for machines without a compiler. A machine says for
// which targets it wants built code; a builder takes trials for these, builds them, and stores signed code, which the
// machine fetches with the trial. Used by sampler/fleet and `tracewright fleet`. It neither builds nor signs nor
// checks, and believes nothing: whoever may write to the database may write anything here. All its SQL is in
// build_sql.h.
//
// A builder's deadline is like that of a lease: heartbeats move it on, and what a builder leaves behind goes to another
// one. Builds live as long as their trials.
#pragma once
#include <string>
#include <vector>

#include "runtime/fleet/trial_queue.h"

namespace tw {

namespace fault {
inline constexpr std::string_view kNotSigned = "not signed",  // built code without a valid signature: it is not run
    kNotBuilt = "not built";                                  // several builders were lost while they built it
}

// Limits in bytes, which the database checks.
inline constexpr std::size_t kLongestBuild = std::size_t{32} << 20, kLongestBuiltTask = std::size_t{256} << 20;
inline constexpr int kMostBuilders = 3;  // that may be lost with a trial before it ends with the fault `not built`

// What built code has to fit: the version of tracewright that runs it, the processor that runs the reference (text of a
// target), and the public key that the machine checks with.
struct BuildKind {
  std::string version, processor, key;
  std::string text() const;
};

// What machines want built.
struct WantedBuild {
  std::string target;     // of the trials
  std::string kind;       // BuildKind::text()
  std::string processor;  // target of the reference: `target` itself, or for a device the machine's processor
  bool operator==(const WantedBuild&) const = default;
};
// What a WantedBuild is for, as its `target` says.
struct BuildPurpose {
  enum class Sort : u8 {
    Trials,       // the code of all trials for a target
    Calibration,  // the kernels of a machine's calibration
    Record        // the kernel of a record, the best one that a tuner knows
  };
  Sort sort = Sort::Trials;
  std::string target;
  i64 record = 0;
  std::string text() const;
  static BuildPurpose parse(const std::string& text);
  bool operator==(const BuildPurpose&) const = default;
  // Under which task_of() and store_task() know what is not of a trial.
  QueuedTrial task() const { return {.workload = std::string(32, '0'), .target = text()}; }
};

// What a builder made of a trial or a task, and its signature.
struct SignedBytes {
  std::string content, signature;
  bool empty() const { return content.empty(); }
};

struct TakenBuild {
  i64 trial = 0;
  QueuedTrial what;
  std::string kind;
  i64 attempts = 1;  // builders that have taken it, this one too
};

struct FleetBuilder {
  std::string name, version, targets, key;
  i64 built = 0, failed = 0, faults = 0;  // trials: with code; that cannot be compiled; that ended with a fault
  double heartbeat_age = 0;               // seconds
  bool is_gone = false;
};
struct UnbuiltTarget {
  std::string target, kind;
  i64 trials = 0, builders = 0;  // that wait for built code; that build for it now
};
struct BuildStatus {
  std::vector<FleetBuilder> builders;
  std::vector<UnbuiltTarget> targets;
};

// A view of a queue's connection.
class BuildQueue {
 public:
  explicit BuildQueue(TrialQueue& queue) : queue_(queue), connection_(queue.connection()) {}

  // ---- of machines

  // All that this machine wants built, in place of what it wanted before.
  DatabaseStatus want(i64 machine, const std::vector<WantedBuild>& wanted);
  // Those of the targets for which there is a builder now.
  DatabaseResult<std::vector<std::string>> with_builder(const std::vector<WantedBuild>& wanted);
  // Empty if it is not there.
  DatabaseResult<SignedBytes> build_of(i64 trial, const std::string& kind);
  DatabaseResult<SignedBytes> task_of(const QueuedTrial& trial, const std::string& kind);

  // ---- of builders

  // Gives the builder an id. Removes builders and tasks that nobody has used for a week.
  DatabaseResult<i64> add_builder(const FleetBuilder& builder);
  DatabaseResult<std::vector<WantedBuild>> wanted();
  // A trial for `target` with the program and the trace of a record, which some tuner told a machine as the best one
  // that it knows. nullopt: none does just now.
  DatabaseResult<std::optional<QueuedTrial>> trial_of_record(i64 record, const std::string& target);
  // Tells machines that this builder builds these.
  DatabaseStatus offer(i64 builder, const std::vector<WantedBuild>& wanted);
  // At most `most` trials that nobody has built, oldest first.
  DatabaseResult<std::vector<TakenBuild>> take(i64 builder, const std::vector<WantedBuild>& wanted, int most);
  // Stores what became of a trial; `counted` says which count of the builder goes up. False: it was taken by another
  // one meanwhile, or is gone.
  DatabaseResult<bool> store(i64 builder, const TakenBuild& taken, const SignedBytes& build,
                             i64 FleetBuilder::* counted);
  // Machines are told.
  DatabaseStatus store_task(const QueuedTrial& trial, const std::string& kind, const SignedBytes& task);
  // False if the builder is not known any more.
  DatabaseResult<bool> beat(i64 builder);
  // What the builder has taken and not stored goes to others, as if nobody had had it.
  DatabaseStatus give_back(i64 builder);
  DatabaseStatus leave(i64 builder);

  DatabaseResult<BuildStatus> status();

 private:
  TrialQueue& queue_;
  PostgresConnection& connection_;
};

}  // namespace tw
