// From a graph to a library that runs: results on random graphs, the memory plan, weights, and that wrong plans are
// noticed.
#include "sampler/models/compile_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "backends/kernel_abi.h"
#include "dsl/base/text.h"
#include "graph/passes/passes.h"
#include "runtime/export/model_library.h"
#include "sampler/models/check_model.h"
#include "support/graph_kit.h"
#include "support/random_graph.h"
#include "support/run_program.h"
#include "support/support.h"
#include "tests/unit/plan_walk.h"

namespace tw {
namespace {

using graph::Graph;
using graph::GraphBuilder;
using graph::ValueId;
using test::are_same;
using test::compiled;
using test::expect_sound;
using test::outputs_of;
using Ints = std::vector<i64>;

void expect_compiled_right(Graph (*make)(Rng)) {
  test::Seeds seeds = test::seeds_from_environment(5);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    Graph graph = make(Rng(static_cast<u64>(seed)));
    std::vector<HostArray> inputs = test::random_arrays(graph, Rng(static_cast<u64>(seed), 1));
    std::string error;
    auto expected = graph::evaluate(graph, inputs, error);
    ASSERT_TRUE(expected) << error;
    int threads = 1 + static_cast<int>(seed % 2);
    Graph simple = graph::simplified(graph);
    ExportPlan plan = compiled(simple, threads);
    ASSERT_TRUE(plan.model) << "TW_SEED=" << seed << "\n" << to_string(graph);
    expect_sound(plan, simple, threads);
    EXPECT_TRUE(are_same(*expected, outputs_of(plan, inputs, threads))) << "TW_SEED=" << seed << "\n"
                                                                        << to_string(graph);
  }
}

TEST(CompileModel, RandomGraphsGiveWhatTheInterpreterGives) { expect_compiled_right(test::random_graph); }
TEST(CompileModel, RandomGraphsOfJoinedValuesGiveWhatTheInterpreterGives) {
  expect_compiled_right(test::random_joined_graph);
}

class Builder : public test::GraphKit {
 public:
  explicit Builder(u64 seed = 7) : rng_(seed) {}
  ValueId random(const Ints& shape) {
    HostArray array = HostArray::zeros(DType::F32, shape);
    for (i64 i = 0; i < array.elements(); ++i) array.set(i, 0.2 * rng_.uniform() - 0.1);
    return builder.constant("c", std::move(array));
  }

 private:
  Rng rng_;
};

// Columns of a matrix that was cut out of rows of another length: no panels can be made of it.
TEST(CompileModel, ColumnsThatLieInTwoDimensions) {
  Builder b;
  ValueId x = b.builder.input("x", {DType::F32, {36, 64}}), rows = b.builder.input("rows", {DType::F32, {4, 48}});
  ValueId columns = b.add("transpose", {{"order", Ints{1, 0}}}, {x});
  columns = b.add("reshape", {{"R", Ints{48, 48}}}, {columns});
  Graph graph = b.finish(b.add("matmul", {}, {rows, columns}));
  std::vector<HostArray> inputs = test::random_arrays(graph, Rng(1));
  std::string error;
  auto expected = graph::evaluate(graph, inputs, error);
  ASSERT_TRUE(expected) << error;
  ExportPlan plan = compiled(graph);
  ASSERT_TRUE(plan.model);
  EXPECT_EQ(plan.tasks.size(), 1u);
  EXPECT_TRUE(are_same(*expected, outputs_of(plan, inputs)));
}

// Long expressions, in which most is repeated, with vectors of 8 lanes and 16 registers.
TEST(CompileModel, EveryFunctionHasAKernelOnAvx2) {
  const std::string text = "cpu -mcpu=x86-64-v3 -threads=1";
  Diagnostics diagnostics(Source{"target", text});
  Target target = *parse_target(text, 0, diagnostics);
  std::vector<std::pair<std::string, WorkloadArguments>> functions = {
      {"arctangent", {{"half", i64{0}}}}, {"arctangent", {{"half", i64{1}}}}, {"arctangent", {{"half", i64{2}}}}};
  for (const char* name : {"sine", "cosine", "tangent", "area_sine", "area_cosine", "area_tangent", "mish", "gelu",
                           "hyperbolic_sine", "hyperbolic_cosine", "error_function"})
    functions.push_back({name, {}});
  for (const auto& [name, arguments] : functions) {
    Builder b;
    Graph graph = b.finish(b.add(name, arguments, {b.input({64, 1000})}));
    std::string error;
    auto plan = compile_model(graph, model_tasks(graph, target), {.library = "net", .target = target}, error);
    EXPECT_TRUE(plan) << name << ": " << error;
  }
}

// What `compile --check` compares on.
TEST(CompileModel, RandomIntegersFindAKernelThatIsWrongForNegativesOnly) {
  Builder right, wrong;
  ValueId x = right.input({40}, DType::I8), y = wrong.input({40}, DType::I8);
  Graph graph = right.finish(right.add("add", {}, {x, x}));
  y = wrong.add("absolute", {}, {y});
  ExportPlan plan = compiled(graph), other = compiled(wrong.finish(wrong.add("add", {}, {y, y})));
  std::vector<HostArray> inputs = random_inputs(graph, 1);
  std::string error;
  auto expected = reference_outputs(graph, inputs, error);
  ASSERT_TRUE(expected) << error;
  EXPECT_TRUE(are_same(*expected, outputs_of(plan, inputs)));
  EXPECT_FALSE(are_same(*expected, outputs_of(other, inputs)));
  // The library knows the range, for those that have no graph.
  test::TemporaryDirectory folder;
  ASSERT_EQ(write_export(plan, folder.path()).error, "");
  std::optional<ModelLibrary> library = open_model(folder.path(), error);
  ASSERT_TRUE(library) << error;
  EXPECT_EQ(random_inputs(library->inputs, 1)[0].bytes, inputs[0].bytes);
}

// x, W, W: layers of one shape with different weights.
struct Layers {
  Graph graph;
  std::vector<HostArray> inputs;
};
Layers layers(int count, u64 seed = 7) {
  Builder b(seed);
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
  Graph simple = graph::simplified(net.graph);
  ExportPlan plan = compiled(simple);
  EXPECT_EQ(plan.tasks.size(), 1u);
  EXPECT_EQ(plan.model->steps.size(), 6u);
  expect_sound(plan, simple);
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
  auto& read = moved.model->steps[1].buffers.front();
  ASSERT_EQ(read.where, ModelPlace::Where::Memory);
  read = {ModelPlace::Where::Input, 0};
  EXPECT_FALSE(are_same(*expected, outputs_of(moved, net.inputs))) << "a step reads another step's input";
  ExportPlan swapped = plan;
  std::swap(swapped.model->steps[0].buffers[1], swapped.model->steps[1].buffers[1]);
  EXPECT_FALSE(are_same(*expected, outputs_of(swapped, net.inputs))) << "other weights";
}

bool is_wrong(const std::vector<HostArray>& expected, const std::vector<HostArray>& found) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (difference(expected[i], found[i]).is_wrong(most_relative(expected[i].dtype))) return true;
  }
  return false;
}

// Small faults, by the measure that `compile --check` has.
TEST(CompileModel, APlaceThatIsOffAndAWrongWeightAreNoticed) {
  Layers net = layers(3);
  std::string error;
  auto expected = reference_outputs(net.graph, net.inputs, error);
  ASSERT_TRUE(expected) << error;
  ExportPlan plan = compiled(graph::simplified(net.graph));
  ASSERT_FALSE(is_wrong(*expected, outputs_of(plan, net.inputs)));
  for (std::size_t step : {std::size_t{0}, std::size_t{1}}) {
    ExportPlan moved = plan;
    moved.model->memory_bytes += 64;
    moved.model->steps[step].buffers.back().at += 64;
    EXPECT_TRUE(is_wrong(*expected, outputs_of(moved, net.inputs))) << step;
  }
  for (std::size_t at : {std::size_t{3}, plan.model->weights.size() / 2 + 3, plan.model->weights.size() - 61}) {
    ExportPlan flipped = plan;
    flipped.model->weights[at] ^= 0x40;  // in the exponent of an f32
    EXPECT_TRUE(is_wrong(*expected, outputs_of(flipped, net.inputs))) << at;
  }
}

TEST(CompileModel, TheHeaderOfWeightsTellsThemApart) {
  std::string weights(1000, '\1'), others = weights;
  others.back() = '\2';
  std::string header = weights_header(weights);
  EXPECT_EQ(std::ssize(header), kWeightsHeaderBytes);
  EXPECT_TRUE(header.starts_with("tracewright weights ")) << header;
  EXPECT_EQ(header, weights_header(weights));
  EXPECT_NE(header, weights_header(others));
  EXPECT_NE(header, weights_header(weights + '\0'));
  EXPECT_EQ(std::ssize(weights_header("")), kWeightsHeaderBytes);
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

// Inputs that nobody reads, values that nobody reads, outputs that are read again, numbers without dimensions.
TEST(CompileModel, WhatIsReadByNobodyAndOutputsThatAreReadAgain) {
  Builder b;
  ValueId x = b.builder.input("x", {DType::F32, {4, 6}}), number = b.builder.input("number", {DType::F32, {}});
  b.builder.input("unused", {DType::I64, {3}});
  ValueId y = b.add("matmul", {}, {x, b.random({6, 8})}), z = b.add("matmul", {}, {y, b.random({8, 5})});
  b.add("matmul", {}, {y, b.random({8, 7})});
  b.builder.output(z, "last");
  b.builder.output(y, "first");
  b.builder.output(b.add("exponential", {}, {number}), "number");
  b.builder.output(number, "number_again");
  Graph graph = b.builder.finish(), simple = graph::simplified(graph);
  std::vector<HostArray> inputs = random_inputs(graph, 1);
  std::string error;
  auto expected = graph::evaluate(graph, inputs, error);
  ASSERT_TRUE(expected) << error;
  ExportPlan plan = compiled(simple);
  expect_sound(plan, simple);
  EXPECT_EQ(plan.model->memory_bytes, 0) << "the outputs are where the caller wants them";
  EXPECT_TRUE(are_same(*expected, outputs_of(plan, inputs)));
}

// A library for two threads gives the same without a pool, and with more threads than it is made for.
TEST(CompileModel, AnyNumberOfThreadsMayRunIt) {
  Layers net = layers(2);
  std::string error;
  auto expected = reference_outputs(net.graph, net.inputs, error);
  ASSERT_TRUE(expected) << error;
  for (int made_for : {1, 2}) {
    ExportPlan plan = compiled(graph::simplified(net.graph), made_for);
    for (int threads : {1, 2, 3}) EXPECT_FALSE(is_wrong(*expected, outputs_of(plan, net.inputs, threads)));
  }
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
  test::TemporaryDirectory elsewhere;
  ASSERT_EQ(write_export(compiled(graph::simplified(layers(2, 8).graph)), elsewhere.path()).error, "");
  other = test::read_file(elsewhere.path() + "/net.weights");
  ASSERT_EQ(other.size(), bytes.size());
  test::write_file(path, other);
  EXPECT_EQ(run_model(*library, net.inputs, 1).error, refused) << "of a model of the same shape";
  test::write_file(path, bytes.substr(0, bytes.size() - 1));
  EXPECT_EQ(run_model(*library, net.inputs, 1).error, refused);
  std::filesystem::remove(path);
  EXPECT_EQ(run_model(*library, net.inputs, 1).error, refused);
  test::write_file(path, bytes);
  EXPECT_EQ(run_model(*library, net.inputs, 1).error, "");
}

// Nothing is read of outputs that were never written, whatever the code that it ends with.
TEST(CompileModel, ALibraryThatEndsItsProcessHasFailed) {
  test::TemporaryDirectory folder;
  auto at = [&](const std::string& name) { return folder.path() + "/" + name; };
  test::write_file(at("ends.weights"), "weights");
  test::write_file(at("ends.c"),
                   "#include <stdlib.h>\n"
                   "int ends_create(const char* weights, int workers, void** context) { return 0; }\n"
                   "int ends_run(void) { exit(CODE); }\n"
                   "int ends_step_run(void) { exit(CODE); }\n");
  const KernelArgument output{.name = "y", .dtype = DType::F32, .shape = {1024}, .bytes = 4096};
  ModelLibrary library{.folder = folder.path(), .name = "ends", .outputs = {output}};
  library.steps = {{"step", "step", {{ModelPlace::Where::Output, 0}}, 0}};
  for (int code : {0, 1, 2, 3}) {
    test::Finished built =
        test::run_program({"cc", "-shared", "-fPIC", cat("-DCODE=", code), at("ends.c"), "-o", at("libends.so")});
    ASSERT_EQ(built.code, 0) << built.err;
    const std::string why = cat("the model ended with exit code ", code);
    ModelRun run = run_model(library, {}, 1);
    EXPECT_EQ(run.error, why);
    EXPECT_TRUE(run.has_failed && run.outputs.empty());
    std::string error;
    EXPECT_FALSE(StepOutputs(library, {}, 1, {{0, 0, output}}).next(error));
    EXPECT_EQ(error, why);
    EXPECT_TRUE(time_steps(library, {}, 1, 0, error).empty());
    EXPECT_EQ(error, why);
  }
}

// Results of three steps are larger than a pipe holds, and the last step fails.
TEST(CompileModel, OutputsOfStepsAreThereUntilOneFails) {
  test::TemporaryDirectory folder;
  auto at = [&](const std::string& name) { return folder.path() + "/" + name; };
  test::write_file(at("steps.weights"), "weights");
  test::write_file(at("steps.c"),
                   "static int write_all(void** buffers, float number) {\n"
                   "  for (int i = 0; i < 1 << 18; ++i) ((float*)buffers[0])[i] = number + i;\n"
                   "  return 0;\n"
                   "}\n"
                   "int steps_one_run(void** buffers) { return write_all(buffers, 1); }\n"
                   "int steps_two_run(void** buffers) { return write_all(buffers, 2); }\n"
                   "int steps_three_run(void** buffers) { return 1; }\n");
  test::Finished built = test::run_program({"cc", "-shared", "-fPIC", at("steps.c"), "-o", at("libsteps.so")});
  ASSERT_EQ(built.code, 0) << built.err;
  const KernelArgument output{.name = "y", .dtype = DType::F32, .shape = {1 << 18}, .bytes = 1 << 20};
  ModelLibrary library{.folder = folder.path(), .name = "steps", .outputs = {output}};
  for (const char* name : {"one", "two", "three"})
    library.steps.push_back({name, name, {{ModelPlace::Where::Output, 0}}, 0});
  StepOutputs outputs(library, {}, 1, {{0, 0, output}, {1, 0, output}, {2, 0, output}});
  std::string error;
  for (double number : {1, 2}) {
    std::optional<HostArray> found = outputs.next(error);
    ASSERT_TRUE(found) << error;
    EXPECT_EQ(found->get(0), number);
    EXPECT_EQ(found->get((1 << 18) - 1), number + (1 << 18) - 1);
  }
  EXPECT_FALSE(outputs.next(error));
  EXPECT_EQ(error, "a kernel failed");
  StepOutputs good(library, {}, 1, {{0, 0, output}});
  EXPECT_TRUE(good.next(error));
  error.clear();
  EXPECT_FALSE(good.end(error)) << "the third step";
  EXPECT_EQ(error, "a kernel failed");
  library.steps.pop_back();
  StepOutputs two(library, {}, 1, {{1, 0, output}});
  EXPECT_TRUE(two.next(error) && two.end(error)) << error;
}

// As strict as users may be, from C, with two contexts at once.
TEST(CompileModel, AStrictCProgramRunsIt) {
  Layers net = layers(3);
  std::string error;
  for (i64 i = 0; i < net.inputs[0].elements(); ++i) net.inputs[0].set(i, static_cast<double>(i % 11) * 0.125 - 0.5);
  auto expected = reference_outputs(net.graph, net.inputs, error);
  ASSERT_TRUE(expected) << error;
  test::TemporaryDirectory folder;
  ASSERT_EQ(write_export(compiled(graph::simplified(net.graph)), folder.path()).error, "");
  auto at = [&](const std::string& name) { return folder.path() + "/" + name; };
  for (const std::string& library : {at("libnet.a"), at("libnet.so")}) {
    test::Finished built = test::run_program({"cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread",
                                              "-I", folder.path(), TW_SOURCE_DIR "/tests/c99/use_model.c", library,
                                              "-lm", "-Wl,-rpath," + folder.path(), "-o", at("program")});
    ASSERT_EQ(built.code, 0) << built.err;
    test::Finished ran = test::run_program({at("program"), at("net.weights"), at("y")});
    EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
    HostArray found = (*expected)[0];
    std::string bytes = test::read_file(at("y"));
    ASSERT_EQ(bytes.size(), found.bytes.size());
    found.bytes.assign(bytes.begin(), bytes.end());
    EXPECT_FALSE(is_wrong(*expected, {found}));
    test::Finished needed = test::run_program({"ldd", at("program")});
    for (const char* stranger : {"libtracewright", "LLVM", "stdc++"})
      EXPECT_EQ(needed.out.find(stranger), std::string::npos) << needed.out;
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
  constexpr const char* endless =
      R"({"library": "k", "tasks": [], "model": {"weight_bytes": 1, "memory_bytes": 1, "steps": [], "outputs": [],
          "inputs": [{"name": "x", "dtype": "i64", "shape": [1], "bytes": 8, "values": [-9000000000000000000, 9000000000000000000]}]}})";
  constexpr const char* elsewhere =
      R"({"library": "k", "tasks": [], "model": {"weight_bytes": 1, "memory_bytes": 1, "outputs": [], "inputs": [],
          "steps": [{"name": "s", "kernel": "k", "buffers": [["input", 3]]}]}})";
  for (const char* text : {"{", "[]", "{\"model\": 1}", "{\"model\": {\"inputs\": 3}}", huge, endless, elsewhere}) {
    test::write_file(folder.path() + "/manifest.json", text);
    EXPECT_FALSE(open_model(folder.path(), error));
    EXPECT_NE(error.find("is damaged"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace tw
