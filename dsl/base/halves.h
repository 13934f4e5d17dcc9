// The numbers that floats of 16 bits are.
#pragma once
#include <bit>
#include <cstdint>

namespace tw {

// Of f16. Its bits where those of a float are, with a bias that is 112 short: a factor, for numbers below the normal
// ones, too.
inline double half_value(std::uint16_t bits) {
  std::uint32_t magnitude = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
  constexpr std::uint32_t kInfinity = 0x7f800000, kLargest = 0x7c00u << 13;
  if (magnitude >= kLargest) return std::bit_cast<float>(sign | kInfinity | magnitude);
  return std::bit_cast<float>(sign | magnitude) * 0x1p112;
}

// Of bf16.
inline double bfloat_value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

}  // namespace tw
