#include "runtime/worker_device/watchdog.h"

#include <unistd.h>

#include <chrono>

namespace tw {

Watchdog::Watchdog() : thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::expect(double seconds, MessageKind kind, std::string payload) {
  {
    std::lock_guard lock(mutex_);
    active_ = true;
    deadline_ = std::chrono::steady_clock::now() +
                std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
    kind_ = kind;
    payload_ = std::move(payload);
  }
  changed_.notify_one();
}

void Watchdog::rest() {
  std::lock_guard lock(mutex_);
  active_ = false;
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (!active_) {
      changed_.wait(lock);
    } else if (std::chrono::steady_clock::now() < deadline_) {
      changed_.wait_until(lock, deadline_);
    } else {
      send_frame(kWorkerSocket, kind_, payload_);
      _exit(3);
    }
  }
}

}  // namespace tw
