#include "graph/passes/passes.h"

namespace tw::graph {

Graph simplified(const Graph& graph, const std::vector<const RewriteModule*>& rewrites, DType precision) {
  std::vector<const RewriteModule*> all = rewrites;
  all.push_back(&built_in_rewrites());
  Graph simple = apply_rewrites(remove_unused(graph), all);
  for (auto pass : {fold_scales, fold_pads, channels_last, join_rows}) simple = remove_unused(pass(simple));
  return precision == DType::F32 ? simple : remove_unused(narrow_values(simple, precision));
}

}  // namespace tw::graph
