// A zeroed array aligned as the kernel ABI wants its pointers.
#pragma once
#include <cstdlib>
#include <cstring>
#include <memory>

#include "backends/kernel_abi.h"
#include "dsl/base/arena.h"

namespace tw {

template <class T>
class Aligned {
 public:
  explicit Aligned(std::size_t count) : count_(count) {
    std::size_t bytes = (count * sizeof(T) + TW_ALIGNMENT - 1) / TW_ALIGNMENT * TW_ALIGNMENT;
    data_.reset(static_cast<T*>(std::aligned_alloc(TW_ALIGNMENT, bytes)));
    std::memset(static_cast<void*>(data_.get()), 0, bytes);
  }
  T& operator[](i64 i) { return data_.get()[i]; }
  const T& operator[](i64 i) const { return data_.get()[i]; }
  T* data() { return data_.get(); }
  i64 size() const { return static_cast<i64>(count_); }
  T* begin() { return data(); }
  T* end() { return data() + count_; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t count_;
};

}  // namespace tw
