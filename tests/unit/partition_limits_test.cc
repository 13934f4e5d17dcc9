// How far partition_loops goes: after so many statements of a nest no further loop of it is cut.
#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/passes/partition_loops.h"
#include "support/parsed.h"

namespace tw {
namespace {

// The last loop of a program behind this many statements, all of them in one loop or one after the other, after the
// pass.
std::string last_loop(int statements, bool in_one_nest) {
  std::string text = "program p(X: input f32[8], Y: output f32[8]) {\n";
  if (in_one_nest) text += "for n in 2 {\n";
  for (int i = 0; i < statements; ++i) text += "  Y[0] = 1.0\n";
  text += "  for i in 8 {\n    if i < 5 {\n      Y[i] = X[i]\n    }\n  }\n}\n";
  if (in_one_nest) text += "}\n";
  OwnedProgram program = test::parsed(text);
  Arena arena;
  std::string body = print(partition_loops(arena, program.program, {}).body);
  return body.substr(body.rfind("for i in"));
}

TEST(PartitionLimits, NoLoopIsCutBehind4000Statements) {
  EXPECT_EQ(last_loop(3999, true), "for i in 5 {\n    Y[i] = X[i]\n  }\n}\n");
  EXPECT_EQ(last_loop(4000, true), "for i in 8 {\n    if i < 5 {\n      Y[i] = X[i]\n    }\n  }\n}\n");
}

TEST(PartitionLimits, EveryNestHasItsOwn) { EXPECT_EQ(last_loop(5000, false), "for i in 5 {\n  Y[i] = X[i]\n}\n"); }

}  // namespace
}  // namespace tw
