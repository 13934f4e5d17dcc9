// Carries what one database holds into another, whatever they are: files or servers.
#pragma once
#include "runtime/store/database.h"

namespace tw {

struct CopyReport {
  i64 records = 0, workloads = 0, models = 0;  // that were added
  i64 known = 0;                               // records that were there
};

// Adds the good records, workloads and cost models of `from` that `to` does not hold; a model of the same name and
// target is kept. Records keep their order and content but get new ids. Runs stay where they are. Done again after an
// error, it goes on where it ended.
DatabaseResult<CopyReport> copy_database(Database& from, Database& to);

}  // namespace tw
