// How the time of a kernel is taken. The child takes the samples; the worker, which does
// not trust it, checks them against its own clock and computes the score.
//   warm up      two calls of candidate and incumbent (one, if it takes longer than two samples)
//   sample       as many calls as fill sample_seconds, at least one; wall clock. With cold operands one call, after
//                these have been taken out of the caches, which is not part of the sample
//   pair         a sample of the incumbent, then one of the candidate; a sample in which the thread was preempted,
//                waited for the CPU, or, where it is short, met an interrupt of the system's clock is repeated, six
//                times at most
//   stop         when the candidate is slower by the sequential test (slower_test.h); after `pairs` if precise enough;
//                after max_pairs; after budget_seconds as soon as there are first_pairs, or every call of it took
//                twice as long as any of the incumbent
// Without incumbent a pair is a sample of the candidate alone.
#pragma once
#include <span>
#include <vector>

#include "backends/kernel_abi.h"
#include "runtime/measure/measurer.h"

namespace tw {

using ColdOperands = std::vector<std::span<const char>>;

// A kernel ready to be called.
struct BoundKernel {
  tw_run_function run = nullptr;
  void* const* buffers = nullptr;
  void* scratch = nullptr;
  tw_parallel_for parallel_for = nullptr;
  void* pool = nullptr;
  // Runs `calls` calls and takes their time by a clock of its own; returns what `run` does. Null: one by one, by wall
  // clock.
  std::int32_t (*timed)(void* pool, int calls, i64& nanoseconds) = nullptr;
  ColdOperands cold = {};       // operands that no cache holds when a call begins
  bool is_undisturbed = false;  // that clock is a device's: what becomes of this process meanwhile is not in the time
  std::int32_t call() const { return run(buffers, scratch, parallel_for, pool); }
};

enum class SampleKind : u8 { WarmUp, Incumbent, Candidate };

struct Sample {
  i64 nanoseconds = 0;  // of all calls
  std::int32_t calls = 0;
  std::int16_t pair = -1;
  SampleKind kind = SampleKind::WarmUp;
  bool disturbed = false;
};
inline constexpr int kMaxSamples = 4096;

// In memory shared by child and worker.
struct SampleLog {
  std::int32_t count = 0;
  std::int32_t returned = 0;  // the first value other than 0 that the candidate returned
  i64 flush_nanoseconds = 0;  // of taking operands out of caches, all samples together
  Sample samples[kMaxSamples];
};

// In the child. `schedstat` is an open /proc/thread-self/schedstat, or -1. The last call is one of
// the candidate.
void take_samples(const BoundKernel& candidate, const BoundKernel* incumbent, const MeasureOptions& options,
                  int schedstat, SampleLog& log);

// In the worker: everything in MeasureResult that comes from the samples. `incumbent_seconds`: the
// incumbent's smallest time before this measurement, 0 = unknown. Sets the status to Ok or Noisy.
void evaluate_samples(const std::vector<Sample>& samples, const MeasureOptions& options, bool has_incumbent,
                      double incumbent_seconds, MeasureResult& result);

// Where an estimate by the incumbent cannot be true: the shortest sample counts, for the ratio, too.
void count_shortest_sample(MeasureResult& result);

// Returns the timing that counts out of two of one kernel: the slower one, or the second if that is noisy.
MeasureResult confirmed(const MeasureResult& first, MeasureResult second);

// Nanoseconds this process waited for a CPU, from its schedstat file; -1 if that cannot be read.
i64 read_run_delay(int schedstat);
i64 monotonic_nanoseconds();

}  // namespace tw
