// `compile --target` of a device: the library is checked and runs, records of the device are used, and what cannot be
// done is said.
#include <gtest/gtest.h>

#include <filesystem>

#include "graph/import_onnx.h"
#include "support/nvrtc.h"
#include "support/opencl_device.h"
#include "support/run_program.h"
#include "support/support.h"
#include "tests/unit/onnx_files.h"

namespace tw {
namespace {

using test::Finished;

// y = relu(x) and two products of x with itself, transposed: a model that needs no weights.
std::string two_products() {
  using namespace graph::test;
  return model(part(1, node("Transpose", {"x"}, {"t"})) + part(1, node("MatMul", {"x", "t"}, {"s"})) +
               part(1, node("Softmax", {"s"}, {"p"})) + part(1, node("MatMul", {"p", "x"}, {"y"})) + part(2, "g") +
               part(11, value_info("x", DType::F32, {24, 32})) + part(12, value_info("y", DType::F32, {24, 32})));
}

class CompileForADevice : public testing::Test {
 protected:
  void SetUp() override {
    if (graph::onnx_operators().empty()) GTEST_SKIP() << "the plugin for ONNX files was not built";
    test::write_file(at("net.onnx"), two_products());
  }
  std::string at(const std::string& name) const { return folder.path() + "/" + name; }
  Finished run(std::vector<std::string> words) {
    return test::tracewright(std::move(words), {.folder = folder.path()});
  }
  void expect_refused(const std::vector<std::string>& words, int code, const std::string& message) {
    Finished found = run(words);
    EXPECT_EQ(found.code, code) << found.err;
    EXPECT_NE(found.err.find(message), std::string::npos) << found.err;
    EXPECT_EQ(found.out, "");
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  test::TemporaryDirectory folder;
};

TEST_F(CompileForADevice, BadTargetsAreRefused) {
  auto with = [](const std::string& target) {
    return std::vector<std::string>{"compile", "net.onnx", "--output", "out", "--target", target};
  };
  expect_refused(with("cpu"), 2, "--target is for devices");
  expect_refused(with("opnecl"), 2, "did you mean `opencl`?");
  expect_refused(with("cuda -device=h1000"), 2, "unknown device `h1000`");
  expect_refused(with("opencl -device=x"), 2, "expected `device` to be an integer");
  std::vector<std::string> two_entries = with("opencl");
  two_entries.insert(two_entries.end(), {"--shape", "x=24,32", "--shape", "x=8,32"});
  expect_refused(two_entries, 2, "a library for a device has one entry");
  EXPECT_FALSE(std::filesystem::exists(at("out")));
}

TEST_F(CompileForADevice, AnOpenClLibraryIsCheckedAndRuns) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  Finished made = run({"compile", "net.onnx", "--target", "opencl", "--output", "out", "--check"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(has(made.out, "checked y: largest error")) << made.out;
  std::string manifest = test::read_file(at("out/manifest.json"));
  EXPECT_TRUE(has(manifest, "\"target\":\"opencl -device=0\"")) << manifest;
  EXPECT_TRUE(has(manifest, "\"steps\":[")) << manifest;
  Finished ran = run({"run", "out", "--seconds", "0.05"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "y: f32[24, 32]")) << ran.out;
  Finished at_once = run({"run", "net.onnx", "--target", "opencl"});
  EXPECT_EQ(at_once.code, 0) << at_once.err;
  EXPECT_TRUE(has(at_once.out, "y: f32[24, 32]")) << at_once.out;
  expect_refused({"run", "out", "--target", "opencl"}, 2, "are for an ONNX file");
  Finished far = run({"compile", "net.onnx", "--target", "opencl -device=99", "--output", "far", "--check"});
  EXPECT_EQ(far.code, 3) << far.err;
  EXPECT_TRUE(has(far.err, "there is no such device, or no driver for it")) << far.err;
  expect_refused({"report", "out"}, 2, "reports are of libraries for processors");
}

TEST_F(CompileForADevice, AnOpenClLibraryIsTimed) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  ASSERT_EQ(run({"compile", "net.onnx", "--target", "opencl", "--output", "out"}).code, 0);
  Finished profile = run({"run", "out", "--profile", "--json"});
  EXPECT_EQ(profile.code, 0) << profile.err;
  for (const char* kernel : {"matmul", "softmax"}) EXPECT_TRUE(has(profile.out, kernel)) << profile.out;
  EXPECT_FALSE(has(profile.out, "\"seconds\":0,")) << profile.out;
  Finished times = run({"run", "out", "--seconds", "0.1"});
  EXPECT_TRUE(has(times.out, "calls with copies from and to the host")) << times.out << times.err;
  EXPECT_TRUE(has(times.out, "on the device alone: ")) << times.out;
  times = run({"run", "out", "--seconds", "0.1", "--json"});
  for (const char* field : {"{\"calls\":", "\"us\":", "\"fastest_us\":", "\"create_us\":", "\"device\":{\"us\":",
                            "\"launched_us\":", "\"graph\":false}"})
    EXPECT_TRUE(has(times.out, field)) << times.out;
  expect_refused({"run", "out", "--json"}, 2, "--json is for --profile and --seconds");
}

// The weights of a model are read by its own library only; here there are none, so what is damaged is the kernel.
TEST_F(CompileForADevice, AKernelThatTheDriverRefusesIsNamed) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  ASSERT_EQ(run({"compile", "net.onnx", "--target", "opencl", "--output", "out"}).code, 0);
  std::string source = test::read_file(at("out/net.c"));
  std::size_t kernel = source.find("kernel void ");
  ASSERT_NE(kernel, std::string::npos);
  test::write_file(at("out/net.c"), source.replace(kernel, 6, "kernul"));
  Finished joined = test::run_program({"cc", "-shared", "-fPIC", "-o", "libnet.so", "net.c"}, {.folder = at("out")});
  ASSERT_EQ(joined.code, 0) << joined.err;
  expect_refused({"run", "out"}, 3, "loading the kernel net_");
}

TEST_F(CompileForADevice, KernelsThatWereTunedForItAreUsed) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  test::write_file(at("list.yaml"), "version: 1\ntarget: {kind: opencl}\ntasks:\n  - {name: net, model: net.onnx}\n");
  Finished tuned = run({"tune", "list.yaml", "--trials", "2", "--database", "own.db"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  Finished made =
      run({"compile", "net.onnx", "--target", "opencl", "--database", "own.db", "--output", "out", "--check"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(has(made.err, "3 of 3 kernels come from own.db")) << made.err;
  Finished other = run({"compile", "net.onnx", "--threads", "1", "--database", "own.db", "--output", "host"});
  EXPECT_TRUE(has(other.err, "0 of 1 kernels come from own.db")) << "records are of one target: " << other.err;
}

TEST_F(CompileForADevice, CudaKernelsAreCheckedInTheEmulator) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  Finished made = run({"compile", "net.onnx", "--target", "cuda -device=a100", "--output", "out", "--check"});
  EXPECT_EQ(made.code, 0) << made.err;
  bool has_emulator = !has(made.err, "not checked in the emulator");
  EXPECT_TRUE(has(made.out, has_emulator ? "checked 3 of 3 kernels" : "checked 0 of 3 kernels")) << made.out;
  EXPECT_EQ(has(made.err, "the library as a whole is not checked: "), !test::has_cuda_driver()) << made.err;
  EXPECT_TRUE(std::filesystem::exists(at("out/libnet.so")));
}

}  // namespace
}  // namespace tw
