// How far partition_loops goes: after so many statements no further loop is cut.
#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/passes/partition_loops.h"
#include "support/parsed.h"

namespace tw {
namespace {

// The last loop of a program behind this many statements, after the pass.
std::string last_loop(int statements) {
  std::string text = "program p(X: input f32[8], Y: output f32[8]) {\n";
  for (int i = 0; i < statements; ++i) text += "  Y[0] = 1.0\n";
  text += "  for i in 8 {\n    if i < 5 {\n      Y[i] = X[i]\n    }\n  }\n}\n";
  OwnedProgram program = test::parsed(text);
  Arena arena;
  std::string body = print(partition_loops(arena, program.program, {}).body);
  return body.substr(body.rfind("for i in"));
}

TEST(PartitionLimits, NoLoopIsCutBehind4000Statements) {
  EXPECT_EQ(last_loop(3999), "for i in 5 {\n  Y[i] = X[i]\n}\n");
  EXPECT_EQ(last_loop(4000), "for i in 8 {\n  if i < 5 {\n    Y[i] = X[i]\n  }\n}\n");
}

}  // namespace
}  // namespace tw
