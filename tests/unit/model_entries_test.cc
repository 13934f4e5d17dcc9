// Libraries of several entries: results of each, what they share, their C functions, and that faults are noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <set>

#include "backends/kernel_abi.h"
#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "graph/passes/passes.h"
#include "graph/shared_constants.h"
#include "runtime/export/model_library.h"
#include "runtime/lists/npy.h"
#include "sampler/models/check_model.h"
#include "sampler/models/compile_model.h"
#include "sampler/models/packings.h"
#include "sampler/models/weight_file.h"
#include "support/graph_kit.h"
#include "support/parsed.h"
#include "support/run_program.h"
#include "support/support.h"
#include "tests/unit/onnx_files.h"

namespace tw {
namespace {

using graph::Graph;
using graph::ValueId;
using test::Finished;
using Ints = std::vector<i64>;

constexpr i64 kWide = 192, kNarrow = 160;

// tanh(x A) B + relu(z C) for `rows` rows of x; z has one shape.
Graph network(i64 rows) {
  test::GraphKit kit;
  Rng rng(7);
  auto random = [&](const Ints& shape) {
    HostArray array = HostArray::zeros(DType::F32, shape);
    for (i64 i = 0; i < array.elements(); ++i) array.set(i, 0.2 * rng.uniform() - 0.1);
    return kit.builder.constant("c", std::move(array));
  };
  ValueId x = kit.builder.input("x", {DType::F32, {rows, kNarrow}});
  ValueId z = kit.builder.input("z", {DType::F32, {1, kNarrow}});
  x = kit.add("hyperbolic_tangent", {}, {kit.add("matmul", {}, {x, random({kNarrow, kWide})})});
  x = kit.add("matmul", {}, {x, random({kWide, kNarrow})});
  z = kit.add("relu", {}, {kit.add("matmul", {}, {z, random({kNarrow, kNarrow})})});
  kit.builder.output(kit.add("add", {}, {x, kit.spread(z, {rows, kNarrow})}), "y");
  kit.builder.output(z, "w");
  return kit.builder.finish();
}

Target host() {
  Target target = host_target();
  target.threads = 1;
  return target;
}

ExportPlan compiled(const std::vector<i64>& rows, const Target& target = host()) {
  std::vector<Graph> graphs;
  std::vector<ModelTasks> tasks;
  TaskNames names;
  for (i64 count : rows) {
    graphs.push_back(graph::simplified(network(count)));
    tasks.push_back(model_tasks(graphs.back(), target, names));
  }
  std::vector<EntryGraph> entries;
  for (std::size_t i = 0; i < rows.size(); ++i) entries.push_back({graphs[i], tasks[i]});
  std::string error;
  auto plan = compile_model(entries, {.library = "net", .target = target}, error);
  EXPECT_TRUE(plan) << error;
  return plan ? std::move(*plan) : ExportPlan{};
}

std::vector<ModelLibrary> written(const ExportPlan& plan, const std::string& folder) {
  ExportResult result = write_export(plan, folder);
  EXPECT_EQ(result.error + result.note, "");
  std::string error;
  std::optional<std::vector<ModelLibrary>> entries = open_entries(folder, error);
  EXPECT_TRUE(entries) << error;
  return entries ? std::move(*entries) : std::vector<ModelLibrary>{};
}

std::vector<HostArray> outputs_of(const ModelLibrary& entry) {
  ModelRun run = run_model(entry, random_inputs(entry.inputs, 3), 1);
  EXPECT_EQ(run.error, "");
  return std::move(run.outputs);
}

bool are_same(const std::vector<HostArray>& expected, const std::vector<HostArray>& found) {
  return std::ranges::equal(expected, found, [](const HostArray& a, const HostArray& b) {
    return a.shape == b.shape && !difference(a, b).is_wrong(1e-5);
  });
}

const std::vector<i64> kRows = {1, 8, 33};

TEST(ModelEntries, EachGivesWhatALibraryForItsShapesGives) {
  test::TemporaryDirectory folder;
  std::vector<ModelLibrary> entries = written(compiled(kRows), folder.path());
  ASSERT_EQ(entries.size(), kRows.size());
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    test::TemporaryDirectory alone;
    std::vector<ModelLibrary> own = written(compiled({kRows[i]}), alone.path());
    EXPECT_EQ(entries[i].inputs[0].shape, (Ints{kRows[i], kNarrow}));
    std::vector<HostArray> found = outputs_of(entries[i]);
    EXPECT_TRUE(are_same(outputs_of(own[0]), found)) << "entry " << i;
    Graph graph = network(kRows[i]);
    std::string error;
    auto expected = reference_outputs(graph, random_inputs(graph, 3), error);
    ASSERT_TRUE(expected) << error;
    EXPECT_TRUE(are_same(*expected, found)) << "entry " << i;
  }
}

// What the comparison above must see.
TEST(ModelEntries, PlacesAndWeightsOfAnotherEntryAreNoticed) {
  ExportPlan plan = compiled({8, 33});
  test::TemporaryDirectory good, bad;
  std::vector<HostArray> expected = outputs_of(written(plan, good.path())[1]);
  std::vector<ModelStep>& steps = plan.model->further[0].steps;
  std::swap(steps[0].buffers[1], steps[1].buffers[1]);
  ASSERT_EQ(steps[0].buffers[1].where, ModelPlace::Where::Weights);
  EXPECT_FALSE(are_same(expected, outputs_of(written(plan, bad.path())[1])));
}

std::set<Hash128> packings_of(const ExportPlan& plan) {
  std::set<Hash128> out;
  for (const ExportedTask& task : plan.tasks) out.insert(packing_of(task));
  return out;
}

// Libraries of their own would pack differently for 8 and 24 rows; here the smaller entry does as the larger one,
// whatever their order.
TEST(ModelEntries, WeightsOfTwoBatchSizesAreMuchSmallerThanTwice) {
  test::TemporaryDirectory folder;
  Target target = test::parsed_target("cpu -mcpu=haswell -threads=1");  // the same kernels on every machine
  ExportPlan one = compiled({8}, target), other_one = compiled({24}, target), two = compiled({8, 24}, target);
  EXPECT_NE(packings_of(one), packings_of(other_one));
  EXPECT_EQ(packings_of(other_one), packings_of(two));
  EXPECT_EQ(two.model->weights.size(), compiled({24, 8}, target).model->weights.size());
  EXPECT_LT(two.model->weights.size(), 1.05 * static_cast<double>(one.model->weights.size()));
  written(two, folder.path());
  boost::json::value manifest = boost::json::parse(test::read_file(folder.path() + "/manifest.json"));
  const boost::json::value& model = manifest.at("model");
  const boost::json::array& further = model.at("further_entries").as_array();
  ASSERT_EQ(further.size(), 1u);
  i64 first = model.at("read_weight_bytes").to_number<i64>(),
      other = further[0].at("read_weight_bytes").to_number<i64>();
  i64 most = 4 * (2 * kNarrow * kWide + kNarrow * kNarrow), all = model.at("weight_bytes").to_number<i64>();
  EXPECT_GE(first, most) << "each entry reads all constants";
  EXPECT_GE(other, most);
  EXPECT_LT(all, 1.05 * static_cast<double>(first)) << "nearly all of them are the same bytes";
  for (const char* key : {"memory_bytes", "least_memory_bytes", "inputs", "outputs", "steps"})
    EXPECT_TRUE(further[0].as_object().contains(key)) << key;
}

TEST(ModelEntries, EqualProgramsAreOneKernel) {
  std::size_t one = compiled({8}).tasks.size(), other = compiled({33}).tasks.size();
  ExportPlan two = compiled({8, 33});
  EXPECT_EQ(two.tasks.size(), one + other - 1) << "relu(z C) does not depend on the rows";
  std::set<std::string> names;
  for (const ExportedTask& task : two.tasks) EXPECT_TRUE(names.insert(task.name).second) << task.name;
  std::set<std::size_t> first, shared;
  for (const ModelStep& step : two.model->steps) first.insert(step.task);
  for (const ModelStep& step : two.model->further[0].steps) {
    if (first.contains(step.task)) shared.insert(step.task);
  }
  EXPECT_EQ(shared.size(), 1u);
}

TEST(SharedConstants, EqualOnesOfTwoGraphsAreOneObject) {
  Graph first = network(8), second = network(33);
  graph::SharedConstants shared;
  shared.share(first);
  std::size_t constants = 0;
  auto expect_shared = [&](bool is_shared) {
    for (std::size_t v = 0; v < second.values.size(); ++v) {
      if (!second.values[v].data) continue;
      EXPECT_EQ(second.values[v].data == first.values[v].data, is_shared) << second.values[v].name;
      ++constants;
    }
  };
  expect_shared(false);
  shared.share(second);
  expect_shared(true);
  EXPECT_EQ(constants, 6u);
  for (auto change :
       {+[](HostArray& array) { array.shape.insert(array.shape.begin(), 1); },
        +[](HostArray& array) { array.bytes.back() ^= 1; }, +[](HostArray& array) { array.dtype = DType::I32; }}) {
    Graph other = network(8);
    for (graph::Value& value : other.values) {
      if (!value.data) continue;
      HostArray changed = *value.data;
      change(changed);
      value.data = std::make_shared<const HostArray>(std::move(changed));
    }
    shared.share(other);
    for (std::size_t v = 0; v < other.values.size(); ++v)
      EXPECT_TRUE(!other.values[v].data || other.values[v].data != first.values[v].data);
  }
}

TEST(WeightFile, EqualBytesAreStoredOnce) {
  WeightFile file;
  std::string a(100, 'a'), b(100, 'b'), longer = a + '\0';
  i64 at_a = file.add(a.data(), a.size()), at_b = file.add(b.data(), b.size());
  EXPECT_EQ(at_a, kWeightsHeaderBytes);
  EXPECT_NE(at_a, at_b);
  EXPECT_EQ(file.add(a.data(), a.size()), at_a);
  EXPECT_NE(file.add(longer.data(), longer.size()), at_a) << "of another length";
  EXPECT_EQ(at_b % TW_ALIGNMENT, 0);
  std::string bytes = file.take();
  EXPECT_EQ(bytes.size(), 3 * 128u);
  EXPECT_EQ(bytes.substr(static_cast<std::size_t>(at_b - kWeightsHeaderBytes), b.size()), b);
}

// As strict as users may be: contexts of all entries at the same time, found by their shapes, from C.
TEST(ModelEntries, AStrictCProgramRunsAllAtOnce) {
  test::TemporaryDirectory folder;
  std::vector<ModelLibrary> entries = written(compiled(kRows), folder.path());
  auto at = [&](const std::string& name) { return folder.path() + "/" + name; };
  Finished built =
      test::run_program({"cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread", "-I", folder.path(),
                         TW_SOURCE_DIR "/tests/c99/use_entries.c", at("libnet.a"), "-lm", "-o", at("program")});
  ASSERT_EQ(built.code, 0) << built.err;
  Finished strict = test::run_program({"cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only",
                                       "-I", folder.path(), at("net.c")});
  EXPECT_EQ(strict.code, 0) << strict.err;
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    std::vector<HostArray> inputs = random_inputs(entries[i].inputs, 3), expected = outputs_of(entries[i]);
    for (std::size_t n = 0; n < 2; ++n) {
      test::write_file(at(cat("in", i, n)), {inputs[n].bytes.begin(), inputs[n].bytes.end()});
      test::write_file(at(cat("out", i, n)), {expected[n].bytes.begin(), expected[n].bytes.end()});
    }
  }
  Finished ran = test::run_program({at("program"), at("net.weights"), folder.path()});
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
}

TEST(ModelEntries, ADamagedManifestIsRefused) {
  test::TemporaryDirectory folder;
  written(compiled({8, 33}), folder.path());
  std::string path = folder.path() + "/manifest.json", text = test::read_file(path), error;
  for (const char* kind : {"inputs", "outputs"}) {
    boost::json::value manifest = boost::json::parse(text);
    manifest.at("model").at("further_entries").at(0).at(kind).at(0).at("name") = "another";
    test::write_file(path, boost::json::serialize(manifest));
    EXPECT_FALSE(open_entries(folder.path(), error));
    EXPECT_NE(error.find("is damaged"), std::string::npos) << error;
  }
}

// ---- the commands

class EntriesCommand : public testing::Test {
 protected:
  void SetUp() override {
    if (graph::onnx_operators().empty()) GTEST_SKIP() << "the plugin for ONNX files was not built";
    using namespace graph::test;
    test::write_file(at("sum.onnx"), model(part(1, node("Add", {"x", "z"}, {"y"})) + part(2, "g") +
                                           part(11, open_value("x", {"n", "3"})) +
                                           part(11, open_value("z", {"m", "3"})) + part(12, untyped("y"))));
  }
  std::string at(const std::string& name) const { return folder.path() + "/" + name; }
  Finished run(std::vector<std::string> words) {
    return test::tracewright(std::move(words), {.folder = folder.path()});
  }
  Finished compile(const std::vector<std::string>& shapes, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"compile", "sum.onnx", "--threads", "1", "--output", "out"};
    for (const std::string& shape : shapes) words.insert(words.end(), {"--shape", shape});
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  test::TemporaryDirectory folder;
};

TEST_F(EntriesCommand, InputsWithOtherNumbersOfShapesAreRefused) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"x=1,3", "x=2,3", "x=4,3", "z=1,3", "z=2,3"},
       "--shape: the input `z` has 2 shapes and `x` has 3: say one, which all entries have, or one for each entry"},
      {{"x=1,3", "x=2,3", "z=1,3", "z=2,3", "z=4,3"}, "--shape: the input `x` has 2 shapes and `z` has 3"},
      {{"x=1,3", "z=1,3", "x=2,3", "z=1,3", "x=1,3", "z=1,3"}, "entries 0 and 2 have the same shapes"},
      {{"x=1,3", "x=2", "z=1,3"}, "--shape: the shapes of the input `x` have 2 and 1 dimensions"},
      {{"x=1,3", "x=2,3", "z=1,3", "none=1", "none=2"}, "the model has no input `none`"},
      {{"x=1,3", "x=2,4", "z=1,3"}, "sum.onnx cannot be compiled with x=2,4 z=1,3"}};
  for (const auto& [shapes, message] : cases) {
    Finished found = compile(shapes);
    EXPECT_EQ(found.code, 2) << found.out;
    EXPECT_NE(found.err.find(message), std::string::npos) << found.err;
  }
  EXPECT_EQ(run({"run", "out"}).code, 2) << "nothing was written";
}

// The i-th shape of an input belongs to entry i; an input with one shape has it in all.
TEST_F(EntriesCommand, AreCheckedAndChosenByShapes) {
  Finished made = compile({"x=1,3", "z=1,3", "x=5,3"}, {"--check", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  boost::json::value report = boost::json::parse(made.out);
  ASSERT_EQ(report.at("entries").as_array().size(), 2u);
  EXPECT_EQ(report.at("entries").at(1).at("shapes").as_string(), "x=5,3");
  ASSERT_EQ(report.at("check").as_array().size(), 2u);
  EXPECT_EQ(report.at("check").at(1).at("entry").to_number<int>(), 1);
  auto first_line = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "out"});
    Finished ran = run(words);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out.substr(0, ran.out.find('\n'));
  };
  EXPECT_EQ(first_line({}), "y: f32[1, 3]");
  EXPECT_EQ(first_line({"--shape", "x=5,3"}), "y: f32[5, 3]");
  HostArray x = HostArray::zeros(DType::F32, {5, 3}), z = HostArray::zeros(DType::F32, {1, 3});
  for (i64 i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i));
  for (i64 i = 0; i < 3; ++i) z.set(i, 100.0 * static_cast<double>(i));
  test::write_file(at("x.npy"), *npy_bytes(x));
  test::write_file(at("z.npy"), *npy_bytes(z));
  EXPECT_EQ(first_line({"--input", "x=x.npy", "--input", "z=z.npy", "--output", "y.npy"}), "y: f32[5, 3]");
  std::string error;
  std::optional<HostArray> y = read_npy(at("y.npy"), error);
  ASSERT_TRUE(y) << error;
  for (i64 i = 0; i < y->elements(); ++i) EXPECT_EQ(y->get(i), x.get(i) + z.get(i % 3));
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--shape", "x=4,3"}, {"--shape", "x=1,3", "--input", "x=x.npy"}}) {
    std::vector<std::string> words{"run", "out"};
    words.insert(words.end(), wrong.begin(), wrong.end());
    Finished refused = run(words);
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("; it has x=1,3; x=5,3"), std::string::npos) << refused.err;
  }
}

}  // namespace
}  // namespace tw
