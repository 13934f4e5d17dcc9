#include "runtime/fleet/machine_metrics.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <utility>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/fleet/trial_queue.h"

namespace tw {
namespace {

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// As many digits as it takes to read the same number back.
std::string digits(double value) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}
std::string digits(i64 value) { return std::to_string(value); }

std::string label(std::string_view name, std::string_view value) {
  std::string text = cat(name, "=\"");
  for (char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? "\\n" : std::string(1, c);
  }
  return text + '"';
}

// Writes families of metrics one below the other.
class Exposition {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    family_ = name;
    text += cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  // A sample of the latest family. `labels` are joined by commas, "" = none.
  template <class Number>
  void sample(const std::string& labels, Number value, std::string_view suffix = "") {
    text += cat(family_, suffix, labels.empty() ? "" : "{" + labels + "}", " ", digits(value), "\n");
  }
  template <class Number>
  void single(std::string_view name, std::string_view type, std::string_view help, Number value) {
    family(name, type, help);
    sample("", value);
  }
  std::string text;

 private:
  std::string family_;
};

void add_process(Exposition& out, double started) {
  out.single("process_cpu_seconds_total", "counter", "Processor time of all threads of `tracewright measure`.",
             processor_seconds());
  i64 pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  out.single("process_resident_memory_bytes", "gauge", "Memory of this process, without that of its workers.",
             resident * i64{sysconf(_SC_PAGESIZE)});
  out.single("process_start_time_seconds", "gauge", "When this process began, in seconds since 1970.", started);
}

}  // namespace

MachineMetrics::MachineMetrics(std::string name, std::string version)
    : name_(std::move(name)), version_(std::move(version)), started_(unix_seconds()) {
  for (std::string_view kind : {fault::kProgramDiffers, fault::kRefused, fault::kNoReference}) faults_.emplace(kind, 0);
}

void MachineMetrics::add_leased(i64 trials) {
  std::lock_guard lock(mutex_);
  double now = seconds_now();
  if (is_busy_) busy_seconds_ += now - busy_since_;
  is_busy_ = trials > 0, busy_since_ = now;
  leased_ += trials, at_hand_ = trials;
}

void MachineMetrics::add_trial(std::string_view status, double seconds) {
  std::lock_guard lock(mutex_);
  --at_hand_;
  ++trials_.try_emplace(std::string(status), 0).first->second;
  ++counts_[static_cast<std::size_t>(std::ranges::lower_bound(kBounds, seconds) - kBounds.begin())];
  trial_seconds_ += seconds;
}

void MachineMetrics::add_fault(std::string_view kind) {
  std::lock_guard lock(mutex_);
  --at_hand_;
  ++faults_.try_emplace(std::string(kind), 0).first->second;
}

void MachineMetrics::add_ignored(bool is_repeated) {
  std::lock_guard lock(mutex_);
  --at_hand_;
  ++(is_repeated ? repeated_ : late_);
}

void MachineMetrics::add_given_back(i64 trials) {
  std::lock_guard lock(mutex_);
  given_back_ += trials, at_hand_ -= trials;
}

void MachineMetrics::set_heartbeat(i64 lost) {
  std::lock_guard lock(mutex_);
  heartbeat_ = unix_seconds(), lost_ = lost;
}

void MachineMetrics::set_heartbeat() {
  std::lock_guard lock(mutex_);
  heartbeat_ = unix_seconds();
}

void MachineMetrics::announced_again() {
  std::lock_guard lock(mutex_);
  lost_before_ += std::exchange(lost_, 0);
}

void MachineMetrics::set_reconnections(i64 count) {
  std::lock_guard lock(mutex_);
  reconnections_ = count;
}

std::string MachineMetrics::text() const {
  std::lock_guard lock(mutex_);
  Exposition out;
  out.family("tracewright_machine_info", "gauge",
             "Always 1: the machine's name in `tracewright fleet`, and its version.");
  out.sample(cat(label("machine", name_), ",", label("version", version_)), i64{1});
  out.family("tracewright_trials_total", "counter",
             "Trials that ended with a record, by its status; `known`: the record was there before.");
  for (const auto& [status, count] : trials_) out.sample(label("status", status), count);
  out.family("tracewright_faults_total", "counter", "Trials that could not be measured here, by the kind of fault.");
  for (const auto& [kind, count] : faults_) out.sample(label("kind", kind), count);
  out.family("tracewright_results_ignored_total", "counter", "Results that the queue did not take: late, or repeated.");
  out.sample(label("reason", "late"), late_);
  out.sample(label("reason", "repeated"), repeated_);
  out.single("tracewright_trials_leased_total", "counter", "Trials that this machine leased.", leased_);
  out.single("tracewright_trials_given_back_total", "counter", "Leased trials that went back unmeasured.", given_back_);
  out.single("tracewright_leases_lost_total", "counter", "Leases of this machine that ran out.", lost_before_ + lost_);
  out.single("tracewright_reconnections_total", "counter", "How often the connection to the database was made anew.",
             reconnections_);
  out.single("tracewright_busy_seconds_total", "counter", "Time with trials to compile and measure.",
             busy_seconds_ + (is_busy_ ? seconds_now() - busy_since_ : 0));
  out.single("tracewright_busy", "gauge", "1 with trials to compile and measure, 0 without.", i64{is_busy_});
  out.single("tracewright_trials_at_hand", "gauge", "Leased trials that have not ended.", std::max<i64>(at_hand_, 0));
  out.single("tracewright_last_heartbeat_timestamp_seconds", "gauge",
             "When the database took the last heartbeat, or a result in its place, in seconds since 1970; 0 = never.",
             heartbeat_);
  out.family("tracewright_trial_duration_seconds", "histogram",
             "Time that a trial took, from its turn to its stored record.");
  i64 below = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    out.sample(label("le", i < kBounds.size() ? digits(kBounds[i]) : "+Inf"), below, "_bucket");
  }
  out.sample("", trial_seconds_, "_sum");
  out.sample("", below, "_count");
  add_process(out, started_);
  return std::move(out.text);
}

}  // namespace tw
