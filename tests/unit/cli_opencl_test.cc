// The command on an OpenCL device, from a task list to a checked, printed and exported kernel. Skipped where there is
// no device.
#include <gtest/gtest.h>

#include <filesystem>

#include <boost/json/src.hpp>

#include "support/opencl_device.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

TEST(CliOpenCl, TunesReplaysAndExports) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  test::TemporaryDirectory folder, cache;
  test::write_file(folder.path() + "/list.yaml", R"(version: 1
target: {kind: opencl, device: 0}
budget: {trials: 4}
database: list.db
tasks:
  - {name: mm, op: dense, args: {M: 32, N: 48, K: 24}, epilogue: [bias, relu]}
)");
  test::RunOptions options{.folder = folder.path(), .environment = {"POCL_CACHE_DIR=" + cache.path()}};
  test::Finished tuned = test::tracewright({"tune", "list.yaml", "--model", "tree", "--json"}, options);
  ASSERT_EQ(tuned.code, 0) << tuned.out << tuned.err;
  EXPECT_NE(tuned.out.find("\"measured\":4"), std::string::npos) << tuned.out;
  test::Finished shown = test::tracewright({"show", "list.db", "--json"}, options);
  EXPECT_GT(boost::json::parse(shown.out).at("tasks").at(0).at("cold_us").to_number<double>(), 0) << shown.out;
  test::Finished checked = test::tracewright({"replay", "list.yaml", "--check"}, options);
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_NE(checked.out.find("mm: right"), std::string::npos) << checked.out;
  test::Finished bench = test::tracewright({"bench", "list.yaml", "--pairs", "20", "--json"}, options);
  ASSERT_EQ(bench.code, 0) << bench.err;
  boost::json::value json = boost::json::parse(bench.out);
  const boost::json::object& row = json.at("rows").at(0).as_object();
  EXPECT_GT(row.at("us").to_number<double>(), 0);
  EXPECT_GT(row.at("device_us").to_number<double>(), 0);
  EXPECT_GT(row.at("cold_us").to_number<double>(), 0);
  EXPECT_GE(row.at("pairs").to_number<int>(), 3);
  test::Finished source = test::tracewright({"replay", "list.yaml", "--emit", "source"}, options);
  EXPECT_NE(source.out.find("__kernel void mm_run_0"), std::string::npos) << source.err;
  test::Finished cuda =
      test::tracewright({"replay", "list.yaml", "--emit", "source", "--target", "cuda -arch=sm_80"}, options);
  EXPECT_NE(cuda.out.find("__global__"), std::string::npos) << cuda.err;
  test::Finished exported = test::tracewright({"export", "list.yaml", "--output", "out"}, options);
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_NE(test::read_file(folder.path() + "/out/sources/mm.cl").find("__kernel"), std::string::npos);
  EXPECT_NE(test::read_file(folder.path() + "/out/list.h").find("list_mm_run("), std::string::npos);
  boost::json::value manifest = boost::json::parse(test::read_file(folder.path() + "/out/manifest.json"));
  const boost::json::value& binary = manifest.at("tasks").at(0).at("binary");
  EXPECT_EQ(binary.at("file"), "sources/mm.bin");
  EXPECT_NE(binary.at("driver"), "");
  EXPECT_NE(test::read_file(folder.path() + "/out/sources/mm.bin"), "");
  options.environment.push_back("OCL_ICD_VENDORS=" + folder.path());  // no driver
  test::Finished bare = test::tracewright({"export", "list.yaml", "--output", "bare"}, options);
  EXPECT_EQ(bare.code, 0) << bare.err;
  EXPECT_NE(bare.err.find("sources without device binaries: there is no OpenCL device"), std::string::npos) << bare.err;
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/bare/sources/mm.bin"));
}

TEST(CliOpenCl, ADeviceThatIsNotThereIsSaidBeforeTheSearch) {
  test::TemporaryDirectory folder;
  test::write_file(folder.path() + "/list.yaml", R"(version: 1
target: {kind: opencl, device: 200}
database: list.db
tasks:
  - {name: mm, op: dense, args: {M: 32, N: 48, K: 24}}
)");
  test::Finished tuned = test::tracewright({"tune", "list.yaml"}, {.folder = folder.path()});
  EXPECT_EQ(tuned.code, 3);
  EXPECT_NE(tuned.err.find("there is no OpenCL device 200; there "), std::string::npos) << tuned.err;
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/list.db"));
}

TEST(CliOpenCl, OneRunMeasuresOnOneDevice) {
  test::TemporaryDirectory folder;
  test::write_file(folder.path() + "/list.yaml", R"(version: 1
target: {kind: opencl, device: 0}
budget: {trials: 4}
database: list.db
tasks:
  - {name: a, op: dense, args: {M: 32, N: 48, K: 24}}
  - {name: b, op: dense, args: {M: 32, N: 48, K: 24}, target: cpu}
)");
  test::Finished tuned = test::tracewright({"tune", "list.yaml"}, {.folder = folder.path()});
  EXPECT_EQ(tuned.code, 2);
  EXPECT_NE(tuned.err.find("one run measures on one device, but b is for `cpu"), std::string::npos) << tuned.err;
}

}  // namespace
}  // namespace tw
