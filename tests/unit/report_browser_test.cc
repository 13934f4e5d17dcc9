// Pages of `tracewright report` in a real browser. Without one these tests are skipped; report_test.cc runs everywhere.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "dsl/base/rng.h"
#include "runtime/measure/machine_roofs.h"
#include "sampler/report/report.h"
#include "support/browser.h"
#include "support/support.h"
#include "tests/unit/report_records.h"

namespace tw {
namespace {

using boost::json::value;
using test::kHostile;
using test::small_schedule;

class ReportInABrowser : public testing::Test {
 protected:
  void SetUp() override {
    browser = test::Browser::start();
    if (!browser) GTEST_SKIP() << test::Browser::kMissing;
  }

  // Two tasks that were tuned, one that failed, names that are markup, and a model.
  std::string full_page() {
    {
      Database database = test::open_for_records(folder.path() + "/a.db");
      MachineRoofs roofs{.peaks = {{256, 50e9}}, .levels = {{16384, 100e9}, {262144, 50e9}, {4e6, 30e9}, {1e8, 10e9}}};
      EXPECT_TRUE(database.save_model("machine roofs", test::kMachine, 1, to_text(roofs)));
      std::vector<test::Trial> trials{{"ok", 90, small_schedule(8, 0)}, {"ok", 2000, ""}};
      Rng rng(5);
      for (int i = 0; i < 60; ++i)
        trials.push_back({"ok", 10 + static_cast<double>(rng.below(9000)) / 100,
                          small_schedule(1 << rng.below(6), static_cast<int>(rng.below(3)))});
      trials.push_back({"crash", 0, small_schedule(8, 1), "signal 11"});
      test::add_trials(database, "gemm", trials);
      test::add_trials(database, "a_task_whose_name_is_so_long_that_it_does_not_fit_into_a_line_of_a_narrow_window",
                       trials, "Another CPU with a long name, L1 32 KiB, L2 1024 KiB, L3 0 KiB");
      test::add_trials(database, kHostile, {{"ok", 50, kHostile}, {kHostile, 0, kHostile, kHostile}}, kHostile,
                       kHostile);
      test::add_trials(database, "failed", {{"timeout", 0, small_schedule(8, 1), "10 s"}}, "A third CPU");
    }
    Report report = begin_report();
    auto database = Database::open(folder.path() + "/a.db", DatabaseMode::Read);
    EXPECT_TRUE(database && add_database(report, *database));
    ModelReport model{.folder = kHostile, .name = "net", .target = test::kTarget, .roof = 0};
    for (int i = 0; i < 40; ++i)
      model.steps.push_back({.name = i == 3 ? kHostile : cat("step", i),
                             .kernel = cat("a_kernel_with_a_name_of_many_words_", i % 12),
                             .seconds = 1e-5 * (1 + i % 12),
                             .has_work = i % 12 != 5,
                             .work = {1e6, 1e5, DType::F32},
                             .bound = {2e-6, false, 1}});
    report.models.push_back(model);
    thin_out(report);
    return write_page(report);
  }
  std::string write_page(const Report& report) {
    std::string path = folder.path() + "/r.html";
    test::write_file(path, report_page(report));
    return path;
  }

  test::TemporaryDirectory folder;
  std::unique_ptr<test::Browser> browser;
};

TEST_F(ReportInABrowser, ShowsAllAtEachWidthInBothSchemes) {
  std::string page = full_page();
  for (int width : {400, 1200}) {
    for (const char* scheme : {"light", "dark"}) {
      SCOPED_TRACE(cat(width, " pixels, ", scheme));
      browser->open(page, width, scheme);
      browser->expect_readable(width);
      // Curves of three tasks that worked, rooflines of the three machines whose programs can be read, a timeline.
      EXPECT_EQ(browser->number("document.querySelectorAll('path.curve').length - "
                                "document.querySelectorAll('.legend path.curve').length"),
                3);
      EXPECT_EQ(browser->number("document.querySelectorAll('rect.segment').length"), 40);
      EXPECT_EQ(browser->number("document.querySelectorAll('.chart > svg').length"), 6);
    }
  }
}

TEST_F(ReportInABrowser, TextOutOfFilesIsShownAndNotObeyed) {
  browser->open(full_page(), 1200, "light");
  browser->expect_not_obeyed();
  EXPECT_EQ(browser->number("document.scripts.length"), 2);
}

TEST_F(ReportInABrowser, ThePageIsUsedByPointerKeysAndButton) {
  browser->open(full_page(), 1200, "light");
  auto background = [&] {
    return std::string(browser->evaluate("getComputedStyle(document.body).backgroundColor").as_string());
  };
  std::string light = background();
  browser->evaluate("document.getElementById('scheme').click()");
  std::string dark = background();
  EXPECT_NE(light, dark);
  browser->evaluate("sessionStorage.clear()");
  browser->open(full_page(), 1200, "dark");
  EXPECT_EQ(background(), dark) << "the button and the system's setting give the same colours";
  browser->evaluate("document.getElementById('scheme').click()");
  EXPECT_EQ(background(), light);
  // A key chooses a step of the timeline; the text below says which.
  browser->evaluate(
      "document.querySelector('.chart > svg').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))");
  EXPECT_NE(browser->evaluate("document.querySelector('.said').textContent").as_string().find("step0"),
            std::string::npos);
  browser->evaluate(
      "(() => { const svg = document.querySelector('.chart > svg'), box = svg.getBoundingClientRect();"
      "svg.dispatchEvent(new PointerEvent('pointerdown', {clientX: box.right - 1, clientY: box.top + 20})); })()");
  EXPECT_NE(browser->evaluate("document.querySelector('.said').textContent").as_string().find("step39"),
            std::string::npos);
}

TEST_F(ReportInABrowser, AnEmptyReportSaysSo) {
  browser->open(write_page(begin_report()), 400, "light");
  EXPECT_EQ(browser->complaints(), "");
  EXPECT_LE(browser->number("document.documentElement.scrollWidth"), 400);
  EXPECT_TRUE(browser->evaluate("document.body.innerText.includes('no records yet')").as_bool());
}

}  // namespace
}  // namespace tw
