#include "runtime/store/database.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "backends/target.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "runtime/store/database_exchange.h"
#include "runtime/store/postgres_schema.h"
#include "sampler/tasks/best_kernel.h"
#include "support/postgres_server.h"

namespace tw {
namespace {

std::string hash_of(i64 number) {
  char hex[33];
  std::snprintf(hex, sizeof hex, "%032llx", static_cast<unsigned long long>(mix64(static_cast<u64>(number))));
  return hex;
}

const std::string dense = hash_of(-1), softmax = hash_of(-2);
const std::string zen = "cpu -mcpu=znver3 -threads=1";

// Record number n; traces have different lengths, so that some go to overflow pages.
Record sample(i64 n, const std::string& workload = dense) {
  Record record;
  record.workload = workload;
  record.target = zen;
  record.status = n % 5 == 4 ? "crash" : n % 5 == 3 ? "noisy" : "ok";
  i64 picoseconds = 1000000 + 7919 * (n * 37 % 101);
  if (record.ok()) record.seconds = record.median = from_picoseconds(picoseconds);
  if (record.ok()) record.minimum = record.first_quartile = from_picoseconds(picoseconds - 17);
  if (record.ok()) record.third_quartile = from_picoseconds(picoseconds + 99);
  if (record.ok() && n % 3 == 1) record.cold = from_picoseconds(picoseconds + 500000);
  record.created = 1700000000000 + n;
  record.seed = ~u64{0} - static_cast<u64>(n);
  record.generation = n / 64;
  record.task = "ffn1";
  record.program = hash_of(n);
  record.version = "0.1.0";
  record.host = "a machine";
  record.error = record.ok() ? "" : "SIGSEGV at step 3, `j` \xc3\xb6";
  for (i64 line = 0; line < 10 + n % 7 * 40; ++line) record.trace += cat("v", line, " = split(i, [_, ", n, "])\n");
  return record;
}

// A folder that goes when the test ends.
class DatabaseTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tw-database-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    folder_ = name;
    chmod(name, 0755);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  // The path of a database; on a server its address.
  virtual std::string file(const std::string& name = "t.db") const { return folder_ + "/" + name; }
  Database open(DatabaseMode mode = DatabaseMode::Write) const {
    auto database = Database::open(file(), mode);
    EXPECT_TRUE(database) << (database ? "" : database.error());
    return std::move(*database);
  }
  // Makes the file with records 0 .. count - 1 of `dense` and closes it. Returns them as stored.
  std::map<i64, Record> fill(i64 count) const {
    Database database = open();
    EXPECT_TRUE(database.add_workload(dense, "workload dense { }"));
    std::map<i64, Record> stored;
    for (i64 n = 0; n < count; ++n) {
      Record record = sample(n);
      auto id = database.add_record(record);
      EXPECT_TRUE(id);
      record.id = *id;
      stored[record.id] = record;
    }
    return stored;
  }
  std::string open_error(DatabaseMode mode = DatabaseMode::Write, const std::string& name = "t.db") const {
    auto database = Database::open(file(name), mode);
    if (database) return "";
    std::string message = database.error();
    for (std::size_t at; (at = message.find(folder_)) != std::string::npos;) message.replace(at, folder_.size(), "DIR");
    return message;
  }
  std::string bytes(const std::string& name = "t.db") const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& content, const std::string& name = "t.db") const {
    std::ofstream(file(name), std::ios::binary | std::ios::trunc) << content;
  }

  std::string folder_;
};

enum class Backend { File, Server };

// The same tests for both places where a database may be.
class EveryDatabaseTest : public DatabaseTest, public testing::WithParamInterface<Backend> {
 protected:
  bool is_server() const { return GetParam() == Backend::Server; }
  void SetUp() override {
    DatabaseTest::SetUp();
    if (!is_server()) return;
    TW_POSTGRES_OR_SKIP(server);
    server_ = server;
  }
  // The address of a database with empty tables.
  std::string file(const std::string& name = "t.db") const override {
    if (!is_server()) return DatabaseTest::file(name);
    std::string& known = names_[name];
    if (!known.empty()) return server_->address(known);
    known = server_->make_database();
    auto connection = PostgresConnection::open(server_->address(known));
    EXPECT_TRUE(connection && make_postgres_schema(*connection));
    return server_->address(known);
  }
  // Changes rows behind the digest's back.
  void edit(const std::string& statement) const {
    if (is_server()) return server_->sql((file(), names_["t.db"]), "SET search_path = tracewright; " + statement);
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &raw), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(raw, statement.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(raw);
  }

  test::PostgresServer* server_ = nullptr;
  mutable std::map<std::string, std::string> names_;  // of databases on the server
};

INSTANTIATE_TEST_SUITE_P(Backends, EveryDatabaseTest, testing::Values(Backend::File, Backend::Server),
                         [](const auto& info) { return info.param == Backend::File ? "File" : "Server"; });

// Runs `body` in a child process and returns its exit status.
template <class Body>
int in_child(Body body) {
  pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST_P(EveryDatabaseTest, RecordsComeBackAsTheyWereStored) {
  std::map<i64, Record> stored = fill(30);
  Database database = open(DatabaseMode::Read);
  auto all = database.all(dense, zen);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 30u);
  for (const Record& record : *all) EXPECT_EQ(record, stored[record.id]);
  EXPECT_EQ(*database.record(7), stored[7]);
  EXPECT_EQ(*database.trials(dense, zen, "a machine"), 30);
  EXPECT_EQ(*database.trials(dense, "cpu -mcpu=znver3 -threads=2", "a machine"), 0);
  EXPECT_TRUE(database.all(softmax, zen)->empty());
  EXPECT_EQ(database.damaged(), 0);
  EXPECT_TRUE(database.verify()->good());
  EXPECT_EQ(database.verify()->rows, 31);
  EXPECT_NE(database.record(31).error().find("has no record 31"), std::string::npos);
}

TEST_P(EveryDatabaseTest, BestIsSortedAndLeavesFailuresOut) {
  std::map<i64, Record> stored = fill(40);
  Database database = open(DatabaseMode::Read);
  std::vector<Record> expected;
  for (const auto& [id, record] : stored) {
    if (record.ok()) expected.push_back(record);
  }
  std::sort(expected.begin(), expected.end(),
            [](const Record& a, const Record& b) { return std::pair(a.seconds, a.id) < std::pair(b.seconds, b.id); });
  EXPECT_EQ(*database.best(dense, zen, "a machine", 1000), expected);
  expected.resize(3);
  EXPECT_EQ(*database.best(dense, zen, "a machine", 3), expected);
  EXPECT_TRUE(database.best(dense, zen, "a machine", 0)->empty());
  EXPECT_TRUE(database.best(softmax, zen, "a machine", 3)->empty());
}

TEST_P(EveryDatabaseTest, StoredTextIsMadeSafeAndTimesAreRounded) {
  Database database = open();
  Record record = sample(4);
  record.error = std::string("bad \xff byte \0 and \xed\xa0\x80", 20) + std::string(10000, 'x');
  record.created = 0;
  Record good = sample(1);
  good.seconds = 1.23456789012345678e-5;
  i64 before = now_ms();
  i64 id = *database.add_record(record);
  Record stored = *database.record(id);
  EXPECT_EQ(stored.error.substr(0, 21), "bad ? byte ? and ???x");
  EXPECT_EQ(stored.error.size(), 4096u);
  EXPECT_GE(stored.created, before);
  EXPECT_DOUBLE_EQ(database.record(*database.add_record(good))->seconds, 1.2345679e-5);
}

TEST_P(EveryDatabaseTest, WorkloadsModelsRunsAndTasks) {
  Database database = open();
  ASSERT_TRUE(database.add_workload(dense, "first text"));
  ASSERT_TRUE(database.add_workload(dense, "the same with other names"));
  ASSERT_TRUE(database.add_workload(softmax, "another"));
  EXPECT_EQ(*database.workload_text(dense), "first text");
  EXPECT_EQ(*database.workload_text(hash_of(99)), "");
  EXPECT_EQ(database.workloads()->size(), 2u);

  std::string weights("\0\1\xff bytes", 9);
  ASSERT_TRUE(database.save_model("mlp", zen, 3, "old"));
  ASSERT_TRUE(database.save_model("mlp", zen, 4, weights));
  EXPECT_EQ(database.load_model("mlp", zen, 4)->data, weights);
  EXPECT_EQ(database.load_model("mlp", zen, 3)->data, "") << "it was replaced";
  EXPECT_EQ(database.load_model("mlp", "cpu", 4)->data, "");

  i64 first = *database.begin_run({.command = "tune a.yaml", .seed = 7, .version = "0.1.0", .host = "h"});
  i64 second = *database.begin_run({.command = "tune b.yaml", .seed = 8});
  ASSERT_TRUE(database.finish_run(first, "512 trials"));
  auto runs = *database.runs();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].outcome, "512 trials");
  EXPECT_GE(runs[0].finished, runs[0].started);
  EXPECT_EQ(runs[0].seed, 7u);
  EXPECT_EQ(runs[1].id, second);
  EXPECT_EQ(runs[1].finished, 0);

  for (i64 n = 0; n < 5; ++n) ASSERT_TRUE(database.add_record(sample(n)));
  ASSERT_TRUE(database.add_record(sample(4, softmax)));
  auto tasks = *database.tasks();
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].workload, dense);
  EXPECT_EQ(tasks[0].trials, 5);
  EXPECT_EQ(tasks[0].failed, 1);
  ASSERT_EQ(tasks[0].machines.size(), 1u);
  EXPECT_EQ(tasks[0].machines[0].best_seconds, (*database.best(dense, zen, "a machine", 1))[0].seconds);
  EXPECT_EQ(tasks[1].failed, 1);
  EXPECT_EQ(tasks[1].machines[0].best_seconds, 0);
}

TEST_F(DatabaseTest, AMachineIsItsDeviceProcessorAndCaches) {
  EXPECT_EQ(machine_of("Xeon, 1 of 2 cores, L1 48 KiB, L3 480 KiB, Linux 6.1.0-9"), "Xeon, L1 48 KiB, L3 480 KiB");
  EXPECT_EQ(machine_of("H100, 80 GB; Xeon, 2 of 2 cores, L3 9 KiB, Linux 5.10"), "H100, 80 GB; Xeon, L3 9 KiB");
  EXPECT_EQ(machine_of("a machine"), "a machine");
  EXPECT_EQ(machine_of(""), "");
  EXPECT_NE(machine_of(host_description()).find("L2 "), std::string::npos);
  EXPECT_EQ(machine_of(host_description()).find("Linux"), std::string::npos);
}

TEST_P(EveryDatabaseTest, TimesOfDifferentMachinesAreNotCompared) {
  Database database = open();
  auto add = [&](i64 n, const std::string& host, double seconds) {
    Record record = sample(n);
    record.host = host, record.seconds = seconds, record.status = seconds > 0 ? "ok" : "crash";
    return *database.add_record(record);
  };
  i64 slow = add(1, "slow, 1 of 1 cores, Linux 6.1", 3e-3);
  i64 fast = add(2, "fast, 4 of 8 cores, Linux 6.1", 1e-6);
  add(3, "slow, 1 of 1 cores, Linux 6.2", 4e-3);
  add(5, "broken", 0);
  EXPECT_EQ(database.best(dense, zen, "slow", 9)->size(), 2u);
  EXPECT_EQ((*database.best(dense, zen, "slow", 9))[0].id, slow);
  EXPECT_EQ((*database.best(dense, zen, "fast", 9))[0].id, fast);
  EXPECT_EQ(*database.trials(dense, zen, "slow"), 2);
  EXPECT_EQ(*database.trials(dense, zen, "broken"), 1);
  TaskSummary task = (*database.tasks())[0];
  ASSERT_EQ(task.machines.size(), 3u);
  EXPECT_EQ(task.trials, 4);
  EXPECT_EQ(task.chosen("slow")->best_record, slow);
  EXPECT_EQ(task.chosen("fast")->best_record, fast);
  EXPECT_EQ(task.chosen("broken")->machine, "slow") << "nothing good there: the machine of the latest good trial";
  EXPECT_EQ(task.chosen("new")->machine, "slow");
  task.machines = {task.machines[2]};
  EXPECT_EQ(task.chosen("broken"), nullptr);
}

TEST_P(EveryDatabaseTest, TheOtherTimingOfThisMachineIsNearerThanAnotherMachine) {
  Database database = open();
  auto add = [&](i64 n, const std::string& host) {
    Record record = sample(n);
    record.host = host;
    return *database.add_record(record);
  };
  const std::string target = "cpu -threads=1";
  auto best = [&](Timing timing, std::string& message) {
    TaskSummary task = (*database.tasks())[0];
    task.target = target;
    return stored_record(database, task, message, timing)->id;
  };
  std::string message;
  i64 warm = add(1, own_machine(target, Timing::Warm));
  add(2, "another machine");
  EXPECT_EQ(best(Timing::Cold, message), warm);
  EXPECT_NE(message.find("measured with warm caches only"), std::string::npos) << message;
  i64 cold = add(5, own_machine(target, Timing::Cold));
  add(6, "another machine");
  message.clear();
  EXPECT_EQ(best(Timing::Cold, message), cold);
  EXPECT_EQ(best(Timing::Warm, message), warm);
  EXPECT_EQ(message, "");
  i64 faster = add(0, own_machine(target, Timing::Cold));
  EXPECT_EQ(best(Timing::Cold, message), faster);
  EXPECT_EQ(stored_record(database, (*database.tasks())[0], message, Timing::Cold, WhichRecord::FirstMeasured)->id,
            cold);
}

TEST_P(EveryDatabaseTest, TwoHandlesSeeEachOther) {
  Database a = open(), b = open();
  ASSERT_TRUE(a.add_record(sample(0)));
  ASSERT_TRUE(b.add_record(sample(1)));
  ASSERT_TRUE(a.add_record(sample(2)));
  EXPECT_EQ(a.all(dense, zen)->size(), 3u);
  EXPECT_EQ(*a.all(dense, zen), *b.all(dense, zen));
  Database reader = open(DatabaseMode::Read);
  EXPECT_EQ(*reader.all(dense, zen), *b.all(dense, zen));
  EXPECT_NE(reader.add_record(sample(3)).error().find("is read-only"), std::string::npos);
}

TEST_P(EveryDatabaseTest, TwoProcessesWriteAtOnce) {
  const std::string path = file();
  pid_t writers[2];
  for (int w = 0; w < 2; ++w) {
    writers[w] = fork();
    if (writers[w] != 0) continue;
    auto database = Database::open(path, DatabaseMode::Write);  // both may be the one that makes the file
    if (!database) _exit(2);
    for (i64 n = 0; n < 200; ++n) {
      if (!database->add_record(sample(1000 * w + n))) _exit(3);
    }
    _exit(0);
  }
  for (pid_t writer : writers) {
    int status = -1;
    waitpid(writer, &status, 0);
    EXPECT_EQ(status, 0);
  }
  Database database = open();
  std::set<std::string> programs;
  for (const Record& record : *database.all(dense, zen)) {
    programs.insert(record.program);
  }
  std::set<std::string> expected;
  for (i64 n = 0; n < 200; ++n) expected.insert({hash_of(n), hash_of(1000 + n)});
  EXPECT_EQ(programs, expected);
  EXPECT_EQ(*database.trials(dense, zen, "a machine"), 400);
  EXPECT_TRUE(database.verify()->good());
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().filename().string().rfind("t.db", 0), 0u);
    EXPECT_EQ(entry.path().string().find(".new-"), std::string::npos) << "a temporary file is left";
  }
}

// Every id that the child reported after its commit must be there, whatever moment it is killed at.
TEST_P(EveryDatabaseTest, KillingTheWriterLosesNothingAcknowledged) {
  Rng rng(2022);
  const std::string path = file();
  std::map<i64, std::string> acknowledged;  // id -> program
  for (int round = 0; round < 50; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    pid_t child = fork();
    if (child == 0) {
      auto database = Database::open(path, DatabaseMode::Write);
      if (!database) _exit(2);
      for (i64 n = 0;; ++n) {
        i64 line[2] = {round * 100000 + n, 0};
        auto id = database->add_record(sample(line[0]));
        if (!id) _exit(3);
        line[1] = *id;
        if (::write(pipe_ends[1], line, sizeof line) != sizeof line) _exit(4);
      }
    }
    close(pipe_ends[1]);
    i64 line[2];
    i64 reports = rng.below(12);  // wait for some, then kill at a random moment
    for (i64 i = 0; i < reports && read(pipe_ends[0], line, sizeof line) == sizeof line; ++i)
      acknowledged[line[1]] = hash_of(line[0]);
    usleep(static_cast<useconds_t>(rng.below(3000)));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself with " << WEXITSTATUS(status);
    while (read(pipe_ends[0], line, sizeof line) == sizeof line) acknowledged[line[1]] = hash_of(line[0]);
    close(pipe_ends[0]);
  }
  Database database = open();
  std::map<i64, std::string> present;
  ASSERT_TRUE(database.visit({}, [&](const Record& record) { present[record.id] = record.program; }));
  EXPECT_GT(acknowledged.size(), 100u);
  for (const auto& [id, program] : acknowledged) EXPECT_EQ(present[id], program);
  EXPECT_LE(present.size(), acknowledged.size() + 50) << "at most the one at hand is unacknowledged";
  EXPECT_TRUE(database.verify()->good());
}

// A flipped bit: a clear refusal, or only records that equal what was stored.
TEST_F(DatabaseTest, FlippedBitsAreNeverBelieved) {
  std::map<i64, Record> stored = fill(150);
  std::string original = bytes();
  ASSERT_FALSE(std::filesystem::exists(file("t.db-wal")));
  Rng rng(1805);
  int refused = 0, unharmed = 0, one_lost = 0, several_lost = 0;
  for (int round = 0; round < 300; ++round) {
    std::string damaged = original;
    u64 bit = static_cast<u64>(rng.below(static_cast<i64>(8 * original.size())));
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    write(damaged);
    for (const char* suffix : {"-wal", "-shm"}) unlink(file(std::string("t.db") + suffix).c_str());
    auto database = Database::open(file(), DatabaseMode::Read);
    if (!database) {
      EXPECT_NE(database.error().find(file()), std::string::npos) << database.error();
      ++refused;
      continue;
    }
    std::size_t returned = 0;
    DatabaseStatus done = database->visit({dense, zen}, [&](const Record& record) {
      ++returned;
      ASSERT_TRUE(stored.count(record.id)) << "bit " << bit;
      EXPECT_EQ(record, stored[record.id]) << "bit " << bit;
    });
    if (!done) {
      ++refused;
      continue;
    }
    std::size_t lost = stored.size() - returned;
    unharmed += lost == 0;
    one_lost += lost == 1;
    several_lost += lost > 1;
    // A flip in the two key columns hides a record from the filter; the scan over everything counts
    // it.
    auto verification = database->verify();
    ASSERT_TRUE(verification);
    EXPECT_TRUE(lost == 0 || !verification->good()) << "bit " << bit;
    EXPECT_EQ(bytes(), damaged) << "reading changed the file";
  }
  RecordProperty("refused", refused);
  RecordProperty("unharmed", unharmed);
  RecordProperty("one_lost", one_lost);
  RecordProperty("several_lost", several_lost);
  std::printf("refused %d, unharmed %d, one record lost %d, several lost %d\n", refused, unharmed, one_lost,
              several_lost);
  EXPECT_GT(one_lost, 200) << "nearly all of the file is records, and each bit costs its record";
  EXPECT_LT(several_lost + refused, 40);
}

// The same for the log beside the file, as a killed writer leaves it: its frames have check sums.
TEST_F(DatabaseTest, FlippedBitsInTheLogAreNeverBelieved) {
  std::map<i64, Record> stored = fill(20);
  in_child([&] {
    auto database = Database::open(file(), DatabaseMode::Write);
    for (i64 n = 20; database && n < 40; ++n) (void)database->add_record(sample(n));
    return raise(SIGKILL);
  });
  std::string original = bytes(), log = bytes("t.db-wal");
  ASSERT_GT(log.size(), 40000u);
  for (i64 n = 20; n < 40; ++n) (stored[n + 1] = sample(n)).id = n + 1;
  Rng rng(7);
  int shortened = 0;
  for (int round = 0; round < 100; ++round) {
    std::string damaged = log;
    u64 bit = static_cast<u64>(rng.below(static_cast<i64>(8 * log.size())));
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    write(original);
    write(damaged, "t.db-wal");
    unlink(file("t.db-shm").c_str());
    Database database = open();
    i64 returned = 0;
    ASSERT_TRUE(database.visit({}, [&](const Record& record) {
      EXPECT_EQ(record, stored[record.id]) << "bit " << bit;
      EXPECT_EQ(record.id, ++returned) << "what is lost is lost from the end";
    }));
    EXPECT_GE(returned, 20);
    shortened += returned < 40;
    EXPECT_TRUE(database.add_record(sample(1000 + round))) << "and it goes on";
  }
  EXPECT_GT(shortened, 50);
}

// Opened for writing, a file whose structure is damaged is refused and left as it is.
TEST_F(DatabaseTest, ADamagedStructureIsNotWrittenTo) {
  fill(150);
  std::string damaged = bytes();
  // The header and cell pointers of a leaf (type 13) in the middle of the records.
  std::size_t page = damaged.size() / 2 / 4096 * 4096;
  while (page < damaged.size() && damaged[page] != 13) page += 4096;
  ASSERT_LT(page, damaged.size());
  for (std::size_t at = page; at < page + 24; ++at) damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
  write(damaged);
  std::string message = open_error();
  EXPECT_EQ(message.rfind("database DIR/t.db is damaged; it was not changed", 0), 0u) << message;
  EXPECT_EQ(bytes(), damaged);
  Database reader = open(DatabaseMode::Read);
  EXPECT_GT(reader.all(dense, zen)->size(), 100u) << "the rest can be read";
  EXPECT_GT(reader.damaged(), 0);
}

TEST_F(DatabaseTest, FilesThatAreNotOursAreRefusedAndUntouched) {
  EXPECT_EQ(open_error(DatabaseMode::Read), "there is no database DIR/t.db");
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_EQ(open_error(DatabaseMode::Write, "no/t.db"),
            "cannot make database DIR/no/t.db: there is no folder DIR/no; make it first");
  std::filesystem::create_directory(file("folder"));
  EXPECT_EQ(open_error(DatabaseMode::Write, "folder"), "database DIR/folder is not a regular file");

  write("");
  EXPECT_EQ(open_error(), "database DIR/t.db is empty; remove the file, then a new database is made");
  write("version: 1\ntarget: cpu\n");
  EXPECT_EQ(open_error(),
            "database DIR/t.db is damaged, or is not a database: its first bytes are not those of "
            "an SQLite file");
  EXPECT_EQ(bytes(), "version: 1\ntarget: cpu\n");

  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(file("other.db").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "CREATE TABLE photos (name TEXT)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  std::string before = bytes("other.db");
  EXPECT_EQ(open_error(DatabaseMode::Write, "other.db"),
            "database DIR/other.db is an SQLite file of another program, or its header is damaged");
  EXPECT_EQ(bytes("other.db"), before);

  write("left over", "gone.db-wal");
  EXPECT_EQ(open_error(DatabaseMode::Write, "gone.db"),
            "cannot make database DIR/gone.db: DIR/gone.db-wal is left of a database of that name; "
            "move it away first");
}

TEST_F(DatabaseTest, NewerFormatsAreRefusedAndUntouched) {
  fill(3);
  std::string newer = bytes();
  newer[63] = 4;  // user_version, big-endian, at byte 60
  write(newer);
  EXPECT_EQ(open_error(),
            "database DIR/t.db has format 4, this tracewright reads formats 2 to 3; use the version of "
            "tracewright that wrote it");
  EXPECT_EQ(open_error(DatabaseMode::Read), open_error());
  EXPECT_EQ(bytes(), newer);
}

TEST_F(DatabaseTest, ADamagedHeaderIsRefused) {
  fill(3);
  std::string damaged = bytes();
  damaged[0] = 's';
  write(damaged);
  EXPECT_NE(open_error().find("is damaged, or is not a database"), std::string::npos);
  damaged[0] = 'S';
  damaged[16] = 3;  // a page size that is no power of two
  write(damaged);
  EXPECT_NE(open_error().find("is damaged"), std::string::npos) << open_error();
  EXPECT_EQ(bytes(), damaged);
  write(damaged.substr(0, 60));
  EXPECT_NE(open_error().find("is damaged"), std::string::npos);
}

TEST_F(DatabaseTest, AStrangersTriggersAndViewsAreRefused) {
  for (const char* statement :
       {"CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END", "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE more (x)", "CREATE INDEX i ON records(target)"}) {
    std::filesystem::remove(file());
    fill(2);
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &raw), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(raw, statement, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(raw);
    for (DatabaseMode mode : {DatabaseMode::Read, DatabaseMode::Write}) {
      EXPECT_NE(open_error(mode).find("that tracewright did not make"), std::string::npos) << open_error(mode);
    }
  }
}

// Changed with another program, behind the digest's back.
TEST_P(EveryDatabaseTest, AnEditedRecordIsLeftOutAndCounted) {
  fill(10);
  edit("UPDATE records SET seconds_ps = 1 WHERE id = 3");
  Database database = open();
  EXPECT_EQ(database.all(dense, zen)->size(), 9u);
  EXPECT_NE((*database.best(dense, zen, "a machine", 1))[0].id, 3);
  EXPECT_EQ(database.damaged(), 1) << "counted once, however often it is met";
  EXPECT_NE(database.record(3).error().find("record 3 of database"), std::string::npos);
  EXPECT_EQ(database.verify()->damaged, 1);
  EXPECT_EQ(*database.trials(dense, zen, "a machine"), 10) << "it was measured, so it counts for the budget";
}

TEST_F(DatabaseTest, ReadOnlyFileAndFolder) {
  fill(5);
  chmod(file().c_str(), 0444);
  chmod(folder_.c_str(), 0555);
  // Root may write anywhere, so the checks run as somebody else.
  auto unprivileged = [&](auto body) {
    return in_child([&] {
      if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 100;
      return body() ? 0 : 1;
    });
  };
  std::string before = bytes();
  EXPECT_EQ(unprivileged([&] { return open_error().find("is read-only") != std::string::npos; }), 0);
  EXPECT_EQ(
      unprivileged([&] { return open_error(DatabaseMode::Write, "new.db").find("is read-only") != std::string::npos; }),
      0);
  EXPECT_EQ(unprivileged([&] {
              auto database = Database::open(file(), DatabaseMode::Read);
              return database && database->all(dense, zen)->size() == 5;
            }),
            0)
      << "reading works";
  chmod(file().c_str(), 0666);
  EXPECT_EQ(unprivileged([&] { return open_error().find("lies in folder") != std::string::npos; }), 0);
  chmod(folder_.c_str(), 0755);
  EXPECT_EQ(bytes(), before);
}

// The file may not grow beyond a limit: what a full disk does, without one.
TEST_F(DatabaseTest, AFullDiskKeepsWhatWasStored) {
  fill(5);
  int status = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{200000, 200000};
    setrlimit(RLIMIT_FSIZE, &limit);
    auto database = Database::open(file(), DatabaseMode::Write);
    if (!database) return 1;
    for (i64 n = 5; n < 1000; ++n) {
      auto id = database->add_record(sample(n));
      if (id) continue;
      bool clear = id.error().find(file()) != std::string::npos &&
                   id.error().find("what was stored before is safe") != std::string::npos;
      // Reading goes on, and nothing half-written shows.
      auto all = database->all(dense, zen);
      return clear && all && static_cast<i64>(all->size()) == n ? 0 : 2;
    }
    return 3;  // the limit was never met
  });
  EXPECT_EQ(status, 0);
  Database database = open();
  EXPECT_GE(database.all(dense, zen)->size(), 5u);
  EXPECT_TRUE(database.verify()->good());
  EXPECT_TRUE(database.add_record(sample(5000))) << "with space again, it goes on";
}

TEST_F(DatabaseTest, AFullFileSystemKeepsWhatWasStored) {
  std::string disk = file("disk");
  std::filesystem::create_directory(disk);
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=400k") != 0) GTEST_SKIP() << "mounting a small disk needs root";
  std::size_t stored = 0;
  std::string message;
  {
    auto database = Database::open(disk + "/t.db", DatabaseMode::Write);
    EXPECT_TRUE(database);
    while (database && message.empty() && stored < 1000) {
      auto id = database->add_record(sample(static_cast<i64>(stored)));
      if (id) ++stored;
      if (!id) message = id.error();
    }
    EXPECT_NE(message.find("the disk is full"), std::string::npos) << message;
    EXPECT_EQ(database->all(dense, zen)->size(), stored);
  }
  {
    auto database = Database::open(disk + "/t.db", DatabaseMode::Read);
    EXPECT_TRUE(database && database->all(dense, zen)->size() == stored);
    auto second = Database::open(disk + "/second.db", DatabaseMode::Write);
    EXPECT_TRUE(!second && second.error().find("the disk is full") != std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(disk + "/second.db"));
  }
  EXPECT_EQ(umount(disk.c_str()), 0);
  EXPECT_GT(stored, 10u);
}

// ---- a file that goes while it is open

TEST_F(DatabaseTest, ARemovedFileIsMadeAgainWithAllThatItHeld) {
  std::map<i64, Record> stored = fill(20);
  Database database = open();
  EXPECT_TRUE(database.is_in_place());
  std::filesystem::remove(file());  // and the log beside it stays
  EXPECT_FALSE(database.is_in_place());
  for (i64 n = 20; n < 30; ++n) {
    Record record = sample(n);
    auto id = database.add_record(record);
    ASSERT_TRUE(id) << id.error();
    record.id = *id;
    stored[*id] = record;
    std::string notice = database.take_notice();
    EXPECT_EQ(notice,
              n > 20
                  ? ""
                  : cat("database ", file(),
                        " was removed or renamed while it was in use; a new file of that name has all that it held"));
  }
  EXPECT_TRUE(database.is_in_place());
  Database again = open(DatabaseMode::Read);
  auto all = again.all(dense, zen);
  ASSERT_TRUE(all) << all.error();
  ASSERT_EQ(all->size(), stored.size());
  for (const Record& record : *all) EXPECT_EQ(record, stored[record.id]);
  EXPECT_EQ(*again.workload_text(dense), "workload dense { }");
  EXPECT_TRUE(again.verify()->good());
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_EQ(entry.path().string().find("rescued"), std::string::npos) << entry.path();
}

TEST_F(DatabaseTest, OfAReplacedFileWhatItHeldIsWrittenBesideTheOther) {
  std::map<i64, Record> stored = fill(20);
  Database database = open();
  std::filesystem::remove(file());
  std::ofstream(file()) << "something else";
  auto id = database.add_record(sample(20));
  std::string beside = cat(file(), ".rescued-", getpid());
  std::string problem =
      cat("database ", file(), " was replaced by another file while it was in use; what it held is in ", beside,
          " (another file has its name)");
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error(), problem);
  EXPECT_FALSE(database.is_in_place());
  EXPECT_EQ(database.finish_run(1, "done").error(), problem);  // and no second copy is made
  std::ifstream other(file());
  std::string text{std::istreambuf_iterator<char>(other), {}};
  EXPECT_EQ(text, "something else");
  auto rescued = Database::open(beside, DatabaseMode::Write);
  ASSERT_TRUE(rescued) << rescued.error();
  EXPECT_EQ(rescued->all(dense, zen)->size(), stored.size());
  EXPECT_TRUE(rescued->verify()->good());
}

TEST_F(DatabaseTest, WhereTheFolderIsGoneItSaysWhatIsLost) {
  fill(3);
  Database database = open();
  std::filesystem::remove_all(folder_);
  auto id = database.add_record(sample(3));
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error(), cat("database ", file(),
                            " was removed or renamed while it was in use; what it held is lost, for no other file can "
                            "be made: unable to open database file"));
}

// Records of several tasks and machines in a random order, among them such as are no trials.
TEST_P(EveryDatabaseTest, SummariesAreThoseOfAllRecords) {
  Database database = open();
  Rng rng(31);
  std::vector<Record> stored;
  for (i64 n = 0; n < 300; ++n) {
    Record record = sample(n, rng.below(2) ? dense : softmax);
    record.target = rng.below(3) ? zen : "cpu -threads=2";
    record.host = cat("machine ", rng.below(3), ", ", rng.below(4) + 1, " of 4 cores");
    record.task = cat("task", n);
    if (rng.below(4) == 0) record.status = Record::same_code, record.seconds = 0;
    if (record.ok()) record.seconds = from_picoseconds(1000000 + rng.below(20));  // many equal times
    record.id = n + 1;
    stored.push_back(record);
  }
  ASSERT_TRUE(database.add_records(stored));
  std::vector<TaskSummary> tasks = *database.tasks();
  ASSERT_EQ(tasks.size(), 4u);
  i64 first = 0;
  for (const TaskSummary& task : tasks) {
    std::vector<const Record*> own;
    for (const Record& record : stored)
      if (record.workload == task.workload && record.target == task.target) own.push_back(&record);
    EXPECT_GT(own.front()->id, first) << "in the order of their first record";
    first = own.front()->id;
    EXPECT_EQ(task.task, own.back()->task);
    i64 trials = 0, failed = 0, first_of_machine = 0;
    for (const MachineSummary& machine : task.machines) {
      const Record *best = nullptr, *first_trial = nullptr, *first_good = nullptr, *last_good = nullptr;
      i64 count = 0, bad = 0;
      for (const Record* record : own) {
        if (machine_of(record->host) != machine.machine || !record->is_trial()) continue;
        if (!first_trial) first_trial = record;
        ++count, bad += !record->ok();
        if (!record->ok()) continue;
        if (!first_good) first_good = record;
        last_good = record;
        if (!best || record->seconds < best->seconds) best = record;
      }
      EXPECT_GT(first_trial->id, first_of_machine);
      first_of_machine = first_trial->id;
      EXPECT_EQ(machine.trials, count);
      EXPECT_EQ(machine.failed, bad);
      EXPECT_EQ(machine.best_record, best->id);
      EXPECT_EQ(machine.first_good, first_good->id);
      EXPECT_EQ(machine.last_good, last_good->id);
      EXPECT_DOUBLE_EQ(machine.best_seconds, best->seconds);
      EXPECT_EQ(*database.trials(task.workload, task.target, machine.machine), count);
      trials += count, failed += bad;
    }
    EXPECT_EQ(task.machines.size(), 3u);
    EXPECT_EQ(task.trials, trials);
    EXPECT_EQ(task.failed, failed);
  }
}

// More than fit into one page of an answer, with filters, and a reader that stops or asks for more meanwhile.
TEST_P(EveryDatabaseTest, AVisitSeesEveryRecordOnce) {
  Database database = open();
  std::vector<Record> many;
  for (i64 n = 0; n < 700; ++n) many.push_back(sample(n, n % 2 ? dense : softmax));
  ASSERT_TRUE(database.add_records(many));
  auto visited = [&](RecordFilter filter) {
    std::vector<i64> ids;
    EXPECT_TRUE(database.visit(filter, [&](const Record& record) {
      ids.push_back(record.id);
      EXPECT_EQ(database.record(record.id)->program, record.program) << "the database can be used meanwhile";
    }));
    return ids;
  };
  std::vector<i64> every, odd;
  for (i64 id = 1; id <= 700; ++id) every.push_back(id);
  for (i64 id = 2; id <= 700; id += 2) odd.push_back(id);
  EXPECT_EQ(visited({}), every);
  EXPECT_EQ(visited({.workload = dense}), odd);
  EXPECT_EQ(visited({.workload = dense, .target = zen}), odd);
  EXPECT_EQ(visited({.target = zen, .after = 300}), std::vector<i64>(every.begin() + 300, every.end()));
  EXPECT_EQ(visited({.workload = dense, .target = zen, .after = 700}), std::vector<i64>());
  EXPECT_EQ(visited({.not_target = zen}), std::vector<i64>());
  int left = 5;
  EXPECT_EQ(visited({.stop = [&] { return left-- == 0; }}).size(), 5u);
  EXPECT_EQ(*database.latest_record(), 700);
  EXPECT_EQ(database.best(dense, zen, "a machine", 1000)->size(), 280u) << "4 of 5 are good";
}

TEST_P(EveryDatabaseTest, ExportAndImportGiveTheSameRecords) {
  std::map<i64, Record> stored = fill(30);
  std::ostringstream lines;
  Database database = open(DatabaseMode::Read);
  EXPECT_EQ(*export_records(database, lines), 31);
  auto copy = Database::open(file("copy.db"), DatabaseMode::Write);
  ASSERT_TRUE(copy);
  std::istringstream in(lines.str());
  ImportReport report = *import_records(*copy, in);
  EXPECT_EQ(report.added, 31);
  EXPECT_EQ(report.known, 0);
  EXPECT_TRUE(report.problems.empty()) << report.problems[0];
  EXPECT_EQ(*copy->all(dense, zen), *database.all(dense, zen));
  EXPECT_EQ(*copy->workloads(), *database.workloads());
  std::istringstream again(lines.str());
  report = *import_records(*copy, again);
  EXPECT_EQ(report.added, 0);
  EXPECT_EQ(report.known, 31);
}

// Plain or compressed, and a compressed one that ends early is no shorter file.
TEST_F(DatabaseTest, AnExchangeFileMayBeCompressed) {
  std::string path = file("lines"), text, error;
  for (int line = 0; line < 5000; ++line) text += cat("line ", line * 7919, "\n");
  std::ofstream(path) << text;
  EXPECT_EQ(read_exchange_file(path, error), text);
  ASSERT_EQ(system(cat("gzip -k ", path).c_str()), 0);
  EXPECT_EQ(read_exchange_file(path + ".gz", error), text);
  std::filesystem::resize_file(path + ".gz", std::filesystem::file_size(path + ".gz") / 2);
  EXPECT_FALSE(read_exchange_file(path + ".gz", error));
  EXPECT_NE(error.find(path + ".gz"), std::string::npos) << error;
  EXPECT_FALSE(read_exchange_file(path + ".none", error));
}

TEST_P(EveryDatabaseTest, ImportTrustsNoLine) {
  Database source = open();
  ASSERT_TRUE(source.add_record(sample(0)));
  std::ostringstream out;
  ASSERT_TRUE(export_records(source, out));
  std::string good = out.str(), line = good.substr(0, good.size() - 1);
  auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = line;
    EXPECT_NE(text.find(from), std::string::npos) << from << " in " << line;
    return text.replace(text.find(from), from.size(), to);
  };
  std::string text = join(
      std::vector<std::string>{"not json", "[1]", changed("\"format\":2", "\"format\":9"),
                               changed("\"kind\":\"record\"", "\"kind\":\"photo\""), changed("\"task\":\"ffn1\",", ""),
                               changed("\"generation\":0", "\"generation\":\"0\""),
                               changed("\"generation\":0", "\"generation\":1"), changed(dense, "xyz"), line},
      "\n");
  auto copy = Database::open(file("copy.db"), DatabaseMode::Write);
  std::istringstream in(text);
  ImportReport report = *import_records(*copy, in);
  EXPECT_EQ(report.added, 1);
  EXPECT_EQ(join(report.problems, "\n"), R"(line 1: not a JSON object
line 2: not a JSON object
line 3: format 9 is not known; this tracewright reads formats 2 to 3
line 4: `kind` is "photo"; expected "record" or "workload"
line 5: `task` is missing
line 6: `generation` is not an integer
line 7: the digest does not fit: the line was changed or damaged
line 8: `workload` is not a hash of 32 hex digits)");
  EXPECT_EQ(copy->all(dense, zen)->size(), 1u);
}

}  // namespace
}  // namespace tw
