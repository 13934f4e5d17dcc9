// The interpreter against plain loops, its rounding, and everything that it must notice.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/interpreter.h"
#include "backends/interpreter_scalar.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/text/parse_program.h"
#include "dsl/text/workload.h"

namespace tw {
namespace {

OwnedProgram parsed(const std::string& text) {
  Source source{"p", text};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> program = parse_program(source, diagnostics);
  EXPECT_EQ(diagnostics.render(), "");
  return program ? *program : OwnedProgram{std::make_shared<Arena>(), {}};
}

OwnedProgram operation(const std::string& use_text, const std::vector<std::string>& epilogues = {}) {
  Source source{"use", use_text};
  Diagnostics of_use(source);
  std::optional<WorkloadUse> use = parse_use(source, of_use);
  EXPECT_TRUE(use) << of_use.render();
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program = instantiate(operator_library(), use->workload, use->arguments, epilogues, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return program ? *program : OwnedProgram{std::make_shared<Arena>(), {}};
}

// Small integers, so that sums are exact in every type; `scale` makes fractions of them.
std::vector<HostArray> arrays_for(const Program& program, double scale = 1, u64 seed = 1) {
  std::vector<HostArray> arrays;
  Rng rng(seed);
  for (const Param& param : program.params) {
    arrays.push_back(HostArray::like(param.buffer));
    if (param.role == Role::Output) continue;
    for (i64 i = 0; i < arrays.back().elements(); ++i) arrays.back().set(i, scale * static_cast<double>(rng.below(9) - 4));
  }
  return arrays;
}

// Runs with every point of every block counted.
std::vector<HostArray> run(const Program& program, double scale = 1) {
  std::vector<HostArray> arrays = arrays_for(program, scale);
  EXPECT_EQ(interpret(program, arrays, {.exact_coverage = true}), "") << print(program);
  return arrays;
}

std::string error_of(const std::string& text, const InterpretOptions& options = {}) {
  OwnedProgram program = parsed(text);
  std::vector<HostArray> arrays = arrays_for(program.program);
  return interpret(program.program, arrays, options);
}

TEST(Operators, Matmul) {
  constexpr i64 M = 5, N = 7, K = 3;
  std::vector<HostArray> a = run(operation("matmul(M = 5, N = 7, K = 3)").program);
  for (i64 i = 0; i < M; ++i) {
    for (i64 j = 0; j < N; ++j) {
      double sum = 0;
      for (i64 k = 0; k < K; ++k) sum += a[0].get(i * K + k) * a[1].get(k * N + j);
      EXPECT_EQ(a[2].get(i * N + j), sum);
    }
  }
}
}  // namespace
}  // namespace tw
