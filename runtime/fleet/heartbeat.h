// Heartbeat: a thread that says every few seconds, through a connection of its own, that a tuner or machine lives. So
// it does while this process searches, compiles or waits for a kernel. Used by tuner_link.h and sampler/fleet.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/fleet/trial_queue.h"

namespace tw {

class Heartbeat {
 public:
  // Calls beat(queue) at once and every kHeartbeatSeconds from then on. Goes on when the connection is lost.
  Heartbeat(std::string address, std::function<DatabaseResult<bool>(TrialQueue&)> beat);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;

 private:
  void work();
  std::string address_;
  std::function<DatabaseResult<bool>(TrialQueue&)> beat_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::thread thread_;
};

}  // namespace tw
