#include "runtime/store/server_wait.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string_view>
#include <thread>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

constexpr std::chrono::milliseconds kPause(500);

bool begins_with_any(const std::string& state, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return state.starts_with(beginning); });
}

std::mutex mutex;
std::optional<Waiting> of_run;  // of the LongRun that lives

}  // namespace

LongRun::LongRun(Waiting waiting) {
  std::lock_guard lock(mutex);
  of_run = std::move(waiting);
}

LongRun::~LongRun() {
  std::lock_guard lock(mutex);
  of_run.reset();
}

std::optional<Waiting> LongRun::waiting() {
  std::lock_guard lock(mutex);
  return of_run;
}

// Full disks and missing memory or connections; locks that are held for long; statements that an administrator ended;
// files that cannot be read or written.
bool may_pass(const DatabaseError& error) {
  return error.is_connection_lost || begins_with_any(error.state, {"53", "55P03", "57014", "40", "58"});
}

bool is_refused(const DatabaseError& error) { return begins_with_any(error.state, {"28", "3D000", "42501"}); }

void ServerWait::say(const DatabaseError& why) {
  // A server that starts is one that is away.
  std::string reason = begins_with_any(why.state, {"57P", "08"}) ? "" : why.state;
  if (said_ == reason) return;
  said_ = reason;
  waiting_.say(cat(why.message, "; waiting until the server can go on"));
}

bool ServerWait::pause() const {
  std::this_thread::sleep_for(kPause);
  return !waiting_.must_stop();
}

DatabaseStatus ServerWait::pass(const DatabaseError& why, const std::function<DatabaseStatus()>& reconnect) {
  if (waiting_.must_stop()) return why;
  say(why);
  while (pause()) {
    if (!why.is_connection_lost) return Done{};
    DatabaseStatus connected = reconnect();
    if (connected) return Done{};
    const DatabaseError& error = connected.failure();
    if (!error.is_connection_lost && !may_pass(error)) return connected;
    say(error);
    if (!is_refused(error)) refused_since_ = 0;
    if (!is_refused(error)) continue;
    if (refused_since_ == 0) refused_since_ = seconds_now();
    if (seconds_now() - refused_since_ > refused_seconds_) return DatabaseError{error.message, error.state};
  }
  return why;
}

void ServerWait::end() {
  if (said_) waiting_.say("the server is there again");
  said_.reset();
}

}  // namespace tw
