// Opening what is on a server that may be away for a while.
#pragma once
#include <string>

#include "runtime/store/postgres_connection.h"
#include "runtime/store/server_wait.h"

namespace tw {

// open(), a DatabaseResult, repeated until it is good or there is no use in it, whenever the server at the address lets
// this process in again.
template <class Open>
auto open_when_it_answers(const std::string& address, const Waiting& waiting, Open&& open) {
  auto answers = [&]() -> DatabaseStatus {
    auto opened = PostgresConnection::open(address);
    if (!opened) return opened.failure();
    return Done{};
  };
  return repeat_while_it_may_pass(waiting, answers, open);
}

}  // namespace tw
