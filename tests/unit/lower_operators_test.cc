// Every operator of the library lowers, unscheduled, and computes the same then; so does its reference in double
// precision.
#include <gtest/gtest.h>

#include "dsl/ir/print.h"
#include "dsl/passes/widen.h"
#include "support/small_operators.h"
#include "tests/unit/evaluate.h"

namespace tw {
namespace {

TEST(LowerOperators, AllLower) {
  for (const auto& [name, owned] : test::small_operators()) {
    Arena& arena = *owned.arena;
    Program wide = widen_to_f64(arena, owned.program);
    for (const Program& program : {owned.program, wide}) {
      std::vector<PassDump> dumps;
      Result<LoweredProgram> lowered = lower(arena, program, {}, &dumps);
      ASSERT_TRUE(lowered) << to_string(lowered.rejected()) << "\n" << print(program);
      EXPECT_EQ(outputs_of(*lowered, 1), outputs_of(program, 1))
          << print(program) << (dumps.empty() ? "" : dumps.back().text);
    }
    OutputValues exact = outputs_of(wide, 1), rounded = outputs_of(owned.program, 1);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      for (std::size_t j = 0; j < exact[i].size(); ++j) ASSERT_NEAR(exact[i][j], rounded[i][j], 1e-4) << name;
    }
  }
}

}  // namespace
}  // namespace tw
