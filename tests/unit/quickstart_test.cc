// ./quickstart: what it builds. It takes too long to be run here.
#include <gtest/gtest.h>

#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

// The scripts and the target agree, and the target needs no tests, no benchmarks and nothing for devices.
TEST(Quickstart, BuildsWhatItRunsAndNothingElse) {
  EXPECT_NE(test::read_file(TW_SOURCE_DIR "/quickstart").find("\nprepare quickstart quickstart "), std::string::npos);
  EXPECT_NE(test::read_file(TW_SOURCE_DIR "/run-tests").find("\nprepare run-tests all "), std::string::npos);
  test::Finished inputs = test::run_program({"ninja", "-C", TW_BINARY_DIR, "-t", "inputs", "quickstart"});
  if (inputs.code == 127) GTEST_SKIP() << "this test needs ninja";
  ASSERT_EQ(inputs.code, 0) << inputs.err;
  for (const char* needed :
       {"tracewright\n", "tracewright-worker\n", "tracewright-peer-fma\n", "libtracewright.so", "cli/cmd_tune.cc.o"})
    EXPECT_NE(inputs.out.find(needed), std::string::npos) << needed;
  for (const char* other : {"_test", "test_support", "codegen_bench", "search_profile", "tracewright-worker-",
                            "tracewright-emulator", "tracewright-gpu-bench"})
    EXPECT_EQ(inputs.out.find(other), std::string::npos) << other;
}

}  // namespace
}  // namespace tw
