// Chromium without a window, for tests of pages, driven through the DevTools protocol over a pipe.
#pragma once
#include <sys/types.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <memory>
#include <string>
#include <vector>

#include "dsl/ir/types.h"
#include "support/support.h"

namespace tw::test {

// A text that acts if a page obeys it.
inline constexpr const char* kHostile =
    "</script><script>window.pwned = 1</script><img src=x onerror=\"window.pwned = 1\">'&{{data}}";

// A browser process, ended with the object.
class Browser {
 public:
  static constexpr const char* kMissing = "no browser: Debian's package `chromium` is not installed";
  // Null if there is none.
  static std::unique_ptr<Browser> start();
  ~Browser();
  Browser(const Browser&) = delete;

  // Opens a file in a window of this width and waits until the page has drawn itself.
  void open(const std::string& path, int width, const std::string& scheme);
  // The value of a JavaScript expression, awaited if it is a promise.
  boost::json::value evaluate(const std::string& expression);
  i64 number(const std::string& expression) { return evaluate(expression).to_number<i64>(); }
  bool is_true(const std::string& expression) { return evaluate(expression).as_bool(); }
  bool shows(const std::string& text);
  // Waits until the page shows a text, or one that is loaded meanwhile.
  bool comes_to_show(const std::string& text);
  // What the page complained of or asked the network for since it was opened; its own file is no question.
  std::string complaints();
  // The open page fits into its window, complains of nothing, has no text of low contrast, no number that is none, and
  // says what its charts are.
  void expect_readable(int width);
  // It shows kHostile, has not obeyed it, and would not obey it if its markup had come through.
  void expect_not_obeyed();

 private:
  explicit Browser(const std::string& program);
  [[noreturn]] void become(const std::string& program, int in, int out);
  boost::json::object answer_to(const std::string& method, boost::json::object parameters);
  boost::json::value call(const std::string& method, boost::json::object parameters = {});
  boost::json::object receive();

  TemporaryDirectory home_;
  pid_t process_ = 0;
  int write_ = -1, read_ = -1, last_ = 0;
  bool has_asked_ = false;
  std::string session_, buffer_;
  std::vector<boost::json::object> events_;  // what the browser told beside its answers
};

}  // namespace tw::test
