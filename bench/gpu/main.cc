// tracewright-gpu-bench: what this GPU does, and how our kernels stand beside NVIDIA's libraries, in one run of some
// minutes:
//   tracewright-gpu-bench [--json FILE [--continue]] [--seconds 460] [--only conformance,ceilings,TASK,... | --tasks]
//                         [--list FILE] [--found DIR | --database DB] [--once] [--expected FILE] [--device N]
//                         [--pytorch FILE]
//   tracewright-gpu-bench --emulate FILE        writes the expected results of the conformance kernels;
//                                               needs a C++ compiler and no GPU
// Exit code: 0 done, 1 a device function or a kernel is wrong, or a file cannot be written, 2 wrong flags, 3 no GPU.
// Each part runs in a process of its own (--section).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>
#include <set>

#include "bench/gpu/conformance.h"
#include "bench/gpu/process.h"
#include "bench/gpu/report.h"
#include "bench/gpu/sections.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::gpu_bench {
namespace {

namespace json = boost::json;

struct Options {
  std::string json_file, list, found, database, expected, pytorch, emulate, section, after;
  std::vector<std::string> only;
  bool has_tasks_only = false, is_once = false, goes_on = false;
  double seconds = 460;
  int device = 0, finalists = 10;
  std::vector<int> skip;
};

// A file of the bundle, or of the source tree beside the build.
std::string shipped(const std::string& name) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"../share/tracewright/gpu", "gpu_bench"}) {
    if (std::filesystem::exists(folder / place / name, error)) return (folder / place / name).string();
  }
  return "";
}

// ---- one part, in a process of its own

int run_section(const Options& options) {
  std::string error;
  Say say = [](const json::object& row) { std::puts(json::serialize(row).c_str()), std::fflush(stdout); };
  std::vector<std::string> names = device::names(error);
  device::Device device(options.device, error);
  if (!error.empty()) return say({{"skipped", options.section}, {"problem", error}}), NoDevice;
  if (options.section == "conformance") return run_conformance(device, options.expected, options.after, say);
  if (options.section == "ceilings") return run_ceilings(device, options.after, say);
  TaskOptions task{.list = options.list,
                   .task = options.section,
                   .found = options.found,
                   .database = options.database,
                   .finalists = options.finalists,
                   .skip = options.skip,
                   .is_once = options.is_once,
                   .limit = options.seconds};
  return run_task(device, names[static_cast<std::size_t>(options.device)], task, say);
}

// ---- all of them

constexpr double kLeast = 5;  // what has fewer seconds is not begun

// One part again and again, until it ends by itself: each time without what ended it before.
class Attempts {
 public:
  Attempts(const Options& options, const std::string& section, double seconds)
      : options_(options), section_(section), seconds_(seconds), end_(seconds_now() + seconds) {}

  State run(json::array& rows) {
    State state = run_all();
    rows = std::move(ended_);
    rows.insert(rows.end(), rows_.begin(), rows_.end());
    return state;
  }

 private:
  State run_all() {
    for (bool is_first = true;; is_first = false) {
      say(cat(section_, is_first ? "" : ", again without what ended it"));
      PartProcess part = run_part(words(), end_ - seconds_now());
      if (part.begun.is_number()) rows_.clear();  // they are repeated
      rows_.insert(rows_.end(), part.rows.begin(), part.rows.end());
      is_wrong_ |= (part.is_done() && part.code != Done) || has_wrong_case(part.rows);
      if (part.is_done()) return state_or(State::Right);
      if (!part.is_late && !leave_out(part)) return State::Wrong;
      if (!part.is_late && end_ - seconds_now() >= kLeast) continue;
      ended_.push_back({{"skipped", section_}, {"problem", cat("took more than ", static_cast<i64>(seconds_), " s")}});
      return state_or(State::Skipped);
    }
  }

  std::vector<std::string> words() const {
    std::vector<std::string> out = {"tracewright-gpu-bench",
                                    "--section",
                                    section_,
                                    "--list",
                                    options_.list,
                                    "--device",
                                    std::to_string(options_.device),
                                    "--finalists",
                                    std::to_string(options_.finalists),
                                    "--seconds",
                                    std::to_string(std::max(kLeast, end_ - seconds_now()))};
    if (!options_.found.empty()) out.insert(out.end(), {"--found", options_.found});
    if (!options_.database.empty()) out.insert(out.end(), {"--database", options_.database});
    if (options_.is_once) out.push_back("--once");
    if (!options_.expected.empty()) out.insert(out.end(), {"--expected", options_.expected});
    if (!after_.empty()) out.insert(out.end(), {"--after", after_});
    for (const std::string& finalist : skip_) out.insert(out.end(), {"--skip", finalist});
    return out;
  }

  // What ended the process gets a row, and the next process does without it. False: it is not known, or was tried often
  // enough.
  bool leave_out(const PartProcess& part) {
    std::string problem = part.how_it_ended();
    if (part.code == Poisoned && !part.rows.empty()) {
      if (const json::value* said = part.rows.back().as_object().if_contains("problem"))
        problem = said->as_string().c_str();
    }
    if (part.begun.is_string()) {
      after_ = part.begun.get_string().c_str();
      is_wrong_ = true;
      if (part.code == Poisoned) return true;  // it has its row
      if (section_ == "conformance")
        rows_.push_back({{"case", after_}, {"right", false}, {"problem", problem}, {"worst", nullptr}});
      else
        rows_.push_back({{"skipped", after_}, {"problem", problem}});
      return true;
    }
    skip_.push_back(json::serialize(part.begun));
    ended_.push_back({{"skipped", part.begun.is_null() ? section_ : skip_.back()}, {"problem", problem}});
    return !part.begun.is_null() && skip_.size() < 3;
  }

  State state_or(State good) const { return is_wrong_ ? State::Wrong : good; }

  static bool has_wrong_case(const json::array& rows) {
    return std::any_of(rows.begin(), rows.end(), [](const json::value& row) {
      const json::value* right = row.as_object().if_contains("right");
      return right && !right->as_bool();
    });
  }

  const Options& options_;
  const std::string& section_;
  double seconds_, end_;
  json::array ended_, rows_;       // what ended an attempt or all of them; what the part said
  std::string after_;              // the part goes on behind this
  std::vector<std::string> skip_;  // finalists
  bool is_wrong_ = false;
};

// Runs the parts one after the other, each in what is left of the time.
class Schedule {
 public:
  Schedule(const Options& options, Report& report)
      : options_(options), report_(report), end_(seconds_now() + options.seconds) {}

  void run(const std::vector<std::string>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) run_one(parts[i], limit_of(parts.size() - i));
  }

 private:
  // Three equal shares: parts that need less leave it to the others, and if none does, the first half of them still
  // gets its turn.
  double limit_of(std::size_t parts_left) const {
    double left = end_ - seconds_now();
    return std::min(left, std::max(kLeast, left * 3 / static_cast<double>(parts_left)));
  }

  void run_one(const std::string& section, double seconds) {
    double begin = seconds_now();
    json::array rows;
    State state = State::Skipped;
    if (seconds < kLeast)
      rows.push_back({{"skipped", section}, {"problem", "no time was left"}});
    else
      state = Attempts(options_, section, seconds).run(rows);
    report_.add(section, state, seconds_now() - begin, std::move(rows));
  }

  const Options& options_;
  Report& report_;
  double end_;
};

// In the order of the list: what matters most comes first there.
std::vector<std::string> parts_of(const Options& options) {
  std::vector<std::string> out = {"conformance", "ceilings"}, tasks;
  if (!options.list.empty()) tasks = tasks_of(options.list);
  if (options.has_tasks_only) out.clear();
  out.insert(out.end(), tasks.begin(), tasks.end());
  if (!options.only.empty()) {
    std::erase_if(out, [&](const std::string& part) {
      return std::find(options.only.begin(), options.only.end(), part) == options.only.end();
    });
  }
  return out;
}

int emulate(const std::string& path) {
  // Before the emulator runs for minutes.
  if (!write_file(path, "")) return say(cat(path, " cannot be written")), Wrong;
  std::string error;
  Outputs outputs = emulate_cases(error);
  if (!error.empty()) return say(error), Wrong;
  return write_file(path, print_outputs(outputs)) ? Done : Wrong;
}

}  // namespace

int run(int count, char** words) {
  Options options;
  CLI::App app("What this GPU does, and how tracewright's kernels stand beside cuBLASLt and cuDNN.",
               "tracewright-gpu-bench");
  app.add_option("--json", options.json_file, "write all rows to this file");
  app.add_option("--seconds", options.seconds, "time for all of it; parts that do not fit are skipped")
      ->check(CLI::Range(5.0, 1e6));
  app.add_option("--only", options.only, "these parts: conformance, ceilings, or tasks of the list")->delimiter(',');
  app.add_flag("--tasks", options.has_tasks_only, "all tasks of the list, and nothing else");
  app.add_option("--list", options.list, "task list; its arch is replaced by that of the GPU");
  app.add_option("--found", options.found, "kernels that `tune --compile-only` has written, instead of a search");
  app.add_option("--database", options.database, "the fastest kernel that a database has, instead of a search");
  app.add_flag("--once", options.is_once, "run and check each kernel once, without times: for profilers");
  app.add_flag("--continue", options.goes_on, "keep what --json's file has of parts that were done, and do the others");
  app.add_option("--expected", options.expected, "results of the emulator, as --emulate writes them");
  app.add_option("--device", options.device, "number of the GPU")->check(CLI::NonNegativeNumber);
  app.add_option("--finalists", options.finalists, "kernels of each task that are tried")->check(CLI::Range(1, 1000));
  app.add_option("--pytorch", options.pytorch,
                 "times of PyTorch, as pytorch_times.py prints them, to stand beside ours");
  app.add_option("--emulate", options.emulate, "write the emulator's results to this file, and do nothing else");
  app.add_option("--section", options.section)->group("");
  app.add_option("--after", options.after)->group("");
  app.add_option("--skip", options.skip)->group("");
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? Done : Usage;
  }
  if (!options.emulate.empty()) return emulate(options.emulate);
  if (options.list.empty()) options.list = shipped("tasks.yaml");
  if (options.expected.empty()) options.expected = shipped("conformance.json");
  if (!options.section.empty()) return run_section(options);
  std::string error;
  std::vector<std::string> names = device::names(error);
  if (options.device >= static_cast<int>(names.size()))
    return say(error.empty() ? cat("there is no CUDA device ", options.device) : error), NoDevice;
  Report report(names[static_cast<std::size_t>(options.device)], options.json_file);
  if (!options.pytorch.empty() && !report.read_pytorch(options.pytorch, error)) return say(error), Usage;
  std::vector<std::string> parts = parts_of(options);
  if (parts.empty()) return say("there is nothing to run"), Usage;
  if (options.goes_on) {
    std::set<std::string> done = report.take_done();
    std::erase_if(parts, [&](const std::string& part) { return done.contains(part); });
  }
  Schedule(options, report).run(parts);
  report.finish();
  return report.is_wrong() ? Wrong : Done;
}

}  // namespace tw::gpu_bench

int main(int count, char** words) { return tw::gpu_bench::run(count, words); }
