#include "backends/interpreter_scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "dsl/base/check.h"
#include "dsl/base/halves.h"
#include "dsl/ir/comparison.h"

namespace tw {
namespace {

struct FloatFormat {
  int mantissa_bits;  // without the hidden one
  int min_exponent;   // of normal numbers
  double largest;
};
constexpr FloatFormat kHalf = {10, -14, 65504.0};
constexpr FloatFormat kBfloat = {7, -126, 3.3895313892515355e38};

constexpr int kBias = 1023;  // of the exponent of a double
double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<u64>(exponent + kBias) << 52); }

// Rounding to a multiple of the distance between neighbours; nearbyint rounds ties to even.
double round_to_format(const FloatFormat& format, double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = std::max(static_cast<int>(std::bit_cast<u64>(value) >> 52 & 0x7ff) - kBias, format.min_exponent);
  int distance = exponent - format.mantissa_bits;
  double rounded = std::nearbyint(value * power_of_two(-distance)) * power_of_two(distance);
  return std::fabs(rounded) > format.largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

std::uint16_t half_bits(double value) {
  std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (std::isinf(value)) return sign | 0x7c00;
  if (magnitude < 0x1p-14) return sign | static_cast<std::uint16_t>(std::ldexp(magnitude, 24));
  int exponent = std::ilogb(magnitude);
  auto fraction = static_cast<std::uint16_t>(std::ldexp(magnitude, 10 - exponent)) & 1023;
  return static_cast<std::uint16_t>(sign | (exponent + 15) << 10 | fraction);
}

template <class Stored>
Stored stored(const u8* bytes) {
  Stored value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <class Stored, class Value>
void store(Value value, u8* bytes) {
  Stored made = static_cast<Stored>(value);
  std::memcpy(bytes, &made, sizeof made);
}

i64 floor_quotient(i64 a, i64 b) {
  return b == -1 ? static_cast<i64>(-static_cast<u64>(a)) : a / b - (a % b != 0 && (a < 0) != (b < 0));
}

i64 integer_result(BinaryOp op, i64 a, i64 b) {
  // Unsigned, because overflow wraps.
  u64 x = static_cast<u64>(a), y = static_cast<u64>(b);
  switch (op) {
    case BinaryOp::Add:
      return static_cast<i64>(x + y);
    case BinaryOp::Sub:
      return static_cast<i64>(x - y);
    case BinaryOp::Mul:
      return static_cast<i64>(x * y);
    case BinaryOp::FloorDiv:
      return floor_quotient(a, b);
    case BinaryOp::FloorMod:
      return static_cast<i64>(x - static_cast<u64>(floor_quotient(a, b)) * y);
    case BinaryOp::Min:
      return std::min(a, b);
    case BinaryOp::Max:
      return std::max(a, b);
    case BinaryOp::And:
      return a && b;
    case BinaryOp::Or:
      return a || b;
    default:
      TW_CHECK(false, "not an operation of integers");
  }
}

double float_result(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::Add:
      return a + b;
    case BinaryOp::Sub:
      return a - b;
    case BinaryOp::Mul:
      return a * b;
    case BinaryOp::Div:
      return a / b;
    case BinaryOp::Min:
      return a < b ? a : b;
    case BinaryOp::Max:
      return a > b ? a : b;
    default:
      TW_CHECK(false, "not an operation of floats");
  }
}

double function_result(Function function, double a, double b) {
  switch (function) {
    case Function::Exp:
      return std::exp(a);
    case Function::Log:
      return std::log(a);
    case Function::Sqrt:
      return std::sqrt(a);
    case Function::Rsqrt:
      return 1 / std::sqrt(a);
    case Function::Tanh:
      return std::tanh(a);
    case Function::Erf:
      return std::erf(a);
    case Function::Sigmoid:
      return 1 / (1 + std::exp(-a));
    case Function::Abs:
      return std::fabs(a);
    case Function::Floor:
      return std::floor(a);
    case Function::Ceil:
      return std::ceil(a);
    case Function::Round:
      return std::nearbyint(a);
    case Function::Pow:
      return std::pow(a, b);
    case Function::ReduceAdd:
    case Function::ReduceMul:
    case Function::ReduceMin:
    case Function::ReduceMax:
      return a;  // of one lane
    case Function::Within:
      return a;
  }
  return a;
}

i64 truncate(DType type, double value) {
  if (std::isnan(value)) return 0;
  int bits = 8 * bytes_of(type);
  double below = type == DType::U8 ? 0 : -std::ldexp(1.0, bits - 1);
  double above = std::ldexp(1.0, type == DType::U8 ? bits : bits - 1);
  if (value <= below) return static_cast<i64>(below);
  if (value >= above) return type == DType::I64 ? std::numeric_limits<i64>::max() : static_cast<i64>(above) - 1;
  return static_cast<i64>(value);
}

}  // namespace

double round_to(DType type, double value) {
  switch (type) {
    case DType::F32:
      return static_cast<float>(value);
    case DType::F16:
      return round_to_format(kHalf, value);
    case DType::BF16:
      return round_to_format(kBfloat, value);
    default:
      return value;
  }
}

i64 wrap_to(DType type, i64 value) {
  switch (type) {
    case DType::Bool:
      return value != 0;
    case DType::I8:
      return static_cast<std::int8_t>(value);
    case DType::U8:
      return static_cast<u8>(value);
    case DType::I32:
      return static_cast<std::int32_t>(value);
    default:
      return value;
  }
}

Scalar read_element(DType type, const u8* bytes) {
  switch (type) {
    case DType::Bool:
      return {bytes[0] != 0};
    case DType::I8:
      return {stored<std::int8_t>(bytes)};
    case DType::U8:
      return {bytes[0]};
    case DType::I32:
      return {stored<std::int32_t>(bytes)};
    case DType::I64:
      return {stored<i64>(bytes)};
    case DType::F16:
      return {0, half_value(stored<std::uint16_t>(bytes))};
    case DType::BF16:
      return {0, bfloat_value(stored<std::uint16_t>(bytes))};
    case DType::F32:
      return {0, stored<float>(bytes)};
    case DType::F64:
      return {0, stored<double>(bytes)};
  }
  return {};
}

void write_element(DType type, Scalar value, u8* bytes) {
  switch (type) {
    case DType::Bool:
    case DType::I8:
    case DType::U8:
      return store<u8>(value.i, bytes);
    case DType::I32:
      return store<std::int32_t>(value.i, bytes);
    case DType::I64:
      return store<i64>(value.i, bytes);
    case DType::F16:
      return store<std::uint16_t>(half_bits(value.f), bytes);
    case DType::BF16: {
      float wide = static_cast<float>(value.f);
      return store<std::uint16_t>(stored<u32>(reinterpret_cast<const u8*>(&wide)) >> 16, bytes);
    }
    case DType::F32:
      return store<float>(value.f, bytes);
    case DType::F64:
      return store<double>(value.f, bytes);
  }
}

Scalar convert_scalar(DType to, DType from, Scalar value) {
  if (is_float(from)) {
    if (is_float(to)) return {0, round_to(to, value.f)};
    return {to == DType::Bool ? value.f != 0 : truncate(to, value.f)};
  }
  if (is_int(to)) return {wrap_to(to, value.i)};
  // From i64 straight to f32: by way of double it would be rounded twice.
  return {0, to == DType::F32 ? static_cast<float>(value.i) : round_to(to, static_cast<double>(value.i))};
}

Scalar apply_binary(BinaryOp op, DType type, Scalar a, Scalar b) {
  if (is_comparison(op)) return {is_float(type) ? holds(op, a.f, b.f) : holds(op, a.i, b.i)};
  if (is_float(type)) return {0, round_to(type, float_result(op, a.f, b.f))};
  return {wrap_to(type, integer_result(op, a.i, b.i))};
}

Scalar apply_function(Function function, DType type, Scalar a, Scalar b) {
  if (is_int(type))
    return {wrap_to(type, a.i < 0 ? static_cast<i64>(-static_cast<u64>(a.i)) : a.i)};  // only abs takes integers
  return {0, round_to(type, function_result(function, a.f, b.f))};
}

}  // namespace tw
