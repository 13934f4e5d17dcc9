#include "costmodel/gpu/kernel_estimate.h"

#include <algorithm>
#include <cmath>

#include "dsl/base/text.h"
#include "dsl/intrinsics/intrinsic.h"

namespace tw {
namespace {

constexpr double kIrregular = 0.5;    // 0: warps and blocks wait in turn; 1: at random moments
constexpr double kOverlapLoss = 0.2;  // of units that work beside the busiest one
constexpr double kDeviceLoss = 0.05;  // of memory, second cache and multiprocessors beside the slowest of these
constexpr double kImpossible = 1e3;   // seconds of a kernel that cannot be launched: worse than all others, and finite

// The share of time in which some of `count` warps or blocks that share a unit compute. If each waited in pieces of
// random length, all of them would wait for the idle share of a closed queue (the machine repairman's); those that do
// the same are more regular than that.
double computing_share(int count, double waits, double computes) {
  double ratio = std::max(waits, 0.0) / std::max(computes, 1e-9), states = 1, term = 1;
  for (int waiting = count; waiting > 0; --waiting) states += term *= waiting / std::max(ratio, 1e-6);
  return 1 - kIrregular / states;
}

}  // namespace

void set_seconds(KernelEstimate& kernel, const GpuDevice& device) {
  if (kernel.occupancy == 0) {
    kernel.seconds = kImpossible;
    return;
  }
  double blocks = static_cast<double>(kernel.blocks()), processors = static_cast<double>(device.multiprocessors);
  double busiest = std::max({kernel.fma, kernel.issue, kernel.shared});
  double work = busiest + kOverlapLoss * (kernel.fma + kernel.issue + kernel.shared - busiest);
  kernel.waves = std::ceil(blocks / (processors * kernel.occupancy));
  // A warp keeps to one of the schedulers and its lanes; while it waits, the others of its scheduler compute.
  double warps = std::ceil(static_cast<double>(kernel.block_threads()) / kWarpLanes),
         here = std::ceil(blocks / processors);
  double of_warp = std::max(kernel.fma, kernel.issue) * kSchedulers / warps;
  double beside = std::ceil(warps / kSchedulers), own_work = std::max(work / beside, of_warp);
  double taking_turns = beside * own_work / computing_share(static_cast<int>(beside), kernel.warp_wait, own_work);
  double alone = std::max({taking_turns, own_work + kernel.warp_wait, kernel.warp_instructions}) + kernel.wait;
  auto resident = static_cast<int>(std::min<double>(kernel.occupancy, here));
  double computing = computing_share(resident, alone - work, work);
  double cycles =
      std::max({here * work / computing, std::ceil(here * warps / kSchedulers) * of_warp, kernel.waves * alone});
  double computing_time = cycles / device.clock_hz();
  double l2 = kernel.l2_bytes / static_cast<double>(device.l2_bytes_per_cycle) / device.clock_hz();
  double dram = kernel.dram_bytes / (static_cast<double>(device.memory_gb_per_second) * 1e9);
  double longest = std::max({dram, l2, computing_time});
  kernel.seconds =
      static_cast<double>(device.launch_ns) * 1e-9 + longest + kDeviceLoss * (dram + l2 + computing_time - longest);
  // Registers beyond those of a thread are spilled.
  double over = kernel.registers / static_cast<double>(most_registers(device, kernel.block_threads()));
  if (over > 1) kernel.seconds *= 1 + 4 * (over - 1) + 1;
}

void add_register_stalls(KernelEstimate& kernel, double of_instruction) {
  kernel.fma += of_instruction * kernel.issue;
  kernel.warp_instructions *= 1 + of_instruction;
  kernel.issue *= 1 + of_instruction;
}

std::string to_string(const KernelEstimate& kernel) {
  auto axes = [](const std::array<i64, 3>& n) { return cat(n[0], " x ", n[1], " x ", n[2]); };
  auto whole = [](double value) { return std::llround(value); };
  auto tenths = [](double value) { return static_cast<double>(std::llround(value * 10)) / 10; };
  if (kernel.occupancy == 0)
    return cat("grid ", axes(kernel.grid), ", block ", axes(kernel.threads), ": more than a multiprocessor has\n");
  return cat("grid ", axes(kernel.grid), ", block ", axes(kernel.threads), ", ", whole(kernel.registers),
             " registers, ", whole(kernel.shared_bytes), " bytes shared; ", kernel.occupancy,
             " blocks to a multiprocessor, ", whole(kernel.waves), " waves: ", tenths(kernel.seconds * 1e6), " us\n",
             "  cycles of a block: ", whole(kernel.fma), " of multiply-adds, ", whole(kernel.issue),
             " of instructions, ", whole(kernel.shared), " of shared memory and L1, ", whole(kernel.wait),
             " of waits, ", whole(kernel.warp_wait), " of each warp alone\n",
             "  megabytes: ", tenths(kernel.l2_bytes / 1e6), " through L2, ", tenths(kernel.dram_bytes / 1e6),
             " of memory\n");
}

}  // namespace tw
