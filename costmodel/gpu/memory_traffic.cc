#include "costmodel/gpu/memory_traffic.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/gpu/requests.h"

namespace tw {
namespace {

constexpr double kLeastL1 = 16 << 10;

// Bytes of an access in whole sectors, while parts of the loops run (access_box.h).
template <class Part>
double bytes_in(const StoreLoops& store, const FlatAccess& access, Part part) {
  double extents[kMostDims], rows = 1;
  double each = store.program.buffers[access.buffer].element_bytes;
  if (access.rank == 0) return kSector;
  box_of(store.program, access, part, extents);
  for (u32 d = 0; d + 1 < access.rank; ++d) rows *= extents[d];
  return rows * std::ceil(extents[access.rank - 1] * each / kSector) * kSector;
}

// The loops of one block from the position `first` on, and all of its threads.
auto of_block(const StoreLoops& store, u32 first) {
  return [&store, first](u32 p) {
    LoopRole role = store.roles[p];
    return role == LoopRole::Thread || (role != LoopRole::Block && p >= first) ? 1.0 : 0.0;
  };
}

// What a block may keep of L1, which shared memory is a part of.
double l1_bytes(const GpuDevice& device, const KernelEstimate& kernel) {
  double blocks = std::max(1, kernel.occupancy);
  return std::max(kLeastL1, static_cast<double>(device.shared_per_multiprocessor) - blocks * kernel.shared_bytes) /
         blocks;
}

double blocks_at_once(const GpuDevice& device, const KernelEstimate& kernel) {
  return static_cast<double>(device.multiprocessors) * std::max(1, kernel.occupancy);
}

// Which part of each axis of the grid the blocks of a wave take.
std::array<double, 3> parts_of_wave(const GpuDevice& device, const KernelEstimate& kernel) {
  std::array<double, 3> parts{};
  double at_once = blocks_at_once(device, kernel);
  for (std::size_t d = 0; d < 3; ++d) {
    double extent = static_cast<double>(kernel.grid[d]);
    parts[d] = std::clamp(at_once, 1.0, extent) / extent;
    at_once /= extent;
  }
  return parts;
}

}  // namespace

void MemoryTraffic::find_accesses(const StoreLoops& store) {
  accesses_.clear();
  for (const FlatAccess& access : store.accesses()) {
    if (scope_of(store.program, access) == Scope::Global && !store.same_before(access))
      accesses_.push_back({&access, 0});
  }
}

// The outermost loop inside of which all that the block touches fits into L1; the depth of the store if there is none.
u32 MemoryTraffic::first_fitting(const StoreLoops& store, double l1_bytes) const {
  u32 fitting = store.flat.depth;
  for (u32 first = store.flat.depth; first-- > 0;) {
    double bytes = 0;
    for (const Access& one : accesses_) bytes += bytes_in(store, *one.access, of_block(store, first));
    if (bytes > l1_bytes) break;
    fitting = first;
  }
  return fitting;
}

// Loops outside of what fits come back to what they do not move; what they move, they go through once.
void MemoryTraffic::measure_block(const StoreLoops& store, double l1_bytes) {
  u32 fitting = first_fitting(store, l1_bytes);
  for (Access& one : accesses_) {
    double passes = 1, repeats = 1;
    for (u32 p = 0; p < fitting; ++p) {
      if (store.roles[p] == LoopRole::Block || store.roles[p] == LoopRole::Thread) continue;
      passes *= store.extent(p);
      if (!moves(store.program, *one.access, p)) repeats *= store.extent(p);
    }
    one.bytes = std::min(passes * bytes_in(store, *one.access, of_block(store, fitting)),
                         repeats * bytes_in(store, *one.access, of_block(store, 0)));
  }
}

void MemoryTraffic::add(const StoreLoops& store, const GpuDevice& device, const Requests& requests,
                        KernelEstimate& kernel) {
  find_accesses(store);
  measure_block(store, l1_bytes(device, kernel));
  double blocks = static_cast<double>(kernel.blocks()), waves = std::ceil(blocks / blocks_at_once(device, kernel));
  std::array<double, 3> parts = parts_of_wave(device, kernel);
  auto of_wave = [&](u32 p) {
    return store.roles[p] == LoopRole::Block
               ? parts[static_cast<std::size_t>(store.program.loop_of(store.flat, p).axis)]
               : 1.0;
  };
  double unique = 0, by_waves = 0, through_l2 = 0, boxes_stored = 0;
  for (const Access& one : accesses_) {
    boxes_stored += one.access->is_write ? one.bytes : 0;
    unique += bytes_in(store, *one.access, loops_from(0));
    by_waves += waves * bytes_in(store, *one.access, of_wave);
    through_l2 += one.bytes * blocks * requests.split();
  }
  through_l2 = std::max(through_l2 + std::max(0.0, requests.stored_bytes() - boxes_stored) * blocks, unique);
  bool fits = unique <= static_cast<double>(device.l2_bytes);
  kernel.l2_bytes += store.flat.share * through_l2;
  // What guards leave out at the ends of tiles and copies is nothing that need not move.
  kernel.dram_bytes += std::max(store.flat.share * (fits ? unique : std::clamp(by_waves, unique, through_l2)), unique);
}

}  // namespace tw
