#include "runtime/fleet/lasting_queue.h"

namespace tw {

DatabaseStatus LastingQueue::reconnect() {
  DatabaseStatus connected = queue_.reconnect();
  reconnections_ += static_cast<bool>(connected);
  return connected;
}

}  // namespace tw
