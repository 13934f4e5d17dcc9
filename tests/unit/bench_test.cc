// What `bench` says of a kernel whose results are not those of its reference: all outputs are compared, by the bound of
// trials.
#include "runtime/peers/bench.h"

#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "runtime/measure/elements.h"
#include "sampler/search/trial.h"
#include "support/parsed.h"

namespace tw {
namespace {

constexpr const char* kTwoOutputs = R"(program two(X: input f32[64, 96], S: output f32[64], Y: output f32[64, 96]) {
  for i in 64 { for k in 96 { block S(i: S 64 = i, k: R 96 = k) { init { S[i] = 0.0 } S[i] = S[i] + X[i, k] } } }
  for i in 64 { for j in 96 { block Y(i: S 64 = i, j: S 96 = j) { Y[i, j] = X[i, j] * 2.0 } } }
}
)";

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kTwoOutputs;
  text.replace(text.find(from), from.size(), to);
  return text;
}

// The row of ours, of a kernel that computes `text`.
BenchRow row_of(const std::string& text) {
  OwnedProgram workload = test::parsed(kTwoOutputs), computed = test::parsed(text);
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(host_target()));
  BuiltKernel reference = build_reference(workload.program, host_target(), *compiler),
              kernel = build_kernel(computed.program, host_target(), *compiler);
  EXPECT_TRUE(reference.kernel && kernel.kernel) << reference.problem << kernel.problem;
  BenchTask task{.name = "two",
                 .kernel = *kernel.kernel,
                 .flops = 64 * 96,
                 .reference = *reference.kernel,
                 .tolerance = tolerance_of(workload.program)};
  std::vector<char> x(64 * 96 * sizeof(float));
  fill_input(1, "X", 0, DType::F32, 64 * 96, x.data());
  task.inputs.push_back({"X", x});
  BenchResult result = bench_task(task, {}, 3);
  EXPECT_EQ(result.error, "");
  return result.rows.empty() ? BenchRow{} : result.rows[0];
}

TEST(Bench, ARightKernelIsNotCalledWrong) {
  BenchRow row = row_of(kTwoOutputs);
  EXPECT_NE(row.verdict, Verdict::Wrong) << row.detail;
  EXPECT_GT(row.seconds, 0);
}

TEST(Bench, AnyOutputThatIsWrongIsFound) {
  struct Row {
    const char *from, *to, *output;
  };
  const Row rows[] = {
      {"S[i] + X[i, k]", "S[i] + X[i, k] * 1.0001", "output `S`: "},
      {"* 2.0", "* 2.0001", "output `Y`: "},  // each element within a thousandth of the largest one
      {"Y[i, j] = X[i, j] * 2.0", "if i < 63 { Y[i, j] = X[i, j] * 2.0 }",
       "output `Y`: 96 of 6144 elements are wrong; the first one is -nan"},
  };
  for (const Row& row : rows) {
    BenchRow found = row_of(changed(row.from, row.to));
    EXPECT_EQ(found.verdict, Verdict::Wrong) << row.to;
    EXPECT_TRUE(found.detail.starts_with(row.output)) << found.detail;
  }
}

TEST(Bench, AReferenceThatFailsIsSaid) {
  OwnedProgram workload = test::parsed(kTwoOutputs);
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(host_target()));
  BuiltKernel kernel = build_kernel(workload.program, host_target(), *compiler);
  BenchTask task{.name = "two", .kernel = *kernel.kernel, .flops = 1};
  EXPECT_TRUE(bench_task(task, {}, 3).error.starts_with("the reference: "));
}

}  // namespace
}  // namespace tw
