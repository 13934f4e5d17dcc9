// Element types and small enumerations of the IR.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "dsl/base/arena.h"

namespace tw {

enum class DType : u8 { Bool, I8, U8, I32, I64, F16, BF16, F32, F64 };
inline constexpr int kDTypes = 9;

const char* name_of(DType type);  // "f32"
std::optional<DType> parse_dtype(std::string_view name);
int bytes_of(DType type);  // of one element in memory; bool takes 1
inline bool is_float(DType type) { return type >= DType::F16; }
inline bool is_int(DType type) { return type < DType::F16; }
// Two bytes, which backends compute with as f32.
inline bool is_half(DType type) { return type == DType::F16 || type == DType::BF16; }
// Smallest and largest finite value of a type, as needed for the identity of max and min.
double lowest_of(DType type);

// A value's type: dtype, and how many lanes once loops are vectorized. Indices are I64.
struct Type {
  DType dtype = DType::I64;
  std::uint16_t lanes = 1;
  bool operator==(const Type&) const = default;
};
std::string to_string(Type type);  // "f32" or "f32x8"

// An output element is right if |actual - expected| <= absolute + relative * |expected|, or both are NaN, or the same
// infinity. In a workload 0 and 0 mean that none is stated.
struct Tolerance {
  double absolute = 0, relative = 0;
};

// Values that integers may have: [lowest, below). Where both are 0 nothing is known.
struct IndexRange {
  i64 lowest = 0, below = 0;
  bool operator==(const IndexRange&) const = default;
};

// Handles. They survive rewriting; 0 is no handle.
struct LoopId {
  u32 value = 0;
  bool operator==(const LoopId&) const = default;
};
struct BlockId {
  u32 value = 0;
  bool operator==(const BlockId&) const = default;
};
struct BufferId {
  u32 value = 0;
  bool operator==(const BufferId&) const = default;
};

}  // namespace tw
