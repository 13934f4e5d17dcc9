// CUDA C kernels written by hand and what they do in the emulator.
#pragma once
#include <string>
#include <vector>

#include "runtime/emulation/emulation.h"

namespace tw::test {

// Runs one group of `threads` threads with `body` as the kernel's text. It reads x, which holds 0, 1, 2, ..., one float
// for each thread, and writes y, as long, which is appended to the list unless there was a finding.
EmulationReport emulate_by_hand(const std::string& body, std::vector<double>& y, i64 threads = 32, int runs = 10);

}  // namespace tw::test
