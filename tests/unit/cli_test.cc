// The real program on real files: messages, exit codes, what is on standard output, what is left
// behind.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "backends/target.h"
#include "costmodel/features.h"
#include "costmodel/make_model.h"
#include "costmodel/model_bytes.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/text/workload.h"
#include "runtime/store/database.h"
#include "sampler/tasks/model_data.h"
#include "support/python.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using test::Finished;
using test::tracewright;

// What is said about bad.yaml below: every error of every file.
constexpr const char* bad_list_errors = R"text(bad.yaml:2:21: error: unknown target key `thraeds`
    2 | target: {kind: cpu, thraeds: 1}
      |                     ^~~~~~~
note: did you mean `threads`?
bad.yaml:4:19: error: unknown operator `conv2`
    4 |   - {name: a, op: conv2, args: {N: 1}}
      |                   ^~~~~
note: did you mean `conv2d`?
bad.yaml:5:48: error: expected `K` to be an integer from 1 to 2147483647, found `0`
    5 |   - {name: b, op: dense, args: {M: 8, N: 8, K: 0}}
      |                                                ^
bad.yaml:6:33: error: conv2d: the window is larger than the padded input with reach = 3, H = 2, padding = 0, W = 2
    6 |   - {name: c, op: conv2d, args: {N: 1, H: 2, W: 2, CI: 8, CO: 8, K: 3}}
      |                                 ^
bad.yaml:7:40: error: this use of `banded` is not possible, see mine.tw
    7 |   - {name: d, workload: mine.tw, use: "banded(M = 512)"}
      |                                        ^~~~~~~~~~~~~~~
bad.yaml:8:25: error: there is no file none.tw
    8 |   - {name: e, workload: none.tw, use: "banded(M = 512)"}
      |                         ^~~~~~~
note: paths are relative to the folder of the task list
mine.tw:3:27: error: unknown name `Z`
    3 |   output Y[i: M] = X[i] + Z[i]
      |                           ^
)text";

// A folder with a task list in it, in which the command runs.
class Cli : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { test::write_file(folder.path() + "/" + name, text); }
  Finished run(std::vector<std::string> words) { return tracewright(std::move(words), {.folder = folder.path()}); }
  boost::json::object run_json(std::vector<std::string> words) {
    words.push_back("--json");
    Finished finished = run(std::move(words));
    EXPECT_EQ(finished.code, 0) << finished.err;
    boost::system::error_code error;
    boost::json::value value = boost::json::parse(finished.out, error);
    EXPECT_FALSE(error) << finished.out;
    return value.is_object() ? value.as_object() : boost::json::object{};
  }
  bool exists(const std::string& name) { return std::filesystem::exists(folder.path() + "/" + name); }

  test::TemporaryDirectory folder;
};

TEST_F(Cli, EveryErrorOfAListIsReportedAndNothingIsStarted) {
  write("mine.tw", "workload banded(M: int) {\n  input X: f32[M]\n  output Y[i: M] = X[i] + Z[i]\n}\n");
  write("bad.yaml", R"yaml(version: 1
target: {kind: cpu, thraeds: 1}
tasks:
  - {name: a, op: conv2, args: {N: 1}}
  - {name: b, op: dense, args: {M: 8, N: 8, K: 0}}
  - {name: c, op: conv2d, args: {N: 1, H: 2, W: 2, CI: 8, CO: 8, K: 3}}
  - {name: d, workload: mine.tw, use: "banded(M = 512)"}
  - {name: e, workload: none.tw, use: "banded(M = 512)"}
)yaml");
  Finished finished = run({"tune", "bad.yaml", "--database", "new.db"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(finished.err, bad_list_errors);
  EXPECT_FALSE(exists("new.db"));
}

TEST_F(Cli, UnknownWordsGetASuggestion) {
  Finished command = tracewright({"exprot"});
  EXPECT_EQ(command.code, 2);
  EXPECT_EQ(command.err,
            "tracewright: unknown command `exprot`; did you mean `export`?\n`tracewright --help` "
            "lists the commands\n");
  Finished flag = tracewright({"tune", "a.yaml", "--trails", "7"});
  EXPECT_EQ(flag.code, 2);
  EXPECT_EQ(flag.err,
            "tracewright tune: unknown flag `--trails`; did you mean `--trials`?\n`tracewright "
            "tune --help` describes the flags\n");
  Finished behind = tracewright({"tune", "a.yaml", "--", "--trials", "7"});
  EXPECT_EQ(behind.code, 2);
  EXPECT_NE(behind.err.find("tracewright tune: the flag `--trials` cannot stand here\n"), std::string::npos)
      << behind.err;
  EXPECT_EQ(tracewright({"tune", "a.yaml", "--trials", "-7"}).code, 2);
  EXPECT_EQ(tracewright({"show"}).code, 2);
  EXPECT_EQ(tracewright({}).code, 2);
}

TEST_F(Cli, NumbersThatMakeNoSenseAreRefusedBeforeAnythingElse) {
  for (const auto& [command, flag, values] :
       {std::tuple<const char*, const char*, std::vector<const char*>>{
            "run", "--seconds", {"-1", "0", "nan", "inf", "1e300", "1s", "-1e-9"}},
        {"tune", "--seconds", {"-1", "nan", "inf"}},
        {"tune", "--min-gain", {"-1", "nan", "1"}},
        {"bench", "--seconds", {"-1", "nan"}},
        {"bench", "--limit", {"0", "nan", "1e300"}},
        {"bench", "--threads", {"-1", "1.5"}},
        {"run", "--threads", {"-1", "2000"}},
        {"run", "--seed", {"-1", "1e30"}},
        {"compile", "--threads", {"-1", "2000"}},
        {"compile", "--seed", {"-1"}}}) {
    for (const char* value : values) {
      Finished finished = run({command, "none.onnx", flag, value});
      EXPECT_EQ(finished.code, 2) << command << " " << flag << " " << value;
      EXPECT_NE(finished.err.find(cat("tracewright ", command, ": ")), std::string::npos) << finished.err;
      EXPECT_NE(finished.err.find(flag), std::string::npos) << value << finished.err;
      EXPECT_EQ(finished.err.find("none.onnx"), std::string::npos) << finished.err;
    }
  }
}

TEST_F(Cli, EveryCommandDescribesItself) {
  for (const char* command : {"tune", "replay", "show", "report", "export", "bench", "space", "doctor", "db"}) {
    Finished finished = tracewright({command, "--help"});
    EXPECT_EQ(finished.code, 0) << command;
    EXPECT_NE(finished.out.find("exit codes: 0 ok"), std::string::npos) << command;
    EXPECT_EQ(finished.err, "") << command;
  }
}

TEST_F(Cli, TheVersionIsPrintedWithoutLibTorch) {
  Finished finished = tracewright({"--version"}, {.environment = {"LD_DEBUG=files"}});
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.out, cat("tracewright ", TW_VERSION, "\n"));
  EXPECT_NE(finished.err.find("libtracewright.so"), std::string::npos) << "the loader says nothing";
  EXPECT_EQ(finished.err.find("libtorch"), std::string::npos);
  EXPECT_EQ(finished.err.find("libLLVM"), std::string::npos);
}

TEST_F(Cli, DoctorKnowsThisMachine) {
  boost::json::object report = run_json({"doctor"});
  EXPECT_TRUE(report.at("works").as_bool());
  std::map<std::string, bool> checks;
  for (const boost::json::value& check : report.at("checks").as_array()) {
    checks[check.at("name").as_string().c_str()] = check.at("ok").as_bool();
    EXPECT_NE(check.at("detail").as_string(), "") << check;
  }
  for (const char* name : {"cpu", "llvm", "worker", "seccomp", "database"}) EXPECT_TRUE(checks[name]) << name;
  EXPECT_EQ(checks.count("libtorch"), 1u);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "it left something behind";
}

TEST_F(Cli, DryRunListsTheSketchesAndStartsNothing) {
  write("small.yaml", test::kGemmAndRows);
  boost::json::object report = run_json({"tune", "small.yaml", "--dry-run"});
  const boost::json::array& tasks = report.at("tasks").as_array();
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].at("name").as_string(), "gemm");
  EXPECT_EQ(tasks[0].at("to_measure").as_int64(), 6);
  EXPECT_EQ(tasks[0].at("flops").as_double(), 2.0 * 48 * 128 * 64);
  EXPECT_GE(tasks[0].at("sketches").as_array().size(), 1u);
  EXPECT_FALSE(exists("small.db"));
}

TEST_F(Cli, SpaceShowsTracesThatDifferByRuleSet) {
  write("small.yaml", test::kGemmAndRows);
  auto first_trace = [&](const char* rules) {
    boost::json::object report = run_json({"space", "small.yaml", "--rules", rules});
    return std::string(report.at("tasks").at(0).at("sketches").at(0).at("trace").as_string());
  };
  EXPECT_NE(first_trace("cpu").find("sample_categorical"), std::string::npos);
  EXPECT_EQ(first_trace("untuned"), "");
  Finished unknown = run({"space", "small.yaml", "--rules", "cpuu"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("did you mean `cpu`?"), std::string::npos) << unknown.err;
}

// ---- the whole way

TEST_F(Cli, TuneResumeShowReplay) {
  write("small.yaml", test::kGemmAndRows);
  boost::json::object first = run_json({"tune", "small.yaml"});
  ASSERT_EQ(first.at("tasks").as_array().size(), 2u);
  for (const boost::json::value& task : first.at("tasks").as_array()) {
    EXPECT_GT(task.at("best_us").as_double(), 0) << task;
    EXPECT_GT(task.at("baseline_us").as_double(), 0) << task;
    EXPECT_EQ(task.at("failed").as_int64(), 0) << task;
  }
  EXPECT_EQ(first.at("tasks").at(0).at("trials").as_int64(), 6);
  EXPECT_EQ(first.at("tasks").at(0).at("ended").as_string(), "trials");
  EXPECT_GE(first.at("measurements").as_int64(), first.at("measured").as_int64());
  EXPECT_GT(first.at("trials_per_second").as_double(), 0);
  EXPECT_GT(first.at("candidates_per_second").as_double(), 0);

  boost::json::object again = run_json({"tune", "small.yaml"});
  EXPECT_EQ(again.at("tasks").at(0).at("trials").as_int64(), 6) << "a second run measures nothing again";
  // One task alone gets further trials; then both get two more than each has.
  write("gemm.yaml",
        std::string(test::kGemmAndRows).substr(0, std::string(test::kGemmAndRows).find("  - {name: rows")));
  boost::json::object one = run_json({"tune", "gemm.yaml", "--trials", "9"});
  EXPECT_EQ(one.at("tasks").at(0).at("trials").as_int64(), 9);
  boost::json::object plan = run_json({"tune", "small.yaml", "--more", "2", "--dry-run"});
  EXPECT_EQ(plan.at("trials").as_int64(), 4);
  boost::json::object more = run_json({"tune", "small.yaml", "--more", "2"});
  EXPECT_EQ(more.at("measured").as_int64(), 4);
  EXPECT_EQ(more.at("tasks").at(0).at("trials").as_int64(), 11);
  EXPECT_EQ(more.at("tasks").at(1).at("trials").as_int64(), 8);

  // Of a total of 23 four are left; the table says with what each task ended.
  EXPECT_EQ(
      run_json({"tune", "small.yaml", "--trials", "50", "--total-trials", "23", "--dry-run"}).at("trials").as_int64(),
      4);
  boost::json::object total =
      run_json({"tune", "small.yaml", "--total-trials", "23", "--database", "total.db", "--min-gain", "0"});
  EXPECT_EQ(total.at("measured").as_int64(), 12) << "the list's 6 for each task come first";
  Finished table = run({"tune", "small.yaml", "--total-trials", "12", "--database", "total.db"});
  EXPECT_NE(table.out.find("ended with"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("all its trials"), std::string::npos) << table.out;
  Finished wrong = run({"tune", "small.yaml", "--min-gain", "2"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("--min-gain"), std::string::npos) << wrong.err;

  boost::json::object shown = run_json({"show", "small.db"});
  ASSERT_EQ(shown.at("tasks").as_array().size(), 2u);
  EXPECT_EQ(shown.at("tasks").at(0).at("task").as_string(), "gemm");
  EXPECT_EQ(shown.at("tasks").at(0).at("trials").as_int64(), 11);

  Finished best = run({"show", "small.db", "--best", "gemm", "--output", "gemm.tw"});
  ASSERT_EQ(best.code, 0) << best.err;
  Finished hash = run({"replay", "gemm.tw", "--hash"});
  EXPECT_EQ(hash.code, 0) << hash.err;
  EXPECT_NE(hash.out.find("object "), std::string::npos);
  EXPECT_EQ(hash.out, run({"replay", "gemm.tw", "--hash"}).out);
  for (const char* kind : {"ir", "object"}) {
    // One kind: the same number, and still who made it and for what.
    Finished alone = run({"replay", "gemm.tw", "--emit", kind, "--hash"});
    std::string number = alone.out.substr(alone.out.find(cat(" ", kind, " ")), std::strlen(kind) + 34);
    EXPECT_NE(hash.out.find(number), std::string::npos) << alone.out << hash.out;
    EXPECT_NE(alone.out.find(cat(" by tracewright ", TW_VERSION, " (build ")), std::string::npos) << alone.out;
    EXPECT_NE(alone.out.find(" for cpu -mcpu="), std::string::npos) << alone.out;
  }
  EXPECT_EQ(hash.out.find("build unknown"), std::string::npos) << hash.out;
  EXPECT_NE(run({"replay", "gemm.tw", "--emit", "llvm", "--hash"}).out,
            run({"replay", "gemm.tw", "--emit", "asm", "--hash"}).out);
  // A trace of another version means the same program, and says whose it is.
  std::string text = test::read_file(folder.path() + "/gemm.tw");
  write("older.tw", text.replace(text.find("0.1.0"), 5, "0.0.9"));
  Finished older = run({"replay", "older.tw", "--emit", "ir", "--hash"});
  EXPECT_EQ(older.out, run({"replay", "gemm.tw", "--emit", "ir", "--hash"}).out);
  EXPECT_NE(older.err.find("written by tracewright 0.0.9"), std::string::npos) << older.err;
  Finished emitted = run({"replay", "gemm.tw", "--emit", "trace"});
  EXPECT_EQ(emitted.out, test::read_file(folder.path() + "/gemm.tw"));
  EXPECT_NE(run({"replay", "gemm.tw", "--emit", "asm"}).out.find("matmul_run:"), std::string::npos);
  EXPECT_EQ(run({"replay", "gemm.tw", "--emit", "object"}).out.substr(0, 4), "\177ELF");
  Finished estimate = run({"replay", "gemm.tw", "--target", "cuda -arch=sm_80", "--emit", "estimate"});
  EXPECT_EQ(estimate.out.substr(0, estimate.out.find(" 40 GB\ngrid ")), "NVIDIA A100 SXM4")
      << estimate.out << estimate.err;
  EXPECT_NE(estimate.out.find(" of multiply-adds, "), std::string::npos) << estimate.out;
  Finished of_processor = run({"replay", "gemm.tw", "--emit", "estimate"});
  EXPECT_EQ(of_processor.code, 0);
  EXPECT_NE(of_processor.out.find("multiply-adds"), std::string::npos) << of_processor.out;
  EXPECT_NE(of_processor.out.find("by the machine code"), std::string::npos) << of_processor.out;
  Finished shown_bytes =
      tracewright({"replay", "gemm.tw", "--emit", "object"}, {.folder = folder.path(), .terminal_output = true});
  EXPECT_EQ(shown_bytes.code, 2);
  EXPECT_EQ(shown_bytes.err,
            "tracewright: --emit object writes bytes that a terminal cannot show; give --output matmul.o, or a pipe\n");
  EXPECT_EQ(shown_bytes.out, "");
  Finished shown_text =
      tracewright({"replay", "gemm.tw", "--emit", "asm"}, {.folder = folder.path(), .terminal_output = true});
  EXPECT_EQ(shown_text.code, 0);
  EXPECT_NE(shown_text.out.find("matmul_run:"), std::string::npos) << shown_text.out;
  EXPECT_EQ(run({"replay", "gemm.tw", "--emit", "object", "--output", "gemm.o"}).code, 0);
  EXPECT_EQ(test::read_file(folder.path() + "/gemm.o").substr(0, 4), "\177ELF");
  boost::json::object checked = run_json({"replay", "gemm.tw", "--check"});
  EXPECT_GT(checked.at("kernels").at(0).at("us").as_double(), 0);
  EXPECT_EQ(run({"db", "verify", "small.db"}).code, 0);
}

TEST_F(Cli, AnExportListsItsFilesAndWhereItsKernelsAreFrom) {
  write("small.yaml", test::kGemmAndRows);
  boost::json::object tuned = run_json({"tune", "small.yaml"});
  boost::json::object exported = run_json({"export", "small.yaml", "--output", "lib"});
  EXPECT_EQ(exported.at("folder").as_string(), "lib");
  EXPECT_EQ(exported.at("library").as_string(), "small");
  EXPECT_EQ(exported.at("note").as_string(), "");
  std::set<std::string> files;
  for (const boost::json::value& file : exported.at("files").as_array()) files.insert(file.as_string().c_str());
  for (const char* file : {"small.h", "libsmall.a", "libsmall.so", "manifest.json", "traces/gemm.tw"})
    EXPECT_TRUE(files.contains(file)) << exported;
  for (const std::string& file : files) EXPECT_TRUE(exists("lib/" + file)) << file;
  ASSERT_EQ(exported.at("tasks").as_array().size(), tuned.at("tasks").as_array().size());
  for (std::size_t i = 0; i < tuned.at("tasks").as_array().size(); ++i) {
    const boost::json::value &task = exported.at("tasks").at(i), &best = tuned.at("tasks").at(i);
    EXPECT_EQ(task.at("name"), best.at("name"));
    EXPECT_EQ(task.at("record"), best.at("record"));
    EXPECT_NEAR(task.at("us").as_double(), best.at("best_us").as_double(), 1e-3);
    EXPECT_EQ(task.at("target").as_string().subview(0, 4), "cpu ");
  }
}

// Records as if another machine, a thousand times as fast, had made them.
TEST_F(Cli, ACostModelGoesFromRunToRun) {
  write("many.yaml",
        "version: 1\ntarget: {kind: cpu, threads: 1}\nbudget: {trials: 24, min_gain: 0}\ntasks:\n"
        "  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n");
  const std::vector<std::string> tune = {"tune",         "many.yaml",     "--model", "tree",
                                         "--model-file", "learned.model", "--json"};
  auto with_database = [&](const char* name) {
    std::vector<std::string> words = tune;
    words.insert(words.end(), {"--database", name});
    return run(words);
  };
  ASSERT_EQ(with_database("first.db").code, 0);
  const std::string learned = test::read_file(folder.path() + "/learned.model");
  EXPECT_GT(learned.size(), 100u);
  // A fresh database: what is new is measured, what was learned elsewhere stays in use.
  Finished second = with_database("second.db");
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_NE(test::read_file(folder.path() + "/learned.model"), "");
  EXPECT_FALSE(exists("learned.model.part"));

  Finished other_kind = run({"tune", "many.yaml", "--model", "random", "--model-file", "learned.model"});
  EXPECT_EQ(other_kind.code, 2);
  EXPECT_NE(other_kind.err.find("learned.model: "), std::string::npos) << other_kind.err;
  write("learned.model", learned.substr(0, learned.size() / 2));
  EXPECT_EQ(with_database("third.db").code, 2);
  EXPECT_FALSE(exists("third.db"));
}

TEST_F(Cli, ModelsThatPredictTogetherGoFromRunToRun) {
  auto write_list = [&](const std::string& name, const std::string& search) {
    write(name, cat("version: 1\ntarget: {kind: cpu, threads: 1}\nbudget: {trials: 24, min_gain: 0}\nsearch: {", search,
                    "}\ntasks:\n  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n"));
  };
  write_list("improves.yaml", "acquisition: ei");
  write_list("three.yaml", "models: 3");
  write_list("one.yaml", "models: 1");
  auto tune = [&](const std::string& list, const std::string& file, const std::string& database) {
    return run({"tune", list, "--model", "tree", "--model-file", file, "--database", database});
  };
  for (const auto& [list, file, models] : {std::tuple("improves.yaml", "five", 5), {"three.yaml", "three", 3}}) {
    ASSERT_EQ(tune(list, file, cat(file, ".db")).code, 0);
    boost::json::object shown = run_json({"model", "show", file});
    EXPECT_EQ(shown.at("model").as_string(), "tree");
    EXPECT_EQ(shown.at("models").as_int64(), models);
    EXPECT_EQ(shown.at("problem").as_string(), "");
    Finished second = tune(list, file, cat(file, "_second.db"));
    EXPECT_EQ(second.code, 0) << second.err;
    EXPECT_EQ(second.err.find("it begins anew"), std::string::npos) << second.err;
    EXPECT_EQ(run_json({"model", "show", file}).at("models").as_int64(), models);
  }
  Finished other_number = tune("one.yaml", "three", "other.db");
  EXPECT_EQ(other_number.code, 2);
  EXPECT_EQ(
      other_number.err,
      "tracewright: three: holds 3 models that predict together, and the `search` of this run has one model; name "
      "another file\n");
  Finished other_kind = run({"tune", "three.yaml", "--model", "random", "--model-file", "three"});
  EXPECT_EQ(other_kind.code, 2);
  EXPECT_NE(other_kind.err.find("three: holds the cost model `tree`, and this run uses `random`; give --model tree"),
            std::string::npos)
      << other_kind.err;
  EXPECT_FALSE(exists("other.db"));
}

// The same records with the times that the draft model predicts: what is learned of them does not depend on how busy
// the machine was.
void write_predicted(Database& from, Database& to) {
  ModelData data;
  ASSERT_TRUE(add_model_data(data, from));
  ASSERT_EQ(data.left_out, 0);
  std::size_t next = 0;
  for (const TaskSummary& task : *from.tasks()) {  // in the order of add_model_data
    ASSERT_TRUE(to.add_workload(task.workload, *from.workload_text(task.workload)));
    std::set<std::string> programs;
    auto add = [&](Record& record) {
      if (!record.is_trial() || record.trace.empty() || !programs.insert(record.program).second) return;
      record.status = "ok", record.error.clear();
      record.seconds = std::exp(-static_cast<double>(data.draft.at(next++)));
      EXPECT_TRUE(to.add_record(record));
    };
    ASSERT_TRUE(from.visit({.workload = task.workload, .target = task.target}, add));
  }
  EXPECT_EQ(next, data.draft.size());
}

TEST_F(Cli, ListsOfRandomTasksAreRight) {
  const std::string python = test::python_with("random");
  if (python.empty()) GTEST_SKIP() << "there is no python3";
  auto list = [&](const std::string& seed) {
    const std::string path = cat(folder.path(), "/", seed, ".yaml");
    EXPECT_EQ(test::run_program({python, cat(TW_SOURCE_DIR, "/bench/random_tasks.py"), "--count", "40", "--seed", seed,
                                 "--output", path})
                  .code,
              0);
    return test::read_file(path);
  };
  const std::string first = list("1");
  EXPECT_EQ(first, list("1"));
  EXPECT_NE(first, list("2"));
  EXPECT_EQ(run_json({"tune", "1.yaml", "--dry-run"}).at("tasks").as_array().size(), 40u);
}

TEST_F(Cli, ModelMeasuresLearnsAndJudges) {
  write("two.yaml",
        "version: 1\ntarget: {kind: cpu, threads: 1}\ntasks:\n"
        "  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n"
        "  - {name: wide, op: dense, args: {M: 16, N: 256, K: 96}}\n");
  Finished measured = run({"model", "data", "two.yaml", "--output", "records.db", "--programs", "48"});
  ASSERT_EQ(measured.code, 0) << measured.err;
  boost::json::object judged =
      run_json({"model", "eval", "records.db", "--models", "draft,tree,random", "--folds", "2", "--json"});
  const boost::json::array& rows = judged.at("models").as_array();
  ASSERT_EQ(rows.size(), 9u);
  std::map<std::string, double> pairwise;
  for (const boost::json::value& row : rows) {
    std::string split(row.at("split").as_string());
    pairwise[cat(row.at("model").as_string().c_str(), " ", split)] = row.at("pairwise").as_double();
    EXPECT_TRUE(split == "within tasks" || split == "unseen tasks" || split == "unseen operators");
    EXPECT_GT(row.at("top1").as_double(), 0);
    EXPECT_GE(row.at("clear_pairs").as_double(), 0);
    EXPECT_GE(row.at("top5").as_double(), row.at("top1").as_double());
    EXPECT_EQ(row.at("objective").as_string(), row.at("model").as_string() == "tree" ? "regression" : "")
        << "what it does in a tune, too";
    EXPECT_EQ(row.at("recall_at").as_int64(), 10);
  }
  {  // A third each: drawn at random, preferred by the draft model, proposed by a search.
    ModelData data;
    Database records = *Database::open(folder.path() + "/records.db", DatabaseMode::Read);
    ASSERT_TRUE(add_model_data(data, records));
    std::array<double, 3> draft = {};
    std::map<i32, std::size_t> place;
    for (std::size_t i = 0; i < data.draft.size(); ++i)
      draft[std::min<std::size_t>(place[data.data.group[i]]++ / 16, 2)] += data.draft[i];
    EXPECT_GT(draft[1], draft[0] + 0.2 * 32) << "a fifth faster in the mean";
  }
  {
    Database records = *Database::open(folder.path() + "/records.db", DatabaseMode::Read),
             predicted = *Database::open(folder.path() + "/predicted.db", DatabaseMode::Write);
    write_predicted(records, predicted);
  }
  boost::json::object learned =
      run_json({"model", "eval", "predicted.db", "--models", "tree", "--folds", "2", "--json"});
  EXPECT_GT(learned.at("models").at(0).at("pairwise").as_double(), pairwise["random within tasks"] + 0.2);
  EXPECT_NEAR(pairwise["random unseen tasks"], 0.5, 0.1);

  // Exported records are as good as the database.
  ASSERT_EQ(run({"db", "export", "records.db", "--file", "records.jsonl"}).code, 0);
  boost::json::object again =
      run_json({"model", "eval", "records.jsonl", "--models", "draft", "--folds", "2", "--recall", "3", "--json"});
  EXPECT_EQ(again.at("models").at(0).at("pairwise").as_double(), pairwise["draft within tasks"]);
  EXPECT_EQ(again.at("models").at(0).at("recall_at").as_int64(), 3);

  ASSERT_EQ(run({"model", "train", "records.db", "--model", "tree", "--output", "my.model"}).code, 0);
  EXPECT_EQ(run_json({"model", "show", "my.model", "--json"}).at("model").as_string(), "tree");
  EXPECT_EQ(run({"tune", "two.yaml", "--database", "records.db", "--more", "2", "--model", "tree", "--model-file",
                 "my.model"})
                .code,
            0);
}

TEST_F(Cli, ModelDataGoesOnAndTellsWhatIsShort) {
  const std::string tasks =
      "tasks:\n  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n"
      "  - {name: rows, op: softmax, args: {M: 8, N: 64}}\n";
  write("two.yaml", "version: 1\ntarget: {kind: cpu, threads: 1}\n" + tasks);
  write("hasty.yaml", "version: 1\ntarget: {kind: cpu, threads: 1}\nbudget: {seconds: 1}\n" + tasks);
  auto stored = [&](const std::string& name) {
    Database records = *Database::open(folder.path() + "/" + name, DatabaseMode::Read);
    std::map<std::string, i64> trials;
    for (const TaskSummary& task : *records.tasks()) trials[task.task] = task.trials;
    return std::pair(trials, *records.latest_record());
  };
  auto measure = [&](const std::string& list, const std::string& programs) {
    Finished done = run({"model", "data", list, "--output", list + ".db", "--programs", programs});
    EXPECT_EQ(done.code, 0) << done.err;
    return done.err;
  };
  // The space of softmax has some ten programs.
  const std::string first = measure("two.yaml", "48");
  const auto [trials, latest] = stored("two.yaml.db");
  EXPECT_EQ(trials.at("gemm"), 48 + 1) << "the untuned program teaches nothing";
  EXPECT_LT(trials.at("rows"), 48);
  const std::string rows = cat("tracewright: rows: ", trials.at("rows") - 1, " of 48 programs\n");
  EXPECT_TRUE(first.ends_with(rows)) << first;
  EXPECT_EQ(first.find("gemm: 48 of"), std::string::npos) << first;
  const std::string again = measure("two.yaml", "48");
  EXPECT_TRUE(again.ends_with(rows)) << again;
  EXPECT_EQ(stored("two.yaml.db"), std::pair(trials, latest)) << "nothing is measured twice";
  {
    Database records = *Database::open(folder.path() + "/two.yaml.db", DatabaseMode::Write);
    std::vector<Record> copies;
    ASSERT_TRUE(records.visit({}, [&](Record& record) {
      if (record.task == "rows") copies.push_back(record);
    }));
    for (std::size_t i = 0; i < 100; ++i) {
      Record& copy = copies[i % copies.size()];
      copy.host = "elsewhere, 9 of 9 cores, Linux 1";
      ASSERT_TRUE(records.add_record(copy));
    }
  }
  const std::string beside_others = measure("two.yaml", "48");
  EXPECT_TRUE(beside_others.ends_with(rows)) << beside_others;

  const std::string hasty = measure("hasty.yaml", "100000");
  EXPECT_NE(hasty.find("tracewright: gemm: "), std::string::npos) << hasty;
  EXPECT_NE(hasty.find(" of 100000 programs\n"), std::string::npos) << hasty;
  EXPECT_TRUE(
      hasty.ends_with("tracewright: each of the three runs had the 1 s of the list's budget; the same command "
                      "goes on where they stopped\n"))
      << hasty;
}

TEST_F(Cli, ModelTakesAnObjective) {
  write("two.yaml",
        "version: 1\ntarget: {kind: cpu, threads: 1}\ntasks:\n"
        "  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n"
        "  - {name: wide, op: matmul, args: {M: 16, N: 256, K: 96}}\n");
  ASSERT_EQ(run({"tune", "two.yaml", "--database", "two.db", "--trials", "24", "--model", "tree"}).code, 0);
  auto trained = [&](const std::string& objective) {
    const std::string file = cat(objective, ".model");
    boost::json::object report =
        run_json({"model", "train", "two.db", "--model", "tree", "--objective", objective, "--output", file});
    EXPECT_EQ(report.at("objective"), run_json({"model", "show", file}).at("objective"));
    return std::string(report.at("objective").as_string());
  };
  EXPECT_EQ(trained("usual"), "regression");
  EXPECT_EQ(trained("regression"), "regression");
  EXPECT_EQ(trained("rank"), "rank");
  auto file = [&](const std::string& objective) {
    return test::read_file(cat(folder.path(), "/", objective, ".model"));
  };
  EXPECT_EQ(file("usual"), file("regression"));
  EXPECT_NE(file("rank"), file("regression"));
  EXPECT_NE(run({"model", "show", "rank.model"}).out.find("tree, by rank, format "), std::string::npos);

  auto objectives = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"model", "eval", "two.db", "--folds", "2"});
    std::set<std::string> found;
    const boost::json::array rows = run_json(std::move(words)).at("models").as_array();
    for (const boost::json::value& row : rows)
      found.insert(cat(row.at("model").as_string().c_str(), " ", row.at("objective").as_string().c_str()));
    return found;
  };
  EXPECT_EQ(objectives({"--models", "tree,draft"}), (std::set<std::string>{"tree regression", "draft "}));
  EXPECT_EQ(objectives({"--models", "tree", "--objective", "rank"}), (std::set<std::string>{"tree rank"}));

  // A run goes on with what it would learn itself.
  auto tune = [&](const std::string& objective) {
    return run({"tune", "two.yaml", "--database", "two.db", "--more", "2", "--model", "tree", "--model-file",
                "rank.model", "--objective", objective});
  };
  Finished other = tune("usual");
  EXPECT_EQ(other.code, 2);
  EXPECT_EQ(other.err,
            "tracewright: rank.model: has learned by rank, and this run learns by regression; give --objective rank\n");
  Finished same = tune("rank");
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(run_json({"model", "show", "rank.model"}).at("objective").as_string(), "rank");
}

TEST_F(Cli, EvalTellsWhichModelIsTheDefault) {
  write("two.yaml",
        "version: 1\ntarget: {kind: cpu, threads: 1}\nbudget: {trials: 48, min_gain: 0}\ntasks:\n"
        "  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n"
        "  - {name: wide, op: dense, args: {M: 16, N: 256, K: 96}}\n");
  ASSERT_EQ(run({"tune", "two.yaml", "--database", "two.db", "--model-file", "m"}).code, 0);
  const boost::json::value used = run_json({"model", "show", "m"}).at("model");  // nothing was said of it
  auto defaults = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"model", "eval", "two.db", "--folds", "2", "--effort", "round"});
    std::multimap<std::string, boost::json::value> of_split;
    const boost::json::array rows = run_json(std::move(more)).at("models").as_array();
    for (const boost::json::value& row : rows) {
      if (row.at("default").as_bool()) of_split.emplace(row.at("split").as_string(), row.at("model"));
    }
    return of_split;
  };
  const auto named = defaults({"--models", "draft,random,tree,mlp"}), by_itself = defaults({"--models", "auto,random"});
  ASSERT_EQ(named.size(), 3u) << "one of each split";
  for (const char* split : {"within tasks", "unseen tasks", "unseen operators"}) {
    ASSERT_EQ(named.count(split), 1u) << split;
    EXPECT_EQ(named.find(split)->second, used);
    ASSERT_EQ(by_itself.count(split), 1u) << split;
    EXPECT_EQ(by_itself.find(split)->second.as_string(), "auto");
  }
  for (const char* objective : {"rank", "regression"}) {
    const bool is_usual = (used.as_string() == "mlp") == (objective == std::string_view("rank"));
    EXPECT_EQ(defaults({"--models", used.as_string().c_str(), "--objective", objective}).size(), is_usual ? 3u : 0u);
  }
}

TEST_F(Cli, EvalTakesTheRecordsThatComeWithIt) {
  boost::json::array rows =
      run_json({"model", "eval", "--models", "draft,random", "--folds", "2"}).at("models").as_array();
  ASSERT_EQ(rows.size(), 6u);
  for (const boost::json::value& row : rows) {
    SCOPED_TRACE(boost::json::serialize(row));
    EXPECT_EQ(row.at("problem").as_string(), "");
    if (row.at("model").as_string() == "random")
      EXPECT_NEAR(row.at("pairwise").as_double(), 0.5, 0.03);
    else
      EXPECT_GT(row.at("pairwise").as_double(), 0.6);
  }
}

TEST_F(Cli, TransfersWhatAModelFileHolds) {
  write("one.yaml", "version: 1\ntasks:\n  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n");
  write("other.yaml", "version: 1\ntasks:\n  - {name: wide, op: dense, args: {M: 64, N: 64, K: 48}}\n");
  write("listed.yaml",
        "version: 1\nsearch: {transfer: my.model}\ntasks:\n  - {name: wide, op: dense, args: {M: 64, N: 64, K: 48}}\n");
  ASSERT_EQ(run({"tune", "one.yaml", "--database", "one.db", "--trials", "24", "--model", "tree"}).code, 0);
  ASSERT_EQ(run({"model", "train", "one.db", "--model", "tree", "--output", "my.model"}).code, 0);
  // The programs of the first batch. A list's file is beside the list. All databases have the same rates of the
  // machine, on which the draft model depends.
  auto programs = [&](std::vector<std::string> words, const std::string& database) {
    std::filesystem::copy_file(folder.path() + "/one.db", folder.path() + "/" + database);
    words.insert(words.begin(), "tune");
    words.insert(words.end(), {"--database", database, "--trials", "8", "--model", "tree"});
    Finished done = run(words);
    EXPECT_EQ(done.code, 0) << done.err;
    auto opened = Database::open(folder.path() + "/" + database, DatabaseMode::Read);
    std::set<std::string> found;
    EXPECT_TRUE(opened->visit({}, [&](Record& record) {
      if (record.task == "wide" && record.generation == 0) found.insert(record.program);
    }));
    return found;
  };
  auto none = programs({"other.yaml", "--transfer", "none"}, "a.db"), usual = programs({"other.yaml"}, "b.db");
  auto taught = programs({"other.yaml", "--transfer", "my.model"}, "c.db"), listed = programs({"listed.yaml"}, "d.db");
  EXPECT_EQ(none, usual) << "the shipped model is for the network";
  EXPECT_NE(none, taught);
  EXPECT_EQ(taught, listed);
  EXPECT_EQ(programs({"listed.yaml", "--transfer", "none"}, "e.db"), none);

  auto fails = [&](std::vector<std::string> words, const std::string& message) {
    words.insert(words.begin(), {"tune", "one.yaml", "--database", "one.db", "--transfer"});
    Finished done = run(words);
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_NE(done.err.find(message), std::string::npos) << done.err;
  };
  fails({"nothing"}, "--transfer nothing: cannot read nothing");
  fails({"one.yaml"}, "--transfer one.yaml: one.yaml: it is no saved cost model");
  fails({"nothing", "--dry-run"}, "--transfer nothing: cannot read nothing");
  fails({"shiped"}, "cannot read shiped; did you mean `shipped`?");
  fails({"shipped", "--model-file", "x"}, "begins with --model-file, and not with another one");
  fails({"shipped", "--model", "random"}, "the cost model `random` learns nothing");
  fails({"shipped", "--model", "treegru"}, "the model `mlp` sees stores, and the cost model `treegru` sees loops");
  fails({"shipped", "--objective", "regression"}, "a global model has learned the order");
  fails({"my.model", "--model", "tree", "--objective", "rank"},
        "--transfer my.model: my.model: a global model has learned the speed, and the objective is rank");
  ASSERT_EQ(run({"model", "train", "one.db", "--model", "tree", "--objective", "rank", "--output", "rank.model"}).code,
            0);
  fails({"rank.model", "--model", "tree", "--objective", "regression"},
        "--transfer rank.model: rank.model: a global model has learned the order, and the objective is regression");
  EXPECT_NE(programs({"other.yaml", "--transfer", "rank.model"}, "f.db"), none);
  fails({"shipped", "--strategy", "reference"},
        "the strategy `reference` picks its batches itself and has no `transfer`");
  std::filesystem::remove(folder.path() + "/my.model");
  Finished lacking = run({"tune", "listed.yaml"});
  EXPECT_EQ(lacking.code, 2);
  EXPECT_NE(lacking.err.find("listed.yaml:2:20: error: cannot read "), std::string::npos) << lacking.err;
}

TEST_F(Cli, TuneSaysThatAStrategyAsksNoCostModel) {
  write("one.yaml", "version: 1\ntasks:\n  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n");
  auto said = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"tune", "one.yaml", "--dry-run"});
    Finished done = run(more);
    EXPECT_EQ(done.code, 0) << done.err;
    return done.err;
  };
  for (const char* strategy : {"random", "genetic"}) {
    for (const auto& [flag, value] : {std::pair("--model", "tree"), {"--objective", "rank"}})
      EXPECT_EQ(said({"--strategy", strategy, flag, value}),
                cat("tracewright: the strategy `", strategy,
                    "` asks no cost model, so --model and --objective change nothing\n"));
    EXPECT_EQ(said({"--strategy", strategy}), "");
  }
  for (const char* strategy : {"evolutionary", "reference", "annealing", "metropolis"})
    EXPECT_EQ(said({"--strategy", strategy, "--model", "tree"}), "");
  EXPECT_EQ(said({"--strategy", "random", "--model", "random"}), "") << "it does what was asked for";
}

TEST_F(Cli, WhatCannotBeSearchedIsRefusedBefore) {
  write("one.yaml", "version: 1\ntasks:\n  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n");
  write("ucb.yaml",
        "version: 1\nsearch: {acquisition: ucb}\ntasks:\n  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n");
  write("grid.yaml",
        "version: 1\nsearch: {strategy: grid, limit: 100}\ntasks:\n"
        "  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n");
  write("small.yaml", "version: 1\ntasks:\n  - {name: rows, op: softmax, args: {M: 8, N: 64}}\n");
  auto refuses = [&](std::vector<std::string> words, const std::string& message) {
    words.insert(words.begin(), "tune");
    words.insert(words.end(), {"--database", "new.db"});
    Finished done = run(words);
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_EQ(done.err, cat("tracewright: ", message, "\n"));
    EXPECT_FALSE(exists("new.db"));
  };
  refuses({"grid.yaml"},
          "gemm: the strategy `grid` is for spaces of at most 100 points, and this one has more; choose another "
          "strategy, or a larger `limit`");
  refuses({"ucb.yaml", "--model", "draft"},
          "the acquisition function `ucb` goes by what a learned cost model predicts, and `draft` is none");
  refuses({"one.yaml", "--trials", "4", "--more", "2"},
          "--trials says how many there are to be, and --more how many beyond those that are stored; give one");
  refuses({"one.yaml", "--model-file", "nowhere/m"}, "cannot write nowhere/m: there is no folder nowhere");
  refuses({"one.yaml", "--model-file", "one.yaml/m"}, "cannot write one.yaml/m: there is no folder one.yaml");
  EXPECT_EQ(run({"tune", "small.yaml", "--strategy", "grid", "--dry-run"}).code, 0);
}

TEST_F(Cli, CodeThatATargetLacksIsAWrongUse) {
  const std::string trace = TW_SOURCE_DIR "/tests/corpus/cpu_dense.tw";
  for (const auto& [kind, message] : {std::pair("ptx", "only kernels for `cuda` have such code"),
                                      {"cubin", "only kernels for `cuda` have such code"},
                                      {"source", "a kernel for processors has no source text"}}) {
    for (bool is_hash : {false, true}) {
      std::vector<std::string> words = {"replay", trace, "--emit", kind};
      if (is_hash) words.emplace_back("--hash");
      Finished done = run(words);
      EXPECT_EQ(done.code, 2) << kind;
      EXPECT_NE(done.err.find(message), std::string::npos) << done.err;
    }
  }
  Finished device = run({"replay", trace, "--target", "cuda -arch=sm_80", "--emit", "asm"});
  EXPECT_EQ(device.code, 2);
  EXPECT_NE(device.err.find("it has --emit source, ptx or cubin"), std::string::npos) << device.err;
}

TEST_F(Cli, SaysThatThereIsNoSuchTask) {
  write("one.yaml", "version: 1\ntasks:\n  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n");
  for (const char* command : {"space", "explain", "bench", "replay"}) {
    Finished done = run({command, "one.yaml", "--task", "gem"});
    EXPECT_EQ(done.code, 2) << command;
    EXPECT_NE(done.err.find("no task `gem` in one.yaml; did you mean `gemm`?"), std::string::npos) << done.err;
  }
}

// Where the shipped file is lacking or is of another version, a search goes on without it.
TEST_F(Cli, TunesWithoutTheShippedModel) {
  if (MadeModel made = make_model("mlp", feature_columns(), 0); !made.model) GTEST_SKIP() << made.note;
  write("one.yaml", "version: 1\ntasks:\n  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n");
  auto tune = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"tune", "one.yaml", "--database", "one.db", "--more", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return tracewright(words, {.folder = folder.path(), .environment = {"TRACEWRIGHT_SHARE=" + folder.path()}});
  };
  Finished lacking = tune({});
  EXPECT_EQ(lacking.code, 0);
  EXPECT_NE(lacking.err.find("cpu_model.bin is not installed; the search goes on without it"), std::string::npos)
      << lacking.err;
  EXPECT_EQ(tune({"--transfer", "shipped"}).code, 2) << "it was asked for";
  write("cpu_model.bin", "tracewright model");
  EXPECT_NE(tune({}).err.find("it is no saved cost model; the search goes on without it"), std::string::npos);
  EXPECT_EQ(tune({"--transfer", "none"}).err.find("without it"), std::string::npos);
}

TEST_F(Cli, EvalSaysThatAModelLearnedNothing) {
  if (!make_model("xgboost-reference", feature_columns(), 0).model) GTEST_SKIP() << "there is no XGBoost";
  write("two.yaml",
        "version: 1\ntarget: {kind: cpu, threads: 1}\ntasks:\n"
        "  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n"
        "  - {name: wide, op: matmul, args: {M: 16, N: 256, K: 96}}\n");
  ASSERT_EQ(run({"tune", "two.yaml", "--database", "two.db", "--trials", "6"}).code, 0);
  const std::vector<std::string> eval = {"model",   "eval", "two.db", "--models", "xgboost-reference,random",
                                         "--folds", "2"};
  boost::json::array rows = run_json(eval).at("models").as_array();
  ASSERT_EQ(rows.size(), 4u);
  for (const boost::json::value& row : rows) {
    bool is_random = row.at("model").as_string() == "random";  // it has nothing to learn
    EXPECT_EQ(row.at("pairwise").is_null(), !is_random);
    for (const char* share : {"top1", "top5", "clear_pairs", "rank", "recall"})
      EXPECT_TRUE(is_random || row.at(share).is_null()) << share;
    EXPECT_EQ(row.at("problem").as_string().find("learned nothing of ") == 0, !is_random);
  }
  Finished table = run(eval);
  EXPECT_NE(table.err.find("xgboost-reference, unseen tasks: learned nothing of "), std::string::npos) << table.err;
  EXPECT_EQ(table.out.find("0.500 "), table.out.find("0.500 ", table.out.find("random"))) << table.out;
}

TEST_F(Cli, ModelSaysWhatIsWrong) {
  auto fails = [&](std::vector<std::string> words, int code, const std::string& message) {
    words.insert(words.begin(), "model");
    Finished done = run(words);
    EXPECT_EQ(done.code, code) << done.err;
    EXPECT_NE(done.err.find(message), std::string::npos) << done.err;
  };
  fails({"evl", "a.db"}, 2, "did you mean `eval`?");
  fails({"eval", "none.db"}, 3, "none.db");
  fails({"eval", "none.jsonl"}, 3, "none.jsonl");
  write("one.yaml", "version: 1\ntasks:\n  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n");
  ASSERT_EQ(run({"tune", "one.yaml", "--database", "one.db", "--trials", "4"}).code, 0);
  fails({"eval", "one.db"}, 2, "one task alone");
  fails({"eval", "one.db", "--models", "tre"}, 2, "did you mean `tree`?");
  fails({"eval", "one.db", "--models", ""}, 2, "--models: name one");
  fails({"train", "one.db", "--output", "one.db"}, 2, "is no saved cost model");
  fails({"train", "one.db"}, 2, "--output");
  fails({"train", "one.db", "--output", "m", "--model", "tre"}, 2, "did you mean `tree`?");
  fails({"data", "one.yaml"}, 2, "--output");
  fails({"train", "one.db", "--output", "x", "--model", "xgboost-reference"}, 1, "too few");
  fails({"data", "one.yaml", "--output", "x.db", "--json"}, 2, "--json");
  write("damaged.model", "tracewright model");
  fails({"show", "damaged.model"}, 2, "no saved cost model");
  fails({"show"}, 2, "name one file");
  fails({"train", "one.db", "--output", "nowhere/m"}, 2, "there is no folder nowhere");
  fails({"train", "one.db", "--output", "x", "--model", "draft"}, 2, "`draft` learns nothing");
  fails({"train", "one.db", "--output", "x", "--objective", "order"}, 2,
        "--objective: expected usual, rank, regression, found `order`");
  fails({"eval", "one.db", "--objective", "order"}, 2, "--objective: expected usual, rank, regression, found `order`");
  fails({"eval", "one.db", "--models", "tree,draft", "--objective", "rank"}, 2, "--objective: `draft` learns nothing");
  ASSERT_EQ(run({"model", "train", "one.db", "--model", "tree", "--output", "m"}).code, 0);
  std::string bytes = test::read_file(folder.path() + "/m");
  write("cut.model", bytes.substr(0, bytes.size() - 1));
  EXPECT_EQ(run({"model", "show", "cut.model"}).code, 1);
}

// Whoever reads a file of a model says what is wrong with it, before anything starts.
TEST_F(Cli, ModelFilesThatDoNotFitAreRefused) {
  write("one.yaml", "version: 1\ntasks:\n  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}\n");
  const std::string good = make_model("tree", feature_columns(), 1).model->save();
  constexpr std::string_view kMagic = "tracewright model";
  // Before format 3 what was learned stood behind the name, and was not always said.
  std::string damaged = good, other_version = good,
              second = ModelWriter("tree:rank", feature_columns(), Objective::Usual).take();
  damaged.back() ^= 1;
  other_version[kMagic.size()] = 1;
  second[kMagic.size()] = 2;
  write("damaged", damaged);
  write("cut", good.substr(0, good.size() - 1));
  write("other_version", other_version);
  write("second", second);
  write("other_features", make_model("tree", 5, 1).model->save());
  const char* const is_damaged = "the saved model is damaged: its bytes are not those that were written\n";
  for (const auto& [file, message] :
       {std::pair<std::string, std::string>{"damaged", is_damaged},
        {"cut", is_damaged},
        {"other_version", "the saved model has format 1, this program reads format 3; train it again\n"},
        {"second", "the saved model has format 2, this program reads format 3; train it again\n"},
        {"other_features",
         cat("the saved model has 5 feature columns, this program has ", feature_columns(), "; train it again\n")}}) {
    SCOPED_TRACE(file);
    const std::string before = test::read_file(folder.path() + "/" + file);
    for (const auto& [flag, said] : {std::pair("--model-file", cat(file, ": ", message)),
                                     {"--transfer", cat("--transfer ", file, ": ", file, ": ", message)}}) {
      Finished tuned = run({"tune", "one.yaml", "--model", "tree", flag, file, "--database", "new.db"});
      EXPECT_EQ(tuned.code, 2);
      EXPECT_EQ(tuned.err, cat("tracewright: ", said));
    }
    EXPECT_FALSE(exists("new.db"));
    EXPECT_EQ(test::read_file(folder.path() + "/" + file), before);
    Finished shown = run({"model", "show", file});
    EXPECT_EQ(shown.code, 1);
    EXPECT_NE(shown.out.find(message), std::string::npos) << shown.out;
  }
}

TEST_F(Cli, RecordsOfAnotherMachineAreShownAndMeasuredAgain) {
  write("small.yaml", test::kGemmAndRows);
  run_json({"tune", "small.yaml"});
  {
    Database own = *Database::open(folder.path() + "/small.db", DatabaseMode::Read),
             other = *Database::open(folder.path() + "/other.db", DatabaseMode::Write);
    for (const WorkloadText& workload : *own.workloads()) ASSERT_TRUE(other.add_workload(workload.hash, workload.text));
    ASSERT_TRUE(own.visit({}, [&](Record& record) {
      record.host = "elsewhere, 9 of 9 cores, Linux 1";
      record.seconds *= 1e-3;
      ASSERT_TRUE(other.add_record(record));
    }));
  }
  boost::json::object shown = run_json({"show", "other.db"});
  ASSERT_EQ(shown.at("tasks").as_array().size(), 2u);
  boost::json::object gemm = shown.at("tasks").at(0).as_object();
  EXPECT_EQ(gemm.at("machine").as_string(), "elsewhere");
  EXPECT_FALSE(gemm.at("is_this_machine").as_bool());
  EXPECT_NE(run({"show", "other.db"}).out.find("elsewhere"), std::string::npos);
  EXPECT_EQ(run({"show", "small.db"}).out.find("machine"), std::string::npos) << "all is of this one";
  const std::string said = "gemm: measured on another machine (elsewhere)";
  Finished best = run({"show", "other.db", "--best", "gemm"});
  EXPECT_NE(best.err.find(said), std::string::npos) << best.err;
  EXPECT_EQ(best.out, run({"show", "small.db", "--best", "gemm"}).out);
  Finished exported = run({"export", "small.yaml", "--database", "other.db", "--output", "lib"});
  EXPECT_EQ(exported.code, 0);
  EXPECT_NE(exported.err.find(said), std::string::npos) << exported.err;

  EXPECT_EQ(run_json({"tune", "small.yaml", "--database", "other.db", "--dry-run"}).at("trials").as_int64(), 12);
  boost::json::object tuned = run_json({"tune", "small.yaml", "--database", "other.db"});
  EXPECT_EQ(tuned.at("measured").as_int64(), 12) << "none of its trials counts";
  EXPECT_GT(tuned.at("tasks").at(0).at("best_us").as_double(), 10 * gemm.at("best_us").as_double());
  shown = run_json({"show", "other.db"});
  EXPECT_EQ(shown.at("tasks").as_array().size(), 4u) << "a line for each machine";
  EXPECT_TRUE(shown.at("tasks").at(1).at("is_this_machine").as_bool());
  best = run({"show", "other.db", "--best", "gemm"});
  EXPECT_EQ(best.err, "");
  EXPECT_EQ(run_json({"db", "best", "other.db", "--task", "gemm", "-n", "1"}).at("records").as_array().size(), 2u);
}

TEST_F(Cli, ADifferentDecisionIsADifferentKernelAndAnIllegalOneIsRefused) {
  std::string head = cat("tracewright 1 \"0.1.0\"\ntarget ", quote(to_string(host_target())),
                         "\nprogram p(X: input f32[64], Y: output f32[64]) {\n  for i in 64 {\n    "
                         "block Y(i: S 64 = i) {\n      Y[i] = X[i] * 2.0\n    }\n  }\n}\n"
                         "schedule {\n  b = get_block(\"Y\")\n  i = get_loops(b)\n  t0, t1 = "
                         "sample_perfect_tile(i, 2) @ ");
  std::string tail = "\n  o, v = split(i, [t0, t1])\n  vectorize(v)\n}\n";
  write("a.tw", head + "[4, 16]" + tail);
  write("b.tw", head + "[8, 8]" + tail);
  write("c.tw", head + "[5, 13]" + tail);
  Finished a = run({"replay", "a.tw", "--hash"}), b = run({"replay", "b.tw", "--hash"}),
           c = run({"replay", "c.tw", "--hash"});
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(b.code, 0) << b.err;
  EXPECT_NE(a.out, b.out);
  EXPECT_EQ(c.code, 2);
  EXPECT_NE(c.err.find("sample_perfect_tile"), std::string::npos) << c.err;
  write("d.tw", head + "[4, 16]\n  splt(i, [t0, t1])\n}\n");
  Finished d = run({"replay", "d.tw"});
  EXPECT_EQ(d.code, 2);
  EXPECT_NE(d.err.find("did you mean `split`?"), std::string::npos) << d.err;
}

// How many trials the database holds; -1 if it cannot be read (yet).
i64 stored_trials(const std::string& path) {
  if (!std::filesystem::exists(path)) return -1;
  DatabaseResult<Database> database = Database::open(path, DatabaseMode::Read);
  if (!database) return -1;
  DatabaseResult<std::vector<TaskSummary>> tasks = database->tasks();
  i64 count = 0;
  if (tasks) {
    for (const TaskSummary& task : *tasks) count += task.trials;
  }
  return tasks ? count : -1;
}

TEST_F(Cli, CtrlCKeepsWhatWasMeasuredAndTellsHowToGoOn) {
  write("small.yaml", test::kGemmAndRows);
  std::string path = folder.path() + "/small.db";
  auto interrupt = [&](int pid) {
    for (int wait = 0; wait < 600 && stored_trials(path) < 3; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(pid, SIGINT);
  };
  Finished finished =
      tracewright({"tune", "small.yaml", "--trials", "100000"}, {.folder = folder.path(), .meanwhile = interrupt});
  EXPECT_EQ(finished.code, 130) << finished.err;
  EXPECT_NE(finished.err.find("small.db; the same command goes on"), std::string::npos) << finished.err;
  i64 before = stored_trials(path);
  EXPECT_GE(before, 3);
  EXPECT_EQ(run({"db", "verify", "small.db"}).code, 0);
  boost::json::object more = run_json({"tune", "small.yaml", "--more", "2"});
  EXPECT_FALSE(more.at("interrupted").as_bool());
  EXPECT_GE(stored_trials(path), before);
}

TEST_F(Cli, ADamagedOrMissingDatabaseIsTheEnvironmentsFault) {
  write("small.yaml", test::kGemmAndRows);
  write("broken.db", "this is no database, only text that somebody put here by mistake\n");
  Finished finished = run({"tune", "small.yaml", "--database", "broken.db"});
  EXPECT_EQ(finished.code, 3);
  EXPECT_NE(finished.err.find("broken.db"), std::string::npos);
  EXPECT_EQ(test::read_file(folder.path() + "/broken.db"),
            "this is no database, only text that somebody put here by mistake\n");
  EXPECT_EQ(run({"show", "missing.db"}).code, 3);
}

TEST_F(Cli, BenchComparesWithTheProbe) {
  if (access(TW_BINARY_DIR "/tracewright-peer-fma", X_OK) != 0) GTEST_SKIP() << "the FMA probe was not built";
  write("small.yaml", test::kGemmAndRows);
  run_json({"tune", "small.yaml", "--trials", "3"});
  // A library that is not there is skipped, with the reason, and the rest is measured.
  setenv("TRACEWRIGHT_PYTHON", "/no/python", 1);
  boost::json::object report =
      run_json({"bench", "small.yaml", "--against", "onednn,openblas,mkl-wheel", "--pairs", "20"});
  unsetenv("TRACEWRIGHT_PYTHON");
  int skipped = 0;
  for (const boost::json::value& row : report.at("skipped").as_array()) {
    if (row.at("library").as_string() != "mkl-wheel") continue;
    EXPECT_TRUE(row.at("reason").as_string().starts_with("cannot start /no/python: ")) << row;
    ++skipped;
  }
  EXPECT_EQ(skipped, 2);
  EXPECT_GT(report.at("fma_peak_gflops").at("1").as_double(), 0);
  std::map<std::string, int> rows;
  for (const boost::json::value& row : report.at("rows").as_array()) {
    ++rows[row.at("library").as_string().c_str()];
    EXPECT_GT(row.at("us").as_double(), 0) << row;
    EXPECT_GT(row.at("ratio").as_double(), 0) << row;
    EXPECT_GE(row.at("pairs").as_int64(), 20) << row;
    EXPECT_NE(row.at("verdict").as_string(), "wrong") << row;
    EXPECT_EQ(row.at("version").as_string().empty(), row.at("library").as_string() == "tracewright") << row;
  }
  EXPECT_EQ(rows["tracewright"], 2);
}

// A device that never ends is refused after the limit, and an empty file is read.
// Of a file that somebody else has written; also in the middle of a sentence.
TEST_F(Cli, NoEscapeSequenceReachesATerminal) {
  write("bad.tw", "rule \x1b[31mred(b: block) { skip }\n");
  write("bad.yaml", "version: 1\ntasks:\n  - {name: \"a\\eb\", op: dense, \x1b[1m: 3}\n");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"check", "bad.tw"},
                                                {"space", "bad.yaml"},
                                                {"replay", "no\x1b[1m.tw"},
                                                {"replay", "bad.tw"}}) {
    Finished finished = run(words);
    EXPECT_EQ(finished.code, 2) << finished.err;
    EXPECT_FALSE(finished.err.empty());
    EXPECT_EQ((finished.out + finished.err).find('\x1b'), std::string::npos) << finished.err;
  }
}

TEST_F(Cli, FilesThatAreTooLongOrEmptyAreNamed) {
  Finished endless = test::tracewright({"replay", "/dev/zero"});
  EXPECT_NE(endless.code, 0);
  EXPECT_NE(endless.err.find("cannot read /dev/zero: it has more than 64 MiB"), std::string::npos) << endless.err;
  test::TemporaryDirectory folder;
  test::write_file(folder.path() + "/empty.tw", "");
  for (const char* command : {"replay", "check"}) {
    Finished empty = test::tracewright({command, folder.path() + "/empty.tw"});
    EXPECT_EQ(empty.err.find("No such file"), std::string::npos) << empty.err;
  }
}

// What is between inputs and outputs counts, too: 4e12 scores.
TEST_F(Cli, TasksWhoseIntermediateResultsNoMemoryHoldsAreRefused) {
  write("attention.tw", R"tw(workload attention(S: int, D: int) {
  input Q: f32[S, D], K: f32[S, D], V: f32[S, D]
  P[i: S, j: S] = sum(k: D) Q[i, k] * K[j, k]
  E[i: S, j: S] = exp(P[i, j])
  Sum[i: S] = sum(j: S) E[i, j]
  A[i: S, j: D] = sum(k: S) E[i, k] * V[k, j]
  output Y: f32[i: S, j: D] = A[i, j] / Sum[i]
}
)tw");
  write("attention.yaml",
        "version: 1\ntarget: {kind: cpu, threads: 1}\ndatabase: attention.db\ntasks:\n"
        "  - {name: attention, workload: attention.tw, use: \"attention(S = 2000000, D = 64)\"}\n");
  Finished finished = run({"tune", "attention.yaml"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_NE(finished.err.find("attention.yaml:5:12: error: the task takes "), std::string::npos) << finished.err;
  EXPECT_FALSE(exists("attention.db"));
}

constexpr const char* kTooLarge = R"yaml(version: 1
target: {kind: cpu, threads: 1}
database: large.db
tasks:
  - {name: small, op: dense, args: {M: 8, N: 8, K: 8}}
  - {name: large, op: dense, args: {M: 2000000, N: 2000000, K: 8}}
)yaml";

// 4e12 results of 4 bytes in two layouts, and the inputs.
TEST_F(Cli, TasksThatNoMemoryHoldsAreRefusedWhereTheyStand) {
  write("large.yaml", kTooLarge);
  for (std::vector<std::string> words :
       {std::vector<std::string>{"tune", "large.yaml"}, {"tune", "large.yaml", "--dry-run"}, {"bench", "large.yaml"}}) {
    Finished finished = run(words);
    EXPECT_EQ(finished.code, 2) << words[0];
    EXPECT_NE(finished.err.find("large.yaml:6:12: error: the task takes 32000.6 GB of memory to be measured "
                                "(two sets of its data in two layouts, and what is expected), but "),
              std::string::npos)
        << finished.err;
    EXPECT_EQ(finished.err.find("large.yaml:5:"), std::string::npos) << finished.err;
    EXPECT_FALSE(exists("large.db"));
  }
  write("large.tw", R"tw(tracewright 1 "0.1.0"
target "cpu"
program large(X: input f32[4000000000, 4000], Y: output f32[4000000000, 4000]) {
  for i in 4000000000 {
    for j in 4000 {
      block Y(i: S 4000000000 = i, j: S 4000 = j) {
        Y[i, j] = X[i, j] + 1.0
      }
    }
  }
}
schedule {
}
)tw");
  Finished replayed = run({"replay", "large.tw", "--check"});
  EXPECT_EQ(replayed.code, 2);
  EXPECT_NE(replayed.err.find(": the workload takes "), std::string::npos) << replayed.err;
}

}  // namespace
}  // namespace tw
