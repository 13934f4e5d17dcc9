// cmake --install and find_package(Tracewright): a project of its own, configured, built and run
// against the installed files.
#include <gtest/gtest.h>

#include "dsl/base/sanitizer.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using test::Finished;

TEST(Consumer, AnInstalledTracewrightIsFoundAndUsed) {
  if (TW_SANITIZED) GTEST_SKIP() << "who links a sanitized library needs the sanitizer, too";
  test::TemporaryDirectory folder;
  std::string installed = folder.path() + "/installed", build = folder.path() + "/build";
  Finished install = test::run_program({"cmake", "--install", TW_BINARY_DIR, "--prefix", installed});
  ASSERT_EQ(install.code, 0) << install.err;
  Finished configured = test::run_program(
      {"cmake", "-G", "Ninja", "-S", TW_SOURCE_DIR "/tests/consumer", "-B", build, "-DCMAKE_PREFIX_PATH=" + installed});
  ASSERT_EQ(configured.code, 0) << configured.out << configured.err;
  Finished built = test::run_program({"cmake", "--build", build});
  ASSERT_EQ(built.code, 0) << built.out << built.err;
  Finished ran = test::run_program({build + "/consumer"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("split(j, [_, 8])"), std::string::npos) << ran.out;
  // The rules that are built in can be read.
  EXPECT_EQ(test::read_file(installed + "/share/tracewright/rules/cpu/register_tiling.tw"),
            test::read_file(TW_SOURCE_DIR "/rules/cpu/register_tiling.tw"));
  // The installed command works from where it is.
  Finished doctor = test::run_program({installed + "/bin/tracewright", "doctor"}, {.folder = folder.path()});
  EXPECT_EQ(doctor.code, 0) << doctor.out << doctor.err;
}

}  // namespace
}  // namespace tw
