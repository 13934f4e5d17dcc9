// Reduce: from a failing trace to a small one that fails in the same way: fewer instructions, plainer decisions,
// smaller extents. Delta debugging; what "fails" means is the caller's. Used by `reduce` and `check`.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "dsl/ir/program.h"
#include "dsl/schedule/trace.h"

namespace tw {

struct FailingCase {
  OwnedProgram program;  // unscheduled
  Trace trace;
};

// The trace with decisions that the program allows, as near as possible to its own, as far as it can be replayed.
Trace adapted(const FailingCase& failing);

struct ReduceOptions {
  int most_runs = 3000;  // of the test
  // Adapts the decisions of a case. A caller whose traces may crash or hang replays them in a child process.
  std::function<Trace(const FailingCase&)> adapt = adapted;
};

struct Reduced {
  FailingCase result;
  int runs = 0;  // of the test
};

// `fails` must hold for `start`. Each case it is asked about has a program that parses and a trace that was adapted,
// unless `start` fails only by its own decisions: then they are left as they are. Within the limit of runs the result
// is minimal: it does not fail without any one of its instructions and what depends on that.
Reduced reduce(FailingCase start, const std::function<bool(const FailingCase&)>& fails,
               const ReduceOptions& options = {});

// The case with every extent of its program above `most` replaced by `most`, and an adapted trace; nullopt where that
// is no program.
std::optional<FailingCase> shrunk(const FailingCase& failing, i64 most, const ReduceOptions& options = {});

}  // namespace tw
