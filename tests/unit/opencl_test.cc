// The OpenCL worker on a real device (PoCL on machines without a GPU), with a fresh cache of compiled kernels. Skipped
// where there is none.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <regex>

#include "backends/gpu_source/source.h"
#include "dsl/base/clock.h"
#include "dsl/text/workload.h"
#include "runtime/measure/measurer.h"
#include "sampler/search/device_checks.h"
#include "sampler/search/sampled_reference.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"
#include "support/device_schedules.h"
#include "support/opencl_device.h"
#include "support/processes.h"
#include "support/scheduled.h"
#include "support/support.h"
#include "tests/unit/test_kernels.h"

namespace tw {
namespace {

const char* kUse = "matmul(M = 20, N = 24, K = 12)";

class OpenCl : public ::testing::Test {
 protected:
  static Target target() {
    Target target;
    target.kind = TargetKind::OpenCl;
    return target;
  }

  void SetUp() override {
    if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
    setenv("POCL_CACHE_DIR", cache_.path().c_str(), 1);
    WorkerStart started = start_worker(worker_options(target()));
    ASSERT_TRUE(started.measurer) << started.error;
    measurer_ = std::move(started.measurer);
  }

  // The task of a workload, or -1.
  int begin(const std::string& use) {
    test::Scheduled plain(use, {}, "");
    Result<LlvmCompiler> compiler = LlvmCompiler::create({});
    BuiltKernel reference = build_reference(plain.program(), target(), *compiler);
    TaskStart start = measurer_->begin_task(*reference.kernel, tolerance_of(plain.program()), 1);
    error_ = start.error;
    return start.task;
  }

  static Kernel kernel(const std::string& use, const std::string& schedule) {
    test::Scheduled scheduled(use, {}, schedule);
    Result<LlvmCompiler> compiler = LlvmCompiler::create({});
    BuiltKernel built = build_kernel(scheduled.program(), target(), *compiler);
    EXPECT_TRUE(built.kernel) << built.problem;
    return *built.kernel;
  }

  // The tiled kernel with one piece of its source exchanged.
  static Kernel changed(const std::string& from, const std::string& to, const char* use = kUse) {
    Kernel out = kernel(use, test::gpu_gemm_schedule({}));
    std::size_t at = out.code.rfind(from);
    EXPECT_NE(at, std::string::npos) << out.code;
    out.code.replace(at, from.size(), to);
    return out;
  }

  test::TemporaryDirectory cache_;
  std::unique_ptr<Measurer> measurer_;
  std::string error_;
};

TEST_F(OpenCl, RunsSharedTilesWithTails) {
  int task = begin(kUse);
  ASSERT_GE(task, 0) << error_;
  MeasureResult result = measurer_->measure(
      task, kernel(kUse, test::gpu_gemm_schedule({.ty = 3, .tx = 2, .rows = 2, .columns = 4, .depth = 5})), {});
  EXPECT_TRUE(result.status == MeasureStatus::Ok || result.status == MeasureStatus::Noisy) << result.message;
  EXPECT_GT(result.seconds, 0);
  EXPECT_GT(result.device_seconds, 0);
}

TEST_F(OpenCl, PacksConstantsOnTheDeviceAndMeasuresAgainstAnIncumbent) {
  const char* use = "dense(M = 37, N = 40, K = 24)";
  int task = begin(use);
  ASSERT_GE(task, 0) << error_;
  test::TileOptions options{.rows = 4, .columns = 16, .unroll = 2};
  Kernel first = kernel(use, test::dense_schedule(options));
  options.rows = 6;
  Kernel second = kernel(use, test::dense_schedule(options));
  EXPECT_FALSE(first.manifest.prepack_launches.empty());
  EXPECT_GT(measurer_->measure(task, first, {}).seconds, 0);
  MeasureResult result = measurer_->measure(task, second, {.incumbent = &first});
  EXPECT_GT(result.ratio, 0) << result.message;
  EXPECT_EQ(result.cold_seconds, 0);
  result = measurer_->measure(task, second, {.incumbent = &first, .cold_samples = 2});
  EXPECT_TRUE(result.status == MeasureStatus::Ok || result.status == MeasureStatus::Noisy) << result.message;
  EXPECT_GT(result.cold_seconds, 0);
}

// Draws of the set `opencl`: wide loads and stores of halves, sums in f32, results in halves.
TEST_F(OpenCl, ComputesWithHalves) {
  const rules::Library library = rules::Library::built_in();
  Result<LlvmCompiler> compiler = LlvmCompiler::create({});
  int wide = 0;
  for (const char* use : {"matmul(M = 20, N = 64, K = 12, T = f16)", "softmax(M = 5, N = 40, T = f16)",
                          "conv2d(N = 1, H = 6, W = 6, CI = 4, CO = 32, K = 3, padding = 1, T = bf16)"}) {
    int task = begin(use);
    ASSERT_GE(task, 0) << error_;
    test::Scheduled plain(use, {}, "");
    std::string errors;
    CandidateSpace space =
        make_candidate_space(plain.program(), *library.find_set("opencl"), library, target(), errors);
    ASSERT_EQ(errors, "");
    CandidateBuilder builder(space);
    int sketches = static_cast<int>(space.space.sketches.size());
    for (int i = 0; i < 4; ++i) {
      Rng rng(3, static_cast<u64>(i));
      Candidate candidate;
      Result<Program> program = reject("no draw");
      if (builder.draw(std::max(0, sketches - 1 - i), candidate, rng)) program = builder.build(candidate, &rng);
      ASSERT_TRUE(program) << use;
      BuiltKernel built = build_kernel(*program, target(), *compiler);
      ASSERT_TRUE(built.kernel) << built.problem;
      wide += built.kernel->code.find("tw_float4_of_") != std::string::npos;
      MeasureResult result = measurer_->measure(task, *built.kernel, {.time = false});
      EXPECT_EQ(result.status, MeasureStatus::Ok) << use << ": " << result.message << "\n" << built.kernel->code;
    }
  }
  EXPECT_GE(wide, 4) << "four lanes are a vector of 128 bits";
}

// Sub-groups as a device may have them, here of one work-item each.
TEST_F(OpenCl, CombinesBySubGroups) {
  const char* use = "softmax(M = 6, N = 100)";
  int task = begin(use);
  ASSERT_GE(task, 0) << error_;
  Kernel plain = kernel(use, test::shared_rows_schedule(1, 16, "S"));
  EXPECT_NE(plain.code.find("sub_group_reduce_add"), std::string::npos) << plain.code;
  EXPECT_EQ(measurer_->measure(task, plain, {.time = false}).status, MeasureStatus::Ok);
  auto with_sub_groups = [&](int count) {
    Kernel out = plain;
    out.code =
        cat("#define cl_intel_subgroups 1\n#define sub_group_reduce_add(x) (x)\n#define get_sub_group_local_id() 0\n",
            "#define get_sub_group_id() get_local_id(0)\n#define get_num_sub_groups() ", count, "\n", out.code);
    return measurer_->measure(task, out, {.time = false});
  };
  MeasureResult right = with_sub_groups(16), wrong = with_sub_groups(2);
  EXPECT_EQ(right.status, MeasureStatus::Ok) << right.message;
  EXPECT_EQ(wrong.status, MeasureStatus::WrongResult) << "two of sixteen parts";
  EXPECT_EQ(kernel(use, test::shared_rows_schedule(2, 8, "S")).code.find("sub_group"), std::string::npos)
      << "two rows to a group";
}

TEST_F(OpenCl, FailuresAreToldApartAndTheNextKernelIsMeasured) {
  for (const char* options :
       {"ASAN_OPTIONS", "TSAN_OPTIONS"}) {  // a crashed kernel shall end a sanitized worker by its signal, too
    const char* before = std::getenv(options);
    setenv(options, cat(before ? before : "", ":handle_segv=0").c_str(), 1);
  }
  int task = begin(kUse);
  ASSERT_GE(task, 0) << error_;
  struct Row {
    const char *from, *to;
    MeasureStatus status;
  };
  const Row rows[] = {
      {"(float4)(0.0f)", "(float4)(1.0f)", MeasureStatus::WrongResult},
      {"float4", "float5", MeasureStatus::BuildError},
      {"(C + ", "(C + 8 + ", MeasureStatus::OutOfBounds},
      {"float4 C_register_0;", "float4 C_register_0; while (get_global_size(0) > 0) {}", MeasureStatus::Timeout},
      {"float4 C_register_0;", "float4 C_register_0; *(volatile __global int*)(long)(get_global_size(0) > 100000) = 1;",
       MeasureStatus::Crash},
  };
  for (const Row& row : rows) {
    MeasureResult result = measurer_->measure(task, changed(row.from, row.to),
                                              {.timeout_seconds = row.status == MeasureStatus::Timeout ? 0.3 : 5});
    EXPECT_EQ(name_of(result.status), name_of(row.status)) << row.to << "\n" << result.message;
    // A worker that has hung or crashed is gone, and with it its context, before the next kernel runs.
    bool is_spoilt = row.status == MeasureStatus::Timeout || row.status == MeasureStatus::Crash;
    EXPECT_EQ(test::children_of(getpid()).size(), is_spoilt ? 0u : 1u) << row.to;
    result = measurer_->measure(task, kernel(kUse, test::gpu_gemm_schedule({})), {.time = false});
    EXPECT_EQ(name_of(result.status), name_of(MeasureStatus::Ok)) << "after " << row.to << "\n" << result.message;
  }
}

// What is right passes; wrong values in a part of the rows are found, and what was not written.
TEST_F(OpenCl, ComparesWithASample) {
  test::Scheduled plain(kUse, {}, "");
  std::optional<SampledReference> sample = sample_reference(plain.program(), 1, {});
  ASSERT_TRUE(sample);
  TaskStart start = measurer_->begin_sampled_task(*sample, tolerance_of(plain.program()), 1);
  ASSERT_GE(start.task, 0) << start.error;
  MeasureResult right = measurer_->measure(start.task, kernel(kUse, test::gpu_gemm_schedule({})), {});
  EXPECT_TRUE(right.status == MeasureStatus::Ok || right.status == MeasureStatus::Noisy) << right.message;
  MeasureResult wrong = measurer_->measure(start.task, changed("(float4)(0.0f)", "(float4)(1.0f)"), {});
  EXPECT_EQ(wrong.status, MeasureStatus::WrongResult) << wrong.message;
  EXPECT_NE(wrong.message.find("elements are wrong; "), std::string::npos) << wrong.message;
  MeasureResult missing = measurer_->measure(
      start.task, changed("float4 C_register_0;", "float4 C_register_0; if (get_group_id(0) == 1) return;"), {});
  EXPECT_EQ(missing.status, MeasureStatus::WrongResult) << missing.message;
  EXPECT_NE(missing.message.find("was not written, or is no number"), std::string::npos) << missing.message;
}

// The driver and its kernels have no more than they need: no core files, no new rights, some system calls and files to
// write fewer.
TEST_F(OpenCl, TheWorkerIsConfined) {
  ASSERT_GE(begin(kUse), 0) << error_;
  std::vector<pid_t> workers = test::children_of(getpid());
  ASSERT_EQ(workers.size(), 1u);
  std::string status = test::read_file(cat("/proc/", workers[0], "/status")),
              limits = test::read_file(cat("/proc/", workers[0], "/limits"));
  for (const char* wanted : {"NoNewPrivs:\t1\n", "Seccomp:\t2\n"})
    EXPECT_NE(status.find(wanted), std::string::npos) << wanted << status;
  EXPECT_TRUE(std::regex_search(limits, std::regex("Max core file size +0 +0"))) << limits;
  EXPECT_TRUE(std::regex_search(limits, std::regex("Max file size +4294967296 +4294967296"))) << limits;
  setenv("TRACEWRIGHT_UNCONFINED", "1", 1);
  measurer_ = start_worker(worker_options(target())).measurer;
  EXPECT_GE(begin(kUse), 0) << error_;
  unsetenv("TRACEWRIGHT_UNCONFINED");
  std::string unconfined = test::read_file(cat("/proc/", test::children_of(getpid()).at(0), "/status"));
  EXPECT_NE(unconfined.find("Seccomp:\t0\n"), std::string::npos) << unconfined;
}

// A reference that takes too long: its worker is gone, too.
TEST_F(OpenCl, AWorkerWhoseReferenceHangsIsGone) {
  WorkerOptions options = worker_options(target());
  options.reference_timeout_seconds = 1e-6;
  measurer_ = start_worker(options).measurer;
  ASSERT_TRUE(measurer_);
  Kernel reference = test::test_kernel("faulty", "endless",
                                       {test::argument("X", ArgumentRole::Input, {test::kOdd}),
                                        test::argument("Y", ArgumentRole::Output, {test::kOdd})});
  TaskStart started = measurer_->begin_task(reference, {}, 1);
  EXPECT_EQ(started.status, MeasureStatus::Timeout) << started.error;
  EXPECT_TRUE(test::children_of(getpid()).empty());
}

bool was_timed(const MeasureResult& result) {
  return result.status == MeasureStatus::Ok || result.status == MeasureStatus::Noisy;
}

// What checks on the device say counts for what is slower than the best. What may become the best is compared on the
// host.
TEST_F(OpenCl, TheHostConfirmsWhatTheDeviceFindsRight) {
  const char* use = "matmul(M = 500, N = 600, K = 16)";
  test::Scheduled plain(use, {}, "");
  std::vector<DeviceCheck> honest = device_checks(plain.program(), target(), nullptr), blind = honest;
  ASSERT_EQ(honest.size(), 3u);
  for (DeviceCheck& check : blind) {
    std::string& code = check.kernel.code;  // whose differences are all 0
    code = std::regex_replace(code, std::regex("fabs\\("), "0 * fabs(");
    code = std::regex_replace(code, std::regex("\\? 0 : 1"), "? 0 : 0");
  }
  int task = begin(use);
  ASSERT_GE(task, 0) << error_;
  const std::string sums = "float4 C_register_0;",
                    spin = sums + " volatile int spin = 0; for (int z = 0; z < 20000; ++z) spin += z;";
  Kernel right = kernel(use, test::gpu_gemm_schedule({})), slow = changed(sums, spin, use),
         wrong = changed("(float4)(0.0f)", "(float4)(1.0f)", use), slow_and_wrong = slow;
  std::size_t at = slow.code.rfind("(float4)(0.0f)");
  slow_and_wrong.code.replace(at, 14, "(float4)(1.0f)");
  Kernel less = changed(sums, sums + " if (get_group_id(0) > 0) return;", use),
         cheat =
             changed(sums, spin + " if (get_global_id(0) + get_global_id(1) == 0) ((__global int*)A)[5] ^= 1;", use),
         spoiler = changed(sums, spin + " ((__global float*)A)[5] = 3;", use);

  measurer_->check_on_device(task, honest);
  EXPECT_TRUE(was_timed(measurer_->measure(task, right, {})));
  MeasureOptions options{.incumbent = &right};
  MeasureResult slower = measurer_->measure(task, slow, options);
  EXPECT_TRUE(was_timed(slower)) << slower.message;
  EXPECT_GT(slower.ratio, 1.5);
  for (const Kernel* bad : {&wrong, &slow_and_wrong, &less}) {
    MeasureResult found = measurer_->measure(task, *bad, options);
    EXPECT_EQ(found.status, MeasureStatus::WrongResult) << found.message;
    EXPECT_NE(found.message.find("elements are wrong"), std::string::npos) << found.message;
  }
  EXPECT_EQ(measurer_->measure(task, cheat, options).status, MeasureStatus::Cheat);
  EXPECT_TRUE(was_timed(measurer_->measure(task, slow, options))) << "what it has written is gone";
  EXPECT_EQ(measurer_->measure(task, spoiler, options).status, MeasureStatus::WrongResult);
  EXPECT_TRUE(was_timed(measurer_->measure(task, slow, options))) << "what it has written is gone";

  measurer_->check_on_device(task, blind);
  EXPECT_TRUE(was_timed(measurer_->measure(task, slow_and_wrong, options))) << "the device was asked";
  EXPECT_EQ(measurer_->measure(task, less, options).status, MeasureStatus::WrongResult) << "and the host";
  EXPECT_EQ(measurer_->measure(task, wrong, {}).status, MeasureStatus::WrongResult) << "nothing to be slower than";
  EXPECT_EQ(measurer_->measure(task, slow_and_wrong, {.incumbent = &right, .time = false}).status,
            MeasureStatus::WrongResult);
}

// Results of the reference outlive the worker that computed them: the next one does not run it again.
TEST_F(OpenCl, AReferenceRunsOnce) {
  Source source{"long", "workload long_sum(K: int) { input A: f32[4]; output Y: f32[i: 1] = sum(k: K) A[k % 4] }"};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  std::optional<OwnedProgram> program = instantiate(module, "long_sum", {{"K", i64{1} << 30}}, {}, diagnostics);
  ASSERT_TRUE(program) << diagnostics.render();
  std::optional<OwnedProgram> quick = instantiate(module, "long_sum", {{"K", i64{4}}}, {}, diagnostics);
  Result<LlvmCompiler> compiler = LlvmCompiler::create({});
  BuiltKernel reference = build_reference(program->program, target(), *compiler);
  TaskStart start = measurer_->begin_task(*reference.kernel, tolerance_of(program->program), 1);
  ASSERT_GE(start.task, 0) << start.error;
  EXPECT_GT(start.reference_seconds, 0.5);
  Schedule plain(quick->program);
  BuiltKernel wrong = build_kernel(plain.program(), target(), *compiler);
  ASSERT_TRUE(wrong.kernel) << wrong.problem;
  EXPECT_EQ(measurer_->measure(start.task, *wrong.kernel, {}).status, MeasureStatus::WrongResult);
  for (pid_t worker : test::children_of(getpid())) kill(worker, SIGKILL);
  EXPECT_EQ(measurer_->measure(start.task, *wrong.kernel, {}).status, MeasureStatus::Crash);
  double begin = seconds_now();
  EXPECT_EQ(measurer_->measure(start.task, *wrong.kernel, {}).status, MeasureStatus::WrongResult);
  EXPECT_LT(seconds_now() - begin, start.reference_seconds) << "two runs of the reference, of both sets";
}

TEST_F(OpenCl, ADeviceThatIsNotThereIsNamed) {
  WorkerOptions options = worker_options(target());
  options.device = 200;
  measurer_ = start_worker(options).measurer;
  EXPECT_EQ(begin(kUse), -1);
  EXPECT_NE(error_.find("OpenCL device"), std::string::npos) << error_;
}

}  // namespace
}  // namespace tw
