// Counts the requests to the heap that a process makes, for tests and benchmarks that say "none". Defines malloc and
// its kin (glibc only): to be included by one file of a program. Not for builds with a sanitizer, which brings a heap
// of its own.
#pragma once
#include <atomic>
#include <cstddef>

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* data, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace tw::test {

inline std::atomic<long> heap_requests_made{0};
// So far, by all threads.
inline long heap_requests() { return heap_requests_made.load(std::memory_order_relaxed); }
inline void count_heap_request() { heap_requests_made.fetch_add(1, std::memory_order_relaxed); }

}  // namespace tw::test

extern "C" {
void* malloc(std::size_t bytes) noexcept {
  tw::test::count_heap_request();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  tw::test::count_heap_request();
  return __libc_calloc(count, bytes);
}
void* realloc(void* data, std::size_t bytes) noexcept {
  tw::test::count_heap_request();
  return __libc_realloc(data, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  tw::test::count_heap_request();
  return __libc_memalign(alignment, bytes);
}
}
