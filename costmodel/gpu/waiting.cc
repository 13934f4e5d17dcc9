#include "costmodel/gpu/waiting.h"

#include <algorithm>

namespace tw {
namespace {

constexpr double kBarrier = 25, kArithmeticLatency = 4;  // cycles
constexpr double kAhead = 4;                             // loads of a serial loop that are under way at once

// Of what a store reads, in cycles; 0 if it reads registers only.
double latency_of(const StoreLoops& store, const GpuDevice& device) {
  bool reads_memory = false, reads_shared = false;
  for (const FlatAccess& access : store.accesses()) {
    if (access.is_write || is_in_registers(store.program, access)) continue;
    bool is_shared = scope_of(store.program, access) == Scope::Shared;
    reads_memory |= !is_shared;
    reads_shared |= is_shared;
  }
  if (store.is_warpgroup_mma) return 0;  // many follow each other before anybody waits
  if (!reads_memory) return reads_shared ? static_cast<double>(device.shared_latency) : 0;
  double latency = static_cast<double>(device.memory_latency), stages = store.stages_of(store.target());
  return store.async_width > 0 ? latency / (stages * stages) : latency;
}

// Of matrix instructions whose code is written out: how many follow each other for one tile of sums.
double steps_of_sum(const StoreLoops& store) {
  double steps = 1;
  for (u32 p = 0; p < store.flat.depth && !store.program.loop_of(store.flat, p).is_mma; ++p) {
    if (store.roles[p] == LoopRole::Body && !moves(store.program, store.target(), p)) steps *= store.extent(p);
  }
  return steps;
}

// Cycles that a thread's sums take at least: those of one result follow each other.
double chain_of(const StoreLoops& store) {
  double results = elements_in(store.program, store.flat, store.target(), store.body());
  return store.outer * store.runs * store.points / results * kArithmeticLatency * store.flat.share;
}

// Copies that are begun behind instructions of four warps, which go on meanwhile: they share the barrier of these.
bool is_copied_meanwhile(const StoreLoops& store) {
  return store.async_width > 0 &&
         std::ranges::any_of(store.program.loops, [](const FlatLoop& loop) { return loop.is_warpgroup_mma; });
}

}  // namespace

void add_waiting(const StoreLoops& store, const GpuDevice& device, double computes, KernelEstimate& kernel) {
  double latency = latency_of(store, device);
  if (is_copied_meanwhile(store)) {
    kernel.wait += store.outer * latency;
    return;
  }
  double loads = store.runs > 1 ? std::max(1.0, store.runs / kAhead) : 1;
  if (store.is_mma && !store.is_ahead && !store.is_warpgroup_mma) loads *= steps_of_sum(store);
  kernel.wait += store.outer * (latency + kBarrier);
  kernel.warp_wait += store.outer * latency * (loads - 1) + std::max(0.0, chain_of(store) - computes);
}

}  // namespace tw
