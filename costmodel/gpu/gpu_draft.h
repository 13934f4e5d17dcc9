// The draft model for GPUs: an analytic estimate of a scheduled program's run time on a described device
// (gpu_device.h). The search uses it where there is no device to measure on: it orders candidates of one task; its
// seconds are rough. It never sees a measurement, and knows nothing of instruction order, register banks or power.
//
// Every top-level nest is a kernel. Of each (t, wait, own in cycles; G blocks of W warps to each of 4 schedulers, S multiprocessors,
// occupancy o; u(n, w / c) the share of time in which some of n compute if each waits w for each c that it computes):
//   time    launch + the longest of dram / bandwidth, l2 / bandwidth, sm / clock, + 0.05 * the others: of kernels that wait for memory
//           that one is better which does less beside it
//   sm      max(ceil(G / S) * t / u(o, (alone - t) / t), ceil(G / (S * o)) * alone): what is done there takes its time, and what a
//           block waits for is hidden by the blocks beside it
//   alone   max(t / u(W, own / (t / W)), t / W + own) + wait: what a warp waits for by itself is hidden by the warps of its scheduler,
//           what all of them wait for is not. No less than a warp's instructions; warps are dealt to 4 schedulers with a quarter of the
//           lanes each
//   u       1 less half the time in which all of them wait if they do so at random moments (the machine repairman's queue)
//   t       max(fma, issue, shared) + 0.2 * (their sum - the largest): units work at once, but not perfectly
//   fma     multiply-adds of all warps / lanes, or those of tensor cores where a nest is marked for them
//   issue   instructions of all warps / 4, without what compilers take out of loops (thread_work.h); tests of a copy, where padding
//           begins, once for each load
//   shared  wavefronts of shared memory and L1, with the bank conflicts of one warp's first request, counted, or of the rows
//           that ldmatrix brings at once; asynchronous copies of 16 bytes go past L1
//   wait    for each pass of the serial loops around the steps of a block a barrier, and the latency of what is read first; of copies
//           that run n - 1 passes ahead (mark `stages` = n) 1 / n^2
//   own     the latency of what a thread reads later: in its own loops of one pass in four, for loads are issued ahead; of operands of
//           matrix instructions of each step of their sum (not with the mark `operands_ahead`); and what sums wait for themselves
//           beyond the time that they take anyway
//   l2      bytes that L1 does not keep: what is touched inside of the outermost serial loop that fits into it, in
//           sectors of 32 bytes, for each of its passes (DeepGEMM ranks its tiles by such traffic); stores pass through it:
//           each of their requests in whole sectors
//   dram    every byte once where all fits into L2, else once for each wave of blocks, which are numbered along x first:
//           a raster shows in what the blocks of a wave share
// Shared memory is the most that buffers need at once: those that are not needed together take turns (share_storage.h).
// The shape is that of Hong and Kim (ISCA 2009): warps compute while others wait. The constants 0.05, 0.2, 1/4, 1/2 and 1/n^2 are
// guesses until there are measurements to fit them to. Four published times of an A100 are met within 9 % (gpu_draft_test).
#pragma once
#include <array>
#include <vector>

#include "costmodel/flat_program.h"
#include "costmodel/gpu/gpu_device.h"
#include "costmodel/gpu/kernel_estimate.h"
#include "costmodel/gpu/lane_values.h"
#include "costmodel/gpu/thread_work.h"

namespace tw {

// Reuses its memory between calls: one per thread. The result depends on the program and the device only.
class GpuDraft {
 public:
  explicit GpuDraft(const GpuDevice& device) : device_(device) {}
  // Estimated seconds of one run of all kernels, > 0 and finite. What `prepack` blocks do is outside of it and costs
  // nothing. `registers`: of each kernel's threads, where a compiler has said so already; ignored if there is another
  // number of them.
  double seconds(const Program& program, const std::vector<int>& registers = {});
  // Of the last program, in program order.
  const std::vector<KernelEstimate>& kernels() const { return kernels_; }

 private:
  // What a loop is on the device. Outer: serial, around the threads; Inner: of a thread; Body: of a thread, unrolled.
  enum class Role : u8 { Block, Thread, Outer, Inner, Body };
  // How often a store runs: passes of the serial loops around the threads; of one thread, how often its unrolled code
  // runs and how many points that has.
  struct Body {
    double outer = 1, runs = 1, instances = 1, threads = 1, warps = 1;
    bool is_mma = false, is_ahead = false;
    double mma_points = 1;  // multiply-adds of a lane that one instruction does
  };

  std::size_t find_kernels(const FlatProgram& program);
  void read_roles(const FlatProgram& program, const FlatStore& store);
  Body body_of(const FlatProgram& program, const FlatStore& store) const;
  void add_storage(const FlatProgram& program, const FlatStore& store, KernelEstimate& kernel, double& operands);
  void find_steps(const FlatProgram& program);
  void add_shared(const FlatProgram& program, const FlatStore& store, const FlatAccess& access, u32 kernel);
  double most_shared(u32 kernel) const;
  void add_store(const FlatProgram& program, const FlatStore& store, KernelEstimate& kernel);
  double add_requests(const FlatProgram& program, const FlatStore& store, const FlatAccess& access, const Body& body,
                      KernelEstimate& kernel);
  double arithmetic_of(const FlatProgram& program, const FlatStore& store, const Body& body);
  double wavefronts(const FlatProgram& program, const FlatStore& store, const FlatAccess& access, i64 width);
  double lanes_apart(const FlatProgram& program, const FlatAccess& access);
  double wavefronts_of_piece(const FlatProgram& program, const FlatStore& store, const FlatAccess& access);
  static double stages_of(const FlatProgram& program, const FlatStore& store, const FlatAccess& access);
  static bool is_async(const FlatProgram& program, const FlatStore& store);
  double chain_of(const FlatProgram& program, const FlatStore& store, const Body& body) const;
  double steps_of_sum(const FlatProgram& program, const FlatStore& store) const;
  void measure_block(const FlatProgram& program, const FlatStore& store, const KernelEstimate& kernel);
  void add_traffic(const FlatProgram& program, const FlatStore& store, KernelEstimate& kernel);
  double l1_bytes(const KernelEstimate& kernel) const;
  static bool is_in_registers(const FlatProgram& program, const FlatAccess& access);

  GpuDevice device_;
  FlatReader reader_;
  std::vector<KernelEstimate> kernels_;
  std::vector<u32> kernel_of_;    // by store
  std::vector<double> operands_;  // by kernel: registers for what its largest unrolled body loads
  std::vector<u8> is_counted_;    // by buffer: its registers or shared memory are in
  // Numbers of stores: from the first one inside of a loop to the last one, by loop.
  struct Steps {
    u32 first, last;
  };
  std::vector<Steps> steps_;
  struct SharedBuffer {
    u32 kernel;
    double bytes;
    Steps needed;
  };
  std::vector<SharedBuffer> shared_;
  std::vector<u32> shared_of_;    // by buffer: index + 1; 0 = it has none
  std::vector<Role> roles_;       // of the store at hand
  u32 first_unrolled_ = 0;        // position of its outermost Body loop
  std::vector<ThreadLoop> thread_loops_;  // around it
  struct Traffic {
    const FlatAccess* access;
    double bytes;
  };
  std::vector<Traffic> traffic_;  // of the store at hand
  i64 narrowest_ = 0;              // elements that the store at hand copies at once, if asynchronously; 0 = it does not
  double stored_bytes_ = 0;       // of a block, by the requests of the store at hand to global memory
  LaneValues lanes_;              // at the store at hand
  u32 variables_ = 0;
  std::vector<i64> words_;  // scratch
};

}  // namespace tw
