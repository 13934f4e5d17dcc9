#include "bench/experiments/stored_results.h"

#include <charconv>
#include <filesystem>
#include <fstream>

#include "dsl/base/text.h"
#include "runtime/measure/machine_probe.h"
#include "runtime/store/database_exchange.h"

namespace tw::bench {
namespace {

constexpr std::string_view kRates = "# rates ", kFirstInTurn = "first in turn", kInTurn = "in turn";

std::string key_of(const std::string& workload, const std::string& target) { return cat(workload, ",", target); }

// Targets have commas in their text.
std::string without_commas(std::string text) {
  for (char& c : text) c = c == ',' ? ';' : c;
  return text;
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
    if (line.empty()) continue;
    if (line.starts_with(kRates)) {
      std::optional<MachineRates> rates = parse_rates(line.substr(kRates.size()));
      if (!rates) return cat("line ", number, ": rates of no machine");
      rates_ = *rates, has_rates_ = true;
      continue;
    }
    std::vector<std::string> cells = split(line, ',');
    double seconds = 0;
    bool is_good = cells.size() == 5;
    if (is_good) {
      auto [end, problem] = std::from_chars(cells[4].data(), cells[4].data() + cells[4].size(), seconds);
      is_good = problem == std::errc() && *end == 0 && seconds >= 0;
    }
    if (!is_good)
      return cat("line ", number, ": expected workload,target,program,status,seconds; without that line it goes on");
    std::string key = key_of(cells[0], cells[1]);
    if (cells[3] == kFirstInTurn) {
      in_turn_[key].clear();
    } else if (cells[3] == kInTurn) {
      in_turn_[key][cells[2]] = seconds;
    } else {
      Record& record = tasks_[key][cells[2]];
      record.status = cells[3], record.seconds = seconds;
    }
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
  for (const auto& [program, seconds] : times) lines += cat("\n", key, ",", program, ",", kInTurn, ",", exact(seconds));
  return append(lines);
}

bool StoredResults::set_rates(const MachineRates& rates) {
  rates_ = rates, has_rates_ = true;
  return append(cat(kRates, to_text(rates)));
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
