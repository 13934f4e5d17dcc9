// Which types hold the values of which others, and which constants: every pair of types, and the limits.
#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "dsl/schedule/state.h"
#include "support/parsed.h"

namespace tw {
namespace {

// Does `set_dtype` accept type `to` for a buffer of type `from` that gets this value?
bool accepts(const std::string& from, const std::string& to, const std::string& value, const std::string& input = "") {
  std::string in = input.empty() ? from : input;
  OwnedProgram program = test::parsed(
      cat("program p(A: input ", in, "[4], C: output ", from, "[4]) {\n  local B: ", from, "[4]\n  for i in 4 {\n",
          "    block B(i: S 4 = i) {\n      B[i] = ", value,
          "\n    }\n  }\n  for i in 4 {\n    block C(i: S 4 = i) {\n", "      C[i] = B[i]\n    }\n  }\n}\n"));
  Trace trace = test::parsed_schedule(cat("b = get_block(\"B\")\nset_dtype(b, 0, \"", to, "\")\n"));
  Arena arena;
  State state(arena, program.program);
  return static_cast<bool>(replay(trace, state));
}

TEST(SetDtype, TypesThatHoldAllValuesOfAnother) {
  const std::vector<std::string> types = {"bool", "i8", "u8", "i32", "i64", "f16", "bf16", "f32", "f64"};
  const std::vector<std::string> held_by = {
      "bool i8 u8 i32 i64 f16 bf16 f32 f64",  // bool
      "i8 i32 i64 f16 bf16 f32 f64",          // i8
      "u8 i32 i64 f16 bf16 f32 f64",          // u8: bf16 has 8 bits of an integer
      "i32 i64 f64",                          // i32: f32 has 24
      "i64",                                  // i64: f64 has 53
      "f16 f32 f64",                          // f16: bf16 has fewer bits
      "bf16 f32 f64",                         // bf16: f16 does not reach as far
      "f32 f64",                              // f32
      "f64",                                  // f64
  };
  for (std::size_t from = 0; from < types.size(); ++from) {
    std::string found;
    for (const std::string& to : types) {
      if (accepts(types[from], to, "A[i]")) found += cat(found.empty() ? "" : " ", to);
    }
    EXPECT_EQ(found, held_by[from]) << types[from];
  }
}

TEST(SetDtype, ConstantsThatATypeHolds) {
  for (std::string number : {"0.0", "1.0", "64.0"}) EXPECT_TRUE(accepts("f32", "i8", number)) << number;
  for (std::string number : {"-1.0", "-64.0"}) EXPECT_TRUE(accepts("f32", "i8", number)) << number;
  for (std::string number : {"65.0", "-65.0", "0.5", "-0.0", "1.5"})
    EXPECT_FALSE(accepts("f32", "i8", number)) << number;
  EXPECT_TRUE(accepts("f32", "bf16", "-0.0")) << "floats have a zero with a sign";
  EXPECT_TRUE(accepts("f32", "u8", "0.0"));
  EXPECT_FALSE(accepts("f32", "u8", "-1.0"));
  EXPECT_TRUE(accepts("f32", "bool", "1.0"));
  EXPECT_FALSE(accepts("f32", "bool", "2.0"));
}

TEST(SetDtype, ChoicesAndClampsOfWhatATypeHolds) {
  EXPECT_TRUE(accepts("f32", "i8", "if i < 2 then 1.0 else 2.0"));
  EXPECT_FALSE(accepts("f32", "i8", "if i < 2 then 1.0 else 2.5"));
  EXPECT_FALSE(accepts("f32", "i8", "if i < 2 then 1.5 else 2.0"));
  for (std::string clamp : {"max", "min"}) {
    EXPECT_TRUE(accepts("f32", "i8", clamp + "(f32(A[i]), 3.0)", "i8"));
    EXPECT_TRUE(accepts("f32", "i8", clamp + "(3.0, f32(A[i]))", "i8"));
    EXPECT_FALSE(accepts("f32", "i8", clamp + "(f32(A[i]), 3.5)", "i8"));
    EXPECT_FALSE(accepts("f32", "i8", clamp + "(3.5, f32(A[i]))", "i8"));
  }
  EXPECT_FALSE(accepts("f32", "i8", "f32(A[i]) + 3.0", "i8")) << "a sum may be larger";
}

}  // namespace
}  // namespace tw
