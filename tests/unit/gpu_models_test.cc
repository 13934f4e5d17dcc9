// gpu-models on an OpenCL device, with a program in Python's place: each step leaves its results, whatever goes wrong
// with another network, and the whole ends in time. What PyTorch and a GPU say is not tested here.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "graph/import_onnx.h"
#include "runtime/lists/npy.h"
#include "support/opencl_device.h"
#include "support/run_program.h"
#include "support/support.h"
#include "tests/unit/onnx_files.h"

namespace tw {
namespace {

namespace fs = std::filesystem;
using test::Finished;

// y = softmax(x x').
std::string network() {
  using namespace graph::test;
  return model(part(1, node("Transpose", {"x"}, {"t"})) + part(1, node("MatMul", {"x", "t"}, {"s"})) +
               part(1, node("Softmax", {"s"}, {"y"})) + part(2, "g") + part(11, value_info("x", DType::F32, {24, 32})) +
               part(12, value_info("y", DType::F32, {24, 24})));
}

// Of `gpu_models.py torch NAME FOLDER` it does what the script waits for; the network "broken" is not exported, and
// "slow" takes too long.
constexpr const char* kPython = R"(#!/bin/sh
[ "$2" = torch ] || { echo "{\"action\": \"$2\"}"; exit 0; }
[ "$3" = broken ] && exit 1
[ "$3" = slow ] && exec sleep 60
cp x.npy "$4/in.x.npy" && cp y.npy "$4/expected.y.npy" && cp net.onnx "$4/part.onnx" && mv "$4/part.onnx" "$4/$3.onnx"
touch "$4/prepared"
while [ ! -e "$4/turn" ]; do sleep 0.1; done
ls "$4/f32" >"$4/seen"
)";

class GpuModels : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
    if (graph::onnx_operators().empty()) GTEST_SKIP() << "the plugin for ONNX files was not built";
    test::write_file(at("net.onnx"), network());
    test::write_file(at("x.npy"), *npy_bytes(HostArray::zeros(DType::F32, {24, 32})));
    test::write_file(at("y.npy"), *npy_bytes(HostArray::zeros(DType::F32, {24, 24})));
    fs::create_directories(at("bin"));
    test::write_file(at("bin/python3"), kPython);
    fs::permissions(at("bin/python3"), fs::perms::owner_all);
  }
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
  Finished run(const std::string& seconds, const std::vector<std::string>& networks) {
    std::vector<std::string> words{TW_SOURCE_DIR "/bench/gpu/gpu-models", "out", seconds};
    words.insert(words.end(), networks.begin(), networks.end());
    return test::run_program(words, {.folder = folder_.path(),
                                     .environment = {"TRACEWRIGHT_BIN=" TW_BINARY_DIR, "GPU_MODELS_TARGET=opencl",
                                                     "PATH=" + folder_.path() + "/bin:/usr/bin:/bin"}});
  }
  void expect_results(const std::string& network) {
    std::string own = "out/" + network + "/";
    for (const char* precision : {"f32", "f16"}) {
      std::string begin = own + precision;
      EXPECT_TRUE(fs::exists(at(begin + "/lib" + network + ".so"))) << begin;
      EXPECT_EQ(test::read_file(at(begin + ".compare.jsonl")), "{\"action\": \"compare\"}\n");
      EXPECT_NE(test::read_file(at(begin + ".run.json")).find("\"device\":{\"us\":"), std::string::npos);
      EXPECT_NE(test::read_file(at(begin + ".profile.json")).find("\"kernels\":[{"), std::string::npos);
      EXPECT_TRUE(fs::exists(at(begin + ".y.npy"))) << begin;
    }
    EXPECT_NE(test::read_file(at(own + "seen")).find("lib" + network + ".so"), std::string::npos)
        << "PyTorch's turn comes when the library is there";
  }

  test::TemporaryDirectory folder_;
};

TEST_F(GpuModels, EachNetworkIsCompiledComparedAndTimed) {
  Finished finished = run("100", {"one", "two"});
  EXPECT_EQ(finished.code, 0) << finished.out << finished.err;
  expect_results("one");
  expect_results("two");
  EXPECT_EQ(test::read_file(at("out/report.txt")), "{\"action\": \"report\"}\n");
}

TEST_F(GpuModels, OneThatFailsLeavesTheOthersAlone) {
  Finished finished = run("100", {"broken", "one"});
  EXPECT_EQ(finished.code, 1) << finished.out;
  EXPECT_NE(finished.out.find("broken torch: exit code 1"), std::string::npos) << finished.out;
  expect_results("one");
}

TEST_F(GpuModels, TheWholeEndsInTime) {
  auto begin = std::chrono::steady_clock::now();
  Finished finished = run("12", {"slow"});
  EXPECT_EQ(finished.code, 1) << finished.out;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(16));
  EXPECT_NE(finished.out.find("slow torch: exit code 124"), std::string::npos) << finished.out;
}

}  // namespace
}  // namespace tw
