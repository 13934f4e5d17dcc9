// The built program on a machine without the optional libraries: what works, and what it says about the rest.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <map>

#include "dsl/base/text.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using test::Finished;

constexpr int kCannotHide = 77;

class MissingPackages : public testing::Test {
 protected:
  void SetUp() override {
    if (hidden({"true"}).code == kCannotHide)
      GTEST_SKIP() << "hiding packages needs root, mount namespaces, overlay file systems and dpkg";
  }
  // Runs a program that sees no LibTorch, XGBoost, OpenBLAS, BLIS and oneDNN.
  Finished hidden(std::vector<std::string> words) const {
    words.insert(words.begin(), {TW_SOURCE_DIR "/tests/scripts/without_packages.sh",
                                 "libtorch* libxgboost* libopenblas* libblis* libdnnl*"});
    return test::run_program(words, {.folder = folder_.path()});
  }
  Finished tracewright(std::vector<std::string> words) const {
    words.insert(words.begin(), TW_BINARY_DIR "/tracewright");
    return hidden(std::move(words));
  }
  static boost::json::value parsed(const Finished& finished) {
    EXPECT_EQ(finished.code, 0) << finished.err;
    boost::system::error_code error;
    boost::json::value value = boost::json::parse(finished.out, error);
    EXPECT_FALSE(error) << finished.out;
    return value;
  }

  test::TemporaryDirectory folder_;
};

const std::map<std::string, std::string> kPackages = {
    {"openblas", "libopenblas-dev"}, {"blis", "libblis-dev"}, {"onednn", "libdnnl-dev"}, {"libtorch", "libtorch-dev"}};

TEST_F(MissingPackages, DoctorSaysWhatToInstall) {
  boost::json::value report = parsed(tracewright({"doctor", "--json"}));
  EXPECT_TRUE(report.at("works").as_bool());
  std::map<std::string, boost::json::value> checks;
  for (const boost::json::value& check : report.at("checks").as_array())
    checks[check.at("name").as_string().c_str()] = check;
  EXPECT_FALSE(checks.at("libtorch").at("ok").as_bool());
  EXPECT_EQ(checks.at("libtorch").at("fix").as_string(), "sudo apt install libtorch-dev, then build again");
  EXPECT_FALSE(checks.at("xgboost").at("ok").as_bool());
  EXPECT_EQ(checks.at("xgboost").at("fix").as_string(),
            "sudo apt install libxgboost0, or set TRACEWRIGHT_XGBOOST to the library");
  for (const auto& [library, package] : kPackages) {
    const boost::json::value& check = checks.at("bench against " + library);
    EXPECT_FALSE(check.at("ok").as_bool()) << check;
    EXPECT_EQ(check.at("fix").as_string(), "sudo apt install " + package + ", then build again");
  }
}

TEST_F(MissingPackages, TuneWorksAndBenchSaysWhatIsMissing) {
  test::write_file(folder_.path() + "/small.yaml", R"yaml(version: 1
target: {kind: cpu, threads: 1}
budget: {trials: 20, min_gain: 0}
database: small.db
tasks:
  - {name: gemm, op: matmul, args: {M: 48, N: 128, K: 64}}
)yaml");
  Finished tuned = tracewright({"tune", "small.yaml", "--json"});
  EXPECT_EQ(parsed(tuned).at("tasks").at(0).at("trials").as_int64(), 20);
  EXPECT_NE(tuned.err.find("using the built-in cost model `tree`"), std::string::npos) << tuned.err;

  Finished without = tracewright({"tune", "small.yaml", "--json", "--more", "5", "--model", "xgboost"});
  EXPECT_EQ(parsed(without).at("tasks").at(0).at("trials").as_int64(), 25);
  EXPECT_NE(without.err.find("the cost model `xgboost` needs XGBoost, which did not open: libxgboost.so.0"),
            std::string::npos)
      << without.err;
  EXPECT_NE(without.err.find("sudo apt install libxgboost0"), std::string::npos) << without.err;

  Finished compared = tracewright({"bench", "small.yaml", "--against", "openblas,onednn,blis,libtorch", "--json"});
  boost::json::value report = parsed(compared);
  ASSERT_EQ(report.at("rows").as_array().size(), 1u);
  EXPECT_EQ(report.at("rows").at(0).at("library").as_string(), "tracewright");
  EXPECT_GT(report.at("rows").at(0).at("us").as_double(), 0);
  std::map<std::string, std::string> reasons;
  for (const boost::json::value& row : report.at("skipped").as_array())
    reasons[row.at("library").as_string().c_str()] = row.at("reason").as_string().c_str();
  EXPECT_EQ(reasons.size(), kPackages.size());
  for (const auto& [library, package] : kPackages) {
    EXPECT_NE(reasons[library].find("install the package " + package), std::string::npos)
        << library << ": " << reasons[library];
    EXPECT_NE(compared.err.find("gemm: " + library + ": "), std::string::npos) << compared.err;
  }
}

}  // namespace
}  // namespace tw
