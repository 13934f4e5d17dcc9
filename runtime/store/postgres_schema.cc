#include "runtime/store/postgres_schema.h"

#include <algorithm>
#include <optional>

#include "dsl/base/text.h"

namespace tw {
namespace {

namespace sql = postgres_sql;
using Migrations = std::span<const sql::Migration>;

constexpr const char* kProgram = "tracewright tuning database";

// The format of the schema; nullopt = there is none.
DatabaseResult<std::optional<int>> format_of(PostgresConnection& connection, Migrations migrations) {
  auto found = connection.run(sql::kFindSchema);
  if (!found) return found.failure();
  if (!(*found)[0].is_true(0)) return std::optional<int>();
  const std::string name = cat("database ", connection.address());
  DatabaseError strange{cat(name, " is refused: its schema `tracewright` was not made by tracewright")};
  if (!(*found)[0].is_true(1)) return strange;
  auto about = connection.run(sql::kReadAbout);
  if (!about) return about.failure();
  if (about->size() != 1 || (*about)[0].text(0) != kProgram) return strange;
  int format = static_cast<int>((*about)[0].integer(1)), newest = migrations.back().to;
  if (format > newest) {
    return DatabaseError{cat(name, " has format ", format, ", this tracewright knows formats up to ", newest,
                             "; use the version of tracewright that made it")};
  }
  return std::optional<int>(format);
}

DatabaseStatus refuse_strangers(PostgresConnection& connection) {
  auto encoding = connection.run(sql::kEncoding);
  if (!encoding) return encoding.failure();
  if (std::string name = (*encoding)[0].text(0); name != "UTF8")
    return DatabaseError{cat("database ", connection.address(), " is refused: its encoding is ", name, ", not UTF8")};
  auto found = connection.run(sql::kFindStrangers);
  if (!found) return found.failure();
  if (found->empty()) return Done{};
  std::vector<std::string> names;
  for (int row = 0; row < found->size(); ++row) names.push_back((*found)[row].text(0));
  return DatabaseError{cat("database ", connection.address(), " is refused: it holds tables of other programs (",
                           join(names, ", "),
                           "); take a database of its own, or say --beside-others to put a schema `tracewright` beside "
                           "them")};
}

DatabaseStatus bring_up_to_date(PostgresConnection& connection, const SchemaOptions& options, Migrations migrations,
                                std::vector<std::string>& notes) {
  if (auto locked = connection.script(sql::kLockSchema); !locked) return locked;
  auto format = format_of(connection, migrations);
  if (!format) return format.failure();
  if (!*format) {
    if (auto fit = options.beside_others ? DatabaseStatus(Done{}) : refuse_strangers(connection); !fit) return fit;
    if (auto made = connection.script(sql::kMakeSchema); !made) return made;
  }
  int now = format->value_or(0);
  for (const sql::Migration& step : migrations) {
    if (step.to <= now) continue;
    if (auto done = connection.script(step.statements); !done) return done;
    if (auto done = connection.run(sql::kSetFormat, {step.to}); !done) return done.failure();
  }
  notes.push_back(!*format ? cat("made schema `tracewright`, format ", migrations.back().to)
                  : now == migrations.back().to
                      ? cat("schema `tracewright` has format ", now, " already")
                      : cat("brought schema `tracewright` from format ", now, " to ", migrations.back().to));
  return Done{};
}

std::string replaced(std::string text, const std::string& mark, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += by.size())
    text.replace(at, mark.size(), by);
  return text;
}

DatabaseStatus grant(PostgresConnection& connection, const std::string& role, const char* statements,
                     std::vector<std::string>& notes) {
  auto found = connection.run(sql::kFindRole, {role});
  if (!found) return found.failure();
  bool is_there = (*found)[0].is_true(0), may_make = (*found)[0].is_true(1);
  const std::string name = connection.quoted_name(role);
  if (!is_there && !may_make) {
    return DatabaseError{
        cat("database ", connection.address(), ": there is no role `", role,
            "`, and this one may not make it; let somebody who may run `CREATE ROLE ", name, " LOGIN`"),
        "42704"};
  }
  if (!is_there) {
    if (auto made = connection.script(cat("CREATE ROLE ", name, " LOGIN")); !made) return made;
    notes.push_back(cat("made role `", role, "`, which has no password yet: `ALTER ROLE ", name,
                        " PASSWORD ...` in psql, or \\password there"));
  }
  std::string rights = replaced(cat(sql::kEveryRole, "; ", statements), "@records", sql::kRecordColumns);
  return connection.script(replaced(rights, "?", name));
}

}  // namespace

DatabaseStatus check_postgres_schema(PostgresConnection& connection, Migrations migrations) {
  auto format = format_of(connection, migrations);
  if (!format) return format.failure();
  const std::string name = cat("database ", connection.address());
  if (!*format)
    return DatabaseError{cat(name, " has no tables of tracewright; make them with `tracewright db init`"), "3F000"};
  if (**format < migrations.back().to) {
    return DatabaseError{cat(name, " has format ", **format, ", this tracewright needs ", migrations.back().to,
                             "; its owner brings it up to date with `tracewright db init`")};
  }
  return Done{};
}

DatabaseResult<std::string> identity_of(PostgresConnection& connection) {
  auto found = connection.run(sql::kIdentity);
  if (!found) return found.failure();
  return (*found)[0].text(0);
}

DatabaseStatus check_identity(PostgresConnection& connection, const std::string& identity) {
  auto found = identity_of(connection);
  bool has_tables = found || found.failure().state != "42P01";
  if (!found && has_tables) return found.failure();
  if (found && *found == identity) return Done{};
  return DatabaseError{cat("database ", connection.address(),
                           " is another one than before the connection was lost; nothing was written to it. Look at "
                           "the address, and start again")};
}

DatabaseResult<std::vector<std::string>> make_postgres_schema(PostgresConnection& connection,
                                                              const SchemaOptions& options, Migrations migrations) {
  using Notes = std::vector<std::string>;
  return connection.transaction<Notes>([&]() -> DatabaseResult<Notes> {
    Notes notes;
    if (auto done = bring_up_to_date(connection, options, migrations, notes); !done) return done.failure();
    const std::string* names[] = {&options.tuner, &options.worker, &options.reader};
    for (std::size_t i = 0; i < std::size(names); ++i) {
      if (names[i]->empty()) continue;
      if (auto done = grant(connection, *names[i], sql::kRights[i].statements, notes); !done) return done.failure();
    }
    return notes;
  });
}

}  // namespace tw
