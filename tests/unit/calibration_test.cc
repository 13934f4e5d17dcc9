// The calibration of a measuring machine, with real workers.
#include "sampler/fleet/calibration.h"

#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "runtime/measure/machine_probe.h"
#include "sampler/fleet/calibration_kernels.h"
#include "sampler/search/trial.h"
#include "support/opencl_device.h"
#include "support/support.h"

namespace tw {
namespace {

bool never() { return false; }

Target processor() {
  Target target = host_target();
  target.threads = 1;
  return target;
}

// By kernels that are compiled here.
Calibrate calibration_for(Measurer& measurer, const Target& target) {
  return calibration_with(measurer, target, [target](const std::function<bool()>& must_stop) {
    return compile_calibration(target, host_target(), must_stop);
  });
}

double time_of(const Calibration& calibration, const std::string& kernel) {
  for (const KernelTime& time : calibration.times) {
    if (time.kernel == kernel) return time.seconds;
  }
  ADD_FAILURE() << "no kernel " << kernel;
  return 0;
}

// The first one also compiles. A round that has begun is finished.
TEST(Calibration, OfTheProcessorTakesTwoSecondsAtMost) {
  WorkerStart worker = start_worker();
  ASSERT_TRUE(worker.measurer) << worker.error;
  Calibrate calibrate = calibration_for(*worker.measurer, processor());
  Calibration first = calibrate(never), again = calibrate(never);
  for (const Calibration* one : {&first, &again}) {
    EXPECT_EQ(one->error, "");
    EXPECT_EQ(one->times.size(), 3u);
    for (const KernelTime& time : one->times) {
      std::printf("%s %.2f us, %.2f s in all, %s\n", time.kernel.c_str(), time.seconds * 1e6, one->seconds,
                  one->is_steady ? "steady" : "not steady");
      EXPECT_GT(time.seconds, 1e-7);
      EXPECT_LT(time.seconds, 1e-2) << "a few ms";
    }
  }
  EXPECT_LT(again.seconds, 2);
}

// Each kernel is limited by what its name says: as near to what the machine can do there as simple code comes.
TEST(Calibration, KernelsAreLimitedByWhatTheyAreFor) {
  WorkerStart worker = start_worker();
  ASSERT_TRUE(worker.measurer) << worker.error;
  Calibration done = calibration_for(*worker.measurer, processor())(never);
  ASSERT_EQ(done.error, "");
  MachineFigures figures = measure_machine(1);
  double flops = 2.0 * 48 * 64 * 128 / time_of(done, "arithmetic"), bytes = 4.0 * 32768 * 64 / time_of(done, "memory"),
         cache_bytes = 3 * 4.0 * 16384 / time_of(done, "caches");
  std::printf("%.1f GFLOP/s, caches %.1f GB/s, memory %.1f GB/s (the probe: %.2f GHz, %.1f GB/s)\n", flops * 1e-9,
              cache_bytes * 1e-9, bytes * 1e-9, figures.clock * 1e-9, figures.bandwidth * 1e-9);
  EXPECT_GT(flops, 8 * figures.clock) << "fewer than eight operations a cycle: something else limits it";
  EXPECT_GT(cache_bytes, 1.5 * bytes) << "not from a cache";
}

TEST(Calibration, OfAnOpenClDevice) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  Target target;
  target.kind = TargetKind::OpenCl;
  WorkerStart worker = start_worker(worker_options(target));
  ASSERT_TRUE(worker.measurer) << worker.error;
  Calibrate calibrate = calibration_for(*worker.measurer, target);
  Calibration first = calibrate(never), again = calibrate(never);
  for (const Calibration* one : {&first, &again}) {
    EXPECT_EQ(one->error, "");
    EXPECT_EQ(one->times.size(), 3u);
    for (const KernelTime& time : one->times)
      std::printf("%s %.2f us, %.2f s in all\n", time.kernel.c_str(), time.seconds * 1e6, one->seconds);
  }
}

TEST(Calibration, EndsEarlyWhenItIsStopped) {
  WorkerStart worker = start_worker();
  ASSERT_TRUE(worker.measurer) << worker.error;
  Calibration stopped = calibration_for(*worker.measurer, processor())([] { return true; });
  EXPECT_EQ(stopped.error, "");
  EXPECT_TRUE(stopped.times.empty());
}

TEST(Calibration, SaysWhyItFails) {
  WorkerStart worker = start_worker();
  ASSERT_TRUE(worker.measurer) << worker.error;
  Target wrong = processor();
  wrong.cpu = "no such processor", wrong.triple = "no-such-machine";
  Calibration failed = calibration_for(*worker.measurer, wrong)(never);
  EXPECT_NE(failed.error, "");
  EXPECT_TRUE(failed.times.empty());
}

}  // namespace
}  // namespace tw
