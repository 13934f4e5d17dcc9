// `tracewright tune` as a whole under bad luck: killed, beside a second one, on one core, without a terminal, on a disk
// that is full, read-only or damaged, with kernels that all fail.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "dsl/base/rng.h"
#include "dsl/base/sanitizer.h"
#include "dsl/base/text.h"
#include "runtime/store/database.h"
#include "support/processes.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using test::Finished;
using test::RunOptions;
using test::tracewright;

class TuneRobustness : public testing::Test {
 protected:
  void SetUp() override { write("small.yaml", test::kGemmAndRows); }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  void write(const std::string& name, const std::string& text) const { test::write_file(path(name), text); }
  std::string bytes(const std::string& name) const { return test::read_file(path(name)); }

  Finished run(std::vector<std::string> words, RunOptions options = {}) const {
    options.folder = folder_.path();
    return tracewright(std::move(words), options);
  }
  // The built-in cost model: LibTorch takes longer to open than these runs last.
  Finished tune(const std::vector<std::string>& flags, const RunOptions& options = {}) const {
    std::vector<std::string> words{"tune", "small.yaml", "--model", "tree"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(words, options);
  }
  static boost::json::object report(const Finished& finished) {
    EXPECT_EQ(finished.code, 0) << finished.err;
    boost::system::error_code error;
    boost::json::value value = boost::json::parse(finished.out, error);
    EXPECT_FALSE(error) << finished.out;
    return value.is_object() ? value.as_object() : boost::json::object{};
  }
  // All records by id; none if there is no database yet.
  std::map<i64, Record> records(const std::string& name = "small.db") const {
    std::map<i64, Record> found;
    if (!std::filesystem::exists(path(name))) return found;
    auto database = Database::open(path(name), DatabaseMode::Read);
    EXPECT_TRUE(database) << (database ? "" : database.error());
    if (!database) return found;
    EXPECT_TRUE(database->visit({}, [&](const Record& record) { found[record.id] = record; }));
    return found;
  }
  void expect_good(const std::string& name = "small.db") const {
    Finished verified = run({"db", "verify", name});
    EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  }

  test::TemporaryDirectory folder_;
};

i64 count_trials(const std::map<i64, Record>& records, const std::string& status = "") {
  i64 count = 0;
  for (const auto& [id, record] : records) count += record.is_trial() && (status.empty() || record.status == status);
  return count;
}

void expect_kept(const std::map<i64, Record>& before, const std::map<i64, Record>& after) {
  for (const auto& [id, record] : before) {
    auto at = after.find(id);
    ASSERT_NE(at, after.end()) << "record " << id << " is lost";
    EXPECT_EQ(at->second, record) << "record " << id << " was changed";
  }
}

// By program and by object code.
void expect_nothing_measured_twice(const std::map<i64, Record>& records) {
  std::set<std::string> programs, codes;
  for (const auto& [id, record] : records) {
    EXPECT_TRUE(programs.insert(record.task + record.program).second) << "record " << id;
    if (!record.is_trial() || record.object.empty()) continue;
    EXPECT_TRUE(codes.insert(record.task + record.object).second) << "record " << id;
  }
}

bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return (c < ' ' && c != '\n') || c == 127; });
}

pid_t worker_of(pid_t tuner) {
  for (pid_t child : test::children_of(tuner)) {
    if (test::name_of_process(child) == "tracewright-wor") return child;
  }
  return 0;
}

// ---- killed

TEST_F(TuneRobustness, KilledAtAnyMomentItGoesOn) {
  Rng rng(2205);
  std::map<i64, Record> before;
  int with_progress = 0;
  for (int round = 0; round < 12; ++round) {
    std::vector<pid_t> workers;
    auto kill_it = [&](int pid) {
      // At any time from its start on, or at any time from its first few trials on.
      std::size_t trials = before.size() + static_cast<std::size_t>(rng.below(4) + 1);
      EXPECT_TRUE(round % 2 == 0 || test::wait_until([&] { return records().size() >= trials; }));
      usleep(static_cast<useconds_t>(rng.below(round % 2 ? 200'000 : 1'200'000)));
      workers = test::children_of(pid);
      kill(pid, SIGKILL);
    };
    Finished killed = tune({"--trials", "100000"}, {.meanwhile = kill_it});
    EXPECT_EQ(killed.code, 128 + SIGKILL) << killed.err;
    for (pid_t worker : workers)
      EXPECT_TRUE(test::wait_until([&] { return !test::is_alive(worker); })) << "the worker outlives the tuner";
    std::map<i64, Record> after = records();
    expect_kept(before, after);
    with_progress += after.size() > before.size();
    before = std::move(after);
  }
  EXPECT_GE(with_progress, 6);
  i64 stored = count_trials(before);
  boost::json::object more = report(tune({"--more", "3", "--json"}));
  std::map<i64, Record> after = records();
  expect_kept(before, after);
  expect_nothing_measured_twice(after);
  EXPECT_GT(more.at("measured").as_int64(), 0);
  EXPECT_EQ(count_trials(after), stored + more.at("measured").as_int64());
  EXPECT_EQ(count_trials(after, "worker lost"), 0);
  expect_good();
}

TEST_F(TuneRobustness, AKilledWorkerIsReplacedAndItsTrialTakenAgain) {
  Rng rng(1805);
  int kills = 0;
  auto kill_workers = [&](int pid) {
    for (pid_t last = 0; kills < 5; ++kills) {
      pid_t worker = 0;
      if (!test::wait_until([&] { return (worker = worker_of(pid)) != 0 && worker != last; })) return;
      usleep(static_cast<useconds_t>(rng.below(400'000)));
      kill(worker, SIGKILL);
      last = worker;
    }
  };
  Finished finished = tune({"--trials", "60", "--json"}, {.meanwhile = kill_workers});
  boost::json::object result = report(finished);
  EXPECT_EQ(kills, 5);
  std::map<i64, Record> stored = records();
  EXPECT_EQ(count_trials(stored), result.at("measured").as_int64());
  EXPECT_EQ(result.at("tasks").at(0).at("trials").as_int64(), 60);
  EXPECT_LE(count_trials(stored, "worker lost"), 2) << "only where two kills meet one trial";
  expect_nothing_measured_twice(stored);
  expect_good();
}

TEST_F(TuneRobustness, WithoutAWorkerItEndsAndBlamesNoKernel) {
  std::string worker = path("worker");
  std::filesystem::copy_file(TW_BINARY_DIR "/tracewright-worker", worker);
  auto take_away = [&](int pid) {
    EXPECT_TRUE(test::wait_until([&] { return count_trials(records()) >= 3; }));
    std::filesystem::remove(worker);
    for (pid_t child : test::children_of(pid)) kill(child, SIGKILL);
  };
  Finished finished =
      tune({"--trials", "100000"}, {.environment = {"TRACEWRIGHT_WORKER=" + worker}, .meanwhile = take_away});
  EXPECT_EQ(finished.code, 3);
  EXPECT_NE(finished.err.find("kernels cannot be measured any more: the worker " + worker + " does not start"),
            std::string::npos)
      << finished.err;
  EXPECT_NE(finished.err.find("what was measured before is safe"), std::string::npos) << finished.err;
  EXPECT_GE(count_trials(records()), 3);
  EXPECT_EQ(count_trials(records(), "worker lost"), 0);
  report(tune({"--more", "2", "--json"}));
}

// A terminal sends SIGINT to the tuner, the worker and the kernel alike.
TEST_F(TuneRobustness, CtrlCReachesAllProcessesAndFailsNoTrial) {
  for (int signal : {SIGINT, SIGTERM}) {
    std::size_t before = records().size();
    pid_t worker = 0;
    auto interrupt = [&](int pid) {
      EXPECT_TRUE(test::wait_until([&] { return records().size() >= before + 3; }));
      worker = worker_of(pid);
      for (pid_t kernel : test::children_of(worker)) kill(kernel, SIGINT);
      kill(worker, SIGINT);
      kill(pid, signal);
    };
    Finished finished = tune({"--trials", "100000"}, {.meanwhile = interrupt});
    EXPECT_EQ(finished.code, 130) << finished.err;
    EXPECT_NE(finished.err.find("interrupted; everything measured is stored in small.db; the same command goes on\n"),
              std::string::npos)
        << finished.err;
    EXPECT_FALSE(test::is_alive(worker));
    for (const auto& [id, record] : records())
      EXPECT_TRUE(record.ok() || !record.is_trial()) << record.status << ": " << record.error;
  }
  expect_good();
}

// ---- company, cores, terminals

TEST_F(TuneRobustness, TwoAtOnceOnOneDatabaseBothSucceed) {
  std::vector<std::string> flags{"--trials", "40", "--json"};
  Finished second;
  Finished first = tune(flags, {.meanwhile = [&](int) { second = tune(flags); }});
  i64 measured = report(first).at("measured").as_int64() + report(second).at("measured").as_int64();
  std::map<i64, Record> stored = records();
  EXPECT_EQ(count_trials(stored), measured) << "each trial that one of them reported is there";
  EXPECT_GE(measured, 40 + 10) << "the space of `rows` holds 10 programs";
  // Both propose the same batches, for they have the same seed, and each takes over what the other has measured. Twice
  // measured is what both have begun at the same moment: a few trials of each batch, which are 10 of 60 here and would
  // be 50 of 100 if they knew nothing of each other.
  std::set<std::string> programs;
  for (const auto& [id, record] : stored) programs.insert(record.task + record.program);
  EXPECT_GE(programs.size() * 3, stored.size() * 2) << "many trials were made twice";
  for (const auto& [id, record] : stored)
    EXPECT_TRUE(record.ok() || !record.is_trial()) << record.status << ": " << record.error;
  auto database = Database::open(path("small.db"), DatabaseMode::Read);
  ASSERT_TRUE(database);
  std::vector<StoredRun> runs = *database->runs();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_TRUE(runs[0].started < runs[1].finished && runs[1].started < runs[0].finished) << "they did not meet";
  expect_good();
}

TEST_F(TuneRobustness, OneCoreIsEnough) {
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  int core = 0;
  while (!CPU_ISSET(core, &cores)) ++core;
  auto on_one_core = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"taskset", "-c", std::to_string(core), TW_BINARY_DIR "/tracewright"});
    return test::run_program(words, {.folder = folder_.path()});
  };
  boost::json::object result = report(on_one_core({"tune", "small.yaml", "--model", "tree", "--json"}));
  for (const boost::json::value& task : result.at("tasks").as_array()) {
    EXPECT_EQ(task.at("trials").as_int64(), 6) << task;
    EXPECT_EQ(task.at("failed").as_int64(), 0) << task;
  }
  std::string two_threads = test::kGemmAndRows;
  two_threads.replace(two_threads.find("threads: 1"), 10, "threads: 2");
  write("two.yaml", two_threads);
  Finished two = on_one_core({"tune", "two.yaml", "--model", "tree", "--json"});
  EXPECT_NE(two.err.find("gemm: its target has 2 threads, but this process may use 1 core only"), std::string::npos)
      << two.err;
  result = report(two);
  for (const boost::json::value& task : result.at("tasks").as_array()) {
    EXPECT_GT(task.at("best_us").as_double(), 0) << task;
    EXPECT_EQ(task.at("failed").as_int64(), 0) << two.err << task;
  }
}

TEST_F(TuneRobustness, NoTerminalIsNeeded) {
  Finished to_files = tune({}, {.closed_input = true});
  EXPECT_EQ(to_files.code, 0) << to_files.err;
  EXPECT_NE(to_files.err.find(" trials  "), std::string::npos) << "no progress: " << to_files.err;
  EXPECT_FALSE(has_control_characters(to_files.out)) << to_files.out;
  EXPECT_FALSE(has_control_characters(to_files.err)) << to_files.err;

  Finished nowhere = tune({"--more", "3"}, {.closed_input = true, .closed_output = true});
  EXPECT_EQ(nowhere.code, 0);
  i64 stored = count_trials(records());
  EXPECT_EQ(stored, 18);
  expect_good();

  // Nobody reads what it says: it finishes its trials, and says with its exit code that its report was lost.
  Finished unread = test::run_program(
      {"sh", "-c",
       "{ " TW_BINARY_DIR "/tracewright tune small.yaml --model tree --more 3; echo $? > code; } 2>&1 | true"},
      {.folder = folder_.path()});
  EXPECT_EQ(unread.code, 0);
  EXPECT_EQ(bytes("code"), "3\n");
  EXPECT_GE(count_trials(records()), stored + 3) << "of the rows there may be no further ones";
}

TEST_F(TuneRobustness, OutputThatCannotBeWrittenIsNotDone) {
  report(tune({"--json"}));
  Finished full = test::run_program({"sh", "-c", "exec " TW_BINARY_DIR "/tracewright show small.db > /dev/full"},
                                    {.folder = folder_.path()});
  EXPECT_EQ(full.code, 3);
  EXPECT_EQ(full.err, "tracewright: standard output cannot be written: No space left on device\n");
}

// ---- disks

// A file system of its own, as large as a test wants it. Not there without the right to mount.
class SmallDisk {
 public:
  SmallDisk(std::string folder, const std::string& size) : folder_(std::move(folder)) {
    std::filesystem::create_directory(folder_);
    mounted_ = mount("none", folder_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) umount2(folder_.c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return mounted_; }
  bool set_read_only(bool read_only) const {
    return mount("none", folder_.c_str(), nullptr, read_only ? MS_REMOUNT | MS_RDONLY : MS_REMOUNT, nullptr) == 0;
  }

 private:
  std::string folder_;
  bool mounted_ = false;
};

TEST_F(TuneRobustness, AFullDiskEndsTheRunAndKeepsWhatIsStored) {
  SmallDisk disk(path("disk"), "4m");
  if (!disk.is_mounted()) GTEST_SKIP() << "mounting a small disk needs root";
  report(tune({"--database", "disk/t.db", "--json"}));
  std::map<i64, Record> before = records("disk/t.db");
  EXPECT_EQ(count_trials(before), 12);
  i64 room = static_cast<i64>(std::filesystem::space(path("disk")).available);
  write("disk/filler", std::string(static_cast<std::size_t>(room - 200'000), 'x'));

  Finished full = tune({"--database", "disk/t.db", "--trials", "100000"});
  EXPECT_EQ(full.code, 3);
  EXPECT_NE(full.err.find("database disk/t.db cannot be written: the disk is full"), std::string::npos) << full.err;
  EXPECT_NE(full.err.find("what was measured before is safe"), std::string::npos) << full.err;
  Finished fresh = tune({"--database", "disk/new.db"});
  EXPECT_EQ(fresh.code, 3);
  EXPECT_NE(fresh.err.find("the disk is full"), std::string::npos) << fresh.err;
  EXPECT_FALSE(std::filesystem::exists(path("disk/new.db")));
  std::map<i64, Record> after = records("disk/t.db");
  expect_kept(before, after);

  std::filesystem::remove(path("disk/filler"));
  expect_good("disk/t.db");
  boost::json::object more = report(tune({"--database", "disk/t.db", "--more", "2", "--json"}));
  std::map<i64, Record> last = records("disk/t.db");
  expect_kept(after, last);
  EXPECT_EQ(count_trials(last), count_trials(after) + more.at("measured").as_int64());
  expect_nothing_measured_twice(last);
}

TEST_F(TuneRobustness, ADatabaseThatIsRemovedLosesNoTrial) {
  auto remove_it = [&](int) {
    EXPECT_TRUE(test::wait_until([&] { return records().size() >= 3; }));
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path("small.db") + suffix);
  };
  Finished finished = tune({"--trials", "24", "--json"}, {.meanwhile = remove_it});
  EXPECT_NE(finished.err.find("tracewright: database small.db was removed or renamed while it was in use; a new file "
                              "of that name has all that it held\n"),
            std::string::npos)
      << finished.err;
  boost::json::object done = report(finished);
  EXPECT_EQ(count_trials(records()), done.at("measured").as_int64());
  EXPECT_GE(done.at("measured").as_int64(), 4);
  expect_good();
}

TEST_F(TuneRobustness, ADatabaseThatIsReplacedEndsTheRunAndIsKeptBeside) {
  auto replace_it = [&](int) {
    EXPECT_TRUE(test::wait_until([&] { return records().size() >= 3; }));
    write("other", "something else");
    std::filesystem::rename(path("other"), path("small.db"));
  };
  int tuner = 0;
  Finished finished = tune({"--trials", "100000"}, {.meanwhile = [&](int pid) { replace_it(tuner = pid); }});
  EXPECT_EQ(finished.code, 3);
  std::string beside = cat("small.db.rescued-", tuner);
  EXPECT_NE(finished.err.find(cat(
                "tracewright: database small.db was replaced by another file while it was in use; what it held is in ",
                beside, " (another file has its name)\n")),
            std::string::npos)
      << finished.err;
  EXPECT_EQ(finished.err.find("what was measured before is safe"), std::string::npos) << finished.err;
  EXPECT_EQ(bytes("small.db"), "something else");
  expect_good(beside);
}

TEST_F(TuneRobustness, AReadOnlyDiskIsReadAndNotWrittenTo) {
  SmallDisk disk(path("disk"), "4m");
  if (!disk.is_mounted()) GTEST_SKIP() << "mounting a small disk needs root";
  report(tune({"--database", "disk/t.db", "--json"}));
  std::string before = bytes("disk/t.db");
  ASSERT_TRUE(disk.set_read_only(true));
  for (const char* name : {"disk/t.db", "disk/new.db"}) {
    Finished refused = tune({"--database", name, "--more", "2"});
    EXPECT_EQ(refused.code, 3);
    EXPECT_NE(refused.err.find("read-only"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find(name), std::string::npos) << refused.err;
  }
  EXPECT_EQ(run({"show", "disk/t.db"}).code, 0);
  EXPECT_EQ(bytes("disk/t.db"), before);
  ASSERT_TRUE(disk.set_read_only(false));
  EXPECT_EQ(report(tune({"--database", "disk/t.db", "--more", "2", "--json"})).at("measured").as_int64(), 4);
}

// A limit on the size of files, as a batch system sets it.
TEST_F(TuneRobustness, ALimitOnTheSizeOfFilesIsAnError) {
  report(tune({"--json"}));
  std::map<i64, Record> before = records();
  Finished limited = test::run_program(
      {"bash", "-c", "ulimit -f 300; exec " TW_BINARY_DIR "/tracewright tune small.yaml --model tree --trials 100000"},
      {.folder = folder_.path()});
  EXPECT_EQ(limited.code, 3) << limited.err;
  EXPECT_NE(limited.err.find("what was measured before is safe"), std::string::npos) << limited.err;
  std::map<i64, Record> after = records();
  expect_kept(before, after);
  EXPECT_GT(after.size(), before.size());
  expect_good();
}

TEST_F(TuneRobustness, ADamagedFileIsRefusedAndLeftAlone) {
  report(tune({"--json"}));
  const std::string good = bytes("small.db");
  struct Damage {
    const char* what;
    std::string content;
  };
  std::string zeros = good, header = good;
  std::fill(zeros.begin() + 4096, zeros.begin() + 3 * 4096, '\0');
  header[5] = '?';
  for (const Damage& damage :
       {Damage{"cut", good.substr(0, good.size() / 2)}, Damage{"zeroed pages", zeros}, Damage{"header", header},
        Damage{"empty", ""}, Damage{"text", "a list of things to buy\n"}}) {
    write("small.db", damage.content);
    for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(path("small.db") + suffix);
    Finished refused = tune({"--more", "2"});
    EXPECT_EQ(refused.code, 3) << damage.what;
    EXPECT_EQ(refused.out, "") << damage.what;
    EXPECT_NE(refused.err.find("tracewright: database small.db is "), std::string::npos)
        << damage.what << ": " << refused.err;
    EXPECT_EQ(bytes("small.db"), damage.content) << damage.what;
  }
}

TEST_F(TuneRobustness, AFlippedBitCostsItsRecordAndIsReported) {
  report(tune({"--json"}));
  std::map<i64, Record> before = records();
  std::string damaged = bytes("small.db");
  std::size_t at = damaged.find(before.rbegin()->second.program);
  ASSERT_NE(at, std::string::npos);
  damaged[at] ^= 1;
  write("small.db", damaged);
  Finished more = tune({"--more", "2", "--json"});
  report(more);
  EXPECT_NE(more.err.find("tracewright: 1 damaged rows of small.db were left out"), std::string::npos) << more.err;
  std::map<i64, Record> after = records();
  EXPECT_EQ(after.count(before.rbegin()->first), 0u);
  before.erase(before.rbegin()->first);
  expect_kept(before, after);
  EXPECT_EQ(count_trials(after), count_trials(before) + 4);
}

// ---- system calls that fail

constexpr bool kCanPreload = !TW_SANITIZED;
constexpr const char* kWhyNotPreloaded = "a sanitizer's runtime must come first: nothing can be preloaded before it";

// Less than half a second a run.
constexpr const char* kQuick = R"yaml(version: 1
target: {kind: cpu, threads: 1}
budget: {trials: 4}
database: small.db
tasks:
  - {name: rows, op: softmax, args: {M: 16, N: 64}}
)yaml";

// A sample of all calls; TW_EVERY_FAULT=1 tries each of them.
TEST_F(TuneRobustness, AFailingDiskCallIsSurvived) {
  if (!kCanPreload) GTEST_SKIP() << kWhyNotPreloaded;
  write("small.yaml", kQuick);
  const char* every = std::getenv("TW_EVERY_FAULT");
  const std::string preload = "LD_PRELOAD=" TW_BINARY_DIR "/tests/libdisk_faults.so";
  std::map<std::string, i64> counts;
  ASSERT_EQ(
      tune({}, {.environment = {preload, "TW_DISK_FOLDER=" + folder_.path(), "TW_DISK_COUNTS=" + path("counts")}}).code,
      0);
  std::ifstream file(path("counts"));
  i64 total = 0, count = 0;
  for (std::string name; file >> name >> count; total += count) counts[name] = count;
  EXPECT_GT(counts["write"], 30);
  EXPECT_GT(counts["sync"], 4) << "one for each trial at least";
  Rng rng(1994);
  int ended = 0, runs = 0;
  for (const auto& [name, most] : counts) {
    i64 tries = std::min<i64>(most, every ? 2 * most : 3);
    for (i64 i = 0; i < tries; ++i, ++runs) {
      i64 at = every ? i / 2 + 1 : rng.below(most) + 1;
      std::string fault = cat(name, ":", at, i % 2 ? "+" : "");
      for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path("small.db") + suffix);
      Finished finished =
          tune({}, {.environment = {preload, "TW_DISK_FOLDER=" + folder_.path(), "TW_DISK_FAULT=" + fault,
                                    cat("TW_DISK_ERRNO=", name == "write" ? ENOSPC : EIO)}});
      ended += finished.code == 3;
      EXPECT_TRUE(finished.code == 0 || finished.code == 3) << fault << ": " << finished.code << " " << finished.err;
      EXPECT_EQ(finished.code == 3, finished.err.find("database small.db") != std::string::npos)
          << fault << ": " << finished.err;
      std::map<i64, Record> before = records();
      ASSERT_EQ(tune({}).code, 0) << fault;
      std::map<i64, Record> after = records();
      expect_kept(before, after);
      expect_nothing_measured_twice(after);
      EXPECT_EQ(count_trials(after), 4) << fault;
    }
  }
  std::printf("%d runs with a failing call of %lld, %d of them ended with a message\n", runs,
              static_cast<long long>(total), ended);
  EXPECT_GT(ended, 0);
  expect_good();
}

TEST_F(TuneRobustness, WithoutThreadsOrProcessesItWorksOrSaysWhy) {
  if (!kCanPreload) GTEST_SKIP() << kWhyNotPreloaded;
  write("small.yaml", kQuick);
  for (const char* fault :
       {"thread:1", "thread:2", "thread:7", "thread:1+", "thread:4+", "spawn:1", "spawn:1+", "socket:1", "socket:1+"}) {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path("small.db") + suffix);
    Finished finished = tune({"--json"}, {.environment = {"LD_PRELOAD=" TW_BINARY_DIR "/tests/libprocess_faults.so",
                                                          cat("TW_PROCESS_FAULT=", fault)}});
    bool is_for_ever = std::string(fault).back() == '+', is_thread = fault[0] == 't';
    if (is_thread || !is_for_ever) {
      EXPECT_EQ(report(finished).at("measured").as_int64(), 4) << fault;
    } else {
      EXPECT_EQ(finished.code, 3) << fault;
      EXPECT_NE(finished.err.find("Resource temporarily unavailable"), std::string::npos)
          << fault << ": " << finished.err;
      EXPECT_NE(finished.err.find("`tracewright doctor` says what is missing"), std::string::npos)
          << fault << ": " << finished.err;
    }
  }
}

// ---- kernels that all fail

// f32 sums cannot be as exact as asked for; an integer division by zero stops the reference itself.
constexpr const char* kHopeless = R"(workload exact(M: int, K: int) {
  input X: f32[M, K], W: f32[K]
  tolerance 1e-30, 1e-30
  output Y[i: M] = sum(k: K) X[i, k] * W[k]
}
workload divided(M: int) {
  input X: i32[M], Z: i32[M]
  output Y[i: M] = X[i] // Z[i]
}
)";

TEST_F(TuneRobustness, WhereEveryCandidateFailsTheTaskEndsWithAnExplanation) {
  write("hopeless.tw", kHopeless);
  write("small.yaml", R"yaml(version: 1
target: {kind: cpu, threads: 1}
budget: {trials: 8}
database: small.db
tasks:
  - {name: exact, workload: hopeless.tw, use: "exact(M = 16, K = 4096)"}
  - {name: divided, workload: hopeless.tw, use: "divided(M = 256)"}
  - {name: rows, op: softmax, args: {M: 16, N: 64}}
)yaml");
  Finished finished = tune({"--json"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.err.find("exact: every candidate failed ("), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find(" wrong result); the first one: wrong result: "), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("divided: the reference program cannot be run: "), std::string::npos) << finished.err;
  boost::json::value result = boost::json::parse(finished.out);
  EXPECT_EQ(result.at("tasks").at(0).at("failed"), result.at("tasks").at(0).at("trials"));
  EXPECT_GE(result.at("tasks").at(0).at("trials").as_int64(), 2);
  EXPECT_EQ(result.at("tasks").at(1).at("trials").as_int64(), 0);
  EXPECT_EQ(result.at("tasks").at(2).at("trials").as_int64(), 8) << "the others go on";
  EXPECT_GT(result.at("tasks").at(2).at("best_us").as_double(), 0);
}

// A worker takes no more than there is, and needs no more than its data.
TEST_F(TuneRobustness, UnderLimitsOfAddressSpaceAndOfProcessorTime) {
  if (TW_SANITIZED) GTEST_SKIP() << "sanitizers reserve more address space than that";
  RunOptions options{.folder = folder_.path()};
  Finished finished = test::run_program(
      {"/bin/sh", "-c", "ulimit -v 3000000 && ulimit -t 600 && exec \"$0\" tune small.yaml --model tree --json",
       TW_BINARY_DIR "/tracewright"},
      options);
  boost::json::object result = report(finished);
  for (const boost::json::value& task : result.at("tasks").as_array()) {
    EXPECT_EQ(task.at("problem").as_string(), "");
    EXPECT_GT(task.at("best_us").as_double(), 0);
  }
}

// Where the time is over before a kernel was measured, that is said, once for each task.
TEST_F(TuneRobustness, ABudgetThatIsTooShortForOneTrialIsCalledSo) {
  Finished finished = tune({"--json", "--seconds", "0.001"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.err.find("no trial was done within 0.001 s; this task needs a larger `seconds`"),
            std::string::npos)
      << finished.err;
  std::multiset<std::string> lines;
  for (const std::string& line : split(finished.err, '\n')) lines.insert(line);
  for (const std::string& line : lines) EXPECT_EQ(lines.count(line), 1u) << finished.err;
}

}  // namespace
}  // namespace tw
