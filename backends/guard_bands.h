// Bands of known bytes on both sides of a device's memory: what writes beside its data leaves a trace. For the
// implementations of device::Memory (backends/opencl, backends/cuda_driver), which give the transfers; nothing here
// knows a driver.
#pragma once
#include <algorithm>
#include <vector>

#include "dsl/base/arena.h"

namespace tw::device {

constexpr std::size_t kBand = 1 << 20;  // bytes; a multiple of what sub-buffers of OpenCL must be aligned to
constexpr u8 kBandByte = 0x5c;

// Bytes between the bands. A buffer of nothing has one.
inline std::size_t data_bytes(i64 bytes) { return static_cast<std::size_t>(std::max<i64>(bytes, 1)); }

// `set(value, from, bytes)` fills a range, counted from the begin of the first band: all of the data gets `byte`, the
// bands their pattern.
template <class Set>
bool fill_between_bands(i64 bytes, u8 byte, Set set) {
  std::size_t data = data_bytes(bytes);
  return set(kBandByte, std::size_t{0}, kBand) && set(byte, kBand, data) && set(kBandByte, kBand + data, kBand);
}

// `read(to, from, bytes)` gets a range. False: a band has changed, or cannot be read.
template <class Read>
bool bands_hold(i64 bytes, Read read) {
  static const std::vector<u8> whole(kBand, kBandByte);
  std::vector<u8> band(kBand);
  for (std::size_t at : {std::size_t{0}, kBand + data_bytes(bytes)}) {
    if (!read(band.data(), at, kBand) || band != whole) return false;
  }
  return true;
}

}  // namespace tw::device
