// Every operator of the library lowers, unscheduled, and computes the same then; so does its reference in double precision.
#include <gtest/gtest.h>

#include "dsl/ir/print.h"
#include "dsl/passes/widen.h"
#include "dsl/text/workload.h"
#include "tests/unit/evaluate.h"

namespace tw {
namespace {

WorkloadArguments small_arguments(const Signature& signature) {
  WorkloadArguments out;
  for (const Signature::Parameter& parameter : signature.parameters) {
    if (parameter.name == "padding") out.push_back({parameter.name, i64{1}});
    if (!parameter.required) continue;
    bool spatial = parameter.name == "H" || parameter.name == "W" || parameter.name == "L" || parameter.name == "D";
    out.push_back({parameter.name, i64{spatial ? 4 : 2}});
  }
  return out;
}

TEST(LowerOperators, AllLower) {
  const WorkloadModule& library = operator_library();
  for (const Signature& signature : signatures(library)) {
    Diagnostics diagnostics(*library.source);
    std::optional<OwnedProgram> made = instantiate(library, signature.name, small_arguments(signature), {}, diagnostics);
    ASSERT_TRUE(made) << signature.name << "\n" << diagnostics.render();
    Program wide = widen_to_f64(*made->arena, made->program);
    for (const Program& program : {made->program, wide}) {
      std::vector<PassDump> dumps;
      Result<LoweredProgram> lowered = lower(*made->arena, program, {}, &dumps);
      ASSERT_TRUE(lowered) << to_string(lowered.rejected()) << "\n" << print(program);
      EXPECT_EQ(outputs_of(*lowered, 1), outputs_of(program, 1)) << print(program) << (dumps.empty() ? "" : dumps.back().text);
    }
    OutputValues exact = outputs_of(wide, 1), rounded = outputs_of(made->program, 1);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      for (std::size_t j = 0; j < exact[i].size(); ++j) ASSERT_NEAR(exact[i][j], rounded[i][j], 1e-4) << signature.name;
    }
  }
}

}  // namespace
}  // namespace tw
