#include "costmodel/gpu/thread_registers.h"

#include <algorithm>

namespace tw {
namespace {

constexpr double kBaseRegisters = 24;  // addresses, counters
constexpr double kLoadedAhead = 32;    // registers of unrolled code

}  // namespace

void ThreadRegisters::start(std::size_t kernels, std::size_t buffers) {
  buffers_.assign(kernels, 0);
  operands_.assign(kernels, 0);
  is_counted_.assign(buffers, 0);
}

void ThreadRegisters::add(const StoreLoops& store) {
  const FlatProgram& program = store.program;
  const FlatAccess& target = store.target();
  auto step_of_sum = [&](u32 p) { return store.roles[p] == LoopRole::Body && moves(program, target, p) ? 1.0 : 0.0; };
  double of_step = 0, of_all = 0;
  for (const FlatAccess& access : store.accesses()) {
    double words = program.buffers[access.buffer].element_bytes / 4;
    if (!is_in_registers(program, access)) {
      if (access.is_write) continue;
      of_step += words * elements_in(program, store.flat, access, step_of_sum);
      of_all += words * elements_in(program, store.flat, access, store.body());
    } else if (!is_counted_[access.buffer]) {
      is_counted_[access.buffer] = 1;
      buffers_[store.kernel] += words_of_buffer(store, access);
    }
  }
  double& operands = operands_[store.kernel];
  operands = std::max({operands, of_step, std::min(of_all, kLoadedAhead)});
}

double ThreadRegisters::words_of_buffer(const StoreLoops& store, const FlatAccess& access) const {
  const FlatBuffer& buffer = store.program.buffers[access.buffer];
  u32 home = store.program.home_depth(buffer);
  double elements = elements_in(store.program, store.flat, access, loops_from(home)), threads = 1;
  for (u32 p = home; p < store.flat.depth; ++p) {
    if (store.roles[p] == LoopRole::Thread) threads *= store.extent(p);
  }
  return buffer.element_bytes / 4 * std::max(1.0, elements / threads);
}

double ThreadRegisters::of_kernel(u32 kernel) const { return buffers_[kernel] + (kBaseRegisters + operands_[kernel]); }

}  // namespace tw
