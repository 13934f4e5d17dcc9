// Bump allocator for IR nodes. Objects must be trivially destructible; memory returns with the arena or at reset().
// Rule: new nodes go into the arena you were handed; they may point to older arenas that outlive it, never the other
// way.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tw {

using i64 = std::int64_t;
using u64 = std::uint64_t;
using u32 = std::uint32_t;
using u8 = std::uint8_t;

template <class T>
using Array = std::span<const T>;  // immutable, its elements live in an arena
using Str = std::string_view;      // immutable, its characters live in an arena or are static

class Arena {
 public:
  explicit Arena(std::size_t block_bytes = 1 << 16) : block_bytes_(block_bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    for (const Block& block : blocks_) std::free(block.data);
  }

  void* allocate(std::size_t bytes, std::size_t alignment = 16) {
    std::uintptr_t at = (cursor_ + alignment - 1) & ~(alignment - 1);
    if (at + bytes > end_) {
      next_block(bytes + alignment);
      at = (cursor_ + alignment - 1) & ~(alignment - 1);
    }
    cursor_ = at + bytes;
    return reinterpret_cast<void*>(at);
  }

  // A new T{args...}.
  template <class T, class... Args>
  T* make(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T), alignof(T))) T{std::forward<Args>(args)...};
  }

  template <class T>
  Array<T> copy(const T* data, std::size_t count) {
    if (count == 0) return {};
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    T* out = static_cast<T*>(allocate(sizeof(T) * count, alignof(T)));
    std::memcpy(static_cast<void*>(out), data, sizeof(T) * count);
    return {out, count};
  }
  template <class T, class Allocator>
  Array<T> copy(const std::vector<T, Allocator>& values) {
    return copy(values.data(), values.size());
  }
  template <class T>
  Array<T> copy(Array<T> values) {
    return copy(values.data(), values.size());
  }
  template <class T>
  Array<T> list(std::initializer_list<T> values) {
    return copy(values.begin(), values.size());
  }
  Str text(std::string_view characters) {
    Array<char> out = copy(characters.data(), characters.size());
    return {out.data(), out.size()};
  }

  // Forgets every object but keeps the memory for the next use.
  void reset() {
    current_ = 0;
    if (blocks_.empty()) return;
    cursor_ = reinterpret_cast<std::uintptr_t>(blocks_[0].data);
    end_ = cursor_ + blocks_[0].bytes;
  }

  // A place to return to: everything allocated after mark() is forgotten by rewind(). For prefix snapshots in replay.
  struct Mark {
    std::size_t block;
    std::uintptr_t cursor, end;
  };
  Mark mark() const { return {current_, cursor_, end_}; }
  void rewind(Mark mark) {
    if (mark.cursor == 0) return reset();
    current_ = mark.block;
    cursor_ = mark.cursor;
    end_ = mark.end;
  }

 private:
  struct Block {
    void* data;
    std::size_t bytes;
  };
  void next_block(std::size_t at_least) {
    while (!blocks_.empty() && current_ + 1 < blocks_.size()) {
      ++current_;
      cursor_ = reinterpret_cast<std::uintptr_t>(blocks_[current_].data);
      end_ = cursor_ + blocks_[current_].bytes;
      if (blocks_[current_].bytes >= at_least) return;
    }
    std::size_t bytes = at_least > block_bytes_ ? at_least : block_bytes_;
    void* data = std::malloc(bytes);
    if (!data) throw std::bad_alloc();
    blocks_.push_back({data, bytes});
    current_ = blocks_.size() - 1;
    cursor_ = reinterpret_cast<std::uintptr_t>(data);
    end_ = cursor_ + bytes;
  }

  std::size_t block_bytes_;
  std::vector<Block> blocks_;
  std::size_t current_ = 0;
  std::uintptr_t cursor_ = 0, end_ = 0;
};

}  // namespace tw
