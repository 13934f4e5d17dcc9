#include "runtime/measure/elements.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "dsl/base/halves.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

constexpr i64 kBlock = 1024;  // elements converted at a time

// Round to nearest is not needed: random data may as well be truncated. |value| < 65536.
std::uint16_t to_half(double value) {
  u64 magnitude = std::bit_cast<u64>(std::fabs(value));
  int exponent = static_cast<int>(magnitude >> 52) - 1023;
  int bits = exponent < -14 ? static_cast<int>(std::fabs(value) * 0x1p24)  // below the normal ones
                            : (exponent + 15) << 10 | static_cast<int>(magnitude >> 42 & 1023);
  return static_cast<std::uint16_t>(bits | (value < 0 ? 0x8000 : 0));
}

std::uint16_t to_bfloat(double value) {
  float narrow = static_cast<float>(value);
  u32 bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}

template <class Stored, auto convert>
void read_as(const char* data, i64 begin, i64 count, double* out) {
  for (i64 i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, data + (begin + i) * static_cast<i64>(sizeof value), sizeof value);
    out[i] = convert(value);
  }
}

template <class Stored, auto draw>
void write_as(Rng& rng, i64 count, char* data) {
  for (i64 i = 0; i < count; ++i) {
    Stored value = static_cast<Stored>(draw(rng));
    std::memcpy(data + i * static_cast<i64>(sizeof value), &value, sizeof value);
  }
}

template <class T>
double widen(T value) {
  return static_cast<double>(value);
}

// Normal as far as a sum of sixteen uniform numbers is (its excess kurtosis is -0.075). They are whole
// numbers of 16 bits, so the sum is exact and the same everywhere, which logarithms of libraries are
// not. Sixteen in [-1, 1) over 4 have variance 1/3.
double draw_float(Rng& rng) {
  constexpr u64 kHalves = 0x0000ffff0000ffff;
  u64 sums = 0;  // two, of eight numbers each
  for (int i = 0; i < 4; ++i) {
    u64 bits = rng.next();
    sums += (bits & kHalves) + (bits >> 16 & kHalves);
  }
  auto sum = static_cast<double>((sums & 0xffffffff) + (sums >> 32));
  // A fraction behind it, so that the low bits of wide floats are random, too; then less the mean.
  return (sum + rng.uniform() - 524280.5) * 0x1.0p-17;
}
i64 draw_signed(Rng& rng) { return rng.below(16) - 8; }
i64 draw_unsigned(Rng& rng) { return rng.below(8); }
i64 draw_bool(Rng& rng) { return rng.below(2); }
std::uint16_t draw_half(Rng& rng) { return to_half(draw_float(rng)); }
std::uint16_t draw_bfloat(Rng& rng) { return to_bfloat(draw_float(rng)); }

struct TypeRow {
  void (*read)(const char* data, i64 begin, i64 count, double* out);
  void (*fill)(Rng& rng, i64 count, char* data);
};
// In the order of the enumeration.
constexpr TypeRow kRows[kDTypes] = {
    {read_as<u8, widen<u8>>, write_as<u8, draw_bool>},
    {read_as<std::int8_t, widen<std::int8_t>>, write_as<std::int8_t, draw_signed>},
    {read_as<u8, widen<u8>>, write_as<u8, draw_unsigned>},
    {read_as<std::int32_t, widen<std::int32_t>>, write_as<std::int32_t, draw_signed>},
    {read_as<i64, widen<i64>>, write_as<i64, draw_signed>},
    {read_as<std::uint16_t, half_value>, write_as<std::uint16_t, draw_half>},
    {read_as<std::uint16_t, bfloat_value>, write_as<std::uint16_t, draw_bfloat>},
    {read_as<float, widen<float>>, write_as<float, draw_float>},
    {read_as<double, widen<double>>, write_as<double, draw_float>},
};

// Elements of a block, as doubles.
struct Block {
  double actual[kBlock], expected[kBlock], allowed[kBlock];
  i64 count = 0;
};

bool is_right(double actual, double expected, double allowed) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected))) return true;
  if (!std::isfinite(expected)) return false;
  return std::isfinite(allowed) ? std::fabs(actual - expected) <= allowed : std::isfinite(actual);
}

// Sums and maxima over a block.
struct BlockSums {
  double errors = 0, variances = 0;  // sum of squares, sum
  double largest = 0;                // error
  int unusual = 0;
};

// NaN and infinities are unusual, too, and are looked at one by one.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // whose functions may not run where clones are chosen
[[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
BlockSums compare_block(Block& block, Tolerance tolerance, const double* variances) {
  double errors = 0, variance_sum = 0, largest = 0;
  int unusual = 0;
#pragma omp simd reduction(+ : errors, variance_sum) reduction(max : largest) reduction(| : unusual)
  for (i64 i = 0; i < block.count; ++i) {
    double expected = std::fabs(block.expected[i]), error = std::fabs(block.actual[i] - block.expected[i]);
    double allowed = tolerance.absolute + tolerance.relative * expected + kDeviations * std::sqrt(variances[i]);
    block.allowed[i] = allowed;
    bool is_usual = error <= allowed && allowed <= std::numeric_limits<double>::max() &&
                    expected <= std::numeric_limits<double>::max();
    unusual |= !is_usual;
    errors += is_usual ? error * error : 0;
    variance_sum += is_usual ? variances[i] : 0;
    largest = error > largest ? error : largest;
  }
  return {errors, variance_sum, largest, unusual};
}

// The slow look at a block in which something is out of the ordinary.
void inspect(const Block& block, i64 begin, DType type, Comparison& out) {
  for (i64 i = 0; i < block.count; ++i) {
    double actual = block.actual[i], expected = block.expected[i];
    // All integers are finite: where nothing is known of one, it has to be the same.
    const double allowed = is_float(type) || std::isfinite(block.allowed[i]) ? block.allowed[i] : 0;
    if (is_right(actual, expected, allowed)) continue;
    if (out.wrong++ == 0) {
      out.first = begin + i;
      out.actual = actual;
      out.expected = expected;
    }
    double error = std::fabs(actual - expected);
    out.max_error = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(out.max_error, error);
  }
}

}  // namespace

namespace {

// Those that are outside are moved by multiples of the range's length.
template <class T>
void wrap(char* data, i64 count, IndexRange range) {
  i64 length = range.below - range.lowest;
  for (T* at = reinterpret_cast<T*>(data); count > 0; --count, ++at) {
    i64 above = (static_cast<i64>(*at) - range.lowest) % length;
    *at = static_cast<T>(range.lowest + (above < 0 ? above + length : above));
  }
}

void bring_into(IndexRange range, DType type, char* data, i64 count) {
  if (range.below <= range.lowest || !is_int(type)) return;
  switch (bytes_of(type)) {
    case 8:
      return wrap<i64>(data, count, range);
    case 4:
      return wrap<std::int32_t>(data, count, range);
    default:
      return type == DType::I8 ? wrap<std::int8_t>(data, count, range) : wrap<u8>(data, count, range);
  }
}

}  // namespace

bool fill_input(u64 seed, std::string_view name, int set, DType type, i64 count, char* data, IndexRange indices,
                const std::function<bool()>& stop) {
  u64 label = 0;  // std::hash is another one in each library
  for (char c : name) label = mix64(label ^ static_cast<unsigned char>(c));
  Rng rng(seed, label, static_cast<u64>(set));
  constexpr i64 kPiece = 1 << 18;
  for (i64 begin = 0; begin < count; begin += kPiece) {
    if (stop && stop()) return false;
    char* piece = data + begin * bytes_of(type);
    kRows[static_cast<int>(type)].fill(rng, std::min(kPiece, count - begin), piece);
    bring_into(indices, type, piece, std::min(kPiece, count - begin));
  }
  return true;
}

std::string gather(const Elements& all, std::span<const i64> positions) {
  auto size = static_cast<std::size_t>(bytes_of(all.type));
  std::string out;
  out.reserve(positions.size() * size);
  for (i64 position : positions) out.append(all.data + position * bytes_of(all.type), size);
  return out;
}

u64 hash_of(std::string_view bytes, u64 seed) { return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed); }

i64 find_filled(const Elements& all, u8 byte) {
  i64 size = bytes_of(all.type), bytes = all.count * size;
  // Long runs of the byte are rare, so most of the time goes into the search for its first one.
  for (i64 at = 0; at < bytes;) {
    const void* found = std::memchr(all.data + at, byte, static_cast<std::size_t>(bytes - at));
    if (!found) return -1;
    i64 element = (static_cast<const char*>(found) - all.data) / size;
    const char* begin = all.data + element * size;
    if (std::all_of(begin, begin + size, [&](char c) { return static_cast<u8>(c) == byte; })) return element;
    at = (element + 1) * size;
  }
  return -1;
}

namespace {

// Whose bits without the sign are above those of infinity.
template <class Bits>
i64 find_above(const char* data, i64 count, Bits infinity) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  auto is_above = [&](i64 i) {
    Bits bits;
    std::memcpy(&bits, data + i * static_cast<i64>(sizeof bits), sizeof bits);
    return (bits & static_cast<Bits>(~kSign)) > infinity;
  };
  for (i64 begin = 0; begin < count; begin += kBlock) {
    i64 end = std::min(count, begin + kBlock);
    bool is_found = false;
    for (i64 i = begin; i < end; ++i) is_found |= is_above(i);
    for (i64 i = begin; is_found; ++i) {
      if (is_above(i)) return i;
    }
  }
  return -1;
}

}  // namespace

i64 find_not_a_number(const Elements& all) {
  switch (all.type) {
    case DType::F16:
      return find_above<std::uint16_t>(all.data, all.count, 0x7c00);
    case DType::BF16:
      return find_above<std::uint16_t>(all.data, all.count, 0x7f80);
    case DType::F32:
      return find_above<u32>(all.data, all.count, 0x7f800000);
    case DType::F64:
      return find_above<u64>(all.data, all.count, u64{0x7ff} << 52);
    default:
      return -1;
  }
}

Comparison compare(const Elements& actual, const Elements& expected, Tolerance tolerance, const double* variances) {
  Comparison out;
  Block block;
  double errors = 0, variance_sum = 0;  // of squares
  constexpr double kNone[kBlock] = {};
  for (i64 begin = 0; begin < actual.count; begin += kBlock) {
    i64 count = block.count = std::min(kBlock, actual.count - begin);
    kRows[static_cast<int>(actual.type)].read(actual.data, begin, count, block.actual);
    kRows[static_cast<int>(expected.type)].read(expected.data, begin, count, block.expected);
    BlockSums sums = compare_block(block, tolerance, variances ? variances + begin : kNone);
    errors += sums.errors;
    variance_sum += sums.variances;
    if (sums.unusual)
      inspect(block, begin, actual.type, out);
    else
      out.max_error = std::max(out.max_error, sums.largest);
  }
  if (variances && variance_sum > 0) {
    out.distance = std::sqrt(errors / variance_sum);
    out.is_too_far = out.distance > most_distance(actual.count);
  }
  return out;
}

std::vector<i64> position_of(const std::vector<i64>& shape, i64 index) {
  std::vector<i64> position(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; index /= shape[d]) position[d] = index % shape[d];
  return position;
}

std::string position_text(const std::vector<i64>& shape, i64 index) {
  return cat("[", join(position_of(shape, index), ", "), "]");
}

std::string difference_text(const Comparison& found, i64 count, const std::string& position) {
  if (found.wrong == 0)
    return cat("all elements together are ", found.distance,
               " times as far from the exact values as rounding explains");
  return cat(found.wrong, " of ", count, " elements are wrong; ", position, " is ", found.actual, ", expected ",
             found.expected);
}

}  // namespace tw
