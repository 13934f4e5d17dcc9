// tracewright-gpu-bench: what this GPU does, and how our kernels stand beside NVIDIA's libraries, in one run of some minutes:
//   tracewright-gpu-bench [--json FILE] [--seconds 460] [--only conformance|ceilings|TASK] [--list FILE] [--expected FILE] [--device N]
//   tracewright-gpu-bench --emulate FILE        writes the expected results of the conformance kernels; needs a C++ compiler and no GPU
// Exit code: 0 done, 1 a device function or a kernel is wrong, or a file cannot be written, 2 wrong flags, 3 no GPU. Each part runs in a process of its own (--section).
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>

#include "bench/gpu/conformance.h"
#include "bench/gpu/sections.h"
#include "cli/output.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"

namespace tw::gpu_bench {
namespace {

namespace json = boost::json;

enum ExitCode : int { Done = 0, Wrong = 1, Usage = 2, NoDevice = 3 };

struct Options {
  std::string json_file, only, list, expected, emulate, section;
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
  if (options.section == "conformance") return run_conformance(device, options.expected, say) ? Done : Wrong;
  if (options.section == "ceilings") return run_ceilings(device, say), Done;
  TaskOptions task{.list = options.list, .task = options.section, .finalists = options.finalists, .skip = options.skip};
  return run_task(device, names[static_cast<std::size_t>(options.device)], task, say) ? Done : Wrong;
}

// A part's rows as they come, until it ends or its time is over.
struct Part {
  std::vector<json::object> rows;
  int code = -1;  // 128 + signal if it was killed
  bool is_late = false;
};

Part run_part(std::vector<std::string> words, double seconds) {
  Part out;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return out;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t pid = -1;
  int failed = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  double end = seconds_now() + seconds;
  pollfd wanted{ends[0], POLLIN, 0};
  for (char part[4096]; failed == 0;) {
    int left = static_cast<int>((end - seconds_now()) * 1000);
    out.is_late = left <= 0 || poll(&wanted, 1, left) == 0;
    ssize_t got = out.is_late ? 0 : read(ends[0], part, sizeof part);
    if (got <= 0) break;
    text.append(part, static_cast<std::size_t>(got));
    for (std::size_t line = text.find('\n'); line != std::string::npos; line = text.find('\n')) {
      json::error_code code;
      json::value row = json::parse(text.substr(0, line), code);
      if (!code && row.is_object()) out.rows.push_back(std::move(row.get_object()));
      text.erase(0, line + 1);
    }
  }
  close(ends[0]);
  if (failed != 0) return out;
  if (out.is_late) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return out;
}

// ---- all of them

class Report {
 public:
  explicit Report(const Options& options) : options_(options), end_(seconds_now() + options.seconds) {}

  int run(const std::string& device_name) {
    if (is_wanted("conformance")) collect("conformance", 120);
    if (is_wanted("ceilings")) collect("ceilings", 90);
    for (const std::string& task : options_.list.empty() ? std::vector<std::string>() : tasks_of(options_.list)) {
      if (is_wanted(task)) collect(task, 75);
    }
    json::object out{{"device", device_name}, {"parts", parts_}, {"wrong", is_wrong_}};
    if (!options_.json_file.empty()) is_wrong_ |= !cli::write_file(options_.json_file, json::serialize(out) + "\n");
    print();
    return is_wrong_ ? Wrong : Done;
  }

 private:
  bool is_wanted(const std::string& part) const { return options_.only.empty() || options_.only == part; }

  // A finalist that ends the process is left out, and the rest of its part run again.
  void collect(const std::string& section, double seconds) {
    std::vector<std::string> words = {"tracewright-gpu-bench", "--section", section, "--list", options_.list, "--device",
                                      std::to_string(options_.device), "--finalists", std::to_string(options_.finalists)};
    if (!options_.expected.empty()) words.insert(words.end(), {"--expected", options_.expected});
    json::array ended, rows;  // what ended an attempt; the rows of the latest one, which repeats those of the others
    for (int attempt = 0; attempt < 3; ++attempt) {
      double left = std::min(seconds, end_ - seconds_now());
      if (left < 5) {
        ended.push_back({{"skipped", section}, {"problem", "no time was left"}});
        break;
      }
      cli::say(cat(section, attempt > 0 ? ", again without what ended it" : ""));
      Part part = run_part(words, left);
      json::value begun;
      rows.clear();
      for (json::object& row : part.rows) {
        if (row.contains("begin"))
          begun = row.at("begin");
        else
          rows.push_back(std::move(row));
      }
      bool is_done = part.code >= Done && part.code <= NoDevice && !part.is_late;
      if (is_done) return add(section, joined(std::move(ended), rows), part.code == Done);
      ended.push_back({{"skipped", begun.is_null() ? section : json::serialize(begun)}, {"problem", how_it_ended(part, left)}});
      if (!begun.is_int64() && !begun.is_uint64()) break;
      words.insert(words.end(), {"--skip", json::serialize(begun)});
    }
    add(section, joined(std::move(ended), rows), false);
  }

  static std::string how_it_ended(const Part& part, double seconds) {
    if (part.is_late) return cat("took more than ", seconds, " s");
    if (part.code < 0) return "its process cannot be started";
    return part.code > 128 ? cat("ended the process: signal ", part.code - 128) : cat("ended the process: exit code ", part.code);
  }

  static json::array joined(json::array all, const json::array& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  void add(const std::string& section, json::array rows, bool is_right) {
    is_wrong_ |= !is_right;
    parts_.push_back({{"part", section}, {"right", is_right}, {"rows", std::move(rows)}});
  }

  void print() const {
    std::vector<std::vector<std::string>> table, ceilings;
    int right = 0, all = 0;
    for (const json::value& part : parts_) {
      for (const json::value& value : part.at("rows").as_array()) {
        const json::object& row = value.as_object();
        if (row.contains("case")) ++all, right += row.at("right").as_bool();
        if (row.contains("case") && !row.at("right").as_bool()) std::printf("WRONG  %s: %s\n", text(row, "case"), text(row, "problem"));
        if (row.contains("skipped")) std::printf("skipped  %s: %s\n", text(row, "skipped"), text(row, "problem"));
        if (row.contains("ceiling"))
          ceilings.push_back({text(row, "ceiling"), cli::show_number(number(row, "value"), 0), text(row, "unit"), text(row, "detail")});
        if (row.contains("task")) add_task(row, table);
      }
    }
    if (all > 0) std::printf("\n%d of %d device functions do what the emulator does\n\n", right, all);
    if (!ceilings.empty()) cli::print_table({"ceiling", "value", "unit", "by"}, ceilings);
    std::puts("");
    if (!table.empty()) cli::print_table({"task", "ours", "GFLOP/s", "GB/s", "library", "theirs", "theirs / ours", "cold", "problem"}, table);
  }

  static const char* text(const json::object& row, const char* name) { return row.at(name).as_string().c_str(); }
  static double number(const json::object& row, const char* name) { return row.at(name).to_number<double>(); }

  // A kernel that could not be timed has a problem instead.
  static void add_task(const json::object& row, std::vector<std::vector<std::string>>& table) {
    if (!row.contains("us")) return table.push_back({text(row, "task"), "", "", "", "", "", "", "", text(row, "problem")});
    std::vector<std::string> ours = {text(row, "task"), cli::show_time(number(row, "us") * 1e-6), cli::show_number(number(row, "gflops"), 0),
                                     cli::show_number(number(row, "gb_per_second"), 0)};
    for (const json::value& value : row.at("against").as_array()) {
      const json::object& other = value.as_object();
      std::vector<std::string> line = ours;
      const json::array& quartiles = other.at("ratio_quartiles").as_array();
      std::string ratio = fmt::format("{:.2f} ({:.2f} to {:.2f})", number(other, "ratio"), quartiles[0].to_number<double>(),
                                      quartiles[1].to_number<double>());
      line.insert(line.end(), {text(other, "library"), cli::show_time(number(other, "us") * 1e-6), ratio,
                               cli::show_number(number(other, "cold_ratio"), 2), cat(text(row, "problem"), text(other, "problem"))});
      table.push_back(std::move(line));
    }
  }

  const Options& options_;
  double end_;
  json::array parts_;
  bool is_wrong_ = false;
};

int emulate(const std::string& path) {
  std::string error;
  Outputs outputs = emulate_cases(error);
  if (!error.empty()) return cli::say(error), Wrong;
  return cli::write_file(path, print_outputs(outputs)) ? Done : Wrong;
}

}  // namespace

int run(int count, char** words) {
  Options options;
  CLI::App app("What this GPU does, and how tracewright's kernels stand beside cuBLASLt and cuDNN.", "tracewright-gpu-bench");
  app.add_option("--json", options.json_file, "write all rows to this file");
  app.add_option("--seconds", options.seconds, "time for all of it; parts that do not fit are left out")->check(CLI::Range(5.0, 1e6));
  app.add_option("--only", options.only, "one part: conformance, ceilings, or a task of the list");
  app.add_option("--list", options.list, "task list; its arch is replaced by that of the GPU");
  app.add_option("--expected", options.expected, "results of the emulator, as --emulate writes them");
  app.add_option("--device", options.device, "number of the GPU")->check(CLI::NonNegativeNumber);
  app.add_option("--finalists", options.finalists, "kernels of each task that are tried")->check(CLI::Range(1, 1000));
  app.add_option("--emulate", options.emulate, "write the emulator's results to this file, and do nothing else");
  app.add_option("--section", options.section)->group("");
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
    return cli::say(error.empty() ? cat("there is no CUDA device ", options.device) : error), NoDevice;
  return Report(options).run(names[static_cast<std::size_t>(options.device)]);
}

}  // namespace tw::gpu_bench

int main(int count, char** words) { return tw::gpu_bench::run(count, words); }
