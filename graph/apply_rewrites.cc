// Where rewritings fit, and the proof by running that they are right.
#include <algorithm>
#include <cmath>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "graph/passes/passes.h"
#include "graph/rewrite_match.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

// One pass over a graph may uncover what another rewriting fits; a set of rewritings that undo each other ends here.
constexpr int kMostRounds = 8;
// Nodes for each node at first, and nodes beside these: rewritings are applied no more where a graph has more.
constexpr std::size_t kMostGrowth = 16, kAlwaysAllowed = 256;

// Limits of one side of a rewriting that is tried: elements of all its values, and steps of the interpreter.
constexpr i64 kMostTriedElements = 1 << 20, kMostTriedSteps = 200'000;

// A value in the shape of what it replaces, from which it may differ in dimensions of extent 1.
std::optional<ValueId> with_shape(GraphCopy& copy, ValueId made, const Value& root) {
  auto without_ones = [](Ints shape) { return std::erase(shape, 1), shape; };
  const Ints& shape = copy.builder().type(made).shape;
  if (copy.builder().type(made).dtype != root.type.dtype) return std::nullopt;
  if (shape == root.type.shape) return made;
  if (without_ones(shape) != without_ones(root.type.shape)) return std::nullopt;
  return copy.add("reshape", {{"R", root.type.shape}}, {made}, root.name);
}

// The first rewriting that fits a node, done. Nothing if none does.
std::optional<ValueId> rewritten(const Graph& graph, const Matcher& matcher, const Node& node,
                                 const std::vector<const RewriteModule*>& modules, GraphCopy& copy) {
  const Value& root = graph.values[node.outputs[0]];
  if (node.outputs.size() != 1 || !is_float(root.type.dtype)) return std::nullopt;
  for (const RewriteModule* module : modules) {
    for (const Rewrite& rewrite : module->rewrites) {
      std::optional<Match> match = matcher.match(rewrite, node.outputs[0]);
      if (!match || !holds(*module, rewrite, graph, *match)) continue;
      auto value_of = [&](std::string_view name) { return copy.now(match->values.find(name)->second); };
      Replacement replacement(*module, rewrite, *match, copy.builder(), value_of, root.type.dtype);
      std::optional<ValueId> made = replacement.build(rewrite.replacement, root.name);
      if (made) made = with_shape(copy, *made, root);
      if (made) return made;
    }
  }
  return std::nullopt;
}

// The graph of one side of a rewriting.
std::optional<Graph> side(const RewriteModule& module, const Rewrite& rewrite, const Match& match,
                          const std::map<std::string, Ints, std::less<>>& shapes, const ast::Expr* e) {
  GraphBuilder builder(rewrite.name, kMostTriedSteps);
  std::map<std::string, ValueId, std::less<>> inputs;
  for (const auto& [name, shape] : shapes) inputs[name] = builder.input(name, {DType::F32, shape});
  Match own = match;
  own.values.clear();
  for (const auto& [name, value] : inputs) own.values.emplace(name, value);
  Replacement made(
      module, rewrite, own, builder, [&](std::string_view name) { return inputs.find(name)->second; }, DType::F32);
  std::optional<ValueId> value = made.build(e, "y");
  if (!value) return std::nullopt;
  builder.output(*value, "y");
  return builder.finish();
}

bool is_small(const Graph& graph) {
  i64 elements = 0;
  return std::ranges::all_of(graph.values, [&](const Value& value) {
    return (elements += std::min(elements_of(value.type), kMostTriedElements + 1)) <= kMostTriedElements;
  });
}

struct Trial {
  std::string problem;  // "" or what is different
  i64 compared = 0;     // elements that the pattern makes finite
};

// Nothing if these operands do not fit. They are positive, or of both signs with zeros; what is not finite then is not
// compared.
std::optional<Trial> tried(const RewriteModule& module, const Rewrite& rewrite, const Match& match,
                           const std::map<std::string, Ints, std::less<>>& shapes, bool is_signed, Rng& rng) {
  std::optional<Graph> pattern = side(module, rewrite, match, shapes, rewrite.pattern);
  if (!pattern || !is_small(*pattern)) return std::nullopt;
  Match own = match;
  for (std::size_t i = 0; i < pattern->inputs.size(); ++i)
    own.values[pattern->values[pattern->inputs[i]].name] = pattern->inputs[i];
  if (!holds(module, rewrite, *pattern, own)) return std::nullopt;
  std::optional<Graph> replacement = side(module, rewrite, match, shapes, rewrite.replacement);
  if (!replacement) return Trial{"the replacement does not take these operands"};
  if (!is_small(*replacement)) return Trial{cat("the replacement has more than ", kMostTriedElements, " elements")};
  std::vector<HostArray> inputs;
  for (ValueId input : pattern->inputs) {
    inputs.push_back(HostArray::zeros(DType::F32, pattern->values[input].type.shape));
    for (i64 i = 0; i < inputs.back().elements(); ++i) {
      double drawn = rng.normal();
      inputs.back().set(i, is_signed ? (i % 5 == 4 ? 0 : drawn) : std::abs(drawn) + 0.1);
    }
  }
  std::string error;
  auto expected = evaluate(*pattern, inputs, error, kMostTriedSteps);
  if (!expected) return Trial{cat("the pattern: ", error)};
  auto found = evaluate(*replacement, inputs, error, kMostTriedSteps);
  if (!found) return Trial{cat("the replacement: ", error)};
  if ((*expected)[0].shape != (*found)[0].shape) return Trial{"the shapes of the results differ"};
  if ((*expected)[0].dtype != (*found)[0].dtype) return Trial{"the types of the results differ"};
  Trial trial;
  for (i64 i = 0; i < (*expected)[0].elements(); ++i) {
    double a = (*expected)[0].get(i), b = (*found)[0].get(i);
    if (!std::isfinite(a)) continue;
    ++trial.compared;
    if (!(std::abs(a - b) <= 2e-6 + 1e-4 * std::abs(a)))
      return Trial{cat("the pattern gives ", a, ", the replacement ", b), trial.compared};
  }
  return trial;
}

}  // namespace

Graph apply_rewrites(const Graph& graph, const std::vector<const RewriteModule*>& modules) {
  Graph current = graph;
  const std::size_t most = kMostGrowth * graph.nodes.size() + kAlwaysAllowed;
  for (int round = 0; round < kMostRounds; ++round) {
    Matcher matcher(current);
    GraphCopy copy(current);
    bool has_changed = false;
    for (const Node& node : current.nodes) {
      std::optional<ValueId> made;
      if (copy.builder().node_count() <= most) made = rewritten(current, matcher, node, modules, copy);
      has_changed |= made.has_value();
      if (made)
        copy.set(node.outputs[0], *made);
      else
        copy.copy(node);
    }
    current = remove_unused(copy.finish());
    if (!has_changed || current.nodes.size() > most) break;
  }
  return current;
}

std::string check_rewrite(const RewriteModule& module, const Rewrite& rewrite) {
  Rng rng(1);
  int fits = 0, proofs = 0;
  for (const Ints& shape : {Ints{4}, Ints{3, 5}, Ints{2, 3, 4}, Ints{2, 4, 3, 3}}) {
    i64 rank = std::ssize(shape);
    for (const Ints& list : {Ints{rank - 1}, Ints{0}, Ints{rank - 2, rank - 1}, Ints{2, 3}}) {
      if (list[0] < 0 || list.back() >= rank) continue;
      for (double number : {static_cast<double>(shape.back()), 0.5, 2.0, 0.0, 1.0, -1.0}) {
        Match match;
        std::map<std::string, Ints, std::less<>> shapes;
        for (const Rewrite::Parameter& parameter : rewrite.parameters) {
          if (parameter.kind == Rewrite::Kind::Value) shapes[parameter.name] = shape;
          if (parameter.kind == Rewrite::Kind::Number) match.numbers[parameter.name] = number;
          if (parameter.kind == Rewrite::Kind::Integers) match.lists[parameter.name] = list;
        }
        for (bool is_signed : {false, true}) {
          std::optional<Trial> trial = tried(module, rewrite, match, shapes, is_signed, rng);
          if (!trial) break;
          if (!trial->problem.empty()) return trial->problem;
          ++fits, proofs += trial->compared > 0;
        }
      }
    }
  }
  return proofs > 0 ? ""
         : fits > 0 ? "the pattern gives no finite number for any operands that were tried, so nothing was compared"
                    : "no operands were found that it fits";
}

}  // namespace tw::graph
