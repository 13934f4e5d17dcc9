#include "graph/passes/passes.h"

namespace tw::graph {

Graph simplified(const Graph& graph, const std::vector<const RewriteModule*>& rewrites, DType precision,
                 LayoutCosts* costs) {
  std::vector<const RewriteModule*> all = rewrites;
  all.push_back(&built_in_rewrites());
  // Before the rewritings, whose patterns name a value that occurs twice, and behind them, as they make equal nodes.
  Graph simple = apply_rewrites(remove_unused(common_subexpressions(graph)), all);
  for (auto pass : {common_subexpressions, join_transposes, fold_scales, fold_pads, integer_products})
    simple = remove_unused(pass(simple));
  simple = remove_unused(costs ? in_cheapest_layouts(simple, *costs) : channels_last(simple));
  for (auto pass : {join_transposes, join_rows}) simple = remove_unused(pass(simple));
  return precision == DType::F32 ? simple : remove_unused(narrow_values(simple, precision));
}

}  // namespace tw::graph
