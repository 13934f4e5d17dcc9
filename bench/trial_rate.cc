// trial_rate [TRIALS [MICROSECONDS]]: trials a second of a kernel that takes so long on a CUDA device, compiling left
// out, with results compared on the host and on the device. For the driver stub, whose copies take as long as those of
// a GPU's bus: 16 MiB in 2.8 ms, of which a task here has a sixteenth.
//
//   LD_LIBRARY_PATH=build/release/tests/cuda_stub TW_STUB_GEMM=512,512,16 TW_STUB_COPY=2800
//   build/release/bench/trial_rate
#include <cstdio>
#include <cstdlib>

#include "dsl/base/clock.h"
#include "dsl/text/workload.h"
#include "sampler/search/device_checks.h"
#include "sampler/search/trial.h"
#include "tests/support/stub_kernels.h"

namespace {

using namespace tw;

// 0: something failed.
double trials_a_second(const Program& program, const Target& target, bool by_device, int trials, int microseconds) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create({});
  BuiltKernel reference = build_reference(program, target, *compiler);
  WorkerStart worker = start_worker(worker_options(target));
  TaskStart task = worker.measurer ? worker.measurer->begin_task(*reference.kernel, tolerance_of(program), 1)
                                   : TaskStart{.error = worker.error};
  if (task.task < 0) return std::printf("%s\n", task.error.c_str()), 0;
  if (by_device) worker.measurer->check_on_device(task.task, device_checks(program, target, nullptr));
  // As the tuner measures (sampler/search/batch_runner.cc).
  MeasureOptions options{.pairs = 4, .max_pairs = 6, .budget_seconds = 0.04};
  Kernel best = test::stub_kernel(program, microseconds);
  worker.measurer->measure(task.task, best, options);
  options.incumbent = &best;
  worker.measurer->measure(task.task, test::stub_kernel(program, microseconds + 10), options);
  double begin = seconds_now();
  for (int i = 0; i < trials; ++i) {
    // All are 3 % slower, too little to end after a few pairs.
    MeasureResult result = worker.measurer->measure(
        task.task, test::stub_kernel(program, microseconds + microseconds / 32 + i % 4), options);
    if (result.status != MeasureStatus::Ok && result.status != MeasureStatus::Noisy)
      return std::printf("%s\n", result.message.c_str()), 0;
  }
  return trials / (seconds_now() - begin);
}

}  // namespace

int main(int count, char** words) {
  int trials = count > 1 ? std::atoi(words[1]) : 100, microseconds = count > 2 ? std::atoi(words[2]) : 1000;
  Diagnostics diagnostics(Source{"", ""});
  Target target = *parse_target("cuda -arch=sm_80", 0, diagnostics);
  Diagnostics of_library(*operator_library().source);
  OwnedProgram product =
      *instantiate(operator_library(), "matmul", {{"M", i64{512}}, {"N", i64{512}}, {"K", i64{16}}}, {}, of_library);
  for (bool by_device : {false, true})
    std::printf("%-10s %6.1f trials/s\n", by_device ? "device" : "host",
                trials_a_second(product.program, target, by_device, trials, microseconds));
  return 0;
}
