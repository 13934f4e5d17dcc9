// The parts of the GPU benchmark, each run in a process of its own: a kernel that breaks its context, or a library that
// does, ends one of them. A part says what it does as JSON objects, one a line: {"begin": ...} before what may end the
// process, and rows with results.
#pragma once
#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <vector>

#include "backends/device.h"
#include "bench/gpu/process.h"

namespace tw::gpu_bench {

using Say = std::function<void(const boost::json::object&)>;

// {"case", "right", "worst", "problem"} for each device function behind the one named `after` ("": for all). Wrong: one
// is wrong, or there are no expected results. Poisoned: after the latest row the device answers this process no more,
// so that the others were not run.
ExitCode run_conformance(device::Device& device, const std::string& expected_file, const std::string& after,
                         const Say& say);

// {"ceiling", "unit", "value", "us", "detail"} and {"skipped", "problem"}: copies in the device's memory, and products
// and convolutions of the libraries. Without what begins before, and with, `after`. Poisoned: the device answers this
// process no more.
ExitCode run_ceilings(device::Device& device, const std::string& after, const Say& say);

struct TaskOptions {
  std::string list, task;
  // Instead of a search: a folder of `tune --compile-only`, or a database, whose fastest kernel is taken.
  std::string found, database;
  int finalists = 10;
  std::vector<int> skip;  // finalists that ended the process before
  double seconds = 6;     // for the comparison
  bool is_once = false;   // each kernel is run and checked once, without times: for profilers
  double limit = 460;     // for all of it: half of it ends the search, three quarters the trials, with what they have
};
// {"finalist", "us", "problem"} for each, then {"task", "target", "us", ..., "against": [...]} for the best one, in
// turn with a library; without times where it could not be timed. Wrong: no kernel is right. Poisoned: after the latest
// row the device answers this process no more.
ExitCode run_task(device::Device& device, const std::string& device_name, const TaskOptions& options, const Say& say);
// Names of the list's tasks; empty after messages.
std::vector<std::string> tasks_of(const std::string& list);

}  // namespace tw::gpu_bench
