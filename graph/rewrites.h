// Rewritings of graphs as text (graph/rewrites.tw): a pattern of operators, and what is to stand in its place. And
// operators of ONNX files as text: what stands in the place of a node.
//
//   rewrite cube(x: value) { power(x, 3) -> x * x * x }
//   onnx "com.example" ScaledSum(x: value, y: value?, scale: number = 1) {
//     return if y? then (x + y) * scale else x * scale
//   }
//
// A parameter of a rewriting is a `value`, a `number` (a constant whose elements are all alike) or `ints` (a list among
// the arguments of an operator); of an operator it is an input, or an attribute that is a number or a list. A line
// `name = expression` names a part (in a rewriting a pattern). `when`, `require` and `if` are conditions over shapes,
// lists and integers; in operators also `x?`: whether x is given.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dsl/base/diagnostic.h"
#include "dsl/text/ast.h"
#include "graph/graph.h"

namespace tw::graph {

// What the text of rewritings and of operators has: names with a meaning.
struct Definition {
  enum class Kind : u8 { Value, Number, Integers };
  struct Parameter {
    std::string name;
    Kind kind;
    // In operators: an input that may be left out, or an attribute with a default, which is below.
    bool is_optional = false;
    double number = 0;
    std::vector<i64> list = {};
  };
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<std::pair<std::string, const ast::Expr*>> parts;
  Span span;

  const Parameter* find(std::string_view name) const;
};

struct Rewrite : Definition {
  const ast::Expr* condition = nullptr;  // null = always
  const ast::Expr *pattern = nullptr, *replacement = nullptr;
};

// An operator of ONNX files by those of graph/operators. Its values are the inputs of a node, in order.
struct OnnxOperator : Definition {
  struct Requirement {
    const ast::Expr* condition;
    std::string message;  // "" = made of the condition
    std::size_t parts;    // that stand before it, and which it knows
  };
  std::string domain;  // never empty: kOnnxDomain (graph/own_operator.h)
  std::vector<Requirement> requirements;
  std::vector<const ast::Expr*> results;
};

struct RewriteModule {
  std::shared_ptr<const Source> source;
  std::shared_ptr<Arena> arena;
  std::vector<Rewrite> rewrites;
  std::vector<OnnxOperator> operators;
};

// Errors go to `diagnostics`; what has errors is left out. An operator that the importer already knows is an error.
RewriteModule parse_rewrites(const Source& source, Diagnostics& diagnostics);
// Those that are built in.
const RewriteModule& built_in_rewrites();

// Applies rewritings wherever they fit, the first of a module first, until none does, or until the graph has many times
// as many nodes as at first.
Graph apply_rewrites(const Graph& graph, const std::vector<const RewriteModule*>& modules);

// Tries a rewriting on random inputs: "" if both sides give the same up to rounding, else what they give, that no
// operands were found that it fits, that the pattern gives finite numbers for none of them, or that the replacement
// takes too much memory or time.
std::string check_rewrite(const RewriteModule& module, const Rewrite& rewrite);

}  // namespace tw::graph
