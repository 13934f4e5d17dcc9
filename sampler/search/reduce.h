// Reduce: from a failing trace to a small one that fails in the same way: fewer instructions, plainer decisions, smaller extents.
// Delta debugging; what "fails" means is the caller's. Used by `reduce` and `check`.
#pragma once
#include <functional>
#include <string>

#include "dsl/ir/program.h"
#include "dsl/schedule/trace.h"

namespace tw {

struct FailingCase {
  OwnedProgram program;  // unscheduled
  Trace trace;
};

struct ReduceOptions {
  int most_runs = 3000;  // of the test
};

struct Reduced {
  FailingCase result;
  int runs = 0;  // of the test
};

// `fails` must hold for `start`. Each case it is asked about has a program that parses and, where its decisions can be adapted,
// a trace that was.
Reduced reduce(FailingCase start, const std::function<bool(const FailingCase&)>& fails, const ReduceOptions& options = {});

}  // namespace tw
