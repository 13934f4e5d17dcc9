// An exported OpenCL kernel in a C program of its own: compiled with the C compiler and run on a real device. Skipped
// where there is none.
#include <gtest/gtest.h>

#include "runtime/export_device.h"
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
int main(void) {
  cl_platform_id platform; cl_device_id device; cl_int error;
  if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) return puts("no device"), 0;
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
  for (int i = 0; i < M * K; ++i) x[i] = (float)(i % 7 - 3);
  for (int i = 0; i < K * N; ++i) w[i] = (float)(i % 5 - 2);
  cl_mem bx = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof x, x, &error);
  cl_mem bw = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof w, w, &error);
  cl_mem by = clCreateBuffer(context, CL_MEM_WRITE_ONLY, sizeof y, NULL, &error);
  lib_mm* kernel = lib_mm_create(context, device, &error);
  if (!kernel) return printf("create: %d\n", error), 1;
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
           const std::string& without = "") {
    Target target;
    target.kind = TargetKind::OpenCl;
    test::Scheduled scheduled(use, {}, schedule);
    Arena arena;
    Result<LoweredGpuProgram> lowered =
        lower_gpu(arena, scheduled.program(), lowering_options(target), gpu_limits(target));
    EXPECT_TRUE(lowered);
    ExportedTask task{.name = "mm", .doc = "a product", .target = target, .trace_file = "none\n"};
    Result<Kernel> kernel = device_source(*lowered, target, kernel_symbol("lib", "mm"));
    EXPECT_TRUE(kernel);
    task.kernel = *kernel;
    for (std::size_t at; !without.empty() && (at = task.kernel.code.find(without)) != std::string::npos;)
      task.kernel.code.erase(at, without.size());
    EXPECT_EQ(write_device_export({"lib", {task}}, folder_.path()).error, "");
    test::write_file(folder_.path() + "/main.c", program);
    test::Finished compiled = run({"cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-o",
                                   "main", "main.c", "lib.c", "-l:libOpenCL.so.1"});
    problem = compiled.code == 0 ? "" : compiled.err;
  }
  test::Finished run(const std::vector<std::string>& words) {
    return test::run_program(words, {.folder = folder_.path(), .environment = {"POCL_CACHE_DIR=" + cache_.path()}});
  }
  std::string problem;  // of the C compiler or linker

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
