// What `tracewright measure` and the program for machines without a compiler (cli/built_machine) have in common: their
// flags, and lending the machine.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/fleet/lasting_queue.h"
#include "sampler/fleet/kernel_source.h"

namespace tw::cli {

// The program for machines without a compiler; it lies beside `tracewright`, and takes the flags of `measure`.
inline constexpr const char* kBuiltMachine = "tracewright-measure";

struct MeasureFlags {
  std::string database, name;
  double seconds = 0;
  std::optional<u64> metrics;  // port
  i64 calibrate_every = kTrialsBetweenCalibrations;
  bool is_uncalibrated = false;
  bool json = false;
  std::vector<std::string> build_for;  // targets
  std::string key, built_with;         // files
};

// Nothing: go on. Else the exit code: help was printed, or the flags are wrong.
std::optional<int> parse_measure_flags(int count, char** words, MeasureFlags& flags);

// Ends on Ctrl-C, and after flags.seconds.
Waiting waiting_for(const MeasureFlags& flags);

// Measures until `waiting` says to stop, and prints what was done. `nvrtc`: see why_no_device(). Returns the exit code.
int lend_machine(const MeasureFlags& flags, const Waiting& waiting, std::shared_ptr<KernelSource> kernels,
                 const std::string& nvrtc);

}  // namespace tw::cli
