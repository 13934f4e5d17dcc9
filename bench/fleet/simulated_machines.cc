#include "bench/fleet/simulated_machines.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "dsl/base/clock.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "runtime/fleet/result_batch.h"
#include "runtime/store/server_answers.h"

namespace tw::bench {
namespace {

constexpr std::size_t kBeatenTogether = 64;
constexpr std::chrono::milliseconds kPoll(1000), kLongestPoll(2000);
constexpr const char* kHost = "simulated machine";

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

void add(std::atomic<double>& sum, double value) { sum.fetch_add(value, std::memory_order_relaxed); }

}  // namespace

double simulated_kernel_seconds(const std::string& trace) {
  constexpr double kUsual = 1e-3, kEffect = 0.08;
  double sum = 0;
  // Without a copy of each line: a thousand machines share the processors with the server.
  for (std::string_view rest = trace; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    sum += static_cast<double>(hash_bytes(rest.substr(0, end)).low % 2001) / 1000 - 1;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::clamp(kUsual * std::exp(kEffect * sum), 1e-6, 1.0);
}

struct SimulatedMachines::Machine {
  int number = 0;
  std::atomic<i64> id = 0;  // of the queue; 0 = it is lost, or not there yet
  Rng rng{0};
  std::atomic<i64> good = 0, failed = 0, faults = 0, late = 0, repeated = 0, lost = 0;
  std::atomic<i64> leases = 0, writes = 0, beats = 0, left_out = 0;
  std::atomic<double> busy = 0, leasing = 0, finishing = 0, held = 0, longest_held = 0;
  std::optional<LastingQueue> queue;
  std::vector<LeasedTrial> ahead;  // leased while the last trial before them was measured
  struct Result {
    LeasedTrial trial;
    Record record;  // without a status: a fault
    double at = 0;
  };
  ResultBatch<Result> unwritten;
  std::string error;
};

SimulatedMachines::SimulatedMachines(const SimulatedFleet& fleet)
    : fleet_(fleet), waiting_{.must_stop = [this] { return stop_.load(); }, .say = [](const std::string&) {}} {
  for (int i = 0; i < fleet.machines; ++i) {
    machines_.push_back(std::make_unique<Machine>());
    machines_.back()->number = i;
    machines_.back()->rng = Rng(fleet.seed, static_cast<u64>(i));
  }
  for (auto& machine : machines_) threads_.emplace_back([this, machine = machine.get()] { work(*machine); });
  for (std::size_t first = 0; first < machines_.size(); first += kBeatenTogether)
    beats_.emplace_back([this, first] { beat(first, std::min(first + kBeatenTogether, machines_.size())); });
}

SimulatedMachines::~SimulatedMachines() { stop(); }

void SimulatedMachines::stop() {
  stop_ = true;
  for (auto* all : {&threads_, &beats_}) {
    for (std::thread& thread : *all) thread.join();
    all->clear();
  }
  for (const auto& machine : machines_) {
    if (!machine->error.empty()) error_ = machine->error;
  }
}

SimulatedCounts SimulatedMachines::counts() const {
  SimulatedCounts sum;
  for (const auto& machine : machines_) {
    sum.good += machine->good, sum.failed += machine->failed, sum.faults += machine->faults;
    sum.late += machine->late, sum.repeated += machine->repeated, sum.lost += machine->lost;
    sum.machines += machine->id != 0;
    sum.busy += machine->busy, sum.leasing += machine->leasing, sum.finishing += machine->finishing;
    sum.leases += machine->leases, sum.writes += machine->writes, sum.held += machine->held;
    sum.beats += machine->beats, sum.left_out += machine->left_out;
    sum.longest_held = std::max<double>(sum.longest_held, machine->longest_held);
  }
  return sum;
}

bool SimulatedMachines::announce(Machine& machine) {
  FleetMachine shown{.name = cat("simulated ", machine.number), .host = kHost, .version = TW_VERSION};
  auto id = machine.queue->call<i64>(waiting_, [&](TrialQueue& calls) { return calls.add_machine(shown); });
  machine.id = id.value_or(0);
  return id.has_value();
}

// Into machine.ahead.
bool SimulatedMachines::lease(Machine& machine) {
  using Trials = std::vector<LeasedTrial>;
  double begin = seconds_now();
  auto leased = machine.queue->call<Trials>(waiting_, [&](TrialQueue& calls) -> DatabaseResult<Trials> {
    auto wanted = calls.wanted_targets();
    if (!wanted) return wanted.failure();
    for (MeasuredTarget& target : *wanted) target.host = kHost, target.machine = machine_of(kHost);
    if (wanted->empty()) return Trials();
    if (auto offered = calls.offer(*wanted); !offered) return offered.failure();
    return calls.lease(machine.id, *wanted, machine.unwritten.lease_size(fleet_.most));
  });
  add(machine.leasing, seconds_now() - begin);
  ++machine.leases;
  machine.unwritten.note_lease(seconds_now() - begin);
  if (leased) machine.ahead = std::move(*leased);
  return leased.has_value();
}

void SimulatedMachines::work(Machine& machine) {
  constexpr double kBetweenStarts = 5e-3;  // a server takes as long for a new session
  sleep(kBetweenStarts * machine.number);
  auto opened = open_when_it_answers(fleet_.address, waiting_, [&] { return TrialQueue::open(fleet_.address); });
  if (!opened) return void(machine.error = stop_ ? "" : opened.error());
  machine.queue.emplace(std::move(*opened));
  bool is_there = announce(machine);
  std::chrono::milliseconds poll = kPoll;
  while (is_there && !stop_) {
    if (machine.ahead.empty()) {
      write(machine);
      if (!lease(machine)) break;
      if (machine.ahead.empty()) {
        machine.queue->call<Done>(waiting_, [&](TrialQueue& calls) { return calls.wait(poll); });
        poll = std::min(2 * poll, kLongestPoll);
        continue;
      }
      if (fleet_.compile > 0) sleep(fleet_.compile);
    }
    poll = kPoll;
    const std::vector<LeasedTrial> trials = std::exchange(machine.ahead, {});
    for (std::size_t i = 0; i < trials.size() && !stop_ && machine.id != 0; ++i)
      measure(machine, trials[i], i + 1 == trials.size());
    if (machine.id == 0) machine.ahead.clear(), sleep(fleet_.lost_seconds), is_there = announce(machine);
  }
  write(machine);
  Waiting no_longer{.must_stop = [] { return true; }, .say = waiting_.say};
  machine.queue->call<i64>(no_longer, [&](TrialQueue& calls) { return calls.give_back(machine.id); });
  machine.queue->call<Done>(no_longer, [&](TrialQueue& calls) { return calls.leave(machine.id); });
  machine.error = machine.queue->error();
}

void SimulatedMachines::measure(Machine& machine, const LeasedTrial& trial, bool is_last) {
  Rng& rng = machine.rng;
  // The mean of exp(spread * normal) is exp(spread^2 / 2).
  double seconds = fleet_.seconds * std::exp(fleet_.spread * rng.normal() - fleet_.spread * fleet_.spread / 2);
  double begin = seconds_now();
  if (is_last || machine.unwritten.is_due(begin, fleet_.seconds)) write(machine);
  if (is_last) lease(machine);
  sleep_and_write(machine, begin + seconds);
  add(machine.busy, seconds);  // without what the sleep took longer
  double luck = rng.uniform();
  if ((luck -= fleet_.lost) < 0) return machine.unwritten.drop(), ++machine.lost, void(machine.id = 0);
  bool is_fault = (luck -= fleet_.faults) < 0, is_failed = !is_fault && (luck -= fleet_.failed) < 0;
  Record record{.workload = trial.trial.workload, .target = trial.trial.target, .status = "ok"};
  record.seconds = record.minimum = record.median = simulated_kernel_seconds(trial.trial.trace);
  record.generation = trial.trial.generation, record.task = trial.trial.task, record.program = trial.trial.program;
  record.seed = trial.trial.seed, record.version = TW_VERSION, record.host = kHost, record.trace = trial.trial.trace;
  record.object = to_hex(hash_bytes(record.program));
  if (is_failed) record.status = "crash", record.seconds = record.minimum = record.median = 0;
  if (is_fault) record.status.clear();
  const double now = seconds_now();
  machine.unwritten.add({trial, std::move(record), now}, now);
}

// Sleeps until `end`; results that have waited too long by then are written meanwhile.
void SimulatedMachines::sleep_and_write(Machine& machine, double end) {
  const double now = seconds_now();
  if (!machine.unwritten.empty() && now + machine.unwritten.overdue_in(now) < end) {
    sleep(std::max(machine.unwritten.overdue_in(now), 0.0));
    write(machine);
  }
  sleep(std::max(end - seconds_now(), 0.0));
}

// The results that wait. If that fails, the machine has ended.
void SimulatedMachines::write(Machine& machine) {
  if (machine.unwritten.empty()) return;
  using Answers = std::vector<Finished>;
  const double begin = seconds_now();
  std::vector<TrialResult> results;
  for (const Machine::Result& one : machine.unwritten.results()) {
    add(machine.held, begin - one.at);
    machine.longest_held = std::max<double>(machine.longest_held, begin - one.at);
    if (!one.record.status.empty()) results.push_back({one.trial, one.record});
  }
  auto note = [&](const Finished& finished, std::atomic<i64>& kind) {
    ++(finished.accepted == Accepted::Yes    ? kind
       : finished.accepted == Accepted::Late ? machine.late
                                             : machine.repeated);
  };
  for (const Machine::Result& one : machine.unwritten.results()) {
    if (!one.record.status.empty()) continue;
    auto ended = machine.queue->call<Finished>(waiting_, [&](TrialQueue& calls) {
      return calls.finish_with_fault(machine.id, one.trial, fault::kNoReference, "a simulated fault");
    });
    if (ended) note(*ended, machine.faults);
  }
  auto finished =
      machine.queue->call<Answers>(waiting_, [&](TrialQueue& calls) { return calls.finish(machine.id, results); });
  ++machine.writes;
  add(machine.finishing, seconds_now() - begin);
  for (std::size_t i = 0; finished && i < results.size(); ++i)
    note((*finished)[i], results[i].record.ok() ? machine.good : machine.failed);
  machine.unwritten.take_written(seconds_now() - begin);
}

void SimulatedMachines::beat(std::size_t first, std::size_t end) {
  auto opened = TrialQueue::open(fleet_.address);
  if (!opened) return;
  LastingQueue queue(std::move(*opened));
  double next = seconds_now() + kHeartbeatSeconds;
  while (!stop_) {
    sleep(0.05);
    if (seconds_now() < next) continue;
    next += kHeartbeatSeconds;
    for (std::size_t i = first; i < end && !stop_; ++i) {
      Machine& machine = *machines_[i];
      const i64 id = machine.id;
      if (id == 0) continue;
      if (machine.queue->life_signs()->leave_out(seconds_now())) {
        ++machine.left_out;
        continue;
      }
      ++machine.beats;
      queue.call<std::optional<i64>>(waiting_, [&](TrialQueue& calls) { return calls.beat_machine(id); });
    }
  }
}

}  // namespace tw::bench
