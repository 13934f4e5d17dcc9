// The type checker of rules, shared by check_types.cc (statements) and check_expressions.cc.
// Private to rules/lang; others call check_types.h. A value of which nothing is known is Any and
// fits everywhere.
#pragma once
#include <map>
#include <string>

#include "rules/lang/check_types.h"
#include "rules/lang/functions.h"
#include "rules/lang/list_functions.h"
#include "rules/lang/types.h"

namespace tw::rules {

// The types of the names in scope, as the evaluator's Scope: a child sees and changes its parent's.
struct TypeScope {
  std::shared_ptr<TypeScope> parent;
  std::map<std::string, Type, std::less<>> names;
  Type* find(std::string_view name) {
    for (TypeScope* scope = this; scope; scope = scope->parent.get()) {
      if (auto at = scope->names.find(name); at != scope->names.end()) return &at->second;
    }
    return nullptr;
  }
};
using TypeScopePtr = std::shared_ptr<TypeScope>;

class TypeChecker {
 public:
  // `module`: whose text it is.
  TypeChecker(const Module& module, const Declared& declared, Diagnostics& diagnostics)
      : module_(&module), declared_(declared), diagnostics_(diagnostics) {}
  TypeChecker(const TypeChecker&) = delete;
  TypeChecker& operator=(const TypeChecker&) = delete;
  // A function's type holds the scope that it was written in, which may hold the function: nobody else would take them
  // apart.
  ~TypeChecker() {
    for (const TypeScopePtr& scope : scopes_) scope->names.clear();
  }

  void check(const Rule& rule);
  void check(const UserFunction& function);
  void check(const Step& step);
  void check(const RuleSet& set);
  void check(const ast::Argument& given, const Rule& rule, const Module& home);

 private:
  using Kind = Type::Kind;
  // The names in all scopes from here outwards, by value: to go back to, or to join with.
  using Snapshot = std::vector<std::map<std::string, Type, std::less<>>>;

  TypeScopePtr new_scope() { return scopes_.emplace_back(std::make_shared<TypeScope>()); }

  // ---- statements
  void run(const Statements& statements, const TypeScopePtr& scope);
  void run(const Statement& s, const TypeScopePtr& scope);
  void for_loop(const Statement& s, const TypeScopePtr& scope);
  void either(const Statement& s, const TypeScopePtr& scope);
  void assign(const Statement& s, const TypeScopePtr& scope);
  void assign_one(const ast::Expr* target, const Type& value, const TypeScopePtr& scope);
  static Snapshot take(const TypeScopePtr& scope);
  static void restore(const TypeScopePtr& scope, const Snapshot& names);
  // What holds if either `scope` as it is or `other` was reached.
  static void join_with(const TypeScopePtr& scope, const Snapshot& other);

  // ---- expressions
  Type type_of(const ast::Expr* e, const TypeScopePtr& scope);
  Type type_of_kind(const ast::Expr* e, const TypeScopePtr& scope);
  Type type_of_name(const ast::Name* n, const TypeScopePtr& scope);
  Type type_of_items(Array<const ast::Expr*> items, const TypeScopePtr& scope);
  // Where a comprehension or quantifier has its variables, one element of `over` taken apart.
  TypeScopePtr scope_of_item(Array<const ast::Name*> names, const Type& over, Span span, const TypeScopePtr& scope);
  Type type_of_comprehension(const ast::Comprehension* n, const TypeScopePtr& scope);
  Type type_of_index(const ast::Index* n, const TypeScopePtr& scope);
  Type type_of_quantifier(const ast::Quantifier* n, const TypeScopePtr& scope);
  Type type_of_member(const ast::Member* n, const TypeScopePtr& scope);
  Type type_of_unary(const ast::Unary* n, const TypeScopePtr& scope);
  Type type_of_binary(const ast::Binary* n, const TypeScopePtr& scope);
  Type type_of_lambda(const ast::Lambda* n, const TypeScopePtr& scope);
  void check_condition(const ast::Expr* e, const TypeScopePtr& scope);
  void check_fixed_integer(const ast::Expr* e, const TypeScopePtr& scope);
  Type list_of(const ast::Expr* e, const TypeScopePtr& scope);  // a list, else an error

  // ---- calls
  Type type_of_call(const ast::Call* n, const TypeScopePtr& scope);
  Type call_function(const ast::Name* callee, const ast::Call* n, const std::vector<Type>& values,
                     const TypeScopePtr& scope);
  Type call_user(const Module& home, const UserFunction& function, const std::vector<Type>& values, Span span);
  Type call_step(const Module& home, const Step& step, const std::vector<Type>& values, Span span);
  // What a step gives for such arguments; Any for those that are not there.
  Type result_of(const Step& step, const std::vector<Type>& values);
  Type call_lambda(const Type& lambda, const std::vector<Type>& values, Span span);
  Type call_list_function(const ListFunction& function, const ast::Call* n, const std::vector<Type>& values);
  Type call_analysis(const AnalysisFunction& function, const ast::Call* n, const std::vector<Type>& values);
  Type call_instruction(const InstructionKind& kind, const ast::Call* n, const std::vector<Type>& values);
  void check_argument(const InstructionKind& kind, const Parameter& parameter, const Type& value, Span span);
  // No factor of a list as it is written is below 1.
  void check_factors(const ast::Expr* written);
  // The mark that `key` names is declared, and `value`, if there is one, is of its type.
  void check_mark(const ast::Expr* key, const ast::Expr* value = nullptr, const Type& type = Type::any());
  Type result_of(const InstructionKind& kind, const ast::Call* n, const std::vector<const Type*>& arguments) const;

  void error(Span span, std::string message, std::string note = "");
  Type type_error(Span span, std::string_view expected, const Type& found);

  const Module* module_;
  const Declared& declared_;
  Diagnostics& diagnostics_;
  std::vector<TypeScopePtr> scopes_;  // all that were made
  bool is_post_ = false;              // of a postprocessor: nothing is open
  int functions_ = 0;  // what is being checked is the body of one, or a condition of `when`: no step is run there
  std::vector<const Step*> steps_;  // inside which the text is
  int depth_ = 0;                   // functions inside functions
  i64 work_left_ = 20000;           // expressions of one rule; beyond that all is Any
};

// Instructions, functions and steps of modules and built-in functions: what a misspelt one may have meant, as
// a note; "" if nothing is near.
std::string near_function(std::string_view name, const Declared& declared, const Module* module);

// What is said where a module uses what another one keeps to itself.
struct Unexported {
  std::string message, note;
};
std::optional<Unexported> unexported_function(std::string_view name, const Declared& declared);

std::string step_in_function(std::string_view name);
inline constexpr const char* step_in_function_note =
    "a step changes the program: call it in a statement of a rule or of another step";
// Where the first error in a step's text is: "in step `f`, line 3 of my.tw: ".
std::string place_in_step(const Step& step, const Diagnostics& inside);

// Is its second argument the name of a mark?
bool takes_mark(const InstructionKind& kind);
// Null where the module sees no such mark.
const Mark* find_mark(std::string_view name, const Declared& declared, const Module* module);
// What is said of a mark that it does not see: a sentence, and a note that says what to do or proposes the nearest one.
std::string unknown_mark(std::string_view name, const Declared& declared);
std::string near_mark(std::string_view name, const Declared& declared, const Module* module);
// The type of a mark in words: "an integer", "`[int]`".
std::string described(const Type& type);
// What is found where the type is wanted, "a text" or "a text in it"; nothing if it fits, or if that cannot be told.
std::optional<std::string> misfit(const Type& wanted, const Type& found);
std::optional<std::string> misfit(const Type& wanted, const RuleValue& found);
std::string wrong_mark_value(const Mark& mark, const std::string& found);

}  // namespace tw::rules
