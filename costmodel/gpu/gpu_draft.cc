#include "costmodel/gpu/gpu_draft.h"

#include <algorithm>

#include "costmodel/gpu/store_loops.h"
#include "costmodel/gpu/thread_work.h"
#include "costmodel/gpu/waiting.h"
#include "dsl/intrinsics/intrinsic.h"

namespace tw {
namespace {

constexpr double kLoopInstructions = 3;  // of each pass of a loop that is not unrolled

// The stores of all kernels. Those of one top-level loop are one kernel.
std::vector<StoreLoops> stores_of_kernels(const FlatProgram& program) {
  std::vector<StoreLoops> out;
  out.reserve(program.stores.size());
  u32 count = 0;
  i64 last_root = -1;
  for (const FlatStore& store : program.stores) {
    i64 root = store.depth > 0 ? static_cast<i64>(program.chain[store.first_loop]) : -1;
    if (root < 0 || root != last_root) ++count;
    last_root = root;
    out.emplace_back(program, store, count - 1);
  }
  return out;
}

// Axes of the grid and of a block are as long as the longest loop that is bound to them.
void widen_grid(const StoreLoops& store, KernelEstimate& kernel) {
  for (u32 p = 0; p < store.flat.depth; ++p) {
    const FlatLoop& loop = store.program.loop_of(store.flat, p);
    if (loop.axis < 0) continue;
    i64& extent = (loop.axis < 3 ? kernel.grid : kernel.threads)[static_cast<std::size_t>(loop.axis % 3)];
    extent = std::max(extent, loop.extent);
  }
}

// Multiply-adds of a multiprocessor in a cycle. Matrix instructions multiply operands of half the size twice as fast.
double lanes_for(const StoreLoops& store, const GpuDevice& device) {
  if (store.is_warpgroup_mma && device.wgmma_f16_per_cycle > 0) return static_cast<double>(device.wgmma_f16_per_cycle);
  if (store.is_mma && device.tensor_f16_per_cycle > 0 && store.flat.accesses > 1)
    return 2 * static_cast<double>(device.tensor_f16_per_cycle) /
           store.program.buffers[store.accesses().back().buffer].element_bytes;
  bool is_double = store.flat.node->targets[0].buffer->dtype == DType::F64;
  return static_cast<double>(is_double ? device.f64_per_cycle : device.f32_per_cycle);
}

}  // namespace

double GpuDraft::seconds(const Program& program, const std::vector<int>& known_registers) {
  const FlatProgram& flat = reader_.read(program);
  std::vector<StoreLoops> stores = stores_of_kernels(flat);
  kernels_.assign(stores.empty() ? 0 : stores.back().kernel + 1, {});
  registers_.start(kernels_.size(), flat.buffers.size());
  shared_.start(flat);
  for (const StoreLoops& store : stores) {
    widen_grid(store, kernels_[store.kernel]);
    registers_.add(store);
    shared_.add(store);
  }
  for (u32 k = 0; k < kernels_.size(); ++k) {
    bool is_known = known_registers.size() == kernels_.size();
    kernels_[k].registers = is_known ? known_registers[k] : registers_.of_kernel(k);
    set_occupancy(k);
  }
  for (const StoreLoops& store : stores) add_store(store, program.next_var);
  double sum = 1e-9;
  for (KernelEstimate& kernel : kernels_) set_seconds(kernel, device_), sum += kernel.seconds;
  return sum;
}

void GpuDraft::set_occupancy(u32 k) {
  KernelEstimate& kernel = kernels_[k];
  kernel.shared_bytes = shared_.of_kernel(k);
  i64 registers = std::min(static_cast<i64>(kernel.registers), most_registers(device_, kernel.block_threads()));
  kernel.occupancy = occupancy(device_, {kernel.block_threads(), registers, static_cast<i64>(kernel.shared_bytes)});
}

// Once the grid and the occupancy of its kernel are known.
void GpuDraft::add_store(const StoreLoops& store, u32 variables) {
  KernelEstimate& kernel = kernels_[store.kernel];
  double work = store.flat.share * thread_work(store), lanes = lanes_for(store, device_);
  double instructions = work / store.mma_points + kLoopInstructions * store.outer * store.runs;
  requests_.add(store, variables, kernel, instructions);
  kernel.fma += work * store.warps * kWarpLanes / lanes;
  kernel.issue += instructions * store.warps / kSchedulers;
  kernel.warp_instructions += instructions;
  double computes = std::max(work * kWarpLanes / lanes * kSchedulers, instructions);
  add_waiting(store, device_, computes, kernel);
  traffic_.add(store, device_, requests_, kernel);
}

}  // namespace tw
