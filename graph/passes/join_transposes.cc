// Two transpositions with nothing but element-wise nodes between them are one, or none: these nodes work in the order
// that the elements have before the first one. Networks whose convolutions are written with the channels first, and all
// else with the channels last, are full of them.
#include <algorithm>
#include <map>
#include <set>

#include "graph/node_form.h"
#include "graph/passes/orders.h"
#include "graph/passes/passes.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

// Nodes between two transpositions.
constexpr std::size_t kMostBetween = 64;

class JoinTransposes {
 public:
  explicit JoinTransposes(const Graph& graph)
      : graph_(graph), copy_(graph), makers_(makers_of(graph)), readers_(graph.values.size()) {
    for (const Node& node : graph.nodes) {
      for (ValueId input : node.inputs) readers_[input].push_back(&node);
    }
    is_output_.insert(graph.outputs.begin(), graph.outputs.end());
  }

  Graph run() {
    for (const Node& node : graph_.nodes) {
      std::optional<ValueId> made = node.op == "transpose" ? joined(node) : std::nullopt;
      if (made)
        copy_.set(node.outputs[0], *made);
      else
        copy_.copy(node);
    }
    return copy_.finish();
  }

 private:
  // What stands between a transposition and those before it.
  struct Between {
    std::set<const Node*> nodes;
    std::vector<ValueId> transposed;  // that the first ones make
    Ints order;                       // of the first ones, which all have the same
  };

  const Ints& shape(ValueId value) const { return graph_.values[value].type.shape; }

  std::optional<ValueId> joined(const Node& last) {
    Between between;
    const Ints& order = *integers(last.arguments, "order");
    if (!collect(last.inputs[0], between) || between.transposed.empty()) return std::nullopt;
    Ints both = in_order(between.order, order);
    bool is_none = std::ranges::is_sorted(both);
    auto is_alike = [&](const Node* reader) {
      return reader->op == "transpose" && reader->inputs == last.inputs &&
             *integers(reader->arguments, "order") == order;
    };
    // Nodes that others read, too, would be computed in both orders.
    auto is_only_here = [&](ValueId value) {
      return is_output_.count(value) == 0 && std::ranges::all_of(readers_[value], [&](const Node* reader) {
               return is_alike(reader) || between.nodes.count(reader) > 0;
             });
    };
    for (const Node* node : between.nodes) {
      if (!is_only_here(node->outputs[0])) return std::nullopt;
    }
    if (!is_none && !std::ranges::all_of(between.transposed, is_only_here)) return std::nullopt;
    ValueId made = as_before(last.inputs[0], between.order);
    return is_none ? made : copy_.add("transpose", {{"order", both}}, {made}, name(last.outputs[0]));
  }

  // Does the value, with the dimensions of the result, come from transpositions of one order, constants and what is
  // repeated, element by element?
  bool collect(ValueId value, Between& between) const {
    const Node* maker = makers_[value];
    if (!maker) return graph_.values[value].data != nullptr;
    if (maker->op == "transpose") {
      const Ints& order = *integers(maker->arguments, "order");
      if (between.transposed.empty()) between.order = order;
      between.transposed.push_back(value);
      return between.order == order;
    }
    if (maker->op == "broadcast") return 2 * elements(maker->inputs[0]) <= elements(value);
    if (between.nodes.count(maker) > 0) return true;
    if (between.nodes.size() == kMostBetween || !form_of(graph_, *maker).is_elementwise) return false;
    between.nodes.insert(maker);
    return std::ranges::all_of(maker->inputs,
                               [&](ValueId input) { return shape(input).empty() || collect(input, between); });
  }
  i64 elements(ValueId value) const { return elements_of(graph_.values[value].type); }
  const std::string& name(ValueId value) const { return graph_.values[value].name; }

  // The value in the order before a transposition.
  ValueId as_before(ValueId value, const Ints& order) {
    if (shape(value).empty()) return copy_.now(value);
    if (auto known = before_.find({value, order}); known != before_.end()) return known->second;
    const Node* maker = makers_[value];
    ValueId made = 0;
    if (!maker) {
      made = transposed(copy_, copy_.now(value), shape(value), inverse(order), name(value));
    } else if (maker->op == "transpose") {
      made = copy_.now(maker->inputs[0]);
    } else if (maker->op == "broadcast") {
      made = repeated(*maker, order);
    } else {
      std::vector<ValueId> operands;
      for (ValueId input : maker->inputs) operands.push_back(as_before(input, order));
      made = copy_.add(maker->op, maker->arguments, operands, name(value));
    }
    before_.emplace(std::pair(value, order), made);
    return made;
  }

  // The few elements are moved, and not the many.
  ValueId repeated(const Node& broadcast, const Ints& order) {
    ValueId few = broadcast.inputs[0], many = broadcast.outputs[0];
    Ints own = shape(few);
    own.insert(own.begin(), shape(many).size() - own.size(), 1);
    ValueId moved = transposed(copy_, copy_.now(few), own, inverse(order), name(few));
    return copy_.add("broadcast", {{"R", in_order(shape(many), inverse(order))}}, {moved}, name(many));
  }

  const Graph& graph_;
  GraphCopy copy_;
  std::vector<const Node*> makers_;
  std::vector<std::vector<const Node*>> readers_;
  std::set<ValueId> is_output_;
  std::map<std::pair<ValueId, Ints>, ValueId> before_;  // by a value and the order of a transposition
};

}  // namespace

Graph join_transposes(const Graph& graph) { return JoinTransposes(graph).run(); }

}  // namespace tw::graph
