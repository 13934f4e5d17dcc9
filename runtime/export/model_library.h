// An exported model (export.h) as it runs on this machine: its manifest is read, its shared library opened in a child
// process, so that nothing that it does harms the caller.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/interpreter.h"
#include "dsl/base/forked.h"
#include "runtime/export/model_plan.h"

namespace tw {

struct ModelLibrary {
  struct Step {
    std::string name, kernel;
    std::vector<ModelPlace> buffers;
    double flops = 0;
  };
  std::string folder, name;
  std::string device;  // the target, where it is no processor; else ""
  int entry = 0;       // whose inputs, outputs and steps these are
  std::vector<KernelArgument> inputs, outputs;
  std::vector<Step> steps;
  i64 memory_bytes = 0, scratch_bytes = 0, scratch_worker_bytes = 0;
  int threads = 1;  // that its kernels were made for
};

// All entries of a library, in order. Nothing, and why in `error`: no folder that `compile` wrote, a damaged manifest,
// or an export without a model.
std::optional<std::vector<ModelLibrary>> open_entries(const std::string& folder, std::string& error);
// The first one.
std::optional<ModelLibrary> open_model(const std::string& folder, std::string& error);

// Random data for each input: floats as measurements have them, integers from the range that is stated for the input,
// its ends more often than others; 0 and 1 where none is stated, as in manifests of older versions.
std::vector<HostArray> random_inputs(const std::vector<KernelArgument>& inputs, u64 seed);

// What a run takes on a device, by its clock, with inputs and outputs there; medians.
struct DeviceSeconds {
  double whole = 0;     // as the library does it
  double launched = 0;  // with kernels launched one by one
  bool has_graph = false;
};

struct ModelRun {
  std::vector<HostArray> outputs;
  double create_seconds = 0;
  std::vector<double> seconds;             // of calls behind the first one
  std::optional<DeviceSeconds> on_device;  // of libraries for devices
  std::string error;                       // why there are no outputs
  // There are none because the model crashed, ended its process or said that it failed; else it was not there.
  bool has_failed = false;
};

// Calls the model once, and then again for about `seconds`, of which a device is timed in the second half. `inputs`: an
// array for each input, of its shape and type.
ModelRun run_model(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads, double seconds = 0);

// A buffer that a step writes to.
struct StepOutput {
  std::size_t step = 0, buffer = 0;  // of its buffers
  KernelArgument tensor;             // as one piece
  i64 rows = 1, pitch = 0;           // that it lies in, and the bytes from the begin of one to that of the next
};
// What such buffers hold directly behind their steps, which run once, in order. The next step waits until they were
// taken, so that no more than two results are in memory at a time. Not of libraries for devices.
class StepOutputs {
 public:
  // Begins to run the steps. `wanted` is in their order.
  StepOutputs(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads,
              std::vector<StepOutput> wanted);

  // The next buffer of `wanted`. Nothing, and why in `error`, if the library failed before that was written.
  std::optional<HostArray> next(std::string& error);
  // Call it when all were taken: false, and why in `error`, if the library failed behind the last one.
  bool end(std::string& error);

 private:
  std::vector<StepOutput> wanted_;
  std::size_t next_ = 0;
  ForkedStream child_;
};

// The shortest time of each step, in order, where all steps are run again and again for about `seconds`; of libraries
// for devices by the device's clock. On failure nothing, and why in `error`.
std::vector<double> time_steps(const ModelLibrary& model, const std::vector<HostArray>& inputs, int threads,
                               double seconds, std::string& error);

}  // namespace tw
