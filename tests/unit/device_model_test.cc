// Whole models for devices. OpenCL: libraries that run on a real device, if there is one, give what the interpreter
// gives, and planted faults are noticed. CUDA: the library compiles, opens a driver (a stub of it), and wrong kernels
// are found in the emulator.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "dsl/base/text.h"
#include "graph/passes/passes.h"
#include "runtime/export/export_device_model.h"
#include "runtime/export/model_library.h"
#include "runtime/lists/npy.h"
#include "sampler/models/check_model.h"
#include "sampler/models/compile_model.h"
#include "sampler/models/cuda_kernels.h"
#include "support/device_models.h"
#include "support/nvrtc.h"
#include "support/opencl_device.h"
#include "support/random_graph.h"
#include "support/run_program.h"
#include "support/support.h"
#include "tests/unit/plan_walk.h"

namespace tw {
namespace {

using graph::Graph;
using graph::ValueId;
using test::Compiled;
using test::compiled;
using test::is_wrong;
using test::target_for;
using test::Written;
using Builder = test::DeviceGraphKit;
using Ints = std::vector<i64>;

// Convolution, bias, relu, pooling, a dense layer, softmax.
Graph convolutional() {
  Builder b;
  ValueId x = b.input({2, 3, 12, 12});
  Ints ones{1, 1};
  x = b.add("conv", {{"strides", ones}, {"before", ones}, {"after", ones}, {"dilations", ones}, {"groups", i64{1}}},
            {x, b.random({8, 3, 3, 3})});
  x = b.add("relu", {}, {b.plus(x, {2, 8, 12, 12}, {8, 1, 1})});
  x = b.add("max_pool",
            {{"window", Ints{2, 2}},
             {"strides", Ints{2, 2}},
             {"before", Ints{0, 0}},
             {"after", Ints{0, 0}},
             {"dilations", ones}},
            {x});
  x = b.add("reshape", {{"R", Ints{2, 288}}}, {x});
  x = b.plus(b.add("matmul", {}, {x, b.random({288, 10})}), {2, 10}, {10});
  return b.finish(b.add("softmax", {{"axis", i64{1}}}, {x}));
}

// Two heads of attention on six words, with a residual and a norm.
Graph attention() {
  Builder b;
  Ints rows{6, 16}, heads{6, 2, 8};
  ValueId x = b.input(rows);
  auto projected = [&](const Ints& order) {
    ValueId all = b.plus(b.add("matmul", {}, {x, b.random({16, 16})}), rows, {16});
    return b.add("transpose", {{"order", order}}, {b.add("reshape", {{"R", heads}}, {all})});
  };
  ValueId query = projected({1, 0, 2}), key = projected({1, 2, 0}), value = projected({1, 0, 2});
  ValueId weights = b.add("softmax", {{"axis", i64{2}}}, {b.add("matmul", {}, {query, key})});
  ValueId mixed = b.add("transpose", {{"order", Ints{1, 0, 2}}}, {b.add("matmul", {}, {weights, value})});
  mixed = b.add("matmul", {}, {b.add("reshape", {{"R", rows}}, {mixed}), b.random({16, 16})});
  ValueId sum = b.add("add", {}, {x, mixed});
  HostArray epsilon = HostArray::zeros(DType::F32, {});
  epsilon.set(0, 1e-5);
  ValueId normal = b.add("standardize", {{"first", i64{1}}}, {sum, b.builder.constant("e", epsilon)});
  return b.finish(b.plus(normal, rows, {16}));
}

bool is_wrong(const Compiled& model, const ExportPlan& plan) {
  ModelRun run = Written(plan, TargetKind::OpenCl).run(model.inputs);
  EXPECT_EQ(run.error, "");
  return is_wrong(model.expected, run.outputs);
}

class OpenClModel : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  }
};

TEST_F(OpenClModel, NetworksGiveWhatTheInterpreterGives) {
  Compiled images = compiled(convolutional(), TargetKind::OpenCl), words = compiled(attention(), TargetKind::OpenCl);
  EXPECT_FALSE(is_wrong(images, images.plan));
  EXPECT_FALSE(is_wrong(words, words.plan));
}

TEST_F(OpenClModel, RandomGraphsGiveWhatTheInterpreterGives) {
  test::Seeds seeds = test::seeds_from_environment(3);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    Compiled model = compiled(test::random_graph(Rng(static_cast<u64>(seed))), TargetKind::OpenCl);
    ASSERT_TRUE(model.plan.model) << "TW_SEED=" << seed;
    EXPECT_FALSE(is_wrong(model, model.plan)) << "TW_SEED=" << seed << "\n" << to_string(model.imported);
  }
}

// Outputs that no kernel makes, and models without kernels.
TEST_F(OpenClModel, OutputsMayBeInputsConstantsAndViews) {
  Builder b;
  ValueId x = b.input({4, 6}), c = b.random({2, 3}), y = b.add("relu", {}, {x});
  b.builder.output(x, "same \" */");
  b.builder.output(c, "constant");
  b.builder.output(y, "made");
  b.builder.output(y, "made_again");
  b.builder.output(b.add("reshape", {{"R", Ints{24}}}, {y}), "made_view");
  Compiled model = compiled(b.builder.finish(), TargetKind::OpenCl);
  EXPECT_FALSE(is_wrong(model, model.plan));
  Builder none;
  Compiled empty =
      compiled(none.finish(none.add("reshape", {{"R", Ints{24}}}, {none.input({4, 6})})), TargetKind::OpenCl);
  ASSERT_TRUE(empty.plan.tasks.empty());
  EXPECT_FALSE(is_wrong(empty, empty.plan));
}

// Equal layers share a kernel; each has its own packed weights.
Graph layers(int count) {
  Builder b;
  ValueId x = b.input({8, 32});
  for (int i = 0; i < count; ++i) x = b.add("hyperbolic_tangent", {}, {b.add("matmul", {}, {x, b.random({32, 32})})});
  return b.finish(x);
}

TEST_F(OpenClModel, WrongPlansAreNoticed) {
  Compiled model = compiled(layers(3), TargetKind::OpenCl);
  ASSERT_EQ(model.plan.tasks.size(), 1u);
  ASSERT_EQ(model.plan.model->packings.size(), 3u) << "the first kernel of a product packs its weights";
  ASSERT_FALSE(is_wrong(model, model.plan));
  auto with = [&](auto&& change) {
    ExportPlan plan = model.plan;
    change(*plan.model);
    return is_wrong(model, plan);
  };
  EXPECT_TRUE(with([](ModelPlan& plan) {
    plan.memory_bytes += kDeviceAlignment;
    plan.steps[0].buffers.back().at += kDeviceAlignment;
  })) << "a place that is off";
  EXPECT_TRUE(with([](ModelPlan& plan) { plan.steps.erase(plan.steps.begin() + 1); })) << "a step is left out";
  EXPECT_TRUE(with([](ModelPlan& plan) { std::swap(plan.steps[0].buffers, plan.steps[1].buffers); })) << "wrong order";
  EXPECT_TRUE(with([](ModelPlan& plan) { plan.packings.pop_back(); })) << "weights that nothing packs";
  EXPECT_TRUE(with([](ModelPlan& plan) { std::swap(plan.packings[0].buffers[0], plan.packings[1].buffers[0]); }))
      << "weights of another layer";
}

// A matrix that several steps read is packed once; places in the device's memory are where any device can have them.
TEST_F(OpenClModel, EqualWeightsArePackedOnce) {
  Builder b;
  ValueId x = b.input({8, 32}), shared = b.random({32, 32}), other = b.random({32, 33});
  for (int i = 0; i < 2; ++i) x = b.add("hyperbolic_tangent", {}, {b.add("matmul", {}, {x, shared})});
  Compiled model = compiled(b.finish(b.add("matmul", {}, {x, other})), TargetKind::OpenCl);
  const ModelPlan& plan = *model.plan.model;
  EXPECT_EQ(plan.steps.size(), 3u);
  EXPECT_EQ(plan.packings.size(), 2u);
  for (const std::vector<ModelStep>* steps : {&plan.packings, &plan.steps}) {
    for (const ModelStep& step : *steps) {
      for (const ModelPlace& place : step.buffers) {
        bool is_index = place.where == ModelPlace::Where::Input || place.where == ModelPlace::Where::Output;
        i64 header = place.where == ModelPlace::Where::Weights ? kWeightsHeaderBytes : 0;
        EXPECT_TRUE(is_index || (place.at - header) % kDeviceAlignment == 0) << name_of(place.where) << place.at;
      }
    }
  }
  EXPECT_FALSE(is_wrong(model, model.plan));
}

// An 8 x 64 value and its relu, which is as large. Products with each of them are outputs; the value is not read again
// behind the relu. With `wide`, another product with the relu has so many columns, and two outputs are made of it.
Graph mapped(i64 wide = 0) {
  Builder b;
  auto product = [&](ValueId x, i64 columns) {
    return b.add("matmul", {}, {x, b.random({b.builder.type(x).shape[1], columns})});
  };
  ValueId made = product(b.input({8, 16}), 64);
  b.builder.output(product(made, 8), "a");
  ValueId next = b.add("relu", {}, {made});
  if (wide > 0) {
    ValueId large = product(next, wide);
    b.builder.output(product(large, 8), "large_a");
    b.builder.output(product(large, 4), "large_b");
  }
  b.builder.output(product(next, 4), "b");
  b.builder.output(product(next, 6), "c");
  return b.builder.finish();
}
constexpr i64 kMapped = 8 * 64 * 4;  // bytes of the value

TEST_F(OpenClModel, AResultIsWrittenOverAnOperandThatNobodyReadsAgain) {
  Compiled model = compiled(mapped(), TargetKind::OpenCl);
  ASSERT_TRUE(model.plan.model);
  EXPECT_EQ(model.plan.model->memory_bytes, kMapped);
  EXPECT_EQ(model.plan.model->least_memory_bytes, kMapped);
  int in_place = 0;
  for (const ModelStep& step : model.plan.model->steps) {
    const Kernel& kernel = model.plan.tasks[step.task].kernel;
    const std::vector<Overwrite>& pairs = kernel.manifest.overwrites;
    bool is_over = std::ranges::any_of(pairs, [&](const Overwrite& pair) { return is_in_place(step, pair); });
    in_place += is_over;
    EXPECT_EQ(kernel.code.find(" restrict ") == std::string::npos, is_over) << step.name << "\n" << kernel.code;
  }
  EXPECT_EQ(in_place, 1);
  Graph simple = graph::simplified(model.imported);
  test::PlanWalk(model.plan, simple, model.tasks).expect_sound();
  EXPECT_FALSE(is_wrong(model, model.plan));
}

TEST_F(OpenClModel, StepsInAnotherOrderThanThatOfPlacesAreNoticed) {
  Compiled model = compiled(mapped(), TargetKind::OpenCl);
  ASSERT_TRUE(model.plan.model);
  std::vector<ModelStep>& steps = model.plan.model->steps;
  auto map = std::ranges::find_if(
      steps, [&](const ModelStep& step) { return !model.plan.tasks[step.task].kernel.manifest.overwrites.empty(); });
  ASSERT_NE(map, steps.end());
  std::rotate(steps.begin() + 1, map, map + 1);  // before the product that reads the overwritten operand
  EXPECT_TRUE(is_wrong(model, model.plan));
}

TEST_F(OpenClModel, BuffersAreApartWhereThatTakesNoMoreMemory) {
  Compiled model = compiled(mapped(512), TargetKind::OpenCl);
  ASSERT_TRUE(model.plan.model);
  EXPECT_EQ(model.plan.model->memory_bytes, kMapped + 8 * 512 * 4);
  int allowed = 0;
  for (const ModelStep& step : model.plan.model->steps) {
    for (const Overwrite& pair : model.plan.tasks[step.task].kernel.manifest.overwrites) {
      ++allowed;
      EXPECT_FALSE(is_in_place(step, pair)) << step.name;
      EXPECT_NE(model.plan.tasks[step.task].kernel.code.find(" restrict "), std::string::npos) << step.name;
    }
  }
  EXPECT_GT(allowed, 0);
  EXPECT_FALSE(is_wrong(model, model.plan));
}

// OpenCL defines what a kernel reads of memory that it also writes only if both are one memory object. That is released
// once.
TEST_F(OpenClModel, WhatIsInOnePlaceIsOnePartOfMemory) {
  Compiled model = compiled(mapped(), TargetKind::OpenCl);
  Written written(model.plan, TargetKind::OpenCl);
  const std::string folder = written.folder.path();
  test::write_file(folder + "/main.c", R"c(#include "net.c"
static cl_mem (*take_buffer)(cl_context, cl_flags, size_t, void*, cl_int*);
static cl_mem (*take_part)(cl_mem, cl_flags, cl_buffer_create_type, const void*, cl_int*);
static cl_int (*give)(cl_mem);
static int taken, given;
static cl_mem counted_buffer(cl_context context, cl_flags flags, size_t bytes, void* host, cl_int* error) {
  return ++taken, take_buffer(context, flags, bytes, host, error);
}
static cl_mem counted_part(cl_mem whole, cl_flags flags, cl_buffer_create_type type, const void* region, cl_int* error) {
  return ++taken, take_part(whole, flags, type, region, error);
}
static cl_int counted_give(cl_mem memory) { return ++given, give(memory); }
int main(void) {
  net_context* context = NULL;
  if (net_create("net.weights", 1, &context)) return puts(net_problem()), 1;
  net_destroy(context);  /* the driver is open from now on */
  take_buffer = tw_cl.create_buffer, take_part = tw_cl.create_part, give = tw_cl.release_memory;
  tw_cl.create_buffer = counted_buffer, tw_cl.create_part = counted_part, tw_cl.release_memory = counted_give;
  if (net_create("net.weights", 1, &context)) return puts(net_problem()), 1;
  const tw_memory* parts = context->whole.parts;
  int same = 0;
  for (size_t s = 0; s < model.step_count[1]; ++s) {
    const tw_step* step = &model.steps[1][s];
    for (size_t p = 0; p < step->count; ++p) {
      for (size_t q = 0; q < p; ++q) {
        const tw_place *a = &step->places[p], *b = &step->places[q];
        const int meet = a->piece == b->piece && a->at < b->at + b->bytes && b->at < a->at + a->bytes;
        if (meet != (parts[p] == parts[q])) return printf("%s: %d %d\n", step->name, (int)p, (int)q), 1;
        same += meet;
      }
    }
    parts += step->count;
  }
  net_destroy(context);
  return printf("%d in one place, %d left\n", same, taken - given), 0;
}
)c");
  test::Finished compiled_own =
      test::run_program({"cc", "-std=c99", "-o", "main", "main.c", "-ldl", "-lpthread", "-lm"}, {.folder = folder});
  ASSERT_EQ(compiled_own.code, 0) << compiled_own.err;
  test::Finished ran = test::run_program({"./main"}, {.folder = folder});
  EXPECT_EQ(ran.out, "1 in one place, 0 left\n") << ran.err;
}

TEST_F(OpenClModel, WhatIsNotThereIsSaid) {
  Compiled model = compiled(layers(1), TargetKind::OpenCl);
  Written written(model.plan, TargetKind::OpenCl);
  std::string path = written.folder.path() + "/net.weights", bytes = test::read_file(path);
  bytes[0] ^= 1;
  test::write_file(path, bytes);
  EXPECT_EQ(written.run(model.inputs).error, "the file of weights cannot be read or belongs to another model");
  Target far = target_for(TargetKind::OpenCl);
  far.device = 99;
  test::TemporaryDirectory folder;
  ASSERT_EQ(write_device_model(model.plan, far, folder.path()).error, "");
  std::string error;
  std::optional<ModelLibrary> library = open_model(folder.path(), error);
  ASSERT_TRUE(library) << error;
  std::string why = run_model(*library, model.inputs, 1).error;
  EXPECT_NE(why.find("there is no such device"), std::string::npos) << why;
  EXPECT_NE(why.find("opening device 99"), std::string::npos) << why;
  EXPECT_TRUE(time_steps(*library, model.inputs, 1, 0.1, error).empty());
  EXPECT_NE(error.find("there is no such device"), std::string::npos) << error;
}

// A program of its own, with threads that each have a context; it needs neither headers of OpenCL nor its loader to be
// compiled and linked.
TEST_F(OpenClModel, ALibraryRunsInAProgramOfItsOwn) {
  Compiled model = compiled(layers(2), TargetKind::OpenCl);
  Written written(model.plan, TargetKind::OpenCl);
  const std::string folder = written.folder.path();
  auto text = [](const HostArray& array) { return std::string(array.bytes.begin(), array.bytes.end()); };
  test::write_file(folder + "/x", text(model.inputs[0]));
  test::write_file(folder + "/y", text(model.expected[0]));
  test::write_file(folder + "/main.c", R"c(#include "net.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
static float x[8 * 32], y[8 * 32];
static void* work(void* found) {
  net_context* context = NULL;
  const void* inputs[] = {x};
  void* outputs[] = {found};
  if (net_create("net.weights", 1, &context)) return puts(net_problem()), found;
  for (int i = 0; i < 10; ++i) {
    if (net_run(context, inputs, outputs, NULL, NULL)) return puts(net_problem()), found;
  }
  net_destroy(context);
  return NULL;
}
int main(void) {
  static float found[2][8 * 32];
  pthread_t threads[2];
  FILE *in = fopen("x", "rb"), *out = fopen("y", "rb");
  if (!in || !out || fread(x, sizeof x, 1, in) != 1 || fread(y, sizeof y, 1, out) != 1) return puts("no data"), 1;
  for (int t = 0; t < 2; ++t) pthread_create(&threads[t], NULL, work, found[t]);
  for (int t = 0; t < 2; ++t) pthread_join(threads[t], NULL);
  for (int i = 0; i < 2 * 8 * 32; ++i) {
    if (!(fabsf(found[0][i] - y[i % (8 * 32)]) < 1e-5f)) return printf("%d: %g, expected %g\n", i, found[0][i], y[i % 256]), 1;
  }
  return puts("right"), 0;
}
)c");
  test::Finished compiled_own = test::run_program(
      {"cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-o", "main", "main.c", "libnet.a", "-ldl", "-lpthread", "-lm"},
      {.folder = folder});
  ASSERT_EQ(compiled_own.code, 0) << compiled_own.err;
  test::Finished ran = test::run_program({"./main"}, {.folder = folder});
  EXPECT_EQ(ran.out, "right\n") << ran.err;
  compiled_own = test::run_program(
      {"cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-c", "net.c"}, {.folder = folder});
  EXPECT_EQ(compiled_own.code, 0) << compiled_own.err;
}

class CudaModel : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  }
};

bool is_there(const EmulationVerdict& verdict) { return verdict.report.status != EmulationStatus::Unavailable; }

// What a kernel computes in the place of `from`, in its source.
void plant(ExportedTask& task, const std::string& from, const std::string& to) {
  std::size_t at = task.kernel.code.find(from);
  ASSERT_NE(at, std::string::npos) << task.kernel.code;
  task.kernel.code.replace(at, from.size(), to);
}

TEST_F(CudaModel, AWrongKernelIsFoundInTheEmulator) {
  Compiled model = compiled(convolutional(), TargetKind::Cuda);
  ASSERT_TRUE(model.plan.model);
  std::vector<EmulationVerdict> verdicts = emulate_kernels(model.plan, model.tasks, 2);
  if (!is_there(verdicts[0])) GTEST_SKIP() << verdicts[0].message;
  for (std::size_t i = 0; i < verdicts.size(); ++i)
    EXPECT_EQ(verdicts[i].kind, EmulationVerdict::Right) << model.plan.tasks[i].name << ": " << verdicts[i].message;
  auto softmax =
      std::ranges::find_if(model.plan.tasks, [](const ExportedTask& task) { return task.name == "softmax"; });
  ASSERT_NE(softmax, model.plan.tasks.end());
  plant(*softmax, "exp", "1.01f * exp");
  verdicts = emulate_kernels(model.plan, model.tasks, 2);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    bool is_planted = model.plan.tasks[i].name == "softmax";
    EXPECT_EQ(verdicts[i].kind, is_planted ? EmulationVerdict::Wrong : EmulationVerdict::Right) << verdicts[i].message;
    EXPECT_EQ(verdicts[i].message.starts_with("wrong result"), is_planted) << verdicts[i].message;
  }
}

TEST_F(CudaModel, KernelsOfRandomGraphsAreRightInTheEmulator) {
  test::Seeds seeds = test::seeds_from_environment(1);
  for (i64 seed = seeds.first; seed < seeds.end && !testing::Test::HasFailure(); ++seed) {
    Compiled model = compiled(test::random_graph(Rng(static_cast<u64>(seed))), TargetKind::Cuda);
    ASSERT_TRUE(model.plan.model) << "TW_SEED=" << seed;
    std::vector<EmulationVerdict> verdicts = emulate_kernels(model.plan, model.tasks, 2);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      if (!is_there(verdicts[i])) GTEST_SKIP() << verdicts[i].message;
      EXPECT_NE(verdicts[i].kind, EmulationVerdict::Wrong) << "TW_SEED=" << seed << ": " << verdicts[i].message << "\n"
                                                           << model.plan.tasks[i].kernel.code;
    }
  }
}

// The stub of the driver computes a product wherever a kernel is launched: what is tested is that the right bytes get
// to the right parameters and back.
TEST_F(CudaModel, ALibraryRunsOnADriver) {
  Builder b;
  ValueId x = b.builder.input("x", {DType::F32, {19, 13}}), w = b.builder.input("w", {DType::F32, {13, 24}});
  Compiled model = compiled(b.finish(b.add("matmul", {}, {x, w})), TargetKind::Cuda);
  ASSERT_TRUE(model.plan.model);
  ASSERT_EQ(model.plan.tasks[0].kernel.manifest.run_launches.size(), 1u);
  Written written(model.plan, TargetKind::Cuda);
  test::Finished strict =
      test::run_program({"cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-c", "net.c"},
                        {.folder = written.folder.path()});
  EXPECT_EQ(strict.code, 0) << strict.err;
  if (!test::has_cuda_driver()) {
    std::string why = written.run(model.inputs).error;
    EXPECT_NE(why.find("there is no such device, or no driver for it: there is no CUDA driver"), std::string::npos)
        << why;
  }
  std::string stub = TW_BINARY_DIR "/tests/cuda_stub";
  std::vector<std::string> words{"run", "."};
  for (std::size_t i = 0; i < 2; ++i) {
    std::string name = model.plan.model->inputs[i].name;
    test::write_file(written.folder.path() + "/" + name + ".npy", *npy_bytes(model.inputs[i]));
    words.insert(words.end(), {"--input", name + "=" + name + ".npy"});
  }
  words.insert(words.end(), {"--output", "y.npy"});
  auto run_with = [&](const std::string& fault) {
    return test::tracewright(words, {.folder = written.folder.path(),
                                     .environment = {"LD_LIBRARY_PATH=" + stub, "TW_STUB_GEMM=19,24,13", fault}});
  };
  test::Finished ran = run_with("TW_STUB_UNUSED=1");
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::string error;
  std::optional<HostArray> found = read_npy(written.folder.path() + "/y.npy", error);
  ASSERT_TRUE(found) << error;
  EXPECT_FALSE(is_wrong(model.expected, {*found}));
  for (const auto& [fault, why] : {std::pair("init", "the CUDA driver does not start"),
                                   std::pair("memory", "memory of the device: the driver answers 2"),
                                   std::pair("illegal", "the driver answers 700")}) {
    ran = run_with(cat("TW_STUB_FAULT=", fault));
    EXPECT_EQ(ran.code, 3) << fault;
    EXPECT_NE(ran.err.find(why), std::string::npos) << ran.err;
  }
}

}  // namespace
}  // namespace tw
