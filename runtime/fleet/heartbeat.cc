#include "runtime/fleet/heartbeat.h"

#include <chrono>
#include <optional>

namespace tw {

Heartbeat::Heartbeat(std::string address, std::function<DatabaseResult<bool>(TrialQueue&)> beat)
    : address_(std::move(address)), beat_(std::move(beat)), thread_([this] { work(); }) {}

Heartbeat::~Heartbeat() {
  {
    std::lock_guard lock(mutex_);
    is_ended_ = true;
    ended_.notify_all();
  }
  thread_.join();
}

void Heartbeat::work() {
  constexpr std::chrono::seconds kAgain(1);  // after a failure
  std::optional<TrialQueue> queue;
  std::unique_lock lock(mutex_);
  while (!is_ended_) {
    lock.unlock();
    if (!queue) {
      if (auto opened = TrialQueue::open(address_); opened) queue.emplace(std::move(*opened));
    }
    // Where this fails the next round tries again.
    const bool is_connected = queue && (queue->connection().is_connected() || queue->reconnect());
    const bool has_beaten = is_connected && beat_(*queue);
    lock.lock();
    ended_.wait_for(lock, has_beaten ? std::chrono::seconds(kHeartbeatSeconds) : kAgain, [this] { return is_ended_; });
  }
}

}  // namespace tw
