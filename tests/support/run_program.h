// Runs a real program to its end, or until it is told to stop, and keeps what it printed. For tests
// of the command.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace tw::test {

struct Finished {
  int code = -1;  // exit code; 128 + signal if it was killed
  std::string out, err;
};

struct RunOptions {
  std::string folder = ".";                // to run in
  std::vector<std::string> environment;    // "NAME=value", added to ours
  std::function<void(int pid)> meanwhile;  // called once it runs
  bool closed_input = false;               // no standard input at all, instead of an empty one
  bool terminal_output = false;            // standard output is a terminal
  bool closed_output = false;              // neither standard output nor standard error
};

// A task list of two small kernels and few trials.
inline constexpr const char* kGemmAndRows = R"yaml(version: 1
target: {kind: cpu, threads: 1}
budget: {trials: 6, min_gain: 0}
database: small.db
tasks:
  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}
  - {name: rows, op: softmax, args: {M: 16, N: 64}}
)yaml";

Finished run_program(const std::vector<std::string>& words, const RunOptions& options = {});
// The program `tracewright` of this build.
Finished tracewright(std::vector<std::string> words, const RunOptions& options = {});

}  // namespace tw::test
