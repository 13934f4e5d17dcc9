// The tuning database on a PostgreSQL server.
#pragma once
#include <memory>
#include <string>

#include "runtime/store/store.h"

namespace tw {

// Fails unless the schema is there (`tracewright db init` makes it). `address` as check_address() accepts it.
DatabaseResult<std::unique_ptr<DatabaseStore>> open_postgres(const std::string& address, DatabaseMode mode);

}  // namespace tw
