// Requests: the loads and stores that a thread asks memory for, and how long they keep shared memory and L1 busy, in
// the analytic model (gpu_draft.h).
//
// A thread asks once for as many elements as one load or store moves, 16 bytes at most. What its inner loops do not
// move is asked for once and stays in a register. Of the operands of matrix instructions, ldmatrix brings up to four
// pieces of 8 rows by 16 bytes at once, and a piece that several lanes name comes once.
//
// Instructions of four warps read both operands in shared memory, each time anew, at its full rate.
//
// The requests of a warp's lanes are served together, one wavefront a cycle (`KernelEstimate::shared`); they are
// counted for a warp's first request, lane by lane. In shared memory a request takes as many wavefronts as the fullest
// bank has different words of it, with the padding and the layout of the buffer. Elements of 8 and 16 bytes are moved
// by halves and quarters of the warp, each by itself, though all of them name the same words; two of these at once
// where lanes in pairs read the same. In global memory a wavefront brings what is asked of a line of 128 bytes.
//
// An asynchronous copy of 16 bytes goes around L1: it takes a wavefront for each line that goes to a line of shared
// memory. Where the halves of a sector go to different sectors of shared
// memory, as with rows that are padded by 16 bytes, it is brought twice, and all of the request takes as much longer.
//
// Found by what an H100 counts for products in f32 and in halves (docs/log/2026-11-27-gpu.md).
#pragma once
#include <array>
#include <vector>

#include "costmodel/gpu/kernel_estimate.h"
#include "costmodel/gpu/lane_values.h"
#include "costmodel/gpu/store_loops.h"

namespace tw {

inline constexpr double kSector = 32;  // bytes

class Requests {
 public:
  // Adds those of a store: the wavefronts of a block to `kernel`, and the instructions of a thread to `instructions`.
  // `variables`: Program::next_var.
  void add(const StoreLoops& store, u32 variables, KernelEstimate& kernel, double& instructions);
  // Bytes that a block writes to global memory by the store added last: all sectors of each request, and seven times
  // those that a request writes in part, as an H100 takes for them.
  double stored_bytes() const { return stored_bytes_; }
  // How often an asynchronous copy, the store added last, brings each sector: again for each sector of shared memory
  // that a part of it goes to.
  double split() const { return split_; }

 private:
  double add_access(const StoreLoops& store, const FlatAccess& access, KernelEstimate& kernel);
  double wavefronts(const StoreLoops& store, const FlatAccess& access, i64 width);
  double copy_wavefronts(const StoreLoops& store, const FlatAccess& from);
  double partial_sectors(const StoreLoops& store, const FlatAccess& access, i64 width);
  double add_matrix(const StoreLoops& store, const FlatAccess& access, KernelEstimate& kernel);
  double wavefronts_of_piece(const StoreLoops& store, const FlatAccess& access);
  double lanes_apart(const FlatProgram& program, const FlatAccess& access);
  i64 find_offsets(const StoreLoops& store, const FlatAccess& access, Lanes& offsets) const;

  LaneValues lanes_;  // at the store at hand
  double stored_bytes_ = 0, split_ = 1;
  std::vector<i64> words_;  // different words or sectors of a request
  std::vector<std::pair<i64, i64>> pieces_, lines_;
};

}  // namespace tw
