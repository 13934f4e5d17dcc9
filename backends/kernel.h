// Kernel: a compiled program behind the kernel ABI: machine code (or source) and the manifest that says how to call it.
// Made by backends, run by runtime, written out by export.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/ir/types.h"

namespace tw {

// Behind the name of an output of a reference kernel that holds, for each element of that output, the variance that
// rounding may give it (F64).
inline constexpr std::string_view kVarianceSuffix = ".variance";

enum class ArgumentRole : u8 { Input, Constant, Packed, Output };
const char* name_of(ArgumentRole role);

// One pointer of an entry point's `buffers`.
struct KernelArgument {
  std::string name;
  ArgumentRole role = ArgumentRole::Input;
  DType dtype = DType::F32;
  std::vector<i64> shape;  // row-major, dense
  i64 bytes = 0;
  // The range of integers that tests may pass here: a reference then reads nothing out of bounds, and a model gets
  // random inputs from it. Empty for floats.
  IndexRange indices = {};
};

// Shared memory that a CUDA kernel may declare without asking for more at its launch; of all architectures.
inline constexpr i64 kStaticSharedBytes = 48 << 10;

// One kernel of a device, to be run after those before it.
struct KernelLaunch {
  // What a parameter points to: an argument of the entry point by index, or `bytes` of scratch memory from an offset.
  struct Pointer {
    bool is_scratch = false;
    i64 at = 0;
    i64 bytes = 0;
  };
  std::string name;
  std::array<i64, 3> groups{1, 1, 1}, threads{1, 1, 1};  // x, y, z: work-groups, and work-items of each
  std::vector<Pointer> pointers;
  // Shared memory that is given when it is launched, because the text does not declare it with its size: all of it, or
  // none.
  i64 dynamic_shared_bytes = 0;

  i64 group_count() const { return groups[0] * groups[1] * groups[2]; }
  i64 threads_of_group() const { return threads[0] * threads[1] * threads[2]; }
};

// Arguments of `run`, by index: the output may be written over the input.
struct Overwrite {
  std::size_t output = 0, input = 0;
  bool operator==(const Overwrite&) const = default;
};

struct KernelManifest {
  std::string symbol;                   // prefix of the entry points: <symbol>_run, <symbol>_prepack
  std::vector<KernelArgument> run;      // inputs, constants that stay as they are, packed constants, outputs
  std::vector<KernelArgument> prepack;  // constants that are rewritten, then what they become; empty = no prepack
  i64 scratch_shared_bytes = 0;         // scratch = shared + workers * per_worker
  i64 scratch_worker_bytes = 0;         // a multiple of TW_ALIGNMENT
  bool parallel = false;                // calls parallel_for
  // Of source text for devices, in place of entry points. Scratch is then scratch_shared_bytes.
  std::vector<KernelLaunch> run_launches, prepack_launches;
  // An output may use the buffer of one of these inputs, whose content is then overwritten (overwrites.h). The
  // source text of a kernel for a device must allow it first (allow_overwrites in gpu_source/source.h). Not sent to
  // workers or stored: measured kernels get separate buffers.
  std::vector<Overwrite> overwrites = {};
  i64 scratch_bytes(i64 workers) const { return scratch_shared_bytes + workers * scratch_worker_bytes; }
};

struct Kernel {
  std::string code;  // a relocatable object file (ELF), or source text for GPU backends
  KernelManifest manifest;
};

}  // namespace tw
