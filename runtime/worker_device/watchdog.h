// Watchdog: a thread that answers the tuner and ends the process when a step takes too long. A kernel that hangs a
// driver cannot be stopped otherwise; the tuner starts a new worker.
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/measure/worker_protocol.h"

namespace tw {

class Watchdog {
 public:
  Watchdog();
  ~Watchdog();
  // From now on the process ends in `seconds`, unless this is called again or rest() is. The tuner gets `payload`.
  void expect(double seconds, MessageKind kind, std::string payload);
  void rest();

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool active_ = false, ending_ = false;
  std::chrono::steady_clock::time_point deadline_;
  MessageKind kind_{};
  std::string payload_;
  std::thread thread_;
};

}  // namespace tw
