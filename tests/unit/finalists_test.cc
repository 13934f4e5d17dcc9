// The search without a device: what comes out of it keeps what it promises, and depends on nothing that it should not.
#include "sampler/search/finalists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "backends/cuda/promised_opcodes.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "runtime/lists/device_file.h"
#include "support/device_schedules.h"
#include "support/nvrtc.h"
#include "support/scheduled.h"

namespace tw {
namespace {

TuneTask task_of(const std::string& op, WorkloadArguments arguments, const std::string& arch) {
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program = instantiate(operator_library(), op, arguments, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  Source text{"target", "cuda -arch=" + arch};
  Diagnostics target_diagnostics(text);
  return {"task", std::move(*program), *parse_target(text.text, 0, target_diagnostics), 1, {}};
}

FinalistResult search(const TuneTask& task, const FinalistOptions& options) {
  static const rules::Library library = rules::Library::built_in();
  std::atomic<bool> stop{false};
  return find_finalists(task, library, options, stop);
}

// Machine code with these opcodes alone.
cuda::Compiled code_of(std::map<int, int> opcodes) {
  cuda::Compiled out;
  out.code.push_back({.name = "k", .opcodes = std::move(opcodes)});
  return out;
}

TEST(PromisedOpcodes, FollowFromTheMarksOfAProgram) {
  constexpr int kFfma = 0x223, kHmma = 0x23c, kLdsm = 0x83b, kLdgsts = 0xfae;
  auto tiled = [](int stages, const char* more) {
    return test::Scheduled("matmul(M = 8, N = 16, K = 32)", {},
                           cat(test::gpu_gemm_schedule({}), "pipeline(k0, ", stages, ")\n", more));
  };
  test::Scheduled async = tiled(3, "make_async(c0)\n"), plain = tiled(3, ""), not_ahead = tiled(1, "make_async(c0)\n");
  EXPECT_EQ(cuda::missing_opcode(async.program(), "sm_80", code_of({{kFfma, 8}})), "LDGSTS");
  EXPECT_EQ(cuda::missing_opcode(async.program(), "sm_90a", code_of({{kFfma, 8}})), "LDGSTS");
  EXPECT_EQ(cuda::missing_opcode(async.program(), "sm_80", code_of({{kFfma, 8}, {kLdgsts, 2}})), "");
  EXPECT_EQ(cuda::missing_opcode(async.program(), "sm_75", code_of({{kFfma, 8}})), "")
      << "which has no such instruction";
  EXPECT_EQ(cuda::missing_opcode(plain.program(), "sm_80", code_of({{kFfma, 8}})), "");
  EXPECT_EQ(cuda::missing_opcode(not_ahead.program(), "sm_80", code_of({{kFfma, 8}})), "");
  test::Scheduled mma("matmul(M = 64, N = 64, K = 64, T = f16)", {}, test::warp_mma_schedule(false));
  EXPECT_EQ(cuda::missing_opcode(mma.program(), "sm_80", code_of({{kFfma, 8}, {kLdsm, 1}, {kLdgsts, 1}})), "HMMA");
  EXPECT_EQ(cuda::missing_opcode(mma.program(), "sm_80", code_of({{kHmma, 8}, {kLdgsts, 1}})), "LDSM");
  EXPECT_EQ(cuda::missing_opcode(mma.program(), "sm_80", code_of({{kHmma, 8}, {kLdsm, 1}})), "LDGSTS");
  EXPECT_EQ(cuda::missing_opcode(mma.program(), "sm_80", code_of({{kHmma, 8}, {kLdsm, 1}, {kLdgsts, 1}})), "");
  constexpr int kDmma = 0x23f;
  test::Scheduled doubles("matmul(M = 8, N = 8, K = 4, T = f64)", {},
                          "b = get_block(\"C\")\ni, j, k = get_loops(b)\nannotate(j, \"warp_mma\", 1)\n");
  EXPECT_EQ(cuda::missing_opcode(doubles.program(), "sm_80", code_of({{kFfma, 8}})), "HMMA");
  EXPECT_EQ(cuda::missing_opcode(doubles.program(), "sm_80", code_of({{kDmma, 8}})), "")
      << "doubles do not come by ldmatrix";
}

class Finalists : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  }
};

TEST_F(Finalists, AreFitForTheirDevice) {
  for (const char* arch : {"sm_80", "sm_90a"}) {
    TuneTask task = task_of("dense", {{"M", i64{128}}, {"N", i64{96}}, {"K", i64{64}}}, arch);
    FinalistResult result = search(task, {.count = 3, .rounds = 2});
    ASSERT_EQ(result.finalists.size(), 3u) << result.problem;
    std::string errors;
    GpuDevice device = *device_of(task.target, errors);
    double last = 0;
    for (const Finalist& finalist : result.finalists) {
      EXPECT_EQ(cuda::why_unfit(finalist.compiled), "");
      EXPECT_NE(finalist.compiled.ptx.find(std::string(".target ") + arch), std::string::npos);
      std::size_t prepacked = finalist.source.manifest.prepack_launches.size();
      ASSERT_EQ(finalist.kernels.size(), prepacked + finalist.source.manifest.run_launches.size());
      for (std::size_t i = 0; i < finalist.kernels.size(); ++i) {
        EXPECT_GT(finalist.kernels[i].blocks, 0);
        EXPECT_EQ(finalist.kernels[i].seconds.has_value(), i >= prepacked);
        EXPECT_GT(finalist.kernels[i].seconds.value_or(1), 0);
      }
      for (const FinalistFit& fit : finalist.kernels) {
        auto is_its_code = [&](const cuda::CubinKernel& code) { return code.name == fit.name; };
        const cuda::CubinKernel& code =
            *std::find_if(finalist.compiled.code.begin(), finalist.compiled.code.end(), is_its_code);
        EXPECT_DOUBLE_EQ(fit.stalls * code.instructions(), code.register_conflicts);
      }
      EXPECT_GE(finalist.seconds + 1e-9, finalist.draft_seconds) << "with stalls";
      EXPECT_GE(finalist.seconds, last);
      last = finalist.seconds;
    }
  }
}

// What a model cannot tell apart is one finalist, not all of them.
TEST_F(Finalists, AreOfSeveralFamilies) {
  // The second one by a sum in parts, which a short kernel adds.
  WorkloadArguments product{{"M", i64{4096}}, {"N", i64{4096}}, {"K", i64{4096}}};
  WorkloadArguments convolution{{"N", i64{16}},   {"H", i64{14}}, {"W", i64{14}},     {"CI", i64{256}},
                                {"CO", i64{256}}, {"K", i64{3}},  {"padding", i64{1}}};
  for (const TuneTask& task : {task_of("matmul", product, "sm_90a"), task_of("conv2d", convolution, "sm_90a")}) {
    FinalistResult result = search(task, {.count = 6, .rounds = 2});
    std::set<std::vector<i64>> families;
    std::set<std::string> slowest;
    for (const Finalist& finalist : result.finalists) {
      families.insert(finalist.family);
      auto longer = [](const FinalistFit& a, const FinalistFit& b) { return a.seconds < b.seconds; };
      const FinalistFit& kernel = *std::max_element(finalist.kernels.begin(), finalist.kernels.end(), longer);
      std::size_t begin = finalist.source.code.find(kernel.name);
      slowest.insert(finalist.source.code.substr(begin, finalist.source.code.find("\n}\n", begin) - begin));
    }
    EXPECT_GE(families.size(), 5u) << task.program.program.name;
    EXPECT_GE(slowest.size(), 5u) << task.program.program.name;
    auto [best, worst] =
        std::minmax_element(result.finalists.begin(), result.finalists.end(),
                            [](const Finalist& a, const Finalist& b) { return a.draft_seconds < b.draft_seconds; });
    EXPECT_LE(worst->draft_seconds, 1.25 * best->draft_seconds) << task.program.program.name;
  }
}

TEST_F(Finalists, DoNotDependOnThreads) {
  TuneTask task = task_of("matmul", {{"M", i64{128}}, {"N", i64{128}}, {"K", i64{64}}}, "sm_80");
  FinalistResult one = search(task, {.count = 3, .rounds = 2, .seed = 5, .threads = 1});
  FinalistResult two = search(task, {.count = 3, .rounds = 2, .seed = 5, .threads = 2});
  ASSERT_EQ(one.finalists.size(), 3u);
  ASSERT_EQ(two.finalists.size(), 3u);
  // Not so the machine code, and what order it gives them: NVRTC 13.0 itself sometimes merges other loads of one text,
  // in one process and thread, too.
  auto by_program = [](const Finalist& a, const Finalist& b) { return a.candidate.program < b.candidate.program; };
  for (FinalistResult* result : {&one, &two}) std::sort(result->finalists.begin(), result->finalists.end(), by_program);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(one.finalists[i].candidate.program, two.finalists[i].candidate.program);
    EXPECT_EQ(one.finalists[i].source.code, two.finalists[i].source.code);
  }
}

TEST_F(Finalists, TheGateHasTheLastWord) {
  TuneTask task = task_of("matmul", {{"M", i64{64}}, {"N", i64{64}}, {"K", i64{32}}}, "sm_80");
  std::mutex mutex;
  int asked = 0;
  auto uses_shared = [](const Kernel& source) { return source.code.find("__shared__") != std::string::npos; };
  FinalistResult result = search(task, {.count = 2, .rounds = 2, .gate = [&](const Kernel& source, const Program&) {
                                          std::lock_guard lock(mutex);
                                          ++asked;
                                          return GateVerdict{uses_shared(source) ? "a race" : "", ""};
                                        }});
  EXPECT_GT(asked, 0);
  EXPECT_EQ(result.dropped.at("emulation").example, "a race");
  EXPECT_TRUE(result.dropped.at("emulation").trace);
  for (const Finalist& finalist : result.finalists) {
    EXPECT_TRUE(finalist.is_checked);
    EXPECT_FALSE(uses_shared(finalist.source));
  }
}

// The estimate before compiling is near what ptxas needs, or candidates would be judged by the wrong occupancy.
TEST_F(Finalists, RegistersAreEstimated) {
  TuneTask task = task_of("matmul", {{"M", i64{256}}, {"N", i64{256}}, {"K", i64{128}}}, "sm_80");
  rules::Library library = rules::Library::built_in();
  std::string errors;
  CandidateSpace space =
      make_candidate_space(task.program.program, *library.find_set("cuda"), library, task.target, errors);
  CandidateBuilder builder(space);
  GpuDraft draft(*space.gpu);
  FinalistResult result = search(task, {.count = 8, .rounds = 2});
  ASSERT_EQ(result.finalists.size(), 8u);
  for (Finalist& finalist : result.finalists) {
    Result<Program> program = builder.build(finalist.candidate, nullptr);
    ASSERT_TRUE(program);
    draft.seconds(*program);
    int real = finalist.compiled.code.at(0).registers;
    EXPECT_GT(draft.kernels().at(0).registers, 0.5 * real);
    EXPECT_LT(draft.kernels().at(0).registers, 2 * real);
  }
}

TEST_F(Finalists, SayWhyThereAreNone) {
  TuneTask task = task_of("matmul", {{"M", i64{64}}, {"N", i64{64}}, {"K", i64{32}}}, "sm_75");
  EXPECT_NE(search(task, {}).problem.find("there is no description of a device with arch sm_75"), std::string::npos);
  task = task_of("matmul", {{"M", i64{64}}, {"N", i64{64}}, {"K", i64{32}}}, "sm_80");
  EXPECT_NE(search(task, {.rules = "cudo"}).problem.find("there is no rule set `cudo`"), std::string::npos);
}

}  // namespace
}  // namespace tw
