#include "runtime/fleet/lasting_queue.h"

#include <chrono>
#include <thread>

#include "dsl/base/text.h"

namespace tw {

bool LastingQueue::reconnect(const Waiting& waiting, const std::string& why) {
  constexpr std::chrono::milliseconds kPause(500);
  waiting.say(cat(why, "; waiting until the server is there again"));
  while (!waiting.must_stop()) {
    if (queue_.reconnect()) {
      ++reconnections_;
      return waiting.say("the server is there again"), true;
    }
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

}  // namespace tw
