#include "graph/own_rewrites.h"

#include "dsl/base/text.h"
#include "graph/own_operator.h"

namespace tw::graph {

bool OwnRewrites::add(const Source& file, std::string& messages) {
  Diagnostics diagnostics(file);
  auto module = std::make_shared<const RewriteModule>(parse_rewrites(file, diagnostics));
  check(*module, diagnostics);
  messages += diagnostics.render();
  if (diagnostics.has_errors()) return false;
  modules_.push_back(std::move(module));
  return true;
}

void OwnRewrites::check(const RewriteModule& module, Diagnostics& diagnostics) const {
  for (const Rewrite& rewrite : module.rewrites) {
    std::string problem = check_rewrite(module, rewrite);
    if (!problem.empty()) diagnostics.error(rewrite.span, cat("`", rewrite.name, "` is not proved: ", problem));
  }
  for (const OnnxOperator& op : module.operators) {
    OwnOperator other = find_operator(modules(), op.domain, op.name);
    if (other.text)
      diagnostics.error(op.span, cat("there is an operator `", op.name, "` of `", op.domain, "` in ",
                                     other.module->source->name, " already"));
  }
}

std::vector<const RewriteModule*> OwnRewrites::modules() const {
  std::vector<const RewriteModule*> out;
  for (const auto& module : modules_) out.push_back(module.get());
  return out;
}

}  // namespace tw::graph
