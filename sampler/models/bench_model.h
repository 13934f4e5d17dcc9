// A compiled model side by side with other libraries that run the same ONNX file: on the same inputs, threads and CPUs,
// each in a process of its own, in turn. Outputs of each are compared with ours.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/export/model_library.h"
#include "runtime/peers/bench.h"
#include "runtime/peers/model_race.h"

namespace tw {

struct ModelBench {
  std::string file;                  // ONNX
  const ModelLibrary& library;       // what was compiled from it
  std::vector<HostArray> inputs;     // of the library, in order
  std::vector<std::string> against;  // of model_libraries()
  bool is_quantized = false;         // is_quantized() of the graph
  double least_allowed = 0;          // relative difference allowed in 16 bits and for quantized models
  PeerOptions peers;  // threads, and how long a library may take to start, to load the model and for a turn
  RaceOptions race;
};

struct ModelRow {
  std::string library;                       // "tracewright", or the name of a peer
  std::string version;                       // of the library, as it says; "" for tracewright
  std::string detail;                        // how it runs the model, or why it has no times
  double seconds = 0, lower = 0, upper = 0;  // of one call: median over the rounds, and quartiles; 0 = it has none
  double ratio = 0, ratio_lower = 0, ratio_upper = 0;  // of (its time / our time) in each round, likewise
  int rounds = 0;
  double difference = 0;  // relative, of the output that differs most from ours
  Verdict verdict = Verdict::Same;
};

struct ModelBenchResult {
  std::vector<ModelRow> rows;  // ours first
  std::string error;           // why ours cannot be run; then there are no rows
};

// A library whose outputs differ from ours by more than `compile --check` allows is Wrong and is not timed; one that
// is not there, cannot run the model, dies or takes too long is Unsupported or Failed. The others go on.
ModelBenchResult bench_model(const ModelBench& bench);

}  // namespace tw
