// What a hostile machine, tuner or reader may try, straight to the server and through the commands: each attack is
// refused, or leaves nothing but rows that name its role and that `db remove --host ROLE` removes.
#include <gtest/gtest.h>

#include <set>

#include "dsl/base/text.h"
#include "runtime/store/database.h"
#include "runtime/store/postgres_rows.h"
#include "support/run_program.h"
#include "tests/unit/fleet_kit.h"

namespace tw {
namespace {

const MeasuredTarget kCpu{"cpu -mcpu=znver3 -threads=1", "AMD, 2 of 2 cores, L3 32 MiB, Linux 6.1", "AMD, L3 32 MiB"};
const char* kRefused = "42501";  // SQLSTATE: no right to

std::string hash_of(int i) {
  char text[33];
  std::snprintf(text, sizeof text, "%032x", i);
  return text;
}

QueuedTrial trial(int i) {
  return {.workload = hash_of(7), .target = kCpu.target, .program = hash_of(i), .trace = cat("# ", i), .task = "gemm"};
}

Record result_of(const QueuedTrial& trial, double seconds = 1e-3) {
  Record record{.workload = trial.workload, .target = trial.target, .status = "ok", .seconds = seconds};
  record.program = trial.program, record.task = trial.task, record.trace = trial.trace;
  record.host = kCpu.host, record.version = "0", record.created = 1;
  return record;
}

// A database with an honest machine and tuner, and with hostile ones that have the same rights, each with a role of its
// own.
class FleetAttacks : public testing::Test {
 protected:
  void SetUp() override {
    TW_POSTGRES_OR_SKIP(server);
    server_ = server;
    name_ = server->make_database();
    for (std::string* role : {&workers_, &tuners_, &readers_, &honest_, &mallory_, &tuner_, &rogue_})
      *role = cat(name_, "_", static_cast<int>(role - &workers_));
    PostgresConnection owner = connect("postgres");
    SchemaOptions roles{.tuner = tuners_, .worker = workers_, .reader = readers_};
    ASSERT_TRUE(make_postgres_schema(owner, roles));
    ASSERT_TRUE(make_queue_tables(owner, roles));
    for (const auto& [member, group] :
         {std::pair(&honest_, &workers_), {&mallory_, &workers_}, {&tuner_, &tuners_}, {&rogue_, &tuners_}})
      server_->sql(name_, cat("CREATE ROLE ", *member, " LOGIN IN ROLE ", *group));
    machine_ = good(honest().add_machine({.name = "honest", .host = kCpu.host, .targets = kCpu.target}));
    own_machine_ = good(hostile().add_machine({.name = "mallory", .host = kCpu.host, .targets = kCpu.target}));
    TrialQueue queue = this->queue(tuner_);
    tuner_id_ = good(queue.add_tuner("tuner"));
    good(queue.want(tuner_id_, kCpu));
    trials_ = good(queue.put(tuner_id_, {trial(1), trial(2), trial(3)}));
  }
  std::string address(const std::string& role) const { return server_->address(name_, role); }
  PostgresConnection connect(const std::string& role) const {
    auto opened = PostgresConnection::open(address(role));
    EXPECT_TRUE(opened) << (opened ? "" : opened.error());
    return std::move(*opened);
  }
  TrialQueue queue(const std::string& role) const {
    auto opened = TrialQueue::open(address(role));
    EXPECT_TRUE(opened) << (opened ? "" : opened.error());
    return std::move(*opened);
  }
  TrialQueue honest() const { return queue(honest_); }
  TrialQueue hostile() const { return queue(mallory_); }
  Database database(const std::string& role = "postgres") const {
    auto opened = Database::open(address(role), DatabaseMode::Write);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error());
    return std::move(*opened);
  }
  template <class T>
  static T good(DatabaseResult<T> result) {
    EXPECT_TRUE(result) << result.error();
    return std::move(*result);
  }
  // The SQLSTATE of a statement of a role, or "done: " and the rows that it changed.
  std::string attempt(const std::string& role, const std::string& statement) const {
    auto rows = connect(role).run(statement);
    return rows ? cat("done: ", rows->changed()) : rows.failure().state;
  }
  // What the owner sees.
  std::string seen(const std::string& query) const {
    auto rows = connect("postgres").run(query);
    EXPECT_TRUE(rows) << (rows ? "" : rows.error());
    return rows->empty() ? "" : (*rows)[0].text(0);
  }
  test::Finished command(std::vector<std::string> words) const { return test::tracewright(std::move(words)); }
  // Removes what the role has stored, as its owner does.
  i64 remove(const std::string& role) const {
    test::Finished removed = command({"db", "remove", address("postgres"), "--host", role, "--json"});
    EXPECT_EQ(removed.code, 0) << removed.err;
    return std::stoll(removed.out.substr(removed.out.find(':') + 1));
  }
  LeasedTrial leased_by_the_honest_one() const {
    auto leased = good(honest().lease(machine_, {kCpu}, 1));
    EXPECT_EQ(leased.size(), 1u);
    return leased.at(0);
  }
  LeasedTrial leased_by_mallory() const {
    auto leased = good(hostile().lease(own_machine_, {kCpu}, 1));
    EXPECT_EQ(leased.size(), 1u);
    return leased.at(0);
  }
  std::vector<Record> records() const {
    std::vector<Record> all;
    EXPECT_TRUE(database().visit({}, [&](Record& record) { all.push_back(record); }));
    return all;
  }

  test::PostgresServer* server_ = nullptr;
  std::string name_;
  // Roles; the first three are groups.
  std::string workers_, tuners_, readers_, honest_, mallory_, tuner_, rogue_;
  i64 machine_ = 0, own_machine_ = 0, tuner_id_ = 0;
  std::vector<i64> trials_;
};

// ---- refused by the server

struct Attack {
  const char* what;
  const char* statement;  // TRIAL: one that the honest machine has leased; QUEUED: one that waits; TUNER, MACHINE: the
                          // honest ones; OWN: the attacker's machine
};

TEST_F(FleetAttacks, OfAMachineAreRefused) {
  constexpr Attack kAttacks[] = {
      {"ends a trial that another machine measures",
       "UPDATE tracewright_fleet.trials SET state = 'done', fault = 'refused' WHERE id = TRIAL"},
      {"ends a trial that nobody has leased",
       "UPDATE tracewright_fleet.trials SET state = 'done', fault = 'refused' WHERE id = QUEUED"},
      {"gives back what another machine measures",
       "UPDATE tracewright_fleet.trials SET state = 'queued', machine = NULL, lease = NULL WHERE id = TRIAL"},
      {"takes a lease over", "UPDATE tracewright_fleet.trials SET machine = OWN WHERE id = TRIAL"},
      {"says that a lease has run out",
       "UPDATE tracewright_fleet.trials SET state = 'queued', losses = losses + 1, lost_by = machine WHERE id = TRIAL"},
      {"lets the lease of another machine run out",
       "UPDATE tracewright_fleet.trials SET deadline = clock_timestamp() - interval '1 hour' WHERE id = TRIAL"},
      {"leases in another machine's name",
       "UPDATE tracewright_fleet.trials SET state = 'leased', machine = MACHINE WHERE id = QUEUED"},
      {"gives other machines another trace", "UPDATE tracewright_fleet.trials SET trace = 'x' WHERE id = QUEUED"},
      {"gives other machines another program",
       "UPDATE tracewright_fleet.trials SET program = repeat('0', 32) WHERE id = QUEUED"},
      {"puts trials in",
       "INSERT INTO tracewright_fleet.trials (tuner, workload, target, program, trace, task, seed, generation, "
       "is_cold) VALUES (TUNER, repeat('0', 32), '', repeat('0', 32), '', '', 1, 1, false)"},
      {"removes trials", "DELETE FROM tracewright_fleet.trials"},
      {"removes a tuner that lives", "DELETE FROM tracewright_fleet.tuners WHERE id = TUNER"},
      {"removes another machine", "DELETE FROM tracewright_fleet.machines WHERE id = MACHINE"},
      {"says that another machine has left", "UPDATE tracewright_fleet.machines SET is_gone = true WHERE id = MACHINE"},
      {"gives another machine its name",
       "UPDATE tracewright_fleet.machines SET name = 'mallory', host = '' WHERE id = MACHINE"},
      {"makes another machine's counts smaller", "UPDATE tracewright_fleet.machines SET lost = -1 WHERE id = MACHINE"},
      {"decides once more who measures for a target",
       "UPDATE tracewright_fleet.targets SET host = 'mallory', machine = 'mallory'"},
      {"sets another machine aside",
       "UPDATE tracewright_fleet.calibrations SET is_aside = true WHERE machine = MACHINE"},
      {"calibrates in another machine's name",
       "INSERT INTO tracewright_fleet.calibrations (machine, fingerprint, class, machine_class, times, is_aside) "
       "SELECT MACHINE, 'other', class, 'other', times, false FROM tracewright_fleet.calibrations"},
      {"counts failures for another machine",
       "INSERT INTO tracewright_fleet.failures (machine, kind, message) VALUES (MACHINE, 'crash', '')"},
      {"wants builds in another machine's name",
       "INSERT INTO tracewright_fleet.builds_wanted VALUES (MACHINE, 'cpu', 'kind', 'cpu')"},
      {"forgets faults", "DELETE FROM tracewright_fleet.faults"},
      {"reads what others have measured", "SELECT trace, seconds_ps FROM tracewright.records"},
      {"changes records", "UPDATE tracewright.records SET seconds_ps = 1"},
      {"removes records", "DELETE FROM tracewright.records"},
      {"stores in another role's name", "INSERT INTO tracewright.records (stored_by) VALUES ('honest')"},
      {"stores under an id of its choice", "INSERT INTO tracewright.records (id) OVERRIDING SYSTEM VALUE VALUES (1)"},
      {"stores a workload",
       "INSERT INTO tracewright.workloads (digest, hash, text) VALUES ('', repeat('0', 32), 'workload w {}')"},
      {"replaces a cost model",
       "INSERT INTO tracewright.models (digest, name, target, version, data) VALUES ('', 'tree', '', 1, '')"},
      {"sets the number of leases back", "SELECT setval('tracewright_fleet.leases', 1)"},
      {"takes the guards away", "DROP TRIGGER guard ON tracewright_fleet.trials"},
      {"makes a guard of its own",
       "CREATE OR REPLACE FUNCTION tracewright_fleet.guard_trial() RETURNS trigger LANGUAGE plpgsql AS 'begin return "
       "new; end'"},
      {"becomes the owner", "SET SESSION AUTHORIZATION postgres"},
      {"reads files of the server", "COPY (SELECT 1) TO PROGRAM 'touch /tmp/hostile'"},
  };
  LeasedTrial leased = leased_by_the_honest_one();
  EXPECT_EQ(good(honest().calibrate(machine_, kCpu.host, {{"arithmetic", 6e-6}})).number, 1);
  i64 waiting = leased.id == trials_[1] ? trials_[2] : trials_[1];
  const std::string before = seen("SELECT md5(string_agg(t::text, ' ' ORDER BY id)) FROM tracewright_fleet.trials t");
  for (const Attack& attack : kAttacks) {
    std::string statement = attack.statement;
    for (const auto& [mark, value] : {std::pair("TRIAL", leased.id),
                                      {"QUEUED", waiting},
                                      {"TUNER", tuner_id_},
                                      {"MACHINE", machine_},
                                      {"OWN", own_machine_}}) {
      for (std::size_t at; (at = statement.find(mark)) != std::string::npos;)
        statement.replace(at, std::string(mark).size(), std::to_string(value));
    }
    EXPECT_EQ(attempt(mallory_, statement), kRefused) << attack.what;
  }
  EXPECT_EQ(seen("SELECT md5(string_agg(t::text, ' ' ORDER BY id)) FROM tracewright_fleet.trials t"), before);
  EXPECT_EQ(good(honest().finish(machine_, leased, result_of(leased.trial))).accepted, Accepted::Yes);
  EXPECT_EQ(remove(mallory_), 0);
}

TEST_F(FleetAttacks, OfATunerAreRefused) {
  constexpr Attack kAttacks[] = {
      {"removes another tuner's trials", "DELETE FROM tracewright_fleet.trials WHERE tuner = TUNER"},
      {"removes another tuner", "DELETE FROM tracewright_fleet.tuners WHERE id = TUNER"},
      {"puts trials in, in another tuner's name",
       "INSERT INTO tracewright_fleet.trials (tuner, workload, target, program, trace, task, seed, generation, "
       "is_cold) VALUES (TUNER, repeat('0', 32), '', repeat('0', 32), '', '', 1, 1, false)"},
      {"wants other machines for another tuner",
       "INSERT INTO tracewright_fleet.targets (tuner, target) VALUES (TUNER, 'other')"},
      {"wants no machines for another tuner", "DELETE FROM tracewright_fleet.targets WHERE tuner = TUNER"},
      {"ends trials without a machine", "UPDATE tracewright_fleet.trials SET state = 'done', fault = 'refused'"},
      {"renames a machine", "UPDATE tracewright_fleet.machines SET name = 'x'"},
      {"forgets faults that are new", "DELETE FROM tracewright_fleet.faults WHERE message = 'new'"},
      {"changes records", "UPDATE tracewright.records SET seconds_ps = 1"},
      {"removes records", "DELETE FROM tracewright.records"},
  };
  server_->sql(name_,
               "INSERT INTO tracewright_fleet.faults (kind, machine, task, program, message) VALUES ('refused', "
               "'m', 't', 'p', 'new')");
  for (const Attack& attack : kAttacks) {
    std::string statement = attack.statement;
    if (std::size_t at = statement.find("TUNER"); at != std::string::npos)
      statement.replace(at, 5, std::to_string(tuner_id_));
    EXPECT_EQ(attempt(rogue_, statement), kRefused) << attack.what;
  }
  EXPECT_EQ(good(queue(tuner_).count(tuner_id_, trials_)), 3);
}

TEST_F(FleetAttacks, OfAReaderAreRefused) {
  std::string reader = readers_;
  for (const char* statement :
       {"INSERT INTO tracewright_fleet.machines (name, host, version, targets, memory_bytes) VALUES ('', '', '', '', "
        "1)",
        "UPDATE tracewright_fleet.trials SET state = 'done'", "DELETE FROM tracewright_fleet.tuners",
        "INSERT INTO tracewright.records DEFAULT VALUES", "SELECT nextval('tracewright_fleet.leases')"})
    EXPECT_EQ(attempt(reader, statement), kRefused) << statement;
}

TEST_F(FleetAttacks, HugeRowsAreRefused) {
  const char* too_long = "23514";  // SQLSTATE: check_violation
  Record huge = result_of(trial(1));
  huge.trace.assign(2 << 20, 'x');
  EXPECT_EQ(database(mallory_).add_record(huge).failure().state, too_long);
  huge = result_of(trial(1));
  huge.task.assign(1 << 20, 'x');
  EXPECT_EQ(database(mallory_).add_record(huge).failure().state, too_long);
  EXPECT_EQ(database(rogue_).add_workload(hash_of(1), std::string(5 << 20, 'x')).failure().state, too_long);
  EXPECT_EQ(attempt(mallory_,
                    "INSERT INTO tracewright_fleet.machines (name, host, version, targets, memory_bytes) "
                    "VALUES (repeat('x', 100000), '', '', '', 1)"),
            too_long);
  EXPECT_EQ(attempt(mallory_,
                    "INSERT INTO tracewright_fleet.faults (kind, machine, task, program, message) VALUES "
                    "('k', 'm', 't', 'p', repeat('x', 1000000))"),
            too_long);
  const std::string put =
      "INSERT INTO tracewright_fleet.trials (tuner, workload, target, program, trace, task, seed, generation, is_cold) "
      "SELECT max(id), repeat('0', 32), '', repeat('0', 32), $$TRACE$$, '', 1, 1, false FROM tracewright_fleet.tuners";
  EXPECT_EQ(attempt(rogue_, "INSERT INTO tracewright_fleet.tuners (name) VALUES ('rogue')"), "done: 1");
  auto put_with = [&](const std::string& trace) {
    return attempt(rogue_, std::string(put).replace(put.find("$$TRACE$$"), 9, trace));
  };
  EXPECT_EQ(put_with("repeat('x', 2000000)"), too_long);
  EXPECT_EQ(put_with("'x'"), "done: 1");
  for (const char* change : {"trace = repeat('x', 2000000)", "task = repeat('x', 2000)", "workload = 'x'",
                             "program = repeat('0', 33)", "target = repeat('x', 5000)", "wanted = repeat('x', 300)"})
    EXPECT_EQ(attempt(rogue_, cat("UPDATE tracewright_fleet.trials SET ", change, " WHERE trace = 'x'")), too_long)
        << change;
  const std::string own = cat(" WHERE id = ", leased_by_mallory().id);
  EXPECT_EQ(attempt(mallory_, cat("UPDATE tracewright_fleet.trials SET state = 'done', fault = 'refused', message = "
                                  "repeat('x', 5000)",
                                  own)),
            too_long);
  EXPECT_EQ(attempt(mallory_, cat("UPDATE tracewright_fleet.trials SET state = 'lost'", own)), too_long);
  for (const char* change : {"name", "host", "version", "targets", "drivers"})
    EXPECT_EQ(attempt(mallory_, cat("UPDATE tracewright_fleet.machines SET ", change,
                                    " = repeat('x', 70000) WHERE id = ", own_machine_)),
              too_long)
        << change;
  EXPECT_TRUE(records().empty());
}

// ---- of leases and results

TEST_F(FleetAttacks, NoLeaseIsEndless) {
  std::string statement =
      cat("UPDATE tracewright_fleet.trials SET state = 'leased', machine = ", own_machine_,
          ", lease = nextval('tracewright_fleet.leases'), leased = 'infinity', deadline = 'infinity' WHERE id = ");
  EXPECT_EQ(attempt(mallory_, cat(statement, trials_[0])), "done: 1");
  const std::string left =
      cat("SELECT deadline <= clock_timestamp() + interval '15 minutes' AND leased <= "
          "clock_timestamp() FROM tracewright_fleet.trials WHERE id = ",
          trials_[0]);
  EXPECT_EQ(seen(left), "t");
  EXPECT_EQ(attempt(mallory_, cat("UPDATE tracewright_fleet.trials SET deadline = 'infinity' WHERE id = ", trials_[0])),
            "done: 1");
  EXPECT_EQ(seen(left), "t") << "nor by prolonging it";
  EXPECT_EQ(attempt(mallory_, cat("UPDATE tracewright_fleet.trials SET leased = 'infinity' WHERE id = ", trials_[0])),
            kRefused);
  EXPECT_EQ(
      attempt(mallory_, cat("UPDATE tracewright_fleet.machines SET heartbeat = 'infinity' WHERE id = ", own_machine_)),
      "done: 1");
  EXPECT_EQ(seen("SELECT bool_and(heartbeat <= clock_timestamp()) FROM tracewright_fleet.machines"), "t");
  EXPECT_EQ(attempt(rogue_, "INSERT INTO tracewright_fleet.tuners (name, heartbeat) VALUES ('rogue', 'infinity')"),
            "done: 1");
  EXPECT_EQ(seen("SELECT bool_and(heartbeat <= clock_timestamp()) FROM tracewright_fleet.tuners"), "t");
  // It does nothing any more: another machine gets the trial.
  server_->sql(name_,
               "UPDATE tracewright_fleet.trials SET deadline = deadline - interval '1 hour' WHERE state = "
               "'leased'");
  std::set<i64> given;
  for (const LeasedTrial& leased : good(honest().lease(machine_, {kCpu}, 10))) given.insert(leased.id);
  EXPECT_TRUE(given.count(trials_[0]));
}

TEST_F(FleetAttacks, AResultIsOneOfItsTrial) {
  LeasedTrial leased = leased_by_mallory();
  i64 foreign = good(database(mallory_).add_record(result_of(trial(99))));  // of another program
  EXPECT_EQ(hostile().finish_known(own_machine_, leased, foreign).failure().state, kRefused);
  EXPECT_EQ(hostile().finish_known(own_machine_, leased, 123456).failure().state, kRefused)
      << "there is no such record";
  EXPECT_EQ(attempt(mallory_, cat("UPDATE tracewright_fleet.trials SET state = 'done' WHERE id = ", leased.id)),
            kRefused)
      << "an end without a result";
  Record other = result_of(leased.trial);
  other.program = hash_of(98);
  EXPECT_EQ(hostile().finish(own_machine_, leased, other).failure().state, kRefused) << "nor one that is stored for it";
  EXPECT_EQ(good(queue(tuner_).outcomes(tuner_id_)).size(), 0u);
  EXPECT_EQ(good(hostile().finish(own_machine_, leased, result_of(leased.trial))).accepted, Accepted::Yes);
}

TEST_F(FleetAttacks, AReplayedResultIsIgnored) {
  LeasedTrial leased = leased_by_mallory();
  TrialQueue first = hostile(), again = hostile();
  Finished done = good(first.finish(own_machine_, leased, result_of(leased.trial)));
  for (int i = 0; i < 3; ++i) {
    Finished repeated = good(again.finish(own_machine_, leased, result_of(leased.trial, 1e-9)));
    EXPECT_EQ(repeated.accepted, Accepted::Repeated);
    EXPECT_EQ(repeated.record, done.record) << "it is told which one counts";
  }
  LeasedTrial honest_lease = leased_by_the_honest_one(), forged = honest_lease;
  forged.lease = leased.lease;
  EXPECT_EQ(good(again.finish(own_machine_, forged, result_of(forged.trial))).accepted, Accepted::Late);
  EXPECT_EQ(again.finish(own_machine_, honest_lease, result_of(forged.trial)).failure().state, kRefused)
      << "of a lease that it has read";
  EXPECT_EQ(records().size(), 1u);
}

// The tuner compares what the machine names with what it has asked for.
TEST_F(FleetAttacks, ATunerTakesNoResultOfAnotherTrial) {
  Record wanted = result_of(trial(1)), found = wanted;
  EXPECT_EQ(why_no_result(wanted, found), "");
  found.trace = "another one that makes the program";
  EXPECT_EQ(why_no_result(wanted, found), "");
  for (auto change : {+[](Record& r) { r.workload = hash_of(1); }, +[](Record& r) { r.target = "cpu"; },
                      +[](Record& r) { r.program = hash_of(2); }, +[](Record& r) { r.host = "a faster machine"; }}) {
    found = wanted;
    change(found);
    EXPECT_NE(why_no_result(wanted, found), "");
  }
}

// ---- confined

TEST_F(FleetAttacks, ForgedTimesAreRemovedByRole) {
  i64 honest = good(database(honest_).add_record(result_of(trial(50))));
  for (int i = 0; i < 5; ++i) good(database(mallory_).add_record(result_of(trial(60 + i), 1e-12)));
  Record forged = result_of(trial(70), 1e-12);
  forged.host = "a host of its own", forged.created = i64{1} << 60;
  good(database(mallory_).add_record(forged));
  good(database(mallory_).save_model("machine rates", "a host of its own", 1, "1 2 3"));
  EXPECT_EQ(remove(mallory_), 6) << "also what it stored in the name of the honest machine";
  std::vector<Record> left = records();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].id, honest);
  EXPECT_EQ(command({"db", "remove", address(mallory_), "--host", honest_}).code, 3) << "for the owner alone";
  EXPECT_EQ(records().size(), 1u);
  EXPECT_EQ(remove("a host of its own"), 0);
  EXPECT_TRUE(database().models()->empty());
}

TEST_F(FleetAttacks, WrongDigestsAreLeftOut) {
  ASSERT_TRUE(database(honest_).add_record(result_of(trial(50))));
  std::string columns = postgres_sql::kRecordColumns;
  std::string values =
      "'forged', 1, 1, repeat('0', 32), 'cpu', 'ok', 1, 1, 1, 1, 1, 1, 1, 1, 't', 'p', 'o', 'v', 'h', '', '', 1";
  EXPECT_EQ(attempt(mallory_, cat("INSERT INTO tracewright.records (", columns, ") VALUES (", values, ")")), "done: 1");
  Database reading = database();
  i64 count = 0;
  ASSERT_TRUE(reading.visit({}, [&](Record&) { ++count; }));
  EXPECT_EQ(count, 1);
  EXPECT_EQ(reading.damaged(), 1);
  EXPECT_EQ(remove(mallory_), 1);
  EXPECT_TRUE(database().verify()->good());
}

TEST_F(FleetAttacks, SqlInNamesIsText) {
  const std::string name = "x'); DROP TABLE tracewright.records; --", markup = "<script>alert(1)</script>\x1b[2J\r\n";
  TrialQueue queue = hostile();
  good(queue.add_machine({.name = name + markup, .host = name, .version = name, .targets = name}));
  Record record = result_of(trial(1));
  record.task = name, record.host = name, record.error = name, record.version = name;
  good(database(mallory_).add_record(record));
  LeasedTrial leased = leased_by_mallory();
  leased.trial.task = name;
  good(queue.finish_with_fault(own_machine_, leased, fault::kRefused, name + markup));
  TrialQueue rogue = this->queue(rogue_);
  i64 tuner = good(rogue.add_tuner(name + markup));
  QueuedTrial strange = trial(5);
  strange.task = name, strange.trace = name, strange.target = "cpu' OR 1=1 --";
  good(rogue.want(tuner, {strange.target, "", ""}));
  good(rogue.put(tuner, {strange}));
  EXPECT_EQ(records().at(0).task, name);
  for (const char* format : {"--json", ""}) {
    std::vector<std::string> words{"fleet", address(readers_)};
    if (*format) words.emplace_back(format);
    test::Finished shown = command(words);
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_EQ(shown.out.find('\x1b'), std::string::npos) << "a terminal would do what it says";
  }
  EXPECT_EQ(command({"show", address(readers_)}).code, 0);
  EXPECT_EQ(command({"db", "remove", address("postgres"), "--host", name}).code, 0);
  EXPECT_TRUE(records().empty());
  EXPECT_EQ(command({"db", "remove", address("postgres"), "--host", "' OR '1' = '1"}).code, 0);
  EXPECT_EQ(seen("SELECT count(*) FROM tracewright_fleet.machines WHERE name = 'honest'"), "1");
  remove(mallory_);
  EXPECT_EQ(seen(cat("SELECT count(*) FROM tracewright_fleet.machines WHERE role = '", mallory_, "'")), "0");
  EXPECT_EQ(seen(cat("SELECT count(*) FROM tracewright_fleet.faults WHERE role = '", mallory_, "'")), "0");
}

// Operators and functions of a role's own schema do not get between a guard and what it compares.
TEST_F(FleetAttacks, AGuardIsNotTalkedOver) {
  server_->sql(name_, cat("GRANT CREATE ON DATABASE ", name_, " TO ", mallory_));
  PostgresConnection connection = connect(mallory_);
  ASSERT_TRUE(connection.script(
      cat("CREATE SCHEMA evil; CREATE FUNCTION evil.yes(name, name) RETURNS bool LANGUAGE sql AS 'SELECT true'; "
          "CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.yes); "
          "SET search_path = evil, pg_catalog")));
  LeasedTrial leased = leased_by_the_honest_one();
  auto done = connection.run(
      cat("UPDATE tracewright_fleet.trials SET state = 'done', fault = 'refused' WHERE id = ", leased.id));
  EXPECT_EQ(done ? "done" : done.failure().state, kRefused);
}

}  // namespace
}  // namespace tw
