// List: a std::vector for what lives no longer than a step: results of analyses, nodes under construction. Its memory
// comes from free lists of the thread, so that replaying traces leaves the heap alone once these are warm. Not for what
// is kept: a vector is right there.
#pragma once
#include <cstddef>
#include <vector>

namespace tw {

// Memory aligned for any object, of at least `bytes`; give() must be told the same number. What one thread took another
// one may give: then it waits for requests of that one. A thread gives its memory back to the heap when it ends.
void* take_pooled(std::size_t bytes);
void give_pooled(void* data, std::size_t bytes) noexcept;

template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class Other>
  PoolAllocator(const PoolAllocator<Other>&) {}  // NOLINT: implicit, as the standard wants it
  T* allocate(std::size_t count) { return static_cast<T*>(take_pooled(count * sizeof(T))); }
  void deallocate(T* data, std::size_t count) noexcept { give_pooled(data, count * sizeof(T)); }
  bool operator==(const PoolAllocator&) const { return true; }
};

template <class T>
using List = std::vector<T, PoolAllocator<T>>;

}  // namespace tw
