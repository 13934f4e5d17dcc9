// Kernels of models in f32, each judged as a trial on what the kernels before it gave: those are found whose errors no
// output shows, and none is called wrong for what rounding explains.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstring>
#include <filesystem>
#include <functional>

#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "graph/passes/passes.h"
#include "runtime/export/model_library.h"
#include "sampler/models/check_model.h"
#include "sampler/models/check_steps.h"
#include "support/graph_kit.h"
#include "support/random_graph.h"
#include "support/run_program.h"
#include "support/support.h"
#include "tests/unit/onnx_files.h"
#include "tests/unit/plan_walk.h"

namespace tw {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::ValueId;
using test::Finished;
using Ints = std::vector<i64>;

class Builder : public test::GraphKit {
 public:
  ValueId random(const Ints& shape) {
    HostArray array = HostArray::zeros(DType::F32, shape);
    for (i64 i = 0; i < array.elements(); ++i) array.set(i, 0.2 * rng_.uniform() - 0.1);
    return builder.constant("c", std::move(array));
  }
  ValueId product(ValueId x, i64 rows, i64 columns) { return add("matmul", {}, {x, random({rows, columns})}); }

 private:
  Rng rng_{7};
};

// A graph with its plan, and what libraries of such plans give.
class CompiledGraph {
 public:
  explicit CompiledGraph(const Graph& graph, int threads = 1)
      : written_(graph),
        made_(graph::simplified(graph)),
        tasks_(model_tasks(made_, test::target_with(threads))),
        threads_(threads),
        plan_(test::compiled(made_, threads)),
        inputs_(random_inputs(graph, 3)) {}

  const ExportPlan& plan() const { return plan_; }
  const graph::FusedGraph& fused() const { return tasks_.fused; }

  // Of a library as `plan` has it; `change`: what its first output is taken for.
  StepJudgement judge(const ExportPlan& plan, const std::function<bool()>& stop = {},
                      const std::function<void(HostArray&)>& change = {}) {
    test::TemporaryDirectory folder;
    EXPECT_EQ(write_export(plan, folder.path()).error, "");
    std::string error;
    std::optional<ModelLibrary> library = open_model(folder.path(), error);
    EXPECT_TRUE(library) << error;
    if (!library) return {};
    ModelRun run = run_model(*library, inputs_, threads_);
    EXPECT_EQ(run.error, "");
    if (change) change(run.outputs[0]);
    outputs_ = run.outputs;
    auto found = judge_steps({made_, tasks_, plan, *library, inputs_, threads_, run.outputs}, error, stop);
    EXPECT_TRUE(found) << error;
    return found ? std::move(*found) : StepJudgement{};
  }

  // By what `compile --check` asks of the outputs of the library that was judged last.
  bool are_outputs_right() const {
    std::string error;
    auto expected = reference_outputs(written_, inputs_, error);
    EXPECT_TRUE(expected) << error;
    for (std::size_t i = 0; expected && i < outputs_.size(); ++i) {
      if (difference((*expected)[i], outputs_[i]).is_wrong(most_relative(outputs_[i].dtype))) return false;
    }
    return expected.has_value();
  }

 private:
  Graph written_, made_;
  ModelTasks tasks_;
  int threads_;
  ExportPlan plan_;
  std::vector<HostArray> inputs_, outputs_;
};

// The steps that are wrong, by number.
std::vector<std::size_t> wrong_steps(const StepJudgement& judged) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < judged.steps.size(); ++i) {
    if (!judged.steps[i].found.is_right()) out.push_back(i);
  }
  return out;
}
using Numbers = std::vector<std::size_t>;

// The plan with the largest bit of the exponent of its first weight the other way round.
ExportPlan with_a_huge_weight(const ExportPlan& plan) {
  ExportPlan out = plan;
  out.model->weights[3] ^= 0x40;
  return out;
}

// Two products; what the second one gives is 0 whatever it reads.
TEST(JudgeSteps, AWrongKernelThatNoOutputShowsIsFound) {
  Builder b;
  ValueId x = b.product(b.product(b.input({8, 32}), 32, 32), 32, 16);
  CompiledGraph net(b.finish(b.add("relu", {}, {b.add("negate", {}, {b.add("absolute", {}, {x})})})));
  ASSERT_EQ(net.plan().model->steps.size(), 2u);
  StepJudgement right = net.judge(net.plan());
  EXPECT_EQ(right.steps.size(), 2u);
  EXPECT_EQ(wrong_steps(right), Numbers{});
  StepJudgement found = net.judge(with_a_huge_weight(net.plan()));
  EXPECT_TRUE(net.are_outputs_right());
  EXPECT_TRUE(found.is_whole_same);
  ASSERT_EQ(wrong_steps(found), Numbers{0});
  const JudgedStep& step = found.steps[0];
  EXPECT_EQ(step.kernel, net.plan().tasks[net.plan().model->steps[0].task].name);
  EXPECT_EQ(step.type.shape, (Ints{8, 32}));
  EXPECT_EQ(step.found.wrong, 8) << "the weight's column";
  EXPECT_LT(step.found.first, 32) << "the first row";
  EXPECT_GT(std::abs(step.found.actual), 1e6);
  EXPECT_LT(std::abs(step.found.expected), 10);
}

TEST(JudgeSteps, ErrorsThatOutputsAreAllowedAreFound) {
  Builder b;
  CompiledGraph net(b.finish(b.product(b.input({8, 32}), 32, 32)));
  ExportPlan scaled = net.plan();
  std::string& weights = scaled.model->weights;
  for (std::size_t at = 0; at + sizeof(float) <= weights.size(); at += sizeof(float)) {
    float weight;
    std::memcpy(&weight, weights.data() + at, sizeof weight);
    weight *= 1.00002F;
    std::memcpy(weights.data() + at, &weight, sizeof weight);
  }
  EXPECT_EQ(wrong_steps(net.judge(scaled)), Numbers{0});
  EXPECT_TRUE(net.are_outputs_right());
}

// What follows is judged on the wrong values.
TEST(JudgeSteps, OnlyTheKernelThatIsWrongIsNamed) {
  Builder b;
  ValueId x = b.input({8, 32});
  for (int layer = 0; layer < 3; ++layer) x = b.add("hyperbolic_tangent", {}, {b.product(x, 32, 32)});
  CompiledGraph net(b.finish(x));
  EXPECT_EQ(wrong_steps(net.judge(with_a_huge_weight(net.plan()))), Numbers{0});
  EXPECT_FALSE(net.are_outputs_right());
}

// A product and an input become one value: the input is copied, both lie in rows apart.
TEST(JudgeSteps, CopiesAndRowsApartAreJudged) {
  Builder b;
  ValueId x = b.input({32, 64});
  ValueId joined = b.add("concat", {{"axis", i64{1}}}, {b.product(x, 64, 32), x});
  CompiledGraph net(b.finish(b.product(joined, 96, 24)));
  ASSERT_EQ(net.fused().groups.size(), 3u);
  ASSERT_TRUE(net.fused().groups[1].copied);
  StepJudgement right = net.judge(net.plan());
  EXPECT_EQ(right.steps.size(), 3u);
  EXPECT_EQ(right.steps[1].type.shape, (Ints{32, 64})) << "what is copied";
  EXPECT_EQ(wrong_steps(right), Numbers{});
  ExportPlan moved = net.plan();
  moved.model->memory_bytes += 64;
  moved.model->steps[1].buffers.back().at += 64;
  EXPECT_EQ(wrong_steps(net.judge(moved)), Numbers{2}) << "it reads where nothing was copied to";
}

// The lowest f32 twice is -inf in f32 and a number in f64.
TEST(JudgeSteps, MasksThatAreAddedUpAreInfinite) {
  Builder b;
  HostArray lowest = HostArray::zeros(DType::F32, {});
  lowest.set(0, -3.4028234663852886e38);
  ValueId low = b.spread(b.builder.constant("low", std::move(lowest)), {4, 8});
  CompiledGraph net(b.finish(b.add("add", {}, {b.add("add", {}, {b.input({4, 8}), low}), low})));
  StepJudgement found = net.judge(net.plan());
  EXPECT_EQ(found.steps.size(), 1u);
  EXPECT_EQ(wrong_steps(found), Numbers{});
}

TEST(JudgeSteps, WhatWasJudgedBeforeItWasStoppedIsThere) {
  Builder b;
  ValueId x = b.input({8, 32});
  for (int layer = 0; layer < 3; ++layer) x = b.add("hyperbolic_tangent", {}, {b.product(x, 32, 32)});
  CompiledGraph net(b.finish(x));
  int asked = 0;
  StepJudgement part = net.judge(net.plan(), [&] { return ++asked > 2; });
  EXPECT_TRUE(part.is_stopped);
  EXPECT_EQ(part.steps.size(), 2u);
}

TEST(JudgeSteps, ALibraryThatGivesSomethingElseThanItsStepsIsNoticed) {
  Builder b;
  CompiledGraph net(b.finish(b.product(b.input({8, 32}), 32, 32)));
  StepJudgement right = net.judge(net.plan());
  EXPECT_TRUE(right.is_whole_same && !right.is_stopped);
  StepJudgement found = net.judge(net.plan(), {}, [](HostArray& output) { output.bytes[5] ^= 1; });
  EXPECT_FALSE(found.is_whole_same);
  EXPECT_EQ(wrong_steps(found), Numbers{});
}

TEST(JudgeSteps, OutputsThatNoKernelMakesAreThere) {
  Builder b;
  ValueId x = b.input({4, 6}), c = b.random({2, 3});
  b.builder.output(b.add("reshape", {{"R", Ints{6, 4}}}, {x}), "view");
  b.builder.output(b.add("reshape", {{"R", Ints{6}}}, {c}), "constant_view");
  b.builder.output(b.add("relu", {}, {x}), "made");
  CompiledGraph net(b.builder.finish());
  StepJudgement found = net.judge(net.plan());
  EXPECT_TRUE(found.is_whole_same);
  EXPECT_EQ(wrong_steps(found), Numbers{});
}

TEST(JudgeSteps, KernelsOfRandomGraphsAreRight) {
  test::Seeds seeds = test::seeds_from_environment(8);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    for (Graph (*make)(Rng) : {test::random_graph, test::random_joined_graph}) {
      CompiledGraph net(make(Rng(static_cast<u64>(seed))), 1 + static_cast<int>(seed % 2));
      StepJudgement found = net.judge(net.plan());
      EXPECT_GE(found.steps.size(), net.plan().model->steps.size());
      EXPECT_TRUE(found.is_whole_same) << "TW_SEED=" << seed;
      for (const JudgedStep& step : found.steps)
        EXPECT_TRUE(step.found.is_right())
            << "TW_SEED=" << seed << ": " << step.kernel << " " << step.value << ": "
            << difference_text(step.found, graph::elements_of(step.type), cat("element ", step.found.first));
    }
  }
}

// ---- memory

// Bytes that the heap has given out; 0 with a sanitizer's heap, where these tests check nothing.
i64 bytes_in_use() {
  struct mallinfo2 heap = mallinfo2();
  return static_cast<i64>(heap.uordblks + heap.hblkhd);
}

// How much more memory than at first was in use at most, of the times at which ask() was called.
class Growth {
 public:
  void ask() { most_ = std::max(most_, bytes_in_use() - before_); }
  i64 most() const { return most_; }

 private:
  i64 before_ = bytes_in_use(), most_ = 0;
};

// 64 values of 1 MiB; every second one has no reader.
TEST(CheckMemory, ValuesThatNoNodeReadsAnyMoreAreNotKept) {
  Builder b;
  ValueId x = b.input({512, 512});
  for (int layer = 0; layer < 32; ++layer) {
    b.add("negate", {}, {x});
    x = b.add("absolute", {}, {x});
  }
  Graph graph = b.finish(x);
  const std::vector<HostArray> inputs = random_inputs(graph, 3);
  std::string error;
  Growth growth;
  ASSERT_TRUE(reference_outputs(graph, inputs, error, [&](ValueId, HostArray&) { growth.ask(); })) << error;
  EXPECT_LT(growth.most(), 24 << 20);
}

// 32 kernels that give 2 MiB each.
TEST(CheckMemory, ResultsOfKernelsAreNotKept) {
  Builder b;
  ValueId x = b.input({16384, 32});
  for (int layer = 0; layer < 32; ++layer) x = b.add("hyperbolic_tangent", {}, {b.product(x, 32, 32)});
  CompiledGraph net(b.finish(x));
  Growth growth;
  StepJudgement found = net.judge(net.plan(), [&] { return growth.ask(), false; });
  EXPECT_EQ(found.steps.size(), 32u);
  EXPECT_EQ(wrong_steps(found), Numbers{});
  EXPECT_TRUE(found.is_whole_same);
  EXPECT_LT(growth.most(), 40 << 20);
}

// ---- compile --check

// Softmax, and a product whose result is made 0.
std::string hidden_model() {
  using namespace graph::test;
  std::string nodes = part(1, node("Softmax", {"x"}, {"s"})) + part(1, node("MatMul", {"s", "a"}, {"p"})) +
                      part(1, node("Abs", {"p"}, {"q"})) + part(1, node("Neg", {"q"}, {"r"})) +
                      part(1, node("Relu", {"r"}, {"y"}));
  return model(nodes + part(2, "g") + part(11, value_info("x", DType::F32, {8, 16})) +
               part(11, value_info("a", DType::F32, {16, 16})) + part(12, untyped("y")));
}

// A linker that takes another kernel in the place of the first one: all that it gives is 1.
TEST(JudgeStepsCommand, AWrongKernelThatNoOutputShowsIsRefusedByItsName) {
  if (graph::onnx_operators().empty()) GTEST_SKIP() << "the plugin for ONNX files was not built";
  test::TemporaryDirectory folder;
  auto at = [&](const std::string& name) { return folder.path() + "/" + name; };
  test::write_file(at("net.onnx"), hidden_model());
  auto check = [&](const std::string& path, const std::vector<std::string>& more) {
    std::vector<std::string> words{"compile", "net.onnx", "--threads", "1", "--output", "out", "--check"};
    words.insert(words.end(), more.begin(), more.end());
    return test::tracewright(words, {.folder = folder.path(), .environment = {cat("PATH=", path, "/usr/bin:/bin")}});
  };
  Finished honest = check("", {});
  ASSERT_EQ(honest.code, 0) << honest.err;
  EXPECT_NE(honest.out.find("checked 2 results of kernels"), std::string::npos) << honest.out;
  EXPECT_EQ(honest.out.find("WRONG"), std::string::npos) << honest.out;
  boost::json::value manifest = boost::json::parse(test::read_file(at("out/manifest.json")));
  const boost::json::value& step = manifest.at("model").at("steps").at(0);
  std::string kernel(step.at("kernel").as_string());
  std::size_t output = step.at("buffers").as_array().size() - 1;

  fs::create_directory(at("bin"));
  test::write_file(at("bin/cc"),
                   cat("#!/bin/sh\nPATH=/usr/bin:/bin\n[ \"$1\" = -shared ] || exec cc \"$@\"\necho 'int net_", kernel,
                       "_kernel_run(void** buffers) { float* y = buffers[", output,
                       "]; for (int i = 0; i < 128; ++i) y[i] = 1; return 0; }' | cc -c -fPIC -w -x c - -o ",
                       at("wrong.o"), "\nexec cc ", at("wrong.o"), " \"$@\" -Wl,-z,muldefs\n"));
  fs::permissions(at("bin/cc"), fs::perms::owner_all);
  Finished wrong = check(at("bin:"), {"--json"});
  EXPECT_EQ(wrong.code, 4) << wrong.err;
  EXPECT_NE(wrong.err.find(kernel + " computes something else than its part of the model: of `"), std::string::npos)
      << wrong.err;
  EXPECT_NE(wrong.err.find("128 of 128 elements are wrong; [0, 0] is 1, expected 0."), std::string::npos) << wrong.err;
  boost::json::value report = boost::json::parse(wrong.out);
  EXPECT_FALSE(report.at("check").at(0).at("wrong").as_bool()) << "the output";
  ASSERT_EQ(report.at("kernel_check").as_array().size(), 2u);
  const boost::json::value &first = report.at("kernel_check").at(0), &second = report.at("kernel_check").at(1);
  EXPECT_EQ(first.at("kernel").as_string(), kernel);
  EXPECT_TRUE(first.at("wrong").as_bool());
  EXPECT_EQ(first.at("first").at("at"), (boost::json::array{0, 0}));
  EXPECT_EQ(first.at("first").at("value").to_number<double>(), 1);
  EXPECT_LT(first.at("first").at("expected").to_number<double>(), 1);
  EXPECT_FALSE(second.at("wrong").as_bool());
  EXPECT_FALSE(second.as_object().contains("first"));
}

// As QuantizeLinear is imported: limits and zero point are constants. Right where a few of 200,000 elements become the
// other one of two bytes, and wrong where all are one more.
TEST(QuantizedModels, AKernelThatAddsAnotherZeroPointIsFound) {
  Builder b;
  const Ints shape{200, 1000};
  auto number = [&](double value) {
    HostArray array = HostArray::zeros(DType::F32, {});
    array.set(0, value);
    return b.builder.constant("c", std::move(array));
  };
  ValueId scaled = b.add("multiply", {}, {b.input(shape), b.spread(number(20.3), shape)});
  ValueId sum = b.add("add", {}, {b.add("rounded", {}, {scaled}), b.spread(number(100), shape)});
  ValueId bytes = b.add("cast", {{"to", DType::U8}}, {b.add("clamp", {}, {sum, number(0), number(255)})});
  CompiledGraph net(b.finish(bytes));
  EXPECT_EQ(wrong_steps(net.judge(net.plan())), Numbers{});
  ExportPlan other = net.plan();
  const float zero = 100, more = 101;
  std::string& weights = other.model->weights;
  const std::size_t at = weights.find(std::string(reinterpret_cast<const char*>(&zero), sizeof zero));
  ASSERT_NE(at, std::string::npos);
  std::memcpy(weights.data() + at, &more, sizeof more);
  EXPECT_EQ(wrong_steps(net.judge(other)), Numbers{0});
}

// Values next to the middle of two integers become either in any layer: bytes that stand for numbers are compared as
// numbers, indices are not.
TEST(QuantizedModels, TheirBytesAreNumbers) {
  auto array_of = [](DType type, const std::vector<double>& numbers) {
    HostArray array = HostArray::zeros(type, {static_cast<i64>(numbers.size())});
    for (std::size_t i = 0; i < numbers.size(); ++i) array.set(static_cast<i64>(i), numbers[i]);
    return array;
  };
  const std::vector<double> numbers{100, 20, 30}, near{100, 21, 30}, far{100, 80, 30};
  for (DType type : {DType::U8, DType::I8}) {
    auto is_wrong = [&](const std::vector<double>& found, bool is_quantized) {
      return difference(array_of(type, numbers), array_of(type, found), is_quantized)
          .is_wrong(kMostRelativeOfQuantized);
    };
    EXPECT_FALSE(is_wrong(near, true));
    EXPECT_TRUE(is_wrong(far, true));
    EXPECT_TRUE(is_wrong(near, false));
  }
  auto are_apart = [&](DType type) {
    return difference(array_of(type, numbers), array_of(type, near), true).is_wrong(kMostRelativeOfQuantized);
  };
  EXPECT_FALSE(are_apart(DType::I32)) << "sums of bytes";
  EXPECT_TRUE(are_apart(DType::I64)) << "indices";
  for (bool rounds : {false, true}) {
    Builder kit;
    ValueId x = kit.input({2, 3});
    EXPECT_EQ(is_quantized(kit.finish(kit.add(rounds ? "rounded" : "relu", {}, {x}))), rounds);
  }
}

}  // namespace
}  // namespace tw
