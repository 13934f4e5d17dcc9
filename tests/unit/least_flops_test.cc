// What the bound on a kernel's time counts, and what it must leave out.
#include "sampler/search/least_flops.h"

#include <gtest/gtest.h>

#include "dsl/text/workload.h"

namespace tw {
namespace {

double least(const std::string& workload, const WorkloadArguments& arguments) {
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program = instantiate(operator_library(), workload, arguments, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return program ? least_flops(program->program) : -1;
}
WorkloadArguments with_type(WorkloadArguments arguments, DType type) {
  arguments.push_back({"T", type});
  return arguments;
}

// A workload of one statement.
double least_of(const std::string& text) {
  Source source{"test.tw", text};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  std::optional<OwnedProgram> program = instantiate(module, "own", {}, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return program ? least_flops(program->program) : -1;
}

const WorkloadArguments kGemm = {{"M", i64{8}}, {"N", i64{16}}, {"K", i64{32}}};

TEST(LeastFlops, AMultiplyAddIsTwoAndFourInDouble) {
  EXPECT_EQ(least("matmul", kGemm), 2 * 8 * 16 * 32);
  EXPECT_EQ(least("dense", kGemm), 2 * 8 * 16 * 32);
  EXPECT_EQ(least("matmul", with_type(kGemm, DType::F64)), 4 * 8 * 16 * 32);
}

TEST(LeastFlops, TypesWithInstructionsOfTheirOwnAreNotBounded) {
  for (DType type : {DType::F16, DType::BF16, DType::I8, DType::I32})
    EXPECT_EQ(least("matmul", with_type(kGemm, type)), 0) << name_of(type);
}

TEST(LeastFlops, SumsWithoutAProductAreNotBounded) {
  EXPECT_EQ(least("softmax", {{"M", i64{8}}, {"N", i64{64}}}), 0);
  EXPECT_EQ(least("max_pool2d", {{"N", i64{1}}, {"H", i64{8}}, {"W", i64{8}}, {"C", i64{4}}, {"K", i64{2}}}), 0);
}

TEST(LeastFlops, OnlyTheUnpaddedPartOfAPaddedInputIsCounted) {
  WorkloadArguments conv = {{"N", i64{1}},  {"H", i64{14}}, {"W", i64{14}},
                            {"CI", i64{8}}, {"CO", i64{4}}, {"K", i64{3}}};
  EXPECT_EQ(least("conv2d", conv), 2.0 * 12 * 12 * 4 * 9 * 8);
  conv.push_back({"padding", i64{1}});
  EXPECT_DOUBLE_EQ(least("conv2d", conv), 2.0 * 14 * 14 * 4 * 9 * 8 * (14.0 * 14) / (16 * 16));
  // What a kernel that leaves out every multiplication by padding still does.
  i64 useful = (14 * 3 - 2) * (14 * 3 - 2);
  EXPECT_LE(least("conv2d", conv), 2.0 * static_cast<double>(useful) * 4 * 8);
}

TEST(LeastFlops, ASpreadInputCountsAsTheOneItComesFrom) {
  WorkloadArguments conv = {{"N", i64{1}},  {"H", i64{14}}, {"W", i64{14}},    {"CI", i64{8}},
                            {"CO", i64{8}}, {"K", i64{3}},  {"stride", i64{2}}};
  EXPECT_DOUBLE_EQ(least("conv2d_transposed", conv), 2.0 * 29 * 29 * 8 * 9 * 8 * (14.0 * 14) / (31 * 31));
  EXPECT_LE(least("conv2d_transposed", conv), 2.0 * 14 * 14 * 9 * 8 * 8) << "each input meets each weight once";
}

TEST(LeastFlops, TermsThatPointsShareAreNotCounted) {
  EXPECT_EQ(least_of("workload own() {\n  input X: f32[8, 4]\n  input W: f32[4]\n  output Y[i: 8, j: 16] = sum(k: 4) "
                     "X[i, k] * W[k]\n}\n"),
            0);
  EXPECT_EQ(least_of("workload own() {\n  input X: f32[8, 4]\n  input W: f32[4, 16]\n  output Y[i: 16, j: 16] = sum(k: "
                     "4) X[i // 2, k] * W[k, j]\n}\n"),
            0);
}

TEST(LeastFlops, TermsUnderAConditionAreNotCounted) {
  EXPECT_EQ(least_of("workload own() {\n  input X: f32[8, 8]\n  input W: f32[8, 8]\n  output Y[i: 8, j: 8] = sum(k: 8) "
                     "(if k <= i then X[i, k] else 0) * "
                     "W[k, j]\n}\n"),
            0);
}

}  // namespace
}  // namespace tw
