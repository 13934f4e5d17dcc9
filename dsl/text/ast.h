// The one expression tree of the language: workloads, rules, schedules and traces parse to these nodes
// (dsl/text/parse_expr.h) and give them their own meaning. Nothing is resolved or typed here. Nodes and their texts
// live in an Arena; each has the span of its source text. No tree is higher than kMaxHeight, so that recursion over it
// is safe.
#pragma once
#include <string>

#include "dsl/base/diagnostic.h"
#include "dsl/ir/nodes.h"

namespace tw::ast {

enum class Kind : u8 {
  Int,
  Float,
  Bool,
  Text,
  Name,
  Hole,
  None,
  Call,
  Index,
  Slice,
  Member,
  List,
  Dictionary,
  Comprehension,
  Quantifier,
  Tuple,
  Unary,
  Binary,
  If,
  Lambda,
  Test,
};

inline constexpr int kMaxHeight = 500;

struct Expr {
  Kind kind;
  Span span;
  int height = 1;  // 1 + the largest height of a child
};

struct Int : Expr {  // 12, -3
  static constexpr Kind kKind = Kind::Int;
  i64 value;
};
struct Float : Expr {  // 1.5, 1e-05
  static constexpr Kind kKind = Kind::Float;
  double value;
};
struct Bool : Expr {  // true, false
  static constexpr Kind kKind = Kind::Bool;
  bool value;
};
struct Text : Expr {  // "abc"; escapes are resolved
  static constexpr Kind kKind = Kind::Text;
  Str value;
};
struct Name : Expr {
  static constexpr Kind kKind = Kind::Name;
  Str name;
};
struct Hole : Expr {  // _
  static constexpr Kind kKind = Kind::Hole;
};
struct None : Expr {  // none
  static constexpr Kind kKind = Kind::None;
};
struct Argument {
  Str name;  // empty: positional
  Span name_span;
  const Expr* value;
};
struct Call : Expr {  // f(x, n = 2); positional arguments come first
  static constexpr Kind kKind = Kind::Call;
  const Expr* callee;
  Array<Argument> arguments;
};
struct Index : Expr {  // x[i, j], x[1:], x[]
  static constexpr Kind kKind = Kind::Index;
  const Expr* value;
  Array<const Expr*> indices;
};
struct Slice : Expr {  // a:b, :b, a:, : ; only inside an Index
  static constexpr Kind kKind = Kind::Slice;
  const Expr *begin, *end;  // null = left out
};
struct Member : Expr {  // x.name
  static constexpr Kind kKind = Kind::Member;
  const Expr* value;
  Str name;
};
struct List : Expr {  // [a, b]
  static constexpr Kind kKind = Kind::List;
  Array<const Expr*> items;
};
struct Dictionary : Expr {  // {"a": 1, b: [2, 3]}; no key twice
  static constexpr Kind kKind = Kind::Dictionary;
  Array<Str> keys;
  Array<const Expr*> values;
};
struct Comprehension : Expr {  // [value for x in over if condition], [value for (x, y) in over]
  static constexpr Kind kKind = Kind::Comprehension;
  const Expr* value;
  Array<const Name*> names;
  const Expr* over;
  const Expr* condition;  // null = none
};
struct Quantifier : Expr {  // all(x in over: condition), any((x, y) in over: condition)
  static constexpr Kind kKind = Kind::Quantifier;
  bool is_all;
  Array<const Name*> names;
  const Expr* over;
  const Expr* condition;
};
struct Tuple : Expr {  // (), (a,), (a, b)
  static constexpr Kind kKind = Kind::Tuple;
  Array<const Expr*> items;
};
struct Unary : Expr {  // -x, not x
  static constexpr Kind kKind = Kind::Unary;
  UnaryOp op;
  const Expr* value;
};
struct Binary : Expr {  // never Min or Max: these are calls
  static constexpr Kind kKind = Kind::Binary;
  BinaryOp op;
  Span op_span;
  const Expr *a, *b;
};
struct If : Expr {  // if c then a else b
  static constexpr Kind kKind = Kind::If;
  const Expr *condition, *then, *otherwise;
};
struct Lambda : Expr {  // (n, k) -> body, l -> body
  static constexpr Kind kKind = Kind::Lambda;
  Array<const Name*> parameters;
  const Expr* body;
};
struct Test : Expr {  // x?
  static constexpr Kind kKind = Kind::Test;
  const Expr* value;
};

// The node as a T, or null if it is null or of another kind.
template <class T>
const T* as(const Expr* expr) {
  return expr && expr->kind == T::kKind ? static_cast<const T*>(expr) : nullptr;
}

// The expression as text with as few parentheses as possible; parses back to an equal tree.
std::string to_string(const Expr* expr);

// Equal trees; spans do not count.
bool equal(const Expr* a, const Expr* b);

}  // namespace tw::ast
