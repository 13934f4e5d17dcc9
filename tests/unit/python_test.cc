// The Python package, by its own tests in tests/python. The backend of torch.compile runs on a stand-in for PyTorch;
// tests/scripts/nightly_python.sh takes the real one, and what `pip install .` gives.
#include <gtest/gtest.h>

#include <iostream>

#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using test::Finished;

bool can_import(const std::string& modules) {
  return test::run_program({TW_PYTHON, "-c", cat("import sys, ", modules, "; sys.exit(sys.version_info < (3, 9))")})
             .code == 0;
}

// Runs tests by their names in a file ("" = all). What they skip is printed.
void expect_passes(const std::string& file, const std::string& tests) {
  std::vector<std::string> words{TW_PYTHON, cat(TW_SOURCE_DIR "/tests/python/", file), "-v"};
  if (!tests.empty()) words.push_back(tests);
  test::TemporaryDirectory folder;
  Finished finished = test::run_program(
      words,
      {.folder = folder.path(), .environment = {"PYTHONPATH=" TW_BINARY_DIR "/python", "PYTHONDONTWRITEBYTECODE=1"}});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.err.find("\nRan "), std::string::npos) << finished.err;
  EXPECT_EQ(finished.err.find("\nRan 0 "), std::string::npos) << finished.err;
  for (const std::string& line : split(finished.err, '\n')) {
    if (line.find("... skipped") != std::string::npos) std::cout << line << "\n";
  }
}

TEST(Python, TheBackendOfTorchCompileOnAStandIn) {
  if (!can_import("numpy")) GTEST_SKIP() << "there is no Python 3.9 with NumPy at " TW_PYTHON;
  expect_passes("test_backend.py", "");
}

class PythonPackage : public testing::TestWithParam<const char*> {};

TEST_P(PythonPackage, PassesItsTests) {
  if (!TW_HAS_PYTHON_MODULE) GTEST_SKIP() << "the module was not built (TRACEWRIGHT_PYTHON_MODULE, needs nanobind)";
  if (!can_import("numpy, onnx")) GTEST_SKIP() << "python3-onnx is not installed";
  if (graph::onnx_operators().empty()) GTEST_SKIP() << "the plugin for ONNX files was not built";
  expect_passes("test_package.py", GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, PythonPackage, testing::Values("Compile", "Call", "Folders", "Tune", "Documents"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace tw
