#include "runtime/fleet/machine_class.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <regex>

#include "dsl/base/text.h"

namespace tw {
namespace {

constexpr double kMost = 1 + kAgreement;

// How far a ratio is from 1, either way.
double distance(double ratio) { return ratio > 0 ? std::max(ratio, 1 / ratio) : HUGE_VAL; }

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool holds_words(std::string_view text, std::string_view words) {
  for (std::size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1)) {
    std::size_t end = at + words.size();
    bool begins = at == 0 || !is_word_character(text[at - 1]) || !is_word_character(words.front());
    bool ends = end == text.size() || !is_word_character(text[end]) || !is_word_character(words.back());
    if (begins && ends) return true;
  }
  return false;
}

std::string time_text(double seconds) {
  char text[32];
  bool is_short = seconds < 1e-3;
  std::snprintf(text, sizeof text, "%.4g %s", seconds * (is_short ? 1e6 : 1e3), is_short ? "us" : "ms");
  return text;
}

}  // namespace

std::optional<Difference> largest_difference(const CalibrationTimes& times, const CalibrationTimes& of_class) {
  if (times.size() != of_class.size() || times.empty()) return std::nullopt;
  Difference largest;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].kernel != of_class[i].kernel) return std::nullopt;
    Difference next{times[i].kernel, times[i].seconds, of_class[i].seconds};
    if (i == 0 || distance(next.ratio()) > distance(largest.ratio())) largest = next;
  }
  return largest;
}

bool agree(const CalibrationTimes& times, const CalibrationTimes& of_class) {
  std::optional<Difference> largest = largest_difference(times, of_class);
  return largest && distance(largest->ratio()) <= kMost;
}

bool is_faster(const CalibrationTimes& times, const CalibrationTimes& of_class) {
  if (!largest_difference(times, of_class) || agree(times, of_class)) return false;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].seconds > of_class[i].seconds * kMost) return false;
  }
  return true;
}

std::string to_text(const Difference& difference) {
  double ratio = difference.ratio();
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f %%", 100 * std::abs(ratio - 1));
  return cat(difference.kernel, " takes ", time_text(difference.seconds), ", ", percent, ratio >= 1 ? " more" : " less",
             " than in its class");
}

std::string to_text(const CalibrationTimes& times) {
  std::string text;
  for (const KernelTime& time : times) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.5g", time.seconds);
    text += cat(time.kernel, " ", seconds, "\n");
  }
  return text;
}

std::optional<CalibrationTimes> parse_calibration(std::string_view text) {
  CalibrationTimes times;
  for (const std::string& line : split(std::string(text), '\n')) {
    if (line.empty()) continue;
    std::size_t space = line.rfind(' ');
    if (space == std::string::npos || space == 0) return std::nullopt;
    char* end = nullptr;
    double seconds = std::strtod(line.c_str() + space + 1, &end);
    if (*end != '\0' || !std::isfinite(seconds) || seconds <= 0) return std::nullopt;
    times.push_back({line.substr(0, space), seconds});
  }
  if (times.empty()) return std::nullopt;
  return times;
}

// Before the release of the system, which is no part of a machine's name (machine_of).
std::string in_class(const std::string& host, i64 number) {
  if (number <= 1) return host;
  std::string name = cat(", class ", number);
  std::size_t system = host.rfind(", Linux ");
  return system == std::string::npos ? host + name : host.substr(0, system) + name + host.substr(system);
}

std::string without_class(const std::string& host) {
  static const std::regex of_class(", class [0-9]+(?=[,;]|$)");
  return std::regex_replace(host, of_class, "");
}

bool is_wanted_machine(std::string_view wanted, std::string_view fingerprint) {
  const std::string text = lower_case(fingerprint);
  for (const std::string& part : split(lower_case(wanted), ',')) {
    std::size_t begin = part.find_first_not_of(" \t"), end = part.find_last_not_of(" \t");
    if (begin != std::string::npos && !holds_words(text, std::string_view(part).substr(begin, end - begin + 1)))
      return false;
  }
  return true;
}

}  // namespace tw
