#include "support/small_operators.h"

#include <gtest/gtest.h>

#include "dsl/text/workload.h"

namespace tw::test {
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

}  // namespace

std::vector<SmallOperator> small_operators() {
  std::vector<SmallOperator> out;
  const WorkloadModule& library = operator_library();
  for (const Signature& signature : signatures(library)) {
    Diagnostics diagnostics(*library.source);
    std::optional<OwnedProgram> made =
        instantiate(library, signature.name, small_arguments(signature), {}, diagnostics);
    EXPECT_TRUE(made) << signature.name << "\n" << diagnostics.render();
    if (made) out.push_back({signature.name, *made});
  }
  return out;
}

}  // namespace tw::test
