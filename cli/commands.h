// The subcommands of `tracewright`. Each lives in cli/cmd_<name>.cc and is listed once, in
// cli/main.cc. Standard output carries data only; messages for people go to standard error.
#pragma once

namespace tw::cli {

// Exit codes of every subcommand.
enum ExitCode : int {
  Ok = 0,
  TargetMissed = 1,   // ran, but what was asked for was not reached: a task without a working
                      // kernel, a damaged database
  Usage = 2,          // wrong flags, or a wrong file of the user's; nothing was started
  Environment = 3,    // the machine: database, worker, compiler, disk
  WrongResults = 4,   // a kernel computes something else than its workload says
  Internal = 5,       // a bug of tracewright
  Interrupted = 130,  // Ctrl-C; everything measured is stored
};

// The exit code of a command with two parts. WrongResults wins over Interrupted, Interrupted over all others; of two
// other failures the first one is returned.
constexpr int worse_code(int first, int second) {
  auto is_one = [&](int code) { return first == code || second == code; };
  if (is_one(WrongResults)) return WrongResults;
  if (is_one(Interrupted)) return Interrupted;
  return first != Ok ? first : second;
}

// count, words: the command line from the subcommand's name on, as main() gets it.
int run_tune(int count, char** words);
int run_replay(int count, char** words);
int run_show(int count, char** words);
int run_report(int count, char** words);
int run_export(int count, char** words);
int run_compile(int count, char** words);
int run_run(int count, char** words);
int run_bench(int count, char** words);
int run_space(int count, char** words);
int run_check(int count, char** words);
int run_explain(int count, char** words);
int run_reduce(int count, char** words);
int run_language(int count, char** words);
int run_doctor(int count, char** words);
int run_run_manifest(int count, char** words);
int run_measure(int count, char** words);
int run_fleet(int count, char** words);
int run_db(int count, char** words);
int run_model(int count, char** words);
int run_version(int count, char** words);

}  // namespace tw::cli
