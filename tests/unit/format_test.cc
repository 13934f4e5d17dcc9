// Every C++ file is formatted as .clang-format says. cmake/format.sh mends what is not.
#include <gtest/gtest.h>

#include "support/run_program.h"

namespace tw {
namespace {

constexpr const char* kScript = TW_SOURCE_DIR "/cmake/format.sh";

bool has_formatter() {
  return test::run_program({"/bin/sh", "-c", "command -v clang-format-19 && command -v git"}).code == 0;
}

TEST(Format, EveryFileIsFormatted) {
  if (!has_formatter()) GTEST_SKIP() << "clang-format-19 or git is not installed";
  test::Finished checked = test::run_program({kScript, "--check"});
  EXPECT_EQ(checked.code, 0) << "run cmake/format.sh\n" << checked.err.substr(0, 4000);
}

}  // namespace
}  // namespace tw
