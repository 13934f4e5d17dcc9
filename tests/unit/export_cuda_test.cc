// An exported CUDA library: machine code, manifest, and a C program of its own that calls the launcher. The program is
// linked with the stub of the driver (tests/cuda_stub), which runs no machine code: what is tested is that the right
// pointers get to the right launches.
#include <gtest/gtest.h>

#include <filesystem>

#include "dsl/base/text.h"
#include "runtime/export/export_device.h"
#include "sampler/search/trial.h"
#include "support/device_schedules.h"
#include "support/nvrtc.h"
#include "support/run_program.h"
#include "support/scheduled.h"
#include "support/support.h"

namespace tw {
namespace {

const std::string kProgram = std::string("#include \"lib.h\"\n") + R"c(
#include <stdio.h>
enum { M = 19, N = 24, K = 13 };
static float a[M * K], b[K * N], c[M * N];
int main(void) {
  CUcontext context; CUresult error; CUdeviceptr da, db, dc;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return puts("no device"), 1;
  for (int i = 0; i < M * K; ++i) a[i] = (float)(i % 7 - 3);
  for (int i = 0; i < K * N; ++i) b[i] = (float)(i % 5 - 2);
  if (cuMemAlloc(&da, sizeof a) || cuMemAlloc(&db, sizeof b) || cuMemAlloc(&dc, sizeof c)) return puts("memory"), 1;
  if (cuMemcpyHtoD(da, a, sizeof a) || cuMemcpyHtoD(db, b, sizeof b)) return puts("copy"), 1;
  lib_mm* kernel = lib_mm_create(&error);
  if (!kernel) return printf("create: %d\n", (int)error), 1;
  if (lib_mm_run(kernel, NULL, da, db, dc) || cuStreamSynchronize(NULL)) return puts("launch"), 1;
  if (cuMemcpyDtoH(c, dc, sizeof c)) return puts("copy back"), 1;
  for (int i = 0; i < M; ++i) for (int j = 0; j < N; ++j) {
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
    if (sum != c[i * N + j]) return printf("C[%d, %d] is %g, expected %g\n", i, j, c[i * N + j], sum), 1;
  }
  lib_mm_free(kernel);
  return puts("right"), 0;
}
)c";

TEST(ExportCuda, ALibraryHasMachineCodeAndALauncherThatCompiles) {
  std::string error;
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  Target target;
  target.kind = TargetKind::Cuda;
  target.arch = "sm_80";
  test::Scheduled scheduled("matmul(M = 19, N = 24, K = 13)", {},
                            test::gpu_gemm_schedule({.ty = 2, .tx = 3, .rows = 2, .columns = 4, .depth = 4}));
  Arena arena;
  Result<LoweredGpuProgram> lowered =
      lower_gpu(arena, scheduled.program(), lowering_options(target), gpu_limits(target));
  ASSERT_TRUE(lowered);
  Result<Kernel> kernel = device_source(*lowered, target, kernel_symbol("lib", "mm"));
  ASSERT_TRUE(kernel);
  ExportedTask task{.name = "mm", .doc = "a product", .kernel = *kernel, .target = target, .trace_file = "none\n"};
  test::TemporaryDirectory folder;
  ExportResult exported = write_device_export({"lib", {task}}, folder.path());
  EXPECT_EQ(exported.error + exported.note, "");
  for (const char* name :
       {"lib.h", "lib.c", "tw_cuda_launcher.h", "manifest.json", "sources/mm.cu", "cubins/mm.cubin", "traces/mm.tw"})
    EXPECT_TRUE(std::filesystem::exists(folder.path() + "/" + name)) << name;
#ifdef TW_CUDA_INCLUDE
  test::write_file(folder.path() + "/main.c", kProgram);
  std::string stub = TW_BINARY_DIR "/tests/cuda_stub";
  test::Finished compiled =
      test::run_program({"cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-isystem",
                         TW_CUDA_INCLUDE, "-o", "main", "main.c", "lib.c", stub + "/libcuda.so.1"},
                        {.folder = folder.path()});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  test::Finished ran = test::run_program(
      {"./main"}, {.folder = folder.path(), .environment = {"LD_LIBRARY_PATH=" + stub, "TW_STUB_GEMM=19,24,13"}});
  EXPECT_EQ(ran.out, "right\n") << ran.err;
  // The launcher gives shared memory as the manifest says.
  task.kernel.manifest.run_launches[0].dynamic_shared_bytes = 96 << 10;
  exported = write_device_export({"lib", {task}}, folder.path());
  EXPECT_EQ(exported.error + exported.note, "");
  compiled = test::run_program({"cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-isystem",
                                TW_CUDA_INCLUDE, "-o", "main", "main.c", "lib.c", stub + "/libcuda.so.1"},
                               {.folder = folder.path()});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  for (const auto& [wanted, out] : {std::pair("98304", "right\n"), std::pair("0", "launch\n")}) {
    ran = test::run_program({"./main"}, {.folder = folder.path(),
                                         .environment = {"LD_LIBRARY_PATH=" + stub, "TW_STUB_GEMM=19,24,13",
                                                         cat("TW_STUB_SHARED=", wanted)}});
    EXPECT_EQ(ran.out, out);
  }
#else
  GTEST_SKIP() << "cuda.h was not found when this was built";
#endif
}

}  // namespace
}  // namespace tw
