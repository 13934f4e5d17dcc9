// The interpreter: runs a Program or a lowered function, slowly, obviously and bounds-checked. It is the judge of
// scheduling, lowering and code generation in the tests; nothing is ever measured with it.
//
// Every operation is rounded to its type; f16 and bf16 round to nearest, ties to even; exp, tanh, erf and the like are
// those of libm in double, rounded once. Parallel, vectorize and bind loops run their iterations in a shuffled order,
// and it is an error if two iterations touch the same element and one of them writes it. A local buffer of a program
// that is only used inside one such loop is private to its iterations. Both sides of `and` and `or` are evaluated, only
// the chosen side of `if then else`.
//
// Errors are a text ("block `D`: index 1 of `X` is 7, outside of [0, 7)"): index out of bounds, uninitialised memory
// read, an input written, an output not written everywhere, a race, division by zero, an iter outside of its domain, an
// iteration domain not covered exactly once, too many steps.
#pragma once
#include <string>
#include <vector>

#include "dsl/ir/program.h"
#include "dsl/passes/lower.h"

namespace tw {

// A dense row-major array as it lies in memory.
struct HostArray {
  DType dtype = DType::F32;
  std::vector<i64> shape;
  std::vector<u8> bytes;

  static HostArray zeros(DType dtype, std::vector<i64> shape);
  static HostArray like(const Buffer* buffer) {
    return zeros(buffer->dtype, {buffer->shape.begin(), buffer->shape.end()});
  }
  i64 elements() const { return static_cast<i64>(bytes.size()) / bytes_of(dtype); }
  // The element at the flat position, as a double (exact for all types but large i64); set rounds or wraps to the type.
  double get(i64 position) const;
  void set(i64 position, double value);
  bool operator==(const HostArray&) const = default;  // by bytes: 0 is not -0
};

struct InterpretOptions {
  u64 seed = 0;                 // of the order of concurrent iterations
  i64 max_steps = 200'000'000;  // statements and expressions
  // Each point of the domain of each block must run exactly once, blocks inside blocks apart. Not so for programs in
  // which a block was moved under another one's loops: those compute what is needed there, possibly twice or not at
  // all.
  bool exact_coverage = false;
  i64 max_bytes =
      32 << 20;  // all arrays together; the marks of each element (written, read, by whom) take sixteen times as much
  i64* steps_taken = nullptr;  // if not null: receives the number of steps that the run took
};

// The size of all parameters and local buffers of a program together.
i64 bytes_of(const Program& program);
// "" if arrays of so many bytes are within InterpretOptions::max_bytes, else the message that says they are too large.
std::string too_large(i64 bytes, const InterpretOptions& options = {});

// Runs the program on one array per parameter, in order; outputs are poisoned before and written. "" or the error.
std::string interpret(const Program& program, std::vector<HostArray>& arguments, const InterpretOptions& options = {});

// Runs an entry point of a lowered program: program.run or program.prepack with their arguments. Scratch memory is
// uninitialised; that of a worker is so again in every iteration of a parallel loop.
enum class EntryPoint : u8 { Run, Prepack };
std::string interpret(const LoweredProgram& program, EntryPoint entry, std::vector<HostArray>& arguments,
                      const InterpretOptions& options = {});

}  // namespace tw
