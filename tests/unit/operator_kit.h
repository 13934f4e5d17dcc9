// Every operator of the library at small extents, and what it computes: for tests of rule sets.
#pragma once
#include <cmath>

#include "dsl/text/workload.h"
#include "tests/unit/evaluate.h"

namespace tw {

inline OwnedProgram workload(const std::string& name, const WorkloadArguments& arguments,
                             const std::vector<std::string>& epilogues = {}) {
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> made = instantiate(operator_library(), name, arguments, epilogues, diagnostics);
  EXPECT_TRUE(made) << diagnostics.render();
  return *made;
}

// Extents for which each tile level has something to do; one of them prime.
inline WorkloadArguments arguments_for(const Signature& signature) {
  WorkloadArguments out;
  for (const Signature::Parameter& parameter : signature.parameters) {
    if (parameter.name == "padding") out.push_back({parameter.name, i64{1}});
    if (!parameter.required) continue;
    const std::string& name = parameter.name;
    bool is_channel = name == "CO" || name == "N" || name == "C";
    bool is_window = name == "K" && signature.name.find("conv") != std::string::npos;
    bool is_image = name == "H" || name == "W" || name == "L" || name == "D";
    bool is_batch = name == "B" || (name == "N" && signature.name.find("conv") != std::string::npos) ||
                    (name == "N" && signature.name.find("pool") != std::string::npos);
    bool is_large = signature.name == "capsule_conv2d" || signature.name == "conv3d";
    out.push_back({name, is_batch     ? i64{1} + !is_large
                         : is_window  ? i64{3} - is_large
                         : is_image   ? i64{5} - 2 * is_large
                         : is_channel ? i64{20}
                                      : i64{7} - 4 * is_large});
  }
  return out;
}

inline bool near(const OutputValues& a, const OutputValues& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      double x = a[i][j], y = b[i][j];
      if (!(std::abs(x - y) <= 1e-4 * (1 + std::abs(y))) && x != y && !(std::isnan(x) && std::isnan(y))) return false;
    }
  }
  return true;
}

}  // namespace tw
