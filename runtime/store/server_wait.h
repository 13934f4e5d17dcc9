// ServerWait: calls of a server are repeated while it cannot do them but may later: it restarts, the network fails, it
// has no connection left, its disk is full. Used by long runs: `tune` and `measure` (postgres_store.cc,
// runtime/fleet/lasting_queue.h). Other commands fail at once.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "runtime/store/database_result.h"

namespace tw {

// How a wait ends early, and what a person should know meanwhile.
struct Waiting {
  std::function<bool()> must_stop;
  std::function<void(const std::string&)> say;
};

// While one lives, databases on servers that this process opens wait: what a call of them stores is stored once, and it
// fails only if it is stopped meanwhile. Without one a call fails at once. There is one at a time.
class LongRun {
 public:
  explicit LongRun(Waiting waiting);
  ~LongRun();
  LongRun(const LongRun&) = delete;
  static std::optional<Waiting> waiting();
};

// May the same call succeed later, without anybody changing it?
bool may_pass(const DatabaseError& error);

// Has a person to do something: about the role, its password, the database's name, its rights, a certificate?
bool is_refused(const DatabaseError& error);

// The wait for one call.
class ServerWait {
 public:
  explicit ServerWait(const Waiting& waiting, double refused_seconds = 60)
      : waiting_(waiting), refused_seconds_(refused_seconds) {}
  // Behind a failed call: waits, and connects again where the connection is lost (`reconnect`), twice a second. Says
  // why, and again where the reason is another one. Done: the call may be repeated. Else why there is no use in it: it
  // was stopped (the error is `why`), or the server has refused this role for `refused_seconds`, or is another one now.
  DatabaseStatus pass(const DatabaseError& why, const std::function<DatabaseStatus()>& reconnect);
  // Behind a good call.
  void end();

 private:
  void say(const DatabaseError& why);
  // Until then; false: it was stopped.
  bool pause() const;
  const Waiting& waiting_;
  double refused_seconds_;
  std::optional<std::string> said_;  // the state of the error that was said last
  double refused_since_ = 0;         // seconds_now(); 0 = not refused
};

// body(), a DatabaseResult, repeated until it is good or there is no use in it.
template <class Body>
auto repeat_while_it_may_pass(const Waiting& waiting, const std::function<DatabaseStatus()>& reconnect, Body&& body) {
  ServerWait wait(waiting);
  for (;;) {
    auto result = body();
    if (result) wait.end();
    if (result || !may_pass(result.failure())) return result;
    if (auto passed = wait.pass(result.failure(), reconnect); !passed) return decltype(result)(passed.failure());
  }
}

}  // namespace tw
