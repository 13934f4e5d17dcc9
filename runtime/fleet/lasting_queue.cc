#include "runtime/fleet/lasting_queue.h"

#include <chrono>
#include <thread>

#include "dsl/base/text.h"

namespace tw {

bool LastingQueue::reconnect(const Waiting& waiting, const std::string& why) {
  constexpr std::chrono::milliseconds kPause(500);
  waiting.say(cat(why, "; waiting until the server is there again"));
  while (!waiting.must_stop()) {
    std::this_thread::sleep_for(kPause);  // first: what comes behind may fail again, as with too many connections
    if (!queue_.reconnect()) continue;
    ++reconnections_;
    return waiting.say("the server is there again"), true;
  }
  return false;
}

}  // namespace tw
