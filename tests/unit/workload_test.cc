// Workloads as text: programs that come out, whole messages for wrong text and wrong calls, hostile input.
#include <gtest/gtest.h>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "dsl/te/te.h"
#include "dsl/text/workload.h"

namespace tw {
namespace {

// The program of workload `w` in the text as printed, or the messages.
std::string result_of(const std::string& text, const WorkloadArguments& arguments = {}, const std::vector<std::string>& epilogues = {}) {
  Source source{"w.tw", text};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  if (diagnostics.has_errors()) return diagnostics.render();
  std::optional<OwnedProgram> made = instantiate(module, "w", arguments, epilogues, diagnostics);
  return made ? print(made->program) : diagnostics.render();
}

TEST(Workload, OperatorsHaveNoErrors) {
  for (const EmbeddedText& text : embedded_texts()) {
    if (text.path != "dsl/te/operators.tw") continue;
    Source source{std::string(text.path), std::string(text.text)};
    Diagnostics diagnostics(source);
    parse_workloads(source, diagnostics);
    EXPECT_EQ(diagnostics.render(), "");
  }
}

TEST(Workload, DenseGeluIsTheProgramOfTheManual) {
  EXPECT_EQ(result_of(R"(workload w(M: int, N: int, K: int, T: type = f32) {
  input X: T[M, K]
  const W: T[K, N], bias: T[N]            # rewritten once, outside the kernel
  D[i: M, j: N] = sum(k: K) X[i, k] * W[k, j]
  output Y[i: M, j: N] = gelu(D[i, j] + bias[j])
})", {{"M", i64{4}}, {"N", i64{5}}, {"K", i64{6}}}), "");
}
}  // namespace
}  // namespace tw
