// The numbers that floats of 16 bits are.
#pragma once
#include <bit>
#include <cstdint>

namespace tw {

// An f16 as a number. Its bits are put where a float has them; the exponent's bias is then too small by 112, which a
// product with 2^112 makes good, for subnormal numbers, too.
inline double half_value(std::uint16_t bits) {
  std::uint32_t magnitude = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
  constexpr std::uint32_t kInfinity = 0x7f800000, kLargest = 0x7c00u << 13;
  if (magnitude >= kLargest) return std::bit_cast<float>(sign | kInfinity | magnitude);
  return std::bit_cast<float>(sign | magnitude) * 0x1p112;
}

// A bf16 as a number.
inline double bfloat_value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

}  // namespace tw
