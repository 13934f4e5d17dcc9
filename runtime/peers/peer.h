// Peer: another library (OpenBLAS, BLIS, oneDNN, LibTorch; MKL, OpenBLAS, oneDNN, PyTorch of Python
// wheels) or the FMA probe, running one operator in a process of its own, to be measured beside our kernels. Used by
// the bench command. Between requests the process is stopped (SIGSTOP): threads that spin between calls, as OpenMP's
// do, would otherwise disturb whatever is measured next. Nothing here waits for ever, and nothing is decided here about
// how many samples to take or what a result must agree with.
#pragma once
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

enum class PeerStatus : u8 {
  Ok,
  Missing,      // no such peer was built, it could not be started, or its wheel is not installed
  Unsupported,  // the library cannot do this problem
  Failed,       // the peer refused the request
  TimedOut,     // no answer in time; the process was killed
  Died,         // the process ended; with how, and its last words
};
const char* name_of(PeerStatus status);

// What came of a request; unless the status is Ok, `message` is a sentence for the user and `value`
// means nothing.
template <class T>
struct [[nodiscard]] PeerResult {
  PeerStatus status = PeerStatus::Ok;
  std::string message;
  T value{};
  explicit operator bool() const { return status == PeerStatus::Ok; }
};

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

struct PeerOptions {
  int threads = 1;
  int vector_bits = 0;    // 0: the widest vectors of the CPU; 256: AVX2 at most, for targets that have no more
  std::vector<int> cpus;  // to run on; empty: the first `threads` of those that this process may use
  std::string folder;     // where the peers' programs are; empty: beside this program
  std::chrono::milliseconds start_timeout{60'000}, prepare_timeout{60'000}, sample_timeout{30'000};
};

// Names that can be given to Peer::start, whether they were built or not: "openblas", "blis",
// "onednn", "libtorch", "mkl-wheel", "openblas-wheel", "onednn-wheel", "torch-wheel", "fma". Those of wheels are
// served by the Python that $TRACEWRIGHT_PYTHON names, else by python3.
const std::vector<std::string>& peer_libraries();

class Peer {
 public:
  static PeerResult<std::unique_ptr<Peer>> start(const std::string& library, const PeerOptions& options);
  ~Peer();  // kills the process
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::string& library() const { return library_; }
  const std::string& version() const { return version_; }  // "oneDNN 2.6.3"
  int pid() const { return pid_; }

  // Makes the library ready for a problem, in place of the one before. Inputs are copied.
  PeerResult<PeerKernel> prepare(const PeerProblem& problem);
  // Nanoseconds for all of `calls` calls together, after one call outside the time.
  PeerResult<double> sample(i64 calls);
  // The result of the latest call, dense row-major.
  PeerResult<std::vector<float>> output();

 private:
  Peer(std::string library, const PeerOptions& options) : library_(std::move(library)), options_(options) {}
  PeerResult<std::string> launch(std::vector<std::string> words);
  PeerResult<std::string> request(const std::string& line, std::chrono::milliseconds timeout);
  PeerResult<std::string> read_line(std::chrono::milliseconds timeout);
  PeerResult<std::string> lost(PeerStatus status, const std::string& what);
  bool stop();
  std::string last_words() const;

  std::string library_, version_;
  PeerOptions options_;
  int pid_ = -1, socket_ = -1,
      errors_ = -1;  // errors_: an unnamed file that collects the process's stderr
  std::string unread_;
  i64 output_elements_ = 0;
};

}  // namespace tw
