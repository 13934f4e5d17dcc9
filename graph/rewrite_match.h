// Matching patterns of rewritings against graphs, and building what replaces them, or what an operator stands for. For
// rewrites.cc, apply_rewrites.cc and own_operator.cc only.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dsl/text/evaluate.h"
#include "graph/rewrites.h"

namespace tw::graph {

// Numbers are doubles, which hold every integer up to here.
inline constexpr i64 kMostExact = i64{1} << 53;

// `a + b` and `add(a, b)` alike; nothing for other expressions.
struct OperatorCall {
  std::string op;
  std::vector<const ast::Expr*> operands;
  std::vector<ast::Argument> attributes;
};
std::optional<OperatorCall> operator_call(const ast::Expr* e);

// What the names of a rewriting or an operator stand for at one place of a graph.
struct Match {
  std::map<std::string, ValueId, std::less<>> values;  // also of parts
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, std::vector<i64>, std::less<>> lists;
  // Values that the graph broadcasts before it uses them as the pattern says: they are smaller than the pattern's.
  std::set<std::string, std::less<>> spread;
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph);
  // Also nothing if there are too many ways to try: operands of commutative operators are tried in both orders.
  std::optional<Match> match(const Rewrite& rewrite, ValueId root) const;

 private:
  // Beside the names: dimensions that a reduction took from a value and nothing has brought back yet.
  struct State : Match {
    std::map<ValueId, std::vector<i64>> missing;
    std::size_t depth = 0;  // broadcasts above what is matched
  };
  // `may_spread`: a broadcast may stand between the value and what makes it, as for operands of element-wise operators.
  bool match(const Rewrite& rewrite, const ast::Expr* pattern, ValueId value, bool may_spread, State& state) const;
  bool match_name(const Rewrite& rewrite, std::string_view name, ValueId value, bool may_spread, State& state) const;
  bool match_operator(const Rewrite& rewrite, const OperatorCall& call, ValueId value, bool may_spread,
                      State& state) const;
  bool match_operands(const Rewrite& rewrite, const OperatorCall& call, const Node& node,
                      const std::vector<ValueId>& inputs, State& state) const;
  bool match_attributes(const OperatorCall& call, const Node& node, State& state) const;
  bool note_missing(const Node& node, State& state) const;
  bool bring_back(ValueId inner, ValueId value, State& state) const;
  bool is_elementwise(const Node& node) const;
  std::optional<double> number_of(ValueId value) const;
  ValueId without_broadcast(ValueId value) const;

  const Graph& graph_;
  mutable i64 steps_left_ = 0;  // of the current match()
  std::vector<const Node*> makers_;
  mutable std::map<const Node*, bool> elementwise_;  // of nodes that were asked for, which many rewritings are
};

// Does the condition hold? In it the name of a value is its shape. The shapes are those of `graph`.
bool holds(const RewriteModule& module, const Rewrite& rewrite, const Graph& graph, const Match& match);

// Builds the replacement (or a pattern) of operands that `value_of` gives, or what an operator stands for. Nothing if
// an operator does not take them.
class Replacement {
 public:
  using ValueOf = std::function<ValueId(std::string_view name)>;
  // `dtype`: of the numbers in the text.
  Replacement(const RewriteModule& module, const Definition& definition, const Match& match, GraphBuilder& builder,
              ValueOf value_of, DType dtype)
      : module_(module),
        definition_(definition),
        match_(match),
        builder_(builder),
        value_of_(std::move(value_of)),
        dtype_(dtype) {}
  std::optional<ValueId> build(const ast::Expr* e, const std::string& name);
  // The value of a part, which then is known in attributes and conditions.
  std::optional<ValueId> part(std::string_view part, const std::string& name);
  // What a condition says; in it `x?` is whether there is an x. Nothing if it cannot be evaluated.
  std::optional<bool> is_true(const ast::Expr* condition);
  // Notes what is wrong at a place of the text, before which "FILE:LINE:COLUMN: " is put.
  std::nullopt_t fail(Span span, const std::string& why);
  // Why nothing was built.
  const std::string& error() const { return error_; }

 private:
  std::optional<ValueId> call(const ast::Expr* e, const std::string& name);
  std::optional<ValueId> kept(ValueId operand, const std::vector<i64>& axes, ValueId reduced, const std::string& name);
  std::optional<WorkloadArguments> attributes(const OperatorCall& call);
  bool are_free(const OperatorCall& call, const std::vector<ValueId>& operands);
  std::nullopt_t fail(const Diagnostics& diagnostics);
  instantiation::Names names() const;
  std::optional<ValueId> number(double value, Span span, const std::string& name);
  bool broadcast(std::vector<ValueId>& operands, const std::string& name);
  bool holds_spread(const ast::Expr* e);
  bool is_elementwise(const OperatorCall& call, const std::vector<ValueId>& operands,
                      const WorkloadArguments& arguments) const;

  const RewriteModule& module_;
  const Definition& definition_;
  const Match& match_;
  GraphBuilder& builder_;
  ValueOf value_of_;
  DType dtype_;
  std::map<std::string, ValueId, std::less<>> parts_;
  std::map<std::string, bool, std::less<>> holds_spread_;  // of parts that were asked for
  std::string error_;
};

}  // namespace tw::graph
