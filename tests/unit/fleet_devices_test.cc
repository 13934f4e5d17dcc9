// Machines with devices measure for a tuner that has none: an OpenCL device (PoCL), and CUDA with a driver that runs no
// machine code (tests/cuda_stub).
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include "dsl/base/text.h"
#include "runtime/store/database.h"
#include "support/nvrtc.h"
#include "support/opencl_device.h"
#include "tests/unit/fleet_programs.h"

namespace tw {
namespace {

class FleetDevices : public FleetPrograms {
 protected:
  // A tuner for a target: no driver is found in `environment`. Gives its result.
  boost::json::value tune_for(const std::string& target, const std::vector<std::string>& environment) {
    test::write_file(folder_.path() + "/list.yaml",
                     cat("version: 1\ntarget: ", target,
                         "\nbudget: {trials: 6, min_gain: 0}\n"
                         "tasks: [{name: mm, op: matmul, args: {M: 64, N: 64, K: 32}}]\n"));
    std::vector<std::string> words = {"tune", "list.yaml", "--database", address_, "--json"};
    std::vector<std::string> here = words;
    here.insert(here.end(), {"--measure-on", "here"});
    EXPECT_EQ(run(here, {}, environment).code, 3) << "the tuner has the device itself";
    here = {"tune", "list.yaml", "--database", "file.db"};
    EXPECT_EQ(run(here, {}, environment).code, 3) << "a file has no fleet";
    test::Finished tuned = run(words, {}, environment);
    EXPECT_EQ(tuned.code, 0) << tuned.err;
    EXPECT_NE(tuned.err.find(cat("; the machines of ", address_, " measure")), std::string::npos) << tuned.err;
    return boost::json::parse(tuned.out);
  }
  std::vector<Record> good_records() const {
    std::vector<Record> good;
    auto database = Database::open(address_, DatabaseMode::Read);
    EXPECT_TRUE(database) << database.error();
    EXPECT_TRUE(database->visit({}, [&](Record& record) {
      if (record.ok()) good.push_back(record);
    }));
    return good;
  }
};

TEST_F(FleetDevices, AnOpenClDeviceMeasuresForATunerWithoutOne) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  std::unique_ptr<Machine> machine = start_machine();
  boost::json::value result = tune_for("{kind: opencl, device: 0}", {"OCL_ICD_VENDORS=/nowhere"});
  EXPECT_GT(result.at("tasks").as_array().at(0).at("best_us").to_number<double>(), 0);
  EXPECT_EQ(result.at("faults").as_int64(), 0);
  std::vector<Record> good = good_records();
  EXPECT_GE(good.size(), 4u);
  for (const Record& record : good) EXPECT_NE(record.host.find("; "), std::string::npos) << record.host;
  EXPECT_EQ(boost::json::parse(machine->stop().out).at("faults").as_int64(), 0);
}

TEST_F(FleetDevices, ACudaDeviceMeasuresForATunerWithoutOne) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  if (test::has_cuda_driver()) GTEST_SKIP() << "the tuner would have a device";
  std::unique_ptr<Machine> machine =
      start_machine({}, {cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/cuda_stub"), "TW_STUB_GEMM=64,64,32"});
  boost::json::value result = tune_for("{kind: cuda, arch: sm_80}", {});
  EXPECT_EQ(result.at("faults").as_int64(), 0);
  EXPECT_GT(result.at("tasks").as_array().at(0).at("best_us").to_number<double>(), 0);
  EXPECT_GE(good_records().size(), 1u);
  EXPECT_EQ(boost::json::parse(machine->stop().out).at("faults").as_int64(), 0);
}

}  // namespace
}  // namespace tw
