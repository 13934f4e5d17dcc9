#include "runtime/worker/buffers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/kernel_abi.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

constexpr i64 kGuardBytes = i64{1} << 20;  // wide, so that a wrong row or tile is caught too
constexpr u8 kSlackByte = 0x5c;

i64 round_up(i64 bytes, i64 unit) { return (bytes + unit - 1) / unit * unit; }

bool all_are(const char* begin, const char* end, u8 byte) {
  return std::all_of(begin, end, [&](char c) { return static_cast<u8>(c) == byte; });
}

i64 memory_limit = std::numeric_limits<i64>::max(), memory_taken = 0;

bool take_memory(i64 bytes) {
  if (bytes > memory_limit - memory_taken) return false;
  memory_taken += bytes;
  return true;
}

}  // namespace

void limit_memory(i64 bytes) { memory_limit = bytes; }

PrivateMemory::PrivateMemory(i64 bytes) : bytes_(bytes) {
  map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

PrivateMemory::PrivateMemory(int file, i64 offset, i64 bytes) : bytes_(bytes) {
  map(PROT_READ, MAP_PRIVATE, file, offset);
}

void PrivateMemory::map(int protection, int flags, int file, i64 offset) {
  if (!take_memory(bytes_)) return;
  std::size_t size = static_cast<std::size_t>(std::max<i64>(bytes_, 1));
  void* memory = mmap(nullptr, size, protection, flags, file, offset);
  if (memory == MAP_FAILED) {
    memory_taken -= bytes_;
    return;
  }
  madvise(memory, size, MADV_DONTFORK);
  data_ = static_cast<char*>(memory);
}

PrivateMemory& PrivateMemory::operator=(PrivateMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PrivateMemory::~PrivateMemory() {
  if (!data_) return;
  munmap(data_, static_cast<std::size_t>(std::max<i64>(bytes_, 1)));
  memory_taken -= bytes_;
}

GuardedBuffer::GuardedBuffer(std::string name, i64 bytes, Use use, Edge edge)
    : name_(std::move(name)), bytes_(bytes), page_bytes_(whole_pages(std::max<i64>(bytes, 1))), use_(use) {
  offset_ = edge == Edge::End ? page_bytes_ - round_up(bytes, TW_ALIGNMENT) : 0;
  has_memory_ = take_memory(page_bytes_);
  if (!has_memory_) return;
  int file = memfd_create("buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return;
  if (ftruncate(file, page_bytes_) == 0) {
    writable_ = map(file, PROT_READ | PROT_WRITE);
    if (use == Use::Read && writable_.pages) {
      madvise(writable_.pages, static_cast<std::size_t>(page_bytes_), MADV_DONTFORK);
      fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
    }
    kernel_ = use == Use::Written ? writable_ : map(file, PROT_READ);
  }
  close(file);
}

GuardedBuffer::View GuardedBuffer::map(int file, int protection) {
  std::size_t all = static_cast<std::size_t>(page_bytes_ + 2 * kGuardBytes);
  void* reserved = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return {};
  char* pages = static_cast<char*>(reserved) + kGuardBytes;
  if (mmap(pages, static_cast<std::size_t>(page_bytes_), protection, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    munmap(reserved, all);
    return {};
  }
  return {pages};
}

GuardedBuffer::~GuardedBuffer() {
  if (has_memory_) memory_taken -= page_bytes_;
  std::size_t all = static_cast<std::size_t>(page_bytes_ + 2 * kGuardBytes);
  if (kernel_.pages && kernel_.pages != writable_.pages) munmap(kernel_.pages - kGuardBytes, all);
  if (writable_.pages) munmap(writable_.pages - kGuardBytes, all);
}

void GuardedBuffer::fill(u8 byte) {
  char* data = writable_view();
  std::memset(writable_.pages, kSlackByte, static_cast<std::size_t>(offset_));
  std::memset(data, byte, static_cast<std::size_t>(bytes_));
  std::memset(data + bytes_, kSlackByte, static_cast<std::size_t>(page_bytes_ - offset_ - bytes_));
}

void GuardedBuffer::make_read_only_for_children() {
  if (use_ == Use::Packed) madvise(writable_.pages, static_cast<std::size_t>(page_bytes_), MADV_DONTFORK);
}

bool GuardedBuffer::slack_intact() const {
  const char* pages = writable_.pages;
  return all_are(pages, pages + offset_, kSlackByte) &&
         all_are(pages + offset_ + bytes_, pages + page_bytes_, kSlackByte);
}

bool GuardedBuffer::describe(u64 address, std::string& text, bool& inside) const {
  for (const View& view : {kernel_, writable_}) {
    i64 offset = static_cast<i64>(address - reinterpret_cast<u64>(view.pages)) - offset_;
    if (offset < -offset_ - kGuardBytes || offset >= page_bytes_ - offset_ + kGuardBytes) continue;
    inside = offset >= 0 && offset < bytes_;
    if (inside)
      text = cat("`", name_, "` at byte ", offset);
    else if (offset < 0)
      text = cat("`", name_, "`, ", -offset, " bytes before its start");
    else
      text = cat("`", name_, "`, ", offset - bytes_, " bytes after its end");
    return true;
  }
  return false;
}

}  // namespace tw
