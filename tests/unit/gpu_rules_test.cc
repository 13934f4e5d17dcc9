// Rule sets for devices: draws of every operator, postprocessed and lowered to kernels, compute what the operator does.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/device_form.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/thread_axes.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"
#include "support/drawn_kernels.h"
#include "support/parsed.h"
#include "tests/unit/operator_kit.h"

namespace tw {
namespace {

struct Tally {
  int draws = 0;       // that verify_gpu_code lets pass, or that something else rejects
  int wrong_size = 0;  // what verify_gpu_code rejects: the reference draws many groups of the wrong size, above all of
                       // small operators
  int lowered = 0, with_mma = 0;
  std::map<std::string, int> reasons;
};

void check_draws(const OwnedProgram& made, const std::string& what, const std::string& set, const Target& target,
                 int draws, Tally& tally) {
  static const rules::Library library = rules::Library::built_in();
  std::string errors;
  CandidateSpace space = make_candidate_space(made.program, *library.find_set(set), library, target, errors);
  ASSERT_EQ(errors, "") << what;
  OutputValues expected = outputs_of(made.program, 1);
  CandidateBuilder builder(space);
  for (std::size_t s = 0; s < space.space.sketches.size(); ++s) {
    for (int n = 0; n < draws; ++n) {
      Rng rng(static_cast<u64>(n), s);
      Candidate candidate;
      ASSERT_TRUE(builder.draw(static_cast<int>(s), candidate, rng)) << what;
      Result<Program> program = builder.build(candidate, &rng);
      if (!program) {
        std::string why = to_string(program.rejected());
        ++(why.find("verify_gpu_code") == std::string::npos ? tally.draws : tally.wrong_size);
        ++tally.reasons[why];
        continue;
      }
      ++tally.draws;
      std::string trace = cat(what, "\n", full_trace(space, candidate)->print());
      EXPECT_TRUE(near(outputs_of(*program, 1), expected)) << trace;
      Arena arena;
      LoweringOptions options = lowering_options(target);
      options.max_instructions = 20000;
      Result<LoweredGpuProgram> kernels = lower_gpu(arena, *program, options, gpu_limits(target));
      if (!kernels) {
        ++tally.reasons[to_string(kernels.rejected())];
        continue;
      }
      ++tally.lowered;
      tally.with_mma += space.space.sketches[s].trace.print().find("\"warp_mma\"") != std::string::npos;
      EXPECT_TRUE(near(outputs_of(as_interpreted(arena, *kernels), 1), expected)) << "lowered: " << trace;
    }
  }
}

std::string text_of(const Tally& tally) {
  std::string out =
      cat(tally.lowered, " of ", tally.draws, " lowered, ", tally.wrong_size, " groups of the wrong size\n");
  for (const auto& [reason, count] : tally.reasons) out += cat(count, " x ", reason, "\n");
  return out;
}

// Set, target, share of draws in percent that become kernels at least, of so many, and groups of the wrong size at
// most.
using Row = std::tuple<const char*, const char*, int, int, int>;
class DeviceSets : public ::testing::TestWithParam<Row> {};

TEST_P(DeviceSets, DrawsComputeTheSame) {
  auto [set, target, share, least_draws, most_wrong] = GetParam();
  Tally tally;
  for (const Signature& signature : signatures(operator_library()))
    check_draws(workload(signature.name, arguments_for(signature)), signature.name, set, test::parsed_target(target), 2,
                tally);
  check_draws(workload("dense", {{"M", i64{7}}, {"N", i64{20}}, {"K", i64{9}}}, {"bias", "gelu"}), "dense bias gelu",
              set, test::parsed_target(target), 6, tally);
  check_draws(workload("softmax", {{"M", i64{5}}, {"N", i64{300}}}), "softmax of long rows", set,
              test::parsed_target(target), 3, tally);
  EXPECT_GE(tally.lowered * 100, tally.draws * share) << text_of(tally);
  EXPECT_GE(tally.draws, least_draws) << text_of(tally);
  EXPECT_LE(tally.wrong_size, most_wrong) << text_of(tally);
}

INSTANTIATE_TEST_SUITE_P(Reference, DeviceSets,
                         ::testing::Values(Row{"reference-cuda", "cuda -arch=sm_80", 75, 35, 100},
                                           Row{"reference-cuda", "opencl", 75, 35, 45}),
                         [](const auto& info) { return cat(std::get<1>(info.param)[0] == 'c' ? "cuda" : "opencl"); });

INSTANTIATE_TEST_SUITE_P(Own, DeviceSets, ::testing::Values(Row{"cuda", "cuda -arch=sm_80", 90, 60, 0}),
                         [](const auto&) { return "cuda"; });

// Does a group of this draw of the sketch have several work-items?
bool shares_groups(CandidateBuilder& builder, int sketch) {
  Rng rng(3, static_cast<u64>(sketch));
  Candidate candidate;
  if (!builder.draw(sketch, candidate, rng)) return false;
  Result<Program> program = builder.build(candidate, &rng);
  bool found = false;
  if (program)
    for_each<For>(program->body, [&](const For* loop) { found |= is_thread_loop(loop) && loop->extent > 1; });
  return found;
}

class SharedGroups : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

// Work-items, vectors and tiles are drawn for every operator, not fixed.
TEST_P(SharedGroups, EveryOperatorHasSeveralPointsOfThem) {
  auto [set, text] = GetParam();
  rules::Library library = rules::Library::built_in();
  for (const Signature& signature : signatures(operator_library())) {
    OwnedProgram made = workload(signature.name, arguments_for(signature));
    std::string errors;
    CandidateSpace space =
        make_candidate_space(made.program, *library.find_set(set), library, test::parsed_target(text), errors);
    ASSERT_EQ(errors, "") << signature.name;
    CandidateBuilder builder(space);
    double points = 0;
    for (std::size_t s = 0; s < space.space.sketches.size(); ++s) {
      if (shares_groups(builder, static_cast<int>(s))) points += std::pow(10, log10_points(space.space.sketches[s]));
    }
    EXPECT_GT(points, 4) << signature.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Own, SharedGroups,
                         ::testing::Values(std::pair{"cuda", "cuda -arch=sm_80"}, std::pair{"opencl", "opencl"}),
                         [](const auto& info) { return info.param.first; });

// An OpenCL device that is said to be a GPU: its analytic model drafts, and wants a warp of work-items at least along
// one axis. Devices of which nothing is said are ranked as processors, which want few.
TEST(OpenCl, DraftsAreThoseOfTheGpuThatATargetNames) {
  rules::Library library = rules::Library::built_in();
  OwnedProgram made = workload("matmul", {{"M", i64{512}}, {"N", i64{512}}, {"K", i64{512}}});
  std::string errors;
  auto threads_of_best = [&](const char* text) {
    CandidateSpace space =
        make_candidate_space(made.program, *library.find_set("opencl"), library, test::parsed_target(text), errors);
    CandidateBuilder builder(space);
    i64 threads = 0;
    double best = 0;
    for (std::size_t n = 0; n < 400; ++n) {
      Candidate candidate;
      Rng rng(n);
      if (!builder.draw(static_cast<int>(n % space.space.sketches.size()), candidate, rng)) continue;
      Result<Program> program = builder.build(candidate, &rng);
      if (!program || (best > 0 && candidate.draft >= best)) continue;
      best = candidate.draft, threads = 1;
      for_each<For>(program->body, [&](const For* loop) {
        if (is_thread_loop(loop)) threads = std::max(threads, loop->extent);
      });
    }
    return threads;
  };
  EXPECT_GE(threads_of_best("opencl -gpu=a100"), 32);
  EXPECT_LE(threads_of_best("opencl"), 8);
}

// Halves on tensor cores: the lanes' loops are what is interpreted.
TEST(TensorCores, DrawsComputeTheSame) {
  for (const char* set : {"cuda", "reference-cuda-tensorcore"}) {
    Tally tally;
    WorkloadArguments matmul{{"M", i64{32}}, {"N", i64{32}}, {"K", i64{32}}, {"T", DType::F16}};
    check_draws(workload("matmul", matmul), "matmul of halves", set, test::parsed_target("cuda -arch=sm_80"), 8, tally);
    WorkloadArguments conv{{"N", i64{1}}, {"H", i64{9}}, {"W", i64{9}}, {"CI", i64{8}}, {"CO", i64{16}}, {"K", i64{2}}};
    conv.push_back({"T", DType::BF16});
    check_draws(workload("conv2d", conv), "convolution of halves", set, test::parsed_target("cuda -arch=sm_80"), 8,
                tally);
    WorkloadArguments odd{{"B", i64{2}}, {"M", i64{21}}, {"N", i64{13}}, {"K", i64{19}}, {"T", DType::F16}};
    check_draws(workload("batch_matmul", odd), "odd products of halves", set, test::parsed_target("cuda -arch=sm_80"),
                8, tally);
    EXPECT_GE(tally.with_mma, 8) << set << "\n" << text_of(tally);
  }
}

// How many kernels copy so many bytes at once into a buffer.
int copying(const test::DrawnKernels& drawn, int bytes, const char* buffer) {
  return static_cast<int>(std::count_if(drawn.kernels.begin(), drawn.kernels.end(), [&](const Kernel& kernel) {
    return kernel.code.find(cat("tw_copy_async_", bytes, "(", buffer)) != std::string::npos;
  }));
}

// Vectors of copies go along the rows of what is read: 16 bytes of an operand whose rows run across the sum, or which
// keeps its rows, single words of one that is turned on its way into shared memory.
TEST(WarpTiling, CopiesFollowTheRowsOfOperands) {
  test::DrawnKernels drawn = test::drawn_kernels("matmul(M = 256, N = 256, K = 256)", "cuda", test::cuda_target(), 90);
  EXPECT_EQ(drawn.rejected, "");
  EXPECT_GE(copying(drawn, 16, "B_shared"), 4);
  EXPECT_GE(copying(drawn, 8, "B_shared"), 4);
  EXPECT_GE(copying(drawn, 16, "A_shared"), 4);
  auto is_turned = [](const Kernel& kernel) {  // rows of shared memory hold 32 elements and more of a column of A
    return kernel.code.find("tw_copy_async_4(A_shared") != std::string::npos;
  };
  EXPECT_GE(std::ranges::count_if(drawn.kernels, is_turned), 12);
  for (const Kernel& kernel : drawn.kernels) {
    for (const char* wide : {"tw_copy_async_16(A_shared", "tw_copy_async_8(A_shared"})
      EXPECT_FALSE(is_turned(kernel) && kernel.code.find(wide) != std::string::npos);
  }
}

// A product with few results and a long sum is cut: matrix instructions compute parts of it, a second kernel their sum.
TEST(WarpMma, LongSumsAreSplit) {
  static const rules::Library library = rules::Library::built_in();
  WorkloadArguments arguments{{"M", i64{32}}, {"N", i64{32}}, {"K", i64{128}}, {"T", DType::F16}};
  OwnedProgram made = workload("matmul", arguments);
  OutputValues expected = outputs_of(made.program, 1);
  std::string errors;
  CandidateSpace space =
      make_candidate_space(made.program, *library.find_set("cuda"), library, test::cuda_target(), errors);
  CandidateBuilder builder(space);
  int found = 0;
  for (std::size_t s = 0; s < space.space.sketches.size(); ++s) {
    std::string trace = space.space.sketches[s].trace.print();
    if (trace.find("split_k(") == std::string::npos || trace.find("\"warp_mma\"") == std::string::npos) continue;
    for (u64 seed = 0; seed < 3; ++seed) {
      Rng rng(seed, s);
      Candidate candidate;
      ASSERT_TRUE(builder.draw(static_cast<int>(s), candidate, rng));
      Result<Program> program = builder.build(candidate, &rng);
      ASSERT_TRUE(program) << to_string(program.rejected());
      Arena arena;
      Result<LoweredGpuProgram> kernels =
          lower_gpu(arena, *program, lowering_options(test::cuda_target()), gpu_limits(test::cuda_target()));
      ASSERT_TRUE(kernels) << to_string(kernels.rejected());
      EXPECT_EQ(kernels->run.size(), 2u) << trace;
      EXPECT_TRUE(near(outputs_of(as_interpreted(arena, *kernels), 1), expected))
          << full_trace(space, candidate)->print();
      ++found;
    }
  }
  EXPECT_GE(found, 3);
}

// Products whose operands begin where 16 bytes do not, or whose rows are no multiple of them, keep their sketches:
// copies are as wide as all of them allow.
TEST(WarpMma, OperandsMayBeginAnywhere) {
  static const rules::Library library = rules::Library::built_in();
  const Source source{"windows", R"(
workload window() {
  input X: f16[127]
  const W: f16[64, 64]
  output Y: f32[i: 64, j: 64] = sum(k: 64) in f32 f32(X[i + k]) * f32(W[k, j])
}
workload shifted() {
  input X: f16[64, 72]
  const W: f16[64, 64]
  output Y: f32[i: 64, j: 64] = sum(k: 64) in f32 f32(X[i, k + 1]) * f32(W[k, j])
}
workload slice() {
  input X: f16[64, 68]
  const W: f16[64, 64]
  output Y: f32[i: 64, j: 64] = sum(k: 64) in f32 f32(X[i, k]) * f32(W[k, j])
}
)"};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  ASSERT_FALSE(diagnostics.has_errors()) << diagnostics.render();
  for (const char* name : {"window", "shifted", "slice"}) {
    std::optional<OwnedProgram> made = instantiate(module, name, {}, {}, diagnostics);
    ASSERT_TRUE(made) << diagnostics.render();
    std::string errors;
    CandidateSpace space =
        make_candidate_space(made->program, *library.find_set("cuda"), library, test::cuda_target(), errors);
    CandidateBuilder builder(space);
    int found = 0;
    for (std::size_t s = 0; s < space.space.sketches.size(); ++s) {
      if (space.space.sketches[s].trace.print().find("\"warp_mma\"") == std::string::npos) continue;
      for (u64 seed = 0; seed < 12; ++seed) {
        Rng rng(seed, s);
        Candidate candidate;
        ASSERT_TRUE(builder.draw(static_cast<int>(s), candidate, rng)) << name;
        Result<Program> program = builder.build(candidate, &rng);
        EXPECT_TRUE(program) << name << ": " << (program ? "" : to_string(program.rejected()));
        ++found;
      }
    }
    EXPECT_GE(found, 12) << name;
  }
}

// A convolution is a product of its own form, of one image or several: neither its padding nor what follows it needs a
// kernel of its own.
using Convolution = std::tuple<int, int, DType, const char*>;  // images, padding, type, rule
class ConvolutionsAreProducts : public ::testing::TestWithParam<Convolution> {};

TEST_P(ConvolutionsAreProducts, InOneKernel) {
  auto [images, padding, type, rule] = GetParam();
  WorkloadArguments conv{{"N", i64{images}}, {"H", i64{10}},  {"W", i64{10}},
                         {"CI", i64{16}},    {"CO", i64{16}}, {"K", i64{3}}};
  conv.push_back({"padding", i64{padding}});
  conv.push_back({"T", type});
  OwnedProgram made = workload("conv2d", conv, {"bias", "relu"});
  rules::Library library = rules::Library::built_in();
  Target target = test::parsed_target("cuda -arch=sm_80");
  std::string errors;
  CandidateSpace space = make_candidate_space(made.program, *library.find_set("cuda"), library, target, errors);
  ASSERT_EQ(errors, "");
  CandidateBuilder builder(space);
  int found = 0;
  for (std::size_t s = 0; s < space.space.sketches.size(); ++s) {
    const std::vector<std::string>& names = space.space.sketches[s].rules;
    bool is_split = space.space.sketches[s].trace.print().find("split_k(") != std::string::npos;
    if (std::find(names.begin(), names.end(), rule) == names.end() || is_split) continue;
    Rng rng(0, s);
    Candidate candidate;
    ASSERT_TRUE(builder.draw(static_cast<int>(s), candidate, rng));
    Result<Program> program = builder.build(candidate, &rng);
    ASSERT_TRUE(program) << to_string(program.rejected());
    Arena arena;
    Result<LoweredGpuProgram> kernels = lower_gpu(arena, *program, lowering_options(target), gpu_limits(target));
    ASSERT_TRUE(kernels) << to_string(kernels.rejected());
    EXPECT_EQ(kernels->run.size(), 1u) << full_trace(space, candidate)->print();
    ++found;
  }
  EXPECT_GE(found, 1);
}

INSTANTIATE_TEST_SUITE_P(TensorCores, ConvolutionsAreProducts,
                         ::testing::Combine(::testing::Values(1, 3), ::testing::Values(0, 1),
                                            ::testing::Values(DType::F16), ::testing::Values("warp_mma")));
INSTANTIATE_TEST_SUITE_P(Floats, ConvolutionsAreProducts,
                         ::testing::Combine(::testing::Values(1, 3), ::testing::Values(0, 1),
                                            ::testing::Values(DType::F32), ::testing::Values("warp_tiling")));

}  // namespace
}  // namespace tw
