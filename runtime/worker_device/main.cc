// tracewright-worker-opencl and tracewright-worker-cuda: run kernels on one device for the Measurer
// (runtime/measure/measurer.h), which speaks runtime/measure/worker_protocol.h on descriptor 3 and starts a new one
// when this one hangs or dies. `--list` prints the devices; `--memory DEVICE` the bytes that one has; `--binary DEVICE
// SOURCE OUT` writes what the driver makes of a source file, and prints its device and the driver, a line each. It
// never forks: drivers do not survive that.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "runtime/worker/confine.h"
#include "runtime/worker_device/device_task.h"

namespace tw {
namespace {

struct OpenTask {
  std::unique_ptr<DeviceTask> data;
  Kernel incumbent;
};

class DeviceServer {
 public:
  // Requests of the tuner; see serve_requests.
  bool hello(HelloMessage& message) {
    hello_ = message;
    limit_memory(message.data_bytes);
    gpu_ = std::make_unique<device::Device>(message.device, error_);
    if (error_.empty()) {
      worker_ = std::make_unique<DeviceWorker>(DeviceWorker{
          *gpu_, watchdog_, message.memory_bytes, message.reference_timeout_seconds,
          open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC), gpu_->memory_bytes() / 2, CacheFlush(*gpu_)});
    }
    return true;
  }

  bool end_task(int& task) { return tasks_.erase(task) == 1; }

  bool begin_task(BeginTaskMessage& message) {
    TaskStart started;
    started.error = error_;
    int file = message.has_file ? receive_descriptor(kWorkerSocket) : -1;
    if (worker_) {
      TaskStart late{.status = MeasureStatus::Timeout, .error = "the reference did not return in time"};
      watchdog_.expect(2 * hello_.reference_timeout_seconds, MessageKind::TaskStarted, encode(late));
      TaskFailure failure;
      auto task = std::make_unique<DeviceTask>(*worker_, message, file, started.reference_seconds, failure);
      watchdog_.rest();
      started.status = failure.status, started.error = failure.message;
      if (started.status == MeasureStatus::Ok) {
        started.task = message.task;
        tasks_[message.task].data = std::move(task);
      }
    }
    if (file >= 0) close(file);
    return send_frame(kWorkerSocket, MessageKind::TaskStarted, encode(started));
  }

  bool measure(MeasureMessage& message) {
    auto found = tasks_.find(message.task);
    if (found == tasks_.end()) return false;
    OpenTask& task = found->second;
    if (!message.new_incumbent.empty()) task.incumbent = std::move(message.new_incumbent[0]);
    if (!message.new_checks.empty()) task.data->check_on_device(std::move(message.new_checks));
    // Another task's kernels may have written into this one's memory, however far away.
    if (std::exchange(latest_, message.task) != message.task && !task.data->is_intact(DeviceTask::By::Device))
      task.data->renew();
    MeasureResult result = task.data->measure(message.candidate, message.has_incumbent ? &task.incumbent : nullptr,
                                              message.incumbent_seconds, message.options);
    bool is_timed = result.status == MeasureStatus::Ok || result.status == MeasureStatus::Noisy;
    bool may_be_best = is_timed && result.ratio < 1;
    if (may_be_best) blame_for_other_tasks(message.task, result);
    return send_frame(kWorkerSocket, MessageKind::Measured, encode(result));
  }

 private:
  // A kernel that wrote into the memory of another task is not a right one.
  void blame_for_other_tasks(int task, MeasureResult& result) {
    for (auto& [number, other] : tasks_) {
      if (number == task || other.data->is_intact(DeviceTask::By::Device)) continue;
      other.data->renew();
      result.status = MeasureStatus::OutOfBounds;
      result.message = "wrote into the memory of another task";
    }
  }

  Watchdog watchdog_;
  HelloMessage hello_;
  std::string error_;
  std::unique_ptr<device::Device> gpu_;
  std::unique_ptr<DeviceWorker> worker_;
  std::map<int, OpenTask> tasks_;
  int latest_ = -1;  // the task that was measured last
};

int print_devices() {
  std::string error;
  std::vector<std::string> names = device::names(error);
  for (std::size_t i = 0; i < names.size(); ++i) std::printf("%zu %s\n", i, names[i].c_str());
  if (!error.empty()) std::printf("%s\n", error.c_str());
  return error.empty() ? 0 : 1;
}

int print_memory(int index) {
  std::string error;
  device::Device device(index, error);
  if (!error.empty()) return std::printf("%s\n", error.c_str()), 1;
  std::printf("%lld\n", static_cast<long long>(device.memory_bytes()));
  return 0;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Before the driver is opened, whose threads inherit it. Drivers open what they like, so files may be read, and written
// where drivers keep compiled kernels and talk to devices. Memory: CUDA reserves terabytes of address space and pins
// what it shares with the device, so neither RLIMIT_AS nor RLIMIT_DATA can be set for a driver. Listing devices is not
// confined: it runs nobody's code, and NVIDIA's driver may start a set-user-id program then that makes its device
// files. TRACEWRIGHT_UNCONFINED=1 is for drivers that do not work under this. It was tried with PoCL and
// with NVIDIA's driver 580.
std::string confine_driver(const std::string& output_folder) {
  if (variable("TRACEWRIGHT_UNCONFINED") == "1") return "";
  std::vector<std::string> writable = {"/dev",
                                       "/tmp",
                                       "/var/tmp",
                                       "/proc/self",
                                       variable("TMPDIR"),
                                       output_folder,
                                       variable("CUDA_MPS_PIPE_DIRECTORY"),
                                       variable("CUDA_MPS_LOG_DIRECTORY")};
  // The confined driver could not make these folders.
  std::vector<std::string> caches = {variable("XDG_CACHE_HOME"), variable("POCL_CACHE_DIR"),
                                     variable("CUDA_CACHE_PATH")};
  if (std::string home = variable("HOME"); !home.empty())
    caches.push_back(home + (std::strcmp(device::kKind, "CUDA") == 0 ? "/.nv" : "/.cache"));
  for (const std::string& folder : caches) {
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    writable.push_back(folder);
  }
  std::string refused = confine({.file_bytes = i64{4} << 30, .writable = writable});
  return refused.empty() && !forbid_changes_of_system() ? "no filter of system calls" : refused;
}

constexpr unsigned kBinarySeconds = 120;  // then a driver hangs

int write_binary(int index, const char* source, const char* out) {
  alarm(kBinarySeconds);
  std::string error;
  std::optional<std::string> text = read_whole_file(source);
  if (!text) error = cat(source, " cannot be read");
  if (error.empty()) error = confine_driver(std::filesystem::path(out).parent_path().string());
  std::optional<device::Device> device;
  if (error.empty()) device.emplace(index, error);
  device::Binary binary;
  if (error.empty()) binary = device::make_binary(*device, *text, error);
  if (error.empty() && !(std::ofstream(out, std::ios::binary) << binary.bytes << std::flush))
    error = cat(out, " cannot be written");
  if (error.empty()) return std::printf("%s\n%s\n", binary.device.c_str(), binary.driver.c_str()), 0;
  std::printf("%s\n", error.c_str());
  return 1;
}

}  // namespace
}  // namespace tw

int main(int count, char** words) {
  if (count == 2 && std::strcmp(words[1], "--list") == 0) return tw::print_devices();
  if (count == 3 && std::strcmp(words[1], "--memory") == 0) return tw::print_memory(std::atoi(words[2]));
  if (count == 5 && std::strcmp(words[1], "--binary") == 0)
    return tw::write_binary(std::atoi(words[2]), words[3], words[4]);
  struct stat about{};
  if (fstat(tw::kWorkerSocket, &about) != 0 || !S_ISSOCK(about.st_mode)) {
    std::fprintf(stderr, "%s: started by hand; tracewright starts it when it measures kernels on %s devices\n",
                 words[0], tw::device::kKind);
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C is for the tuner, which lets the trial at hand finish
  if (std::string refused = tw::confine_driver(""); !refused.empty()) {
    std::fprintf(stderr, "%s: cannot confine itself: %s\n", words[0], refused.c_str());
    return 1;
  }
  tw::DeviceServer server;
  return tw::serve_requests(tw::kWorkerSocket, server);
}
