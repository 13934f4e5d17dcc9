// What measuring takes of memory is known before anything starts, and what there is not is refused in words.
#include "sampler/search/task_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dsl/base/sanitizer.h"
#include "dsl/text/workload.h"
#include "runtime/measure/machine_memory.h"
#include "runtime/measure/measurer.h"
#include "sampler/search/trial.h"
#include "support/opencl_device.h"
#include "support/parsed.h"
#include "support/support.h"
#include "tests/unit/transformer.h"

namespace tw {
namespace {

OwnedProgram matmul(i64 m, i64 n, i64 k) {
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> made =
      instantiate(operator_library(), "matmul", {{"M", m}, {"N", n}, {"K", k}}, {}, diagnostics);
  EXPECT_TRUE(made) << diagnostics.render();
  return *made;
}

constexpr const char* kAttention = R"tw(
workload attention(S: int, D: int, T: type = f32) {
  input Q: T[S, D], K: T[S, D], V: T[S, D]
  P[i: S, j: S] = sum(k: D) Q[i, k] * K[j, k]
  Top[i: S] = max(j: S) P[i, j]
  E[i: S, j: S] = exp(P[i, j] - Top[i])
  Sum[i: S] = sum(j: S) E[i, j]
  A[i: S, j: D] = sum(k: S) E[i, k] * V[k, j]
  output Y: T[i: S, j: D] = A[i, j] / Sum[i]
}
)tw";

Target opencl() {
  Target target = host_target();
  target.kind = TargetKind::OpenCl;
  return target;
}

// Two sets of inputs; inputs and results in two layouts; in each layout and of each set the results and their
// variances, in f64, and in each layout the sums that variances are made of.
TEST(TaskMemory, OfASmallProduct) {
  constexpr double kInputs = (10 * 30 + 30 * 20) * 4, kResults = 10 * 20;
  double reference = 2 * (2 * kResults * 16 + kResults * 8);
  TaskMemory memory = memory_of(matmul(10, 20, 30).program, host_target());
  EXPECT_EQ(memory.host, 2 * kInputs + 2 * (kInputs + kResults * 4) + reference);
  EXPECT_EQ(memory.device, 0);
  EXPECT_EQ(memory_of(matmul(10, 20, 30).program, opencl()).device, kInputs + kResults * 4);
}

// One that is judged by a sample keeps no results.
TEST(TaskMemory, OfALargeProduct) {
  constexpr double kMatrix = 8192.0 * 8192.0 * 4;
  EXPECT_NEAR(memory_of(matmul(8192, 8192, 8192).program, host_target()).host,
              2 * 2 * kMatrix + 2 * 3 * kMatrix + 2 * kMatrix, 1e6);
}

double bytes_of_locals(const Program& program) {
  double bytes = 0;
  for (const Buffer* local : program.locals) bytes += static_cast<double>(bytes_of(local));
  return bytes;
}

// A row of it can be computed alone, so it is judged by a sample; but the kernels have its products in each layout.
TEST(TaskMemory, OfIntermediateResultsWhereASampleJudges) {
  OwnedProgram attention = test::workload(kAttention, "attention", {{"S", i64{32768}}, {"D", i64{64}}});
  constexpr double kScores = 32768.0 * 32768.0 * 4;
  TaskMemory memory = memory_of(attention.program, host_target());
  EXPECT_GE(memory.host, 2 * kScores);
  EXPECT_LE(memory.host, 3 * kScores);
}

// No row of it can be computed alone: the reference has all in between in f64, in each layout.
TEST(TaskMemory, OfAWholeReferenceThatIsLarge) {
  OwnedProgram block = test::workload(test::kTransformer, "block", {{"S", i64{4096}}, {"D", i64{1024}}});
  TaskMemory memory = memory_of(block.program, host_target());
  EXPECT_GE(memory.host, 2 * 2 * bytes_of_locals(block.program));
  EXPECT_LE(memory.host, 2 * 6 * bytes_of_locals(block.program)) << "with variances";
}

TEST(TaskMemory, WhatIsNotThereIsRefused) {
  EXPECT_EQ(why_too_large(matmul(10, 20, 30).program, host_target(), 0), "");
  EXPECT_EQ(why_too_large(matmul(10, 20, 30).program, opencl(), 0), "");
  EXPECT_EQ(why_too_large(matmul(1000, 1000, 10).program, opencl(), i64{1} << 30), "");
  EXPECT_EQ(why_too_large(matmul(10000, 5000, 1).program, opencl(), 100'000'000),
            "takes 0.2 GB of the device's memory, which has 0.1 GB");
  EXPECT_EQ(why_too_large(matmul(1 << 22, 1 << 22, 1).program, host_target(), 0).find("takes 140738 GB of memory"), 0u);
}

TEST(TaskMemory, DevicesSayWhatTheyHave) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  EXPECT_GT(device_memory_bytes({.program = "tracewright-worker-opencl", .device = 0}), 1 << 20);
  EXPECT_EQ(device_memory_bytes({.program = "tracewright-worker-opencl", .device = 1000}), 0);
}

TEST(TaskMemory, UlimitIsHeeded) {
  i64 free = free_memory_bytes();
  EXPECT_GT(free, 1 << 20);
  EXPECT_GE(processes_killed_for_memory(), 0);
  if (TW_SANITIZED) GTEST_SKIP() << "sanitizers reserve more address space than that";
  pid_t child = fork();
  if (child == 0) {
    rlimit limit{static_cast<rlim_t>(free), static_cast<rlim_t>(free)};
    _exit(setrlimit(RLIMIT_AS, &limit) == 0 && free_memory_bytes() == free / 2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tw
