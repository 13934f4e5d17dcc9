#include "sampler/fleet/measuring_machine.h"

#include <algorithm>
#include <chrono>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/measure/machine_memory.h"
#include "runtime/store/server_answers.h"
#include "sampler/search/other_cores.h"

namespace tw {
namespace {

constexpr int kLeased = 4;  // trials of one lease, of a quick server: one is compiled while another is measured
// All trials of a lease end within kLongestLeaseSeconds. Where they take long, a machine leases fewer.
constexpr double kShareOfLease = 0.25;
// Notifications wake a wait. Where one is lost it ends after a second, and later each time that there is nothing.
constexpr std::chrono::milliseconds kPoll(1000), kLongestPoll(2000);
constexpr double kOpenBytes = 2.0 * (1 << 30);  // of the tasks that are open at once; one alone may have more

Target own_processor() {
  Target processor = processor_for_others();
  processor.threads = 1;
  return processor;
}

}  // namespace

MeasuringMachine::MeasuringMachine(MachineOptions options, Waiting waiting)
    : options_(std::move(options)),
      waiting_(std::move(waiting)),
      targets_(options_.why_no_device),
      classes_(options_.calibrate_every, options_.aside_seconds, waiting_) {
  if (!options_.metrics) options_.metrics = std::make_shared<MachineMetrics>(options_.announced.name, TW_VERSION);
}

bool MeasuringMachine::fail(const std::string& why) {
  if (report_.error.empty()) report_.error = why;
  return false;
}

MachineReport MeasuringMachine::run() {
  if (!open()) return report_;
  std::chrono::milliseconds poll = kPoll;
  while (!waiting_.must_stop() && report_.error.empty()) {
    std::optional<Lease> lease = next_lease();
    if (!lease) break;
    if (lease->trials.empty()) {
      queue_->call<Done>(waiting_, [&](TrialQueue& queue) { return queue.wait(poll); });
      poll = std::min(2 * poll, kLongestPoll);
      continue;
    }
    poll = kPoll;
    const double begin = seconds_now();
    if (!measure_all(*lease)) break;
    trial_seconds_ = (seconds_now() - begin) / static_cast<double>(lease->trials.size());
  }
  if (!queue_->error().empty()) fail(queue_->error());
  Waiting no_longer{.must_stop = [] { return true; }, .say = waiting_.say};
  write_results(no_longer);
  ahead_.reset();
  heartbeat_.reset();
  auto back = queue_->call<i64>(no_longer, [&](TrialQueue& queue) { return queue.give_back(id_); });
  report_.given_back += back.value_or(0);
  options_.metrics->add_given_back(back.value_or(0));
  queue_->call<Done>(no_longer, [&](TrialQueue& queue) { return queue.leave(id_); });
  report_.calibrations = classes_.calibrations(), report_.times_aside = classes_.times_aside();
  return report_;
}

// ---- the database

bool MeasuringMachine::open() {
  const std::string& address = options_.address;
  auto queue = open_when_it_answers(address, waiting_, [&] { return TrialQueue::open(address); });
  if (!queue) return fail(queue.error());
  queue_.emplace(std::move(*queue));
  DatabaseStatus opened = open_when_it_answers(address, waiting_, [&] { return reopen_database(); });
  if (!opened) return fail(opened.error());
  const Target processor = own_processor();
  if (!add_class(measuring_host(processor, -1), processor) || !announce()) return false;
  auto beat = [this, signs = queue_->life_signs()](TrialQueue& beats) -> DatabaseResult<bool> {
    if (signs->leave_out(seconds_now())) return options_.metrics->set_heartbeat(), true;
    DatabaseResult<std::optional<i64>> lost = beats.beat_machine(id_);
    if (!lost) return lost.failure();
    if (*lost)
      options_.metrics->set_heartbeat(**lost);
    else
      is_unknown_ = true;
    return lost->has_value();
  };
  heartbeat_ = std::make_unique<Heartbeat>(options_.address, beat);
  return true;
}

bool MeasuringMachine::announce() {
  auto id = queue_->call<i64>(waiting_, [&](TrialQueue& queue) { return queue.add_machine(options_.announced); });
  if (!id) return fail(queue_->error());
  id_ = *id;
  is_unknown_ = false;
  options_.metrics->announced_again();
  return classes_.tell(*queue_, id_);
}

// ---- classes

// Calibrates the processor or a device for the first time, where that is possible by now. False: there is no worker for
// it, or the machine ends.
bool MeasuringMachine::add_class(const std::string& host, const Target& target) {
  Measurer* measurer = worker_for(target);
  if (!measurer) return false;
  if (options_.calibrator) {
    Calibrate calibrate = options_.calibrator(*measurer, target);
    calibrate ? classes_.add(host, std::move(calibrate)) : classes_.add_uncalibrated(host);
    return true;
  }
  std::string problem;
  auto calibrate = queue_->call<Calibrate>(
      waiting_, [&](TrialQueue& queue) { return options_.kernels->calibrate(queue, *measurer, target, problem); });
  if (!calibrate) return false;
  if (*calibrate) classes_.add(host, std::move(*calibrate));
  if (!problem.empty() && problem != calibration_problem_)
    waiting_.say(cat(machine_of(host), " cannot be calibrated: ", problem));
  calibration_problem_ = problem;
  return true;
}

std::optional<std::vector<MeasuredTarget>> MeasuringMachine::wanted_targets() {
  return queue_->call<std::vector<MeasuredTarget>>(waiting_, [](TrialQueue& queue) { return queue.wanted_targets(); });
}

// Is there one that this machine has not been calibrated for?
bool MeasuringMachine::has_new_target(const std::vector<MeasuredTarget>& wanted) {
  return std::ranges::any_of(wanted, [&](const MeasuredTarget& target) {
    const auto& measured = targets_.of(target.target);
    return measured && !classes_.knows(measured->host);
  });
}

// Calibrates where that is due. False: the machine ends.
bool MeasuringMachine::keep_up(const std::vector<MeasuredTarget>& wanted) {
  for (const MeasuredTarget& target : wanted) {
    const auto& measured = targets_.of(target.target);
    if (!measured || classes_.knows(measured->host)) continue;
    Source source{"target", target.target};
    Diagnostics ignored(source);
    const Target device = *parse_target(target.target, 0, ignored);
    if (!add_class(measured->host, is_device(device) ? device : own_processor())) return false;
  }
  if (!classes_.keep_up(*queue_, id_)) return false;
  if (class_changes_ != classes_.changes()) {
    while (!tasks_.empty()) close_first();
    class_changes_ = classes_.changes();
  }
  return true;
}

// Those that this machine measures for now.
std::vector<MeasuredTarget> MeasuringMachine::own_targets(const std::vector<MeasuredTarget>& wanted) {
  std::vector<MeasuredTarget> own;
  for (const MeasuredTarget& target : wanted) {
    if (std::optional<MeasuredTarget> one = own_target(target)) own.push_back(std::move(*one));
  }
  return own;
}

// As records name this machine; nullopt: it does not measure for the target, or not now.
std::optional<MeasuredTarget> MeasuringMachine::own_target(const MeasuredTarget& wanted) {
  const auto& measured = targets_.of(wanted.target);
  const Classified* own = measured ? classes_.find(measured->host) : nullptr;
  if (!own || own->is_aside) return std::nullopt;
  if (!is_wanted_machine(wanted.wanted, fingerprint_of(options_.announced, measured->host, own->number)))
    return std::nullopt;
  return MeasuredTarget{wanted.target, own->host, machine_of(own->host), wanted.wanted, wanted.has_machine};
}

DatabaseStatus MeasuringMachine::reopen_database() {
  auto database = Database::open(options_.address, DatabaseMode::Write);
  if (!database) return database.failure();
  database_.emplace(std::move(*database));
  reconnections_ = queue_->reconnections();
  options_.metrics->set_reconnections(reconnections_);
  return Done{};
}

// nullopt: the machine ends.
std::optional<MeasuringMachine::Lease> MeasuringMachine::next_lease() {
  using Trials = std::vector<LeasedTrial>;
  if (ahead_) return std::exchange(ahead_, std::nullopt);
  if (!write_results(waiting_) || (is_unknown_ && !announce())) return std::nullopt;
  std::optional<std::vector<MeasuredTarget>> wanted = wanted_targets();
  if (!wanted || !keep_up(*wanted)) return std::nullopt;
  const std::vector<MeasuredTarget> own = own_targets(*wanted);
  auto trials = queue_->call<Trials>(waiting_, [&](TrialQueue& queue) -> DatabaseResult<Trials> {
    if (reconnections_ != queue_->reconnections()) {
      // What was leased when the connection was lost may not be known here.
      auto back = queue.give_back(id_);
      if (!back) return back.failure();
      options_.metrics->add_given_back(*back);
      if (auto opened = reopen_database(); !opened) return opened.failure();
    }
    return options_.kernels->lease(queue, id_, own, lease_size());
  });
  if (!trials) return std::nullopt;
  options_.metrics->add_leased(std::ssize(*trials));
  return Lease{std::move(*trials), nullptr};
}

// The next lease, while the last trial of the one at hand is measured, so that its first kernel is there in time. Where
// there is more to do than to lease, next_lease() does it. False: the machine ends.
bool MeasuringMachine::lease_ahead() {
  using Trials = std::vector<LeasedTrial>;
  auto is_connected = [&] { return reconnections_ == queue_->reconnections(); };
  if (waiting_.must_stop() || is_unknown_ || classes_.is_due() || !is_connected()) return true;
  std::optional<std::vector<MeasuredTarget>> wanted = wanted_targets();
  if (!wanted) return false;
  const std::vector<MeasuredTarget> own = own_targets(*wanted);
  if (own.empty() || has_new_target(*wanted)) return true;
  const double begin = seconds_now();
  auto trials = queue_->call<Trials>(waiting_, [&](TrialQueue& queue) -> DatabaseResult<Trials> {
    if (!is_connected()) return Trials();
    return options_.kernels->lease(queue, id_, own, lease_size());
  });
  if (!trials) return false;
  unwritten_.note_lease(seconds_now() - begin);
  options_.metrics->add_leased(std::ssize(*trials));
  if (trials->empty()) return true;
  ahead_.emplace(std::move(*trials), nullptr);
  const std::span<const LeasedTrial> first = first_group(ahead_->trials);
  auto task = std::ranges::find_if(tasks_, [&](const auto& open) { return open->is_of(first[0].trial); });
  if (task != tasks_.end() && !(*task)->needs_all_cores()) ahead_->builds = begin_builds(**task, first);
  return true;
}

int MeasuringMachine::lease_size() const {
  double most = kShareOfLease * kLongestLeaseSeconds / std::max(trial_seconds_, 1e-3);
  return static_cast<int>(std::clamp<double>(most, 1, unwritten_.lease_size(kLeased)));
}

// ---- trials

bool MeasuringMachine::measure_all(Lease& lease) {
  std::span<const LeasedTrial> left = lease.trials;
  while (!left.empty()) {
    const std::span<const LeasedTrial> group = first_group(left);
    left = left.subspan(group.size());
    if (!measure_group(group, std::exchange(lease.builds, nullptr), /*is_last=*/left.empty())) return false;
  }
  return true;
}

// Trials of one task. False: the machine ends, or what is left goes back.
bool MeasuringMachine::measure_group(std::span<const LeasedTrial> trials, std::unique_ptr<Builds> builds,
                                     bool is_last) {
  TrialFault fault;
  FleetTask* task = open_task(trials[0].trial, fault);
  if (!task && fault.kind.empty()) return !fault.message.empty() && open_database_again(fault.message);
  if (!task) return std::ranges::all_of(trials, [&](const LeasedTrial& t) { return end_with_fault(t, fault); });
  if (DatabaseStatus read = options_.kernels->read_new_records(*task, *database_); !read)
    return open_database_again(read.error());
  auto taken = queue_->call<Done>(waiting_, [&](TrialQueue& queue) -> DatabaseStatus {
    auto told = queue.incumbent(trials[0]);
    if (!told) return told.failure();
    return *told ? options_.kernels->take_incumbent(queue, *task, **told) : Done{};
  });
  if (!taken) return false;
  failures_ = 0;
  if (!task->may_read && !ask_for_results(*task, trials)) return false;
  if (!builds) builds = begin_builds(*task, trials);
  if (task->needs_all_cores()) builds->finish(waiting_.must_stop);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    // No result waits for the compiler.
    if (!builds->is_there(i) && !write_results(waiting_)) return false;
    const bool is_last_of_all = is_last && i + 1 == trials.size();
    if (waiting_.must_stop() || !measure(trials[i], *task, builds->take(i), is_last_of_all)) return false;
  }
  return true;
}

// Of programs that others have measured. False: the machine ends.
bool MeasuringMachine::ask_for_results(FleetTask& task, std::span<const LeasedTrial> trials) {
  for (const LeasedTrial& leased : trials) {
    std::optional<Hash128> program = parse_hash(leased.trial.program);
    if (!program || task.programs.count(*program)) continue;
    auto known =
        queue_->call<i64>(waiting_, [&](TrialQueue& queue) { return queue.known_result(leased.trial, task.machine); });
    if (!known) return false;
    if (*known != 0) task.programs.emplace(*program, *known);
  }
  return true;
}

// The next lease gives all back, and then takes some with a new connection. False: it has failed too often.
bool MeasuringMachine::open_database_again(const std::string& why) {
  constexpr int kMostFailures = 5;
  reconnections_ = -1;
  return ++failures_ < kMostFailures || fail(why);
}

std::unique_ptr<MeasuringMachine::Builds> MeasuringMachine::begin_builds(const FleetTask& task,
                                                                         std::span<const LeasedTrial> trials) const {
  std::vector<bool> is_known;
  for (const LeasedTrial& leased : trials) {
    std::optional<Hash128> program = parse_hash(leased.trial.program);
    is_known.push_back(program && task.programs.count(*program));
  }
  auto build = [&task, trials, is_known, kernels = options_.kernels](std::size_t i, int) -> BuiltFleetTrial {
    return is_known[i] ? BuiltFleetTrial() : kernels->build(task, trials[i]);
  };
  // The thread that compiles leaves the measuring core alone.
  OtherCores affinity(usable_threads() > 1);
  return std::make_unique<Builds>(trials.size(), /*threads=*/1, std::move(build));
}

// Is there a result that waits of which the trial must know?
bool MeasuringMachine::is_needed_for(const LeasedTrial& leased, const FleetTask& task, const Hash128& object) const {
  return std::ranges::any_of(unwritten_.results(), [&](const Unwritten& result) {
    return result.task != &task || result.record.program == leased.trial.program || result.object == object;
  });
}

// False: the machine ends, or what is left goes back.
bool MeasuringMachine::measure(const LeasedTrial& leased, FleetTask& task, BuiltFleetTrial made, bool is_last) {
  const QueuedTrial& trial = leased.trial;
  trial_began_ = seconds_now();
  std::optional<Hash128> program = parse_hash(trial.program);
  if (!program) return end_with_fault(leased, {fault::kRefused, "the program's hash is none"});
  // What is known of the task must be complete where it matters for this trial.
  if (is_needed_for(leased, task, made.object) && !write_results(waiting_)) return false;
  if (auto known = task.programs.find(*program); known != task.programs.end()) {
    auto finished = queue_->call<Finished>(
        waiting_, [&](TrialQueue& queue) { return queue.finish_known(id_, leased, known->second); });
    return count(finished, &MachineCounts::good, MachineMetrics::kKnown, seconds_now() - trial_began_);
  }
  if (!made.fault.kind.empty()) return end_with_fault(leased, made.fault);
  Unwritten result{.leased = leased, .task = &task};
  Record& record = result.record;
  record.workload = trial.workload, record.target = trial.target, record.seed = trial.seed;
  record.generation = trial.generation, record.task = trial.task, record.program = trial.program;
  record.version = TW_VERSION, record.host = task.host, record.trace = trial.trace;
  if (!made.built.kernel) {
    set_result(record, {.status = MeasureStatus::BuildError, .message = made.built.problem});
    return end_with_record(result);
  }
  record.object = to_hex(made.object);
  if (auto same = task.objects.find(made.object); same != task.objects.end()) {
    set_same_code(record, same->second);
    return end_with_record(result);
  }
  result.object = made.object;
  return measure_kernel(leased, task, std::move(result), std::move(*made.built.kernel), is_last);
}

bool MeasuringMachine::measure_kernel(const LeasedTrial& leased, FleetTask& task, Unwritten measured, Kernel kernel,
                                      bool is_last) {
  const bool is_baseline = leased.trial.trace.empty();
  MeasuredTask options{.worker_task = task.worker_task,
                       .points = task.points,
                       .target = task.target,
                       .timing = task.is_cold ? Timing::Cold : Timing::Warm,
                       .incumbent = task.incumbent.code.empty() ? nullptr : &task.incumbent,
                       .incumbent_seconds = task.incumbent.code.empty() ? 0 : task.incumbent_seconds,
                       .least_flops = task.least_flops,
                       .best_seconds = task.best};
  classes_.note_trials(1);
  bool goes_on = true;
  task.measurer->do_meanwhile([&] {
    const bool must_write = is_last || unwritten_.is_due(seconds_now(), trial_seconds_);
    goes_on = (!must_write || write_results(waiting_)) && (!is_last || lease_ahead());
  });
  MeasureResult result = measure_trial(*task.measurer, options, kernel, is_baseline, profile_);
  if (result.was_stopped || !goes_on) return false;
  if (result.status == MeasureStatus::WorkerLost && !result.was_tried)
    return fail(cat("kernels cannot be measured any more: ", result.message));
  if (result.status == MeasureStatus::WorkerLost) measured.object.reset();
  set_result(measured.record, result);
  const double now = seconds_now();
  measured.seconds = now - trial_began_;
  const bool is_good = measured.record.ok();
  // As the database keeps it: else reading it there would look like a better one.
  const double seconds = from_picoseconds(to_picoseconds(measured.record.seconds));
  unwritten_.add(std::move(measured), now);
  if (!is_good) return true;
  task.best = std::min(task.best, seconds);
  if (is_baseline || seconds >= task.incumbent_seconds) return true;
  task.incumbent_seconds = seconds;
  task.incumbent = std::move(kernel);
  return true;
}

// The results that wait, together. False: the machine ends.
bool MeasuringMachine::write_results(const Waiting& waiting) {
  if (unwritten_.empty()) return true;
  std::vector<TrialResult> results;
  for (const Unwritten& one : unwritten_.results()) results.push_back({one.leased, one.record});
  const double begin = seconds_now();
  using All = std::vector<Finished>;
  auto finished = queue_->call<All>(waiting, [&](TrialQueue& queue) { return queue.finish(id_, results); });
  if (!finished) return false;
  const std::vector<Unwritten> written = unwritten_.take_written(seconds_now() - begin);
  for (std::size_t i = 0; i < written.size(); ++i) note_finished(written[i], (*finished)[i]);
  return true;
}

// While a kernel is measured: it may take longer than was expected. False: the machine ends.
bool MeasuringMachine::write_overdue() { return !unwritten_.is_overdue(seconds_now()) || write_results(waiting_); }

bool MeasuringMachine::end_with_fault(const LeasedTrial& leased, const TrialFault& fault) {
  auto finished = queue_->call<Finished>(
      waiting_, [&](TrialQueue& queue) { return queue.finish_with_fault(id_, leased, fault.kind, fault.message); });
  return count(finished, &MachineCounts::faults, fault.kind, 0);
}

bool MeasuringMachine::end_with_record(const Unwritten& result) {
  return note_finished(result, queue_->call<Finished>(waiting_, [&](TrialQueue& queue) {
    return queue.finish(id_, result.leased, result.record);
  }));
}

bool MeasuringMachine::note_finished(const Unwritten& result, const std::optional<Finished>& finished) {
  const Record& record = result.record;
  if (finished && finished->record != 0) {  // it may have been given before, too
    result.task->last_own = std::max(result.task->last_own, finished->record);
    if (std::optional<Hash128> program = parse_hash(record.program))
      result.task->programs.emplace(*program, finished->record);
    if (result.object) result.task->objects.emplace(*result.object, finished->record);
  }
  return count(finished, record.ok() || !record.is_trial() ? &MachineCounts::good : &MachineCounts::failed,
               record.status, result.seconds);
}

// `result`: the status of the record, or the kind of the fault.
bool MeasuringMachine::count(const std::optional<Finished>& finished, i64 MachineCounts::* kind,
                             std::string_view result, double seconds) {
  if (!finished) return false;
  MachineCounts& counts = report_.counts;
  ++(finished->accepted == Accepted::Yes    ? counts.*kind
     : finished->accepted == Accepted::Late ? counts.late
                                            : counts.repeated);
  if (finished->accepted != Accepted::Yes)
    options_.metrics->add_ignored(finished->accepted == Accepted::Repeated);
  else if (kind == &MachineCounts::faults)
    options_.metrics->add_fault(result);
  else
    options_.metrics->add_trial(result, seconds);
  return true;
}

// ---- tasks

// Null: with a fault, or it was stopped, or nothing can be measured any more.
FleetTask* MeasuringMachine::open_task(const QueuedTrial& trial, TrialFault& fault) {
  auto found = std::ranges::find_if(tasks_, [&](const auto& task) { return task->is_of(trial); });
  if (found != tasks_.end()) {
    std::rotate(found, found + 1, tasks_.end());
    return tasks_.back().get();
  }
  if (!write_results(waiting_)) return nullptr;  // tasks may be closed
  std::optional<MeasuredTarget> target = own_target({trial.target, "", "", trial.wanted});
  if (!target || !is_hash(trial.workload)) {
    fault = {fault::kRefused, "the target or the workload's hash is none that is measured here"};
    return nullptr;
  }
  std::unique_ptr<FleetTask> task = options_.kernels->read_task(trial, *target, {*database_, *queue_, waiting_}, fault);
  if (!task || !begin_task(*task, fault)) return nullptr;
  tasks_.push_back(std::move(task));
  return tasks_.back().get();
}

bool MeasuringMachine::begin_task(FleetTask& task, TrialFault& fault) {
  task.measurer = worker_for(task.target);
  if (!task.measurer) return false;
  make_room(task.bytes);
  auto begin = [&] { return options_.kernels->begin_task(task, waiting_.must_stop); };
  TaskStart start = begin();
  if (start.status == MeasureStatus::OutOfMemory && !tasks_.empty()) {  // the worker has less than the machine
    while (!tasks_.empty()) close_first();
    start = begin();
  }
  if (start.task < 0 && !start.was_stopped) fault = {fault::kNoReference, start.error};
  task.worker_task = start.task;
  return start.task >= 0;
}

Measurer* MeasuringMachine::worker_for(const Target& target) {
  WorkerOptions wanted = worker_options(target);
  for (const OpenWorker& open : workers_) {
    if (open.program == wanted.program && open.device == wanted.device) return open.measurer.get();
  }
  WorkerStart started = options_.start_worker(target);
  if (!started.measurer) return fail(started.error), nullptr;
  started.measurer->stop_when([this] { return !write_overdue() || waiting_.must_stop(); });
  workers_.push_back({wanted.program, wanted.device, std::move(started.measurer)});
  return workers_.back().measurer.get();
}

// Closes tasks, the least recently used first, until another has room.
void MeasuringMachine::make_room(double bytes) {
  double taken = 0;
  for (const auto& task : tasks_) taken += task->bytes;
  double room = std::min(kOpenBytes, taken + static_cast<double>(free_memory_bytes()));
  while (taken + bytes > room && !tasks_.empty()) {
    taken -= tasks_[0]->bytes;
    close_first();
  }
}

void MeasuringMachine::close_first() {
  tasks_[0]->measurer->end_task(tasks_[0]->worker_task);
  tasks_.erase(tasks_.begin());
}

}  // namespace tw
