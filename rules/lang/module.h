// The syntax tree of rule modules (.tw): rules, postprocessors, functions, rule sets. Expressions are those of
// dsl/text/ast.h.
//
//   rule register_tiling(b: block)              one idea, tried on every block
//     doc "..."
//     param mr = range(1, 15), nv = [1, 2]      values that a rule set may change
//     when is_reduction(b) and vector_axis(b)?  where it applies
//   { statements }
//   post vectorize_rest(p: program) { ... }     runs on a concrete program after replay; every value is fixed there
//   schedule by_hand for dense { statements }   one operator by hand: sketches of its own, beside those of the rules
//   fn half(x) = x // 2                       a value, asked for in an expression
//   step bind_rows(b, t) { statements; return g }   statements with a name, which run where it is called
//   rules cpu { auto_inline; register_tiling(mr = range(1, 9)); vectorize_rest }       a named, ordered set
//   mark packed: int "what it says"           an annotation that rules set with annotate() and ask for with mark();
//                                             also text, number, lists [int] and dictionaries {text} of these,
//                                             and value for any of them
//   export fn ...   export step ...   export mark ...   what other modules may use; else a name is this module's own
//   import "more.tw"                          another module, beside this one
//   intrinsic NAME { ... }                    an instruction of a machine for tensorize (dsl/intrinsics/intrinsic.h)
//
// `replace rule NAME` (`post`, `schedule`) and `replace rules NAME` put a definition in the place of one that is there.
// A rule with the clause `before NAME` or `after NAME` joins every set that has the rule NAME.
//
// Statements:
//   a, b = expr       xs[i] = expr             expr (an instruction, a function or a step)
//   a, b ~ choices    draws each of them: a = sample_categorical(choices); b = ...
//   if c { } else { }     for x in list { }    for (i, x) in list { }    require c
//   either { } or when c { } or x in list { }  forks: each alternative is a sketch of its own
//   maybe { }                                  either { } or { ... }
//   try { } else { }                           commits if every instruction inside is accepted, else runs `else`
//   skip              end this fork and keep it       drop   this fork is no sketch
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dsl/base/diagnostic.h"
#include "dsl/text/ast.h"
#include "rules/lang/types.h"

namespace tw::rules {

class NativeRule;
class NativePost;

enum class StatementKind : u8 { Assign, Expression, If, For, Either, Require, Try, Skip, Drop, Draw };

struct Statement;
using Statements = std::vector<Statement>;

// `or x in over when condition { body }`; plain alternatives have no variable.
struct Alternative {
  Str variable = {};
  const ast::Expr* over = nullptr;
  const ast::Expr* condition = nullptr;
  Statements body;
};

struct Statement {
  StatementKind kind;
  Span span;
  std::vector<const ast::Expr*> targets;  // Assign: names, or names[index]. A Draw is read as an Assign for each name
  const ast::Expr* value = nullptr;       // Assign, Expression, Require, If (condition), For (list)
  std::vector<Str> variables;             // For: one, or several that take each element apart
  Statements body, otherwise;             // If, For, Try
  std::vector<Alternative> alternatives;  // Either
};

struct RuleParam {
  Str name;
  const ast::Expr* value;
};

// Where in the sets a rule goes that no set names: next to another rule.
struct Placement {
  enum class Where : u8 { Nowhere, Before, After } where = Where::Nowhere;
  Str anchor = {};
  Span span = {};
};

struct Rule {
  Str name;
  Span span;
  bool is_post = false;  // visits the program once, after replay
  bool visits_program = false;
  Str workload = {};  // of a schedule by hand: starts from untouched programs of this workload
  Str argument = {};  // name of the block or program
  Str doc = {};
  std::vector<RuleParam> params;
  const ast::Expr* when = nullptr;
  Statements body;
  bool replaces = false;
  Placement placement = {};
  std::shared_ptr<const NativeRule> native = {};  // instead of `when` and body: a rule in C++ (rules/lang/plugin.h)
  std::shared_ptr<const NativePost> native_post = {};

  bool is_schedule() const { return !workload.empty(); }
  const char* kind() const { return is_post ? "post" : is_schedule() ? "schedule" : "rule"; }
};

struct UserFunction {
  Str name;
  Span span;
  std::vector<Str> parameters;
  const ast::Expr* body;
  bool is_exported = false;
};

// Statements with a name. They see their parameters and what they assign, not the caller's names.
struct Step {
  Str name;
  Span span;
  std::vector<Str> parameters;
  Statements body;
  const ast::Expr* result = nullptr;  // null = none
  bool is_exported = false;
};

// One entry of a rule set: a rule and its changed parameters.
struct SetEntry {
  Str rule;
  Span span;
  std::vector<ast::Argument> arguments;
};

struct RuleSet {
  Str name;
  Span span;
  bool replaces = false;
  Str doc = {};
  std::vector<SetEntry> entries;
};

struct Mark {
  Str name;
  Span span;
  Type type = {};  // Int, Text, Number, lists and dictionaries of these, or Any
  Str doc = {};
  bool is_exported = false;
};

struct Import {
  Str path;
  Span span;
};

struct Module {
  std::shared_ptr<void> library = {};    // that holds the code of native rules; goes last
  std::shared_ptr<Arena> arena;          // of the tree
  std::shared_ptr<const Source> source;  // of the spans
  std::vector<Rule> rules;
  std::vector<UserFunction> functions;
  std::vector<Step> steps;
  std::vector<RuleSet> sets;
  std::vector<Mark> marks;
  std::vector<Import> imports;
};

// Null after errors, which are in `diagnostics` (made for *source).
std::shared_ptr<const Module> parse_module(std::shared_ptr<const Source> source, Diagnostics& diagnostics);

}  // namespace tw::rules
