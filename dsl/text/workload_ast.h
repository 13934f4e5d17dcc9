// What the workload parser makes of a text: definitions with statements whose expressions are not resolved yet. Used by
// dsl/text only; everybody else sees dsl/text/workload.h. Names and expressions live in the module's arena.
#pragma once
#include <variant>
#include <vector>

#include "dsl/te/te.h"
#include "dsl/text/ast.h"

namespace tw {

enum class ParameterKind : u8 { Integer, Integers, Type };

}  // namespace tw

namespace tw::ast {

struct NamePlace {
  Str name;
  Span span;
};

// input X: T[M, K] layout "...", const W: T[K, N]
struct Declaration {
  Role role;
  NamePlace name;
  const Expr* type;          // T
  Array<const Expr*> shape;  // [M, K]
  Str layout;
};
// let OH = H // stride; or another name for a buffer: let P = X
struct Let {
  NamePlace name;
  const Expr* value;
};
// require CI % groups == 0, "message"
struct Require {
  const Expr* condition;
  Str message;  // empty = made from the condition
};
struct ToleranceSetting {
  Tolerance tolerance;
  Span span;
};
struct AxisPlace {  // i: M; or several axes of one name: i: shape
  NamePlace name;
  const Expr* extent;
};
// output Y, Z: f32[i: M, j: N] = max(k: K) in f64 value
struct StageText {
  std::vector<NamePlace> names;
  std::vector<const Expr*> types;  // per name, null = none
  std::vector<AxisPlace> axes;
  Str layout;
  bool is_output = false;
  te::Reducer reducer = te::Reducer::None;
  Span reducer_span;
  std::vector<AxisPlace> reduce_axes;
  const Expr* accumulator = nullptr;
  const Expr* value = nullptr;
  Span span;
};
struct Statement;
// if padding > 0 { ... } else { ... }
struct Conditional {
  const Expr* condition;
  std::vector<Statement> then, otherwise;
};
struct Statement {
  std::variant<Declaration, Let, Require, ToleranceSetting, StageText, Conditional> node;
};

struct Parameter {
  NamePlace name;
  ParameterKind kind;
  const Expr* fallback;  // null = the argument is required
};
struct Workload {
  NamePlace name;
  Str doc;
  std::vector<Parameter> parameters;
  std::vector<Statement> body;
};
// fn gelu(x) = ...
struct FunctionText {
  NamePlace name;
  std::vector<NamePlace> parameters;
  const Expr* body;
};
// epilogue bias(y) { const B: T[channels]; return y + B[channel] }
struct Epilogue {
  NamePlace name;
  Str doc;
  NamePlace parameter;
  std::vector<Statement> body;
  const Expr* result;
};

}  // namespace tw::ast
