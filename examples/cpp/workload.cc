// From text to a program, and what is said if the text is wrong.
#include "dsl/text/workload.h"

#include <iostream>

#include "dsl/ir/print.h"

int main() {
  tw::Source source{"mine.tw", R"(
workload scaled(M: int, N: int, T: type = f32) {
  input X: T[M, N]
  const S: T[N]
  output Y[i: M, j: N] = X[i, j] * S[j]
}
)"};
  tw::Diagnostics diagnostics(source);
  tw::WorkloadModule module = tw::parse_workloads(source, diagnostics);
  auto program = tw::instantiate(module, "scaled", {{"M", tw::i64{4}}, {"N", tw::i64{8}}}, {}, diagnostics);
  if (!program) return std::cerr << diagnostics.render(), 1;  // file, line, column, caret, suggestion
  std::cout << tw::print(program->program);
}
