// LastingQueue: a queue of trials whose calls are repeated while the server cannot do them (server_wait.h): it is
// waited for. Used by tuner_link.h and by the measuring machines (sampler/fleet). It belongs to one thread at a time.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/fleet/trial_queue.h"
#include "runtime/store/server_wait.h"

namespace tw {

class LastingQueue {
 public:
  explicit LastingQueue(TrialQueue queue) : queue_(std::move(queue)) {}
  // The value of body(queue), a DatabaseResult<T>. The server may have done already what is repeated. nullopt: it was
  // stopped while the server was away, or there is an error: then all later calls give nullopt, too.
  template <class T, class Body>
  std::optional<T> call(const Waiting& waiting, Body&& body) {
    if (!error_.empty()) return std::nullopt;
    DatabaseResult<T> result = repeat_while_it_may_pass(
        waiting, [this] { return reconnect(); }, [&]() -> DatabaseResult<T> { return body(queue_); });
    if (result) return std::move(*result);
    if (!may_pass(result.failure())) error_ = result.error();
    return std::nullopt;
  }
  // Why the queue cannot be used any more; "" = it can.
  const std::string& error() const { return error_; }
  const std::shared_ptr<LifeSigns>& life_signs() const { return queue_.life_signs(); }
  // How often the connection was made anew.
  int reconnections() const { return reconnections_; }

 private:
  DatabaseStatus reconnect();
  TrialQueue queue_;
  std::string error_;
  int reconnections_ = 0;
};

}  // namespace tw
