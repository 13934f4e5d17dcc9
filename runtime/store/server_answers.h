// Does a server let this process in now? For ServerWait::pass, where there is no connection yet that could be made
// anew.
#pragma once
#include <string>

#include "runtime/store/postgres_connection.h"

namespace tw {

// The connection is closed again.
inline DatabaseStatus answers(const std::string& address) {
  auto opened = PostgresConnection::open(address);
  if (!opened) return opened.failure();
  return Done{};
}

}  // namespace tw
