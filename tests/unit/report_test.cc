// The report: its numbers on databases that were made by hand, what it escapes, what it leaves out, and what the
// command says of files that are none. report_browser_test.cc opens the pages in a browser.
#include "sampler/report/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <set>

#include "dsl/base/rng.h"
#include "graph/passes/passes.h"
#include "runtime/export/export.h"
#include "sampler/models/compile_model.h"
#include "sampler/search/trial.h"
#include "support/graph_kit.h"
#include "support/parsed.h"
#include "support/run_program.h"
#include "support/support.h"
#include "tests/unit/report_records.h"

namespace tw {
namespace {

using test::add_trials;
using test::Finished;
using test::small_schedule;
using test::Trial;

constexpr const char* kHostile =
    "</script><script>window.pwned = 1</script><img src=x onerror=\"window.pwned = 1\">'&{{data}}";

class ReportOfDatabases : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder.path() + "/" + name; }
  Finished run(std::vector<std::string> words) {
    words.insert(words.begin(), "report");
    return test::tracewright(std::move(words), {.folder = folder.path()});
  }
  Report report_of(const std::string& name, ReportLimits limits = {}) {
    Report report = begin_report();
    report.limits = limits;
    auto database = Database::open(at(name), DatabaseMode::Read);
    EXPECT_TRUE(database) << database.error();
    auto added = add_database(report, *database);
    EXPECT_TRUE(added) << added.error();
    thin_out(report);
    return report;
  }

  test::TemporaryDirectory folder;
};

// ---- numbers

TEST_F(ReportOfDatabases, CountsWhatTheRecordsSay) {
  {
    Database database = test::open_for_records(at("a.db"));
    add_trials(database, "gemm",
               {{"ok", 50, small_schedule(8, 0)},
                {"ok", 900, ""},
                {"crash", 0, small_schedule(8, 1), "signal 11\nat the second call"},
                {Record::same_code, 0, small_schedule(4, 2), "record 1"},
                {"noisy", 40, small_schedule(16, 1)},
                {"ok", 41, small_schedule(16, 0)},
                {"wrong result", 0, small_schedule(2, 1), "element 7"},
                {"crash", 0, small_schedule(8, 2), "another signal"},
                {"ok", 30, small_schedule(32, 2)}});
    add_trials(database, "gemm", {{"ok", 10, small_schedule(8, 0)}}, "Another CPU");
  }
  Report report = report_of("a.db");
  ASSERT_EQ(report.tasks.size(), 2u);
  const TaskReport& task = report.tasks[0];
  EXPECT_EQ(task.machine, test::kMachine);
  EXPECT_EQ(task.trials, 8) << "what was known without measuring is no trial";
  EXPECT_EQ(task.failed, 3);
  EXPECT_EQ(task.timed, 4);
  EXPECT_NEAR(task.first.seconds, 50e-6, 1e-12);
  EXPECT_NEAR(task.untuned, 900e-6, 1e-12);
  EXPECT_NEAR(task.best.seconds, 30e-6, 1e-12);
  EXPECT_EQ(task.best.trial, 8);
  EXPECT_EQ(task.best_schedule, small_schedule(32, 2));
  std::vector<i64> improved;
  for (const ReportTrial& step : task.curve) improved.push_back(step.trial);
  EXPECT_EQ(improved, (std::vector<i64>{1, 4, 8}));
  ASSERT_EQ(task.failures.size(), 2u);
  EXPECT_EQ(task.failures[0].status, "crash");
  EXPECT_EQ(task.failures[0].count, 2);
  EXPECT_EQ(task.failures[0].record, 3);
  EXPECT_EQ(task.failures[0].message, "signal 11\nat the second call");
  EXPECT_EQ(task.failures[1].status, "wrong result");
  EXPECT_EQ(report.tasks[1].machine, "Another CPU");
  EXPECT_NEAR(report.tasks[1].best.seconds, 10e-6, 1e-12);
  EXPECT_EQ(report.tasks[1].trials, 1);
}

TEST_F(ReportOfDatabases, FirstTrialThatFailedIsNoFirstKernel) {
  {
    Database database = test::open_for_records(at("a.db"));
    add_trials(database, "failed", {{"crash", 0, small_schedule(8, 0), "x"}, {"ok", 50, small_schedule(8, 1)}});
    add_trials(database, "none", {{"crash", 0, small_schedule(8, 0), "x"}}, "Another CPU");
  }
  Report report = report_of("a.db");
  EXPECT_EQ(report.tasks[0].first.seconds, 0);
  EXPECT_NEAR(report.tasks[0].best.seconds, 50e-6, 1e-12);
  EXPECT_EQ(report.tasks[1].best.seconds, 0);
  EXPECT_TRUE(report.tasks[1].curve.empty());
  EXPECT_TRUE(to_json(report).at("tasks").at(1).at("best_us").is_null());
}

// Of many trials some are drawn, and all are counted.
TEST_F(ReportOfDatabases, ManyTrialsAreThinnedOutAndTheCurveIsExact) {
  const i64 count = test::from_environment("TW_CASES", 700);
  std::vector<Trial> trials;
  Rng rng(7);
  double best = 1e9;
  std::vector<i64> improved;
  for (i64 i = 0; i < count; ++i) {
    double us = 100 + static_cast<double>(rng.below(1000000)) / 100 + 3000 / static_cast<double>(i + 1);
    if (us < best) best = us, improved.push_back(i + 1);
    trials.push_back({"ok", us, small_schedule(1 << rng.below(6), static_cast<int>(rng.below(3)))});
  }
  {
    Database database = test::open_for_records(at("a.db"));
    add_trials(database, "gemm", trials);
  }
  Report report = report_of("a.db");
  const TaskReport& task = report.tasks[0];
  EXPECT_EQ(task.timed, count);
  EXPECT_EQ(task.dots.size(), report.limits.dots_of_a_task);
  EXPECT_TRUE(std::ranges::is_sorted(task.dots, {}, &ReportTrial::trial));
  EXPECT_EQ(task.dots.front().trial, 1);
  EXPECT_EQ(task.dots.back().trial, count);
  std::vector<i64> found;
  for (const ReportTrial& step : task.curve) found.push_back(step.trial);
  EXPECT_EQ(found, improved);
  EXPECT_TRUE(std::ranges::is_sorted(task.curve, std::greater(), &ReportTrial::seconds));
  EXPECT_EQ(task.decided, count);
  EXPECT_FALSE(task.is_curve_thinned);
  EXPECT_LT(report_page(report).size(), 150000u);
  Report smaller = report_of("a.db", {.dots_of_a_task = 50, .curve = 3});
  EXPECT_EQ(smaller.tasks[0].dots.size(), 50u);
  EXPECT_TRUE(smaller.tasks[0].is_curve_thinned);
  ASSERT_EQ(smaller.tasks[0].curve.size(), 3u);
  EXPECT_EQ(smaller.tasks[0].curve.back().seconds, task.best.seconds);
}

// ---- decisions

const DecisionEffect* effect_named(const std::vector<DecisionEffect>& effects, const std::string& name) {
  auto at = std::ranges::find(effects, name, &DecisionEffect::name);
  return at == effects.end() ? nullptr : &*at;
}

TEST(ReportDecisions, TheDecisionThatSetsTheTimeHasTheWeight) {
  DecisionTable table(small_schedule(8, 2));
  Rng rng(3);
  for (int i = 0; i < 120; ++i) {
    int tile = 1 << rng.below(6), unrolled = static_cast<int>(rng.below(3));
    double noise = 1 + 0.02 * static_cast<double>(rng.below(100)) / 100;
    table.add(small_schedule(tile, unrolled), (unrolled == 2 ? 10e-6 : unrolled == 1 ? 15e-6 : 25e-6) * noise);
  }
  table.add("  b_C = get_block(\"C\")\n  vectorize(b_C)\n", 1e-6);  // of another sketch
  EXPECT_EQ(table.trials(), 120);
  std::vector<DecisionEffect> effects = table.effects();
  ASSERT_EQ(effects.size(), 2u) << "both factors of the tile are one decision";
  EXPECT_EQ(effects[0].name, "u");
  EXPECT_EQ(effects[0].chosen, "4") << "the candidate, not its index";
  EXPECT_GT(effects[0].importance, 0.95);
  EXPECT_EQ(effects[0].values[0].text, "4");
  EXPECT_NEAR(effects[0].values[0].best_seconds, 10e-6, 0.2e-6);
  i64 counted = 0;
  for (const DecisionValue& value : effects[0].values) counted += value.count;
  EXPECT_EQ(counted, 120);
  EXPECT_LT(effects[1].importance, 0.1);
  EXPECT_GE(effects[1].importance, 0);
}

TEST(ReportDecisions, FewTrialsOrOneValueSayNothing) {
  DecisionTable few(small_schedule(8, 2)), alike(small_schedule(8, 2)), scattered(small_schedule(8, 2));
  for (int i = 0; i < DecisionTable::kLeastTrials - 1; ++i) few.add(small_schedule(8, i % 3), 1e-6 * (1 + i % 3));
  for (int i = 0; i < 50; ++i) alike.add(small_schedule(8, 1), 1e-6 * (1 + i));
  for (const DecisionTable* table : {&few, &alike}) {
    for (const DecisionEffect& effect : table->effects()) EXPECT_EQ(effect.importance, -1) << effect.name;
  }
  // The same trials, and one more: now something can be said.
  few.add(small_schedule(8, 0), 1e-6);
  std::vector<DecisionEffect> effects = few.effects();
  EXPECT_GT(effect_named(effects, "u")->importance, 0.9);
  EXPECT_EQ(effect_named(effects, "t0")->importance, -1);
  EXPECT_TRUE(scattered.effects().empty());
}

TEST(ReportDecisions, TextThatIsNoScheduleHasNone) {
  for (const char* text : {"", "  nonsense(", kHostile, "  b = get_block(\"C\")\n"}) {
    DecisionTable table(text);
    table.add(text, 1e-6);
    EXPECT_TRUE(table.effects().empty()) << text;
  }
  DecisionTable table(small_schedule(8, 2));
  for (const std::string& text : {std::string(), std::string(kHostile), small_schedule(8, 2).substr(0, 60)})
    table.add(text, 1e-6);
  EXPECT_EQ(table.trials(), 0);
}

// ---- the roof

TEST(ReportRoof, BytesAreThoseThatACallTouches) {
  EXPECT_EQ(touched_bytes(test::parsed(test::kSmallMatmul).program), 4.0 * (64 * 32 + 32 * 64 + 64 * 64));
  Work work = work_of(test::parsed(test::kSmallMatmul).program);
  EXPECT_EQ(work.flops, 2.0 * 64 * 64 * 32);
  EXPECT_EQ(work.type, DType::F32);
  // Of a table only the rows that are looked up, of a vector only the part that is read.
  OwnedProgram gather =
      test::parsed(R"(program rows(T: input f32[1000, 8], I: input i64[4], V: input f32[100], Y: output f32[4, 8]) {
  for i in 4 {
    for j in 8 {
      block Y(i: S 4 = i, j: S 8 = j) {
        Y[i, j] = T[within(I[i], 0, 1000), j] + V[j + 10]
      }
    }
  }
}
)");
  EXPECT_EQ(touched_bytes(gather.program), 4.0 * (4 * 8 + 8 + 4 * 8) + 8.0 * 4);
}

TEST(ReportRoof, TheSlowerOfArithmeticAndDataBounds) {
  Roof roof{.f32 = 100e9, .levels = {{"small", 1e3, 200e9}, {"memory", 1e6, 10e9}}};
  RoofBound computing = bound_of({.flops = 1e9, .bytes = 1e6, .type = DType::F32}, roof, 1);
  EXPECT_NEAR(computing.seconds, 0.01, 1e-9);
  EXPECT_TRUE(computing.by_arithmetic);
  RoofBound moving = bound_of({.flops = 1e6, .bytes = 1e7, .type = DType::F32}, roof, 1);
  EXPECT_NEAR(moving.seconds, 1e-3, 1e-9);
  EXPECT_FALSE(moving.by_arithmetic);
  EXPECT_EQ(moving.level, 1);
  // Two threads have half of the data each, in their own caches.
  EXPECT_EQ(bound_of({.flops = 1, .bytes = 1.5e6, .type = DType::F32}, roof, 1).level, 1);
  EXPECT_EQ(bound_of({.flops = 1, .bytes = 1.5e6, .type = DType::F32}, roof, 2).level, 0);
  EXPECT_EQ(bound_of({.flops = 1, .bytes = 10, .type = DType::F32}, roof, 1).level, 0);
  // Nothing is said of arithmetic that was not measured, nor of a machine that was not.
  EXPECT_FALSE(bound_of({.flops = 1e12, .bytes = 1e6, .type = DType::I64}, roof, 1).by_arithmetic);
  EXPECT_EQ(bound_of({.flops = 1e12, .bytes = 1e6, .type = DType::F32}, Roof{}, 1).seconds, 0);
}

TEST(ReportRoof, OfADeviceIsThatOfItsDescription) {
  Roof roof = described_roof(test::parsed_target("cuda -arch=sm_90a -device=h100"), "a GPU");
  EXPECT_NEAR(roof.f32, 132 * 128 * 2 * 1.98e9, 1e6);
  EXPECT_NEAR(roof.levels.back().bandwidth, 3352e9, 1);
  EXPECT_NE(roof.source.find("h100"), std::string::npos);
  Roof unknown = described_roof(test::parsed_target("opencl -device=0"), "a device");
  EXPECT_EQ(unknown.f32, 0);
  EXPECT_NE(unknown.source.find("unknown"), std::string::npos);
}

TEST_F(ReportOfDatabases, TheRoofIsThatOfTheMachineThatMeasured) {
  MachineRoofs roofs{.peaks = {{256, 50e9}}, .levels = {{16384, 100e9}, {1e8, 10e9}}};
  {
    Database database = test::open_for_records(at("a.db"));
    add_trials(database, "gemm", {{"ok", 10, small_schedule(8, 0)}});
    add_trials(database, "gemm", {{"ok", 10, small_schedule(8, 0)}}, "Another CPU");
    add_trials(database, "gemm", {{"ok", 10, small_schedule(8, 0)}}, cat(test::kMachine, ", Linux 6", kColdCaches));
    ASSERT_TRUE(database.save_model("machine roofs", test::kMachine, 1, to_text(roofs)));
  }
  Report report = report_of("a.db");
  ASSERT_EQ(report.tasks.size(), 3u);
  const TaskReport& own = report.tasks[0];
  EXPECT_NEAR(own.bound.seconds, 2.0 * 64 * 64 * 32 / 50e9, 1e-12);
  EXPECT_TRUE(own.bound.by_arithmetic);
  boost::json::object json = to_json(report);
  EXPECT_NEAR(json.at("tasks").at(0).at("share_of_roof").as_double(), 2.0 * 64 * 64 * 32 / 50e9 / 10e-6, 1e-6);
  EXPECT_EQ(report.tasks[1].bound.seconds, 0);
  EXPECT_TRUE(json.at("tasks").at(1).at("share_of_roof").is_null());
  EXPECT_NE(report.roofs[1].source.find("tune"), std::string::npos);
  // Caches that were cold belong to no other machine.
  EXPECT_EQ(report.tasks[2].bound.seconds, own.bound.seconds);
}

// ---- the page

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// What stands in the element that holds the data.
boost::json::value data_of(const std::string& page) {
  std::string begin = "id=\"data\">";
  std::size_t from = page.find(begin) + begin.size();
  return boost::json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST_F(ReportOfDatabases, TextOutOfFilesIsNeverMarkup) {
  {
    Database database = test::open_for_records(at("a.db"));
    add_trials(database, kHostile,
               {{"ok", 50, cat(small_schedule(8, 0), "# ", kHostile)}, {kHostile, 0, kHostile, kHostile}}, kHostile);
    add_trials(database, "other", {{"ok", 50, kHostile}}, kHostile, kHostile, kHostile);
  }
  Report report = report_of("a.db");
  std::string page = report_page(report);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(count_of(page, "<script"), 2u);
  EXPECT_EQ(count_of(page, "</script"), 2u);
  EXPECT_EQ(data_of(page), to_json(report)) << "nothing of the text is lost";
  EXPECT_EQ(data_of(page).at("tasks").at(0).at("name").as_string(), kHostile);
}

TEST_F(ReportOfDatabases, APageNeedsNothingElse) {
  {
    Database database = test::open_for_records(at("a.db"));
    add_trials(database, "gemm", {{"ok", 50, small_schedule(8, 0)}});
  }
  std::string page = report_page(report_of("a.db"));
  for (const char* word : {"{{", "src=", "@import", "url(", "fetch(", "XMLHttpRequest", "https://"})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  EXPECT_EQ(count_of(page, "http://"), 1u) << "the name of SVG, which nobody fetches";
  EXPECT_NE(page.find("<noscript>"), std::string::npos);
  EXPECT_NE(page.find("<td>gemm</td>"), std::string::npos) << "a table for those without scripts";
}

// ---- the command

TEST_F(ReportOfDatabases, TheCommandWritesThePageOrItsData) {
  {
    Database database = test::open_for_records(at("a.db"));
    add_trials(database, "gemm", {{"ok", 50, small_schedule(8, 0)}});
    Database other = test::open_for_records(at("b.db"));
    add_trials(other, "gemm", {{"ok", 40, small_schedule(8, 0)}, {"timeout", 0, small_schedule(8, 1), "10 s"}});
  }
  Finished written = run({"a.db", "b.db", "--output", "r.html"});
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_EQ(written.out, "");
  Finished printed = run({"a.db", "b.db", "--json"});
  boost::json::value json = boost::json::parse(printed.out), embedded = data_of(test::read_file(at("r.html")));
  EXPECT_EQ(json.at("tasks"), embedded.at("tasks"));
  ASSERT_EQ(json.at("tasks").as_array().size(), 2u);
  EXPECT_EQ(json.at("tasks").at(0).at("database").as_string(), "a.db");
  EXPECT_EQ(json.at("tasks").at(1).at("database").as_string(), "b.db");
  EXPECT_EQ(json.at("tasks").at(1).at("failures").at(0).at("status").as_string(), "timeout");
  EXPECT_EQ(run({"a.db"}).out.substr(0, 15), "<!doctype html>");
}

TEST_F(ReportOfDatabases, AnEmptyDatabaseHasAReport) {
  {
    Database database = test::open_for_records(at("empty.db"));
  }
  Finished finished = run({"empty.db", "--output", "r.html"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_TRUE(data_of(test::read_file(at("r.html"))).at("tasks").as_array().empty());
}

TEST_F(ReportOfDatabases, WhatDoesNotFitOnTheDiskLeavesTheOlderPage) {
  test::open_for_records(at("a.db"));
  ASSERT_EQ(run({"a.db", "--output", "r.html"}).code, 0);
  std::string older = test::read_file(at("r.html")), blocks = std::to_string(older.size() / 512 - 1);
  std::string command = "ulimit -f " + blocks + " && exec \"$0\" report a.db --output r.html";
  Finished found =
      test::run_program({"/bin/sh", "-c", command, TW_BINARY_DIR "/tracewright"}, {.folder = folder.path()});
  EXPECT_EQ(found.code, 3);
  EXPECT_NE(found.err.find("cannot write r.html"), std::string::npos) << found.err;
  EXPECT_EQ(test::read_file(at("r.html")), older);
  EXPECT_FALSE(std::filesystem::exists(at("r.html.part")));
}

TEST_F(ReportOfDatabases, WrongFilesHaveTheirExitCodes) {
  test::write_file(at("text.db"), "this is no database, it is a text of some length\n");
  {
    Database database = test::open_for_records(at("good.db"));
  }
  std::filesystem::create_directory(at("folder"));
  auto fails = [&](std::vector<std::string> words, int code, const std::string& message) {
    Finished found = run(words);
    EXPECT_EQ(found.code, code) << join(words, " ") << "\n" << found.err;
    EXPECT_NE(found.err.find(message), std::string::npos) << found.err;
    EXPECT_EQ(found.out, "");
    EXPECT_FALSE(std::filesystem::exists(at("r.html")));
  };
  fails({}, 2, "SOURCE");
  fails({"good.db", "--seconds", "-1", "--output", "r.html"}, 2, "--seconds");
  fails({"missing.db", "--output", "r.html"}, 3, "missing.db");
  fails({"text.db", "--output", "r.html"}, 3, "text.db");
  fails({"good.db", "folder", "--output", "r.html"}, 2, "no folder that `tracewright compile` wrote");
  fails({"good.db", "--output", "none/r.html"}, 3, "none/r.html");
}

TEST_F(ReportOfDatabases, DamagedRowsAreLeftOutAndSaid) {
  std::string name = "a_task_of_a_long_name";
  {
    Database database = test::open_for_records(at("a.db"));
    add_trials(database, name, {{"ok", 50, small_schedule(8, 0)}, {"ok", 40, small_schedule(8, 1)}});
  }
  std::string bytes = test::read_file(at("a.db"));
  std::size_t place = bytes.rfind(name);
  ASSERT_NE(place, std::string::npos);
  bytes[place] = 'b';
  test::write_file(at("a.db"), bytes);
  Finished finished = run({"a.db", "--json"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.err.find("1 damaged rows were left out"), std::string::npos) << finished.err;
  boost::json::value json = boost::json::parse(finished.out);
  EXPECT_EQ(json.at("damaged").as_int64(), 1);
  EXPECT_EQ(json.at("tasks").at(0).at("trials").as_int64(), 1);
}

// ---- models

// A folder as `compile` writes it, of two kernels in three steps.
void write_model(const std::string& folder) {
  test::GraphKit kit;
  graph::ValueId x = kit.input({16, 16});
  HostArray weights = HostArray::zeros(DType::F32, {16, 16});
  graph::ValueId w = kit.builder.constant("w", weights);
  graph::ValueId product = kit.add("matmul", {{"B", test::GraphKit::Ints{}}},
                                   {kit.add("matmul", {{"B", test::GraphKit::Ints{}}}, {x, w}), w});
  graph::Graph graph = kit.finish(kit.add("softmax", {{"axis", i64{1}}}, {product}));
  Target target = host_target();
  target.threads = 1;
  std::string error;
  auto plan = compile_model(graph, model_tasks(graph, target), {.library = "net", .target = target}, error);
  ASSERT_TRUE(plan) << error;
  ASSERT_EQ(write_export(*plan, folder).error, "");
}

TEST_F(ReportOfDatabases, AModelHasItsStepsInOrder) {
  write_model(at("net"));
  Report report = begin_report();
  std::string error;
  bool is_measured = false;
  ASSERT_TRUE(add_model(report, at("net"), 0.01, error, is_measured)) << error;
  ASSERT_EQ(report.models.size(), 1u);
  const ModelReport& model = report.models[0];
  ASSERT_EQ(model.steps.size(), 3u);
  EXPECT_EQ(model.steps[0].kernel, model.steps[1].kernel);
  EXPECT_NE(model.steps[0].kernel, model.steps[2].kernel);
  for (const ModelReport::Step& step : model.steps) {
    EXPECT_GT(step.seconds, 0);
    EXPECT_TRUE(step.has_work);
    EXPECT_GT(step.bound.seconds, 0);
  }
  EXPECT_EQ(model.steps[0].work.flops, 2.0 * 16 * 16 * 16);
  EXPECT_EQ(model.steps[0].work.bytes, 4.0 * 3 * 16 * 16);
  double shares = 0;
  boost::json::object json = to_json(report);
  for (const boost::json::value& step : json.at("models").at(0).at("steps").as_array())
    shares += step.at("share").to_number<double>();
  EXPECT_NEAR(shares, 1, 1e-9);
  // Without its trace nothing is known of a kernel but its time.
  std::filesystem::remove_all(at("net/traces"));
  ASSERT_TRUE(add_model(report, at("net"), 0.01, error, is_measured)) << error;
  EXPECT_FALSE(report.models[1].steps[0].has_work);
  EXPECT_GT(report.models[1].steps[0].seconds, 0);
}

TEST_F(ReportOfDatabases, AModelOfSeveralEntriesHasAllOfThem) {
  Target target = host_target();
  target.threads = 1;
  TaskNames names;
  std::vector<graph::Graph> graphs;
  std::vector<ModelTasks> tasks;
  for (i64 rows : {4, 16}) {
    test::GraphKit kit;
    graph::ValueId x = kit.input({rows, 16});
    graphs.push_back(kit.finish(kit.add("softmax", {{"axis", i64{1}}}, {x})));
    tasks.push_back(model_tasks(graphs.back(), target, names));
  }
  std::string error;
  auto plan =
      compile_model({{graphs[0], tasks[0]}, {graphs[1], tasks[1]}}, {.library = "net", .target = target}, error);
  ASSERT_TRUE(plan) << error;
  ASSERT_EQ(write_export(*plan, at("net")).error, "");
  Report report = begin_report();
  bool is_measured = false;
  ASSERT_TRUE(add_model(report, at("net"), 0.01, error, is_measured)) << error;
  ASSERT_EQ(report.models.size(), 2u);
  EXPECT_EQ(report.models[0].name, "net x=4,16");
  EXPECT_EQ(report.models[1].name, "net x=16,16");
  EXPECT_EQ(report.models[1].steps[0].work.bytes, 4.0 * report.models[0].steps[0].work.bytes);
  EXPECT_EQ(report.roofs.size(), 1u);
}

TEST_F(ReportOfDatabases, AModelThatDoesNotRunIsSaid) {
  write_model(at("net"));
  std::filesystem::remove(at("net/net.weights"));
  Finished finished = run({"net", "--output", "r.html"});
  EXPECT_EQ(finished.code, 3);
  EXPECT_NE(finished.err.find("weights"), std::string::npos) << finished.err;
  EXPECT_FALSE(std::filesystem::exists(at("r.html")));
}

}  // namespace
}  // namespace tw
