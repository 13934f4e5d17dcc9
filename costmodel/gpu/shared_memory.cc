#include "costmodel/gpu/shared_memory.h"

#include <algorithm>

namespace tw {

void SharedMemory::start(const FlatProgram& program) {
  buffers_.clear();
  number_of_.assign(program.buffers.size(), 0);
  steps_.assign(program.loops.size(), {0, 0});
  for (u32 i = static_cast<u32>(program.stores.size()); i-- > 0;) {
    const FlatStore& store = program.stores[i];
    for (u32 p = 0; p < store.depth; ++p) {
      Steps& steps = steps_[program.chain[store.first_loop + p]];
      steps = {i, std::max(i, steps.last)};
    }
  }
}

void SharedMemory::add(const StoreLoops& store) {
  for (const FlatAccess& access : store.accesses()) {
    if (scope_of(store.program, access) == Scope::Shared) add_access(store, access);
  }
}

void SharedMemory::add_access(const StoreLoops& store, const FlatAccess& access) {
  const FlatProgram& program = store.program;
  const FlatBuffer& buffer = program.buffers[access.buffer];
  u32 home = program.home_depth(buffer), now = static_cast<u32>(&store.flat - program.stores.data());
  Steps steps = home < store.flat.depth ? steps_[program.chain[store.flat.first_loop + home]] : Steps{now, now};
  u32& number = number_of_[access.buffer];
  if (number == 0) {
    double elements = elements_in(program, store.flat, access, loops_from(home));
    buffers_.push_back({store.kernel, elements * buffer.element_bytes * store.stages_of(access), steps});
    number = static_cast<u32>(buffers_.size());
  }
  Steps& needed = buffers_[number - 1].needed;
  needed = {std::min(needed.first, steps.first), std::max(needed.last, steps.last)};
}

// The most is needed when a buffer begins to be.
double SharedMemory::of_kernel(u32 kernel) const {
  double most = 0;
  for (const SharedBuffer& at : buffers_) {
    double sum = 0;
    for (const SharedBuffer& other : buffers_) {
      bool is_needed = other.needed.first <= at.needed.first && at.needed.first <= other.needed.last;
      sum += other.kernel == kernel && is_needed ? other.bytes : 0;
    }
    most = at.kernel == kernel ? std::max(most, sum) : most;
  }
  return most;
}

}  // namespace tw
