// Guarded buffers: the memory that a measured kernel gets. Made by the worker before it forks, so
// that it knows every address, can fill and check them itself, and the child needs no memory of its
// own. Shared with the child; nothing here is secret from it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

// Which end of the buffer touches an inaccessible page. The other end is followed by a slack of
// known bytes.
enum class Edge : u8 { End, Start };

enum class Use : u8 {
  Read,     // inputs and constants: the worker writes through a view that the child does not have
  Packed,   // written by prepack through `writable`, read-only for run
  Written,  // outputs and scratch
};

// What both kinds of memory below may take together in this process. What is beyond is not there: the system would give
// it, and kill somebody when it is used.
void limit_memory(i64 bytes);

// Memory that the child of a fork does not have. Zeroed. Movable.
class PrivateMemory {
 public:
  PrivateMemory() = default;
  explicit PrivateMemory(i64 bytes);
  // A part of a file, to be read; `offset`: whole pages.
  PrivateMemory(int file, i64 offset, i64 bytes);
  PrivateMemory(PrivateMemory&& other) noexcept { *this = std::move(other); }
  PrivateMemory& operator=(PrivateMemory&& other) noexcept;
  ~PrivateMemory();
  char* data() const { return data_; }  // nullptr: there was no memory
  i64 bytes() const { return bytes_; }

 private:
  void map(int protection, int flags, int file, i64 offset);
  char* data_ = nullptr;
  i64 bytes_ = 0;
};

inline constexpr i64 kPageBytes = 4096;
inline i64 whole_pages(i64 bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

class GuardedBuffer {
 public:
  // is_mapped() tells whether there was memory.
  GuardedBuffer(std::string name, i64 bytes, Use use, Edge edge);
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer();

  bool is_mapped() const { return kernel_.pages && writable_.pages; }
  const std::string& name() const { return name_; }
  i64 bytes() const { return bytes_; }
  Use use() const { return use_; }
  // What run() gets; aligned to TW_ALIGNMENT.
  char* kernel_view() const { return kernel_.pages + offset_; }
  // The same memory, writable: for the worker (Read) or for prepack (Packed).
  char* writable_view() const { return writable_.pages + offset_; }

  void fill(u8 byte);  // the data; the slack gets its own pattern
  bool slack_intact() const;
  // The children of later forks do not have the writable view of a packed operand.
  void make_read_only_for_children();
  // "`C`, 4 bytes after its end" if `address` lies in a view or its guard pages; `inside` = within
  // the data.
  bool describe(u64 address, std::string& text, bool& inside) const;

 private:
  struct View {
    char* pages = nullptr;  // first accessible byte; kGuardBytes on both sides are not accessible
  };
  View map(int file, int protection);
  std::string name_;
  i64 bytes_, page_bytes_, offset_;
  Use use_;
  bool has_memory_ = false;  // within the limit
  View kernel_, writable_;   // the same for Use::Written
};

using BufferList = std::vector<std::unique_ptr<GuardedBuffer>>;

}  // namespace tw
