// Counter-based random numbers (SplitMix64 over a key and a counter): a stream is a value, and the stream of a
// candidate depends only on (seed, task, generation, index), never on the thread that draws it.
#pragma once
#include <cmath>
#include <cstdint>

#include "dsl/base/arena.h"

namespace tw {

inline u64 mix64(u64 x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

class Rng {
 public:
  explicit Rng(u64 seed, u64 a = 0, u64 b = 0, u64 c = 0) : key_(mix64(mix64(mix64(mix64(seed) ^ a) ^ b) ^ c)) {}

  u64 next() { return mix64(key_ + 0xd1342543de82ef95ull * ++counter_); }
  // Uniform in [0, bound). bound > 0. The bias of the multiply-shift is below 2^-32 for the bounds used here.
  i64 below(i64 bound) {
    return static_cast<i64>((static_cast<unsigned __int128>(next()) * static_cast<u64>(bound)) >> 64);
  }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Of mean 0 and variance 1 (Box and Muller, 1958).
  double normal() {
    double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  // An independent stream.
  Rng fork(u64 label) const { return Rng(key_, label, 0x666f726bull); }

 private:
  u64 key_;
  u64 counter_ = 0;
};

}  // namespace tw
