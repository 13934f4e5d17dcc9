// The page of `tracewright fleet --html` in a real browser. Without one these tests are skipped; fleet_view_test.cc
// runs everywhere.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdio>

#include "dsl/base/rng.h"
#include "runtime/store/record.h"
#include "sampler/report/fleet_page.h"
#include "support/browser.h"
#include "support/support.h"
#include "tests/unit/report_records.h"

namespace tw {
namespace {

using test::kHostile;

// A fleet with `machines` machines, one of which is gone; names that are markup; a task with a curve.
FleetView busy_fleet(int machines = 64) {
  FleetView view{.address = "postgresql://reader@db.example/tw", .refresh_seconds = 3600};
  const std::string long_name =
      "node-with-a-name-that-is-much-longer-than-a-narrow-window-is-wide.cluster.example:123456";
  Rng rng(3);
  for (int i = 0; i < machines; ++i) {
    FleetMachine machine{.id = i, .name = i == 1 ? long_name : i == 2 ? kHostile : cat("node", i, ":", 1000 + i)};
    machine.host = test::kMachine, machine.version = TW_VERSION, machine.memory_bytes = i64{8} << 30;
    machine.targets = cat(test::kTarget, "\ncuda -device=h100");
    machine.counts = {.good = 100 + i, .failed = i % 7, .faults = i % 3};
    machine.trials_per_second = static_cast<double>(rng.below(50)) / 10, machine.leased = i % 5;
    machine.is_gone = i == 3, machine.heartbeat_age = i == 3 ? 7000 : 2;
    if (i % 4) machine.measures = {"gemm", i == 2 ? kHostile : "conv"};
    view.status.machines.push_back(machine);
    for (const char* kind : {"crash", "timeout", "wrong result"}) {
      if (rng.below(5) == 0) view.status.failures.push_back({kind, machine.name, "signal 11", 1 + i % 4});
    }
  }
  view.status.failures.push_back({"crash", kHostile, kHostile, 4});
  view.status.faults.push_back({"program differs", long_name, "the trace gives another program", 2});
  view.status.tuners = {{.id = 1, .name = "tuner:7", .queued = 30, .leased = 12, .waiting = {"opencl -device=x"}},
                        {.id = 2, .name = kHostile, .queued = 0, .leased = 0}};
  view.status.tuners[0].tasks = {{"gemm", test::kTarget, 20, 8}, {kHostile, kHostile, 10, 4}};
  view.status.measured = 64000;
  for (i64 i = 0; i < 100; ++i)
    view.history.add({.at = now_ms() - (100 - i) * 5000, .measured = i * i * 15, .queued = 100 - i, .leased = i % 13});
  view.curves = begin_report();
  view.curves.roofs.push_back({.machine = test::kMachine, .target = test::kTarget});
  for (const char* name : {"gemm", kHostile}) {
    TaskReport task{.name = name, .target = test::kTarget, .machine = test::kMachine};
    for (i64 i = 0; i < 200; ++i) {
      bool failed = i % 17 == 5;
      Record record{.id = i + 1,
                    .status = failed ? "crash" : "ok",
                    .seconds = failed ? 0 : 1e-5 * (1 + 20.0 / static_cast<double>(i + 1)),
                    .trace = "x"};
      add_trial(task, record, view.curves.limits);
    }
    end_trials(task, view.curves.limits);
    view.curves.tasks.push_back(task);
  }
  TaskReport failed{.name = "failed", .target = test::kTarget, .machine = test::kMachine};
  add_trial(failed, {.id = 1, .status = "crash", .trace = "x"}, view.curves.limits);
  view.curves.tasks.push_back(failed);
  return view;
}

class FleetPageInABrowser : public testing::Test {
 protected:
  void SetUp() override {
    browser = test::Browser::start();
    if (!browser) GTEST_SKIP() << test::Browser::kMissing;
  }
  // As the command does: a reader never has a part of it.
  void write(const FleetView& view) const {
    test::write_file(path + ".part", fleet_page(view));
    ASSERT_EQ(std::rename((path + ".part").c_str(), path.c_str()), 0);
  }
  test::TemporaryDirectory folder;
  std::string path = folder.path() + "/fleet.html";
  std::unique_ptr<test::Browser> browser;
};

TEST_F(FleetPageInABrowser, ShowsAllAtEachWidthInBothSchemes) {
  write(busy_fleet());
  for (int width : {400, 1200}) {
    for (const char* scheme : {"light", "dark"}) {
      SCOPED_TRACE(cat(width, " pixels, ", scheme));
      browser->open(path, width, scheme);
      browser->evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })");
      browser->expect_readable(width);
      EXPECT_EQ(browser->number("document.querySelectorAll('.chart > svg').length"), 4)
          << "trials a second, the queue, curves of two tasks";
      EXPECT_EQ(
          browser->number(
              "document.querySelectorAll('table')[0].rows.length + document.querySelectorAll('table')[1].rows.length"),
          64 + 2);
      for (const char* text : {"63", "1 more are gone", "64,000", "42", "tuner:7", "opencl -device=x",
                               "program differs", "wrong result", "no trial worked"})
        EXPECT_TRUE(browser->shows(text)) << text;
      EXPECT_FALSE(browser->shows("does `tracewright fleet --html` still run"));
    }
  }
}

TEST_F(FleetPageInABrowser, TextOutOfTheDatabaseIsShownAndNotObeyed) {
  write(busy_fleet());
  browser->open(path, 1200, "light");
  browser->evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })");
  browser->expect_not_obeyed();
  EXPECT_EQ(browser->number("document.scripts.length"), 2);
}

TEST_F(FleetPageInABrowser, LoadsItselfAgain) {
  FleetView view = busy_fleet();
  view.refresh_seconds = 0.5;
  write(view);
  browser->open(path, 400, "light");
  for (i64 measured : {64111, 64222}) {
    view.status.measured = measured;
    write(view);
    EXPECT_TRUE(browser->comes_to_show(cat("64,", measured % 1000)));
  }
  // The last one is not loaded again, and has no button for it.
  view.refresh_seconds = 0, view.status.measured = 64333;
  write(view);
  EXPECT_TRUE(browser->comes_to_show("64,333"));
  EXPECT_TRUE(browser->shows("It is not written any more."));
  EXPECT_TRUE(browser->is_true("document.getElementById('pause') === null"));
}

TEST_F(FleetPageInABrowser, KeepsWhatTheReaderChose) {
  FleetView view = busy_fleet();
  write(view);
  browser->open(path, 400, "light");
  browser->evaluate(
      "document.getElementById('scheme').click(); document.querySelectorAll('details')[1].open = true;"
      "scrollTo(0, 1500)");
  view.status.measured = 64111;
  write(view);
  browser->evaluate("setTimeout(loadAgain)");
  ASSERT_TRUE(browser->comes_to_show("64,111"));
  browser->evaluate(
      "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))");
  EXPECT_EQ(browser->evaluate("document.documentElement.dataset.scheme").as_string(), "dark");
  EXPECT_TRUE(browser->is_true("document.querySelectorAll('details')[1].open"));
  EXPECT_EQ(browser->number("[...document.querySelectorAll('details')].filter(one => one.open).length"), 1);
  EXPECT_NEAR(static_cast<double>(browser->number("Math.round(scrollY)")), 1500, 2);
}

TEST_F(FleetPageInABrowser, StaysAsItIsWhilePausedOrRead) {
  FleetView view = busy_fleet();
  write(view);
  browser->open(path, 400, "light");
  browser->evaluate("document.getElementById('pause').click()");
  view.refresh_seconds = 0.2;
  write(view);
  browser->open(path, 400, "light");
  view.status.measured = 64111;
  write(view);
  browser->evaluate("new Promise(done => setTimeout(done, 1000))");
  EXPECT_FALSE(browser->shows("64,111"));
  EXPECT_TRUE(browser->shows("Paused"));
  // Nor does it go away below a text that is being copied.
  browser->evaluate(
      "getSelection().selectAllChildren(document.querySelector('h2')); document.getElementById('pause').click()");
  browser->evaluate("new Promise(done => setTimeout(done, 1000))");
  EXPECT_FALSE(browser->shows("64,111"));
  EXPECT_FALSE(browser->shows("Paused"));
  browser->evaluate("setTimeout(() => getSelection().removeAllRanges())");
  EXPECT_TRUE(browser->comes_to_show("64,111"));
}

TEST_F(FleetPageInABrowser, AnOldPageSaysSo) {
  FleetView view = busy_fleet();
  view.refresh_seconds = 60, view.problem = "the server is away";
  std::string page = fleet_page(view), now = "\"created_ms\":";
  for (std::size_t at = 0; (at = page.find(now, at)) != std::string::npos; at += now.size())
    page.replace(at + now.size(), 13, std::to_string(now_ms() - 600000));
  test::write_file(path, page);
  browser->open(path, 400, "light");
  EXPECT_TRUE(browser->shows("written 10 min ago"));
  EXPECT_TRUE(browser->shows("the server is away"));
}

TEST_F(FleetPageInABrowser, AnEmptyFleetSaysSo) {
  FleetView view{.address = "postgresql://db/tw", .refresh_seconds = 3600};
  view.curves = begin_report();
  write(view);
  browser->open(path, 400, "light");
  EXPECT_EQ(browser->complaints(), "");
  EXPECT_LE(browser->number("document.documentElement.scrollWidth"), 400);
  EXPECT_TRUE(browser->shows("No machine measures"));
}

}  // namespace
}  // namespace tw
