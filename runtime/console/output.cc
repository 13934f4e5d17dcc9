#include "runtime/console/output.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "dsl/base/utf8.h"

namespace tw {

void say(const std::string& text) { std::fprintf(stderr, "tracewright: %s\n", printable(text).c_str()); }

namespace {

// A number, perhaps with a unit: "17", "1.43 ms"; not "1 of 2 forks".
bool is_quantity(const std::string& cell) {
  bool begins_as_number = !cell.empty() && std::string("-0123456789").find(cell[0]) != std::string::npos;
  return begins_as_number && std::count(cell.begin(), cell.end(), ' ') <= 1;
}

}  // namespace

void print_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  std::vector<bool> numeric;
  for (std::size_t column = 0; column < head.size(); ++column) {
    std::size_t width = head[column].size();
    for (const std::vector<std::string>& row : rows) width = std::max(width, row[column].size());
    widths.push_back(width);
    numeric.push_back(!rows.empty() && is_quantity(rows[0][column]));
  }
  auto print_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      if (column) line += "  ";
      line += numeric[column] ? fmt::format("{:>{}}", row[column], widths[column])
                              : fmt::format("{:<{}}", row[column], widths[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::ranges::replace(line, '\n', ' ');  // a row is a line, whatever names hold
    std::printf("%s\n", printable(line).c_str());
  };
  print_row(head);
  for (const std::vector<std::string>& row : rows) print_row(row);
}

void print_json(const boost::json::value& value) {
  std::printf("%s\n", boost::json::serialize(value).c_str());
  std::fflush(stdout);
}

std::string show_time(double seconds) {
  if (seconds <= 0) return "-";
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string show_times(double seconds, double cold_seconds) {
  return cold_seconds > 0 ? cat(show_time(seconds), ", cold ", show_time(cold_seconds)) : show_time(seconds);
}

boost::json::object with_cold(boost::json::object object, double cold_seconds) {
  if (cold_seconds > 0) object["cold_us"] = cold_seconds * 1e6;
  return object;
}

boost::json::value json_number(double value) {
  return std::isfinite(value) ? boost::json::value(value) : boost::json::value(nullptr);
}

std::string show_number(double value, int digits) { return value == 0 ? "-" : fmt::format("{:.{}f}", value, digits); }

std::string show_gain(double before, double now) {
  if (before <= 0 || now <= 0) return "-";
  double gain = before / now;
  return fmt::format("{:.{}f}x", gain, gain < 10 ? 2 : gain < 100 ? 1 : 0);
}

std::string show_clock(double seconds) {
  long whole = static_cast<long>(std::max(0.0, seconds) + 0.5);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::optional<std::string> read_file(const std::string& path) {
  std::string error;
  std::optional<std::string> text = read_text_file(path, error);
  if (!text) say(error);
  return text;
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out.good()) return true;
  say(cat("cannot write ", path, ": ", std::strerror(errno)));
  return false;
}

bool replace_file(const std::string& path, const std::string& text) {
  std::string fresh = path + ".part";
  bool is_written = write_file(fresh, text);
  if (is_written && std::rename(fresh.c_str(), path.c_str()) == 0) return true;
  if (is_written) say(cat("cannot write ", path, ": ", std::strerror(errno)));
  std::remove(fresh.c_str());
  return false;
}

bool write_output(const std::string& path, const std::string& text) {
  if (path.empty() || path == "-")
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  using std::filesystem::file_type;
  std::error_code ignored;
  file_type type = std::filesystem::symlink_status(path, ignored).type();
  bool is_replaced = type == file_type::regular || type == file_type::not_found;
  return is_replaced ? replace_file(path, text) : write_file(path, text);
}

}  // namespace tw
