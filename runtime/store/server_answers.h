// Opening what is on a server that may be away for a while.
#pragma once
#include <string>

#include "dsl/base/clock.h"
#include "runtime/store/postgres_connection.h"
#include "runtime/store/server_wait.h"

namespace tw {

// A process and its server may be started together.
inline constexpr double kStartSeconds = 60;

// open(), a DatabaseResult, repeated for kStartSeconds until it is good or there is no use in it, whenever the server
// at the address lets this process in again. It fails at once where it is_refused().
template <class Open>
auto open_when_it_answers(const std::string& address, const Waiting& waiting, Open&& open) {
  auto first = open();
  if (first || is_refused(first.failure())) return first;
  const double end = seconds_now() + kStartSeconds;
  const Waiting at_start{.must_stop = [&] { return waiting.must_stop() || seconds_now() >= end; }, .say = waiting.say};
  auto answers = [&]() -> DatabaseStatus {
    auto opened = PostgresConnection::open(address);
    if (!opened) return opened.failure();
    return Done{};
  };
  return repeat_while_it_may_pass(at_start, answers, open);
}

}  // namespace tw
