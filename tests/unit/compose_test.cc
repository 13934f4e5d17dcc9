// Several workloads as one program: what is inferred from operands, what comes out, what is refused.
#include "dsl/text/compose.h"

#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"

namespace tw {
namespace {

WorkloadModule module_of(const std::string& text) {
  Source source{"m.tw", text};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  EXPECT_EQ(diagnostics.render(), "");
  return module;
}

std::string inferred(const WorkloadModule& module, const std::string& workload, const WorkloadArguments& arguments,
                     const std::vector<OperandType>& operands) {
  return to_string(WorkloadUse{workload, with_inferred(module, workload, arguments, operands)});
}

constexpr const char* kRanks = R"(
workload w(S: ints, N: int, R: ints = [], T: type = f32, U: type = T) {
  let double = [2 * s for s in S]
  input X: T[S, N], Y: T[double, N, R], Z: U[N + 1]
  output O: U[i: S] = U(X[i, 0])
}
)";

TEST(Inference, ShapesAndTypesOfOperandsGiveWhatIsLeftOut) {
  EXPECT_EQ(inferred(operator_library(), "conv2d", {{"stride", i64{2}}},
                     {{DType::F16, {1, 56, 58, 64}}, {DType::F16, {3, 3, 64, 128}}}),
            "conv2d(stride = 2, T = f16, N = 1, H = 56, W = 58, CI = 64, K = 3, CO = 128)");
  WorkloadModule ranks = module_of(kRanks);
  EXPECT_EQ(inferred(ranks, "w", {}, {{DType::F32, {2, 3, 4}}}), "w(T = f32, N = 4, S = [2, 3])");
  EXPECT_EQ(inferred(ranks, "w", {}, {{DType::F32, {4}}}), "w(T = f32, N = 4, S = [])");
  // Of `double` the length is not known, so what lies between it and R cannot be told.
  EXPECT_EQ(inferred(ranks, "w", {}, {{DType::F32, {2, 4}}, {DType::F32, {4, 4, 9}}, {DType::F64, {5}}}),
            "w(T = f32, N = 4, S = [2], U = f64)");
  // What is given stays, also where an operand has another shape: instantiating it tells.
  EXPECT_EQ(inferred(ranks, "w", {{"N", i64{7}}}, {{DType::F32, {2, 4}}}), "w(N = 7, T = f32, S = [2])");
  EXPECT_EQ(inferred(ranks, "w", {}, {{DType::F32, {}}}), "w(T = f32)");
  EXPECT_EQ(inferred(ranks, "w", {{"S", std::vector<i64>{}}, {"N", i64{2}}}, {{DType::F32, {}}}),
            "w(S = [], N = 2, T = f32)");
}

TEST(Compose, AProgramOfSeveralWorkloadsIsThatOfTheirStages) {
  WorkloadModule module = module_of(R"(
workload scaled(S: ints, T: type) {
  input X: T[S]
  output Y: T[i: S] = 2 * X[i]
}
workload whole(M: int, N: int, K: int) {
  input X: f32[M, K]
  const W: f32[K, N]
  D[i: M, j: N] = sum(k: K) X[i, k] * W[k, j]
  output Y[i: M, j: N] = 2 * D[i, j]
}
)");
  te::Definition composed("whole");
  te::Tensor X = composed.input("X", DType::F32, {5, 7}), W = composed.constant("W", DType::F32, {7, 6});
  Diagnostics of_library(*operator_library().source), of_module(*module.source);
  auto product = add_workload(composed, operator_library(), "dense", {}, {X, W}, false, of_library);
  ASSERT_TRUE(product) << of_library.render();
  auto result = add_workload(composed, module, "scaled", {}, *product, true, of_module);
  ASSERT_TRUE(result) << of_module.render();
  std::optional<OwnedProgram> whole =
      instantiate(module, "whole", {{"M", i64{5}}, {"N", i64{6}}, {"K", i64{7}}}, {}, of_module);
  ASSERT_TRUE(whole);
  OwnedProgram made = composed.finish();
  EXPECT_EQ(structural_hash(made.program), structural_hash(whole->program))
      << print(made.program) << print(whole->program);
}

TEST(Compose, WhatDoesNotFitIsSaid) {
  auto message = [](const WorkloadArguments& arguments, const std::vector<std::vector<i64>>& shapes) {
    te::Definition definition("d");
    std::vector<te::Tensor> operands;
    for (const std::vector<i64>& shape : shapes) operands.push_back(definition.input("A", DType::F32, shape));
    Diagnostics diagnostics(*operator_library().source);
    EXPECT_FALSE(add_workload(definition, operator_library(), "dense", arguments, operands, true, diagnostics));
    return diagnostics.all().empty() ? std::string() : diagnostics.all()[0].message;
  };
  EXPECT_EQ(message({}, {{5, 7}, {8, 6}}), "expected f32[7, 6] for `W`, found f32[8, 6]");
  EXPECT_EQ(message({}, {{5, 7}, {7, 6}, {6}}), "`dense` reads 2 operands, found 3");
  EXPECT_EQ(message({}, {{5, 7}}), "`dense` needs the argument `N`");
  EXPECT_EQ(message({{"N", i64{6}}}, {{5, 7}}), "`dense` has no operand for `W`");
  EXPECT_EQ(message({{"T", DType::F16}}, {{5, 7}, {7, 6}}), "expected f16[5, 7] for `X`, found f32[5, 7]");
}

}  // namespace
}  // namespace tw
