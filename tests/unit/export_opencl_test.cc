// An exported OpenCL kernel in a C program of its own: compiled with the C compiler and run on a real device. Skipped
// where there is none. How it is compiled for other devices: with a stub (tests/opencl_stub) that says what it is
// asked.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "backends/opencl/binary_tag.h"
#include "runtime/export/export_device.h"
#include "runtime/measure/measurer.h"
#include "sampler/search/trial.h"
#include "support/device_schedules.h"
#include "support/opencl_device.h"
#include "support/run_program.h"
#include "support/scheduled.h"
#include "support/support.h"

namespace tw {
namespace {

const std::string kProgram = std::string("#include \"lib.h\"\n") + R"c(
#include <stdio.h>
enum { M = 19, N = 24, K = 13 };
static float x[M * K], w[K * N], y[M * N];
static unsigned char bytes[1 << 22];
int main(int count, char** words) {
  cl_platform_id platform; cl_device_id device; cl_int error;
  if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) return puts("no device"), 0;
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
  for (int i = 0; i < M * K; ++i) x[i] = (float)(i % 7 - 3);
  for (int i = 0; i < K * N; ++i) w[i] = (float)(i % 5 - 2);
  cl_mem bx = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof x, x, &error);
  cl_mem bw = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof w, w, &error);
  cl_mem by = clCreateBuffer(context, CL_MEM_WRITE_ONLY, sizeof y, NULL, &error);
  FILE* binary = count > 1 ? fopen(words[1], "rb") : NULL;
  lib_mm* kernel = binary ? lib_mm_create_from_binary(context, device, bytes, fread(bytes, 1, sizeof bytes, binary), &error) : lib_mm_create(context, device, &error);
  if (!kernel) return printf("create: %d\n", error), 1;
  if (binary) printf("from %s, ", lib_mm_is_from_binary(kernel) ? "binary" : "source");
  if (lib_mm_prepack(kernel, queue, bw) || lib_mm_run(kernel, queue, bx, by)) return puts("launch"), 1;
  clEnqueueReadBuffer(queue, by, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL);
  for (int i = 0; i < M; ++i) for (int j = 0; j < N; ++j) {
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += x[i * K + k] * w[k * N + j];
    if (sum != y[i * N + j]) return printf("Y[%d, %d] is %g, expected %g\n", i, j, y[i * N + j], sum), 1;
  }
  lib_mm_free(kernel);
  return puts("right"), 0;
}
)c";

// A library with one kernel and a program that calls it, compiled in a folder of its own.
class Exported {
 public:
  Exported(const std::string& use, const std::string& schedule, const std::string& program,
           const std::string& without = "", const std::string& loader_folder = "") {
    Target target;
    target.kind = TargetKind::OpenCl;
    test::Scheduled scheduled(use, {}, schedule);
    Arena arena;
    Result<LoweredGpuProgram> lowered =
        lower_gpu(arena, scheduled.program(), lowering_options(target), gpu_limits(target));
    EXPECT_TRUE(lowered);
    ExportedTask task{.name = "mm", .doc = "a product", .target = target, .trace_file = "none\n"};
    Result<Kernel> source = device_source(*lowered, target, kernel_symbol("lib", "mm"));
    EXPECT_TRUE(source);
    task.kernel = *source;
    for (std::size_t at; !without.empty() && (at = task.kernel.code.find(without)) != std::string::npos;)
      task.kernel.code.erase(at, without.size());
    EXPECT_EQ(write_device_export({"lib", {task}}, folder_.path()).error, "");
    test::write_file(folder_.path() + "/main.c", program);
    std::vector<std::string> words = {"cc", "-std=c99", "-Wall",  "-Wextra", "-Werror",          "-Wno-unused-function",
                                      "-o", "main",     "main.c", "lib.c",   "-l:libOpenCL.so.1"};
    if (!loader_folder.empty()) words.push_back("-L" + loader_folder);
    test::Finished compiled = run(words);
    problem = compiled.code == 0 ? "" : compiled.err;
    kernel = task.kernel;
  }
  test::Finished run(const std::vector<std::string>& words, std::vector<std::string> environment = {}) {
    environment.push_back("POCL_CACHE_DIR=" + cache_.path());
    return test::run_program(words, {.folder = folder_.path(), .environment = environment});
  }
  // What the program says that is given a file with these bytes.
  std::string run_with(const std::string& bytes, const std::vector<std::string>& environment = {}) {
    test::write_file(folder_.path() + "/mm.bin", bytes);
    test::Finished ran = run({"./main", "mm.bin"}, environment);
    return ran.out + ran.err;
  }
  std::string problem;  // of the C compiler or linker
  Kernel kernel;

 private:
  test::TemporaryDirectory folder_, cache_;
};

TEST(ExportOpenCl, ALibraryRunsInAProgramOfItsOwn) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  Exported library("dense(M = 19, N = 24, K = 13)", test::dense_schedule({.rows = 4, .columns = 8, .unroll = 2}),
                   kProgram);
  ASSERT_EQ(library.problem, "");
  test::Finished ran = library.run({"./main"});
  EXPECT_EQ(ran.out, "right\n") << ran.err;
}

// A driver is not asked about bytes that are not its own: PoCL may crash on them.
TEST(ExportOpenCl, ABinaryIsTakenIfItIsWholeAndOfThisSource) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  Exported library("dense(M = 19, N = 24, K = 13)", test::dense_schedule({.rows = 4, .columns = 8, .unroll = 2}),
                   kProgram);
  ASSERT_EQ(library.problem, "");
  Target target;
  target.kind = TargetKind::OpenCl;
  DeviceBinary made = make_device_binary(worker_options(target), library.kernel.code);
  ASSERT_EQ(made.error, "");
  EXPECT_NE(made.device, "");
  EXPECT_NE(made.driver, "");
  EXPECT_EQ(library.run_with(made.bytes), "from binary, right\n");
  std::string damaged = made.bytes;
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_EQ(library.run_with(damaged), "from source, right\n");
  EXPECT_EQ(library.run_with(made.bytes.substr(0, made.bytes.size() / 2)), "from source, right\n");
  EXPECT_EQ(library.run_with(""), "from source, right\n");
  DeviceBinary other = make_device_binary(worker_options(target), library.kernel.code + " ");
  EXPECT_EQ(library.run_with(other.bytes), "from source, right\n");
  EXPECT_NE(make_device_binary(worker_options(target), "no kernel").error.find("does not compile"), std::string::npos);
}

TEST(ExportOpenCl, TheSourceIsCompiledWhereTheDriverRefusesABinary) {
  const std::string stub = TW_BINARY_DIR "/tests/opencl_stub";
  if (!std::filesystem::exists(stub + "/libOpenCL.so.1")) GTEST_SKIP() << "built without OpenCL's headers";
  Exported library("dense(M = 19, N = 24, K = 13)", test::dense_schedule({.rows = 4, .columns = 8, .unroll = 2}),
                   kProgram, "", stub);
  ASSERT_EQ(library.problem, "");
  const char* const texts[] = {library.kernel.code.c_str(), "stub", "stub", "stub"};
  const std::string bytes = "of the driver";
  char tag[TW_CL_TAG_BYTES + 1];
  tw_cl_binary_tag(texts, bytes.data(), bytes.size(), tag);
  std::string said = library.run_with(tag + bytes, {"LD_LIBRARY_PATH=" + stub});
  EXPECT_EQ(said, "create: -11\nbinary refused\noptions [-cl-std=CL1.2]\n");
}

// The worker and an exported host ask the compiler for the same language, whatever the device has: what runs is what
// was measured.
TEST(ExportOpenCl, KernelsAreCompiledAsTheyWereMeasured) {
  const std::string stub = TW_BINARY_DIR "/tests/opencl_stub";
  if (!std::filesystem::exists(stub + "/libOpenCL.so.1")) GTEST_SKIP() << "built without OpenCL's headers";
  const char* use = "dense(M = 19, N = 24, K = 13)";
  Exported library(use, test::dense_schedule({.rows = 4, .columns = 8, .unroll = 2}), kProgram, "", stub);
  ASSERT_EQ(library.problem, "");
  Target target;
  target.kind = TargetKind::OpenCl;
  test::Scheduled plain(use, {}, "");
  Result<LlvmCompiler> compiler = LlvmCompiler::create({});
  BuiltKernel reference = build_reference(plain.program(), target, *compiler);
  struct Row {
    const char *version, *extensions, *option;
  };
  for (const Row& row : {Row{"OpenCL C 1.2 stub", "cl_khr_subgroups", "[-cl-std=CL1.2]"},
                         Row{"OpenCL C 2.0 stub", "cl_khr_fp64", "[-cl-std=CL1.2]"},
                         Row{"OpenCL C 2.0 stub", "cl_khr_fp64 cl_khr_subgroups", "[-cl-std=CL2.0]"},
                         Row{"OpenCL C 3.0 stub", "cl_khr_subgroups cl_khr_fp64", "[-cl-std=CL3.0]"}}) {
    std::vector<std::string> environment = {"LD_LIBRARY_PATH=" + stub, cat("TW_STUB_CL_VERSION=", row.version),
                                            cat("TW_STUB_CL_EXTENSIONS=", row.extensions)};
    test::Finished exported = library.run({"./main"}, environment);
    EXPECT_EQ(exported.out, "create: -11\n");
    EXPECT_NE(exported.err.find(row.option), std::string::npos) << exported.err;
    for (std::string& variable : environment) putenv(variable.data());
    WorkerStart worker = start_worker(worker_options(target));
    for (const char* name : {"LD_LIBRARY_PATH", "TW_STUB_CL_VERSION", "TW_STUB_CL_EXTENSIONS"}) unsetenv(name);
    ASSERT_TRUE(worker.measurer) << worker.error;
    TaskStart task = worker.measurer->begin_task(*reference.kernel, tolerance_of(plain.program()), 1);
    ASSERT_GE(task.task, 0) << task.error;
    MeasureResult measured = worker.measurer->measure(task.task, library.kernel, {});
    EXPECT_NE(measured.message.find(row.option), std::string::npos) << measured.message;
  }
}

// Oclgrind runs kernels one work-item at a time and watches every access. Small shapes: it is slow.
TEST(ExportOpenCl, OclgrindFindsNoRaceAndFindsThatOfAMissingBarrier) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  std::string program = kProgram;
  program.replace(program.find("lib_mm_prepack(kernel, queue, bw) || lib_mm_run(kernel, queue, bx, by)"), 70,
                  "lib_mm_run(kernel, queue, bx, bw, by)");
  const char* use = "matmul(M = 19, N = 24, K = 13)";
  std::string schedule = test::gpu_gemm_schedule({.ty = 2, .tx = 3, .rows = 2, .columns = 4, .depth = 4});
  Exported library(use, schedule, program);
  ASSERT_EQ(library.problem, "");
  test::Finished ran = library.run({"oclgrind", "--data-races", "./main"});
  if (ran.code == 127) GTEST_SKIP() << "oclgrind is not installed";
  EXPECT_EQ(ran.out, "right\n");
  EXPECT_EQ(ran.err, "");
  Exported racing(use, schedule, program, "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);");
  EXPECT_NE(racing.run({"oclgrind", "--data-races", "./main"}).err.find("race"), std::string::npos);
}

}  // namespace
}  // namespace tw
