// From a graph to a library that runs: results on random graphs, the memory plan, weights, and that wrong plans are
// noticed.
#include "sampler/models/compile_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "backends/kernel_abi.h"
#include "dsl/base/text.h"
#include "graph/passes/passes.h"
#include "runtime/export/model_library.h"
#include "sampler/models/check_model.h"
#include "support/graph_kit.h"
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

// Follows the steps of a plan and the bytes that they read and write, in the plan's memory and in the outputs.
class PlanWalk {
 public:
  PlanWalk(const ExportPlan& plan, const ModelTasks& tasks) : plan_(plan), model_(*plan.model), tasks_(tasks) {}

  // At each read all bytes of the buffer are those that one step wrote there as one buffer, and it is the step that
  // makes this value. Buffers lie inside of what they are parts of, aligned.
  void expect_sound() {
    ASSERT_EQ(model_.steps.size(), tasks_.fused.groups.size());
    for (std::size_t g = 0; g < model_.steps.size(); ++g) step(g);
    for (const ModelCopy& copy : model_.copies) {
      i64 bytes = model_.outputs[copy.output].bytes;
      expect_inside(copy.from, bytes);
      EXPECT_TRUE(!is_written(copy.from) || writer_of(copy.from, bytes) >= 0) << "output " << copy.output;
      write({ModelPlace::Where::Output, static_cast<i64>(copy.output)}, bytes, 0);
    }
    for (std::size_t i = 0; i < model_.outputs.size(); ++i)
      EXPECT_GE(writer_of({ModelPlace::Where::Output, static_cast<i64>(i)}, model_.outputs[i].bytes), 0)
          << "nothing writes output " << i;
  }

 private:
  struct Write {
    i64 at, bytes;
    int value;  // that was written
  };
  using Bytes = std::vector<int>;  // the number of the write that each byte comes from; -1 = of none

  static bool is_written(const ModelPlace& place) {
    return place.where == ModelPlace::Where::Memory || place.where == ModelPlace::Where::Output;
  }
  // The bytes of the memory, or of one output, and where the place is among them.
  std::pair<Bytes*, i64> range(const ModelPlace& place) {
    bool is_memory = place.where == ModelPlace::Where::Memory;
    i64 size = is_memory ? model_.memory_bytes : model_.outputs[static_cast<std::size_t>(place.at)].bytes;
    auto made = bytes_.try_emplace(is_memory ? -1 : place.at, Bytes(static_cast<std::size_t>(size), -1));
    return {&made.first->second, is_memory ? place.at : 0};
  }

  void expect_inside(const ModelPlace& place, i64 bytes) {
    if (place.where == ModelPlace::Where::Input || place.where == ModelPlace::Where::Output) {
      const std::vector<KernelArgument>& all = place.where == ModelPlace::Where::Input ? model_.inputs : model_.outputs;
      ASSERT_LT(place.at, std::ssize(all));
      EXPECT_EQ(all[static_cast<std::size_t>(place.at)].bytes, bytes);
      return;
    }
    bool is_memory = place.where == ModelPlace::Where::Memory;
    i64 end = is_memory ? model_.memory_bytes : kWeightsHeaderBytes + std::ssize(model_.weights);
    EXPECT_EQ(place.at % TW_ALIGNMENT, 0);
    EXPECT_GE(place.at, is_memory ? 0 : kWeightsHeaderBytes);
    ASSERT_LE(place.at + bytes, end);
  }

  void write(const ModelPlace& place, i64 bytes, int value) {
    auto [of, at] = range(place);
    std::fill_n(of->begin() + at, bytes, static_cast<int>(writes_.size()));
    writes_.push_back({at, bytes, value});
  }
  // The value that was written there as a whole; -1 if there is something else by now.
  int writer_of(const ModelPlace& place, i64 bytes) {
    auto [of, at] = range(place);
    if (bytes == 0) return 0;
    auto begin = of->begin() + at;
    if (*begin < 0 || !std::all_of(begin, begin + bytes, [&](int by) { return by == *begin; })) return -1;
    const Write& found = writes_[static_cast<std::size_t>(*begin)];
    return found.at == at && found.bytes == bytes ? found.value : -1;
  }

  static bool are_apart(const ModelPlace& a, i64 a_bytes, const ModelPlace& b, i64 b_bytes) {
    if (a.where != b.where) return true;
    return a.where == ModelPlace::Where::Memory ? a.at + a_bytes <= b.at || b.at + b_bytes <= a.at : a.at != b.at;
  }

  void step(std::size_t g) {
    const graph::Group& group = tasks_.fused.groups[g];
    const ModelStep& step = model_.steps[g];
    const std::vector<KernelArgument>& arguments = plan_.tasks[step.task].kernel.manifest.run;
    EXPECT_EQ(step.task, tasks_.task_of[g]);
    ASSERT_EQ(step.buffers.size(), arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      expect_inside(step.buffers[i], arguments[i].bytes);
      if (arguments[i].role != ArgumentRole::Input || !is_written(step.buffers[i])) continue;
      ValueId read = tasks_.fused.memory[group.inputs[std::stoul(arguments[i].name.substr(1))]];
      EXPECT_EQ(writer_of(step.buffers[i], arguments[i].bytes), static_cast<int>(read)) << step.name;
    }
    std::size_t next = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].role != ArgumentRole::Output) continue;
      ASSERT_TRUE(is_written(step.buffers[i])) << step.name;
      for (std::size_t j = 0; j < arguments.size(); ++j)
        EXPECT_TRUE(i == j || are_apart(step.buffers[i], arguments[i].bytes, step.buffers[j], arguments[j].bytes))
            << step.name << ": " << i << " and " << j;
      write(step.buffers[i], arguments[i].bytes, static_cast<int>(group.outputs[next++]));
    }
  }

  const ExportPlan& plan_;
  const ModelPlan& model_;
  const ModelTasks& tasks_;
  std::map<i64, Bytes> bytes_;  // -1 = memory; else of an output
  std::vector<Write> writes_;
};

void expect_sound(const ExportPlan& plan, const Graph& graph, int threads = 1) {
  ModelTasks tasks = model_tasks(graph, target_with(threads));
  PlanWalk(plan, tasks).expect_sound();
  EXPECT_GE(plan.model->memory_bytes, plan.model->least_memory_bytes);
  EXPECT_EQ(plan.tasks.size(), tasks.tasks.size());
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
    Graph simple = graph::simplified(graph);
    ExportPlan plan = compiled(simple, threads);
    ASSERT_TRUE(plan.model) << "TW_SEED=" << seed << "\n" << to_string(graph);
    expect_sound(plan, simple, threads);
    EXPECT_TRUE(are_same(*expected, outputs_of(plan, inputs, threads))) << "TW_SEED=" << seed << "\n"
                                                                        << to_string(graph);
  }
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
