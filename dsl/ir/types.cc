#include "dsl/ir/types.h"

#include <limits>

#include "dsl/base/check.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

struct DTypeRow {
  const char* name;
  int bytes;
  double lowest;
};
constexpr double kInf = std::numeric_limits<double>::infinity();
// In the order of the enumeration. The identity of a float max is -inf, so that masked softmax works.
constexpr DTypeRow kRows[kDTypes] = {
    {"bool", 1, 0},
    {"i8", 1, -128},
    {"u8", 1, 0},
    {"i32", 4, -2147483648.0},
    {"i64", 8, -9223372036854775808.0},
    {"f16", 2, -kInf},
    {"bf16", 2, -kInf},
    {"f32", 4, -kInf},
    {"f64", 8, -kInf},
};

}  // namespace

const char* name_of(DType type) { return kRows[static_cast<int>(type)].name; }
int bytes_of(DType type) { return kRows[static_cast<int>(type)].bytes; }
double lowest_of(DType type) { return kRows[static_cast<int>(type)].lowest; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (int i = 0; i < kDTypes; ++i) {
    if (name == kRows[i].name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::string to_string(Type type) {
  return type.lanes == 1 ? std::string(name_of(type.dtype)) : cat(name_of(type.dtype), "x", type.lanes);
}

}  // namespace tw
