// StoreLoops: one store statement of a GPU kernel with the loops around it, and what each of these is on the device.
// The parts of the analytic model (gpu_draft.h) count what such a store takes.
//
// Loops that are bound to blockIdx and threadIdx are done by the grid. A serial loop around the thread loops is done by
// the whole block: in each pass all warps run the steps inside, and wait for each other at barriers. The other loops
// are done by each thread for itself. Some of these are unrolled: those that the schedule marks, and those whose
// variable selects a register, which lowering or the compiler unrolls. Where a loop is unrolled, so are the loops
// inside of it.
#pragma once
#include <span>
#include <vector>

#include "costmodel/access_box.h"
#include "costmodel/flat_program.h"

namespace tw {

inline constexpr double kWidestLoad = 16;  // bytes

enum class LoopRole : u8 {
  Block,   // bound to blockIdx
  Thread,  // bound to threadIdx
  Outer,   // serial, around the thread loops
  Inner,   // of a thread, a loop in its code
  Body,    // of a thread, unrolled
};

inline Scope scope_of(const FlatProgram& program, const FlatAccess& access) {
  return program.buffers[access.buffer].buffer->scope;
}
bool is_in_registers(const FlatProgram& program, const FlatAccess& access);

// A part for access_box.h: the loops from the position `first` on run, those around them stand still.
inline auto loops_from(u32 first) {
  return [first](u32 p) { return p >= first ? 1.0 : 0.0; };
}

// Refers to the program and its store, which must outlive it.
struct StoreLoops {
  // `kernel`: the number of the kernel that the store is in.
  StoreLoops(const FlatProgram& program, const FlatStore& store, u32 kernel);

  const FlatProgram& program;
  const FlatStore& flat;
  u32 kernel;
  std::vector<LoopRole> roles;  // by position of the loop, outermost first
  u32 first_unrolled = 0;       // position of the outermost Body loop
  // Products of the extents of the Outer, Inner, Body and Thread loops: passes of the block, runs of a thread's
  // unrolled code in each of them, points of that code, threads that take part. And the warps of these.
  double outer = 1, runs = 1, points = 1, threads = 1, warps = 1;
  bool is_mma = false;            // done by matrix instructions
  bool is_ahead = false;          // whose operands are loaded before the instructions of the step before
  bool is_warpgroup_mma = false;  // of four warps, which read operands in shared memory
  double mma_points = 1;          // multiply-adds of a lane that one of these does
  u32 first_mma = 0;              // position of the outermost loop of such an instruction
  // Elements that an asynchronous copy into shared memory moves at once; 0 = the store is no such copy.
  i64 async_width = 0;

  // An asynchronous copy of 16 bytes goes around L1.
  bool is_past_l1() const {
    return static_cast<double>(async_width) * program.buffers[target().buffer].element_bytes >= kWidestLoad;
  }
  // Matrix instructions that a thread issues.
  double mma_count() const { return outer * runs * points / mma_points * flat.share; }
  double extent(u32 p) const { return static_cast<double>(program.loop_of(flat, p).extent); }
  // A part for access_box.h: the unrolled loops run.
  auto body() const {
    return [this](u32 p) { return roles[p] == LoopRole::Body ? 1.0 : 0.0; };
  }
  std::span<const FlatAccess> accesses() const { return {program.accesses.data() + flat.first_access, flat.accesses}; }
  const FlatAccess& target() const { return program.accesses[flat.first_access]; }
  // The access before this one, if this one reads the same elements; else null.
  const FlatAccess* same_before(const FlatAccess& access) const;
  // The widest load that a thread can take, in elements: a run of the last dimension must be unrolled and aligned.
  i64 width_of(const FlatAccess& access) const;
  // How many passes of the loop around it a copy into shared memory is ahead, plus one; 1 for other accesses.
  double stages_of(const FlatAccess& access) const;

 private:
  void find_roles();
  void find_unrolled();
  void count_runs();
  bool is_unrolled(u32 p) const;
  bool is_async() const;
};

}  // namespace tw
