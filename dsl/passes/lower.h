// Lowering: a scheduled program becomes flat functions without blocks, ready for code generation. One pipeline for
// every backend; `-d passes` prints the program after each pass that changed it.
#pragma once
#include <string>
#include <vector>

#include "dsl/base/result.h"
#include "dsl/ir/program.h"

namespace tw {

// What lowering has to know about the machine.
struct LoweringOptions {
  int vector_bits = 256;        // a loop of kind Vectorize becomes vectors of at most this width
  int vector_registers = 16;    // budget of Register buffers, in vectors; over it the candidate is rejected
  i64 max_instructions = 2000;  // cap on unrolled and partitioned code, in vector operations per nest of loops
  bool is_device = false;       // bound loops stay, scopes Shared and Local exist: see lower_gpu.h
  i64 vtcm_bytes = 0;           // of scope Vtcm, for all threads together; 0 = the machine has none
  bool has_lane_masks = false;  // vectors can leave out lanes where they read and write, at no cost (AVX-512)
  int threads = 1;              // that run the kernel, each with its own buffers inside of a parallel loop
};

enum class Place : u8 {
  Argument,       // offset = index of the argument
  SharedScratch,  // offset in bytes from the scratch pointer
  WorkerScratch,  // offset in bytes from the worker's part of scratch
  Stack,          // an Alloc inside the body: a local array, indexed by constants if its scope is Register
};
struct Placement {
  const Buffer* buffer;  // rank 1
  Place place;
  i64 offset;
};

// A flat function: no Block, every buffer has rank 1, every index is I64 (scalar, or a Ramp/Broadcast of it), loops are
// Serial or Parallel, never one Parallel loop inside another. Indices of Register buffers are constant. A Select with a
// scalar condition evaluates the chosen side only; with a vector condition both sides may be evaluated for all lanes.
// One buffer may be in several Allocs that do not contain each other. A loop of one iteration occurs only where it
// carries a mark (`hide_address`, `min_blocks`).
struct LoweredFunction {
  Array<Placement> arguments;  // in the order of the kernel ABI's `buffers`
  Array<Placement> scratch;
  const Stmt* body = nullptr;
};

struct LoweredArgument {
  Str name;
  bool is_output;    // written by this entry point
  bool is_packed;    // a constant that prepack rewrote
  bool is_constant;  // a constant that stays as it is (run), or the original (prepack)
  DType dtype;
  Array<i64> shape;
};

struct LoweredProgram {
  LoweredFunction run;
  Array<LoweredArgument> run_arguments;
  LoweredFunction prepack;  // body null = none
  Array<LoweredArgument> prepack_arguments;
  i64 scratch_shared_bytes = 0;
  i64 scratch_worker_bytes = 0;
  bool parallel = false;
};

struct PassDump {
  std::string pass;  // name of the pass
  std::string text;  // the program after it
};

// Nodes go into `arena`, which may also hold the program. `dumps`, if given, gets the text after each pass that changed
// something.
Result<LoweredProgram> lower(Arena& arena, const Program& program, const LoweringOptions& options,
                             std::vector<PassDump>* dumps = nullptr);

}  // namespace tw
