// Task: the data of one workload in the worker: two sets of random inputs with the reference's
// outputs, and two layouts of buffers to run kernels in. The sets are in private memory, which a
// child does not have; a layout holds a copy of one of them at a time.
#pragma once
#include <array>
#include <map>
#include <string>

#include "runtime/worker/buffers.h"
#include "runtime/worker/child.h"
#include "runtime/worker_protocol.h"

namespace tw {

inline constexpr int kSets = 2;

// Why a task or a kernel's buffers could not be made: OutOfMemory, or what is wrong with the kernel. Ok: they could.
struct TaskFailure {
  MeasureStatus status = MeasureStatus::Ok;
  std::string message;  // one sentence; empty if Ok
};

class Task {
 public:
  // Draws the inputs. On failure `failure` says why.
  Task(const KernelManifest& reference, Tolerance tolerance, u64 seed, TaskFailure& failure);

  // The pointers for a kernel in a layout. Packed operands and scratch are made anew in `own`;
  // outputs are shared by all kernels with the same ones. False: `failure` names the argument that
  // the task does not have (BuildError), or the memory that there is not.
  bool bind(const KernelManifest& kernel, int layout, int threads, BufferList& own,
            KernelBinding& binding, TaskFailure& failure);
  // Inputs, constants and outputs of one layout.
  i64 data_bytes() const;

  // Fills the layout's inputs with set `set`, if it does not hold it already.
  void place(int layout, int set);
  int set_in(int layout) const { return layouts_[layout].set; }
  void poison_outputs(int layout, u8 byte);

  // Keeps the outputs that the reference has left in the layout as those of the set that it holds.
  bool keep_reference(int layout, const KernelManifest& reference, TaskFailure& failure);
  // Compares the outputs in the layout with those. Returns "" or what differs, in one sentence;
  // raises max_error.
  std::string check(int layout, const KernelManifest& kernel, double& max_error) const;

  // Every buffer of a layout that kernels share.
  const BufferList& buffers(int layout) const { return layouts_[layout].buffers; }

 private:
  struct Output {
    DType dtype;
    i64 count;
    PrivateMemory data;
  };
  struct DataSet {
    std::map<std::string, PrivateMemory> inputs;
    std::map<std::string, Output> outputs;
  };
  struct Layout {
    BufferList buffers;
    int set = -1;
  };
  GuardedBuffer* find(int layout, const KernelArgument& argument) const;
  bool draw_input(const KernelArgument& argument, u64 seed, TaskFailure& failure);
  GuardedBuffer* buffer_for(int layout, const KernelArgument& argument, BufferList& own,
                            TaskFailure& failure);

  Tolerance tolerance_;
  std::array<DataSet, kSets> sets_;
  std::array<Layout, kLayouts> layouts_;
};

}  // namespace tw
