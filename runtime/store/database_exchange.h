// Records and workloads as lines of JSON, to carry them between databases and into other programs.
// Every line is checked on the way in: nothing of it is trusted. Models and runs stay where they
// are.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "runtime/store/database.h"

namespace tw {

// Writes a line per workload and per good record; times are in picoseconds, `digest` covers the
// line. Returns the number of lines.
DatabaseResult<i64> export_records(Database& database, std::ostream& out, const RecordFilter& filter = {});

struct ImportReport {
  i64 added = 0, known = 0, refused = 0;  // lines
  std::vector<std::string> problems;      // "line 3: `task` is missing", of the first 20 refused lines
};

// Adds what is not there yet. Lines that are wrong are refused one by one; only the database's own
// errors end it.
DatabaseResult<ImportReport> import_records(Database& database, std::istream& in);

// The lines of a file, plain or compressed by gzip. On failure nullopt, and `error` says why, with the path.
std::optional<std::string> read_exchange_file(const std::string& path, std::string& error);

}  // namespace tw
