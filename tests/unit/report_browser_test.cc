// Pages of `tracewright report` in a real browser: Chromium without a window, driven through the DevTools protocol over
// a pipe. Without a browser these tests are skipped; report_test.cc runs everywhere.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json/src.hpp>
#include <cstdlib>
#include <filesystem>

#include "dsl/base/rng.h"
#include "runtime/measure/machine_roofs.h"
#include "sampler/report/report.h"
#include "support/support.h"
#include "tests/unit/report_records.h"

namespace tw {
namespace {

using boost::json::object;
using boost::json::value;
using test::small_schedule;

// The path of a browser; "" if there is none.
std::string browser_program() {
  std::string path = std::getenv("PATH") ? std::getenv("PATH") : "";
  for (std::size_t at = 0; at <= path.size();) {
    std::size_t end = std::min(path.find(':', at), path.size());
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      std::string program = cat(path.substr(at, end - at), "/", name);
      if (access(program.c_str(), X_OK) == 0) return program;
    }
    at = end + 1;
  }
  return "";
}

// A browser process, ended with the object. Messages are JSON that ends with a zero byte; it reads them from its
// descriptor 3 and writes them to 4.
class Browser {
 public:
  explicit Browser(const std::string& program) {
    int to[2], from[2];
    EXPECT_TRUE(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    process_ = fork();
    if (process_ == 0) become(program, to[0], from[1]);
    close(to[0]), close(from[1]);
    write_ = to[1], read_ = from[0];
    value target = call("Target.createTarget", {{"url", "about:blank"}});
    value attached = call("Target.attachToTarget", {{"targetId", target.at("targetId")}, {"flatten", true}});
    session_ = std::string(attached.at("sessionId").as_string());
    for (const char* domain : {"Page.enable", "Runtime.enable", "Log.enable", "Network.enable"}) call(domain);
  }
  Browser(const Browser&) = delete;
  ~Browser() {
    close(write_), close(read_);
    kill(-process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

  // The result of a command; what the browser tells meanwhile is kept in `events`.
  value call(const std::string& method, object parameters = {}) {
    object message{{"id", ++last_}, {"method", method}, {"params", std::move(parameters)}};
    if (!session_.empty()) message["sessionId"] = session_;
    std::string text = boost::json::serialize(message);
    EXPECT_EQ(write(write_, text.c_str(), text.size() + 1), static_cast<ssize_t>(text.size() + 1));
    while (true) {
      object answer = receive();
      if (answer.empty()) return object{};
      if (!answer.contains("id")) {
        events.push_back(std::move(answer));
      } else if (answer.at("id") == value(last_)) {
        EXPECT_TRUE(answer.contains("result")) << method << ": " << answer;
        return answer.contains("result") ? answer.at("result") : value(object{});
      }
    }
  }

  // Opens a file in a window of this width and waits until the page has drawn itself.
  void open(const std::string& path, int width, const std::string& scheme) {
    events.clear();
    call("Emulation.setDeviceMetricsOverride",
         {{"width", width}, {"height", 900}, {"deviceScaleFactor", 1}, {"mobile", false}});
    call("Emulation.setEmulatedMedia",
         {{"features", boost::json::array{object{{"name", "prefers-color-scheme"}, {"value", scheme}}}}});
    call("Page.navigate", {{"url", "file://" + path}});
    auto is_loaded = [&] {
      return std::ranges::any_of(events,
                                 [](const object& event) { return event.at("method") == "Page.loadEventFired"; });
    };
    while (!is_loaded()) {
      object event = receive();
      if (event.empty()) return;
      if (!event.contains("id")) events.push_back(std::move(event));
    }
    evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))");
  }

  // The value of a JavaScript expression, awaited if it is a promise.
  value evaluate(const std::string& expression) {
    value answer =
        call("Runtime.evaluate", {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}});
    EXPECT_FALSE(answer.as_object().contains("exceptionDetails")) << expression << "\n" << answer;
    const value* result = answer.as_object().if_contains("result");
    return result && result->as_object().contains("value") ? result->at("value") : value();
  }
  i64 number(const std::string& expression) { return evaluate(expression).to_number<i64>(); }

  // What the page complained of or asked the network for since it was opened; its own file is no question.
  std::string complaints() {
    std::string found;
    for (const object& event : events) {
      std::string_view method(event.at("method").as_string());
      const value* parameters = event.if_contains("params");
      bool is_wrong =
          method == "Runtime.exceptionThrown" || method == "Log.entryAdded" || method == "Runtime.consoleAPICalled";
      if (method == "Network.requestWillBeSent") {
        std::string_view url(parameters->at("request").at("url").as_string());
        is_wrong = !url.starts_with("data:") && !(url.starts_with("file:") && url.ends_with(".html") && !has_asked_);
        has_asked_ = has_asked_ || url.starts_with("file:");
      }
      if (is_wrong) found += boost::json::serialize(event) + "\n";
    }
    has_asked_ = false;
    return found;
  }

  std::vector<object> events;

 private:
  [[noreturn]] void become(const std::string& program, int in, int out) {
    setpgid(0, 0);
    int kept_in = fcntl(in, F_DUPFD, 10), kept_out = fcntl(out, F_DUPFD, 10), none = ::open("/dev/null", O_RDWR);
    dup2(none, 0), dup2(none, 1), dup2(none, 2), dup2(kept_in, 3), dup2(kept_out, 4);
    close_range(5, ~0u, 0);
    setenv("HOME", home_.path().c_str(), 1);
    std::string data = "--user-data-dir=" + home_.path();
    execl(program.c_str(), program.c_str(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
          "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
          data.c_str(), "about:blank", nullptr);
    _exit(127);
  }

  // The next message; empty, and a failure, if none comes.
  object receive() {
    constexpr int kMostMilliseconds = 120000;
    std::size_t end;
    while ((end = buffer_.find('\0')) == std::string::npos) {
      pollfd readable{read_, POLLIN, 0};
      char part[65536];
      ssize_t got = poll(&readable, 1, kMostMilliseconds) == 1 ? read(read_, part, sizeof part) : -1;
      if (got <= 0) return ADD_FAILURE() << "the browser says nothing", object{};
      buffer_.append(part, static_cast<std::size_t>(got));
    }
    value message = boost::json::parse(buffer_.substr(0, end));
    buffer_.erase(0, end + 1);
    return message.as_object();
  }

  test::TemporaryDirectory home_;
  pid_t process_ = 0;
  int write_ = -1, read_ = -1, last_ = 0;
  bool has_asked_ = false;
  std::string session_, buffer_;
};

constexpr const char* kHostile = "</script><script>window.pwned = 1</script><img src=x onerror=\"window.pwned = 1\">";

// Elements whose text has less contrast to what is behind it than 4.5, the limit of WCAG's level AA.
constexpr const char* kLowContrast = R"js((() => {
  const parts = color => color.match(/[0-9.]+/g).map(Number);
  const luminance = color => parts(color).slice(0, 3).map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (parts(color)[3] !== 0) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const low = [];
  let seen = 0;
  for (const element of document.body.querySelectorAll('*')) {
    const hasText = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!hasText || element.closest('script, noscript, title, desc, text.on')) continue;
    const style = getComputedStyle(element), color = element.closest('svg') ? style.fill : style.color;
    const [a, b] = [luminance(color), luminance(behind(element))].sort((x, y) => y - x);
    ++seen;
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(element.tagName + ' ' + element.textContent.slice(0, 40) + ' ' + color);
  }
  return seen < 20 ? 'only ' + seen + ' texts' : low.join('\n');
})())js";

class ReportInABrowser : public testing::Test {
 protected:
  void SetUp() override {
    std::string program = browser_program();
    if (program.empty()) GTEST_SKIP() << "no browser: Debian's package `chromium` is not installed";
    browser = std::make_unique<Browser>(program);
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
  std::unique_ptr<Browser> browser;
};

TEST_F(ReportInABrowser, ShowsAllAtEachWidthInBothSchemes) {
  std::string page = full_page();
  for (int width : {400, 1200}) {
    for (const char* scheme : {"light", "dark"}) {
      SCOPED_TRACE(cat(width, " pixels, ", scheme));
      browser->open(page, width, scheme);
      EXPECT_EQ(browser->complaints(), "");
      EXPECT_EQ(browser->number("innerWidth"), width);
      EXPECT_LE(browser->number("document.documentElement.scrollWidth"), width) << "the page scrolls sideways";
      // Curves of three tasks that worked, rooflines of the three machines whose programs can be read, a timeline.
      EXPECT_EQ(browser->number("document.querySelectorAll('path.curve').length - "
                                "document.querySelectorAll('.legend path.curve').length"),
                3);
      EXPECT_EQ(browser->number("document.querySelectorAll('rect.segment').length"), 40);
      EXPECT_EQ(browser->number("document.querySelectorAll('.chart > svg').length"), 6);
      EXPECT_EQ(
          browser->number("[...document.querySelectorAll('.chart > svg')].filter(svg => "
                          "!svg.querySelector('title').textContent || !svg.querySelector('desc').textContent).length"),
          0);
      EXPECT_EQ(browser
                    ->evaluate("[...document.querySelectorAll('.chart > svg')].map(svg => "
                               "svg.outerHTML).filter(text => /NaN|undefined|Infinity/.test(text)).join()")
                    .as_string(),
                "");
      EXPECT_EQ(
          browser->evaluate("(document.body.innerText.match(/NaN|undefined|\\[object/) || []).join()").as_string(), "");
      EXPECT_EQ(browser->evaluate(kLowContrast).as_string(), "");
    }
  }
}

TEST_F(ReportInABrowser, TextOutOfFilesIsShownAndNotObeyed) {
  browser->open(full_page(), 1200, "light");
  EXPECT_TRUE(browser->evaluate("window.pwned === undefined").as_bool());
  EXPECT_EQ(browser->number("document.querySelectorAll('img').length"), 0);
  EXPECT_EQ(browser->number("document.scripts.length"), 2);
  EXPECT_TRUE(browser->evaluate(cat("document.body.innerText.includes(", boost::json::serialize(value(kHostile)), ")"))
                  .as_bool());
  // If markup came through nevertheless, the page's policy would not let it run.
  browser->evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned = 1\">')");
  browser->evaluate("new Promise(done => setTimeout(done, 50))");
  EXPECT_TRUE(browser->evaluate("window.pwned === undefined").as_bool());
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
