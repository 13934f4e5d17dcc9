// Bench: one of our kernels side by side with other libraries. Everything runs in processes of its
// own on the same CPUs, one at a time: ours is called before or after each sample of another, and
// only the ratios of such pairs count, so that a machine whose speed drifts does not decide. Used
// by the bench command. It compiles nothing and reads no database.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "runtime/peers/peer.h"

namespace tw {

// A compiled kernel in a process of its own: if it crashes or hangs, only that process does.
class KernelProcess {
 public:
  // `inputs`: for each input and constant by name, its bytes. Null after a failure, which `error`
  // explains.
  struct Input {
    std::string name;
    std::vector<char> bytes;
  };
  static std::unique_ptr<KernelProcess> start(const Kernel& kernel, const std::vector<Input>& inputs, int threads,
                                              std::string& error);
  ~KernelProcess();
  KernelProcess(const KernelProcess&) = delete;
  KernelProcess& operator=(const KernelProcess&) = delete;

  // Nanoseconds for all of `calls` calls together, after one call outside the time. nullopt: it
  // crashed or hung, see error().
  std::optional<double> sample(i64 calls);
  // The outputs after the latest call. They are filled with ones before each sample.
  struct Output {
    std::string name;
    DType dtype;
    i64 bytes;
    char* data;  // shared with the process
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  const std::string& error() const { return error_; }

 private:
  KernelProcess() = default;
  bool ask(i64 calls, i64& answer);

  int pid_ = -1, socket_ = -1;
  std::vector<Output> outputs_;
  std::string error_;
};

struct BenchTask {
  std::string name;
  Kernel kernel;
  int threads = 1;
  int vector_bits = 256;  // of the target: peers get no wider ones if it is 256
  double flops = 0;       // of one call
  std::vector<KernelProcess::Input> inputs;
  // The reference and the tolerance, as for trials: build_reference() and tolerance_of() of sampler/search/trial.h.
  Kernel reference;
  Tolerance tolerance;
  // The same task for the libraries; its inputs point into `inputs`. Empty op: no library is asked.
  PeerProblem problem;
};

// Is tracewright faster than the library? By the quartiles of the ratios: both above 1, or both
// below, or around it. Wrong: results differ from the reference. Failed: the library broke down.
// Unsupported: it cannot do this task.
enum class Verdict : u8 { Faster, Slower, Same, Wrong, Failed, Unsupported };
const char* name_of(Verdict verdict);

struct BenchRow {
  std::string library;          // "tracewright", or the name of a peer
  double seconds = 0;           // median of its samples
  double ratio = 0;             // median over pairs of (library's time / our time); for tracewright the share
                                // of the FMA peak
  double lower = 0, upper = 0;  // quartiles of it
  double peak_share = 0;        // of the FMA peak, 0 = not known
  int pairs = 0;
  Verdict verdict = Verdict::Same;
  std::string detail;   // the way the library takes, or why it has no time
  std::string version;  // of the library, as it says: "oneDNN 2.6.3"; "" for tracewright
};

struct BenchResult {
  std::vector<BenchRow> rows;  // ours first
  double fma_gflops = 0;       // median of the samples taken in turn with ours; 0 = no probe
  std::string error;           // ours could not be run
};

// At least `pairs` pairs with the FMA probe and with each library. All outputs of ours, and the one
// of the library, are compared with the reference; a row whose results differ is Wrong.
BenchResult bench_task(const BenchTask& task, const std::vector<std::string>& libraries, int pairs);

// The FMA probe alone: GFLOP/s, median of 20 samples; 0 if it is not there.
double measure_fma_peak(int threads, int vector_bits);

}  // namespace tw
