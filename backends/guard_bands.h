// Bands of known bytes on both sides of a device's memory: what writes beside its data leaves a trace. For the
// implementations of device::Memory (backends/opencl, backends/cuda_driver), which give the transfers; nothing here
// knows a driver.
#pragma once
#include <algorithm>
#include <vector>

#include "dsl/base/arena.h"

namespace tw::device {

constexpr std::size_t kBand = 1 << 20;  // bytes; a multiple of what sub-buffers of OpenCL must be aligned to
constexpr std::size_t kNear = 4096;     // bytes, of Memory::Reach::Near
constexpr u8 kBandByte = 0x5c;

// Bytes between the bands. A buffer of nothing has one.
inline std::size_t data_bytes(i64 bytes) { return static_cast<std::size_t>(std::max<i64>(bytes, 1)); }

// `set(value, from, bytes)` fills a range, counted from the begin of the first band.
template <class Set>
bool fill_bands(i64 bytes, Set set) {
  return set(kBandByte, std::size_t{0}, kBand) && set(kBandByte, kBand + data_bytes(bytes), kBand);
}

// `read(to, from, bytes)` gets a range. False: a band has changed within `reach` bytes of the data, or cannot be read.
template <class Read>
bool bands_hold(i64 bytes, std::size_t reach, Read read) {
  std::vector<u8> band(reach);
  const std::vector<u8> expected(reach, kBandByte);
  for (std::size_t at : {kBand - reach, kBand + data_bytes(bytes)}) {
    if (!read(band.data(), at, reach) || band != expected) return false;
  }
  return true;
}

}  // namespace tw::device
