// The commands compile, run and tune on ONNX files: results, and what is said of bad input.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "runtime/lists/npy.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

namespace fs = std::filesystem;
using test::Finished;

// Of Debian's libonnx-testdata.
const fs::path kCases = "/usr/lib/python3/dist-packages/onnx/backend/test/data";

class CompileCommand : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kCases)) GTEST_SKIP() << "libonnx-testdata is not installed";
    if (graph::onnx_operators().empty()) GTEST_SKIP() << "the plugin for ONNX files was not built";
  }
  std::string at(const std::string& name) const { return folder.path() + "/" + name; }
  static std::string model(const std::string& name) { return (kCases / name / "model.onnx").string(); }
  Finished run(std::vector<std::string> words) {
    return test::tracewright(std::move(words), {.folder = folder.path()});
  }
  Finished compile(const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"compile", model(name), "--threads", "1", "--output", "out"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  void expect_refused(std::vector<std::string> words, int code, const std::string& message) {
    Finished found = run(words);
    EXPECT_EQ(found.code, code) << join(words, " ") << "\n" << found.err;
    EXPECT_NE(found.err.find(message), std::string::npos) << found.err;
    EXPECT_EQ(found.out, "");
  }

  test::TemporaryDirectory folder;
};

TEST_F(CompileCommand, WhatItWritesIsCheckedAndRuns) {
  for (const char* name : {"pytorch-converted/test_Conv2d_depthwise_padded", "pytorch-converted/test_Conv1d_groups",
                           "pytorch-converted/test_MaxPool2d_stride_padding_dilation", "node/test_softmax_axis_1",
                           "pytorch-operator/test_operator_addmm", "node/test_layer_normalization_4d_axis2"}) {
    Finished made = compile(name, {"--check"});
    EXPECT_EQ(made.code, 0) << name << made.err;
    EXPECT_NE(made.out.find("checked "), std::string::npos) << made.out;
    EXPECT_EQ(made.out.find("WRONG"), std::string::npos) << made.out;
  }
}

TEST_F(CompileCommand, ItsOutputsAreThoseOfTheOnnxTests) {
  std::string name = "pytorch-converted/test_Conv2d_padding";
  ASSERT_EQ(compile(name, {"--name", "net"}).code, 0);
  fs::path data = kCases / name / "test_data_set_0";
  auto input = graph::read_onnx_tensor((data / "input_0.pb").string());
  auto expected = graph::read_onnx_tensor((data / "output_0.pb").string());
  ASSERT_TRUE(std::holds_alternative<HostArray>(input) && std::holds_alternative<HostArray>(expected));
  test::write_file(at("x.npy"), *npy_bytes(std::get<HostArray>(input)));
  Finished ran = run({"run", "out", "--input", "x.npy", "--output", "y.npy"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::string error;
  std::optional<HostArray> found = read_npy(at("y.npy"), error);
  ASSERT_TRUE(found) << error;
  const HostArray& wanted = std::get<HostArray>(expected);
  ASSERT_EQ(found->shape, wanted.shape);
  for (i64 i = 0; i < wanted.elements(); ++i)
    EXPECT_NEAR(found->get(i), wanted.get(i), 1e-4 * (1 + std::abs(wanted.get(i))));
  Finished profile = run({"run", "out", "--profile"});
  EXPECT_EQ(profile.code, 0) << profile.err;
  EXPECT_NE(profile.out.find("all steps"), std::string::npos) << profile.out;
}

TEST_F(CompileCommand, PrintsJsonAndGraphs) {
  Finished made = compile("pytorch-converted/test_Linear", {"--check", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  boost::json::object report = boost::json::parse(made.out).as_object();
  for (const char* key : {"folder", "library", "steps", "kernels", "memory_bytes", "least_memory_bytes", "weight_bytes",
                          "seconds", "check"})
    EXPECT_TRUE(report.contains(key)) << key;
  Finished graph = run({"compile", model("pytorch-converted/test_Linear"), "--emit", "graph"});
  EXPECT_EQ(graph.code, 0);
  EXPECT_NE(graph.out.find("kernel 0: "), std::string::npos) << graph.out;
  EXPECT_NE(graph.out.find("  output "), std::string::npos);
}

TEST_F(CompileCommand, TuningAModelMakesRecordsThatCompileUses) {
  std::string path = model("pytorch-converted/test_Linear");
  fs::copy_file(path, at("linear.onnx"));
  test::write_file(at("list.yaml"),
                   "version: 1\ntarget: {kind: cpu, threads: 1}\ntasks:\n  - {name: net, model: linear.onnx}\n");
  Finished tuned = run({"tune", "list.yaml", "--trials", "4", "--database", "own.db"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.out.find("net_"), std::string::npos) << tuned.out;
  Finished made =
      run({"compile", "linear.onnx", "--threads", "1", "--database", "own.db", "--output", "out", "--check"});
  ASSERT_EQ(made.code, 0) << made.err;
  boost::json::object manifest = boost::json::parse(test::read_file(at("out/manifest.json"))).as_object();
  EXPECT_TRUE(std::ranges::any_of(manifest.at("tasks").as_array(), [](const boost::json::value& task) {
    return task.as_object().contains("record") && task.at("record").is_number();
  })) << boost::json::serialize(manifest);
}

TEST_F(CompileCommand, BadInputIsRefused) {
  std::string linear = model("pytorch-converted/test_Linear");
  expect_refused({"compile", "none.onnx", "--output", "o"}, 2, "`none.onnx` cannot be read");
  test::write_file(at("bad.onnx"), "no model at all");
  expect_refused({"compile", "bad.onnx", "--output", "o"}, 2, "is no ONNX file or is damaged");
  expect_refused({"compile", model("node/test_nonzero_example"), "--output", "o"}, 2, "(NonZero)");
  expect_refused({"compile", linear, "--output", "o", "--shape", "zzz=1,2"}, 2, "the model has no input `zzz`");
  expect_refused({"compile", linear, "--output", "o", "--shape", "x"}, 2, "expected NAME=EXTENT");
  expect_refused({"compile", linear, "--output", "o", "--shape", "x=1,,2"}, 2, "expected NAME=EXTENT");
  expect_refused({"compile", linear}, 2, "--output: the folder to write to is missing");
  expect_refused({"compile", linear, "--output", "o", "--threads", "0"}, 2, "--threads");
  expect_refused({"compile", linear, "--emit", "zzz"}, 2, "only `graph` is known");
  expect_refused({"compile", linear, "--output", "/proc/none"}, 3, "/proc/none");
  expect_refused({"compile", linear, "--output", "o", "--database", "none.db"}, 3, "none.db");
  test::write_file(at("r.tw"), "rewrite r(x: value) { power(x, 3) -> x * x }");
  expect_refused({"compile", linear, "--output", "o", "--rewrites", "r.tw"}, 2, "`r` is not proved");
  expect_refused({"compile", linear, "--output", "o", "--rewrites", "none.tw"}, 2, "none.tw");
  EXPECT_FALSE(fs::exists(at("o")));
}

TEST_F(CompileCommand, BadInputOfRunIsRefused) {
  expect_refused({"run", "none"}, 2, "is no folder that `tracewright compile` wrote");
  ASSERT_EQ(compile("pytorch-converted/test_Linear").code, 0);
  test::write_file(at("x.npy"), *npy_bytes(HostArray::zeros(DType::F32, {1, 2})));
  expect_refused({"run", "out", "--input", "x.npy"}, 2, "x.npy holds f32[1, 2], but `");
  expect_refused({"run", "out", "--input", "zzz=x.npy"}, 2, "the model has no `zzz`");
  expect_refused({"run", "out", "--input", "none.npy"}, 2, "none.npy");
  fs::remove(at("out/model.weights"));
  expect_refused({"run", "out"}, 3, "the file of weights cannot be read");
}

TEST_F(CompileCommand, ABadModelOfAListIsSaidWhereItStands) {
  test::write_file(at("list.yaml"), "version: 1\ntasks:\n  - {name: net, model: none.onnx}\n");
  expect_refused({"tune", "list.yaml"}, 2, "list.yaml:3:24: error: `none.onnx` cannot be read");
  test::write_file(at("list.yaml"),
                   "version: 1\ntasks:\n  - {name: net, op: dense, shapes: {x: [1]}, args: {M: 1, N: 1, K: 1}}\n");
  expect_refused({"tune", "list.yaml"}, 2, "`shapes` goes with `model`, not with `op`");
}

}  // namespace
}  // namespace tw
