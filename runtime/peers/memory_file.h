// Data that is shared with a peer: an unnamed file in memory. The peer opens it through /proc, so nothing is left
// behind however either process ends.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace tw {

class MemoryFile {
 public:
  explicit MemoryFile(std::size_t bytes);
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&&) = delete;
  ~MemoryFile();
  bool valid() const { return fd_ >= 0; }
  std::string path() const;  // for other processes, while this one lives
  // All of the data, from the file's beginning on; false on failure.
  bool write(std::span<const std::byte> data) const;
  bool read(std::span<std::byte> data) const;

 private:
  template <class Byte, class Call>
  bool transfer(Byte* data, std::size_t size, Call call) const;
  int fd_;
};

}  // namespace tw
