// The command on an OpenCL device, from a task list to a checked, printed and exported kernel. Skipped where there is
// no device.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>

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

// What `doctor` says about OpenCL.
boost::json::object opencl_line(const test::RunOptions& options) {
  boost::json::value report = boost::json::parse(test::tracewright({"doctor", "--json"}, options).out);
  for (const boost::json::value& check : report.at("checks").as_array()) {
    if (check.at("name").as_string() == "opencl") return check.as_object();
  }
  return {};
}

// A file where PoCL wants a folder, so that root cannot write it either. Its platform is there in each case, its device
// only in the first.
TEST(CliOpenCl, ACacheThatPoclCannotWriteIsSaidByDoctorAndBeforeTheSearch) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  test::TemporaryDirectory folder;
  std::string file = folder.path() + "/file";
  test::write_file(file, "");
  test::write_file(folder.path() + "/list.yaml", R"(version: 1
target: {kind: opencl, device: 0}
budget: {trials: 6}
database: list.db
tasks:
  - {name: mm, op: dense, args: {M: 32, N: 48, K: 24}}
)");
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"POCL_CACHE_DIR=" + file}, file},
      {{"POCL_CACHE_DIR=" + file + "/new"}, file + "/new"},
      {{"POCL_CACHE_DIR=", "XDG_CACHE_HOME=" + file}, file + "/pocl"},
      {{"POCL_CACHE_DIR=", "XDG_CACHE_HOME=", "HOME=" + file}, file + "/.cache/pocl"},
  };
  for (const auto& [environment, cache] : cases) {
    test::RunOptions options{.folder = folder.path(), .environment = environment};
    std::string reason = "PoCL cannot write its cache of compiled kernels, " + cache + " (Not a directory)",
                fix = "set POCL_CACHE_DIR to a folder that can be written";
    boost::json::object line = opencl_line(options);
    EXPECT_FALSE(line.at("ok").as_bool()) << cache;
    EXPECT_EQ(line.at("detail").as_string().c_str(), reason);
    EXPECT_EQ(line.at("fix").as_string().c_str(), fix);
    test::Finished tuned = test::tracewright({"tune", "list.yaml", "--model", "tree"}, options);
    EXPECT_EQ(tuned.code, 3) << tuned.out << tuned.err;
    EXPECT_EQ(tuned.err, "tracewright: " + reason + "; " + fix + "\n");
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/list.db"));
  }
}

// Drivers here are a stub's: PoCL that cannot write its cache beside a device that can be used, and a loader that
// leaves PoCL out.
TEST(CliOpenCl, OtherDevicesAreUsedWherePoclCannotBe) {
  const std::string worker = TW_BINARY_DIR "/tracewright-worker-opencl", stub = TW_BINARY_DIR "/tests/opencl_stub";
  if (!std::filesystem::exists(worker)) GTEST_SKIP() << "built without OpenCL headers";
  test::TemporaryDirectory folder;
  std::string file = folder.path() + "/file";
  test::write_file(file, "");
  std::string problem = "PoCL cannot write its cache of compiled kernels, " + file +
                        " (Not a directory); set POCL_CACHE_DIR to a folder that can be written\n";
  auto with = [&](const std::string& platforms) {
    return test::RunOptions{.folder = folder.path(),
                            .environment = {"LD_LIBRARY_PATH=" + stub, "TW_STUB_CL_PLATFORMS=" + platforms,
                                            "OCL_ICD_VENDORS=" + folder.path(), "POCL_CACHE_DIR=" + file}};
  };
  EXPECT_EQ(test::run_program({worker, "--list"}, with("PoCL")).out,
            "0 Portable Computing Language: cannot be used: " + problem + "1 stub (stub)\n");
  test::write_file(
      folder.path() + "/list.yaml",
      "version: 1\ntarget: {kind: opencl, device: 0}\ntasks: [{name: mm, op: dense, args: {M: 32, N: 48, K: 24}}]\n");
  test::Finished tuned = test::tracewright({"tune", "list.yaml"}, with("PoCL"));
  EXPECT_EQ(tuned.code, 3);
  EXPECT_EQ(tuned.err, "tracewright: " + problem);
  EXPECT_FALSE(opencl_line(with("PoCL")).at("ok").as_bool());
  EXPECT_EQ(test::run_program({worker, "--list"}, with("")).out,
            "there is no OpenCL device; install a driver, for processors pocl-opencl-icd\n");
  test::write_file(folder.path() + "/any.icd", "libpocl.so.2\n");
  EXPECT_EQ(test::run_program({worker, "--list"}, with("")).out, problem);
}

TEST(CliOpenCl, AnEmptyFolderOfPoclsCacheCountsAsNone) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  test::TemporaryDirectory cache;
  test::RunOptions options{.environment = {"POCL_CACHE_DIR=", "XDG_CACHE_HOME=" + cache.path()}};
  boost::json::object line = opencl_line(options);
  EXPECT_TRUE(line.at("ok").as_bool()) << line;
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
