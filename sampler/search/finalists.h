// Finalists: the best candidates of a task for a CUDA device that is not there. The search is that of `tune` with the
// analytic model in place of the learned one, and compiling with checks in place of measuring: what spills, breaks a
// limit of the device or a promise of the compiler, or is wrong by emulation, is dropped. Used by `tune
// --compile-only`. It needs NVRTC, no driver and no device.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <optional>

#include "backends/cuda/nvrtc.h"
#include "sampler/search/tune.h"
#include "sampler/strategies/strategy.h"

namespace tw {

// What a gate says of a kernel.
struct GateVerdict {
  std::string wrong;    // what it does wrong, "" = nothing was found
  std::string not_run;  // why it could not be run; "" = it was
};

struct FinalistOptions {
  int count = 8;   // finalists that are wanted
  int rounds = 6;  // of search and compiling, at most
  u64 seed = 0;
  int threads = 0;     // 0 = all this process may use
  double seconds = 0;  // when they are over, nothing new is begun, the first candidates excepted; 0 = no limit
  std::string rules = "cuda";
  // Stands in for a run on a device: does the source compute what the workload says? Called from several threads, for
  // those only that are among the best; null = none.
  std::function<GateVerdict(const Kernel& source, const Program& scheduled)> gate;
};

// One compiled kernel of a finalist.
struct FinalistFit {
  std::string name;
  BlockNeeds needs;               // shared memory: what it declares and what its launch gives
  int blocks = 0;                 // on a multiprocessor at once
  double stalls = 0;              // cycles for each instruction in which it waits for registers of one bank
  std::optional<double> seconds;  // predicted; none for prepack, which is outside of the time
};

struct Finalist {
  Candidate candidate;
  Trace trace;    // whole, with what postprocessors did
  Kernel source;  // CUDA C with its launches; symbol: the task's name
  cuda::Compiled compiled;
  std::vector<FinalistFit> kernels;  // of prepack and run, in the order of their launches
  double draft_seconds = 0;          // what the search goes by: predicted without what the machine code alone shows
  double seconds = 0;                // predicted with register stalls
  std::vector<i64> family;           // blocks, threads and shared memory of its longer kernels; see find_finalists
  GateVerdict gate;
  bool is_checked = false;  // by the gate, if there is one
};

struct FinalistResult {
  std::vector<Finalist> finalists;  // best first
  struct Dropped {
    i64 count = 0;
    std::string example;
    std::optional<Trace>
        trace;  // of the example, where a gate refused it: a wrong program is a bug of rules or lowering
  };
  std::map<std::string, Dropped>
      dropped;          // by what refused it: "lowering", "compiler", "registers", "promises", "limits", "emulation"
  std::string problem;  // why there is nothing: no NVRTC, no description of the device, no sketch
  SearchStats stats;
  i64 compiled = 0;                                // candidates that went through NVRTC
  double search_seconds = 0, compile_seconds = 0;  // wall time
};

// Those whose longer kernels have as many blocks, threads and shared memory are a family: they differ in little that a
// model can tell apart. Of each family one is taken before a second one of any, as long as it is predicted to take at
// most a quarter longer than the best: what is measured then says more. The same options give the same finalists for
// any number of threads, unless *stop is set or time is over in between. Their order may be another one: it depends on
// the registers that the machine code reads at once, and NVRTC's is not always the same (docs/replay.md).
FinalistResult find_finalists(const TuneTask& task, const rules::Library& library, const FinalistOptions& options,
                              const std::atomic<bool>& stop);

}  // namespace tw
