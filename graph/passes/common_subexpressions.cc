// Of nodes that compute the same the first one is left. A node that only moves elements counts as equal but stays:
// fusion lets each reader take it in, and with several readers it would be a kernel of its own.
#include <algorithm>
#include <map>
#include <numeric>

#include "graph/node_form.h"
#include "graph/passes/passes.h"

namespace tw::graph {
namespace {

class CommonSubexpressions {
 public:
  explicit CommonSubexpressions(const Graph& graph) : graph_(graph), copy_(graph), first_(graph.values.size()) {
    std::iota(first_.begin(), first_.end(), ValueId{0});
  }

  Graph run() {
    for (const Node& node : graph_.nodes) {
      const Node* earlier = equal_before(node);
      bool is_shared = earlier && !form_of(graph_, node).is_movement;
      if (!is_shared) copy_.copy(node);
      for (std::size_t i = 0; earlier && i < node.outputs.size(); ++i) {
        first_[node.outputs[i]] = earlier->outputs[i];
        if (is_shared) copy_.set(node.outputs[i], copy_.now(earlier->outputs[i]));
      }
    }
    return copy_.finish();
  }

 private:
  // An earlier node that computes the same; else null, and later ones are compared with this one.
  const Node* equal_before(const Node& node) {
    constexpr ValueId kAnyConstant = ~ValueId{0};
    std::vector<ValueId> operands;
    for (ValueId input : node.inputs) operands.push_back(graph_.values[input].data ? kAnyConstant : first_[input]);
    std::vector<const Node*>& alike = seen_[{node.op, operands}];
    auto same = std::ranges::find_if(alike, [&](const Node* other) {
      return other->arguments == node.arguments && has_same_constants(*other, node);
    });
    if (same != alike.end()) return *same;
    alike.push_back(&node);
    return nullptr;
  }

  // Of two nodes that have constants at the same places.
  bool has_same_constants(const Node& a, const Node& b) const {
    return std::ranges::equal(a.inputs, b.inputs, [&](ValueId left, ValueId right) {
      const HostArray *x = graph_.values[left].data.get(), *y = graph_.values[right].data.get();
      return x == y || *x == *y;
    });
  }

  const Graph& graph_;
  GraphCopy copy_;
  std::vector<ValueId> first_;  // of the values that equal this one
  std::map<std::pair<std::string, std::vector<ValueId>>, std::vector<const Node*>> seen_;  // by what they read
};

}  // namespace

Graph common_subexpressions(const Graph& graph) { return CommonSubexpressions(graph).run(); }

}  // namespace tw::graph
