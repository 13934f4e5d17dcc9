// Operators of ONNX that somebody wrote as text (graph/rewrites.h), as nodes of a graph.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graph/rewrite_match.h"

namespace tw::graph {

// The domain of ONNX's own operators. Files may leave it empty.
inline constexpr const char* kOnnxDomain = "ai.onnx";
// A domain as a file says it, with its name if it is left empty.
inline std::string domain_or_onnx(const std::string& domain) { return domain.empty() ? kOnnxDomain : domain; }

struct OwnOperator {
  const RewriteModule* module = nullptr;
  const OnnxOperator* text = nullptr;  // null = there is none
};
// The operator of a domain and name in one of the modules.
OwnOperator find_operator(const std::vector<const RewriteModule*>& modules, const std::string& domain,
                          const std::string& name);

// Makes the nodes of the operator and gives its results. `given`: the parameters; inputs that the node leaves out are
// missing from it. What is made has the name `name`. Nothing, and why and where in the text in `error`, if they do not
// fit.
std::optional<std::vector<ValueId>> build_operator(const OwnOperator& own, const Match& given, GraphBuilder& builder,
                                                   const std::string& name, std::string& error);

}  // namespace tw::graph
