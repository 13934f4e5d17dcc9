// The emulator: emitted CUDA C passes under many orders of its threads, and each of many planted bugs is found.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <regex>

#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "runtime/emulation/emulation.h"
#include "sampler/search/emulation_gate.h"
#include "support/device_schedules.h"
#include "support/drawn_kernels.h"
#include "support/kernels_by_hand.h"
#include "support/nvrtc.h"
#include "support/run_program.h"
#include "support/scheduled.h"
#include "support/support.h"

namespace tw {
namespace {

const char* kUse = "matmul(M = 18, N = 24, K = 12)";

const Kernel& tiled_product() {
  static const Kernel kernel = test::cuda_kernel(kUse, test::gpu_gemm_schedule({}));
  return kernel;
}

// `schedule`: that of the kernel.
EmulationVerdict judge(const std::string& use, const Kernel& kernel, const EmulationGateOptions& options = {},
                       const std::string& schedule = test::gpu_gemm_schedule({})) {
  test::Scheduled scheduled(use, {}, schedule);
  return check_by_emulation(scheduled.base().program, {kernel, scheduled.program()}, options);
}

// The n-th occurrence of `from`, counted from 0, becomes `to`.
void exchange(std::string& text, const std::string& from, const std::string& to, int n) {
  std::size_t at = text.find(from);
  for (; n > 0 && at != std::string::npos; --n) at = text.find(from, at + 1);
  ASSERT_NE(at, std::string::npos) << "`" << from << "` is not in the text:\n" << text;
  text.replace(at, from.size(), to);
}

class Emulator : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    ASSERT_NE(emulation_compiler(error), "") << error << ": these tests were compiled, so there is a compiler";
  }
};

TEST_F(Emulator, TiledProductsAreRightInEveryOrder) {
  EmulationVerdict verdict = judge(kUse, tiled_product(), {.runs = 100});
  EXPECT_EQ(verdict.kind, EmulationVerdict::Right) << verdict.message;
  EXPECT_EQ(verdict.compared, 18 * 24);
  EXPECT_EQ(verdict.report.groups, 15);
  EXPECT_EQ(verdict.report.barriers, 15 * 3 * 2);
  EXPECT_EQ(verdict.report.global_accesses, 18 * 12 * 3 + 12 * 24 * 5 + 18 * 24 / 4);
  const char* use = "matmul(M = 20, N = 24, K = 12)";
  std::string schedule = test::gpu_gemm_schedule({.ty = 3, .tx = 2, .rows = 2, .columns = 4, .depth = 5});
  verdict = judge(use, test::cuda_kernel(use, schedule), {.runs = 100}, schedule);
  EXPECT_EQ(verdict.kind, EmulationVerdict::Right) << verdict.message;
}

struct Bug {
  const char* name;
  const char *from, *to;
  int n = 0;
  std::vector<EmulationStatus> found_as;  // Ok: what it computes is wrong
};

std::ostream& operator<<(std::ostream& out, const Bug& bug) { return out << bug.name; }

class PlantedBug : public ::testing::TestWithParam<Bug> {};

using S = EmulationStatus;

const Bug kBugs[] = {
    {"MissingBarrierBeforeUse", "__syncthreads();", "", 1, {S::Race, S::Uninitialised}},
    {"MissingBarrierBeforeTheNextTile", "__syncthreads();", "", 0, {S::Race}},
    {"BarrierInADivergentBranch",
     "__syncthreads();",
     "if (threadIdx.x == 0) __syncthreads();",
     1,
     {S::Barrier, S::Race, S::Uninitialised}},
    {"ABarrierForEachBranch",
     "__syncthreads();",
     "if (threadIdx.x == 0) __syncthreads();\nelse __syncthreads();",
     1,
     {S::Barrier}},
    {"BarrierThatOneThreadNeverReaches",
     "const int i_0 = blockIdx.y;",
     "const int i_0 = blockIdx.y; if (threadIdx.x > 0) return;",
     0,
     {S::Barrier}},
    {"WrongIndex", "((k_j_0 / 2) * 24)", "((k_j_0 / 2) * 23)", 0, {S::Ok}},
    {"SharedIndexOutOfBounds", "+ (k_j_0 * 4)] = B", "+ (k_j_0 * 5)] = B", 0, {S::OutOfBounds, S::Race}},
    {"SharedVectorOutOfBounds", "(B_shared + (j_1 * 4) + 24)", "(B_shared + (j_1 * 4) + 28)", 0, {S::OutOfBounds}},
    {"GlobalReadOutOfBounds", "A[((((i_0 * 48)", "A[((((i_0 * 480)", 0, {S::OutOfBounds}},
    {"GlobalWriteOutOfBounds", "(C + ((i_0 * 96)", "(C + 300 + ((i_0 * 96)", 0, {S::OutOfBounds, S::Race}},
    {"TwoThreadsWriteOneElement", "A_shared[((i_k_1 * 2) + i_k_2)", "A_shared[((i_k_1 * 1) + i_k_2)", 0, {S::Race}},
    {"TwoGroupsWriteOneElement", "(C + ((i_0 * 96)", "(C + ((0 * 96)", 0, {S::Race}},
    {"UninitialisedSharedMemory", "k_j_0 < 8", "k_j_0 < 7", 0, {S::Uninitialised}},
    {"UninitialisedRegister", "C_register_0 = t0;", "", 0, {S::Ok}},
    {"TailPredicateOfAWrite", "if (i_0 < 4) {", "if (i_0 < 5) {", 2, {S::OutOfBounds}},
    {"TailPredicateOfARead", "if (i_0 < 4) {", "if (i_0 < 5) {", 0, {S::OutOfBounds}},
    {"Deadlock", "__syncthreads();", "if (threadIdx.x == 0) __syncthreads(); else __syncwarp();", 1, {S::Deadlock}},
    {"EndlessLoop", "__syncthreads();", "while (i_0 >= 0) {}", 1, {S::Timeout}},
    {"WrongThreadExtent", "if (i_1 < 1) {", "if (i_1 < 2) {", 1, {S::Race, S::Ok}},
    {"MisalignedVector", "(B_shared + j_1 * 4)", "(B_shared + j_1 * 4 + 1)", 0, {S::Misaligned}},
    {"IndexOverflow", "A[((((i_0 * 48)", "A[(((((i_0 + 2147483647) * 48)", 0, {S::Arithmetic}},
    {"WriteToAnInput", "*(float4*)(C + ((i_0 * 96)", "*(float4*)((float*)A + ((i_0 * 24)", 0, {S::OutOfBounds}},
    {"NullPointer",
     "__syncthreads();",
     "*(volatile int*)(long)(i_0 - i_0) = 1; __syncthreads();",
     0,
     {S::OutOfBounds, S::Misaligned}},
    {"TooDeepARecursion",
     "__syncthreads();",
     "struct R { static int f(int x) { return x + f(x + 1) + 1; } }; R::f(i_0); __syncthreads();",
     0,
     {S::Crash}},
    {"CopyThatIsNotWaitedFor",
     "A_shared[((i_k_1 * 2) + i_k_2) + (i_k_0 * 4)] = A[((((i_0 * 48) + (k_0 * 4)) + (i_k_1 * 2)) + i_k_2) + (i_k_0 * "
     "12)];",
     "tw_copy_async_4(&A_shared[((i_k_1 * 2) + i_k_2) + (i_k_0 * 4)], &A[((((i_0 * 48) + (k_0 * 4)) + (i_k_1 * 2)) + "
     "i_k_2) + (i_k_0 * 12)]); "
     "tw_copy_async_commit(); tw_copy_async_wait<1>();",
     0,
     {S::Async}},
    {"NoSuchType", "float4", "float5", 0, {S::BuildError}},
};

TEST_P(PlantedBug, IsFoundInEveryOrder) {
  std::string error;
  ASSERT_NE(emulation_compiler(error), "") << error << ": these tests were compiled, so there is a compiler";
  Kernel kernel = tiled_product();
  exchange(kernel.code, GetParam().from, GetParam().to, GetParam().n);
  double seconds = std::string(GetParam().name) == "EndlessLoop" ? 0.3 : 20;
  for (u64 seed = 1; seed <= (seconds < 1 ? 1 : 4); ++seed) {
    EmulationVerdict verdict = judge(kUse, kernel, {.seed = seed, .runs = 1, .timeout_seconds = seconds});
    EXPECT_EQ(verdict.kind, EmulationVerdict::Wrong);
    const auto& statuses = GetParam().found_as;
    EXPECT_NE(std::find(statuses.begin(), statuses.end(), verdict.report.status), statuses.end())
        << name_of(verdict.report.status) << ", " << verdict.message;
    if (verdict.report.status == S::Timeout) {
      EXPECT_NE(verdict.message.find(" s of processor time"), std::string::npos) << verdict.message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedBug, ::testing::ValuesIn(kBugs),
                         [](const auto& info) { return info.param.name; });

TEST_F(Emulator, FindingsNameKernelGroupThreadBufferAndIndex) {
  Kernel kernel = tiled_product();
  exchange(kernel.code, "(C + ((i_0 * 96)", "(C + 432 + ((i_0 * 96)", 0);
  std::string message = judge(kUse, kernel).message;
  std::regex wanted(
      "out of bounds: kernel `kernel_run_0`, group \\([0-2], [0-4], 0\\), thread [01] \\([01], 0, 0\\): writes 16 "
      "bytes at "
      "`C`\\[[0-9]+\\], which has 432 elements");
  EXPECT_TRUE(std::regex_match(message, wanted)) << message;
}

TEST_F(Emulator, ALaunchWithOtherExtentsIsFound) {
  Kernel kernel = tiled_product();
  kernel.manifest.run_launches[0].threads = {1, 2, 1};
  EXPECT_EQ(judge(kUse, kernel).report.status, EmulationStatus::Uninitialised);
  kernel.manifest.run_launches[0].threads = {4, 2, 1};
  EmulationVerdict verdict = judge(kUse, kernel);
  EXPECT_EQ(verdict.message, "launch: kernel `kernel_run_0` is launched with 8 threads to a group, and made for 4");
  kernel = tiled_product();
  kernel.manifest.run_launches[0].groups = {3, 4, 1};
  verdict = judge(kUse, kernel);
  EXPECT_EQ(verdict.kind, EmulationVerdict::Wrong) << "rows are missing";
  kernel.manifest.run_launches[0].groups = {3, 6, 1};
  EXPECT_EQ(judge(kUse, kernel).report.status, EmulationStatus::OutOfBounds);
}

TEST_F(Emulator, CopiesThatAreWaitedForArrive) {
  Kernel kernel = tiled_product();
  for (const Bug& bug : kBugs) {
    if (std::string(bug.name) == "CopyThatIsNotWaitedFor") exchange(kernel.code, bug.from, bug.to, bug.n);
  }
  exchange(kernel.code, "tw_copy_async_wait<1>();", "", 0);
  exchange(kernel.code, "__syncthreads();", "tw_copy_async_wait<0>(); __syncthreads();", 1);
  EmulationVerdict verdict = judge(kUse, kernel, {.runs = 20});
  EXPECT_EQ(verdict.kind, EmulationVerdict::Right) << verdict.message;
}

// ---- kernels written by hand

TEST_F(Emulator, ShufflesMoveValuesBetweenLanes) {
  std::vector<double> y;
  EmulationReport report = test::emulate_by_hand(R"(const int t = threadIdx.x;
float v = x[t];
for (int by = 16; by > 0; by /= 2) v += __shfl_xor_sync(0xffffffff, v, by);
float down = __shfl_down_sync(0xffffffff, x[t], 3), up = __shfl_up_sync(0xffffffff, x[t], 1), at = __shfl_sync(0xffffffff, x[t], 5, 8);
unsigned odd = __ballot_sync(0xffffffff, t % 2 == 1);
y[t] = v + 1000 * down + 100000 * up + 10000000 * at + (odd == 0xaaaaaaaau ? 0 : 1e9f);)",
                                                 y);
  ASSERT_EQ(report.status, EmulationStatus::Ok) << report.message;
  for (int t = 0; t < 32; ++t)
    EXPECT_NEAR(y[static_cast<std::size_t>(t)],
                496 + 1000.0 * (t + 3 < 32 ? t + 3 : t) + 100000.0 * (t > 0 ? t - 1 : 0) + 1e7 * (t / 8 * 8 + 5), 32)
        << t;
}

TEST_F(Emulator, MisuseOfWarpsIsFound) {
  struct Row {
    const char* body;
    EmulationStatus status;
  };
  const Row rows[] = {
      {"if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0xffffffff, x[threadIdx.x], 1);",
       EmulationStatus::Barrier},
      {"y[threadIdx.x] = __shfl_xor_sync(0xffff, x[threadIdx.x], 1);", EmulationStatus::Barrier},
      {"if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0xffff, x[threadIdx.x], 16);",
       EmulationStatus::Uninitialised},
      {"if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0xffff, x[threadIdx.x], 8);", EmulationStatus::Ok},
      {"__shared__ float s[32]; s[threadIdx.x] = x[threadIdx.x]; y[threadIdx.x] = s[31 - threadIdx.x];",
       EmulationStatus::Uninitialised},
      {"__shared__ float s[32]; s[threadIdx.x] = x[threadIdx.x]; __syncwarp(); y[threadIdx.x] = s[31 - threadIdx.x];",
       EmulationStatus::Ok},
      {"__shared__ float s[32]; s[threadIdx.x] = x[threadIdx.x]; __syncwarp(); y[threadIdx.x] = s[31 - threadIdx.x]; "
       "s[threadIdx.x] = 0;",
       EmulationStatus::Race},
      {"__shared__ float s[32]; s[threadIdx.x] = x[threadIdx.x]; __syncwarp(); float v = s[31 - threadIdx.x]; "
       "__syncwarp(); s[threadIdx.x] = v; "
       "y[threadIdx.x] = v;",
       EmulationStatus::Ok},
  };
  for (const Row& row : rows) {
    std::vector<double> y;
    EmulationReport report = test::emulate_by_hand(row.body, y);
    bool is_race = row.status == EmulationStatus::Uninitialised &&
                   report.status == EmulationStatus::Race;  // by the order that was drawn
    EXPECT_TRUE(report.status == row.status || is_race) << row.body << "\n"
                                                        << name_of(report.status) << ": " << report.message;
  }
}

TEST_F(Emulator, AWarpBarrierDoesNotOrderOtherWarps) {
  std::vector<double> y;
  const char* body =
      "__shared__ float s[64]; s[threadIdx.x] = x[threadIdx.x]; %s; y[threadIdx.x] = s[63 - threadIdx.x];";
  for (const char* barrier : {"__syncwarp()", "__syncthreads()"}) {
    std::string text = body;
    text.replace(text.find("%s"), 2, barrier);
    EmulationReport report = test::emulate_by_hand(text, y, 64);
    EXPECT_EQ(report.status == EmulationStatus::Ok, std::string(barrier) == "__syncthreads()") << report.message;
  }
}

TEST_F(Emulator, BytesOfOneWordAreApart) {
  std::vector<double> y;
  EmulationReport report = test::emulate_by_hand(
      "__shared__ char s[32]; s[threadIdx.x] = (char)threadIdx.x; __syncthreads(); y[threadIdx.x] = s[threadIdx.x ^ "
      "1];",
      y);
  ASSERT_EQ(report.status, EmulationStatus::Ok) << report.message;
  EXPECT_EQ(y[4], 5);
}

// A row of the input is copied once for two readers; of two readers of a row of results, one reads where it was made,
// one its copy.
TEST_F(Emulator, CopiesOfSeveralReadersAreRight) {
  const char* use = "softmax(M = 5, N = 40)";
  const char* schedule = R"(t = get_block("Top")
e = get_block("E")
s = get_block("S")
y = get_block("Y")
i, j = get_loops(y)
compute_at(s, i)
compute_at(e, i)
compute_at(t, i)
x = cache_read(t, 0, "shared", consumers = [t, e])
compute_at(x, i, position = "first")
r = cache_write(e, 0, "shared", consumers = [s])
set_scope(r, 0, "shared")
set_scope(t, 0, "shared")
set_scope(s, 0, "shared")
bind(i, "blockIdx.x")
bind(j, "threadIdx.x")
i1, j1 = get_loops(x)
bind(j1, "threadIdx.x")
i2, j2 = get_loops(e)
bind(j2, "threadIdx.x")
)";
  Kernel kernel = test::cuda_kernel(use, schedule);
  for (const char* name : {"X_shared", "E_shared"}) ASSERT_NE(kernel.code.find(name), std::string::npos) << kernel.code;
  EmulationVerdict verdict = judge(use, kernel, {.runs = 20}, schedule);
  EXPECT_EQ(verdict.kind, EmulationVerdict::Right) << verdict.message << kernel.code;
  EXPECT_EQ(verdict.report.groups, 5);
}

// ---- the gate

TEST_F(Emulator, LargeKernelsAreCheckedInPart) {
  const char* use = "matmul(M = 512, N = 512, K = 64)";
  std::string schedule = test::gpu_gemm_schedule({.ty = 8, .tx = 8, .rows = 4, .columns = 4, .depth = 8});
  Kernel kernel = test::cuda_kernel(use, schedule);
  EmulationVerdict verdict = judge(use, kernel, {.full_points = 1e6, .max_groups = 3}, schedule);
  EXPECT_EQ(verdict.kind, EmulationVerdict::Right) << verdict.message;
  EXPECT_FALSE(verdict.report.is_complete);
  EXPECT_EQ(verdict.report.groups, 3);
  EXPECT_EQ(verdict.compared, 3 * 32 * 32);
  EmulationVerdict of_one = judge(use, kernel, {.full_points = 1e6, .max_groups = 3, .group_points = 1e5}, schedule);
  EXPECT_EQ(of_one.kind, EmulationVerdict::Right) << of_one.message;
  EXPECT_EQ(of_one.report.groups, 1) << "a group has 65,536 points";
  EXPECT_EQ(of_one.compared, 32 * 32);
  NamedArrays arrays;
  for (const KernelArgument& argument : kernel.manifest.run) {
    if (argument.role != ArgumentRole::Output) arrays[argument.name] = HostArray::zeros(argument.dtype, argument.shape);
  }
  ASSERT_EQ(emulate(kernel, arrays, {.max_groups = 1}).status, EmulationStatus::Ok);
  EXPECT_EQ(arrays["C"].get(512 * 512 - 1), 0) << "the last group has run";
  EXPECT_TRUE(std::isnan(arrays["C"].get(0))) << "and not the first one";
  EmulationGateOptions sampled{
      .full_points = 1e6, .max_groups = 3, .reference_points = 1e6, .sampled_points = 64 * 300};
  EmulationVerdict of_sample = judge(use, kernel, sampled, schedule);
  EXPECT_EQ(of_sample.kind, EmulationVerdict::Right) << of_sample.message;
  EXPECT_NEAR(of_sample.compared, 300, 100) << "without a reference of all, some elements";
  EXPECT_LE(of_sample.max_error, verdict.max_error);
  exchange(kernel.code, "C_register_0 = t0;", "C_register_0 = 1;", 0);
  for (const EmulationGateOptions& options : {EmulationGateOptions{.full_points = 1e6, .max_groups = 3}, sampled})
    EXPECT_EQ(judge(use, kernel, options, schedule).kind, EmulationVerdict::Wrong);
}

// A sum in parts: the launch that adds them up can be judged only where all that it reads has been computed.
TEST_F(Emulator, LaunchesBeforeTheLastRunWholeWhereThereIsTime) {
  const char* use = "matmul(M = 64, N = 64, K = 256)";
  const char* schedule = R"(
c = get_block("C")
i, j, k = get_loops(c)
p = split_k(k, 4)
f, x, y, z = get_loops(p)
g = fuse([f, x])
bind(g, "blockIdx.x")
bind(y, "threadIdx.x")
i2, j2, k2 = get_loops(c)
ij = fuse([i2, j2])
i3, i4 = split(ij, [_, 128])
bind(i3, "blockIdx.x")
bind(i4, "threadIdx.x")
)";
  Kernel kernel = test::cuda_kernel(use, schedule);
  EmulationGateOptions part{.full_points = 1e3, .max_groups = 3};
  EmulationVerdict verdict = judge(use, kernel, part, schedule);
  EXPECT_EQ(verdict.kind, EmulationVerdict::Right) << verdict.message << kernel.code;
  EXPECT_EQ(verdict.report.groups, 4 * 64 + 3);
  EXPECT_EQ(verdict.compared, 3 * 128);
  part.chain_seconds = 0;
  verdict = judge(use, kernel, part, schedule);
  EXPECT_EQ(verdict.kind, EmulationVerdict::Unknown);
  EXPECT_EQ(verdict.report.groups, 3 + 3);
  EXPECT_EQ(verdict.compared, 0);
  // What a launch that ran whole leaves out is no work of groups that did not run.
  exchange(kernel.code, "const int j = threadIdx.x;", "const int j = threadIdx.x; if (j == 63) return;", 0);
  part.chain_seconds = EmulationGateOptions().chain_seconds;
  verdict = judge(use, kernel, part, schedule);
  EXPECT_EQ(verdict.report.status, EmulationStatus::Uninitialised) << verdict.message;
}

// A launch of zeros, and one that adds to them: groups of the second that do not run leave the zeros.
TEST_F(Emulator, OutputsOfSeveralLaunchesAreComparedOnlyWhole) {
  const char* use = "matmul(M = 64, N = 64, K = 64)";
  const char* schedule = R"(
c = get_block("C")
i, j, k = get_loops(c)
z = decompose_reduction(c, i)
a, b = get_loops(z)
bind(a, "blockIdx.x")
bind(b, "threadIdx.x")
i1, j1, k1 = get_loops(c)
bind(i1, "blockIdx.x")
bind(j1, "threadIdx.x")
)";
  Kernel kernel = test::cuda_kernel(use, schedule);
  ASSERT_EQ(kernel.manifest.run_launches.size(), 2u);
  EXPECT_EQ(judge(use, kernel, {}, schedule).kind, EmulationVerdict::Right);
  EmulationVerdict verdict = judge(use, kernel, {.full_points = 1e3, .max_groups = 3}, schedule);
  EXPECT_EQ(verdict.kind, EmulationVerdict::Unknown) << verdict.message;
  EXPECT_EQ(verdict.report.groups, 64 + 3);
}

TEST_F(Emulator, SeveralKernelsAreCompiledTogether) {
  test::Scheduled scheduled(kUse, {}, test::gpu_gemm_schedule({}));
  Kernel right = tiled_product(), wrong = tiled_product();
  auto rename = [](Kernel& kernel, const std::string& name) {
    exchange(kernel.code, "kernel_run_0", name, 0);
    kernel.manifest.run_launches[0].name = kernel.manifest.symbol = name;
  };
  rename(right, "first"), rename(wrong, "second");
  exchange(wrong.code, "((k_j_0 / 2) * 24)", "((k_j_0 / 2) * 23)", 0);
  const ScheduledKernel both[] = {{right, scheduled.program()}, {wrong, scheduled.program()}};
  EmulationGate gate(scheduled.base().program);
  std::vector<EmulationVerdict> verdicts = gate.check(both);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].kind, EmulationVerdict::Right) << verdicts[0].message;
  EXPECT_EQ(verdicts[1].kind, EmulationVerdict::Wrong);
  EXPECT_NE(verdicts[1].message.find("`C`: 432 of 432 elements are wrong"), std::string::npos) << verdicts[1].message;
  exchange(wrong.code, "float4", "float5", 0);
  verdicts = gate.check(both);
  EXPECT_EQ(verdicts[0].kind, EmulationVerdict::Right) << verdicts[0].message;
  EXPECT_EQ(verdicts[1].report.status, EmulationStatus::BuildError)
      << "one that is no C++ does not take the others with it";
}

TEST_F(Emulator, WhatIsTooLargeIsUnknown) {
  EmulationVerdict verdict = judge(kUse, tiled_product(), {.memory_bytes = 1000});
  EXPECT_EQ(verdict.kind, EmulationVerdict::Unknown);
  EXPECT_NE(verdict.message.find("more than are emulated"), std::string::npos) << verdict.message;
}

// ---- the command

// The tiled product as a trace file `mm.tw` for sm_80.
void write_trace_file(const std::string& folder) {
  test::Scheduled plain(kUse, {}, "");
  test::write_file(folder + "/mm.tw", cat("tracewright 1 \"", TW_VERSION, "\"\ntarget \"cuda -arch=sm_80\"\n",
                                          print(plain.program()), "schedule {\n", test::gpu_gemm_schedule({}), "}\n"));
}

TEST_F(Emulator, ReplayChecksCudaKernels) {
  test::TemporaryDirectory folder;
  write_trace_file(folder.path());
  test::Finished finished = test::tracewright({"replay", "mm.tw", "--check"}, {.folder = folder.path()});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("matmul: right in the emulator (432 outputs compared, largest difference"),
            std::string::npos)
      << finished.out;
  EXPECT_NE(finished.out.find("matmul: 0 bank conflicts in "), std::string::npos) << finished.out;
  finished = test::tracewright({"replay", "mm.tw", "--check", "--json"}, {.folder = folder.path()});
  EXPECT_NE(finished.out.find("\"status\":\"right\""), std::string::npos) << finished.out;
  finished = test::tracewright({"replay", "mm.tw", "--check"},
                               {.folder = folder.path(), .environment = {"TRACEWRIGHT_CXX=/no/such/compiler"}});
  EXPECT_EQ(finished.code, 3);
  EXPECT_NE(finished.err.find("cannot be emulated: CUDA kernels are emulated with a C++ compiler"), std::string::npos)
      << finished.err;
}

// With a driver and a device (a stub of them) it is not asked.
TEST(EmulatorWithADevice, IsNotUsedByReplay) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  test::TemporaryDirectory folder;
  write_trace_file(folder.path());
  test::Finished finished = test::tracewright(
      {"replay", "mm.tw", "--check"},
      {.folder = folder.path(),
       .environment = {cat("LD_LIBRARY_PATH=", TW_BINARY_DIR, "/tests/cuda_stub"), "TW_STUB_GEMM=18,24,12"}});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("matmul: right (largest difference"), std::string::npos) << finished.out;
}

TEST(EmulatorWithoutACompiler, SaysSo) {
  setenv("TRACEWRIGHT_CXX", "/no/such/compiler", 1);
  EmulationVerdict verdict = judge(kUse, tiled_product());
  unsetenv("TRACEWRIGHT_CXX");
  EXPECT_EQ(verdict.kind, EmulationVerdict::Unknown);
  EXPECT_NE(verdict.message.find("TRACEWRIGHT_CXX"), std::string::npos) << verdict.message;
}

// Compilers that fail whatever they are given say nothing about the kernel.
TEST(EmulatorWithABrokenCompiler, FindsNothingWrong) {
  struct Row {
    const char *script, *message;
  };
  const Row rows[] = {{"echo too old; exit 1", "kernels cannot be emulated here"},
                      {"kill -9 $$", "was ended by: Killed"},
                      {"while [ \"$1\" != -o ]; do shift; done; : >\"$2\"", "cannot be loaded"}};  // as on a full disk
  test::TemporaryDirectory folder;
  std::string compiler = folder.path() + "/compiler";
  setenv("TRACEWRIGHT_CXX", compiler.c_str(), 1);
  for (const Row& row : rows) {
    test::write_file(compiler, cat("#!/bin/sh\n", row.script, "\n"));
    std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
    EmulationVerdict verdict = judge(kUse, tiled_product());
    EXPECT_EQ(verdict.kind, EmulationVerdict::Unknown) << row.script << ": " << verdict.message;
    EXPECT_NE(verdict.message.find(row.message), std::string::npos) << row.script << ": " << verdict.message;
  }
  unsetenv("TRACEWRIGHT_CXX");
}

// A function that no device has is a mistake of the text.
TEST_F(Emulator, UnknownFunctionsAreErrors) {
  Kernel kernel = tiled_product();
  kernel.code.insert(0, "extern \"C\" void nobody_has_this();\n");
  exchange(kernel.code, "__syncthreads();", "nobody_has_this();", 0);
  EmulationVerdict verdict = judge(kUse, kernel);
  EXPECT_EQ(verdict.kind, EmulationVerdict::Wrong);
  EXPECT_EQ(verdict.report.status, EmulationStatus::BuildError);
  EXPECT_NE(verdict.message.find("nobody_has_this"), std::string::npos) << verdict.message;
}

}  // namespace
}  // namespace tw
