#include "bench/experiments/stored_results.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "dsl/base/text.h"
#include "runtime/measure/machine_probe.h"
#include "runtime/store/database_exchange.h"

namespace tw::bench {
namespace {

constexpr std::string_view kRates = "# rates ", kFirstInTurn = "first in turn", kInTurn = "in turn", kTook = "took";

std::string key_of(const std::string& workload, const std::string& target) { return cat(workload, ",", target); }

// Targets and names of arms have commas in their text; names may have ends of lines.
std::string without_commas(std::string text) {
  for (char& c : text) c = c == ',' ? ';' : c == '\n' || c == '\r' ? ' ' : c;
  return text;
}

std::string with_commas(std::string target) {
  std::ranges::replace(target, ';', ',');
  return target;
}

// Traces have ends of lines, and no tabs.
std::string replaced(std::string text, char from, char to) {
  std::ranges::replace(text, from, to);
  return text;
}

// A cell that is a number from 0 on.
template <class T>
bool read_number(const std::string& cell, T& out) {
  auto [end, problem] = std::from_chars(cell.data(), cell.data() + cell.size(), out);
  return problem == std::errc() && *end == 0 && out >= 0;
}

std::string key_of(const StoredResults::SearchKey& key) {
  return cat(key_of(key.workload, without_commas(key.target)), ",,", kTook, ",", without_commas(key.arm), ",",
             key.search, ",", key.trials, ",", key.seed);
}

std::string exact(double value) {
  char text[32];
  auto [end, problem] = std::to_chars(text, text + sizeof text, value);
  return {text, end};
}

}  // namespace

std::unique_ptr<StoredResults> StoredResults::open(const std::string& path, std::string& error) {
  auto results = std::make_unique<StoredResults>();
  results->path_ = path;
  if (!std::filesystem::exists(path)) return results;
  std::optional<std::string> text = read_exchange_file(path, error);
  if (!text) return nullptr;
  if (std::string problem = results->read(*text); !problem.empty()) {
    error = cat(path, ": ", problem);
    return nullptr;
  }
  return results;
}

std::string StoredResults::read(const std::string& text) {
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    std::string problem = line.empty() ? "" : read_line(line);
    if (!problem.empty()) return cat("line ", number, ": ", problem);
  }
  return "";
}

std::string StoredResults::read_line(const std::string& line) {
  if (line.starts_with(kRates)) {
    std::optional<MachineRates> rates = parse_rates(line.substr(kRates.size()));
    if (!rates) return "rates of no machine";
    rates_ = *rates, has_rates_ = true;
    return "";
  }
  std::vector<std::string> cells = split(line, ',');
  if (cells.size() == 11 && cells[3] == kTook) return "";  // of an older version: what the arm did is not known
  if (cells.size() == 12 && cells[3] == kTook) {
    SearchSeconds took;
    if (!read_number(cells[8], took.tuning) || !read_number(cells[9], took.search) ||
        !read_number(cells[10], took.training) || !read_number(cells[11], took.measured))
      return "expected the seconds of a search; without that line it goes on";
    cells.resize(8);
    took_[join(cells, ",")] = took;
    return "";
  }
  double seconds = 0;
  const bool has_trace = cells.size() >= 5 && cells[3] == kInTurn && std::ranges::count(line, ',') >= 5;
  if (has_trace) cells.resize(5);  // it has commas
  if (cells.size() != 5 || !read_number(cells[4], seconds))
    return "expected workload,target,program,status,seconds; without that line it goes on";
  std::string key = key_of(cells[0], cells[1]);
  if (cells[3] == kFirstInTurn) {
    in_turn_[key].clear();
  } else if (cells[3] == kInTurn) {
    InTurn& kept = in_turn_[key][cells[2]] = {.seconds = seconds};
    if (has_trace) kept.trace = replaced(line.substr(join(cells, ",").size() + 1), '\t', '\n');
  } else {
    Record& record = tasks_[key][cells[2]];
    record.status = cells[3], record.seconds = seconds;
  }
  return "";
}

const StoredResults::OfTask& StoredResults::of(const std::string& workload, const std::string& target) {
  return tasks_[key_of(workload, without_commas(target))];
}

bool StoredResults::add(const Record& record) {
  std::string key = key_of(record.workload, without_commas(record.target));
  Record& kept = tasks_[key][record.program];
  kept.status = record.status, kept.seconds = record.seconds;
  return append(cat(key, ",", record.program, ",", record.status, ",", exact(record.seconds)));
}

const StoredResults::Times& StoredResults::in_turn(const std::string& workload, const std::string& target) {
  return in_turn_[key_of(workload, without_commas(target))];
}

bool StoredResults::set_in_turn(const std::string& workload, const std::string& target, const Times& times) {
  std::string key = key_of(workload, without_commas(target)), lines = cat(key, ",,", kFirstInTurn, ",0");
  in_turn_[key] = times;
  for (const auto& [program, each] : times) {
    lines += cat("\n", key, ",", program, ",", kInTurn, ",", exact(each.seconds));
    if (each.trace) lines += cat(",", replaced(*each.trace, '\n', '\t'));
  }
  return append(lines);
}

const SearchSeconds* StoredResults::took(const SearchKey& key) const {
  auto found = took_.find(key_of(key));
  return found == took_.end() ? nullptr : &found->second;
}

bool StoredResults::set_took(const SearchKey& key, const SearchSeconds& seconds) {
  took_[key_of(key)] = seconds;
  return append(cat(key_of(key), ",", exact(seconds.tuning), ",", exact(seconds.search), ",", exact(seconds.training),
                    ",", seconds.measured));
}

bool StoredResults::set_rates(const MachineRates& rates) {
  rates_ = rates, has_rates_ = true;
  return append(cat(kRates, to_text(rates)));
}

std::optional<std::string> StoredResults::only_target_of(const std::string& workload) const {
  const std::string begin = cat(workload, ",");
  std::optional<std::string> target;
  for (auto at = tasks_.lower_bound(begin); at != tasks_.end() && at->first.starts_with(begin); ++at) {
    if (at->second.empty()) continue;
    if (target) return std::nullopt;
    target = with_commas(at->first.substr(begin.size()));
  }
  return target;
}

std::size_t StoredResults::size() const {
  std::size_t count = 0;
  for (const auto& [key, results] : tasks_) count += results.size();
  return count;
}

bool StoredResults::append(const std::string& line) {
  std::ofstream file(path_, std::ios::app);
  file << line << '\n' << std::flush;
  return static_cast<bool>(file);
}

}  // namespace tw::bench
