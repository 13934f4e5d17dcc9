// Libraries of whole models as programs call them that have their tensors on the device: runs in a stream of the
// caller's, as one CUDA graph, and the times that a library takes of itself. CUDA: on a driver that runs nothing
// (tests/cuda_stub) and counts what it is asked for. OpenCL: on a device, if there is one.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "dsl/base/text.h"
#include "support/device_models.h"
#include "support/nvrtc.h"
#include "support/opencl_device.h"
#include "support/run_program.h"

namespace tw {
namespace {

using graph::ValueId;
using test::Compiled;
using test::DeviceGraphKit;
using test::Finished;

// Two products, and outputs that are inputs, of which one is large.
Compiled products() {
  DeviceGraphKit kit;
  auto matrix = [&](const char* name) { return kit.builder.input(name, {DType::F32, {32, 32}}); };
  ValueId x = matrix("x"), w = matrix("w"), v = matrix("v");
  kit.builder.output(kit.add("matmul", {}, {kit.add("matmul", {}, {x, w}), v}), "y");
  kit.builder.output(x, "same");
  kit.builder.output(kit.builder.input("large", {DType::F32, {513, 1024}}), "large_too");
  return test::compiled(kit.builder.finish(), TargetKind::Cuda);
}

// Does what its arguments say. The stub's device memory is the host's. Behind the large tensors nothing may be touched.
constexpr const char* kCudaProgram = R"c(#include "net.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int cuMemAlloc_v2(unsigned long long*, size_t);
int cuCtxSetCurrent(void*);
int cuCtxGetCurrent(void**);
int cuStreamBeginCapture_v2(void*, int);
int cuStreamEndCapture(void*, void**);
int cuGraphInstantiateWithFlags(void**, void*, unsigned long long);
int cuGraphLaunch(void*, void*);
enum { N = 32, BYTES = N * N * sizeof(float), LARGE = 513 * 1024, GUARD = 65536 };
typedef struct { float *in[4], *out[3]; } set;
static float* large(void) {
  char* memory = mmap(NULL, LARGE * sizeof(float) + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(memory + LARGE * sizeof(float), GUARD, PROT_NONE);
  return (float*)memory;
}
static float* on_device(void) {
  unsigned long long memory = 0;
  if (cuMemAlloc_v2(&memory, BYTES + TW_ALIGNMENT)) exit(9);
  return (float*)(size_t)((memory + TW_ALIGNMENT - 1) / TW_ALIGNMENT * TW_ALIGNMENT);
}
static void fill(set* s, int seed) {
  srand((unsigned)seed);
  for (int i = 0; i < 3; ++i) for (int e = 0; e < N * N; ++e) s->in[i][e] = (float)(rand() % 7 - 3);
  for (int i = 0; i < 2; ++i) memset(s->out[i], 0xff, BYTES);
  for (int e = 0; e < LARGE; ++e) s->in[3][e] = (float)(rand() % 1000), s->out[2][e] = -1;
}
static void multiply(const float* a, const float* b, float* c) {
  for (int i = 0; i < N; ++i) for (int j = 0; j < N; ++j) {
    c[i * N + j] = 0;
    for (int k = 0; k < N; ++k) c[i * N + j] += a[i * N + k] * b[k * N + j];
  }
}
static const char* verdict(const set* s) {
  static float first[N * N], y[N * N];
  multiply(s->in[0], s->in[1], first), multiply(first, s->in[2], y);
  for (int e = 0; e < N * N; ++e) if (!(fabsf(s->out[0][e] - y[e]) <= 1e-4f * fabsf(y[e]))) return "wrong";
  if (memcmp(s->out[2], s->in[3], LARGE * sizeof(float))) return "wrong large copy";
  return memcmp(s->out[1], s->in[0], BYTES) ? "wrong copy" : "right";
}
int main(int count, char** words) {
  net_context* context = NULL;
  set sets[2];
  int other = 0;
  void* found = NULL;
  for (int s = 0; s < 2; ++s) {
    for (int i = 0; i < 3; ++i) sets[s].in[i] = on_device();
    for (int i = 0; i < 2; ++i) sets[s].out[i] = on_device();
    sets[s].in[3] = large(), sets[s].out[2] = large();
  }
  cuCtxSetCurrent(&other); /* the caller's own */
  if (net_create("net.weights", 1, &context)) return puts(net_problem()), 1;
  for (int w = 1; w < count; ++w) {
    const char* word = words[w];
    set* s = &sets[word[strlen(word) - 1] == '1'];
    const void* const* in = (const void* const*)s->in;
    void* const* out = (void* const*)s->out;
    double seconds[net_STEPS] = {0}, once = -1;
    int code = 0;
    fill(s, w);
    if (!strncmp(word, "device", 6)) {
      code = net_run_on_device(context, in, out, &other);
      printf("%s: %s\n", word, code ? net_problem() : verdict(s));
    } else if (!strcmp(word, "host")) {
      code = net_run(context, in, out, NULL, NULL);
      printf("%s: %s\n", word, code ? net_problem() : verdict(s));
    } else if (!strcmp(word, "misaligned")) {
      void* bad[] = {s->out[0] + 1, s->out[1], s->out[2]};
      code = net_run_on_device(context, in, bad, &other);
      printf("%d %s\n", code == net_MISALIGNED, net_problem());
    } else if (!strcmp(word, "null")) {
      const void* bad[] = {s->in[0], NULL, s->in[2], s->in[3]};
      code = net_run_on_device(context, bad, out, &other);
      printf("%d %s\n", code == net_MISALIGNED, net_problem());
    } else if (!strcmp(word, "captured")) {
      void *graph, *executable;
      cuStreamBeginCapture_v2(&other, 0);
      code = net_run_on_device(context, in, out, &other);
      cuStreamEndCapture(&other, &graph);
      memset(s->out[0], 0xff, BYTES);
      cuGraphInstantiateWithFlags(&executable, graph, 0);
      cuGraphLaunch(executable, &other);
      printf("captured: %s\n", code ? net_problem() : verdict(s));
    } else if (!strcmp(word, "steps")) {
      code = net_time_steps(context, seconds);
      printf("%d steps, %s\n", net_STEPS, code ? net_problem() : seconds[0] > 0 && seconds[1] > 0 ? "timed" : "no times");
    } else if (!strcmp(word, "time")) {
      code = net_time_run(context, 3, &once);
      printf("%s\n", code ? net_problem() : once > 0 ? "timed" : "no time");
    } else {
      net_use_graph(context, !strcmp(word, "graph"));
    }
  }
  cuCtxGetCurrent(&found);
  printf("graph %d, %s\n", net_has_graph(context), found == &other ? "the caller's context" : "another context");
  net_destroy(context);
  return 0;
}
)c";

class CudaCalls : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!test::missing_for_nvrtc().empty()) return;
    Compiled model = products();
    for (const ExportedTask& task : model.plan.tasks) ASSERT_EQ(task.kernel.manifest.run_launches.size(), 1u);
    written_ = std::make_unique<test::Written>(model.plan, TargetKind::Cuda);
    test::write_file(written_->folder.path() + "/main.c", kCudaProgram);
    Finished compiled =
        test::run_program({"cc", "-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-o", "main", "main.c",
                           "libnet.a", stub("cuda_stub") + "/libcuda.so.1", "-ldl", "-lpthread", "-lm"},
                          {.folder = written_->folder.path()});
    ASSERT_EQ(compiled.code, 0) << compiled.err;
  }
  static void TearDownTestSuite() { written_.reset(); }
  void SetUp() override {
    if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
    for (const char* file : {"/calls", "/copied"}) std::filesystem::remove(written_->folder.path() + file);
  }

  static std::string stub(const std::string& name) { return TW_BINARY_DIR "/tests/" + name; }
  std::string run(const std::string& actions, const std::string& fault = "", const std::string& driver = "cuda_stub") {
    std::vector<std::string> words = split(cat("./main ", actions), ' ');
    std::vector<std::string> environment{"LD_LIBRARY_PATH=" + stub(driver), "TW_STUB_GEMM=32,32,32",
                                         "TW_STUB_CALLS=calls", "TW_STUB_COPIED=copied"};
    if (!fault.empty()) environment.push_back("TW_STUB_FAULT=" + fault);
    Finished finished = test::run_program(words, {.folder = written_->folder.path(), .environment = environment});
    EXPECT_EQ(finished.code, 0) << finished.out << finished.err;
    return finished.out;
  }
  bool is_there(const std::string& name) const { return std::filesystem::exists(written_->folder.path() + "/" + name); }
  std::string text(const std::string& name) const { return test::read_file(written_->folder.path() + "/" + name); }

  static inline std::unique_ptr<test::Written> written_;
};

TEST_F(CudaCalls, RunOnTheDevicesTensorsAsOneGraph) {
  EXPECT_EQ(run("device0 device0 device1"),
            "device0: right\ndevice0: right\ndevice1: right\ngraph 1, the caller's context\n");
  EXPECT_EQ(text("calls"), "launched 0 graphs 3 changed 4 waited 1") << "waited once, when it was created";
  EXPECT_FALSE(is_there("copied")) << "bytes went to the host or came from it: " << text("copied");
}

TEST_F(CudaCalls, RunsOnTheHostsTensorsStandBetween) {
  EXPECT_EQ(run("host device0 host device1"),
            "host: right\ndevice0: right\nhost: right\ndevice1: right\ngraph 1, the caller's context\n");
  EXPECT_EQ(text("calls").substr(0, 19), "launched 0 graphs 4");
}

TEST_F(CudaCalls, GraphsCanBeSwitchedOff) {
  EXPECT_EQ(run("device0 none device1 graph device0"),
            "device0: right\ndevice1: right\ndevice0: right\ngraph 1, the caller's context\n");
  EXPECT_EQ(text("calls").substr(0, 19), "launched 2 graphs 2");
}

TEST_F(CudaCalls, WithoutGraphsKernelsAreLaunchedOneByOne) {
  for (const char* fault : {"node", "instantiate", "graph", "change"}) {
    EXPECT_EQ(run("device0 device1 host steps time", fault),
              "device0: right\ndevice1: right\nhost: right\n2 steps, timed\ntimed\ngraph 0, the caller's context\n")
        << fault;
    EXPECT_NE(text("calls").find("graphs 0 changed"), std::string::npos) << fault << ": " << text("calls");
  }
  EXPECT_EQ(run("device0 device1 host steps", "", "cuda_stub_old"),
            "device0: right\ndevice1: right\nhost: right\n2 steps, timed\ngraph 0, the caller's context\n");
}

TEST_F(CudaCalls, TensorsThatAreNoneAreRefused) {
  EXPECT_EQ(run("misaligned null device0"),
            "1 output 0 is not aligned to TW_ALIGNMENT bytes\n1 input 1 is NULL\ndevice0: right\ngraph 1, the caller's "
            "context\n");
}

TEST_F(CudaCalls, CallersMayCaptureARun) {
  EXPECT_EQ(run("device0 captured device1"),
            "device0: right\ncaptured: right\ndevice1: right\ngraph 1, the caller's context\n");
  EXPECT_EQ(text("calls").substr(0, 19), "launched 2 graphs 3") << "of which one is the caller's";
}

TEST_F(CudaCalls, StepsAreTimedInAGraph) {
  EXPECT_EQ(run("host steps time"), "host: right\n2 steps, timed\ntimed\ngraph 1, the caller's context\n");
  EXPECT_EQ(text("calls").substr(0, 19), "launched 0 graphs 5");
}

TEST_F(CudaCalls, WhatFailsIsSaid) {
  std::string said = run("device0 host steps time", "illegal");
  EXPECT_NE(said.find("device0: the kernel of "), std::string::npos) << said;
  EXPECT_NE(said.find("timing the steps: the driver answers 700"), std::string::npos) << said;
  EXPECT_NE(said.find("timing a call: the driver answers 700"), std::string::npos) << said;
}

// Equal layers with packed weights, and outputs that no kernel makes.
Compiled layers() {
  DeviceGraphKit kit;
  ValueId x = kit.input({8, 32}), first = x;
  for (int i = 0; i < 2; ++i) x = kit.add("hyperbolic_tangent", {}, {kit.add("matmul", {}, {x, kit.random({32, 32})})});
  kit.builder.output(x, "y");
  kit.builder.output(first, "same");
  kit.builder.output(kit.random({8, 32}), "constant");
  kit.builder.output(x, "again");
  return test::compiled(kit.builder.finish(), TargetKind::OpenCl);
}

// Its tensors are in two sets of buffers of its own context. Reads `x`, and what must come of it from `expected`.
constexpr const char* kOpenClProgram = R"c(#include "net.h"
#include <CL/cl.h>
#include <math.h>
#include <stdio.h>
enum { COUNT = 8 * 32, BYTES = COUNT * sizeof(float), OUTPUTS = 4 };
static float x[COUNT], expected[OUTPUTS][COUNT], found[COUNT];
int main(void) {
  FILE *in = fopen("x", "rb"), *out = fopen("expected", "rb");
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  net_context* context = NULL;
  double seconds[net_STEPS], once = 0;
  if (!in || !out || fread(x, BYTES, 1, in) != 1 || fread(expected, BYTES, OUTPUTS, out) != OUTPUTS) return puts("no data"), 1;
  clGetPlatformIDs(1, &platform, NULL);
  clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
  cl_context own = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  cl_command_queue queue = clCreateCommandQueue(own, device, 0, &error);
  if (net_create_in("net.weights", own, device, &context)) return puts(net_problem()), 1;
  for (int set = 0; set < 2; ++set) {
    cl_mem input = clCreateBuffer(own, CL_MEM_READ_WRITE, BYTES, NULL, &error), outputs[OUTPUTS];
    for (int o = 0; o < OUTPUTS; ++o) outputs[o] = clCreateBuffer(own, CL_MEM_READ_WRITE, BYTES, NULL, &error);
    clEnqueueWriteBuffer(queue, input, CL_FALSE, 0, BYTES, x, 0, NULL, NULL);
    const void* inputs[] = {input};
    for (int round = 0; round < 2; ++round) {
      if (net_run_on_device(context, inputs, (void* const*)outputs, queue)) return puts(net_problem()), 1;
    }
    for (int o = 0; o < OUTPUTS; ++o) {
      clEnqueueReadBuffer(queue, outputs[o], CL_TRUE, 0, BYTES, found, 0, NULL, NULL);
      for (int i = 0; i < COUNT; ++i) {
        if (!(fabsf(found[i] - expected[o][i]) < 1e-5f)) return printf("set %d output %d: %g, expected %g\n", set, o, found[i], expected[o][i]), 1;
      }
      clReleaseMemObject(outputs[o]);
    }
    clReleaseMemObject(input);
  }
  const void* host_in[] = {x};
  void* host_out[] = {found, expected[1], expected[2], expected[3]};
  if (net_run(context, host_in, host_out, NULL, NULL)) return puts(net_problem()), 1;
  for (int i = 0; i < COUNT; ++i) if (!(fabsf(found[i] - expected[0][i]) < 1e-5f)) return puts("wrong on the host"), 1;
  if (net_time_steps(context, seconds) || net_time_run(context, 3, &once)) return puts(net_problem()), 1;
  for (int i = 0; i < net_STEPS; ++i) if (!(seconds[i] > 0)) return printf("step %d: %g s\n", i, seconds[i]), 1;
  if (!(once > 0)) return puts("no time"), 1;
  const void* none[] = {NULL};
  if (net_run_on_device(context, none, host_out, queue) != net_MISALIGNED) return puts("NULL is taken"), 1;
  printf("right, graph %d\n", net_has_graph(context));
  net_destroy(context);
  clReleaseCommandQueue(queue);
  clReleaseContext(own);
  return 0;
}
)c";

class OpenClCalls : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  }
};

TEST_F(OpenClCalls, RunOnTheDevicesTensors) {
  Compiled model = layers();
  test::Written written(model.plan, TargetKind::OpenCl);
  std::string folder = written.folder.path(), expected;
  auto text = [](const HostArray& array) { return std::string(array.bytes.begin(), array.bytes.end()); };
  for (const HostArray& array : model.expected) expected += text(array);
  test::write_file(folder + "/x", text(model.inputs[0]));
  test::write_file(folder + "/expected", expected);
  test::write_file(folder + "/main.c", kOpenClProgram);
  Finished compiled = test::run_program({"cc", "-std=c99", "-DCL_TARGET_OPENCL_VERSION=120", "-Wall", "-Wextra",
                                         "-Werror", "-Wno-deprecated-declarations", "-o", "main", "main.c", "libnet.a",
                                         "-l:libOpenCL.so.1", "-ldl", "-lpthread", "-lm"},
                                        {.folder = folder});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  Finished ran = test::run_program({"./main"}, {.folder = folder});
  EXPECT_EQ(ran.out, "right, graph 0\n") << ran.err;
}

// Steps by the device's clock, and the whole by the host's.
TEST_F(OpenClCalls, StepsAndRunsAreTimed) {
  Compiled model = layers();
  test::Written written(model.plan, TargetKind::OpenCl);
  std::string error;
  std::optional<ModelLibrary> library = open_model(written.folder.path(), error);
  ASSERT_TRUE(library) << error;
  std::vector<double> steps = time_steps(*library, model.inputs, 1, 0.05, error);
  ASSERT_EQ(steps.size(), library->steps.size()) << error;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_GT(steps[i], 0);
    EXPECT_GT(library->steps[i].flops, 0);
  }
  ModelRun run = run_model(*library, model.inputs, 1, 0.1);
  ASSERT_TRUE(run.on_device) << run.error;
  EXPECT_FALSE(test::is_wrong(model.expected, run.outputs));
  EXPECT_FALSE(run.on_device->has_graph);
  EXPECT_GT(run.on_device->whole, 0);
  EXPECT_LE(std::accumulate(steps.begin(), steps.end(), 0.0), 3 * run.on_device->whole);
  EXPECT_FALSE(run_model(*library, model.inputs, 1).on_device) << "nobody asked for times";
}

}  // namespace
}  // namespace tw
