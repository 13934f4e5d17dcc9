// Measurer: runs compiled kernels in an isolated worker process, checks their results against a
// reference and times them. Used by the search, bench and check. It never lets a kernel crash, hang
// or deceive the caller: whatever a kernel does is a MeasureResult. It does not compile, does not
// choose and does not store.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/kernel.h"

namespace tw {

enum class MeasureStatus : u8 {
  Ok,
  BuildError,   // the object could not be loaded: message names the symbol, relocation or missing
                // entry point
  Crash,        // a signal: message says which, and where
  Timeout,      // did not return within the limit
  OutOfMemory,  // needs more memory than allowed, or overflowed its stack
  OutOfBounds,  // touched memory outside its buffers
  WrongResult,  // differs from the reference
  Cheat,        // wrote to an input or to its own data, or its time disagrees with the parent's clock
  Forbidden,    // made a system call
  Noisy,        // measured and correct, but the machine was too disturbed for a good time; seconds is the
                // best guess
  WorkerLost,   // the worker process itself died; it is restarted, and the kernel may be measured
                // again
  TooFast,      // faster than this machine can do MeasureOptions::least_flops, twice: a cheat, or a
                // clock that cannot be trusted. It is no time to compare with
};
inline constexpr int kMeasureStatuses = 12;
const char* name_of(MeasureStatus status);  // "ok", "build error", ...

// For a cold time that is reported, and for that of any trial.
inline constexpr int kColdSamples = 20, kColdSamplesOfTrial = 5;

struct MeasureOptions {
  // The best kernel so far: the candidate is timed in turn with it. nullptr = alone.
  const Kernel* incumbent = nullptr;
  int threads = 1;   // 1 = the kernel gets a null pool
  bool time = true;  // false: only check the result
  // f32 operations that no honest kernel can leave out, a multiply-add being two; f64 ones count
  // double. By the worker's FMA probe (runtime/measure/fma_probe.h) they take a time that no kernel can
  // undercut; 5 % are allowed for. 0 = unknown, no bound.
  double least_flops = 0;
  // Limit of one phase: two checked calls with their prepack. Timing has ten times as much.
  double timeout_seconds = 2;
  // > 0: a kernel whose first checked call takes longer is timed by that call alone, and its result
  // compared once. For our own untuned program and for what is too slow to become the best; others could cheat.
  double single_call_seconds = 0;
  // > 0: where both checked calls take longer than this, they are the measurement, with an incumbent, too: its time is
  // the one that is known. Repeating such calls takes minutes and says little more.
  double checked_call_seconds = 0;

  // How the time is taken: see runtime/worker/sampling.h. A pair is one sample of the candidate and
  // one of the incumbent; a sample repeats the kernel for sample_seconds, or calls it once.
  double sample_seconds = 0.3e-3;
  int first_pairs = 3;  // enough once timing took budget_seconds
  int pairs = 10;       // enough for one that is precise
  int max_pairs = 24;
  // The error of the sequential test that ends the timing of a slower candidate: the probability that it does so to one
  // that is not slower (runtime/measure/slower_test.h). `noise` of a pair is set by the measurer, from its last
  // measurements; 0 = not known.
  double lost = 1e-3, noise = 0;
  // Precise: (quartile distance) / sqrt(pairs) is below this part of the median.
  double precision = 0.01;
  double budget_seconds = 0.1;  // no further pairs after the first ones once timing took so long
  // The fastest of many measurements is often one that was lucky: a candidate whose ratio is below `below` is timed
  // once more, longer, in the same process, and the slower of the two timings counts. Not on devices.
  struct Confirmation {
    double below = 0;  // 0 = never
    int pairs = 12, max_pairs = 32;
    double budget_seconds = 0.25;
  } confirmation;
  // On devices: single calls that are timed with cold caches, each after other data went through them; no more than
  // three where these take budget_seconds. What they compute is compared once more. 0 = none.
  int cold_samples = 0;
  // The score is the time with cold caches, of candidate and incumbent alike. On processors constants alone are cold,
  // packed or not: they come from memory in every call, and the other operands are where the call before left them.
  bool cold_caches = false;
};

// Where the time of a measurement went.
struct MeasureSeconds {
  double buffers = 0;  // made, poisoned, filled with other data
  double start = 0;    // fork, sandbox, loader
  double run = 0;      // calls that are checked
  double compare = 0;
  double timing = 0;
};

struct MeasureResult {
  MeasureStatus status = MeasureStatus::WorkerLost;
  std::string message;    // one sentence; empty if Ok
  bool was_tried = true;  // false: there is no worker and none could be started (WorkerLost)
  // The score: time of one call. With an incumbent: ratio x the incumbent's smallest time so far in
  // this task; without: the smallest sample. 0 if nothing was timed.
  double seconds = 0;
  // Median of candidate / incumbent over the pairs, or where these disagree the lower quartile of the candidate's
  // samples by that of the incumbent's; 0 without incumbent.
  double ratio = 0;
  // Quartiles of the ratios of the pairs. Without an incumbent, quartiles of the samples in seconds.
  double lower_quartile = 0, upper_quartile = 0;
  double min_seconds = 0, median_seconds = 0;  // of the candidate's samples, with warm caches
  double incumbent_seconds = 0;                // smallest sample of the incumbent in this measurement
  int pairs = 0;                               // undisturbed pairs (or samples) used
  int disturbed = 0;                           // samples thrown away
  double max_error = 0;                        // largest |actual - expected| in the checked outputs
  double prepack_seconds = 0;
  double device_seconds = 0;  // of the kernels alone, by the clock of a device; 0 on processors
  // The same with cold caches, median of cold_samples; 0 = not asked for, or no memory to push other
  // data through the caches.
  double cold_seconds = 0;
  bool is_slower = false;    // by the sequential test: few pairs were taken
  double noise = 0;          // of the incumbent's samples; 0 = not known
  double spent_seconds = 0;  // wall time of the whole measurement, and its parts in the worker
  MeasureSeconds parts;
  bool was_stopped = false;  // Measurer::stop_when ended it: nothing is known of the kernel
};

inline constexpr int kSets = 2;  // sets of random inputs, for each task

// Some elements of an output with their expected values.
struct OutputSample {
  std::string name;
  i64 count = 0;                            // of all elements of the output
  std::vector<i64> positions;               // row-major
  std::vector<double> expected, variances;  // one for each; variances: none where rounding changes nothing
};

// Used instead of a reference kernel where computing all results would take too long.
struct SampledReference {
  std::vector<KernelArgument> arguments;                 // inputs, constants and outputs of the workload
  std::array<std::vector<OutputSample>, kSets> samples;  // of each set, one for each output
};

// A kernel that looks at data where it lies, on the device (sampler/search/device_checks.h).
enum class DeviceCheckKind : u8 {
  Compare,  // all of an output with its reference
  Pick,     // brings the elements of an output that a sample has
  Numbers,  // is all of an output numbers?
  Same,     // is an input what it was?
};
struct DeviceCheck {
  DeviceCheckKind kind = DeviceCheckKind::Compare;
  std::string of;  // the input or output
  Kernel kernel;
};

// A workload with its data and reference outputs, held by the worker.
struct TaskStart {
  int task = -1;                                     // handle for measure(), or -1 if the reference failed
  MeasureStatus status = MeasureStatus::WorkerLost;  // what became of the reference: Ok with a task
  std::string error;                                 // why it failed; one sentence
  double reference_seconds = 0;                      // one call of the reference
  bool was_stopped = false;                          // Measurer::stop_when ended it
};

// The wall between the search and processes, clocks and devices; tests of the search use a fake
// one. Not thread-safe.
class Measurer {
 public:
  virtual ~Measurer() = default;
  // Does `work`, once: on the calling thread, while the worker is busy with the next kernel, or right away.
  virtual void do_meanwhile(std::function<void()> work) { work(); }
  // Makes two sets of random inputs and constants from `seed` (fill_input in
  // runtime/measure/elements.h) and runs `reference` on both in a child process. Candidates
  // have the same inputs, constants and outputs by name; outputs may have another element type.
  // Tasks may be begun while others are open; each keeps its data in the worker's memory.
  virtual TaskStart begin_task(const Kernel& reference, Tolerance tolerance, u64 seed) = 0;
  // The same with a sample instead of a reference kernel; only if takes_samples(). Results are compared at the sample's
  // positions, and every element must have been written (see Task::check). The sample must be that of the data that
  // `seed` gives.
  virtual bool takes_samples() const { return false; }
  virtual TaskStart begin_sampled_task(const SampledReference& reference, Tolerance tolerance, u64 seed) {
    (void)reference, (void)tolerance, (void)seed;
    return {.error = "this measurer takes no samples"};
  }
  // From now on results of the task that the device itself finds right are not read, but for those of a kernel that may
  // become the best, or is not timed. Of devices only, and where they have the memory.
  virtual void check_on_device(int task, std::vector<DeviceCheck> checks) { (void)task, (void)checks; }
  virtual void end_task(int task) = 0;
  // Runs, checks and times one kernel.
  virtual MeasureResult measure(int task, const Kernel& candidate, const MeasureOptions& options) = 0;
  // `is_wanted` is asked while the calls above wait for the worker. Once it is true, a task that is being begun is
  // given up at once, and a measurement after half a second, in which short kernels come to their end.
  virtual void stop_when(std::function<bool()> is_wanted) { (void)is_wanted; }
};

struct WorkerOptions {
  // Empty: $TRACEWRIGHT_WORKER, else `program` beside this library or in its ../bin.
  std::string executable;
  std::string program = "tracewright-worker";
  // A device's index, with a program that measures on devices: then the worker gets this process's
  // environment (drivers look there), and a new one is started after a kernel that hangs or crashes
  // it. -1 = measures on the processor.
  int device = -1;
  // CPU for the measuring thread; -1 = the last one this process may use. Further kernel threads
  // take the others.
  int core = -1;
  // For the buffers of one measurement, and for address space beyond what the worker has.
  i64 memory_bytes = i64{8} << 30;
  // The most memory for the data of all open tasks (inputs, results, references); 0 = nine tenths of what is free when
  // the worker starts.
  i64 data_bytes = 0;
  double reference_timeout_seconds = 120;
};

// A Measurer with a worker process of its own, which lives until the Measurer does and is restarted
// when it dies.
struct WorkerStart {
  std::unique_ptr<Measurer> measurer;  // null on failure
  std::string error;
};
WorkerStart start_worker(const WorkerOptions& options = {});
// What the worker of a kind of devices finds, asked in a process of its own: a line for each device, its number first;
// none with the reason in `error`.
struct DeviceList {
  std::vector<std::string> devices;
  std::string error;
};
DeviceList list_devices(const WorkerOptions& options);
// The bytes of memory of options.device, asked in the same way; 0 if they are not known.
i64 device_memory_bytes(const WorkerOptions& options);
// What the driver of a device makes of source text (backends/device.h), asked in the same way: `error` says why it is
// empty.
struct DeviceBinary {
  std::string bytes, device, driver;
  std::string error;
};
DeviceBinary make_device_binary(const WorkerOptions& options, const std::string& source);
// The executable that start_worker would start; "" with where it was looked for in `error`.
std::string worker_path(const WorkerOptions& options, std::string& error);

}  // namespace tw
