// The tuning database on a PostgreSQL server: what a file does not have. What both have is in database_test.cc.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <set>
#include <thread>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "runtime/store/database.h"
#include "runtime/store/database_copy.h"
#include "runtime/store/postgres_rows.h"
#include "runtime/store/postgres_schema.h"
#include "runtime/store/server_wait.h"
#include "support/environment.h"
#include "support/lossy_proxy.h"
#include "support/postgres_server.h"
#include "support/processes.h"
#include "support/run_program.h"

namespace tw {
namespace {

const std::string kTarget = "cpu -mcpu=znver3 -threads=1";
std::string hash_of(i64 number) { return to_hex(hash_bytes(std::to_string(number))); }
const std::string kWorkload = hash_of(-1);

Record sample(i64 n) {
  Record record;
  record.workload = kWorkload;
  record.target = kTarget;
  record.status = n % 5 == 4 ? "crash" : "ok";
  if (record.ok()) record.seconds = record.median = from_picoseconds(1000000 + 7919 * (n * 37 % 101));
  record.created = 1700000000000 + n;
  record.seed = ~u64{0} - static_cast<u64>(n);
  record.task = "ffn1";
  record.program = hash_of(n);
  record.version = "0.1.0";
  record.host = cat("machine ", n % 3);
  record.trace = cat("v0 = split(i, [_, ", n, "])\n");
  return record;
}

class PostgresStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    TW_POSTGRES_OR_SKIP(server);
    server_ = server;
    name_ = server->make_database();
    tuner_ = name_ + "_tuner", worker_ = name_ + "_worker", reader_ = name_ + "_reader";
  }
  std::string address(const std::string& role = "postgres") const { return server_->address(name_, role); }
  PostgresConnection connect(const std::string& role = "postgres") const {
    auto opened = PostgresConnection::open(address(role));
    EXPECT_TRUE(opened) << (opened ? "" : opened.error());
    return std::move(*opened);
  }
  void init() const {
    PostgresConnection owner = connect();
    auto made = make_postgres_schema(owner, {.tuner = tuner_, .worker = worker_, .reader = reader_});
    ASSERT_TRUE(made) << made.error();
  }
  Database open(const std::string& role = "postgres", DatabaseMode mode = DatabaseMode::Write) const {
    auto opened = Database::open(address(role), mode);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error());
    return std::move(*opened);
  }
  std::string open_error(const std::string& address, DatabaseMode mode = DatabaseMode::Write) const {
    auto opened = Database::open(address, mode);
    return opened ? "" : opened.error();
  }

  test::PostgresServer* server_ = nullptr;
  std::string name_, tuner_, worker_, reader_;
};

// ---- schema

TEST_F(PostgresStoreTest, NothingIsWrittenWithoutInit) {
  std::string message = open_error(address());
  EXPECT_EQ(message,
            cat("database ", address(), " has no tables of tracewright; make them with `tracewright db init`"));
  EXPECT_EQ(open_error(address(), DatabaseMode::Read), message);
  PostgresConnection owner = connect();
  EXPECT_TRUE(owner.run("SELECT FROM pg_namespace WHERE nspname = 'tracewright'")->empty());
}

TEST_F(PostgresStoreTest, InitTwiceChangesNothing) {
  init();
  ASSERT_TRUE(open().add_record(sample(0)));
  PostgresConnection owner = connect();
  auto notes = make_postgres_schema(owner, {.tuner = tuner_, .worker = worker_, .reader = reader_});
  ASSERT_TRUE(notes) << notes.error();
  EXPECT_EQ(join(*notes, "\n"), cat("schema `tracewright` has format ", postgres_sql::kNewestFormat, " already"));
  EXPECT_EQ(open().all(kWorkload, kTarget)->size(), 1u);
}

TEST_F(PostgresStoreTest, TwoInitsAtOnceMakeOneSchema) {
  std::vector<pid_t> children;
  const std::string where = address();
  server_->sql(name_, cat("CREATE ROLE ", tuner_, "; CREATE ROLE ", worker_, "; CREATE ROLE ", reader_));
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    auto owner = PostgresConnection::open(where);
    _exit(owner && make_postgres_schema(*owner, {.tuner = tuner_, .worker = worker_, .reader = reader_}) ? 0 : 1);
  }
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(open_error(where), "");
}

TEST_F(PostgresStoreTest, OtherProgramsDatabasesAreRefusedAndUntouched) {
  server_->sql(name_, "CREATE TABLE public.photos (name text)");
  PostgresConnection owner = connect();
  auto made = make_postgres_schema(owner, {.tuner = "", .worker = "", .reader = ""});
  EXPECT_NE(made.error().find("it holds tables of other programs (public.photos)"), std::string::npos) << made.error();
  EXPECT_TRUE(owner.run("SELECT FROM pg_namespace WHERE nspname = 'tracewright'")->empty());
  ASSERT_TRUE(make_postgres_schema(owner, {.beside_others = true, .tuner = "", .worker = "", .reader = ""}));
  EXPECT_EQ(open_error(address()), "");
  server_->sql(name_, "DROP SCHEMA tracewright CASCADE; CREATE SCHEMA tracewright; CREATE TABLE tracewright.t (n int)");
  for (const std::string& message : {open_error(address()), make_postgres_schema(owner).error()})
    EXPECT_NE(message.find("its schema `tracewright` was not made by tracewright"), std::string::npos) << message;
  server_->sql(name_,
               "CREATE TABLE tracewright.about (program text, format bigint); "
               "INSERT INTO tracewright.about VALUES ('a photo album', 1)");
  EXPECT_NE(open_error(address()).find("was not made by tracewright"), std::string::npos);
}

TEST_F(PostgresStoreTest, NewerFormatsAreRefusedAndOlderOnesBroughtUpToDate) {
  init();
  server_->sql(name_, "UPDATE tracewright.about SET format = 99");
  PostgresConnection owner = connect();
  for (const std::string& message : {open_error(address()), make_postgres_schema(owner).error()})
    EXPECT_EQ(message, cat("database ", address(), " has format 99, this tracewright knows formats up to ",
                           postgres_sql::kNewestFormat, "; use the version of tracewright that made it"));
  server_->sql(name_, cat("UPDATE tracewright.about SET format = ", postgres_sql::kNewestFormat));
  std::vector<postgres_sql::Migration> steps(std::begin(postgres_sql::kMigrations),
                                             std::end(postgres_sql::kMigrations));
  const int next = postgres_sql::kNewestFormat + 1;
  steps.push_back({next, "CREATE TABLE tracewright.more (n int); CREATE TABLE tracewright.more (n int)"});
  EXPECT_NE(
      check_postgres_schema(owner, steps).error().find("its owner brings it up to date with `tracewright db init`"),
      std::string::npos);
  SchemaOptions nobody{.tuner = "", .worker = "", .reader = ""};
  EXPECT_FALSE(make_postgres_schema(owner, nobody, steps)) << "a step that fails is undone as a whole";
  EXPECT_EQ(open_error(address()), "");
  steps.back().statements = "CREATE TABLE tracewright.more (n int)";
  ASSERT_TRUE(make_postgres_schema(owner, nobody, steps));
  EXPECT_TRUE(owner.run("SELECT n FROM tracewright.more"));
  EXPECT_TRUE(check_postgres_schema(owner, steps));
  EXPECT_NE(open_error(address()).find(cat("has format ", next)), std::string::npos) << "an older program refuses it";
}

// ---- rights

TEST_F(PostgresStoreTest, ARoleMayDoWhatItsNameSays) {
  init();
  {
    Database tuner = open(tuner_);
    ASSERT_TRUE(tuner.add_workload(kWorkload, "workload w { }"));
    ASSERT_TRUE(tuner.add_record(sample(0)));
    ASSERT_TRUE(tuner.save_model("tree", kTarget, 1, "one"));
    ASSERT_TRUE(tuner.save_model("tree", kTarget, 2, "two"));
    i64 run = *tuner.begin_run({.command = "tune"});
    ASSERT_TRUE(tuner.finish_run(run, "done"));
    EXPECT_EQ(tuner.runs()->at(0).outcome, "done");
    EXPECT_TRUE(tuner.verify()->good());
    EXPECT_NE(tuner.remove_host("machine 0").error().find("this role has no right to do that"), std::string::npos);
  }
  Database worker = open(worker_);
  EXPECT_TRUE(worker.add_record(sample(1)));
  EXPECT_EQ(*worker.workload_text(kWorkload), "workload w { }");
  EXPECT_FALSE(worker.add_workload(hash_of(7), "workload x { }"));
  EXPECT_FALSE(worker.all(kWorkload, kTarget));
  EXPECT_TRUE(worker.models()->empty()) << "cost models are none of its business";
  EXPECT_FALSE(worker.save_model("tree", kTarget, 3, "three"));
  EXPECT_TRUE(worker.save_model("machine rates", "this machine", 1, "1 2 3"));
  EXPECT_FALSE(worker.save_model("machine rates", "this machine", 1, "3 2 1")) << "nor what others have told";
  EXPECT_EQ(worker.models()->size(), 1u);
  Database reader = open(reader_);
  EXPECT_EQ(reader.all(kWorkload, kTarget)->size(), 2u);
  EXPECT_EQ(reader.models()->size(), 2u);
  EXPECT_EQ(reader.models()->at(0).data, "two");
  std::string message = reader.add_record(sample(2)).error();
  EXPECT_NE(message.find("this role has no right to do that"), std::string::npos) << message;
  EXPECT_FALSE(reader.add_workload(hash_of(7), "workload x { }"));
  EXPECT_FALSE(reader.save_model("tree", kTarget, 3, "three"));
  EXPECT_FALSE(reader.begin_run({.command = "tune"}));
}

// Straight to the server, past our own program.
TEST_F(PostgresStoreTest, TheServerHoldsRolesToTheirRights) {
  init();
  ASSERT_TRUE(open().add_record(sample(0)));
  const char* forbidden_to_all[] = {
      "UPDATE tracewright.records SET seconds_ps = 1",
      "DELETE FROM tracewright.records",
      "TRUNCATE tracewright.records",
      "DROP TABLE tracewright.records",
      "UPDATE tracewright.about SET format = 99",
      "INSERT INTO tracewright.about VALUES ('x', 1)",
      "CREATE TABLE tracewright.mine (n int)",
      "INSERT INTO tracewright.records (id) OVERRIDING SYSTEM VALUE VALUES (1)",
      "INSERT INTO tracewright.records (stored_by) VALUES ('somebody')",
      "ALTER SCHEMA tracewright OWNER TO current_user",
      "CREATE FUNCTION tracewright.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
      "CREATE TRIGGER t BEFORE INSERT ON tracewright.records FOR EACH ROW EXECUTE FUNCTION "
      "suppress_redundant_updates_trigger()",
  };
  const char* forbidden_to_workers[] = {
      "SELECT * FROM tracewright.records", "SELECT trace FROM tracewright.records",
      "INSERT INTO tracewright.workloads (digest, hash, text) VALUES ('', repeat('0', 32), '')",
      "INSERT INTO tracewright.models (digest, name, target, version, data) VALUES ('', 'tree', '', 1, '')",
      "SELECT * FROM tracewright.runs"};
  for (const std::string& role : {tuner_, worker_, reader_}) {
    PostgresConnection connection = connect(role);
    for (const char* statement : forbidden_to_all)
      EXPECT_EQ(connection.script(statement) ? "done" : connection.script(statement).failure().state, "42501")
          << role << ": " << statement;
  }
  PostgresConnection worker = connect(worker_);
  for (const char* statement : forbidden_to_workers) {
    auto done = worker.script(statement);
    EXPECT_EQ(done ? "done" : done.failure().state, "42501") << statement;
  }
  ASSERT_TRUE(run_insert(worker, postgres_insert_record(sample(1)), postgres_sql::kWriterGate));
  PostgresConnection owner = connect();
  auto rows = owner.run("SELECT stored_by FROM tracewright.records ORDER BY id");
  EXPECT_EQ((*rows)[1].text(0), worker_);
}

TEST_F(PostgresStoreTest, AMissingRoleIsMadeOrNamed) {
  server_->sql(name_,
               cat("CREATE ROLE ", name_, "_owner LOGIN; ALTER DATABASE ", name_, " OWNER TO ", name_, "_owner"));
  PostgresConnection owner = connect(name_ + "_owner");
  auto made = make_postgres_schema(owner, {.tuner = "no \"such'; role", .worker = "", .reader = ""});
  EXPECT_NE(made.error().find("CREATE ROLE \"no \"\"such'; role\" LOGIN"), std::string::npos) << made.error();
  EXPECT_NE(open_error(address()).find("has no tables"), std::string::npos) << "nothing of it was done";
}

TEST_F(PostgresStoreTest, HugeRowsAreRefused) {
  init();
  Record record = sample(0);
  record.trace = std::string(2 << 20, 'x');
  std::string message = open(worker_).add_record(record).error();
  EXPECT_NE(message.find("refuses a value"), std::string::npos) << message;
  EXPECT_LT(message.size(), 1000u);
}

// ---- records

TEST_F(PostgresStoreTest, TheBestOfATaskIsFoundByAnIndex) {
  init();
  PostgresConnection owner = connect();
  ASSERT_TRUE(
      owner.run("INSERT INTO tracewright.records (digest, task_key, machine_key, workload, target, status, "
                "seconds_ps, minimum_ps, first_quartile_ps, median_ps, third_quartile_ps, created, seed, "
                "generation, task, program, object, version, host, error, trace, cold_ps) SELECT '', n % 10, 1, "
                "$1, '', 'ok', n * 7919 % 20000, 0, 0, 0, 0, 0, 0, 0, '', '', '', '', '', '', '', 0 FROM "
                "generate_series(1, 20000) n",
                {kWorkload}));
  ASSERT_TRUE(owner.script("ANALYZE tracewright.records"));
  auto plan = [&](const std::string& statement) {
    auto rows = owner.run("EXPLAIN " + statement);
    std::string text = rows ? "" : rows.error();
    for (int i = 0; rows && i < rows->size(); ++i) text += (*rows)[i].text(0) + "\n";
    return text;
  };
  auto with_values = [](std::string query, const std::vector<std::string>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (std::size_t at; (at = query.find(cat("$", i + 1))) != std::string::npos;) query.replace(at, 2, values[i]);
    }
    return query;
  };
  std::string best = plan(with_values(postgres_best(), {"3", "1", "-1", "0", "256"}));
  EXPECT_NE(best.find("Index Scan using records_best"), std::string::npos) << best;
  EXPECT_EQ(best.find("Sort"), std::string::npos) << best;
  for (const char* key : {"3", "123456"}) {  // the second is new
    std::string page = plan(with_values(postgres_page<Record>("true", 0, true, 256), {key, "100", "20000"}));
    EXPECT_NE(page.find("Index Scan using records_task"), std::string::npos) << page;
    EXPECT_EQ(page.find("Sort"), std::string::npos) << page;
  }
  EXPECT_EQ((*owner.run("SHOW jit"))[0].text(0), "off") << "it would take longer than the page";
}

// A record gets its number before others can see it: a reader that asked for the latest must not pass one over that
// becomes visible later.
TEST_F(PostgresStoreTest, NoRecordAppearsBelowTheLatest) {
  init();
  const std::string where = address();
  std::vector<pid_t> writers;
  for (int w = 0; w < 4; ++w) {
    writers.push_back(fork());
    if (writers.back() != 0) continue;
    auto database = Database::open(where, DatabaseMode::Write);
    for (i64 n = 0; database && n < 100; ++n) {
      if (!database->add_records({sample(n), sample(n), sample(n)})) _exit(1);
    }
    _exit(database ? 0 : 1);
  }
  Database reader = open("postgres", DatabaseMode::Read);
  i64 after = 0, seen = 0;
  while (seen < 1200) {
    i64 latest = *reader.latest_record();
    ASSERT_TRUE(
        reader.visit({.after = after}, [&](const Record& record) { latest = std::max(latest, record.id), ++seen; }));
    after = latest;
    if (writers.empty()) break;
    std::erase_if(writers, [](pid_t writer) { return waitpid(writer, nullptr, WNOHANG) == writer; });
  }
  for (pid_t writer : writers) waitpid(writer, nullptr, 0);
  ASSERT_TRUE(reader.visit({.after = after}, [&](const Record&) { ++seen; }));
  EXPECT_EQ(seen, 1200);
  EXPECT_EQ(reader.all(kWorkload, kTarget)->size(), 1200u);
}

// Somebody who holds the gate of the writers, and never lets go of it, stops no reader.
TEST_F(PostgresStoreTest, AWriterThatHangsDoesNotStopReaders) {
  init();
  Database database = open();
  ASSERT_TRUE(database.add_record(sample(0)));
  PostgresConnection hanging = connect(worker_);
  ASSERT_TRUE(hanging.script("BEGIN"));
  ASSERT_TRUE(run_insert(hanging, postgres_insert_record(sample(1)), postgres_sql::kWriterGate));
  EXPECT_EQ(*database.latest_record(), 1);
  ASSERT_TRUE(hanging.script("COMMIT"));
  EXPECT_EQ(*database.latest_record(), 2);
}

TEST_F(PostgresStoreTest, ACopyInBothDirectionsKeepsRecords) {
  init();
  test::TemporaryDirectory folder;
  Database file = *Database::open(folder.path() + "/a.db", DatabaseMode::Write), server = open();
  ASSERT_TRUE(file.add_workload(kWorkload, "workload w { }"));
  for (i64 n = 0; n < 300; ++n) ASSERT_TRUE(file.add_record(sample(n)));
  ASSERT_TRUE(file.save_model("tree", kTarget, 1, std::string("\0\xff", 2)));
  auto report = copy_database(file, server);
  ASSERT_TRUE(report) << report.error();
  EXPECT_EQ(report->records, 300);
  EXPECT_EQ(report->workloads, 1);
  EXPECT_EQ(report->models, 1);
  EXPECT_EQ(*server.all(kWorkload, kTarget), *file.all(kWorkload, kTarget));
  report = copy_database(file, server);
  EXPECT_EQ(report->records, 0);
  EXPECT_EQ(report->known, 300);
  ASSERT_TRUE(server.add_record(sample(300)));
  Database back = *Database::open(folder.path() + "/b.db", DatabaseMode::Write);
  ASSERT_TRUE(copy_database(server, back));
  EXPECT_EQ(*back.all(kWorkload, kTarget), *server.all(kWorkload, kTarget));
  EXPECT_EQ(*back.workloads(), *file.workloads());
  EXPECT_EQ(back.load_model("tree", kTarget, 1)->data, std::string("\0\xff", 2));
  EXPECT_EQ(*server.remove_host("machine 1"), 100);
  EXPECT_EQ(server.all(kWorkload, kTarget)->size(), 201u);
  EXPECT_FALSE(file.remove_host("machine 1"));
}

// ---- bad luck

// Every record that was acknowledged is there after the server died at a random moment; and the next call connects
// again.
TEST(PostgresServerDies, NothingAcknowledgedIsLostAndLaterCallsReconnect) {
  std::string why;
  auto server = test::PostgresServer::start({{"fsync", "on"}, {"full_page_writes", "on"}}, &why);
  if (!test::PostgresServer::is_installed()) GTEST_SKIP() << "no PostgreSQL server: no package";
  ASSERT_TRUE(server) << why;
  const std::string address = server->address(server->make_database());
  {
    auto owner = PostgresConnection::open(address);
    ASSERT_TRUE(owner && make_postgres_schema(*owner));
  }
  auto database = Database::open(address, DatabaseMode::Write);
  ASSERT_TRUE(database) << database.error();
  Rng rng(5);
  std::map<i64, std::string> acknowledged;
  i64 n = 0;
  for (int round = 0; round < 5; ++round) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    std::thread killer([&, reports = rng.below(20), pause = rng.below(3000)] {  // some records, then a random moment
      char byte;
      for (i64 i = 0; i <= reports; ++i) (void)!read(ready[0], &byte, 1);
      usleep(static_cast<useconds_t>(pause));
      server->kill_all();
    });
    while (true) {
      auto id = database->add_record(sample(n++));
      if (!id) {
        EXPECT_TRUE(id.error().find("the connection to the server is lost") != std::string::npos ||
                    id.error().find("no server answers") != std::string::npos)
            << id.error();
        EXPECT_TRUE(id.failure().is_connection_lost);
        break;
      }
      acknowledged[*id] = hash_of(n - 1);
      (void)!write(ready[1], "x", 1);
    }
    killer.join();
    close(ready[0]), close(ready[1]);
    auto down = database->latest_record();
    ASSERT_FALSE(down);
    EXPECT_NE(down.error().find("no server answers"), std::string::npos) << down.error();
    ASSERT_TRUE(server->start_again());
    ASSERT_TRUE(database->latest_record()) << "it connects again";
    for (i64 end = n + rng.below(5); n < end; ++n) acknowledged[*database->add_record(sample(n))] = hash_of(n);
  }
  std::map<i64, std::string> present;
  ASSERT_TRUE(database->visit({}, [&](const Record& record) { present[record.id] = record.program; }));
  EXPECT_GT(acknowledged.size(), 20u);
  for (const auto& [id, program] : acknowledged) EXPECT_EQ(present[id], program) << id;
  EXPECT_LE(present.size(), acknowledged.size() + 5) << "at most the one at hand is unacknowledged";
  EXPECT_TRUE(database->verify()->good());
}

// Asked for the first time after a restart, an old connection is made anew, and nobody notices.
TEST_F(PostgresStoreTest, AConnectionOfBeforeARestartIsMadeAnew) {
  init();
  Database database = open();
  server_->end_sessions(name_);
  EXPECT_TRUE(database.latest_record());
  server_->end_sessions(name_);
  EXPECT_TRUE(database.add_record(sample(0)));
  server_->end_sessions(name_);
  EXPECT_TRUE(database.add_workload(kWorkload, "workload w { }"));
}

TEST_F(PostgresStoreTest, WhatIsWaitedForIsStoredOnce) {
  init();
  test::LossyProxy proxy(*server_);
  auto impatient = Database::open(proxy.address(name_), DatabaseMode::Write);
  ASSERT_TRUE(impatient) << impatient.error();
  proxy.lose_answer_to("COMMIT");
  EXPECT_FALSE(impatient->add_record(sample(0))) << "without a wait it is an error";
  std::vector<std::string> said;
  LongRun run({[] { return false; }, [&](const std::string& text) { said.push_back(text); }});
  auto opened = Database::open(proxy.address(name_), DatabaseMode::Write);
  ASSERT_TRUE(opened) << opened.error();
  auto is_stored_once = [&](int number, const auto& store) {
    proxy.lose_answer_to("COMMIT");
    auto done = store();
    EXPECT_TRUE(done) << done.error();
    EXPECT_EQ(proxy.lost(), number + 1);
  };
  is_stored_once(1, [&] { return opened->add_record(sample(1)); });
  is_stored_once(2, [&] { return opened->add_records({sample(2), sample(3)}); });
  is_stored_once(3, [&] { return opened->add_workload(kWorkload, "workload w { }"); });
  is_stored_once(4, [&] { return opened->begin_run({.command = "tune"}); });
  proxy.lose_answer_to("INSERT");  // not done yet: the transaction ends with the connection
  EXPECT_TRUE(opened->add_record(sample(4)));
  EXPECT_EQ(said.size(), 10u) << "away and there again, each time";
  std::multiset<std::string> programs;
  ASSERT_TRUE(open().visit({}, [&](Record& record) { programs.insert(record.program); }));
  EXPECT_EQ(programs, (std::multiset<std::string>{hash_of(0), hash_of(1), hash_of(2), hash_of(3), hash_of(4)}));
  EXPECT_EQ(open().workloads()->size(), 1u);
  EXPECT_EQ(open().runs()->size(), 1u);
}

// The server goes away when it has been reached, and before the database is open.
TEST_F(PostgresStoreTest, ALongRunOutlastsAServerThatGoesAwayAtItsBeginning) {
  init();
  test::LossyProxy proxy(*server_);
  const char* questions[] = {"to_regnamespace", "program, format", "pg_control_system"};
  proxy.lose_answer_to("pg_backend_pid");
  EXPECT_TRUE(Database::open(proxy.address(name_), DatabaseMode::Write)) << "while it connects, once is not enough";
  int lost = proxy.lost();
  EXPECT_EQ(lost, 1);
  for (const char* question : questions) {
    proxy.lose_answer_to(question);
    EXPECT_FALSE(Database::open(proxy.address(name_), DatabaseMode::Write)) << question;
    LongRun run({[] { return false; }, [](const std::string&) {}});
    proxy.lose_answer_to(question);
    auto opened = Database::open(proxy.address(name_), DatabaseMode::Write);
    EXPECT_TRUE(opened) << question << ": " << opened.error();
    EXPECT_EQ(proxy.lost(), lost += 2) << question;
  }
}

// The name leads to another database once the connection is made anew: a copy, say, or one that was made again.
TEST_F(PostgresStoreTest, NothingIsWrittenToAnotherDatabaseOfTheName) {
  init();
  Database impatient = open();
  LongRun run({[] { return false; }, [](const std::string&) {}});
  Database waiting = open();
  server_->sql("postgres", cat("DROP DATABASE ", name_, " WITH (FORCE)"));
  server_->sql("postgres", cat("CREATE DATABASE ", name_));
  init();
  for (Database* database : {&waiting, &impatient}) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      std::string message = database->add_record(sample(0)).error();
      EXPECT_NE(message.find("is another one than before"), std::string::npos) << message;
    }
  }
  EXPECT_EQ(*open().latest_record(), 0);
}

// The command: one sentence, exit code 3, no secret.
TEST_F(PostgresStoreTest, EveryCommandSaysWhatIsWrongWithAnAddress) {
  init();
  ASSERT_TRUE(open(tuner_).add_record(sample(0)));
  server_->sql(name_, cat("ALTER ROLE ", reader_, " PASSWORD 'right-one'"));
  test::TemporaryDirectory folder;
  const std::string passwords = folder.path() + "/passwords";
  test::write_file(passwords, "*:*:*:*:wr0ng\n");
  chmod(passwords.c_str(), 0600);
  test::RunOptions options{.folder = folder.path(), .environment = {cat("PGPASSFILE=", passwords)}};
  auto expect = [&](std::vector<std::string> words, const std::string& part) {
    test::Finished finished = test::tracewright(words, options);
    EXPECT_EQ(finished.code, 3) << join(words, " ") << ": " << finished.err;
    EXPECT_NE(finished.err.find(part), std::string::npos) << join(words, " ") << ": " << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ((finished.out + finished.err).find("wr0ng"), std::string::npos) << finished.err;
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
  };
  expect({"show", "postgresql://a@127.0.0.1:1/b"}, "no server answers");
  expect({"show", server_->loopback_address(name_, reader_)}, "the password of this role is wrong");
  expect({"show", server_->address("no_such")}, "has no database of that name");
  expect({"show", server_->address("postgres")}, "has no tables of tracewright");
  expect({"show", "postgresql://u:wr0ng@h/d"}, "has a password in it");
  expect({"show", "postgress://u:wr0ng@h/d"}, "has a password in it");
  expect({"show", "postgres:/u@h/d"}, "does not begin with postgresql://");
  expect({"db", "verify", "postgresql://u@h"}, "names no database");
  expect({"db", "init", address(reader_)}, "there is no role `tuner`, and this one may not make it");
  expect({"db", "remove", address(tuner_), "--host", "machine 0"}, "this role has no right to do that");
  server_->sql(name_, "UPDATE tracewright.about SET format = 99");
  expect({"show", address()}, "has format 99");
  expect({"db", "init", address()}, "has format 99");
}

}  // namespace
}  // namespace tw
