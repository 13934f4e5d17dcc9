// The schema `tracewright` of a database on a PostgreSQL server: made, brought up to date, checked; and what roles may
// do.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/store/postgres_connection.h"
#include "runtime/store/postgres_sql.h"

namespace tw {

// Fails unless the database has the schema, in the format of this program. Changes nothing.
DatabaseStatus check_postgres_schema(PostgresConnection& connection,
                                     std::span<const postgres_sql::Migration> migrations = postgres_sql::kMigrations);

// What tells this database from every other one, also from a later one of the same name.
DatabaseResult<std::string> identity_of(PostgresConnection& connection);
// Fails unless it is `identity`. For a new session, before it writes. An error with is_connection_lost = false.
DatabaseStatus check_identity(PostgresConnection& connection, const std::string& identity);

struct SchemaOptions {
  bool beside_others = false;  // also in a database that holds tables of other programs
  // Names of the roles that get the rights; "" = nobody.
  std::string tuner = "tuner", worker = "worker", reader = "reader";
};

// Makes the schema, or brings an older one up to date, and grants the rights, all in one transaction. A role that is
// not there is made, without a password, where the caller's role may do that. Gives what a person should know, as
// sentences. Errors: a database of another program, a newer format, a schema `tracewright` that is not ours, missing
// roles.
DatabaseResult<std::vector<std::string>> make_postgres_schema(
    PostgresConnection& connection, const SchemaOptions& options = {},
    std::span<const postgres_sql::Migration> migrations = postgres_sql::kMigrations);

}  // namespace tw
