#include "runtime/worker/flush_lines.h"

#include <cstddef>

#include "dsl/base/arena.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tw {
namespace {
constexpr std::size_t kLine = 64;
}

#if defined(__x86_64__)
namespace {

constexpr unsigned kClflushopt = 1u << 23;  // of EBX, leaf 7

// clflushopt does not wait for the line before, as clflush does.
__attribute__((target("clflushopt"))) void flush_side_by_side(std::span<const char> memory) {
  for (std::size_t at = 0; at < memory.size(); at += kLine) _mm_clflushopt(const_cast<char*>(memory.data() + at));
}

void flush_in_order(std::span<const char> memory) {
  for (std::size_t at = 0; at < memory.size(); at += kLine) _mm_clflush(memory.data() + at);
}

bool has_clflushopt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kClflushopt) != 0;
}

}  // namespace

void flush_lines(std::span<const char> memory) {
  static const bool has_fast = has_clflushopt();
  if (memory.empty()) return;
  has_fast ? flush_side_by_side(memory) : flush_in_order(memory);
  _mm_clflush(memory.data() + memory.size() - 1);  // the last line of memory that begins inside of one
  _mm_mfence();
}
#elif defined(__aarch64__)
// Linux lets programs ask for the length of a line, and write lines back and drop them.
void flush_lines(std::span<const char> memory) {
  if (memory.empty()) return;
  u64 caches = 0;
  asm("mrs %0, ctr_el0" : "=r"(caches));
  const u64 line = u64{4} << (caches >> 16 & 15), begin = reinterpret_cast<u64>(memory.data());
  for (u64 at = begin & ~(line - 1); at < begin + memory.size(); at += line)
    asm volatile("dc civac, %0" : : "r"(at) : "memory");
  asm volatile("dsb ish" : : : "memory");
}
#else
void flush_lines(std::span<const char>) {}
#endif

void read_lines(std::span<const char> memory) {
  const volatile char* bytes = memory.data();
  for (std::size_t at = 0; at < memory.size(); at += kLine) (void)bytes[at];
}

}  // namespace tw
