// Costs of layouts on a processor, and graphs of models simplified by them. Everything that compiles, tunes or times a
// model makes its graph here, so that all have the same tasks.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "backends/target.h"
#include "graph/passes/passes.h"
#include "rules/lang/library.h"

namespace tw {

// Estimates by machine code that is not run (estimated_seconds), with the draft model's usual rates: they follow from
// program and target alone, never from records or from what a machine was measured to do. Each program is estimated
// once, in about 0.1 s, so row-major is tried only where it may win.
class DraftedLayoutCosts : public graph::LayoutCosts {
 public:
  explicit DraftedLayoutCosts(const Target& target, int threads = 1) : target_(target), threads_(threads) {}
  double window(const graph::Graph& graph, const graph::Node& node, graph::Layout layout) override;
  // The seconds of a kernel that moves one element a cycle and waits for its cache lines.
  double conversion(const OperandType& type) override;
  // Can a row-major kernel be clearly faster? Both layouts do the same arithmetic. A kernel with the channels last has
  // vectors of channels, of a group if there are groups, and a row-major one has vectors of pixels. So one is at most
  // as much faster than the other as it fills more of its lanes.
  bool may_be_row_major(const graph::Graph& graph, const graph::Node& node) const;
  std::size_t rated() const { return known_.size(); }  // different programs estimated so far

 private:
  double kernel(const Program& program);

  Target target_;
  int threads_;
  std::optional<rules::Library> library_;
  std::map<std::string, double> known_;  // by the text of a program
};

// simplified() with these costs for processors; for devices all windows have their channels last.
graph::Graph simplified_for(const graph::Graph& graph, const Target& target,
                            const std::vector<const graph::RewriteModule*>& rewrites = {},
                            DType precision = DType::F32);

}  // namespace tw
