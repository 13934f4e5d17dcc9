// Peer: another library (OpenBLAS, BLIS, oneDNN, LibTorch; MKL, OpenBLAS, oneDNN, PyTorch of Python
// wheels) or the FMA probe, running one operator in a process of its own, to be measured beside our kernels. Used by
// the bench command. Nothing is decided here about how many samples to take or what a result must agree with.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/peers/peer_process.h"

namespace tw {

// One task, named as in a task list. Inputs are dense row-major f32: the operator's, then those of
// the epilogue, in order.
struct PeerProblem {
  std::string op;
  std::vector<std::pair<std::string, i64>> args;
  std::vector<std::string> epilogue;
  std::vector<std::span<const float>> inputs;
};

struct PeerKernel {
  double flops = 0;  // of one call; 0 where that says nothing (softmax)
  i64 output_elements = 0;
  std::string detail;  // which of its ways the library takes
};

// Names that can be given to Peer::start, whether they were built or not: "openblas", "blis",
// "onednn", "libtorch", "mkl-wheel", "openblas-wheel", "onednn-wheel", "torch-wheel", "fma". Those of wheels are
// served by the Python that $TRACEWRIGHT_PYTHON names, else by python3.
const std::vector<std::string>& peer_libraries();

class Peer {
 public:
  static PeerResult<std::unique_ptr<Peer>> start(const std::string& library, const PeerOptions& options);
  const std::string& library() const { return library_; }
  const std::string& version() const { return version_; }  // "oneDNN 2.6.3"
  int pid() const { return process_.pid(); }

  // Makes the library ready for a problem, in place of the one before. Inputs are copied.
  PeerResult<PeerKernel> prepare(const PeerProblem& problem);
  // Nanoseconds for all of `calls` calls together, after one call outside the time.
  PeerResult<double> sample(i64 calls);
  // The result of the latest call, dense row-major.
  PeerResult<std::vector<float>> output();

 private:
  Peer(const std::string& library, const PeerOptions& options)
      : library_(library), options_(options), process_(library, options) {}

  std::string library_, version_;
  PeerOptions options_;
  PeerProcess process_;
  i64 output_elements_ = 0;
};

}  // namespace tw
