// tracewright reduce: from a trace file that fails to a few lines that fail in the same way.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_list.h"
#include "dsl/base/forked.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "sampler/search/check_rule.h"
#include "sampler/tasks/rebuild.h"

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

constexpr const char* kTooLong = "takes too long";

struct Verdict {
  std::string failure;   // "" if there is none
  std::string unjudged;  // why there is none that is known
};

// A crash and an endless loop are answers, too. The limit is one of processor time: on a busy machine a case is not
// slower by it. Work that waits instead of computing is ended after ten times as long.
ForkedAnswer ask_child(int seconds, const std::function<int(std::string& text)>& work) {
  return run_forked([&](std::string& text) {
    const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
    setitimer(ITIMER_PROF, &limit, nullptr);
    alarm(10 * static_cast<unsigned>(seconds));
    return work(text);
  });
}

Verdict judge_in_child(const FailingCase& failing, const Target& target, int seconds, Question question) {
  constexpr int kUnjudged = 2;  // exit code
  ForkedAnswer answer = ask_child(seconds, [&](std::string& text) {
    std::string unjudged;
    text = failure_of(failing, target, &unjudged, question);
    if (!text.empty() || unjudged.empty()) return 0;
    text = unjudged;
    return kUnjudged;
  });
  if (!answer.not_started.empty()) return {"", cat("no process can be started: ", answer.not_started)};
  if (answer.signal == SIGALRM || answer.signal == SIGPROF) return {kTooLong, ""};
  if (answer.exit_code == kUnjudged) return {"", answer.text};
  return {answer.exit_code == 0 ? answer.text : "crashes", ""};
}

// Adapts decisions in a child process too, because replaying a faulty trace may crash; then the decisions stay as they
// are.
Trace adapted_in_child(const FailingCase& failing, int seconds) {
  ForkedAnswer answer = ask_child(seconds, [&](std::string& text) {
    std::vector<Decision> decisions = adapted(failing).decisions();
    text.assign(reinterpret_cast<const char*>(decisions.data()), decisions.size() * sizeof(Decision));
    return 0;
  });
  std::vector<Decision> decisions(failing.trace.sample_count());
  if (answer.exit_code != 0 || answer.text.size() != decisions.size() * sizeof(Decision)) return failing.trace;
  std::memcpy(decisions.data(), answer.text.data(), answer.text.size());
  return failing.trace.with_decisions(decisions);
}

// How a file's trace fails, and how long a smaller case may take to fail in the same way.
struct Failure {
  std::string text;  // "" if there is nothing to make smaller
  std::string why_not;
  int seconds;                            // of one run
  Question question = Question::Compare;  // that it fails at
};

constexpr const char* kPasses = "does not fail: it replays and computes what its workload says";

Failure unjudged(const Verdict& verdict, int limit) {
  return {"", cat("cannot be judged: ", verdict.unjudged, "; try --check 'tracewright replay {} --check'"), limit};
}

// By what the interpreter says. `--seconds` is meant for one of thousands of runs, not for a whole trace that may be
// right. What exceeds a limit by far takes too long by the trace's fault only if the program without the trace does
// not. Smaller cases get what the whole one got.
Failure compare(const FailingCase& start, const Target& target, int seconds) {
  constexpr int kTimes = 10, kLeast = 120;
  auto found = [](const Verdict& verdict, int limit) {
    return verdict.unjudged.empty() ? Failure{verdict.failure, kPasses, limit} : unjudged(verdict, limit);
  };
  Verdict whole = judge_in_child(start, target, seconds, Question::Compare);
  if (whole.failure != kTooLong) return found(whole, seconds);
  int generous = std::max(kLeast, kTimes * seconds);
  say(cat("the interpreter takes longer than ", seconds, " s; once more, for up to ", generous, " s"));
  whole = judge_in_child(start, target, generous, Question::Compare);
  if (whole.failure != kTooLong ||
      judge_in_child({start.program, Trace{}}, target, generous, Question::Compare).failure != kTooLong)
    return found(whole, generous);
  return unjudged({"", cat("its program takes longer than ", generous, " s without the trace, too")}, generous);
}

// A case with smaller extents that the interpreter finds wrong, if there is one.
std::optional<FailingCase> smaller_failure(const FailingCase& start, const Target& target, int seconds,
                                           const ReduceOptions& options) {
  for (i64 most : {128, 64, 32, 16, 8}) {
    std::optional<FailingCase> small = shrunk(start, most, options);
    if (!small || !judge_in_child(*small, target, seconds, Question::Lower).failure.empty()) continue;
    std::string failure = judge_in_child(*small, target, seconds, Question::Compare).failure;
    if (failure.empty() || failure == kTooLong) continue;
    say(cat("the interpreter judges a smaller program, with extents up to ", most));
    return small;
  }
  return std::nullopt;
}

// Asks the cheapest question first; a trace that cannot be replayed is never run. A program that is too large for the
// interpreter is replaced in `start` by a smaller one.
Failure find_failure(FailingCase& start, const Target& target, int seconds, const ReduceOptions& options) {
  for (Question question : {Question::Replay, Question::Lower, Question::Compile}) {
    std::string failure = judge_in_child(start, target, seconds, question).failure;
    if (!failure.empty()) return {failure, "", seconds, question};
  }
  Failure whole = compare(start, target, seconds);
  if (!whole.text.empty() || whole.why_not == kPasses) return whole;
  std::optional<FailingCase> small = smaller_failure(start, target, seconds, options);
  if (!small) return whole;
  start = std::move(*small);
  return compare(start, target, seconds);
}

// Exit code of the user's command with `{}` replaced by a file that holds the case is not 0.
bool fails_by_command(const TraceFile& file, const std::string& command, const std::string& path) {
  if (!write_file(path, print_trace_file(file))) return false;
  std::string line = command;
  if (line.find("{}") == std::string::npos) line += " {}";
  for (std::size_t hole; (hole = line.find("{}")) != std::string::npos;) line.replace(hole, 2, path);
  return std::system((line + " >/dev/null 2>&1").c_str()) != 0;
}

// Says once in a while how far a reduction is, which may take many minutes.
class ReduceProgress {
 public:
  bool operator()(const FailingCase& next, bool fails) {
    ++runs_;
    if (fails) left_ = next.trace.instructions().size();
    auto now = std::chrono::steady_clock::now();
    if (now - said_ < std::chrono::seconds(20)) return fails;
    said_ = now;
    say(cat(left_ ? cat(*left_, " instructions left") : "nothing dropped", " after ", runs_, " runs"));
    return fails;
  }

 private:
  int runs_ = 0;
  std::optional<std::size_t> left_;
  std::chrono::steady_clock::time_point said_ = std::chrono::steady_clock::now();
};

int reduce_file(const Options& options, const TraceFile& file) {
  Target target = target_of(file);
  FailingCase start{file.program, file.trace};
  Failure failure{"the command fails", "does not fail: the command's exit code is 0", options.seconds};
  ReduceOptions reducing{.most_runs = options.runs,
                         .adapt = [&](const FailingCase& next) { return adapted_in_child(next, options.seconds); }};
  std::string scratch = options.file + ".part.tw";
  ReduceProgress progress;
  std::function<bool(const FailingCase&)> fails;
  if (options.check.empty()) {
    failure = find_failure(start, target, options.seconds, reducing);
    fails = [&, kind = kind_of(failure.text)](const FailingCase& next) {
      return progress(next, kind_of(judge_in_child(next, target, failure.seconds, failure.question).failure) == kind);
    };
  } else {
    fails = [&](const FailingCase& next) {
      return progress(next,
                      fails_by_command({file.version, file.target, next.program, next.trace}, options.check, scratch));
    };
    if (!fails(start)) failure.text.clear();
  }
  if (failure.text.empty()) {
    if (!options.check.empty()) std::remove(scratch.c_str());
    say(cat(options.file, " ", failure.why_not));
    return TargetMissed;
  }
  Reduced small = reduce(start, fails, reducing);
  if (!options.check.empty()) std::remove(scratch.c_str());
  std::string now = options.check.empty()
                        ? judge_in_child(small.result, target, failure.seconds, failure.question).failure
                        : failure.text;
  std::string text = print_trace_file({file.version, file.target, small.result.program, small.result.trace});
  say(cat(file.trace.instructions().size(), " instructions to ", small.result.trace.instructions().size(), " in ",
          small.runs, " runs; ", now));
  if (!options.json) return write_output(options.output, text) ? Ok : Environment;
  if (!options.output.empty() && !write_output(options.output, text)) return Environment;
  print_json({{"failure", now},
              {"instructions", small.result.trace.instructions().size()},
              {"instructions_before", file.trace.instructions().size()},
              {"runs", small.runs},
              {"trace_file", text}});
  return Ok;
}

}  // namespace

int run_reduce(int count, char** words) {
  Options options;
  App app("reduce",
          "Shrink a trace that fails, with its decisions and extents, to a few lines that fail in the "
          "same way: it cannot be replayed, lowered or compiled,\n"
          "computes something else in the interpreter, crashes, or takes far longer than its program without "
          "the trace.\nWith --check, a command of yours says what fails (its exit code is not 0).\n"
          "Exit code 1: the trace does not fail, or cannot be judged (its program is too large for the interpreter).",
          "examples:\n  tracewright reduce bug.tw > small.tw\n  tracewright reduce bug.tw --check "
          "'tracewright replay {} --check'");
  app.add_option("TRACE", options.file, "the trace file (.tw)").required();
  app.add_option("--check", options.check, "shell command; `{}` stands for the file to try");
  app.add_option("--output", options.output, "file for the result, instead of standard output");
  app.add_option("--seconds", options.seconds,
                 "limit of one run, in processor time; a trace that exceeds it is tried once more with ten times as "
                 "much (120 at least)")
      .range(1, 3600);
  app.add_option("--runs", options.runs, "limit of all runs").range(1, 1000000);
  app.add_flag("--json", options.json, "print JSON");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  std::optional<std::string> text = read_file(options.file);
  if (!text) return Usage;
  std::optional<TraceFile> file = read_trace_file(options.file, *text);
  return file ? reduce_file(options, *file) : Usage;
}

}  // namespace tw::cli
