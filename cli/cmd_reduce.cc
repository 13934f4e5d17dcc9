// tracewright reduce: from a trace file that fails to a few lines that fail in the same way.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <cstdio>
#include <cstdlib>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/rebuild.h"
#include "dsl/base/text.h"
#include "sampler/search/check_rule.h"

namespace tw::cli {
namespace {

struct Options {
  std::string file, check, output;
  int seconds = 20, runs = 3000;
  bool json = false;
};

// The kind of a failure: smaller cases must fail in the same one, the numbers in a message may differ.
std::string kind_of(const std::string& failure) {
  std::string kind;
  for (char c : failure.substr(0, failure.find('\n'))) {
    if (c == '`') break;
    if (!std::isdigit(static_cast<unsigned char>(c))) kind += c;
  }
  if (kind.starts_with("element") || kind.starts_with("lowered: element")) return "different";
  return kind;
}

// In a child process, so that a crash and an endless loop are failures, too.
std::string failure_in_child(const FailingCase& failing, const Target& target, int seconds) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(static_cast<unsigned>(seconds));
    std::string failure = failure_of(failing, target);
    bool is_written = write(ends[1], failure.data(), failure.size()) == static_cast<ssize_t>(failure.size());
    _exit(is_written ? 0 : 1);
  }
  close(ends[1]);
  std::string failure;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) failure.append(buffer, n);
  close(ends[0]);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGALRM ? "takes too long" : "crashes";
  return failure;
}

// Exit code of the user's command with `{}` replaced by a file that holds the case is not 0.
bool fails_by_command(const TraceFile& file, const std::string& command, const std::string& path) {
  if (!write_file(path, print_trace_file(file))) return false;
  std::string line = command;
  if (line.find("{}") == std::string::npos) line += " {}";
  for (std::size_t hole; (hole = line.find("{}")) != std::string::npos;) line.replace(hole, 2, path);
  return std::system((line + " >/dev/null 2>&1").c_str()) != 0;
}

int reduce_file(const Options& options, const TraceFile& file) {
  Target target = target_of(file);
  FailingCase start{file.program, file.trace};
  std::string failure = "the command fails", scratch = options.file + ".part.tw";
  std::function<bool(const FailingCase&)> fails;
  if (options.check.empty()) {
    failure = failure_in_child(start, target, options.seconds);
    fails = [&, kind = kind_of(failure)](const FailingCase& next) {
      return kind_of(failure_in_child(next, target, options.seconds)) == kind;
    };
  } else {
    fails = [&](const FailingCase& next) {
      return fails_by_command({file.version, file.target, next.program, next.trace}, options.check,
                              scratch);
    };
    if (!fails(start)) failure.clear();
  }
  if (failure.empty()) {
    if (!options.check.empty()) std::remove(scratch.c_str());
    say(cat(options.file, " does not fail: ",
            options.check.empty() ? "it replays and computes what its workload says"
                                  : "the command's exit code is 0"));
    return TargetMissed;
  }
  Reduced small = reduce(start, fails, {.most_runs = options.runs});
  if (!options.check.empty()) std::remove(scratch.c_str());
  std::string now = options.check.empty() ? failure_in_child(small.result, target, options.seconds) : failure;
  std::string text = print_trace_file({file.version, file.target, small.result.program, small.result.trace});
  say(cat(start.trace.instructions().size(), " instructions to ",
          small.result.trace.instructions().size(), " in ", small.runs, " runs; ", now));
  if (!options.json) return write_output(options.output, text) ? Ok : Environment;
  if (!options.output.empty() && !write_output(options.output, text)) return Environment;
  print_json({{"failure", now},
              {"instructions", small.result.trace.instructions().size()},
              {"instructions_before", start.trace.instructions().size()},
              {"runs", small.runs},
              {"trace_file", text}});
  return Ok;
}

}  // namespace

int run_reduce(int count, char** words) {
  Options options;
  auto app = make_app(
      "reduce",
      "Shrink a trace that fails, with its decisions and extents, to a few lines that fail in the "
      "same way: it cannot be replayed or lowered,\n"
      "computes something else in the interpreter, or crashes. With --check, a command of yours says "
      "what fails (its exit code is not 0).\n"
      "Exit code 1: the trace does not fail.",
      "examples:\n  tracewright reduce bug.tw > small.tw\n  tracewright reduce bug.tw --check "
      "'tracewright replay {} --check'");
  app->add_option("TRACE", options.file, "the trace file (.tw)")->required();
  app->add_option("--check", options.check, "shell command; `{}` stands for the file to try");
  app->add_option("--output", options.output, "file for the result, instead of standard output");
  app->add_option("--seconds", options.seconds, "limit of one run")->check(CLI::Range(1, 3600));
  app->add_option("--runs", options.runs, "limit of all runs")->check(CLI::Range(1, 1000000));
  app->add_flag("--json", options.json, "print JSON");
  if (std::optional<int> code = parse_arguments(*app, count, words)) return *code;
  std::optional<std::string> text = read_file(options.file);
  if (!text) return Usage;
  Source source{options.file, *text};
  Diagnostics diagnostics(source);
  std::optional<TraceFile> file = parse_trace_file(source, diagnostics);
  std::fputs(diagnostics.render().c_str(), stderr);
  return file ? reduce_file(options, *file) : Usage;
}

}  // namespace tw::cli
