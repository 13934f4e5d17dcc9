// Times a kernel on a device, interleaved with the best one so far (runtime/worker/sampling.h). With warm caches a
// sample is a graph of launches; with cold ones each launch follows a write to more memory than the caches hold.
#pragma once
#include "backends/device.h"
#include "runtime/measure/measurer.h"

namespace tw {

// Memory that no cache of the device holds all of, to push other data out.
class CacheFlush {
 public:
  explicit CacheFlush(device::Device& gpu) : gpu_(gpu) {}
  // Null: there is no memory for it. Taken with the first call, and kept.
  device::Memory* memory();

 private:
  device::Device& gpu_;
  std::unique_ptr<device::Memory> memory_;
};

// The driver's answers; 0 = good. `flush` only where options.cold_caches.
// Fills in the score, its quartiles and the times with warm caches.
int time_kernel(const device::Device& gpu, device::LoadedKernel& candidate, device::LoadedKernel* incumbent,
                double incumbent_seconds, device::Memory* flush, const MeasureOptions& options, int schedstat,
                MeasureResult& result);
// The median of options.cold_samples calls with cold caches.
int time_cold(device::LoadedKernel& kernel, device::Memory& flush, const MeasureOptions& options, double& seconds);

}  // namespace tw
