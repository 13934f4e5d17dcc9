#include "runtime/peers/memory_file.h"

#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dsl/base/text.h"

namespace tw {

MemoryFile::MemoryFile(std::size_t bytes) : fd_(memfd_create("tracewright", MFD_CLOEXEC)) {
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(bytes)) == 0) return;
  close(fd_);
  fd_ = -1;
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

std::string MemoryFile::path() const { return cat("/proc/", getpid(), "/fd/", fd_); }

template <class Byte, class Call>
bool MemoryFile::transfer(Byte* data, std::size_t size, Call call) const {
  for (std::size_t done = 0; done < size;) {
    const ssize_t step = call(fd_, data + done, size - done, static_cast<off_t>(done));
    if (step == 0 || (step < 0 && errno != EINTR)) return false;
    done += static_cast<std::size_t>(std::max<ssize_t>(step, 0));
  }
  return true;
}

bool MemoryFile::write(std::span<const std::byte> data) const { return transfer(data.data(), data.size(), pwrite); }
bool MemoryFile::read(std::span<std::byte> data) const { return transfer(data.data(), data.size(), pread); }

}  // namespace tw
