// Exit codes of commands that consist of several parts.
#include <gtest/gtest.h>

#include "cli/commands.h"

namespace tw::cli {
namespace {

// What was found before Ctrl-C stays found.
TEST(ExitCodes, AWrongResultCountsMost) {
  EXPECT_EQ(worse_code(WrongResults, Interrupted), WrongResults);
  EXPECT_EQ(worse_code(Interrupted, WrongResults), WrongResults);
  EXPECT_EQ(worse_code(TargetMissed, WrongResults), WrongResults);
}

TEST(ExitCodes, CtrlCCountsMoreThanTheRest) {
  EXPECT_EQ(worse_code(Environment, Interrupted), Interrupted);
  EXPECT_EQ(worse_code(Ok, Interrupted), Interrupted);
}

TEST(ExitCodes, OfOthersTheFirstOneThatIsNotOk) {
  EXPECT_EQ(worse_code(Ok, Ok), Ok);
  EXPECT_EQ(worse_code(Ok, Environment), Environment);
  EXPECT_EQ(worse_code(TargetMissed, Environment), TargetMissed);
}

}  // namespace
}  // namespace tw::cli
