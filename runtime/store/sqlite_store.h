// The tuning database as one SQLite file.
#pragma once
#include <memory>
#include <string>

#include "runtime/store/store.h"

namespace tw {

DatabaseResult<std::unique_ptr<DatabaseStore>> open_sqlite(const std::string& path, DatabaseMode mode);

}  // namespace tw
