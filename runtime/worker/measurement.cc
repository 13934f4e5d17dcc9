#include "runtime/worker/measurement.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "dsl/base/text.h"
#include "runtime/measure/fma_probe.h"
#include "runtime/worker/flush_lines.h"

namespace tw {
namespace {

constexpr double kLoadSeconds = 10;
constexpr int kTimingAttempts = 3;
constexpr u8 kPoison[kLayouts] = {0xff, 0xa5};  // 0xff: NaN in every float type
// The child's samples must account for the wall time of the timing phase within 5 %, beside these.
constexpr double kClockPart = 0.05, kClockSlackSeconds = 1e-3, kSampleOverheadSeconds = 10e-6;
// What the child may say that a flush took, by what it takes here: lines that others have used take longer.
constexpr double kLongestFlush = 3;
constexpr double kAbovePeak = 1.05, kProbeAgainSeconds = 0.02;
constexpr int kTooFastAttempts = 2;
// The first call with new data may take so much longer than the timed ones: cold caches, an
// interrupt.
constexpr double kFreshRatio = 3, kFreshSlackSeconds = 20e-6, kFreshBytesPerSecond = 4e9;
constexpr int kFreshAttempts = 5;
// A kernel with more threads than cores waits for its turn, which the system gives every few milliseconds.
constexpr double kSharedCoreSeconds = 20e-3;

// ChildReport in memory shared with the child.
class SharedReport {
 public:
  SharedReport() {
    void* memory = mmap(nullptr, sizeof(ChildReport), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    report_ = memory == MAP_FAILED ? nullptr : new (memory) ChildReport;
  }
  SharedReport(const SharedReport&) = delete;
  SharedReport& operator=(const SharedReport&) = delete;
  ~SharedReport() {
    if (report_) munmap(report_, sizeof(ChildReport));
  }
  ChildReport* get() const { return report_; }

 private:
  ChildReport* report_;
};

// Adds its lifetime to a sum of seconds.
class Lap {
 public:
  explicit Lap(double& total) : total_(total) {}
  Lap(const Lap&) = delete;
  ~Lap() { total_ += static_cast<double>(monotonic_nanoseconds() - begin_) * 1e-9; }

 private:
  double& total_;
  i64 begin_ = monotonic_nanoseconds();
};

class Measurement {
 public:
  Measurement(WorkerState& worker, Task& task, const Kernel& candidate, Incumbent* incumbent,
              const MeasureOptions& options)
      : worker_(worker), task_(task), candidate_(candidate), incumbent_(incumbent) {
    job_.candidate = &candidate;
    job_.incumbent = incumbent ? &incumbent->kernel : nullptr;
    job_.options = options;
    job_.cpus = worker.cpus;
    while (static_cast<int>(job_.cpus.size()) < options.threads)
      job_.cpus.push_back(job_.cpus[job_.cpus.size() % worker.cpus.size()]);
    job_.memory_bytes = worker.memory_bytes;
    job_.cpu_seconds = static_cast<int>(std::ceil(options.threads * (kLoadSeconds + 12 * options.timeout_seconds))) + 1;
    job_.report = shared_.get();
  }

  ~Measurement() {
    child_.reset();  // it has the buffers, too
    for (int layout = 0; layout < kLayouts; ++layout) task_.keep_spare(layout, std::move(own_[layout]));
  }
  Measurement(const Measurement&) = delete;

  // Binds, forks and runs the checked calls; true if the child is alive and has done them.
  bool begin() {
    if (!job_.report) return fail(MeasureStatus::OutOfMemory, "there is no memory for the report of the child");
    if (!prepare()) return false;
    if (!start()) return false;
    waited_before_check_ = waited_seconds();
    if (!run_phase(Phase::Check, job_.options.timeout_seconds) || !has_returned_zero()) return false;
    if (incumbent_ && !incumbent_->is_packed) keep_packed_incumbent();
    return true;
  }

  bool check(const char* when) { return check(0, when) && check(1, when); }

  bool time(double incumbent_seconds) {
    if (!time_in(Phase::Time, incumbent_seconds)) return false;
    bool is_wanted =
        result.status == MeasureStatus::Ok && result.ratio > 0 && result.ratio < job_.options.confirmation.below;
    if (!is_wanted) return true;
    MeasureResult first = result;
    if (!time_in(Phase::Confirm, incumbent_seconds)) return false;
    result = confirmed(first, std::move(result));
    return true;
  }

  // After timing; repeated while the kernel looks slow with new data, which a busy machine may
  // cause.
  bool recheck() {
    if (!is_as_before_timing() && !check(0, ", after timing")) return false;
    // A kernel that is not faster than the incumbent cannot become the best, so the check with new data is left out.
    double below = job_.options.confirmation.below;
    if (result.ratio >= (below > 0 ? below : 1)) return true;
    double fresh = 0, allowed = kFreshRatio * result.median_seconds + kFreshSlackSeconds +
                                static_cast<double>(task_.data_bytes()) / kFreshBytesPerSecond;
    if (job_.options.threads > static_cast<int>(worker_.cpus.size())) allowed += kSharedCoreSeconds;
    for (int attempt = 0; attempt < kFreshAttempts; ++attempt) {
      exchange_data();
      if (!run_phase(Phase::Check, job_.options.timeout_seconds) || !has_returned_zero() ||
          !check(", in a second check after timing"))
        return false;
      fresh = report().call_seconds[0];
      if (!job_.options.time || fresh <= allowed) return true;
    }
    return fail(MeasureStatus::Cheat, cat("takes ", fresh, " s with new data, but ", result.median_seconds,
                                          " s when it is repeated with the same"));
  }

  // Instead of check, time and recheck, where the only call took long. It did all its work in front of this process's
  // clock.
  bool accept_only_call() {
    if (!check(0, "")) return false;
    result.seconds = result.min_seconds = result.median_seconds = report().call_seconds[0];
    result.lower_quartile = result.upper_quartile = result.seconds;
    result.pairs = 1;
    return clock_agrees(result.seconds + report().pack_seconds[0]);
  }

  // For kernels whose checked calls took long: the two calls had different data and were timed by this process, so they
  // take the place of time() and recheck().
  bool is_timed_by_checked_calls() const {
    const double* calls = report().call_seconds;
    double limit = job_.options.checked_call_seconds;
    return job_.options.time && limit > 0 && std::min(calls[0], calls[1]) > limit;
  }

  bool accept_checked_calls(double incumbent_seconds) {
    auto [least, most] = std::minmax(report().call_seconds[0], report().call_seconds[1]);
    if (incumbent_ && incumbent_seconds > 0) result.ratio = least / incumbent_seconds;
    result.seconds = result.min_seconds = result.lower_quartile = least;
    result.median_seconds = (least + most) / 2, result.upper_quartile = most;
    result.pairs = kLayouts;
    return clock_agrees(least + most + report().pack_seconds[0] + report().pack_seconds[1]) &&
           (reaches_least_time() || fail_too_fast());
  }

  const ChildReport& report() const { return *job_.report; }
  MeasureResult result;

 private:
  // A time that the machine cannot reach is taken twice, with more looks at what the machine can, before it is refused.
  bool time_in(Phase phase, double incumbent_seconds) {
    for (int attempt = 0; attempt < kTooFastAttempts; ++attempt) {
      if (!take_samples(phase, incumbent_seconds)) return false;
      if (reaches_least_time()) return true;
    }
    // Others slowed the incumbent down in all pairs, and nobody said so.
    if (is_possible(result.min_seconds)) return count_shortest_sample(result), true;
    return fail_too_fast();
  }

  bool fail(MeasureStatus status, std::string message) {
    result.status = status;
    result.message = std::move(message);
    return false;
  }

  // Compares the times that the child reports for the checked calls with the clock of this process.
  bool clock_agrees(double told) {
    double phase = child_->phase_seconds(), waited = waited_seconds() - waited_before_check_;
    return std::abs(phase - told) <= kClockPart * phase + kClockSlackSeconds + std::max(waited, 0.0) ||
           fail(MeasureStatus::Cheat, cat("says that its checked calls took ", told, " s, while ", phase, " s passed"));
  }

  bool is_possible(double seconds) const { return seconds * kAbovePeak >= least_seconds(); }

  // If the time is below the least possible one, the peak of the machine is measured once more.
  bool reaches_least_time() {
    if (is_possible(result.seconds)) return true;
    worker_.fma_peak = std::max(worker_.fma_peak, measure_fma_peak(kProbeAgainSeconds));
    return is_possible(result.seconds);
  }

  bool fail_too_fast() {
    return fail(MeasureStatus::TooFast,
                cat("took ", result.seconds, " s; at the peak of this machine, ", worker_.fma_peak * 1e-9,
                    " GFLOP/s a core, its arithmetic takes ", least_seconds(), " s"));
  }

  // Of the arithmetic alone; 0 = unknown.
  double least_seconds() const {
    int threads = candidate_.manifest.parallel ? job_.options.threads : 1;
    return worker_.fma_peak > 0 ? job_.options.least_flops / (worker_.fma_peak * threads) : 0;
  }

  // Runs the timing phase, again if the clocks disagree, and computes the score.
  bool take_samples(Phase phase, double incumbent_seconds) {
    std::vector<Sample> samples;
    bool agrees = false;
    std::string clocks;
    for (int attempt = 0; attempt < kTimingAttempts && !agrees; ++attempt) {
      double waited = waited_seconds();
      if (!run_phase(phase, 10 * job_.options.timeout_seconds) || !has_returned_zero()) return false;
      waited = waited_seconds() - waited;
      const SampleLog& log = job_.report->log;
      samples.assign(log.samples, log.samples + std::clamp<int>(log.count, 0, kMaxSamples));
      waited += std::min(static_cast<double>(log.flush_nanoseconds) * 1e-9,
                         kLongestFlush * flush_seconds() * static_cast<double>(samples.size()));
      agrees = clocks_agree(samples, child_->phase_seconds(), waited, clocks);
    }
    if (!agrees) return fail(MeasureStatus::Cheat, clocks);
    result.disturbed = 0;
    evaluate_samples(samples, job_.options, job_.incumbent != nullptr, incumbent_seconds, result);
    return true;
  }

  bool check(int layout, const char* when) {
    Lap lap(result.parts.compare);
    if (!slack_intact(layout)) return false;
    std::string wrong = task_.check(layout, candidate_.manifest, kPoison[layout], result.max_error);
    if (!wrong.empty()) return fail(MeasureStatus::WrongResult, cat(wrong, when));
    if (layout == 0) right_outputs_ = task_.hash_of_outputs(0, candidate_.manifest);
    return true;
  }

  // The same bytes that were found right need not be compared again, which reads five times as many.
  bool is_as_before_timing() {
    Lap lap(result.parts.compare);
    return slack_intact(0) && task_.hash_of_outputs(0, candidate_.manifest) == right_outputs_;
  }

  bool bind() {
    TaskFailure failure;
    const KernelManifest& manifest = candidate_.manifest;
    int threads = job_.options.threads;
    if (!within_memory(manifest, threads)) return false;
    job_.candidate_at.resize(kLayouts);
    for (int layout = 0; layout < kLayouts; ++layout) {
      if (!task_.bind(manifest, layout, threads, own_[layout], job_.candidate_at[layout], failure))
        return fail(failure.status, failure.message);
    }
    return !incumbent_ || bind_incumbent();
  }

  bool bind_incumbent() {
    TaskFailure failure;
    if (incumbent_->threads != job_.options.threads) incumbent_->is_packed = false;  // its scratch grows with them
    if (!incumbent_->is_packed) {
      incumbent_->own.clear(), incumbent_->at = {}, incumbent_->threads = job_.options.threads;
      if (!task_.bind(incumbent_->kernel.manifest, 0, job_.options.threads, incumbent_->own, incumbent_->at, failure))
        return fail(failure.status, cat("the incumbent: ", failure.message));
      for (const auto& buffer : incumbent_->own) buffer->fill(kPoison[0]);
    }
    job_.incumbent_at = incumbent_->at;
    job_.is_incumbent_packed = incumbent_->is_packed;
    return true;
  }

  // The next children need not pack its operands again, and cannot change them.
  void keep_packed_incumbent() {
    for (const auto& buffer : incumbent_->own) buffer->make_read_only_for_children();
    incumbent_->is_packed = true;
  }

  bool within_memory(const KernelManifest& manifest, int threads) {
    double wanted = 2.0 * static_cast<double>(manifest.scratch_bytes(threads));
    for (const KernelArgument& argument : manifest.run) {
      if (argument.role == ArgumentRole::Packed) wanted += 2.0 * static_cast<double>(argument.bytes);
    }
    double limit = static_cast<double>(worker_.memory_bytes);
    return wanted <= limit ||
           fail(MeasureStatus::OutOfMemory,
                cat("needs ", wanted / 1e9, " GB of packed operands and scratch, allowed are ", limit / 1e9, " GB"));
  }

  void poison(int layout) {
    task_.poison_outputs(layout, kPoison[layout]);
    for (const auto& buffer : own_[layout]) buffer->fill(kPoison[layout]);
  }

  bool slack_intact(int layout) {
    for (const BufferList* list : std::initializer_list<const BufferList*>{&task_.buffers(layout), &own_[layout]}) {
      for (const auto& buffer : *list) {
        if (buffer->use() != Use::Read && !buffer->slack_intact()) {
          return fail(MeasureStatus::OutOfBounds,
                      cat("wrote beside `", buffer->name(), "`, next to its ",
                          layout == 0 ? "end or before its start" : "start or after its end"));
        }
      }
    }
    return true;
  }

  bool prepare() {
    Lap lap(result.parts.buffers);
    if (!bind()) return false;
    poison(0), poison(1);
    return true;
  }

  void exchange_data() {
    Lap lap(result.parts.buffers);
    for (int layout = 0; layout < kLayouts; ++layout) task_.place(layout, kSets - 1 - task_.set_in(layout));
    poison(1);
  }

  bool start() {
    Lap lap(result.parts.start);
    child_.emplace(job_, worker_.sandbox, worker_.tuner);
    if (!child_->is_running()) return fail(MeasureStatus::WorkerLost, "the worker could not fork");
    return end_phase(Phase::Load, kLoadSeconds);
  }

  static bool is_timing(Phase phase) { return phase == Phase::Time || phase == Phase::Confirm; }

  bool run_phase(Phase phase, double limit_seconds) {
    Lap lap(is_timing(phase) ? result.parts.timing : result.parts.run);
    return end_phase(phase, limit_seconds);
  }

  bool end_phase(Phase phase, double limit_seconds) {
    switch (child_->run_phase(phase, limit_seconds)) {
      case PhaseEnd::Done:
        return true;
      case PhaseEnd::TunerGone:
        return fail(MeasureStatus::WorkerLost, "the tuner is gone");
      case PhaseEnd::TimedOut:
        return fail(MeasureStatus::Timeout,
                    cat("did not return within ", limit_seconds, " s", is_timing(phase) ? " of timing" : ""));
      case PhaseEnd::Died:
        explain_death(report(), child_->wait_status(), used_buffers(), result);
        return false;
    }
    return false;
  }

  bool has_returned_zero() {
    int returned = report().log.returned;
    return returned == 0 || fail(MeasureStatus::WrongResult, cat("returned ", returned, " instead of 0"));
  }

  std::vector<const GuardedBuffer*> used_buffers() const {
    std::vector<const GuardedBuffer*> out;
    std::vector<const BufferList*> lists = {&task_.buffers(0), &task_.buffers(1), &own_[0], &own_[1]};
    if (incumbent_) lists.push_back(&incumbent_->own);
    for (const BufferList* list : lists) {
      for (const auto& buffer : *list) out.push_back(buffer.get());
    }
    return out;
  }

  double waited_seconds() const {
    return child_->waited_seconds() + static_cast<double>(std::max<i64>(read_run_delay(worker_.schedstat), 0)) * 1e-9;
  }

  // Of the operands that are cold in a sample, of the candidate and the incumbent together.
  double flush_seconds() const {
    if (!job_.options.cold_caches) return 0;
    ColdOperands operands = cold_operands(candidate_.manifest, job_.candidate_at[0]);
    if (incumbent_) {
      for (std::span<const char> operand : cold_operands(incumbent_->kernel.manifest, incumbent_->at))
        operands.push_back(operand);
    }
    for (std::span<const char> operand : operands) read_lines(operand);
    i64 begin = monotonic_nanoseconds();
    for (std::span<const char> operand : operands) flush_lines(operand);
    return static_cast<double>(monotonic_nanoseconds() - begin) * 1e-9;
  }

  // `waited`: seconds that are in no sample.
  static bool clocks_agree(const std::vector<Sample>& samples, double wall, double waited, std::string& message) {
    double told = 0;
    for (const Sample& sample : samples) told += static_cast<double>(sample.nanoseconds) * 1e-9;
    double allowed = kClockPart * wall + kClockSlackSeconds;
    double overhead = kSampleOverheadSeconds * static_cast<double>(samples.size()) + std::max(waited, 0.0);
    message = cat("says that its samples took ", told, " s, while ", wall, " s passed");
    return told <= wall + allowed && told >= wall - overhead - allowed;
  }

  WorkerState& worker_;
  Task& task_;
  const Kernel& candidate_;
  SharedReport shared_;
  Incumbent* incumbent_;
  BufferList own_[kLayouts];  // packed operands and scratch of the candidate
  ChildJob job_;
  double waited_before_check_ = 0;
  u64 right_outputs_ = 0;  // hash of those in layout 0 that were compared
  std::optional<ChildProcess> child_;
};

}  // namespace

TaskFailure run_reference(WorkerState& worker, Task& task, const Kernel& reference, double& seconds) {
  MeasureOptions options;
  options.timeout_seconds = worker.reference_timeout_seconds;
  options.threads = static_cast<int>(worker.cpus.size());
  Measurement measurement(worker, task, reference, nullptr, options);
  if (!measurement.begin())
    return {measurement.result.status,
            cat("the reference failed: ", name_of(measurement.result.status), ": ", measurement.result.message)};
  TaskFailure failure;
  for (int layout = 0; layout < kLayouts; ++layout) {
    if (!task.keep_reference(layout, reference.manifest, failure)) return failure;
  }
  seconds = std::min(measurement.report().call_seconds[0], measurement.report().call_seconds[1]);
  return {};
}

MeasureResult measure_candidate(WorkerState& worker, Task& task, const Kernel& candidate, Incumbent* incumbent,
                                double incumbent_seconds, const MeasureOptions& options) {
  i64 begin = monotonic_nanoseconds();
  Measurement measurement(worker, task, candidate, options.time ? incumbent : nullptr, options);
  MeasureResult& result = measurement.result;
  bool has_run = measurement.begin(), only_one_call = has_run && measurement.report().only_one_call;
  if (has_run && (only_one_call ? measurement.accept_only_call() : measurement.check(""))) {
    result.status = MeasureStatus::Ok;
    result.message.clear();
    result.prepack_seconds = measurement.report().prepack_seconds;
    if (!only_one_call && measurement.is_timed_by_checked_calls()) {
      measurement.accept_checked_calls(incumbent_seconds);
    } else {
      bool timed = !only_one_call && (!options.time || measurement.time(incumbent_seconds));
      if (timed) measurement.recheck();
    }
  }
  result.spent_seconds = static_cast<double>(monotonic_nanoseconds() - begin) * 1e-9;
  return result;
}

}  // namespace tw
