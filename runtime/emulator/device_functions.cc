// The functions that device_functions.h declares: what compiled kernels ask of the machine.
#include "runtime/emulator/machine.h"

namespace {

using tw::emulator::machine;

struct Index {
  unsigned x, y, z;
};

Index index_of(const std::array<tw::i64, 3>& extents) {
  return {static_cast<unsigned>(extents[0]), static_cast<unsigned>(extents[1]), static_cast<unsigned>(extents[2])};
}

}  // namespace

extern "C" {

Index tw_emu_thread_index() {
  return {machine->thread_index()[0], machine->thread_index()[1], machine->thread_index()[2]};
}
Index tw_emu_group_index() { return {machine->group_index()[0], machine->group_index()[1], machine->group_index()[2]}; }
Index tw_emu_group_size() { return index_of(machine->launch().threads); }
Index tw_emu_grid_size() { return index_of(machine->launch().groups); }
int tw_emu_lane() { return machine->lane(); }
void tw_emu_dynamic_shared(long long bytes) { machine->need_shared(bytes); }

void tw_emu_barrier(int line) { machine->barrier(line); }
void tw_emu_exchange(unsigned mask, const void* mine, unsigned bytes, void* all, bool orders, int line) {
  machine->exchange(mask, mine, bytes, static_cast<char*>(all), orders, line);
}
int tw_emu_lane_of(unsigned mask, int lane, int line) { return machine->lane_of(mask, lane, line); }

void tw_emu_copy_async(void* to, const void* from, unsigned bytes, unsigned valid, int line) {
  machine->copy_async(to, from, bytes, valid, line, reinterpret_cast<tw::u64>(__builtin_return_address(0)));
}
void tw_emu_copy_commit() { machine->copy_commit(); }
void tw_emu_copy_wait(int groups) { machine->copy_wait(groups); }

}  // extern "C"
