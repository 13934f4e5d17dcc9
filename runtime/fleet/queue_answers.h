// How answers and values of the statements of a fleet are read and written. The inside of trial_queue.cc,
// trial_leases.cc and build_queue.cc.
#pragma once
#include <string>

#include "runtime/store/postgres_connection.h"

namespace tw {

inline PostgresValue or_null(const std::string& text) { return text.empty() ? PostgresValue(std::nullopt) : text; }
inline PostgresValue or_null(i64 number) { return number == 0 ? PostgresValue(std::nullopt) : number; }

// A call that changes something, whose rows nobody reads.
inline DatabaseStatus done(DatabaseResult<PostgresRows> rows) {
  if (!rows) return rows.failure();
  return Done{};
}

inline DatabaseResult<i64> changed(DatabaseResult<PostgresRows> rows) {
  if (!rows) return rows.failure();
  return rows->changed();
}

// The number in the first row.
inline DatabaseResult<i64> number(DatabaseResult<PostgresRows> rows) {
  if (!rows) return rows.failure();
  return rows->empty() ? i64{0} : (*rows)[0].integer(0);
}

}  // namespace tw
