// FixedList: a list of at most N trivially copyable items, kept inline: no heap. For small results of analyses that are
// made tens of times per candidate. A full list refuses the next item; it does not grow.
#pragma once
#include <cstddef>
#include <new>
#include <type_traits>

#include "dsl/base/check.h"

namespace tw {

template <class T, std::size_t N>
class FixedList {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  FixedList() = default;
  FixedList(const FixedList& other) { *this = other; }
  FixedList& operator=(const FixedList& other) {
    size_ = other.size_;
    for (std::size_t i = 0; i < size_; ++i) new (&at(i)) T(other.at(i));
    return *this;
  }

  // False if the list is full.
  [[nodiscard]] bool push_back(const T& item) {
    if (size_ == N) return false;
    new (&at(size_++)) T(item);
    return true;
  }
  void erase(std::size_t index) {
    for (std::size_t i = index; i + 1 < size_; ++i) at(i) = at(i + 1);
    --size_;
  }
  void clear() { size_ = 0; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t index) {
    TW_CHECK(index < size_);
    return at(index);
  }
  const T& operator[](std::size_t index) const {
    TW_CHECK(index < size_);
    return at(index);
  }
  T* begin() { return &at(0); }
  T* end() { return begin() + size_; }
  const T* begin() const { return &at(0); }
  const T* end() const { return begin() + size_; }

 private:
  T& at(std::size_t index) { return reinterpret_cast<T*>(storage_)[index]; }
  const T& at(std::size_t index) const { return reinterpret_cast<const T*>(storage_)[index]; }
  std::size_t size_ = 0;
  alignas(T) std::byte storage_[N * sizeof(T)];
};

}  // namespace tw
