#include "cli/arguments.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "cli/commands.h"
#include "dsl/base/arena.h"
#include "dsl/base/text.h"

namespace tw::cli {
namespace {

constexpr double kMost = 1e9;  // seconds, which as nanoseconds fit into 64 bits

// CLI11's own checks let this through.
std::string check_not_nan(const std::string& text) {
  double value = 0;
  bool is_nan = CLI::detail::lexical_cast(text, value) && std::isnan(value);
  return is_nan ? cat("Value ", text, " is not a number") : "";
}

// CLI11 takes -1 for the largest u64.
std::string check_not_negative(const std::string& text) {
  return text.starts_with('-') ? cat("Value ", text, " not in range 0 to ", std::numeric_limits<u64>::max()) : "";
}

// "", or what is wrong; for CLI11.
std::string check_positive(const std::string& text) {
  double value = 0;
  bool is_right = CLI::detail::lexical_cast(text, value) && value > 0 && value <= kMost;
  return is_right ? "" : cat("Value ", text, " not in range (0 - ", static_cast<i64>(kMost), "]");
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// What CLI11 could not place: an unknown flag, or one word too many.
std::string describe_extra(const CLI::App& app) {
  std::vector<std::string> extras = app.remaining(true);
  std::erase(extras, "--");
  std::string extra = extras.empty() ? "--" : extras.front();
  if (extra.size() < 2 || extra[0] != '-') return cat("unexpected argument `", extra, "`");
  std::string flag = extra.substr(0, extra.find('='));
  if (std::ranges::count(flags_of(app), flag) > 0) return cat("the flag `", flag, "` cannot stand here");
  std::string near = closest(flag, flags_of(app));
  return cat("unknown flag `", flag, "`", near.empty() ? "" : cat("; did you mean `", near, "`?"));
}

int usage_error(const CLI::App& app, const std::string& message) {
  std::fprintf(stderr, "%s: %s\n`%s --help` describes the flags\n", app.get_name().c_str(), message.c_str(),
               app.get_name().c_str());
  return Usage;
}

}  // namespace

Option Option::required() { return option_->required(), *this; }
Option Option::range(int least, int most) { return option_->check(CLI::Range(least, most)), *this; }
Option Option::range(double least, double most) {
  return option_->check(CLI::Range(least, most))->check(check_not_nan), *this;
}
Option Option::positive() { return option_->check(check_positive), *this; }
Option Option::needs(const Option& other) { return option_->needs(other.option_), *this; }
bool Option::is_given() const { return option_->count() > 0; }

App::App(const std::string& name, const std::string& help, const std::string& examples)
    : app_(std::make_unique<CLI::App>(help, "tracewright " + name)) {
  app_->footer(examples +
               "\n\nexit codes: 0 ok, 1 ran but not reached, 2 usage or a wrong file, 3 "
               "environment, 4 wrong results, 5 a bug,\n130 interrupted");
  app_->option_defaults()->always_capture_default();
}

App::~App() = default;

template <class T>
Option App::add_option(const std::string& name, T& value, const std::string& help) {
  CLI::Option* option = app_->add_option(name, value, help);
  if constexpr (std::is_same_v<T, u64> || std::is_same_v<T, std::optional<u64>>) option->check(check_not_negative);
  return Option(option);
}
template Option App::add_option(const std::string&, std::string&, const std::string&);
template Option App::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option App::add_option(const std::string&, int&, const std::string&);
template Option App::add_option(const std::string&, i64&, const std::string&);
template Option App::add_option(const std::string&, u64&, const std::string&);
template Option App::add_option(const std::string&, double&, const std::string&);
template Option App::add_option(const std::string&, std::optional<double>&, const std::string&);
template Option App::add_option(const std::string&, std::optional<u64>&, const std::string&);

Option App::add_flag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_->add_flag(name, value, help));
}

std::optional<int> App::parse(int count, char** words) {
  CLI::App& app = *app_;
  try {
    app.parse(count, words);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return Ok;
  } catch (const CLI::ExtrasError&) {
    return usage_error(app, describe_extra(app));
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error.what());
  }
  return std::nullopt;
}

}  // namespace tw::cli
