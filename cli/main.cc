// The `tracewright` command: finds the subcommand in a table and runs it. Starting costs little:
// LLVM is initialized when something is compiled, LibTorch is opened when its cost model is used.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/target.h"
#include "cli/commands.h"
#include "dsl/base/text.h"

namespace tw::cli {
namespace {

struct Command {
  const char* name;
  const char* help;
  int (*run)(int count, char** words);
};

constexpr Command commands[] = {
    {"tune", "search fast kernels for the tasks of a YAML list", run_tune},
    {"replay", "rebuild a kernel from a trace file or a record; check, run or print it", run_replay},
    {"show", "what a database holds: tasks, best kernels, history, traces", run_show},
    {"report", "one HTML page: tuning curves, roofline, failures, timelines of models", run_report},
    {"export", "write the best kernels as a C library with header, manifest and traces", run_export},
    {"compile", "make one C library of an ONNX model: kernels, weights, memory plan; check it", run_compile},
    {"run", "run an ONNX model, or what `compile` has made of it, on data in .npy files", run_run},
    {"run-manifest", "measure the finalists of `tune --compile-only` on this machine's GPU", run_run_manifest},
    {"measure", "lend this machine to the tuners of a PostgreSQL database", run_measure},
    {"fleet", "the machines that measure for a database: rates, queue, faults", run_fleet},
    {"bench", "measure the best kernels, or whole models, side by side with other libraries", run_bench},
    {"space", "the sketches that the rules give for each task, and how many points they have", run_space},
    {"check", "a rule module: its text, what it fits, what it adds, a proof by running", run_check},
    {"explain", "which rules applied where, and which steps were rejected, how often and why", run_explain},
    {"reduce", "shrink a failing trace to a few lines that fail in the same way", run_reduce},
    {"language", "the words of the rule language: instructions, functions, limits", run_language},
    {"doctor", "what this machine has, what is missing, and how to get it", run_doctor},
    {"db", "verify, export, import, copy a database; list its best records; make one on a server", run_db},
    {"model", "learn cost models from databases, and see how good they are", run_model},
    {"version", "print the version", run_version},
};

void print_help(std::FILE* out) {
  std::fprintf(out,
               "tracewright %s: fast kernels by tuning schedules that are probabilistic programs\n\n"
               "usage: tracewright COMMAND [OPTIONS]\n\ncommands:\n",
               TW_VERSION);
  for (const Command& command : commands) std::fprintf(out, "  %-12s %s\n", command.name, command.help);
  std::fprintf(out,
               "\n`tracewright COMMAND --help` describes one. Begin with `tracewright doctor`, then\n"
               "`tracewright tune examples/quickstart.yaml`.\n\n"
               "exit codes: 0 ok, 1 ran but not reached, 2 usage or a wrong file, 3 environment, 4 wrong "
               "results, 5 a bug,\n"
               "130 interrupted\n");
}

int unknown_command(const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.emplace_back(command.name);
  std::string near = closest(word, names);
  std::fprintf(stderr, "tracewright: unknown command `%s`%s\n`tracewright --help` lists the commands\n", word.c_str(),
               near.empty() ? "" : cat("; did you mean `", near, "`?").c_str());
  return Usage;
}

int main_of(int count, char** words) {
  if (count < 2) return print_help(stderr), Usage;
  std::string word = words[1];
  if (word == "--help" || word == "-h" || word == "help") return print_help(stdout), Ok;
  if (word == "--version" || word == "-V") word = "version";
  set_cpu_check(&is_llvm_cpu);
  for (const Command& command : commands) {
    if (word == command.name) return command.run(count - 1, words + 1);
  }
  return unknown_command(word);
}

// A closed descriptor 0, 1 or 2 would be given to the next file that is opened, and messages written into that.
void open_standard_files() {
  int file = open("/dev/null", O_RDWR);
  while (file >= 0 && file <= STDERR_FILENO) file = open("/dev/null", O_RDWR);
  if (file >= 0) close(file);
}

// A model or a shape of the user's may ask for more memory than there is.
int guarded_main(int count, char** words) {
  try {
    return main_of(count, words);
  } catch (const std::bad_alloc&) {
    std::fputs("tracewright: there is not enough memory\n", stderr);
    return Environment;
  }
}

// What was printed may not have arrived: a full disk, a pipe that nobody reads.
int flush_output(int code) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  std::fprintf(stderr, "tracewright: standard output cannot be written: %s\n", std::strerror(errno));
  return code == Ok ? Environment : code;
}

}  // namespace

int run_version(int, char**) {
  std::printf("tracewright %s\n", TW_VERSION);
  return Ok;
}

}  // namespace tw::cli

int main(int count, char** words) {
  tw::cli::open_standard_files();
  signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error of the call that meets it
  return tw::cli::flush_output(tw::cli::guarded_main(count, words));
}
