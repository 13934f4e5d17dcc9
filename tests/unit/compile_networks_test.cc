// The commands compile and run on whole networks: those of bench/models, made tiny.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "runtime/lists/npy.h"
#include "sampler/models/check_model.h"
#include "support/python.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using graph::Graph;
using test::Finished;

struct Recipe {
  const char* name;
  bool has_images = true, is_open = false;
};

class Networks : public testing::TestWithParam<Recipe> {
 protected:
  void SetUp() override {
    if (graph::onnx_operators().empty()) GTEST_SKIP() << "the plugin for ONNX files was not built";
    std::string python = test::python_with("onnx, numpy");
    if (python.empty()) GTEST_SKIP() << "no Python has onnx and numpy (Debian's package python3-onnx)";
    std::vector<std::string> words{python, cat(TW_SOURCE_DIR "/bench/models/", GetParam().name, ".py"), "--tiny",
                                   "--output", file()};
    if (GetParam().has_images) words.insert(words.end(), {"--size", "32"});
    if (GetParam().is_open) words.push_back("--open");
    Finished made = test::run_program(words);
    ASSERT_EQ(made.code, 0) << made.err;
  }

  std::string at(const std::string& name) const { return folder.path() + "/" + name; }
  std::string file() const { return at(cat(GetParam().name, ".onnx")); }
  Finished run(std::vector<std::string> words) {
    return test::tracewright(std::move(words), {.folder = folder.path()});
  }
  Graph imported(const graph::ImportOptions& options = {}) const {
    auto made = graph::import_onnx(file(), options);
    auto* problems = std::get_if<graph::ImportProblems>(&made);
    EXPECT_FALSE(problems) << join(problems->lines, "\n");
    return problems ? Graph{} : std::get<Graph>(std::move(made));
  }

  test::TemporaryDirectory folder;
};

// Normal numbers, 0 and 1 for masks, small ones for indices of words.
std::vector<HostArray> inputs_of(const Graph& graph) {
  std::vector<HostArray> arrays;
  Rng rng(11);
  for (graph::ValueId input : graph.inputs) {
    const graph::Value& value = graph.values[input];
    HostArray array = HostArray::zeros(value.type.dtype, value.type.shape);
    bool is_mask = value.name.find("mask") != std::string::npos;
    for (i64 i = 0; i < array.elements(); ++i) {
      array.set(i, is_float(array.dtype) ? rng.normal() : static_cast<double>(rng.below(is_mask ? 2 : 50)));
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

struct Case {
  std::vector<HostArray> inputs, expected;
};
// What the nodes of the file make, each computed by itself in f64.
Case case_of(const Graph& graph) {
  Case made{inputs_of(graph), {}};
  std::string error;
  auto expected = reference_outputs(graph, made.inputs, error);
  EXPECT_TRUE(expected) << error;
  if (expected) made.expected = std::move(*expected);
  return made;
}

// `run` in this folder, on .npy files, gives that, too.
void expect_outputs(const Graph& graph, const Case& wanted, const std::string& folder, const std::string& threads) {
  std::vector<std::string> words{"run", "out", "--threads", threads};
  for (std::size_t i = 0; i < wanted.inputs.size(); ++i) {
    test::write_file(cat(folder, "/in", i, ".npy"), *npy_bytes(wanted.inputs[i]));
    words.insert(words.end(), {"--input", cat(graph.values[graph.inputs[i]].name, "=in", i, ".npy")});
  }
  for (std::size_t i = 0; i < wanted.expected.size(); ++i)
    words.insert(words.end(), {"--output", cat(graph.output_names[i], "=out", i, ".npy")});
  Finished ran = test::tracewright(words, {.folder = folder});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (std::size_t i = 0; i < wanted.expected.size(); ++i) {
    std::string error;
    std::optional<HostArray> found = read_npy(cat(folder, "/out", i, ".npy"), error);
    ASSERT_TRUE(found) << error;
    ASSERT_EQ(found->shape, wanted.expected[i].shape);
    ModelDifference off = difference(wanted.expected[i], *found);
    EXPECT_FALSE(off.is_wrong(most_relative(found->dtype))) << graph.output_names[i] << ": " << off.relative;
    EXPECT_GT(off.compared, 0);
  }
}

TEST_P(Networks, GiveWhatTheFileSays) {
  Finished made = run({"compile", file(), "--threads", "1", "--output", "out", "--check", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  boost::json::value report = boost::json::parse(made.out);
  EXPECT_LE(report.at("kernels").to_number<i64>(), report.at("steps").to_number<i64>());
  EXPECT_GE(report.at("memory_bytes").to_number<i64>(), report.at("least_memory_bytes").to_number<i64>());
  EXPECT_GT(report.at("weight_bytes").to_number<i64>(), 0);
  for (const boost::json::value& output : report.at("check").as_array()) {
    EXPECT_FALSE(output.at("wrong").as_bool());
    EXPECT_GT(output.at("cosine").to_number<double>(), 0.999999);
    EXPECT_LT(output.at("relative_error").to_number<double>(), 1e-4);
  }
  Graph graph = imported();
  EXPECT_EQ(report.at("check").as_array().size(), graph.outputs.size());
  EXPECT_GE(std::ssize(report.at("kernel_check").as_array()), report.at("steps").to_number<i64>());
  expect_outputs(graph, case_of(graph), folder.path(), "1");
}

std::string name_of_case(const testing::TestParamInfo<Recipe>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, Networks,
                         testing::Values(Recipe{"resnet18"}, Recipe{"resnet50"}, Recipe{"densenet121"},
                                         Recipe{"googlenet"}, Recipe{"unet"}, Recipe{"mobilenet_v2"},
                                         Recipe{"efficientnet_b0"}, Recipe{"convnext_tiny"}, Recipe{"vit_b_16"},
                                         Recipe{"bert_base", false}, Recipe{"gpt2", false}),
                         name_of_case);

class NetworksOnTwoThreads : public Networks {};

TEST_P(NetworksOnTwoThreads, GiveWhatTheFileSays) {
  Finished made = run({"compile", file(), "--threads", "2", "--output", "out", "--check"});
  ASSERT_EQ(made.code, 0) << made.err;
  Graph graph = imported();
  Case wanted = case_of(graph);
  for (const char* threads : {"2", "1"}) expect_outputs(graph, wanted, folder.path(), threads);
}

INSTANTIATE_TEST_SUITE_P(All, NetworksOnTwoThreads, testing::Values(Recipe{"bert_base", false}), name_of_case);

class NetworksOfTwoShapes : public Networks {};

// A library with an entry for each gives what the file says of either.
TEST_P(NetworksOfTwoShapes, GiveWhatTheFileSays) {
  Finished made = run({"compile", file(), "--shape", "x=1,3,32,32", "--shape", "x=3,3,48,32", "--threads", "1",
                       "--output", "out", "--check", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  graph::ImportOptions options;
  options.shapes["x"] = {1, 3, 32, 32};
  Graph graph = imported(options);
  boost::json::value report = boost::json::parse(made.out);
  EXPECT_EQ(report.at("entries").as_array().size(), 2u);
  EXPECT_EQ(report.at("check").as_array().size(), 2 * graph.outputs.size());
  for (const boost::json::value& output : report.at("check").as_array())
    EXPECT_LT(output.at("relative_error").to_number<double>(), 1e-4);
  expect_outputs(graph, case_of(graph), folder.path(), "1");  // by the shapes of the .npy files
}

INSTANTIATE_TEST_SUITE_P(All, NetworksOfTwoShapes,
                         testing::Values(Recipe{"resnet18", true, true}, Recipe{"mobilenet_v2", true, true}),
                         name_of_case);

}  // namespace
}  // namespace tw
