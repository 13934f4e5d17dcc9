// LastingQueue: a queue of trials whose calls are repeated when the connection is lost: a server that is away is waited
// for. Used by tuner_link.h and by the measuring machines (sampler/fleet). It belongs to one thread at a time.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "runtime/fleet/trial_queue.h"

namespace tw {

// How a wait ends early, and what a person should know meanwhile.
struct Waiting {
  std::function<bool()> must_stop;
  std::function<void(const std::string&)> say;
};

class LastingQueue {
 public:
  explicit LastingQueue(TrialQueue queue) : queue_(std::move(queue)) {}
  // The value of body(queue), a DatabaseResult<T>. The server may have done already what is repeated. nullopt: it was
  // stopped while the server was away, or there is an error.
  template <class T, class Body>
  std::optional<T> call(const Waiting& waiting, Body&& body) {
    for (;;) {
      DatabaseResult<T> result = body(queue_);
      if (result) return std::move(*result);
      if (!result.failure().is_connection_lost) return error_ = result.error(), std::nullopt;
      if (!reconnect(waiting, result.error())) return std::nullopt;
    }
  }
  // Why the queue cannot be used any more; "" = it can.
  const std::string& error() const { return error_; }
  // How often the connection was made anew.
  int reconnections() const { return reconnections_; }

 private:
  bool reconnect(const Waiting& waiting, const std::string& why);
  TrialQueue queue_;
  std::string error_;
  int reconnections_ = 0;
};

}  // namespace tw
