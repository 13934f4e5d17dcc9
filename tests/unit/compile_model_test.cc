// From a graph to a library that runs: results on random graphs, the memory plan, weights, and that wrong plans are
// noticed.
#include "sampler/models/compile_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "dsl/base/text.h"
#include "graph/passes/passes.h"
#include "runtime/export/model_library.h"
#include "sampler/models/check_model.h"
#include "support/random_graph.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using graph::Graph;
using graph::GraphBuilder;
using graph::ValueId;
using Ints = std::vector<i64>;

Target target_with(int threads) {
  Target target = host_target();
  target.threads = threads;
  return target;
}

ExportPlan compiled(const Graph& graph, int threads = 1) {
  Target target = target_with(threads);
  std::string error;
  auto plan = compile_model(graph, model_tasks(graph, target), {.library = "net", .target = target}, error);
  EXPECT_TRUE(plan) << error;
  return plan ? std::move(*plan) : ExportPlan{};
}

std::vector<HostArray> outputs_of(const ExportPlan& plan, const std::vector<HostArray>& inputs, int threads = 1) {
  test::TemporaryDirectory folder;
  ExportResult written = write_export(plan, folder.path());
  EXPECT_EQ(written.error + written.note, "");
  std::string error;
  std::optional<ModelLibrary> library = open_model(folder.path(), error);
  EXPECT_TRUE(library) << error;
  if (!library) return {};
  ModelRun run = run_model(*library, inputs, threads);
  EXPECT_EQ(run.error, "");
  return std::move(run.outputs);
}

bool are_same(const std::vector<HostArray>& expected, const std::vector<HostArray>& found) {
  if (expected.size() != found.size()) return false;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ModelDifference off = difference(expected[i], found[i]);
    if (off.largest > 1e-5 && off.is_wrong(1e-3)) return false;
  }
  return true;
}

// No step reads a byte that another value was written to in the meantime: at each read all bytes of the buffer are
// those of one earlier write.
void expect_sound(const ExportPlan& plan) {
  const ModelPlan& model = *plan.model;
  std::vector<int> writer(static_cast<std::size_t>(model.memory_bytes), -1);
  std::map<int, std::pair<i64, i64>> written;  // by step and buffer: place and size
  int number = 0;
  for (const ModelStep& step : model.steps) {
    const std::vector<KernelArgument>& arguments = plan.tasks[step.task].kernel.manifest.run;
    ASSERT_EQ(step.buffers.size(), arguments.size());
    for (bool is_write : {false, true}) {
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        const ModelPlace& place = step.buffers[i];
        if (place.where != ModelPlace::Where::Memory || is_write != (arguments[i].role == ArgumentRole::Output))
          continue;
        ASSERT_LE(place.at + arguments[i].bytes, model.memory_bytes) << step.name;
        auto begin = writer.begin() + place.at, end = begin + arguments[i].bytes;
        if (is_write) {
          std::fill(begin, end, number);
          written[number++] = {place.at, arguments[i].bytes};
        } else {
          ASSERT_GE(*begin, 0) << step.name;
          EXPECT_TRUE(std::all_of(begin, end, [&](int by) { return by == *begin; })) << step.name;
          EXPECT_EQ(written[*begin], std::pair(place.at, arguments[i].bytes)) << step.name;
        }
      }
    }
  }
}

TEST(CompileModel, RandomGraphsGiveWhatTheInterpreterGives) {
  test::Seeds seeds = test::seeds_from_environment(5);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    Graph graph = test::random_graph(Rng(static_cast<u64>(seed)));
    std::vector<HostArray> inputs = test::random_arrays(graph, Rng(static_cast<u64>(seed), 1));
    std::string error;
    auto expected = graph::evaluate(graph, inputs, error);
    ASSERT_TRUE(expected) << error;
    int threads = 1 + static_cast<int>(seed % 2);
    ExportPlan plan = compiled(graph::simplified(graph), threads);
    ASSERT_TRUE(plan.model);
    expect_sound(plan);
    EXPECT_GE(plan.model->memory_bytes, plan.model->least_memory_bytes);
    EXPECT_TRUE(are_same(*expected, outputs_of(plan, inputs, threads))) << "TW_SEED=" << seed << "\n"
                                                                        << to_string(graph);
  }
}

class Builder {
 public:
  ValueId add(const std::string& op, WorkloadArguments arguments, const std::vector<ValueId>& inputs) {
    std::string error;
    auto made = builder.add(op, std::move(arguments), inputs, op, error);
    EXPECT_TRUE(made) << error;
    return (*made)[0];
  }
  ValueId random(const Ints& shape) {
    HostArray array = HostArray::zeros(DType::F32, shape);
    for (i64 i = 0; i < array.elements(); ++i) array.set(i, 0.2 * rng_.uniform() - 0.1);
    return builder.constant("c", std::move(array));
  }
  GraphBuilder builder{"g"};

 private:
  Rng rng_{7};
};

// x, W, W: layers of one shape with different weights.
struct Layers {
  Graph graph;
  std::vector<HostArray> inputs;
};
Layers layers(int count) {
  Builder b;
  ValueId x = b.builder.input("x", {DType::F32, {8, 32}});
  for (int i = 0; i < count; ++i) {
    x = b.add("matmul", {}, {x, b.random({32, 32})});
    x = b.add("hyperbolic_tangent", {}, {x});
  }
  b.builder.output(x, "y");
  Layers out{b.builder.finish(), {}};
  out.inputs = random_inputs(out.graph, 3);
  return out;
}

TEST(CompileModel, EqualGroupsShareOneKernelAndTakeTurnsInMemory) {
  Layers net = layers(6);
  ExportPlan plan = compiled(graph::simplified(net.graph));
  EXPECT_EQ(plan.tasks.size(), 1u);
  EXPECT_EQ(plan.model->steps.size(), 6u);
  expect_sound(plan);
  EXPECT_EQ(plan.model->memory_bytes, 2 * 8 * 32 * 4);
  EXPECT_EQ(plan.model->least_memory_bytes, plan.model->memory_bytes);
}

// The check that `compile --check` makes has to notice what it is for.
TEST(CompileModel, AWrongPlanIsNoticed) {
  Layers net = layers(3);
  std::string error;
  auto expected = reference_outputs(net.graph, net.inputs, error);
  ASSERT_TRUE(expected) << error;
  ExportPlan plan = compiled(graph::simplified(net.graph));
  ASSERT_TRUE(are_same(*expected, outputs_of(plan, net.inputs)));
  ExportPlan moved = plan;
  for (ModelPlace& place : moved.model->steps[1].buffers) {
    if (place.where == ModelPlace::Where::Memory) place.at = moved.model->steps[0].buffers.back().at;
  }
  EXPECT_FALSE(are_same(*expected, outputs_of(moved, net.inputs))) << "a step writes over what it reads";
  ExportPlan swapped = plan;
  std::swap(swapped.model->steps[0].buffers[1], swapped.model->steps[1].buffers[1]);
  EXPECT_FALSE(are_same(*expected, outputs_of(swapped, net.inputs))) << "other weights";
}

TEST(CompileModel, DifferencesAreSeen) {
  HostArray a = HostArray::zeros(DType::F32, {4}), b = a;
  for (i64 i = 0; i < 4; ++i) a.set(i, i + 1.0), b.set(i, i + 1.0);
  EXPECT_FALSE(difference(a, b).is_wrong(1e-4));
  b.set(2, 3.01);
  EXPECT_TRUE(difference(a, b).is_wrong(1e-4));
  b.set(2, NAN);
  EXPECT_TRUE(difference(a, b).is_wrong(1e-4));
  HostArray zeros = HostArray::zeros(DType::F32, {4});
  EXPECT_TRUE(difference(a, zeros).is_wrong(1e-4));
  HostArray n = HostArray::zeros(DType::I64, {2}), m = n;
  m.set(1, 1);
  EXPECT_TRUE(difference(n, m).is_wrong(1e-4));
}

// Outputs that no kernel makes.
TEST(CompileModel, OutputsMayBeInputsConstantsAndViews) {
  Builder b;
  ValueId x = b.builder.input("x", {DType::F32, {4, 6}}), c = b.random({2, 3});
  ValueId y = b.add("relu", {}, {x});
  b.builder.output(x, "same");
  b.builder.output(b.add("reshape", {{"R", Ints{6, 4}}}, {x}), "view");
  b.builder.output(c, "constant");
  b.builder.output(b.add("reshape", {{"R", Ints{6}}}, {c}), "constant_view");
  b.builder.output(y, "made");
  b.builder.output(y, "made_again");
  b.builder.output(b.add("reshape", {{"R", Ints{24}}}, {y}), "made_view");
  b.builder.output(b.add("broadcast", {{"R", Ints{2, 2, 3}}}, {c}), "wide");
  Graph graph = b.builder.finish();
  std::vector<HostArray> inputs = random_inputs(graph, 1);
  std::string error;
  auto expected = graph::evaluate(graph, inputs, error);
  ASSERT_TRUE(expected) << error;
  EXPECT_TRUE(are_same(*expected, outputs_of(compiled(graph::simplified(graph)), inputs)));
}

// A condition that is the same for all lanes of a vector guards one that is not.
TEST(CompileModel, AFlagOfARowAndOneOfEachElement) {
  Builder b;
  ValueId row = b.builder.input("row", {DType::Bool, {4, 1}}), each = b.builder.input("each", {DType::Bool, {4, 64}});
  b.builder.output(b.add("both", {}, {b.add("broadcast", {{"R", Ints{4, 64}}}, {row}), each}), "y");
  Graph graph = b.builder.finish();
  std::vector<HostArray> inputs = random_inputs(graph, 1);
  std::string error;
  auto expected = graph::evaluate(graph, inputs, error);
  ASSERT_TRUE(expected) << error;
  EXPECT_TRUE(are_same(*expected, outputs_of(compiled(graph::simplified(graph)), inputs)));
}

TEST(CompileModel, AModelWithoutKernels) {
  Builder b;
  ValueId x = b.builder.input("x*/y", {DType::F32, {4, 6}});
  b.builder.output(b.add("reshape", {{"R", Ints{24}}}, {x}), "y /* */");
  Graph graph = b.builder.finish();
  std::vector<HostArray> inputs = random_inputs(graph, 1);
  std::string error;
  auto expected = graph::evaluate(graph, inputs, error);
  EXPECT_TRUE(are_same(*expected, outputs_of(compiled(graph::simplified(graph)), inputs)));
}

// A name of the file is no C.
TEST(CompileModel, NamesInCommentsEndNoComment) {
  Builder b;
  ValueId x = b.builder.input("x*/ #error /*", {DType::F32, {4, 6}});
  std::string error;
  auto y = b.builder.add("relu", {}, {x}, "y*/ #error", error);
  b.builder.output((*y)[0], "z*/ #error");
  Graph graph = b.builder.finish();
  EXPECT_EQ(outputs_of(compiled(graph::simplified(graph)), random_inputs(graph, 1)).size(), 1u);
}

TEST(CompileModel, WeightsOfAnotherModelAreRefused) {
  Layers net = layers(2);
  ExportPlan plan = compiled(graph::simplified(net.graph));
  test::TemporaryDirectory folder;
  ASSERT_EQ(write_export(plan, folder.path()).error, "");
  std::string error, path = folder.path() + "/net.weights", bytes = test::read_file(path);
  std::optional<ModelLibrary> library = open_model(folder.path(), error);
  ASSERT_TRUE(library) << error;
  constexpr const char* refused = "the file of weights cannot be read or belongs to another model";
  std::string other = bytes;
  other[30] ^= 1;
  test::write_file(path, other);
  EXPECT_EQ(run_model(*library, net.inputs, 1).error, refused);
  test::write_file(path, bytes.substr(0, bytes.size() - 1));
  EXPECT_EQ(run_model(*library, net.inputs, 1).error, refused);
  std::filesystem::remove(path);
  EXPECT_EQ(run_model(*library, net.inputs, 1).error, refused);
  test::write_file(path, bytes);
  EXPECT_EQ(run_model(*library, net.inputs, 1).error, "");
}

// As strict as users may be, from C, with two contexts at once.
TEST(CompileModel, AStrictCProgramRunsIt) {
  Layers net = layers(3);
  ExportPlan plan = compiled(graph::simplified(net.graph));
  test::TemporaryDirectory folder;
  ASSERT_EQ(write_export(plan, folder.path()).error, "");
  auto at = [&](const std::string& name) { return folder.path() + "/" + name; };
  for (const std::string& library : {at("libnet.a"), at("libnet.so")}) {
    test::Finished built = test::run_program({"cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread",
                                              "-I", folder.path(), TW_SOURCE_DIR "/tests/c99/use_model.c", library,
                                              "-lm", "-Wl,-rpath," + folder.path(), "-o", at("program")});
    ASSERT_EQ(built.code, 0) << built.err;
    test::Finished ran = test::run_program({at("program"), at("net.weights")});
    EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
    test::Finished needed = test::run_program({"ldd", at("program")});
    EXPECT_EQ(needed.out.find("libtracewright"), std::string::npos) << needed.out;
  }
}

TEST(CompileModel, AFolderThatIsNoneIsRefused) {
  test::TemporaryDirectory folder;
  std::string error;
  EXPECT_FALSE(open_model(folder.path(), error));
  EXPECT_NE(error.find("is no folder that `tracewright compile` wrote"), std::string::npos) << error;
  test::write_file(folder.path() + "/manifest.json", "{\"library\": \"k\"}");
  EXPECT_FALSE(open_model(folder.path(), error));
  EXPECT_NE(error.find("describes kernels and no model"), std::string::npos) << error;
  constexpr const char* huge =
      R"({"library": "k", "tasks": [], "model": {"weight_bytes": 1, "memory_bytes": 1, "steps": [], "outputs": [],
          "inputs": [{"name": "x", "dtype": "f32", "shape": [99999999999, 99999999999], "bytes": 4}]}})";
  constexpr const char* elsewhere =
      R"({"library": "k", "tasks": [], "model": {"weight_bytes": 1, "memory_bytes": 1, "outputs": [], "inputs": [],
          "steps": [{"name": "s", "kernel": "k", "buffers": [["input", 3]]}]}})";
  for (const char* text : {"{", "[]", "{\"model\": 1}", "{\"model\": {\"inputs\": 3}}", huge, elsewhere}) {
    test::write_file(folder.path() + "/manifest.json", text);
    EXPECT_FALSE(open_model(folder.path(), error));
    EXPECT_NE(error.find("is damaged"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace tw
