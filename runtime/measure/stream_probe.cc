#include "runtime/measure/stream_probe.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "dsl/base/clock.h"

namespace tw {
namespace {

constexpr i64 kStep = 256;  // bytes of one round of the loops below

struct Streams {
  char* read;
  char* written;
  i64 read_bytes, written_bytes;
};

#if defined(__x86_64__)
using Vector512 __attribute__((vector_size(64), aligned(64))) = float;
using Vector256 __attribute__((vector_size(32), aligned(32))) = float;

// Loads are kept alive by an empty assembly instruction; what is written is what was read.
#define TW_STREAM_LOOP(NAME, TARGET, VECTOR)                                                                           \
  __attribute__((target(TARGET))) void NAME(const Streams& s) {                                                        \
    constexpr i64 kCount = kStep / static_cast<i64>(sizeof(VECTOR));                                                   \
    i64 both = std::min(s.read_bytes, s.written_bytes) / kStep * kStep, at = 0;                                        \
    VECTOR value{};                                                                                                    \
    for (; at < both; at += kStep) {                                                                                   \
      _Pragma("GCC unroll 8") for (i64 i = 0; i < kCount; ++i) {                                                       \
        VECTOR read = reinterpret_cast<const VECTOR*>(s.read + at)[i];                                                 \
        asm volatile("" : "+v"(read));                                                                                 \
        reinterpret_cast<VECTOR*>(s.written + at)[i] = read;                                                           \
      }                                                                                                                \
    }                                                                                                                  \
    for (i64 more = at; more + kStep <= s.read_bytes; more += kStep) {                                                 \
      _Pragma("GCC unroll 8") for (i64 i = 0; i < kCount; ++i) {                                                       \
        VECTOR read = reinterpret_cast<const VECTOR*>(s.read + more)[i];                                               \
        asm volatile("" : : "v"(read));                                                                                \
      }                                                                                                                \
    }                                                                                                                  \
    asm volatile("" : "+v"(value));                                                                                    \
    for (i64 more = at; more + kStep <= s.written_bytes; more += kStep) {                                              \
      _Pragma("GCC unroll 8") for (i64 i = 0; i < kCount; ++i) reinterpret_cast<VECTOR*>(s.written + more)[i] = value; \
    }                                                                                                                  \
    asm volatile("" : : : "memory");                                                                                   \
  }
TW_STREAM_LOOP(stream_512, "avx512f", Vector512)
TW_STREAM_LOOP(stream_256, "avx", Vector256)
#undef TW_STREAM_LOOP
#endif

void stream_library(const Streams& s) {
  i64 both = std::min(s.read_bytes, s.written_bytes);
  std::memcpy(s.written, s.read, static_cast<std::size_t>(both));
  std::memset(s.written + both, 0, static_cast<std::size_t>(s.written_bytes - both));
  asm volatile("" : : : "memory");
}

struct Way {
  int bits;
  bool (*is_present)();
  void (*run)(const Streams& streams);
  bool reads_all;  // also what is read and not written
};

const Way kWays[] = {
#if defined(__x86_64__)
    {512, [] { return __builtin_cpu_supports("avx512f") != 0; }, stream_512, true},
    {256, [] { return __builtin_cpu_supports("avx") != 0; }, stream_256, true},
#endif
    {0, [] { return true; }, stream_library, false},
};

}  // namespace

double measure_stream_seconds(i64 read_bytes, i64 written_bytes, int vector_bits, double seconds) {
  auto rounded = [](i64 bytes) { return (bytes + kStep - 1) / kStep * kStep; };
  i64 read = rounded(read_bytes), written = rounded(written_bytes);
  std::unique_ptr<char, decltype(&std::free)> memory(
      static_cast<char*>(std::aligned_alloc(4096, static_cast<std::size_t>((read + written + 8191) / 4096 * 4096))),
      &std::free);
  if (!memory) return 0;
  std::memset(memory.get(), 0, static_cast<std::size_t>(read + written));
  Streams streams{memory.get(), memory.get() + read, read, written};
  double best = 0;
  for (const Way& way : kWays) {
    if (way.bits > vector_bits || !way.is_present() || (!way.reads_all && read > written)) continue;
    double begin = seconds_now(), end = begin;
    for (int run = 0; run < 3 || end - begin < seconds; ++run) {
      // The clock is read once for many short runs.
      i64 repeats = std::max<i64>(1, (i64{1} << 18) / std::max<i64>(read + written, 1));
      double before = seconds_now();
      for (i64 i = 0; i < repeats; ++i) way.run(streams);
      end = seconds_now();
      double took = (end - before) / static_cast<double>(repeats);
      best = best == 0 ? took : std::min(best, took);
    }
  }
  return best;
}

}  // namespace tw
