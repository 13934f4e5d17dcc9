#include "support/browser.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdlib>

#include "dsl/base/text.h"
#include "support/processes.h"

namespace tw::test {

using boost::json::object;
using boost::json::value;

namespace {

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

}  // namespace

std::unique_ptr<Browser> Browser::start() {
  std::string program = browser_program();
  return program.empty() ? nullptr : std::unique_ptr<Browser>(new Browser(program));
}

// Messages are JSON that ends with a zero byte; the browser reads them from its descriptor 3 and writes them to 4.
Browser::Browser(const std::string& program) {
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

Browser::~Browser() {
  close(write_), close(read_);
  kill(-process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

// What the browser tells meanwhile is kept in events_.
object Browser::answer_to(const std::string& method, object parameters) {
  object message{{"id", ++last_}, {"method", method}, {"params", std::move(parameters)}};
  if (!session_.empty()) message["sessionId"] = session_;
  std::string text = boost::json::serialize(message);
  EXPECT_EQ(write(write_, text.c_str(), text.size() + 1), static_cast<ssize_t>(text.size() + 1));
  while (true) {
    object answer = receive();
    if (answer.empty()) return object{};
    if (!answer.contains("id")) {
      events_.push_back(std::move(answer));
    } else if (answer.at("id") == value(last_)) {
      return answer;
    }
  }
}

value Browser::call(const std::string& method, object parameters) {
  object answer = answer_to(method, std::move(parameters));
  EXPECT_TRUE(answer.contains("result")) << method << ": " << answer;
  return answer.contains("result") ? answer.at("result") : value(object{});
}

void Browser::open(const std::string& path, int width, const std::string& scheme) {
  events_.clear();
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", 900}, {"deviceScaleFactor", 1}, {"mobile", false}});
  call("Emulation.setEmulatedMedia",
       {{"features", boost::json::array{object{{"name", "prefers-color-scheme"}, {"value", scheme}}}}});
  call("Page.navigate", {{"url", "file://" + path}});
  auto is_loaded = [&] {
    return std::ranges::any_of(events_,
                               [](const object& event) { return event.at("method") == "Page.loadEventFired"; });
  };
  while (!is_loaded()) {
    object event = receive();
    if (event.empty()) return;
    if (!event.contains("id")) events_.push_back(std::move(event));
  }
  evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))");
}

value Browser::evaluate(const std::string& expression) {
  value answer =
      call("Runtime.evaluate", {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}});
  EXPECT_FALSE(answer.as_object().contains("exceptionDetails")) << expression << "\n" << answer;
  const value* result = answer.as_object().if_contains("result");
  return result && result->as_object().contains("value") ? result->at("value") : value();
}

bool Browser::shows(const std::string& text) {
  return is_true(cat("document.body.innerText.includes(", boost::json::serialize(value(text)), ")"));
}

bool Browser::comes_to_show(const std::string& text) {
  const std::string expression =
      cat("Boolean(document.body) && document.readyState === 'complete' && document.body.innerText.includes(",
          boost::json::serialize(value(text)), ")");
  return wait_until([&] {
    // While another page is being loaded there is no answer, or an error.
    object answer = answer_to("Runtime.evaluate", {{"expression", expression}, {"returnByValue", true}});
    boost::system::error_code missing;
    value whole = std::move(answer);
    const value* shown = whole.find_pointer("/result/result/value", missing);
    return shown && shown->is_bool() && shown->as_bool();
  });
}

std::string Browser::complaints() {
  std::string found;
  for (const object& event : events_) {
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

void Browser::expect_readable(int width) {
  EXPECT_EQ(complaints(), "");
  EXPECT_EQ(number("innerWidth"), width);
  EXPECT_LE(number("document.documentElement.scrollWidth"), width) << "the page scrolls sideways";
  EXPECT_EQ(number("[...document.querySelectorAll('.chart > svg')].filter(svg => "
                   "!svg.querySelector('title').textContent || !svg.querySelector('desc').textContent).length"),
            0);
  EXPECT_EQ(evaluate("[...document.querySelectorAll('.chart > svg')].map(svg => "
                     "svg.outerHTML).filter(text => /NaN|undefined|Infinity/.test(text)).join()")
                .as_string(),
            "");
  EXPECT_EQ(evaluate("(document.body.innerText.match(/NaN|undefined|\\[object/) || []).join()").as_string(), "");
  EXPECT_EQ(evaluate(kLowContrast).as_string(), "");
}

void Browser::expect_not_obeyed() {
  EXPECT_TRUE(is_true("window.pwned === undefined"));
  EXPECT_EQ(number("document.querySelectorAll('img').length"), 0);
  EXPECT_TRUE(shows(kHostile));
  evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned = 1\">')");
  evaluate("new Promise(done => setTimeout(done, 50))");
  EXPECT_TRUE(is_true("window.pwned === undefined")) << "the page's policy lets markup act";
}

void Browser::become(const std::string& program, int in, int out) {
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
object Browser::receive() {
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

}  // namespace tw::test
