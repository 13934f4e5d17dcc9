// What a person sees of a fleet: the state of the queue, `tracewright fleet`, its page, the metrics of `measure`.
// fleet_page_browser_test.cc opens pages in a browser.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "dsl/base/text.h"
#include "runtime/fleet/metrics_server.h"
#include "runtime/store/database.h"
#include "sampler/report/fleet_page.h"
#include "sampler/report/task_curves.h"
#include "support/http.h"
#include "support/processes.h"
#include "support/run_program.h"
#include "tests/unit/fleet_kit.h"
#include "tests/unit/report_records.h"

namespace tw {
namespace {

using boost::json::value;

constexpr const char* kHostile =
    "</script><script>window.pwned = 1</script><img src=x onerror=\"window.pwned = 1\">'&{{data}}\x1b[2J";

const MeasuredTarget kCpu{test::kTarget, test::kMachine, test::kMachine};

QueuedTrial trial(int i, const std::string& task) {
  return {.workload = to_hex(hash_bytes(test::kSmallMatmul)),
          .target = kCpu.target,
          .program = to_hex(hash_bytes(cat(task, i))),
          .trace = test::small_schedule(8, i % 3),
          .task = task};
}

Record record_of(const LeasedTrial& leased, const std::string& status = "ok", const std::string& error = "") {
  double seconds = status == "ok" ? 1e-5 : 0;
  return {.workload = leased.trial.workload,
          .target = leased.trial.target,
          .status = status,
          .seconds = seconds,
          .minimum = seconds,
          .first_quartile = seconds,
          .median = seconds,
          .third_quartile = seconds,
          .task = leased.trial.task,
          .program = leased.trial.program,
          .version = TW_VERSION,
          .host = kCpu.host,
          .error = error,
          .trace = leased.trial.trace};
}

// What a program has written so far. Before it has an output of its own this is the test's, and reading a pipe would
// wait for ever.
std::string said_by(int pid, int descriptor) {
  std::string out = cat("/proc/", pid, "/fd/", descriptor), own = cat("/proc/self/fd/", descriptor);
  bool is_own = std::filesystem::read_symlink(out) != std::filesystem::read_symlink(own);
  return is_own ? test::read_file(out) : "";
}

class SeenFleet : public TuningDatabaseTest {
 protected:
  Database database(DatabaseMode mode = DatabaseMode::Write) const {
    auto opened = Database::open(address_, mode);
    EXPECT_TRUE(opened) << opened.error();
    return std::move(*opened);
  }
  test::Finished fleet(std::vector<std::string> words, std::function<void(int)> meanwhile = {}) const {
    words.insert(words.begin(), {"fleet", address_});
    return test::tracewright(words, {.folder = folder_.path(), .meanwhile = std::move(meanwhile)});
  }
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }

  // Two machines, of which `busy` has two trials of gemm; one trial of `rows` waits. busy: 3 good, 2 crashes, 1
  // timeout, 1 fault; idle: 1 crash.
  void make_fleet(const std::string& busy = "busy", const std::string& task = "gemm",
                  const std::string& error = "signal 11") {
    TrialQueue q = queue();
    good(database().add_workload(to_hex(hash_bytes(test::kSmallMatmul)), test::kSmallMatmul));
    i64 tuner = good(q.add_tuner("tuner"));
    good(q.want(tuner, kCpu));
    auto machine = [&](const std::string& name) {
      return good(q.add_machine({.name = name, .host = kCpu.host, .version = "1", .targets = kCpu.target}));
    };
    i64 first = machine(busy), idle = machine("idle");
    std::vector<QueuedTrial> trials;
    for (int i = 0; i < 8; ++i) trials.push_back(trial(i, task));
    good(q.put(tuner, trials));
    const char* statuses[] = {"ok", "crash", "ok", "timeout", "crash", "ok"};
    std::vector<LeasedTrial> leased = good(q.lease(first, {kCpu}, 6));
    for (std::size_t i = 0; i < 6; ++i)
      good(q.finish(first, leased.at(i),
                    record_of(leased[i], statuses[i], statuses[i] == std::string("ok") ? "" : error)));
    leased = good(q.lease(idle, {kCpu}, 1));
    good(q.finish(idle, leased.at(0), record_of(leased[0], "crash", "signal 4")));
    leased = good(q.lease(first, {kCpu}, 1));
    good(q.finish_with_fault(first, leased.at(0), fault::kProgramDiffers, error));
    good(q.put(tuner, {trial(100, task), trial(101, task), trial(0, "rows")}));
    good(q.lease(first, {kCpu}, 2));
  }

  test::TemporaryDirectory folder_;
};

// ---- the state of the queue

TEST_F(SeenFleet, SaysWhoMeasuresWhatAndWhatFailedWhere) {
  make_fleet();
  FleetStatus status = good(queue().status());
  ASSERT_EQ(status.machines.size(), 2u);
  EXPECT_EQ(status.machines[0].measures, std::vector<std::string>{"gemm"});
  EXPECT_EQ(status.machines[0].leased, 2);
  EXPECT_TRUE(status.machines[1].measures.empty());
  EXPECT_EQ(status.measured, 7);
  ASSERT_EQ(status.tuners.size(), 1u);
  ASSERT_EQ(status.tuners[0].tasks.size(), 2u);
  EXPECT_EQ(status.tuners[0].tasks[0].task, "gemm");
  EXPECT_EQ(status.tuners[0].tasks[0].leased, 2);
  EXPECT_EQ(status.tuners[0].tasks[1].task, "rows");
  EXPECT_EQ(status.tuners[0].tasks[1].queued, 1);
  std::map<std::string, i64> failures;
  for (const FleetFault& one : status.failures)
    failures[cat(one.machine, ": ", one.kind, ": ", one.message)] = one.count;
  EXPECT_EQ(failures,
            (std::map<std::string, i64>{
                {"busy: crash: signal 11", 2}, {"busy: timeout: signal 11", 1}, {"idle: crash: signal 4", 1}}));
  ASSERT_EQ(status.faults.size(), 1u);
  EXPECT_EQ(status.faults[0].machine, "busy");
}

TEST_F(SeenFleet, MachinesThatAreLongGoneAreLeftOut) {
  make_fleet();
  server_->sql(
      name_, "update tracewright_fleet.machines set heartbeat = heartbeat - interval '2 minutes' where name = 'idle'");
  FleetStatus status = good(queue().status());
  ASSERT_EQ(status.machines.size(), 2u);
  EXPECT_TRUE(status.machines[1].is_gone);
  server_->sql(name_,
               "update tracewright_fleet.machines set heartbeat = heartbeat - interval '2 days' where name = 'idle'");
  status = good(queue().status());
  EXPECT_EQ(status.machines.size(), 1u);
  EXPECT_EQ(status.failures.size(), 2u) << "nor are its failures shown";
  EXPECT_EQ(status.measured, 7) << "its trials were measured";
}

// A database that an older program made has no table of failures: the next one to open it makes it.
TEST_F(SeenFleet, AMissingTableIsMade) {
  server_->sql(name_, "drop table tracewright_fleet.failures");
  make_fleet();
  EXPECT_EQ(good(queue().status()).failures.size(), 3u);
}

// ---- the command

TEST_F(SeenFleet, TheCommandPrintsTablesAndJson) {
  make_fleet();
  test::Finished text = fleet({});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(
      text.out.starts_with("2 machines measure, 0.0 trials/s; 1 trials in the queue, 2 are being measured; 7 so far\n"))
      << text.out;
  for (const char* line : {"\nmachine ", "\nbusy ", "\ntuner ", "\ntask ", "\nrows ", "\nfailure ", "\ncrash ",
                           "\nfault ", "\nprogram differs  busy "})
    EXPECT_NE(text.out.find(line), std::string::npos) << line << text.out;
  test::Finished json = fleet({"--json"});
  value found = boost::json::parse(json.out);
  EXPECT_EQ(found.at("machines").at(0).at("measures").at(0).as_string(), "gemm");
  EXPECT_EQ(found.at("measured").as_int64(), 7);
  EXPECT_EQ(found.at("failures").as_array().size(), 3u);
  EXPECT_EQ(found.at("tuners").at(0).at("tasks").as_array().size(), 2u);
}

TEST_F(SeenFleet, WatchPrintsAgainUntilItIsStopped) {
  make_fleet();
  test::Finished some = fleet({"--watch", "--json", "--every", "0.1", "--updates", "3"});
  EXPECT_EQ(some.code, 0) << some.err;
  EXPECT_EQ(std::ranges::count(some.out, '\n'), 3) << some.out;
  i64 before = 0;
  std::istringstream lines(some.out);
  for (std::string line; std::getline(lines, line);) {
    i64 at = boost::json::parse(line).at("created_ms").as_int64();
    EXPECT_GT(at, before);
    before = at;
  }
  test::Finished stopped = fleet({"--watch", "--every", "0.1"}, [](int pid) {
    EXPECT_TRUE(test::wait_until([&] { return said_by(pid, 1).find("busy", 2000) != std::string::npos; }));
    kill(pid, SIGINT);
  });
  EXPECT_EQ(stopped.code, 130);
  EXPECT_EQ(stopped.err, "");
}

TEST_F(SeenFleet, WatchWaitsForAServerThatIsAway) {
  std::string why;
  auto own = test::PostgresServer::start({}, &why);
  ASSERT_TRUE(own) << why;
  std::string name = make_tuning_database(*own), address = own->address(name);
  test::Finished seen = test::tracewright(
      {"fleet", address, "--html", at("fleet.html"), "--every", "0.1"}, {.meanwhile = [&](int pid) {
        auto page_has = [&](const std::string& text) {
          return test::wait_until([&] { return test::read_file(at("fleet.html")).find(text) != std::string::npos; });
        };
        ASSERT_TRUE(test::wait_until([&] { return access(at("fleet.html").c_str(), R_OK) == 0; }));
        EXPECT_TRUE(page_has("\"problem\":\"\""));
        own->kill_all();
        EXPECT_TRUE(page_has("no server answers"));
        EXPECT_TRUE(own->start_again());
        EXPECT_TRUE(page_has("\"problem\":\"\""));
        kill(pid, SIGTERM);
      }});
  EXPECT_EQ(seen.code, 130);
  EXPECT_NE(seen.err.find("it is waited for"), std::string::npos) << seen.err;
}

TEST_F(SeenFleet, WrongWordsAreRefused) {
  EXPECT_EQ(fleet({"--json", "--html", "x.html"}).code, 2);
  EXPECT_EQ(fleet({"--every", "0", "--watch"}).code, 2);
  test::Finished no_folder = fleet({"--html", "none/x.html"});
  EXPECT_EQ(no_folder.code, 3);
  EXPECT_NE(no_folder.err.find("cannot write none/x.html"), std::string::npos) << no_folder.err;
  EXPECT_EQ(test::tracewright({"fleet", "tuning.db", "--watch"}).code, 2);
}

// ---- the page

value data_of(const std::string& page) {
  static const std::string begin = "<script type=\"application/json\" id=\"data\">";
  std::size_t from = page.find(begin);
  if (from == std::string::npos) return ADD_FAILURE() << "no data", value();
  from += begin.size();
  return boost::json::parse(page.substr(from, page.find("</script>", from) - from));
}

// Whoever reads the page while it is written again and again has a whole one.
TEST_F(SeenFleet, ThePageIsWrittenWholeAgainAndAgain) {
  make_fleet();
  std::string page = at("fleet.html");
  std::set<i64> times;
  test::Finished finished = fleet({"--html", page, "--every", "0.1"}, [&](int pid) {
    EXPECT_TRUE(test::wait_until([&] { return access(page.c_str(), R_OK) == 0; }));
    for (int reads = 0; reads < 2000 || times.size() < 5; ++reads) {
      std::string text = test::read_file(page);
      const bool is_whole = text.starts_with("<!doctype html>") && text.ends_with("</html>\n");
      EXPECT_TRUE(is_whole) << text.size();
      if (!is_whole) break;
      if (reads % 20 == 0) times.insert(data_of(text).at("created_ms").as_int64());
    }
    kill(pid, SIGINT);
  });
  EXPECT_EQ(finished.code, 130);
  EXPECT_EQ(finished.out + finished.err, "");
  value last = data_of(test::read_file(page));
  EXPECT_EQ(last.at("refresh_ms").as_int64(), 0) << "the last one says that it is the last";
  struct stat status{};
  ASSERT_EQ(stat(page.c_str(), &status), 0);
  mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(status.st_mode & 0777, 0666u & ~mask) << "a web server may read it where other files may be read";
  EXPECT_NE(access((page + ".part").c_str(), F_OK), 0);
}

TEST_F(SeenFleet, ThePageHasMachinesQueueFailuresAndCurves) {
  make_fleet();
  ASSERT_EQ(fleet({"--html", at("fleet.html"), "--updates", "2", "--every", "0.1"}).code, 0);
  std::string page = test::read_file(at("fleet.html"));
  value data = data_of(page);
  EXPECT_EQ(data.at("address").as_string(), address_);
  EXPECT_EQ(data.at("fleet").at("machines").as_array().size(), 2u);
  EXPECT_EQ(data.at("fleet").at("failures").as_array().size(), 3u);
  ASSERT_EQ(data.at("samples").as_array().size(), 2u);
  EXPECT_EQ(data.at("samples").at(1).at(1).as_int64(), 7);
  ASSERT_EQ(data.at("tasks").as_array().size(), 1u);
  const value& task = data.at("tasks").at(0);
  EXPECT_EQ(task.at("name").as_string(), "gemm");
  EXPECT_EQ(task.at("trials").as_int64(), 7);
  EXPECT_EQ(task.at("failed").as_int64(), 4);
  EXPECT_EQ(task.at("curve").as_array().size(), 1u);
  EXPECT_GT(task.at("flops").to_number<double>(), 0) << "the workload was read";
  for (const char* other : {"https:", "@import", "url(", "<link rel=\"stylesheet\"", "src="})
    EXPECT_EQ(page.find(other), std::string::npos) << other << ": it would need something else";
}

TEST_F(SeenFleet, TextOutOfTheDatabaseIsNoMarkup) {
  make_fleet(kHostile, kHostile, kHostile);
  server_->sql(name_, cat("update tracewright_fleet.tuners set name = $$", kHostile, "$$"));
  ASSERT_EQ(fleet({"--html", at("fleet.html"), "--updates", "1"}).code, 0);
  std::string page = test::read_file(at("fleet.html"));
  EXPECT_EQ(page.find("<script>window"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  std::size_t scripts = 0;
  for (std::size_t from = 0; (from = page.find("<script", from)) != std::string::npos; ++from) ++scripts;
  EXPECT_EQ(scripts, 2u);
  EXPECT_EQ(data_of(page).at("fleet").at("tuners").at(0).at("name").as_string(), kHostile);
  test::Finished text = fleet({});
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos) << "a terminal would obey it";
}

TEST(FleetPage, DoesNotGrowWithoutEnd) {
  FleetView view;
  std::string huge(1000, 'x'), targets;
  for (int i = 0; i < 60; ++i) targets += huge + "\n";
  for (int i = 0; i < 1000; ++i) {
    view.status.machines.push_back({.name = cat(huge, i), .host = huge, .version = huge, .targets = targets});
    view.status.machines.back().trials_per_second = i;
    view.status.faults.push_back({huge, cat(huge, i), std::string(4000, 'y'), i});
    view.status.tuners.push_back({.name = huge, .tasks = std::vector<QueuedTask>(300, {huge, huge})});
  }
  std::string page = fleet_page(view, {});
  EXPECT_LT(page.size(), 16u << 20);
  value data = data_of(page);
  EXPECT_EQ(data.at("machines").to_number<i64>(), 1000) << "they are counted";
  EXPECT_EQ(data.at("fleet").at("machines").as_array().size(), 500u);
  EXPECT_EQ(data.at("fleet").at("machines").at(0).at("trials_per_second").to_number<double>(), 999);
  EXPECT_EQ(data.at("fleet").at("faults").at(0).at("count").as_int64(), 999);
}

TEST(FleetHistory, KeepsTheFirstTheLastAndEvenlySome) {
  for (i64 count : {1, 2, 599, 600, 601, 602, 1200, 1201, 1202, 5000, 86400}) {
    SCOPED_TRACE(count);
    FleetHistory history;
    for (i64 i = 0; i < count; ++i) history.add({.at = i});
    const std::vector<FleetSample>& samples = history.samples();
    EXPECT_LE(samples.size(), FleetHistory::kMostSamples);
    EXPECT_GE(samples.size(), std::min<std::size_t>(static_cast<std::size_t>(count), FleetHistory::kMostSamples / 2));
    EXPECT_EQ(samples.front().at, 0);
    EXPECT_EQ(samples.back().at, count - 1);
    for (std::size_t i = 2; i + 1 < samples.size(); ++i)
      EXPECT_EQ(samples[i].at - samples[i - 1].at, samples[1].at - samples[0].at);
  }
}

// ---- curves

// The curves that were read in parts are those of a report that reads all at once.
TEST_F(SeenFleet, CurvesReadInPartsAreThoseOfAReport) {
  Database written = database(), read = database(DatabaseMode::Read);
  TaskCurves curves;
  EXPECT_TRUE(curves.read(read)) << "an empty database";
  EXPECT_TRUE(curves.report().tasks.empty());
  for (int round = 0; round < 6; ++round) {
    for (const char* machine : {test::kMachine, "Another CPU"}) {
      for (const char* target : {test::kTarget, "cpu -mcpu=znver4 -threads=1"}) {
        std::vector<test::Trial> trials;
        for (int i = 0; i < 5 + round; ++i)
          trials.push_back(
              {i % 4 == 3 ? "crash" : "ok", 100.0 / (1 + (i * 7 + round * 3) % 11), test::small_schedule(8, i % 3)});
        if (round % 2 == 0 || target == std::string(test::kTarget))
          test::add_trials(written, "gemm", trials, machine, test::kSmallMatmul, target);
      }
    }
    if (round != 2) {
      ASSERT_TRUE(curves.read(read));
    }
  }
  Report whole = begin_report(), parts = curves.report();
  ASSERT_TRUE(add_database(whole, read));
  thin_out(whole);
  ASSERT_EQ(parts.tasks.size(), whole.tasks.size());
  for (const TaskReport& expected : whole.tasks) {
    auto found = std::ranges::find_if(parts.tasks, [&](const TaskReport& task) {
      return task.workload == expected.workload && task.target == expected.target && task.machine == expected.machine;
    });
    ASSERT_NE(found, parts.tasks.end());
    EXPECT_EQ(found->name, expected.name);
    EXPECT_EQ(found->trials, expected.trials);
    EXPECT_EQ(found->failed, expected.failed);
    EXPECT_EQ(found->best.record, expected.best.record);
    EXPECT_EQ(found->first.record, expected.first.record);
    auto same = [](const std::vector<ReportTrial>& a, const std::vector<ReportTrial>& b) {
      return std::ranges::equal(a, b, {}, &ReportTrial::record, &ReportTrial::record);
    };
    EXPECT_TRUE(same(found->curve, expected.curve));
    EXPECT_TRUE(same(found->dots, expected.dots));
    EXPECT_EQ(found->work.flops, expected.work.flops);
  }
}

// A task whose records are all older than the latest ones is read once something is new of it, with all that it has.
TEST_F(SeenFleet, OldTasksAppearWithAllTheirTrialsOnceTheyGoOn) {
  Database written = database(), read = database(DatabaseMode::Read);
  test::add_trials(written, "old", {{"ok", 5, test::small_schedule(8, 0)}, {"ok", 4, test::small_schedule(8, 1)}},
                   "Old CPU");
  std::vector<Record> many;
  for (i64 i = 0; i < TaskCurves::kRecentRecords + 10; ++i) {
    Record record = record_of({.trial = trial(static_cast<int>(i), "new")});
    record.target = "cpu -mcpu=znver4 -threads=1";
    many.push_back(record);
  }
  ASSERT_TRUE(written.add_records(many));
  TaskCurves curves;
  ASSERT_TRUE(curves.read(read));
  ASSERT_EQ(curves.report().tasks.size(), 1u);
  EXPECT_EQ(curves.report().tasks[0].trials, TaskCurves::kRecentRecords + 10)
      << "also the trials before the latest ones";
  test::add_trials(written, "old", {{"ok", 3, test::small_schedule(16, 0)}}, "Old CPU");
  ASSERT_TRUE(curves.read(read));
  ASSERT_EQ(curves.report().tasks.size(), 2u);
  EXPECT_EQ(curves.report().tasks[0].name, "old") << "the latest one is first";
  EXPECT_EQ(curves.report().tasks[0].trials, 3);
}

// ---- metrics of `measure`

std::map<std::string, double> scrape(int port) {
  std::map<std::string, double> samples;
  std::istringstream in(test::body_of(test::get(port)));
  for (std::string line; std::getline(in, line);) {
    std::size_t space = line.rfind(' ');
    if (!line.starts_with("#")) samples[line.substr(0, space)] = std::stod(line.substr(space));
  }
  return samples;
}

// A machine measures for a tuner while clients that never end their questions hang on its port. Its counts are those of
// the database.
TEST_F(SeenFleet, MetricsOfAMachineAreThoseOfTheDatabase) {
  test::write_file(at("small.yaml"), test::kGemmAndRows);
  std::map<std::string, double> found;
  std::vector<int> slow;
  test::Finished measured = test::tracewright(
      {"measure", "--database", address_, "--uncalibrated", "--metrics", "0", "--name", "m\"1"},
      {.folder = folder_.path(), .meanwhile = [&](int pid) {
         std::smatch match;
         std::string said;
         ASSERT_TRUE(test::wait_until([&] {
           said = said_by(pid, 2);
           return std::regex_search(said, match, std::regex("metrics: http://127\\.0\\.0\\.1:([0-9]+)/metrics\n"));
         })) << said;
         int port = std::stoi(match[1]);
         for (int i = 0; i < 15; ++i) slow.push_back(test::connect_to(port)), test::say_to(slow.back(), "GET /");
         test::Finished tuned = test::tracewright(
             {"tune", "small.yaml", "--database", address_, "--measure-on", "fleet"}, {.folder = folder_.path()});
         EXPECT_EQ(tuned.code, 0) << tuned.err;
         EXPECT_TRUE(test::wait_until([&] { return (found = scrape(port))["tracewright_busy"] == 0; }));
         kill(pid, SIGTERM);
       }});
  EXPECT_EQ(measured.code, 130) << measured.err;
  for (int socket : slow) close(socket);
  FleetStatus status = good(queue().status());
  ASSERT_EQ(status.machines.size(), 1u);
  const MachineCounts& counts = status.machines[0].counts;
  double trials = 0;
  i64 stored = 0;
  for (const auto& [name, count] : found) trials += name.starts_with("tracewright_trials_total{") ? count : 0;
  ASSERT_TRUE(database().visit({}, [&](Record& record) { stored += record.ok(); }));
  EXPECT_GT(stored, 0);
  EXPECT_EQ(found["tracewright_trials_total{status=\"ok\"}"] + found["tracewright_trials_total{status=\"noisy\"}"],
            stored);
  EXPECT_EQ(trials, counts.good + counts.failed);
  EXPECT_EQ(found["tracewright_trials_leased_total"], trials);
  EXPECT_EQ(found["tracewright_trial_duration_seconds_count"], trials);
  EXPECT_EQ(found["tracewright_trials_at_hand"], 0);
  EXPECT_GT(found["tracewright_busy_seconds_total"], found["tracewright_trial_duration_seconds_sum"] * 0.5);
  EXPECT_NEAR(found["tracewright_last_heartbeat_timestamp_seconds"], static_cast<double>(time(nullptr)), 60);
  EXPECT_EQ(found["tracewright_machine_info{machine=\"m\\\"1\",version=\"" TW_VERSION "\"}"], 1);
}

TEST_F(SeenFleet, APortThatIsTakenIsSaid) {
  std::string error;
  auto other = MetricsServer::start(0, [] { return ""; }, error);
  ASSERT_TRUE(other);
  test::Finished measured =
      test::tracewright({"measure", "--database", address_, "--metrics", std::to_string(other->port())});
  EXPECT_EQ(measured.code, 3);
  EXPECT_NE(measured.err.find(cat("--metrics: cannot listen on 127.0.0.1:", other->port(), ": Address already in use")),
            std::string::npos)
      << measured.err;
  EXPECT_EQ(test::tracewright({"measure", "--database", address_, "--metrics", "65536"}).code, 2);
}

}  // namespace
}  // namespace tw
