// ModelPeer: another library (ONNX Runtime, OpenVINO, PyTorch, each as the wheel that a user has installed), or one of
// our own compiled models, running a whole model in a process of its own. All answer the same lines, so all are timed
// alike. Used by sampler/models/bench_model.h, which says how long and what an output must agree with.
//
//   (start)            ready VERSION | missing WHY
//   load {"model", "inputs": [{"name", "dtype", "shape", "file"}]}
//                      ok {"outputs": COUNT, "detail"} | unsupported WHY | error WHY; the model has run once
//   turn SECONDS       ok NANOSECONDS CALLS: the median of so many calls; one more comes first and is not timed
//   output INDEX FILE  ok {"dtype", "shape"}; the bytes of the latest call's output are in the file
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/interpreter.h"
#include "backends/kernel.h"
#include "runtime/peers/peer_process.h"

namespace tw {

// "onnxruntime", "openvino", "torch-eager", "torch-compile": served by the Python that $TRACEWRIGHT_PYTHON names, else
// by python3.
const std::vector<std::string>& model_libraries();

// A model that answers in a fork of this process.
class ServedModel {
 public:
  virtual ~ServedModel() = default;
  virtual std::string load() = 0;  // "", or why it cannot run
  virtual bool run() = 0;          // one call; false if it failed
  virtual std::size_t outputs() const = 0;
  virtual HostArray output(std::size_t index) const = 0;  // of the latest call
};

struct ModelTurn {
  double seconds = 0;  // median of the calls
  i64 calls = 0;
};

class ModelPeer {
 public:
  static PeerResult<std::unique_ptr<ModelPeer>> start(const std::string& library, const PeerOptions& options);
  // `model` is used in the fork only.
  static PeerResult<std::unique_ptr<ModelPeer>> start(const std::string& name, ServedModel& model,
                                                      const PeerOptions& options);
  const std::string& version() const { return version_; }  // "ONNX Runtime 1.23.0"

  // Reads the file and runs the model once on `data`, an array for each of `inputs`. The value says how it is run; it
  // fails, too, if the number of outputs is another one.
  PeerResult<std::string> load(const std::string& file, const std::vector<KernelArgument>& inputs,
                               const std::vector<HostArray>& data, std::size_t outputs);
  // Calls it for about so long, at least once.
  PeerResult<ModelTurn> turn(double seconds);
  // An output of the latest call; it fails if it has another type or shape. An i64[n, 3] may have fewer rows: those
  // that it lacks are then -1, as in our results of NonMaxSuppression.
  PeerResult<HostArray> output(std::size_t index, DType dtype, const std::vector<i64>& shape);

 private:
  ModelPeer(const std::string& name, const PeerOptions& options)
      : name_(name), options_(options), process_(name, options) {}

  std::string name_, version_;
  PeerOptions options_;
  PeerProcess process_;
};

}  // namespace tw
