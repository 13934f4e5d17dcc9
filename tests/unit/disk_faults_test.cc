// The database on a disk that fails: every system call fails once or from then on, and the power goes at every moment.
// Nothing that was acknowledged may be lost, and what went wrong is said in a sentence.
#include "tests/preload/disk_faults.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <new>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "runtime/store/database.h"

namespace tw {
namespace {

constexpr const char* kTarget = "cpu -mcpu=znver3 -threads=1";

std::string hash_of(i64 number) {
  u64 bits = mix64(static_cast<u64>(number));
  char hex[33];
  std::snprintf(hex, sizeof hex, "%016llx%016llx", static_cast<unsigned long long>(bits),
                static_cast<unsigned long long>(~bits));
  return hex;
}
const std::string workload = hash_of(-1);

// Record number n; the longer ones go to overflow pages.
Record sample(i64 n) {
  Record record{.workload = workload, .target = kTarget, .status = "ok", .created = 1700000000000 + n};
  record.seconds = record.minimum = record.median = from_picoseconds(1000000 + n);
  record.program = hash_of(n);
  record.trace = std::string(static_cast<std::size_t>(100 + n % 5 * 2000), static_cast<char>('a' + n % 26));
  return record;
}

// Opens, stores and closes, several times. Tells of each record when it is stored; the first error, or "".
std::string run_session(const std::string& path, int openings, i64 each,
                        const std::function<void(i64 id, i64 number)>& acknowledge) {
  i64 number = 0;
  for (int opening = 0; opening < openings; ++opening) {
    auto database = Database::open(path, DatabaseMode::Write);
    if (!database) return database.error();
    DatabaseStatus known = database->add_workload(workload, "workload w { }");
    if (!known) return known.error();
    auto run = database->begin_run({.command = "tune"});
    if (!run) return run.error();
    for (i64 i = 0; i < each; ++i, ++number) {
      auto id = database->add_record(sample(number));
      if (!id) return id.error();
      acknowledge(*id, number);
    }
    DatabaseStatus finished = database->finish_run(*run, "done");
    if (!finished) return finished.error();
  }
  return "";
}

// Without faults: the file opens, has all of `acknowledged` (id -> number) and can be written to.
void expect_whole(const std::string& path, const std::map<i64, i64>& acknowledged, const std::string& when) {
  auto database = Database::open(path, DatabaseMode::Write);
  ASSERT_TRUE(database) << when << ": " << database.error();
  std::map<i64, Record> present;
  ASSERT_TRUE(database->visit({}, [&](const Record& record) { present[record.id] = record; })) << when;
  for (auto [id, number] : acknowledged) {
    Record expected = sample(number);
    expected.id = id;
    ASSERT_TRUE(present.count(id)) << when << ": record " << id << " was acknowledged and is lost";
    ASSERT_EQ(present[id], expected) << when;
  }
  ASSERT_LE(present.size(), acknowledged.size() + 1) << when << ": more than the one at hand";
  auto verification = database->verify();
  ASSERT_TRUE(verification && verification->good()) << when;
  ASSERT_TRUE(database->add_record(sample(1000))) << when;
}

// A folder in memory, where syncing costs nothing.
class Folder {
 public:
  Folder() {
    std::string pattern = access("/dev/shm", W_OK) == 0 ? "/dev/shm/tracewright-XXXXXX" : "/tmp/tracewright-XXXXXX";
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::string database() const { return path_ + "/t.db"; }

 private:
  std::string path_;
};

// ---- calls that fail

constexpr const char* kCallNames[TW_DISK_CALLS] = {"open", "write", "sync", "truncate", "map", "link", "unlink"};

// What a child process that runs a session leaves behind.
struct Notes {
  i64 counts[TW_DISK_CALLS];
  i64 acknowledged;
  i64 ids[64];
  char error[1000];
};

class DiskFaults : public testing::Test {
 protected:
  void SetUp() override {
    void* memory = mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    notes_ = new (memory) Notes;
  }
  void TearDown() override { munmap(notes_, sizeof(Notes)); }

  // Exit status of a child that runs a session with this fault.
  int session_with(const tw_disk_fault& fault, const Folder& folder) {
    std::memset(notes_, 0, sizeof *notes_);
    pid_t child = fork();
    if (child == 0) {
      tw_disk_watch(folder.path().c_str());
      tw_disk_set_fault(fault);
      std::string error =
          run_session(folder.database(), 2, 3, [&](i64 id, i64) { notes_->ids[notes_->acknowledged++] = id; });
      std::snprintf(notes_->error, sizeof notes_->error, "%s", error.c_str());
      for (int call = 0; call < TW_DISK_CALLS; ++call)
        notes_->counts[call] = tw_disk_count(static_cast<tw_disk_call>(call));
      _exit(error.empty() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
  }

  Notes* notes_ = nullptr;
};

struct Kind {
  tw_disk_call call;
  int error;  // 0 = half of a write
};

TEST_F(DiskFaults, EveryFailingCallIsSurvived) {
  constexpr Kind kinds[] = {{TW_DISK_OPEN, EMFILE},  {TW_DISK_OPEN, EACCES}, {TW_DISK_WRITE, ENOSPC},
                            {TW_DISK_WRITE, EIO},    {TW_DISK_WRITE, 0},     {TW_DISK_SYNC, EIO},
                            {TW_DISK_TRUNCATE, EIO}, {TW_DISK_MAP, ENOMEM},  {TW_DISK_LINK, EPERM},
                            {TW_DISK_LINK, EIO},     {TW_DISK_UNLINK, EIO}};
  i64 counts[TW_DISK_CALLS];
  {
    Folder folder;
    ASSERT_EQ(session_with({}, folder), 0) << notes_->error;
    std::memcpy(counts, notes_->counts, sizeof counts);
  }
  for (tw_disk_call call : {TW_DISK_OPEN, TW_DISK_WRITE, TW_DISK_SYNC, TW_DISK_MAP, TW_DISK_LINK})
    EXPECT_GT(counts[call], 0) << kCallNames[call];
  int runs = 0, refused = 0;
  for (const Kind& kind : kinds) {
    for (i64 at = 1; at <= 2 * counts[kind.call]; ++at) {
      bool for_ever = at > counts[kind.call];
      i64 number = for_ever ? at - counts[kind.call] : at;
      Folder folder;
      int status = session_with({kind.call, number, for_ever, kind.error}, folder);
      std::string when =
          cat(kCallNames[kind.call], " number ", number, for_ever ? " and all later ones" : "", ", errno ", kind.error);
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1) << when << ": the process died, " << status;
      bool is_refused = WEXITSTATUS(status) == 1;
      EXPECT_EQ(std::strstr(notes_->error, folder.database().c_str()) != nullptr, is_refused)
          << when << ": " << notes_->error;
      std::map<i64, i64> acknowledged;
      for (i64 i = 0; i < notes_->acknowledged; ++i) acknowledged[notes_->ids[i]] = i;
      ASSERT_NO_FATAL_FAILURE(expect_whole(folder.database(), acknowledged, when));
      ++runs;
      refused += is_refused;
    }
  }
  std::printf("%d runs with a failing call, %d of them ended with a message\n", runs, refused);
  EXPECT_GT(refused, runs / 4);
}

// ---- the power goes

// A disk as strict as the standard allows: what a file holds is safe after it was synced, a name after its folder was.
// Of the rest any part may have arrived, in units of sectors and in any order; changes of names arrive in order.
class Disk {
 public:
  explicit Disk(std::string folder) : folder_(std::move(folder)) {}

  void play(const tw_disk_event& event) {
    std::string path = event.path;
    if (event.call == TW_DISK_OPEN && event.is_new) {
      change_name({path, static_cast<int>(files_.size())});
      files_.emplace_back();
    } else if (event.call == TW_DISK_LINK) {
      auto from = names_.find(path);
      if (from == names_.end()) return;
      change_name({event.other, from->second});
      if (event.is_rename) change_name({path, kGone});
    } else if (event.call == TW_DISK_UNLINK) {
      change_name({path, kGone});
    } else if (event.call == TW_DISK_SYNC && path == folder_) {
      for (const NameChange& change : pending_names_) apply(change, safe_names_);
      pending_names_.clear();
    } else if (auto at = names_.find(path); at != names_.end()) {
      change_content(files_[static_cast<std::size_t>(at->second)], event);
    }
  }

  // What is there after the power went now, written into `folder`.
  void write_remains(const std::string& folder, Rng& rng) const {
    Names names = safe_names_;
    std::size_t arrived = static_cast<std::size_t>(rng.below(static_cast<i64>(pending_names_.size()) + 1));
    for (std::size_t i = 0; i < arrived; ++i) apply(pending_names_[i], names);
    double kept = static_cast<double>(rng.below(5)) / 4;  // of what was not synced
    for (const auto& [path, file] : names) {
      std::ofstream out(folder + "/" + std::filesystem::path(path).filename().string(), std::ios::binary);
      out << remains_of(files_[static_cast<std::size_t>(file)], kept, rng);
    }
  }

 private:
  static constexpr int kGone = -1;
  static constexpr i64 kSector = 512;
  using Names = std::map<std::string, int>;
  struct NameChange {
    std::string path;
    int file;
  };
  struct Change {
    i64 offset;
    std::string data;
    bool is_size;  // the file is cut or extended to `offset`
  };
  struct File {
    std::string safe;
    std::vector<Change> pending;
  };

  static void apply(const NameChange& change, Names& names) {
    if (change.file == kGone)
      names.erase(change.path);
    else
      names[change.path] = change.file;
  }
  static void apply(const Change& change, std::string& content) {
    std::size_t offset = static_cast<std::size_t>(change.offset), end = offset + change.data.size();
    if (change.is_size || content.size() < end) content.resize(change.is_size ? offset : end, '\0');
    content.replace(offset, change.data.size(), change.data);
  }
  void change_name(const NameChange& change) {
    apply(change, names_);
    pending_names_.push_back(change);
  }
  static void change_content(File& file, const tw_disk_event& event) {
    if (event.call == TW_DISK_WRITE)
      file.pending.push_back({event.offset,
                              std::string(static_cast<const char*>(event.data), static_cast<std::size_t>(event.bytes)),
                              false});
    if (event.call == TW_DISK_TRUNCATE) file.pending.push_back({event.bytes, "", true});
    if (event.call != TW_DISK_SYNC) return;
    for (const Change& change : file.pending) apply(change, file.safe);
    file.pending.clear();
  }
  static std::string remains_of(const File& file, double kept, Rng& rng) {
    auto arrives = [&] { return static_cast<double>(rng.below(1000)) < kept * 1000; };
    std::string content = file.safe;
    for (const Change& change : file.pending) {
      if (change.is_size && arrives()) apply(change, content);
      i64 size = static_cast<i64>(change.data.size());
      for (i64 begin = 0; begin < size;) {
        i64 end = std::min(size, ((change.offset + begin) / kSector + 1) * kSector - change.offset);
        if (arrives())
          apply({change.offset + begin,
                 change.data.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), false},
                content);
        begin = end;
      }
    }
    return content;
  }

  std::string folder_;
  std::vector<File> files_;
  Names names_, safe_names_;
  std::vector<NameChange> pending_names_;
};

// One step of the session that is played: a call, or the acknowledgement of a record.
struct Step {
  tw_disk_event event;
  std::string path, other, data;
  i64 id = 0, number = 0;  // id > 0: an acknowledgement
};
std::vector<Step>* recorded_steps = nullptr;

void record_step(const tw_disk_event* event) {
  Step step{*event, event->path, event->other ? event->other : "", "", 0, 0};
  if (event->data) step.data.assign(static_cast<const char*>(event->data), static_cast<std::size_t>(event->bytes));
  recorded_steps->push_back(std::move(step));
}

std::vector<Step> record_session(const Folder& folder) {
  std::vector<Step> steps;
  recorded_steps = &steps;
  tw_disk_watch(folder.path().c_str());
  tw_disk_listen(record_step);
  std::string error =
      run_session(folder.database(), 4, 12, [&](i64 id, i64 number) { steps.push_back({{}, "", "", "", id, number}); });
  // And one that writes so much that the log is copied into the file while it is used.
  i64 number = 48;
  if (auto database = Database::open(folder.database(), DatabaseMode::Write)) {
    for (; number < 300; ++number) {
      auto id = database->add_record(sample(number));
      if (id) steps.push_back({{}, "", "", "", *id, number});
    }
  }
  tw_disk_listen(nullptr);
  tw_disk_watch("");
  EXPECT_EQ(error, "");
  return steps;
}

void play(const Step& step, Disk& disk) {
  tw_disk_event event = step.event;
  event.path = step.path.c_str(), event.other = step.other.c_str(), event.data = step.data.data();
  disk.play(event);
}

TEST(PowerCut, ADatabaseThatWasMadeStays) {
  Folder source;
  std::vector<Step> steps;
  recorded_steps = &steps;
  tw_disk_watch(source.path().c_str());
  tw_disk_listen(record_step);
  EXPECT_TRUE(Database::open(source.database(), DatabaseMode::Write));
  tw_disk_listen(nullptr);
  tw_disk_watch("");
  Disk disk(source.path());
  for (const Step& step : steps) play(step, disk);
  Rng rng(2027);
  for (int round = 0; round < 20; ++round) {
    Folder after;
    disk.write_remains(after.path(), rng);
    ASSERT_TRUE(std::filesystem::exists(after.database()));
    ASSERT_NO_FATAL_FAILURE(expect_whole(after.database(), {}, cat("round ", round)));
  }
}

TEST(PowerCut, NothingAcknowledgedIsLost) {
  Folder source;
  const std::vector<Step> steps = record_session(source);
  EXPECT_GT(steps.size(), 1000u);
  Rng rng(2026);
  int with_database = 0;
  for (int round = 0; round < 200; ++round) {
    std::size_t end =
        static_cast<std::size_t>(rng.below(static_cast<i64>(round % 2 ? steps.size() : steps.size() / 6) + 1));
    Disk disk(source.path());
    std::map<i64, i64> acknowledged;
    for (std::size_t i = 0; i < end; ++i) {
      const Step& step = steps[i];
      if (step.id > 0)
        acknowledged[step.id] = step.number;
      else
        play(step, disk);
    }
    Folder after;
    disk.write_remains(after.path(), rng);
    with_database += std::filesystem::exists(after.database());
    ASSERT_NO_FATAL_FAILURE(expect_whole(after.database(), acknowledged,
                                         cat("round ", round, ", power cut after step ", end, " of ", steps.size())));
  }
  EXPECT_GT(with_database, 150);
}

}  // namespace
}  // namespace tw
