// The wall between the peers' common part (peer_main.cc: protocol, threads, timing) and one
// library. Each peer executable links peer_main and exactly one file that defines make_library():
// two OpenMP runtimes in one process disturb each other.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "bench/peers/operators.h"

namespace tw::peers {

struct Outcome {
  enum class Kind { Ok, Unsupported, Error } kind = Kind::Ok;
  std::string text;  // Ok: how the library does it, for the report; otherwise why not
};
inline Outcome ok(std::string how) { return {Outcome::Kind::Ok, std::move(how)}; }
inline Outcome unsupported(std::string why) { return {Outcome::Kind::Unsupported, std::move(why)}; }
inline Outcome error(std::string why) { return {Outcome::Kind::Error, std::move(why)}; }

// Zeroed floats on a cache line boundary, as all arrays of a benchmark are.
struct Free {
  void operator()(float* at) const { std::free(at); }
};
using Array = std::unique_ptr<float[], Free>;
inline Array make_array(i64 elements) {
  const i64 padded = (elements + 15) / 16 * 16;
  Array array(static_cast<float*>(std::aligned_alloc(64, padded * sizeof(float))));
  std::fill_n(array.get(), padded, 0.0F);
  return array;
}

class Library {
 public:
  virtual ~Library() = default;
  virtual std::string version() const = 0;  // "OpenBLAS 0.3.21, SkylakeX"
  // Gets ready to run one problem; what the library can do once (packing constants, choosing
  // kernels) is done here. The problem and its inputs stay alive until the next prepare. `op` is
  // what understand() made of the problem.
  virtual Outcome prepare(const Problem& problem, const Operator& op) = 0;
  // Floating-point operations of one call; 0 where the number says nothing.
  virtual double flops(const Operator& op) const { return op.flops; }
  // One call of the prepared problem: this is what is timed.
  virtual void run() = 0;
  // The result of the latest run in plain layout.
  virtual void output(float* result) = 0;
};

// Defined once per executable. The environment and the affinity mask are already set for `threads`
// threads and for vectors of `vector_bits` (0: as wide as the CPU has them).
std::unique_ptr<Library> make_library(int threads, int vector_bits);

// Nanoseconds of `calls` calls, after one call outside the time that wakes the threads and warms
// the caches.
double sample(Library& library, i64 calls);

// For a library with several ways to do a problem, of which run() takes number *choice: tries each
// in turn, seven short samples of about 1 ms, and returns the one with the smallest.
std::size_t fastest_of(Library& library, std::size_t ways, std::size_t* choice);

}  // namespace tw::peers
