// Builders and machines without a compiler as programs: `measure --build-for`, `measure --built-with`.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <filesystem>

#include "dsl/base/text.h"
#include "runtime/store/database.h"
#include "support/nvrtc.h"
#include "support/opencl_device.h"
#include "tests/unit/builder_kit.h"
#include "tests/unit/fleet_programs.h"

namespace tw {
namespace {

class BuiltMachine : public FleetPrograms {
 protected:
  void SetUp() override {
    FleetPrograms::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    write_key(folder_.path() + "/builder.key", kKey.secret, 0600);
    write_key(folder_.path() + "/builder.pub", kKey.open, 0644);
  }
  std::unique_ptr<Machine> start_builder(const std::string& target = "cpu") const {
    return start_machine({"--build-for", target, "--key", "builder.key"});
  }
  std::unique_ptr<Machine> start_board(const std::vector<std::string>& environment = {}) const {
    return start_machine({"--built-with", "builder.pub"}, environment);
  }
  boost::json::value tune(const std::string& list) const {
    test::Finished tuned = run({"tune", list, "--database", address_, "--measure-on", "fleet", "--json"});
    EXPECT_EQ(tuned.code, 0) << tuned.err;
    return boost::json::parse(tuned.out);
  }
  static i64 count(const test::Finished& finished, const char* of) {
    return boost::json::parse(finished.out).at(of).as_int64();
  }
  // The most memory that a process has had resident, in KiB.
  static long peak_kib(int pid) {
    const std::string status = test::read_file(cat("/proc/", pid, "/status"));
    std::size_t at = status.find("VmHWM:");
    return at == std::string::npos ? 0 : std::atol(status.c_str() + at + 6);
  }
  boost::json::value fleet() const { return boost::json::parse(run({"fleet", address_, "--json"}).out); }
};

TEST_F(BuiltMachine, MeasuresWhatABuilderCompiled) {
  std::unique_ptr<Machine> builder = start_builder(), board = start_board();
  boost::json::value result = tune("small.yaml");
  EXPECT_EQ(result.at("faults").as_int64(), 0);
  // Neither the library nor its compiler is in the machine's process.
  const std::string process = cat("/proc/", board->pid);
  EXPECT_EQ(std::filesystem::read_symlink(process + "/exe").filename(), "tracewright-measure");
  EXPECT_EQ(test::read_file(process + "/maps").find("libtracewright"), std::string::npos);
  const long with_compiler = peak_kib(builder->pid), without = peak_kib(board->pid);
  EXPECT_GT(without, 0);
  EXPECT_LT(2 * without, with_compiler) << "KiB";
  RecordProperty("KiB with a compiler", std::to_string(with_compiler));
  RecordProperty("KiB without", std::to_string(without));
  boost::json::value seen = fleet();
  EXPECT_GT(seen.at("builders").as_array().at(0).at("built").as_int64(), 0);
  EXPECT_EQ(seen.at("unbuilt").as_array().at(0).at("builders").as_int64(), 1);
  EXPECT_NE(run({"fleet", address_}).out.find("builds for"), std::string::npos);
  for (const boost::json::value& task : result.at("tasks").as_array()) {
    EXPECT_GT(task.at("best_us").to_number<double>(), 0);
    test::Finished replayed =
        run({"replay", "--record", std::to_string(task.at("record").as_int64()), "--database", address_, "--check"});
    EXPECT_EQ(replayed.code, 0) << replayed.err;
  }
  test::Finished measured = board->stop(), built = builder->stop();
  EXPECT_EQ(measured.code, 130) << measured.err;
  EXPECT_EQ(built.code, 130) << built.err;
  EXPECT_GT(count(measured, "good"), 0);
  EXPECT_EQ(count(measured, "faults") + count(measured, "failed"), 0);
  EXPECT_GE(count(built, "built"), count(measured, "good"));
}

TEST_F(BuiltMachine, IsCalibratedByKernelsOfTheBuilder) {
  std::unique_ptr<Machine> builder = start_builder(), board = start_calibrated_machine({"--built-with", "builder.pub"});
  boost::json::value result = tune("small.yaml");
  EXPECT_EQ(result.at("faults").as_int64(), 0);
  const boost::json::value calibration = fleet().at("machines").at(0).at("calibrations").at(0);
  EXPECT_EQ(calibration.at("class").as_int64(), 1);
  const boost::json::object& seconds = calibration.at("seconds").as_object();
  EXPECT_EQ(seconds.size(), 3u);
  for (const auto& [kernel, time] : seconds) EXPECT_GT(time.to_number<double>(), 1e-7) << std::string(kernel);
  EXPECT_GT(count(board->stop(), "good"), 0);
}

TEST_F(BuiltMachine, AKilledBuilderIsReplaced) {
  std::unique_ptr<Machine> first = start_builder(), board = start_board();
  auto tuned = std::async(std::launch::async, [this] { return tune("small.yaml"); });
  TrialQueue queue = this->queue();
  auto taken = [&] {
    auto rows = queue.connection().run("select count(*) from tracewright_fleet.builds");
    return rows && (*rows)[0].integer(0) > 0;
  };
  while (!taken()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(first->stop(SIGKILL).code, 128 + SIGKILL);
  server_->sql(name_, "update tracewright_fleet.builds set deadline = deadline - interval '1 hour'");
  std::unique_ptr<Machine> second = start_builder();
  EXPECT_EQ(tuned.get().at("faults").as_int64(), 0);
  EXPECT_GT(count(second->stop(), "built"), 0);
}

TEST_F(BuiltMachine, WithoutABuilderTheTunerEndsAsTold) {
  std::unique_ptr<Machine> board = start_board();
  test::Finished tuned = run({"tune", "small.yaml", "--database", address_, "--measure-on", "fleet", "--seconds", "4"});
  EXPECT_EQ(tuned.code, 1) << tuned.err;
  EXPECT_NE(tuned.err.find("no machine measures for"), std::string::npos) << tuned.err;
  EXPECT_NE(run({"fleet", address_}).out.find("none: start `tracewright measure --build-for`"), std::string::npos);
}

TEST_F(BuiltMachine, AnOpenClDeviceWithoutACompilerBesideIt) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  test::write_file(folder_.path() + "/list.yaml",
                   "version: 1\ntarget: {kind: opencl, device: 0}\nbudget: {trials: 4, min_gain: 0}\n"
                   "tasks: [{name: mm, op: matmul, args: {M: 256, N: 1024, K: 32}}]\n");
  std::unique_ptr<Machine> builder = start_builder("opencl"), board = start_board();
  EXPECT_EQ(tune("list.yaml").at("faults").as_int64(), 0);
  test::Finished measured = board->stop();
  EXPECT_GT(count(measured, "good"), 0) << measured.out;
}

TEST_F(BuiltMachine, ACudaDeviceWithoutNvrtc) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  test::write_file(folder_.path() + "/list.yaml",
                   "version: 1\ntarget: {kind: cuda, arch: sm_80}\nbudget: {trials: 6, min_gain: 0}\n"
                   "tasks: [{name: mm, op: matmul, args: {M: 64, N: 64, K: 32}}]\n");
  std::unique_ptr<Machine> builder = start_builder("cuda -arch=sm_80"),
                           board = start_board(
                               {cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/cuda_stub"), "TW_STUB_GEMM=64,64,32"});
  EXPECT_EQ(tune("list.yaml").at("faults").as_int64(), 0);
  test::Finished measured = board->stop();
  EXPECT_GT(count(measured, "good"), 0) << measured.out;
}

TEST_F(BuiltMachine, SaysWhatIsWrong) {
  auto code = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"measure", "--database", address_};
    words.insert(words.end(), more.begin(), more.end());
    return run(words).code;
  };
  EXPECT_EQ(code({"--build-for", "cpu"}), 2) << "no key";
  EXPECT_EQ(code({"--key", "builder.key"}), 2) << "nothing to build for";
  EXPECT_EQ(code({"--build-for", "moon", "--key", "builder.key"}), 2);
  EXPECT_EQ(code({"--build-for", "cpu", "--key", "builder.key", "--built-with", "builder.pub"}), 2);
  EXPECT_EQ(code({"--build-for", "cpu", "--key", "builder.pub"}), 3);
  EXPECT_EQ(code({"--build-for", "cpu", "--key", "nowhere.key"}), 3);
  EXPECT_EQ(code({"--built-with", "builder.key"}), 3);
  EXPECT_EQ(code({"--built-with", "nowhere.pub"}), 3);
}

}  // namespace
}  // namespace tw
