// All SQL of the tuning database on a PostgreSQL server: tables, rights, statements. SQLite's is in sqlite_store.cc and
// sqlite_rows.h. Names are qualified by the schema `tracewright`; values are bound ($1, ...), never spliced.
#pragma once

namespace tw::postgres_sql {

// ---- schema

// One step of the schema. Its statements bring format `to` - 1 up to `to`; they run in one transaction with the note of
// it in tracewright.about.
struct Migration {
  int to;
  const char* statements;
};

// The digest of a row covers its content, not its id. `stored_by` is set by the server, so it can be trusted.
// Columns that end with _key are hashes for the indices (key_of_texts): of workload and target, and of the machine.
inline constexpr Migration kMigrations[] = {
    {1, R"(
CREATE TABLE tracewright.workloads (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest text NOT NULL,
  hash text NOT NULL CHECK (octet_length(hash) = 32), text text NOT NULL CHECK (octet_length(text) <= 1048576));
CREATE INDEX workloads_hash ON tracewright.workloads (hash);
CREATE TABLE tracewright.records (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest text NOT NULL,
  task_key bigint NOT NULL, machine_key bigint NOT NULL, stored_by name NOT NULL DEFAULT session_user,
  workload text NOT NULL CHECK (octet_length(workload) = 32), target text NOT NULL, status text NOT NULL,
  seconds_ps bigint NOT NULL, minimum_ps bigint NOT NULL, first_quartile_ps bigint NOT NULL,
  median_ps bigint NOT NULL, third_quartile_ps bigint NOT NULL, created bigint NOT NULL, seed bigint NOT NULL,
  generation bigint NOT NULL, task text NOT NULL, program text NOT NULL, object text NOT NULL, version text NOT NULL,
  host text NOT NULL, error text NOT NULL, trace text NOT NULL CHECK (octet_length(trace) <= 1048576),
  cold_ps bigint NOT NULL,
  CONSTRAINT short_texts CHECK (octet_length(target) + octet_length(status) + octet_length(task) +
    octet_length(program) + octet_length(object) + octet_length(version) + octet_length(host) +
    octet_length(error) <= 65536));
CREATE INDEX records_task ON tracewright.records (task_key, id) INCLUDE (machine_key, status);
CREATE INDEX records_best ON tracewright.records (task_key, machine_key, seconds_ps, id)
  WHERE status = 'ok' OR status = 'noisy';
CREATE TABLE tracewright.models (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest text NOT NULL,
  name text NOT NULL, target text NOT NULL, version bigint NOT NULL, data bytea NOT NULL, UNIQUE (name, target));
CREATE TABLE tracewright.runs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest text NOT NULL, stored_by name NOT NULL DEFAULT session_user,
  command text NOT NULL, seed bigint NOT NULL, started bigint NOT NULL, finished bigint NOT NULL,
  outcome text NOT NULL, version text NOT NULL, host text NOT NULL);
)"},
    // Machines ask whether a program has been measured. Who may not read records sees of the models only what machines
    // tell of themselves, and adds to that.
    {2, R"(
CREATE INDEX records_program ON tracewright.records (program);
ALTER TABLE tracewright.models ENABLE ROW LEVEL SECURITY;
CREATE POLICY models_all ON tracewright.models USING (has_table_privilege('tracewright.records', 'SELECT'));
CREATE POLICY rates_seen ON tracewright.models FOR SELECT USING (name IN ('machine rates', 'machine roofs'));
CREATE POLICY rates_added ON tracewright.models FOR INSERT WITH CHECK (name IN ('machine rates', 'machine roofs'));
)"},
};
inline constexpr int kNewestFormat = kMigrations[sizeof kMigrations / sizeof *kMigrations - 1].to;

// Two programs that bring the schema up to date wait for each other.
inline constexpr const char* kLockSchema = "SELECT pg_advisory_xact_lock(8390894170101)";
inline constexpr const char* kMakeSchema = R"(
CREATE SCHEMA tracewright;
CREATE TABLE tracewright.about (program text NOT NULL, format bigint NOT NULL);
INSERT INTO tracewright.about VALUES ('tracewright tuning database', 0))";
inline constexpr const char* kSetFormat = "UPDATE tracewright.about SET format = $1::bigint";
// Is there a schema of the name, and a table `about` in it?
inline constexpr const char* kFindSchema =
    "SELECT to_regnamespace('tracewright') IS NOT NULL, EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON "
    "n.oid = c.relnamespace WHERE n.nspname = 'tracewright' AND c.relname = 'about')";
// Of the database with this schema, wherever its server is: another one has another number, even under the same name.
inline constexpr const char* kIdentity =
    "SELECT system_identifier || '/' || 'tracewright.about'::regclass::oid FROM pg_control_system()";
inline constexpr const char* kReadAbout = "SELECT program, format FROM tracewright.about";
// Tables and views of other programs, a few of them.
inline constexpr const char* kFindStrangers =
    "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('tracewright', 'information_schema') AND "
    "n.nspname NOT LIKE 'pg\\_%' AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e') "
    "ORDER BY 1 LIMIT 3";
inline constexpr const char* kEncoding = "SELECT current_setting('server_encoding')";
inline constexpr const char* kReadOnly = "SET default_transaction_read_only = on";

// ---- rights

inline constexpr const char* kFindRole =
    "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1), "
    "(SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user)";

// `statements` have the role's quoted name where they hold a ?.
struct Right {
  const char* role;
  const char* statements;
};
// Nobody but the owner removes or changes a record. Columns that are not named are the server's to fill.
inline constexpr const char* kRecordColumns =
    "digest, task_key, machine_key, workload, target, status, seconds_ps, minimum_ps, first_quartile_ps, median_ps, "
    "third_quartile_ps, created, seed, generation, task, program, object, version, host, error, trace, cold_ps";
inline constexpr Right kRights[] = {
    {"tuner",
     "GRANT SELECT ON ALL TABLES IN SCHEMA tracewright TO ?;"
     "GRANT INSERT (digest, hash, text) ON tracewright.workloads TO ?;"
     "GRANT INSERT (@records) ON tracewright.records TO ?;"
     "GRANT INSERT (digest, name, target, version, data), UPDATE (digest, version, data) "
     "ON tracewright.models TO ?;"
     "GRANT INSERT (digest, command, seed, started, finished, outcome, version, host), "
     "UPDATE (digest, finished, outcome) ON tracewright.runs TO ?"},
    {"worker",
     "GRANT SELECT ON tracewright.about, tracewright.workloads, tracewright.models TO ?;"
     "GRANT INSERT (digest, name, target, version, data), UPDATE (digest, version, data) "
     "ON tracewright.models TO ?;"
     "GRANT INSERT (@records), SELECT (id, digest) ON tracewright.records TO ?"},
    {"reader", "GRANT SELECT ON ALL TABLES IN SCHEMA tracewright TO ?"},
};
inline constexpr const char* kEveryRole = "GRANT USAGE ON SCHEMA tracewright TO ?";

// ---- records

// A number is drawn for a record only while this lock is held, and it is held until the record can be seen. So whoever
// has it alone for a moment knows that every record up to the largest id can be seen; a later one has a larger id.
inline constexpr const char* kWriterGate = "SELECT pg_advisory_xact_lock_shared(8390894170102) AS held";
inline constexpr const char* kLatest =
    "SET LOCAL lock_timeout = '2s'; SELECT pg_advisory_xact_lock(8390894170102); "
    "SELECT coalesce(max(id), 0) FROM tracewright.records";
// Without the lock, for the case that somebody holds it for long.
inline constexpr const char* kLatestSeen = "SELECT coalesce(max(id), 0) FROM tracewright.records";
inline constexpr const char* kIsGood = "(status = 'ok' OR status = 'noisy')";
// Records that were written a moment ago, by their digests ($1, of which there are $2): digests have no index, so only
// the last ones are read.
inline constexpr const char* kFindRecent =
    "SELECT id, digest FROM tracewright.records WHERE digest = any($1::text[]) AND "
    "id > (SELECT max(id) FROM tracewright.records) - 1000000 ORDER BY id DESC LIMIT $2::bigint";
inline constexpr const char* kTrials =
    "SELECT count(*) FROM tracewright.records WHERE task_key = $1::bigint AND machine_key = $2::bigint AND status <> "
    "$3";
// One row for each task and machine, by the id of its first record: workload, target, task (of the latest record),
// host, trials, failed ones, the first and the last good record, the first trial. $1: the status that is no trial.
inline constexpr const char* kSummaries = R"(
WITH parts AS (
  SELECT task_key, workload, target, machine_key, min(host) AS host, min(id) AS first_id, max(id) AS last_id,
    count(*) FILTER (WHERE status <> $1) AS trials, min(id) FILTER (WHERE status <> $1) AS first_trial,
    count(*) FILTER (WHERE status <> $1 AND status <> 'ok' AND status <> 'noisy') AS failed,
    min(id) FILTER (WHERE status = 'ok' OR status = 'noisy') AS first_good,
    max(id) FILTER (WHERE status = 'ok' OR status = 'noisy') AS last_good
  FROM tracewright.records GROUP BY task_key, workload, target, machine_key)
SELECT workload, target, (SELECT r.task FROM tracewright.records r WHERE r.id =
    (SELECT max(q.last_id) FROM parts q WHERE q.workload = p.workload AND q.target = p.target)), host,
  trials, failed, first_good, last_good
FROM parts p ORDER BY min(first_id) OVER (PARTITION BY workload, target), first_trial)";
inline constexpr const char* kHosts = "SELECT DISTINCT host FROM tracewright.records";
inline constexpr const char* kRemoveHost = "DELETE FROM tracewright.records WHERE host = $1";
// What a role has stored, whatever it says of the machine.
inline constexpr const char* kRemoveRates =
    "DELETE FROM tracewright.models WHERE name IN ('machine rates', 'machine roofs') AND target = $1";
inline constexpr const char* kRemoveRole = "DELETE FROM tracewright.records WHERE stored_by = $1";

// ---- others

inline constexpr const char* kLockWorkloads = "SELECT pg_advisory_xact_lock(8390894170103)";
inline constexpr const char* kReplaceModel =
    " ON CONFLICT (name, target) DO UPDATE SET digest = excluded.digest, version = excluded.version, "
    "data = excluded.data";
inline constexpr const char* kFinishRun =
    "UPDATE tracewright.runs SET digest = $2, finished = $3::bigint, outcome = $4 WHERE id = $1::bigint";

}  // namespace tw::postgres_sql
