#include "bench/gpu/report.h"

#include <fmt/core.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <vector>

#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::gpu_bench {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;
using Table = std::vector<std::vector<std::string>>;

constexpr const char* kStates[] = {"right", "wrong", "skipped"};  // in the order of State

const char* text(const json::object& row, const char* name) { return row.at(name).as_string().c_str(); }
double number(const json::object& row, const char* name) { return row.at(name).to_number<double>(); }
std::string microseconds(const json::object& row, const char* name) { return show_time(number(row, name) * 1e-6); }

// Under another name first: whoever is ended meanwhile leaves the older file. What is no ordinary file (a pipe) is
// written in place, once.
bool write_whole(const std::string& path, const std::string& content, bool is_last) {
  std::error_code error;
  fs::file_type type = fs::symlink_status(path, error).type();
  if (type != fs::file_type::regular && type != fs::file_type::not_found) return !is_last || write_file(path, content);
  std::string fresh = path + ".new";
  if (!write_file(fresh, content)) return false;
  fs::rename(fresh, path, error);
  if (error) say(cat("cannot write ", path, ": ", error.message()));
  return !error;
}

// A kernel that could not be timed has a problem instead.
void add_task(const json::object& row, Table& table) {
  if (!row.contains("us"))
    return table.push_back({text(row, "task"), "", "", "", "", "", "", "", text(row, "problem")});
  std::vector<std::string> ours = {text(row, "task"), microseconds(row, "us"), show_number(number(row, "gflops"), 0),
                                   show_number(number(row, "gb_per_second"), 0)};
  for (const json::value& value : row.at("against").as_array()) {
    const json::object& other = value.as_object();
    std::vector<std::string> line = ours;
    const json::array& quartiles = other.at("ratio_quartiles").as_array();
    std::string ratio = fmt::format("{:.2f} ({:.2f} to {:.2f})", number(other, "ratio"),
                                    quartiles[0].to_number<double>(), quartiles[1].to_number<double>());
    line.insert(line.end(),
                {text(other, "library"), microseconds(other, "us"), ratio, show_number(number(other, "cold_ratio"), 2),
                 cat(text(row, "problem"), text(other, "problem"))});
    table.push_back(std::move(line));
  }
}

}  // namespace

bool Report::read_pytorch(const std::string& path, std::string& error) {
  std::optional<std::string> whole = read_whole_file(path);
  if (!whole) return error = cat("cannot read ", path), false;
  std::istringstream lines(*whole);
  for (std::string line; std::getline(lines, line);) {
    json::error_code code;
    json::value row = json::parse(line, code);
    const json::object* found = code ? nullptr : row.if_object();
    auto is_text = [&](const char* name) { return found->contains(name) && found->at(name).is_string(); };
    if (!found || !is_text("task") || !is_text("library") || !found->contains("us") || !found->at("us").is_number())
      return error = cat(path, R"( must have lines {"task": ..., "library": ..., "us": ...}, not: )", line), false;
    pytorch_.push_back(std::move(row));
  }
  return true;
}

std::set<std::string> Report::take_done() {
  std::set<std::string> out;
  json::error_code code;
  std::optional<std::string> whole = read_whole_file(json_file_);
  json::value earlier = whole ? json::parse(*whole, code) : json::value();
  if (code || !earlier.is_object() || !earlier.get_object().contains("parts")) return out;
  for (const json::value& part : earlier.at("parts").as_array()) {
    if (part.at("state") != kStates[static_cast<int>(State::Right)]) continue;
    out.insert(text(part.as_object(), "part"));
    keep(part.as_object());
  }
  return out;
}

void Report::add(const std::string& part, State state, double seconds, json::array rows) {
  is_wrong_ |= state == State::Wrong;
  keep({{"part", part}, {"state", kStates[static_cast<int>(state)]}, {"seconds", seconds}, {"rows", std::move(rows)}});
  save(false);
}

void Report::keep(json::object part) {
  for (const json::value& row : part.at("rows").as_array()) {
    const json::object& found = row.as_object();
    if (found.contains("task") && found.contains("us")) us_[text(found, "task")] = number(found, "us");
  }
  parts_.push_back(std::move(part));
}

void Report::finish() {
  save(true);
  print();
}

void Report::save(bool is_last) {
  if (json_file_.empty() || is_unwritten_) return;
  json::object out{{"device", device_name_}, {"complete", is_last}, {"wrong", is_wrong_}, {"parts", parts_}};
  if (!pytorch_.empty()) out["pytorch"] = beside_pytorch();
  is_unwritten_ = !write_whole(json_file_, json::serialize(out) + "\n", is_last);
}

json::array Report::beside_pytorch() const {
  json::array out;
  for (json::value row : pytorch_) {
    auto ours = us_.find(text(row.as_object(), "task"));
    if (ours != us_.end()) row.as_object()["ratio"] = number(row.as_object(), "us") / ours->second;
    out.push_back(std::move(row));
  }
  return out;
}

void Report::print() const {
  Table parts, tasks, ceilings;
  int right = 0, all = 0;
  for (const json::value& part : parts_) {
    parts.push_back({text(part.as_object(), "part"), text(part.as_object(), "state"),
                     show_number(number(part.as_object(), "seconds"))});
    for (const json::value& value : part.at("rows").as_array()) {
      const json::object& row = value.as_object();
      if (row.contains("case")) ++all, right += row.at("right").as_bool();
      if (row.contains("case") && !row.at("right").as_bool())
        std::printf("WRONG  %s: %s\n", text(row, "case"), text(row, "problem"));
      if (row.contains("skipped")) std::printf("skipped  %s: %s\n", text(row, "skipped"), text(row, "problem"));
      if (row.contains("ceiling"))
        ceilings.push_back({text(row, "ceiling"), show_number(number(row, "value"), number(row, "value") < 10 ? 2 : 0),
                            text(row, "unit"), text(row, "detail")});
      if (row.contains("task")) add_task(row, tasks);
    }
  }
  if (all > 0) std::printf("\n%d of %d device functions do what the emulator does\n\n", right, all);
  if (!ceilings.empty()) print_table({"ceiling", "value", "unit", "by"}, ceilings);
  std::puts("");
  if (!tasks.empty())
    print_table({"task", "ours", "GFLOP/s", "GB/s", "library", "theirs", "theirs / ours", "cold", "problem"}, tasks);
  print_pytorch();
  std::puts("");
  print_table({"part", "state", "s"}, parts);
}

void Report::print_pytorch() const {
  Table table;
  for (const json::value& value : beside_pytorch()) {
    const json::object& row = value.as_object();
    if (!row.contains("ratio")) continue;
    table.push_back({text(row, "task"), show_time(us_.at(text(row, "task")) * 1e-6), text(row, "library"),
                     microseconds(row, "us"), show_number(number(row, "ratio"), 2)});
  }
  if (!table.empty()) std::puts(""), print_table({"task", "ours", "library", "theirs", "theirs / ours"}, table);
}

}  // namespace tw::gpu_bench
