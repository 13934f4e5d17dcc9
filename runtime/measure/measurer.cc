#include "runtime/measure/measurer.h"

#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "backends/topology.h"
#include "dsl/base/check.h"
#include "dsl/base/clock.h"
#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "runtime/measure/machine_memory.h"
#include "runtime/measure/slower_test.h"
#include "runtime/measure/spawn.h"
#include "runtime/measure/worker_protocol.h"

namespace tw {
namespace {

// Where this code lies, to find the worker beside it.
const int kAnchor = 0;

// A process that is started inherits the cores of the calling thread, which may be the few that the
// search keeps to while another core measures. While this lives, it has these.
class AllCores {
 public:
  explicit AllCores(const cpu_set_t& cores) { sched_setaffinity(0, sizeof cores, &cores); }
  ~AllCores() { sched_setaffinity(0, sizeof before_, &before_); }
  AllCores(const AllCores&) = delete;
  AllCores& operator=(const AllCores&) = delete;

 private:
  cpu_set_t before_ = cpus_of_thread();
};

// The worker process at the other end of a socket.
class WorkerProcess {
 public:
  WorkerProcess(const std::string& executable, const HelloMessage& hello, std::string& error) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      error = cat("no socket for the worker: ", std::strerror(errno));
      return;
    }
    // No database, no other socket.
    pid_ = spawn({executable}, {.descriptors = {{ends[1], kWorkerSocket}},
                                .close_from = kWorkerSocket + 1,
                                .empty_environment = hello.device < 0});
    close(ends[1]);
    socket_ = ends[0];
    int failed = std::max(-pid_, 0);
    if (failed || !send_frame(socket_, MessageKind::Hello, encode(hello)))
      error = cat("the worker ", executable, " does not start: ", std::strerror(failed ? failed : EPIPE));
  }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;
  ~WorkerProcess() {
    if (socket_ >= 0) close(socket_);
    if (pid_ <= 0) return;
    // Its child, if any, dies with it.
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  int socket() const { return socket_; }
  // The signal that ended it, or 0. Waits a moment for the end of one that has closed its socket.
  int ending_signal() {
    int status = 0;
    for (int i = 0; i < 20 && pid_ > 0; ++i) {
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      }
      usleep(5000);
    }
    return 0;
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

bool is_same(const KernelArgument& a, const KernelArgument& b) {
  return a.name == b.name && a.role == b.role && a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes;
}

bool is_same(const Kernel& a, const Kernel& b) {
  const KernelManifest &x = a.manifest, &y = b.manifest;
  auto same_list = [](const auto& p, const auto& q) {
    return std::equal(p.begin(), p.end(), q.begin(), q.end(),
                      [](const auto& s, const auto& t) { return is_same(s, t); });
  };
  return x.symbol == y.symbol && x.parallel == y.parallel && x.scratch_shared_bytes == y.scratch_shared_bytes &&
         x.scratch_worker_bytes == y.scratch_worker_bytes &&
         // Of sources launches follow from the text.
         x.run_launches.size() == y.run_launches.size() && same_list(x.run, y.run) && same_list(x.prepack, y.prepack) &&
         a.code == b.code;
}

// A file without a name, in memory. `flags` of memfd_create.
class NamelessFile {
 public:
  explicit NamelessFile(unsigned flags) : descriptor_(memfd_create("tracewright", flags)) {}
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;
  ~NamelessFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// What is kept of a task here, for a worker that comes after the one that runs now.
struct OpenTask {
  BeginTaskMessage begin;
  std::optional<NamelessFile> results;  // of the reference, for devices
  Kernel incumbent;
  std::vector<DeviceCheck> checks;
  // Does the worker that runs now have the task, the incumbent, the checks?
  bool is_in_worker = false, incumbent_sent = false, checks_sent = true;
  double incumbent_seconds = 0;  // smallest so far
  NoiseHistory noise;
};

class WorkerMeasurer final : public Measurer {
 public:
  WorkerMeasurer(std::string executable, const WorkerOptions& options)
      : executable_(std::move(executable)), options_(options) {}

  // Starts the worker if there is none, and begins the task there if it was open in the one before. The worker may be
  // killed meanwhile, too: some attempts.
  bool ensure_worker(std::string& error, OpenTask* task = nullptr) {
    is_given_up_ = was_stopped_ = false;
    for (int attempt = 0; attempt < kStartAttempts && !is_given_up_; ++attempt) {
      error.clear();
      if (!worker_) start(error);
      if (error.empty() && task && !task->is_in_worker) error = send_task(*task).error;
      if (error.empty()) return true;
      worker_.reset();
    }
    return false;
  }

  TaskStart begin_task(const Kernel& reference, Tolerance tolerance, u64 seed) override {
    return begin({0, reference, tolerance, seed, {}});
  }

  bool takes_samples() const override { return true; }
  TaskStart begin_sampled_task(const SampledReference& reference, Tolerance tolerance, u64 seed) override {
    BeginTaskMessage message{0, {}, tolerance, seed, reference.samples};
    message.reference.manifest.run = reference.arguments;
    return begin(std::move(message));
  }

  void do_meanwhile(std::function<void()> work) override { meanwhile_ = std::move(work); }
  void stop_when(std::function<bool()> is_wanted) override { is_stop_wanted_ = std::move(is_wanted); }

  void check_on_device(int task, std::vector<DeviceCheck> checks) override {
    OpenTask& open = tasks_.at(task);
    open.checks = std::move(checks);
    open.checks_sent = false;
  }

  void end_task(int task) override {
    auto found = tasks_.find(task);
    if (found == tasks_.end()) return;
    bool is_known = worker_ && found->second.is_in_worker;
    tasks_.erase(found);
    if (is_known && !send_frame(worker_->socket(), MessageKind::EndTask, encode(task))) worker_.reset();
  }

  MeasureResult measure(int task, const Kernel& candidate, const MeasureOptions& options) override {
    auto found = tasks_.find(task);
    TW_CHECK(found != tasks_.end(), "measure for a task that is not open");
    MeasureResult result;
    result.was_tried = ensure_worker(result.message, &found->second);
    result.was_stopped = was_stopped_;
    if (!result.was_tried) {
      do_what_waits();
      return result;
    }
    OpenTask& open = found->second;
    MeasureMessage message{task, candidate, options, options.incumbent != nullptr, {}, 0, {}};
    if (!std::exchange(open.checks_sent, true)) message.new_checks = open.checks;
    if (options.incumbent) {
      if (!is_same(*options.incumbent, open.incumbent)) {
        open.incumbent = *options.incumbent;
        open.incumbent_seconds = 0;
        open.incumbent_sent = false;
      }
      if (!open.incumbent_sent) message.new_incumbent = {open.incumbent};
      open.incumbent_sent = true;
      message.incumbent_seconds = open.incumbent_seconds;
      message.options.noise = open.noise.noise();
    }
    std::string payload;
    // Load, check, timing (three attempts), second check.
    double limit = (options_.device < 0 ? 30 : 150) + 40 * options.timeout_seconds;
    bool good = exchange(MessageKind::Measure, encode(message), MessageKind::Measured, payload, limit, kStopSeconds) &&
                decode(payload, result);
    do_what_waits();
    if (!good) result = lost_in_measurement();
    // After a hang the worker of a device has ended itself; after a fault, or where it takes no data, its context is
    // good for nothing.
    bool is_spoilt = result.status == MeasureStatus::Timeout || result.status == MeasureStatus::Crash ||
                     result.status == MeasureStatus::WorkerLost;
    if (options_.device >= 0 && is_spoilt) worker_.reset();
    double& smallest = open.incumbent_seconds;
    if (result.incumbent_seconds > 0)
      smallest = smallest == 0 ? result.incumbent_seconds : std::min(smallest, result.incumbent_seconds);
    open.noise.add(result.noise);
    return result;
  }

 private:
  void do_what_waits() {
    if (auto work = std::exchange(meanwhile_, {})) work();
  }

  TaskStart begin(BeginTaskMessage message) {
    int id = next_task_++, attempt = 0;
    message.task = id;
    OpenTask& task = tasks_[id];
    if (options_.device >= 0 && message.samples[0].empty()) task.results.emplace(MFD_CLOEXEC | MFD_ALLOW_SEALING);
    message.has_file = task.results && task.results->descriptor() >= 0;
    task.begin = std::move(message);
    TaskStart started;
    do {
      if (ensure_worker(started.error)) started = send_task(task);
    } while (!worker_ && !is_given_up_ && ++attempt < kStartAttempts);
    started.was_stopped = was_stopped_;
    // Its worker ends itself, as after a measurement that hangs, and must be gone before the next one begins.
    if (options_.device >= 0 && started.status == MeasureStatus::Timeout) worker_.reset();
    if (started.task < 0) tasks_.erase(id);
    return started;
  }

  MeasureResult lost_in_measurement() {
    MeasureResult result;
    int signal = was_stopped_ ? 0 : worker_->ending_signal();
    result.was_stopped = was_stopped_;
    result.message = "the worker process was lost during this measurement";
    if (was_killed_for_memory(signal)) {
      result.status = MeasureStatus::OutOfMemory;
      result.message = cat(kKilledForMemory, " during this measurement");
    } else if (options_.device >= 0 && signal != 0) {
      result.status = MeasureStatus::Crash;
      result.message = cat("the worker of the device died of signal ", signal, " (", strsignal(signal), ")");
    }
    worker_.reset();
    return result;
  }

  // True if the system killed the worker because memory ran out; starting the same again would end in the same way.
  bool was_killed_for_memory(int signal) const {
    return signal == SIGKILL && processes_killed_for_memory() > killed_before_;
  }

  void start(std::string& error) {
    HelloMessage hello{options_.core, options_.device, options_.memory_bytes, options_.data_bytes,
                       options_.reference_timeout_seconds};
    if (hello.data_bytes == 0) hello.data_bytes = free_memory_bytes() / 10 * 9;
    {
      AllCores affinity(cores_);
      worker_.emplace(executable_, hello, error);
    }
    for (auto& [id, task] : tasks_) task.is_in_worker = task.incumbent_sent = task.checks_sent = false;
  }

  // `stop_seconds`: how long to wait for the answer after a stop was asked for.
  bool exchange(MessageKind kind, const std::string& request, MessageKind wanted, std::string& answer,
                double limit_seconds, double stop_seconds, int descriptor = -1) {
    MessageKind got{};
    killed_before_ = processes_killed_for_memory();
    if (!send_frame(worker_->socket(), kind, request)) return false;
    if (descriptor >= 0 && !send_descriptor(worker_->socket(), descriptor)) return false;
    if (kind == MessageKind::Measure) do_what_waits();
    return wait_for_answer(limit_seconds, stop_seconds) &&
           receive_frame(worker_->socket(), got, answer, limit_seconds) && got == wanted;
  }

  bool wait_for_answer(double limit_seconds, double stop_seconds) {
    constexpr int kAskMilliseconds = 50;
    double begin = seconds_now(), stopped = 0;
    was_stopped_ = false;
    for (;;) {
      pollfd waiting{worker_->socket(), POLLIN, 0};
      int ready = poll(&waiting, 1, kAskMilliseconds);
      if (ready > 0 || (ready < 0 && errno != EINTR)) return ready > 0;
      double now = seconds_now();
      if (stopped == 0 && is_stop_wanted_ && is_stop_wanted_()) stopped = now;
      was_stopped_ = stopped > 0 && now - stopped >= stop_seconds;
      if (was_stopped_ || now - begin > limit_seconds) return false;
    }
  }

  TaskStart send_task(OpenTask& task) {
    const BeginTaskMessage& message = task.begin;
    std::string payload;
    TaskStart started;
    double limit = 60 + 2 * options_.reference_timeout_seconds;  // on two sets of data
    bool good = exchange(MessageKind::BeginTask, encode(message), MessageKind::TaskStarted, payload, limit, 0,
                         message.has_file ? task.results->descriptor() : -1) &&
                decode(payload, started);
    task.is_in_worker = good && started.task >= 0;
    if (good) return started;
    bool is_for_memory = !was_stopped_ && was_killed_for_memory(worker_->ending_signal());
    is_given_up_ = was_stopped_ || is_for_memory;
    worker_.reset();
    if (is_for_memory)
      return {.status = MeasureStatus::OutOfMemory, .error = cat(kKilledForMemory, " while it ran the reference")};
    return {.error = "the worker process was lost while it ran the reference"};
  }

  static constexpr int kStartAttempts = 3;
  static constexpr double kStopSeconds = 0.5;
  static constexpr const char* kKilledForMemory = "the system killed the worker for want of memory";

  std::string executable_;
  WorkerOptions options_;
  cpu_set_t cores_ = cpus_of_thread();
  std::optional<WorkerProcess> worker_;
  std::map<int, OpenTask> tasks_;
  int next_task_ = 0;
  std::function<bool()> is_stop_wanted_;
  std::function<void()> meanwhile_;
  bool was_stopped_ = false;  // the last exchange
  bool is_given_up_ = false;  // a new worker would fare no better
  i64 killed_before_ = 0;     // processes_killed_for_memory
};

}  // namespace

std::string worker_path(const WorkerOptions& options, std::string& error) {
  std::vector<std::string> places;
  const char* named = options.device < 0 ? std::getenv("TRACEWRIGHT_WORKER") : nullptr;
  if (!options.executable.empty() || named) {
    places = {options.executable.empty() ? named : options.executable};
  } else {
    Dl_info info{};
    std::string folder = dladdr(&kAnchor, &info) && info.dli_fname ? info.dli_fname : ".";
    std::error_code none;
    if (folder.find('/') == std::string::npos)  // linked into a program that was found by its name
      folder = std::filesystem::read_symlink("/proc/self/exe", none).string();
    folder = folder.find('/') == std::string::npos ? "." : folder.substr(0, folder.rfind('/'));
    for (const char* place : {"/", "/../bin/", "/../"}) places.push_back(cat(folder, place, options.program));
  }
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  error = cat("the worker was not found at ", join(places, ", "),
              options.device < 0 ? " (set TRACEWRIGHT_WORKER to its path)"
                                 : cat("; ", options.program == "tracewright-worker-opencl"
                                                 ? "it is built where CL/cl.h is installed (opencl-c-headers)"
                                                 : "build the target of that name"));
  return "";
}

namespace {

// The lines that a worker prints when it is called with `words`; none with why in `error`. It says on its standard
// output what is missing, too: the other one is the drivers'.
std::vector<std::string> ask_worker(const WorkerOptions& options, const std::string& words, std::string& error) {
  std::vector<std::string> lines;
  std::string path = worker_path(options, error);
  if (path.empty()) return lines;
  std::FILE* answer = popen(cat("'", path, "' ", words, " 2>/dev/null").c_str(), "re");
  char line[512];
  while (answer && std::fgets(line, sizeof line, answer)) {
    lines.push_back(line);
    if (lines.back().ends_with("\n")) lines.back().pop_back();
  }
  if (answer && pclose(answer) == 0) return lines;
  error = lines.empty() ? cat(path, " does not answer") : join(lines, "; ");
  return {};
}

// One with this text; processes that are started have it under the same path.
class PassedFile {
 public:
  explicit PassedFile(const std::string& text) : file_(0) {
    std::size_t done = 0;
    for (ssize_t got = 1; got > 0 && done < text.size(); done += got > 0 ? static_cast<std::size_t>(got) : 0)
      got = write(file_.descriptor(), text.data() + done, text.size() - done);
  }
  std::string path() const { return cat("/proc/self/fd/", file_.descriptor()); }

 private:
  NamelessFile file_;
};

}  // namespace

DeviceList list_devices(const WorkerOptions& options) {
  DeviceList out;
  out.devices = ask_worker(options, "--list", out.error);
  return out;
}

i64 device_memory_bytes(const WorkerOptions& options) {
  std::string error;
  std::vector<std::string> lines = ask_worker(options, cat("--memory ", options.device), error);
  return lines.empty() ? 0 : std::atoll(lines.back().c_str());  // drivers may print before
}

DeviceBinary make_device_binary(const WorkerOptions& options, const std::string& source) {
  DeviceBinary out;
  PassedFile text(source), binary("");
  std::vector<std::string> lines =
      ask_worker(options, cat("--binary ", options.device, " ", text.path(), " ", binary.path()), out.error);
  if (!out.error.empty()) return out;
  if (lines.size() >= 2) out.device = lines[lines.size() - 2], out.driver = lines.back();  // drivers may print before
  out.bytes = read_whole_file(binary.path()).value_or("");
  if (out.bytes.empty() || out.driver.empty()) out.error = "the worker gives no binary";
  return out;
}

WorkerStart start_worker(const WorkerOptions& options) {
  WorkerStart out;
  std::string executable = worker_path(options, out.error);
  if (!out.error.empty()) return out;
  auto measurer = std::make_unique<WorkerMeasurer>(executable, options);
  if (measurer->ensure_worker(out.error)) out.measurer = std::move(measurer);
  return out;
}

}  // namespace tw
