// Task: the data of one workload in the worker: two sets of random inputs with the reference's
// outputs, and two layouts of buffers to run kernels in. The sets are in private memory, which a
// child does not have; a layout holds a copy of one of them at a time. Where a whole reference would take too long, a
// set has some elements of each output instead, at places that a kernel cannot know.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "runtime/measure/worker_protocol.h"
#include "runtime/worker/buffers.h"
#include "runtime/worker/child.h"

namespace tw {

// Why a task or a kernel's buffers could not be made: OutOfMemory, or what is wrong with the kernel. Ok: they could.
struct TaskFailure {
  MeasureStatus status = MeasureStatus::Ok;
  std::string message;  // one sentence; empty if Ok
};

class Task {
 public:
  // Draws the inputs, until `stop` says true. On failure `failure` says why. Samples are taken out of the message.
  Task(BeginTaskMessage& message, const std::function<bool()>& stop, TaskFailure& failure);
  // True if results are compared with a sample, so that no reference is run.
  bool is_sampled() const { return is_sampled_; }

  // The pointers for a kernel in a layout. Packed operands and scratch are put into `own`, spare ones where they fit:
  // what is in them is not said; outputs are shared by all kernels with the same ones. False: `failure` names the
  // argument that the task does not have (BuildError), or the memory that there is not.
  bool bind(const KernelManifest& kernel, int layout, int threads, BufferList& own, KernelBinding& binding,
            TaskFailure& failure);
  // Keeps the buffers that a kernel owned in a layout for the next kernel, in place of those kept before: new pages
  // cost more than the kernel's time.
  void keep_spare(int layout, BufferList own) { spare_[layout] = std::move(own); }
  // Inputs, constants and outputs of one layout.
  i64 data_bytes() const;

  // Fills the layout's inputs with set `set`, if it does not hold it already.
  void place(int layout, int set);
  int set_in(int layout) const { return layouts_[layout].set; }
  void poison_outputs(int layout, u8 byte);

  // Keeps the outputs that the reference has left in the layout as those of the set that it holds, and frees their
  // buffers.
  bool keep_reference(int layout, const KernelManifest& reference, TaskFailure& failure);
  // Moves what was kept of all sets to an empty file (memfd_create), which nobody can write afterwards: the worker that
  // comes after this one may take it from there. What has no room in a file stays where it is.
  void move_reference_to(int file);
  // False: there is none in the file.
  bool take_reference_from(int file, const KernelManifest& reference);
  // Compares the outputs in the layout with those. Returns "" or what differs, in one sentence;
  // raises max_error. Where there is a sample, all other elements are only looked at for what no kernel computes:
  // `poison`, the byte that outputs were filled with, and, if the sample has none, NaNs.
  std::string check(int layout, const KernelManifest& kernel, u8 poison, double& max_error) const;

  // What an output of a set is compared with; nothing if the reference has no such output.
  struct Expected {
    DType dtype;
    i64 count;                       // of the whole output
    const char* data;                // `count` elements, or one for each position
    const double* variances;         // of these; null: none are allowed for
    std::span<const i64> positions;  // empty: all
  };
  std::optional<Expected> expected(int set, const std::string& output) const;
  Tolerance tolerance() const { return tolerance_; }

  // A hash of the outputs in the layout.
  u64 hash_of_outputs(int layout, const KernelManifest& kernel) const;

  // The task's own buffer of an input, constant or output; null: there is none yet.
  GuardedBuffer* find(int layout, const KernelArgument& argument) const;
  // Every buffer of a layout that kernels share.
  const BufferList& buffers(int layout) const { return layouts_[layout].buffers; }

 private:
  struct Output {
    DType dtype;
    i64 count;  // of the whole output
    PrivateMemory data;
    PrivateMemory positions;  // of the elements in `data`, i64; empty: all
  };
  struct DataSet {
    std::map<std::string, PrivateMemory> inputs;
    std::map<std::string, Output> outputs;
  };
  struct Layout {
    BufferList buffers;
    int set = -1;
  };
  GuardedBuffer* own_buffer(int layout, const std::string& name, i64 bytes, Use use, BufferList& own,
                            TaskFailure& failure);
  bool draw_input(const KernelArgument& argument, u64 seed, const std::function<bool()>& stop, TaskFailure& failure);
  bool keep_sample(DataSet& set, OutputSample& sample, TaskFailure& failure);
  GuardedBuffer* buffer_for(int layout, const KernelArgument& argument, BufferList& own, TaskFailure& failure);

  Tolerance tolerance_;
  bool is_sampled_ = false;
  std::array<DataSet, kSets> sets_;
  std::array<Layout, kLayouts> layouts_;
  std::array<BufferList, kLayouts> spare_;
};

}  // namespace tw
