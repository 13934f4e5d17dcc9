#include "runtime/worker/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>

#include "dsl/base/text.h"
#include "runtime/measure/fma_probe.h"

namespace tw {
namespace {

constexpr double kProbeSeconds = 2e-3;

// The CPUs that this process may use, beginning with `first` if it is one of them, else with the
// last.
std::vector<int> usable_cpus(int first) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) all.push_back(cpu);
  }
  if (all.empty()) return {0};
  auto found = std::find(all.begin(), all.end(), first);
  if (found == all.end()) found = all.end() - 1;
  std::rotate(all.begin(), found, all.end());
  return all;
}

}  // namespace

int Server::serve() {
  std::string error;
  if (!worker_.sandbox.prepare(error)) {
    std::fprintf(stderr, "tracewright-worker: %s\n", error.c_str());
    return 1;
  }
  return serve_requests(worker_.tuner, *this);
}

bool Server::hello(HelloMessage& message) {
  worker_.cpus = usable_cpus(message.core);
  worker_.memory_bytes = message.memory_bytes;
  limit_memory(message.data_bytes);
  worker_.reference_timeout_seconds = message.reference_timeout_seconds;
  worker_.schedstat = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
  // Beside the child, so that handing over does not need a second CPU: the tuner compiles on the
  // others.
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(worker_.cpus[0], &set);
  sched_setaffinity(0, sizeof set, &set);
  worker_.fma_peak = measure_fma_peak(kProbeSeconds);
  return true;
}

bool Server::begin_task(BeginTaskMessage& message) {
  TaskStart started;
  TaskFailure failure;
  auto is_tuner_gone = [this] {
    pollfd tuner{worker_.tuner, POLLRDHUP, 0};
    return poll(&tuner, 1, 0) > 0 && (tuner.revents & (POLLRDHUP | POLLHUP)) != 0;
  };
  auto task = std::make_unique<Task>(message, is_tuner_gone, failure);
  if (failure.status == MeasureStatus::Ok && !task->is_sampled())
    failure = run_reference(worker_, *task, message.reference, started.reference_seconds);
  started.status = failure.status, started.error = failure.message;
  if (started.status == MeasureStatus::Ok) {
    started.task = message.task;
    tasks_[message.task].data = std::move(task);
  }
  return send_frame(worker_.tuner, MessageKind::TaskStarted, encode(started));
}

bool Server::measure(MeasureMessage& message) {
  auto found = tasks_.find(message.task);
  if (found == tasks_.end()) return false;
  OpenTask& task = found->second;
  if (!message.new_incumbent.empty()) task.incumbent = {.kernel = std::move(message.new_incumbent[0])};
  Incumbent* incumbent = message.has_incumbent ? &task.incumbent : nullptr;
  MeasureResult result =
      measure_candidate(worker_, *task.data, message.candidate, incumbent, message.incumbent_seconds, message.options);
  return send_frame(worker_.tuner, MessageKind::Measured, encode(result));
}

}  // namespace tw
