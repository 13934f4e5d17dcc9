// Rewritings of graphs as text (graph/rewrites.tw): a pattern of operators, and what is to stand in its place.
//
//   rewrite cube(x: value) { power(x, 3) -> x * x * x }
//
// A parameter is a `value`, a `number` (a constant whose elements are all alike) or `ints` (a list among the arguments
// of an operator). A line `name = pattern` names a part that occurs more than once; `when` is a condition over shapes,
// lists and numbers that are integers.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dsl/base/diagnostic.h"
#include "dsl/text/ast.h"
#include "graph/graph.h"

namespace tw::graph {

struct Rewrite {
  enum class Kind : u8 { Value, Number, Integers };
  struct Parameter {
    std::string name;
    Kind kind;
  };
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<std::pair<std::string, const ast::Expr*>> parts;
  const ast::Expr* condition = nullptr;  // null = always
  const ast::Expr *pattern = nullptr, *replacement = nullptr;
  Span span;

  const Parameter* find(std::string_view name) const;
};

struct RewriteModule {
  std::shared_ptr<const Source> source;
  std::shared_ptr<Arena> arena;
  std::vector<Rewrite> rewrites;
};

// Errors go to `diagnostics`; what has errors is left out.
RewriteModule parse_rewrites(const Source& source, Diagnostics& diagnostics);
// Those that are built in.
const RewriteModule& built_in_rewrites();

// Applies rewritings wherever they fit, the first of a module first, until none does.
Graph apply_rewrites(const Graph& graph, const std::vector<const RewriteModule*>& modules);

// Tries a rewriting on random inputs: "" if both sides give the same up to rounding, else what they give, that no
// operands were found that it fits, or that the pattern gives finite numbers for none of them.
std::string check_rewrite(const RewriteModule& module, const Rewrite& rewrite);

}  // namespace tw::graph
