#include "graph/rewrites.h"

#include <algorithm>
#include <map>
#include <set>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "dsl/text/parse_expr.h"
#include "graph/import_onnx.h"
#include "graph/own_operator.h"
#include "graph/rewrite_match.h"

namespace tw::graph {
namespace {

constexpr const char* kRewritesPath = "graph/rewrites.tw";

using Names = std::set<std::string, std::less<>>;

class ModuleParser {
 public:
  ModuleParser(RewriteModule& module, Diagnostics& diagnostics)
      : module_(module), p_(*module.source, *module.arena, diagnostics) {}

  void run() {
    while (!p_.at_end()) {
      if (definition()) continue;
      p_.recover();
      if (p_.at("}")) p_.take();
    }
  }

 private:
  bool definition() {
    if (p_.accept("rewrite")) return rewrite();
    if (p_.accept("onnx")) return onnx_operator();
    return p_.error_expected("`rewrite` or `onnx`"), false;
  }

  bool rewrite() {
    Rewrite made;
    if (!head(made, "the name of the rewriting", false) || !body([&] { return statement(made); })) return false;
    if (!made.replacement) return p_.error(made.span, "there is no `pattern -> replacement`"), false;
    if (!check(made)) return false;
    module_.rewrites.push_back(std::move(made));
    return true;
  }

  bool onnx_operator() {
    std::optional<Str> domain = p_.expect_text("the domain of the operator, as `\"com.microsoft\"`");
    if (!domain) return false;
    OnnxOperator made;
    made.domain = domain_or_onnx(std::string(*domain));
    if (!head(made, "the name of the operator", true) || !body([&] { return statement(made); })) return false;
    if (made.results.empty()) return p_.error(made.span, "there is no `return`"), false;
    if (!is_new(made) || !check(made)) return false;
    module_.operators.push_back(std::move(made));
    return true;
  }

  // ---- names and parameters

  bool head(Definition& made, std::string_view what, bool is_operator) {
    std::optional<Token> name = p_.expect_name(what);
    if (!name || !p_.expect("(")) return false;
    made.name = name->text;
    made.span = name->span;
    while (!p_.at(")")) {
      if (!parameter(made, is_operator) || (!p_.at(")") && !p_.expect(","))) return false;
    }
    p_.take();
    return p_.expect("{");
  }

  bool parameter(Definition& definition, bool is_operator) {
    std::optional<Token> name = p_.expect_name("the name of a parameter");
    if (!name) return false;
    if (definition.find(name->text))
      return p_.error(name->span, cat("there is already a `", name->text, "` here")), false;
    if (!p_.expect(":")) return false;
    constexpr std::pair<const char*, Definition::Kind> kinds[] = {
        {"value", Definition::Kind::Value}, {"number", Definition::Kind::Number}, {"ints", Definition::Kind::Integers}};
    for (const auto& [word, kind] : kinds) {
      if (!p_.accept(word)) continue;
      Definition::Parameter made{std::string(name->text), kind};
      if (is_operator && !default_of(made)) return false;
      definition.parameters.push_back(std::move(made));
      return true;
    }
    return p_.error_expected("`value`, `number` or `ints`"), false;
  }

  // What stands behind the kind of a parameter: `?`, a number or a list, or nothing.
  bool default_of(Definition::Parameter& parameter) {
    parameter.is_optional = p_.accept(parameter.kind == Definition::Kind::Value ? "?" : "=");
    if (!parameter.is_optional || parameter.kind == Definition::Kind::Value) return true;
    if (parameter.kind == Definition::Kind::Integers) return integers(parameter.list);
    std::optional<double> number = p_.expect_number("a number");
    parameter.number = number.value_or(0);
    return number.has_value();
  }

  bool integers(std::vector<i64>& list) {
    if (!p_.expect("[")) return false;
    while (!p_.at("]")) {
      std::optional<i64> item = p_.expect_integer("an integer");
      if (!item) return false;
      list.push_back(*item);
      if (!p_.at("]") && !p_.expect(",")) return false;
    }
    p_.take();
    return true;
  }

  bool is_new(const OnnxOperator& made) {
    if (find_operator({&module_}, made.domain, made.name).text)
      return p_.error(made.span, cat("there is already an operator `", made.name, "` of `", made.domain, "` here")),
             false;
    if (made.domain != kOnnxDomain || std::ranges::count(onnx_operators(), made.name) == 0) return true;
    return p_.error(made.span, cat("`", made.name, "` of `", kOnnxDomain, "` is known already"),
                    "only operators that are not supported, or of another domain, can be written"),
           false;
  }

  // ---- statements

  // Up to the closing brace. Goes on after an error, so that all are said.
  template <class Statement>
  bool body(const Statement& statement) {
    bool is_right = true;
    while (!p_.at("}") && !p_.at_end()) {
      if (statement()) continue;
      is_right = false;
      p_.recover();
    }
    return p_.expect("}") && is_right;
  }

  bool at_part() const { return p_.at_name() && p_.peek(1).is("="); }
  bool part(Definition& definition) {
    std::string name(p_.take().text);
    p_.take();
    const ast::Expr* part = p_.expr();
    if (part) definition.parts.emplace_back(name, part);
    return part && p_.end_statement();
  }

  bool statement(Rewrite& rewrite) {
    if (p_.accept("when")) {
      rewrite.condition = p_.expr();
      return rewrite.condition && p_.end_statement();
    }
    if (at_part()) return part(rewrite);
    rewrite.pattern = p_.expr();
    if (!rewrite.pattern || !p_.expect("->")) return false;
    rewrite.replacement = p_.expr();
    return rewrite.replacement && p_.end_statement();
  }

  bool statement(OnnxOperator& op) {
    if (!op.results.empty()) return p_.error(p_.peek().span, "`return` ends an operator"), false;
    if (at_part()) return part(op);
    if (p_.accept("require")) return requirement(op);
    if (!p_.accept("return")) return p_.error_expected("`NAME = ...`, `require` or `return`"), false;
    std::optional<std::vector<const ast::Expr*>> results = p_.exprs();
    if (results) op.results = std::move(*results);
    return results && p_.end_statement();
  }

  bool requirement(OnnxOperator& op) {
    OnnxOperator::Requirement made{p_.expr(), "", op.parts.size()};
    if (!made.condition) return false;
    if (p_.accept(",")) {
      std::optional<Str> message = p_.expect_text("the message of `require`");
      if (!message) return false;
      made.message = *message;
    }
    op.requirements.push_back(std::move(made));
    return p_.end_statement();
  }

  // ---- checks

  // What an expression may use.
  struct Scope {
    const Definition& definition;
    const Names& parts;        // those that stand before
    const Names* bound;        // names that have a value; null for patterns, whose attributes are parameters
    bool is_operator = false;  // which may choose by `if`
  };

  // Names and operators are known, and the replacement uses what the pattern binds.
  bool check(const Rewrite& rewrite) {
    Names parts, bound;
    if (!check_parts(rewrite, {rewrite, parts, nullptr}, parts)) return false;
    if (!operator_call(rewrite.pattern))
      return p_.error(rewrite.pattern->span, "a pattern begins with an operator"), false;
    if (!check_side({rewrite, parts, nullptr}, rewrite.pattern)) return false;
    if (!check_levels(rewrite)) return false;
    bind(rewrite, rewrite.pattern, bound);
    return check_side({rewrite, parts, &bound}, rewrite.replacement);
  }

  using Levels = std::map<std::string, int, std::less<>>;  // of parts
  // Matching is recursive, also through the parts of a pattern, so the levels of all together have a limit.
  bool check_levels(const Rewrite& rewrite) {
    Levels levels;
    auto fits = [&](const ast::Expr* e) {
      if (levels_of(e, levels) <= ast::kMaxHeight) return true;
      return p_.error(e->span, cat("with its parts this has more than ", ast::kMaxHeight, " levels")), false;
    };
    for (const auto& [name, part] : rewrite.parts) {
      if (!fits(part)) return false;
      levels[name] = levels_of(part, levels);
    }
    return fits(rewrite.pattern);
  }
  static int levels_of(const ast::Expr* e, const Levels& levels) {
    if (const ast::Name* name = ast::as<ast::Name>(e)) {
      auto part = levels.find(name->name);
      return part == levels.end() ? 1 : part->second;
    }
    int below = 0;
    if (std::optional<OperatorCall> call = operator_call(e)) {
      for (const ast::Expr* operand : call->operands) below = std::max(below, levels_of(operand, levels));
    }
    return below + 1;
  }

  // What may be left out is used only where it is there.
  bool check(const OnnxOperator& op) {
    Names parts, bound;
    for (const Definition::Parameter& parameter : op.parameters) {
      if (parameter.kind != Definition::Kind::Value || !parameter.is_optional) bound.insert(parameter.name);
    }
    for (const auto& [name, part] : op.parts) bound.insert(name);
    const Scope scope{op, parts, &bound, true};
    auto is_right = [&](const ast::Expr* result) { return check_side(scope, result); };
    return check_parts(op, scope, parts) &&
           std::ranges::all_of(op.requirements, [&](const auto& r) { return check_condition(op, r.condition); }) &&
           std::ranges::all_of(op.results, is_right);
  }

  // Adds them to `parts`, to which the scope belongs.
  bool check_parts(const Definition& definition, const Scope& scope, Names& parts) {
    for (const auto& [name, part] : definition.parts) {
      if (!check_side(scope, part)) return false;
      if (definition.find(name) || !parts.insert(name).second)
        return p_.error(part->span, cat("there is already a `", name, "` here")), false;
    }
    return true;
  }

  bool check_side(const Scope& scope, const ast::Expr* e) {
    if (const ast::Name* name = ast::as<ast::Name>(e)) return check_name(scope, name);
    if (ast::as<ast::Int>(e) || ast::as<ast::Float>(e)) return true;
    if (const ast::If* choice = ast::as<ast::If>(e); choice && scope.is_operator) return check_choice(scope, choice);
    std::optional<OperatorCall> call = operator_call(e);
    if (!call) return p_.error(e->span, "expected an operator, a name or a number"), false;
    if (!check_operator(*call, e->span)) return false;
    for (const ast::Argument& attribute : call->attributes) {
      const ast::Name* name = ast::as<ast::Name>(attribute.value);
      const Definition::Parameter* parameter = name ? scope.definition.find(name->name) : nullptr;
      if (!scope.bound && (!parameter || parameter->kind != Definition::Kind::Integers))
        return p_.error(attribute.value->span, "expected a parameter of kind `ints`: a pattern takes a list as it is"),
               false;
    }
    return std::ranges::all_of(call->operands, [&](const ast::Expr* operand) { return check_side(scope, operand); });
  }

  bool check_name(const Scope& scope, const ast::Name* name) {
    const Definition::Parameter* parameter = scope.definition.find(name->name);
    bool is_operand = scope.parts.count(name->name) > 0 || (parameter && parameter->kind != Definition::Kind::Integers);
    if (!is_operand) {
      const char* why = parameter ? "` is a list, and no operand" : "`: parameters and parts stand before their use";
      return p_.error(name->span, cat(parameter ? "`" : "unknown name `", name->name, why)), false;
    }
    if (!scope.bound || scope.bound->count(name->name) > 0) return true;
    if (scope.is_operator)
      return p_.error(name->span, cat("`", name->name, "` may be left out"),
                      cat("write `if ", name->name, "? then ... else ...`")),
             false;
    return p_.error(name->span, cat("the pattern does not say what `", name->name, "` is")), false;
  }

  bool check_choice(const Scope& scope, const ast::If* choice) {
    if (!check_condition(scope.definition, choice->condition)) return false;
    for (bool truth : {true, false}) {
      Names bound = *scope.bound;
      add_present(choice->condition, truth, bound);
      if (!check_side({scope.definition, scope.parts, &bound, true}, truth ? choice->then : choice->otherwise))
        return false;
    }
    return true;
  }

  static bool is_junction(const ast::Binary* e) { return e && (e->op == BinaryOp::And || e->op == BinaryOp::Or); }

  // Only for values that may be left out it is asked whether they are there.
  bool check_condition(const Definition& definition, const ast::Expr* e) {
    const ast::Unary* unary = ast::as<ast::Unary>(e);
    if (unary && unary->op == UnaryOp::Not) return check_condition(definition, unary->value);
    if (const ast::Binary* binary = ast::as<ast::Binary>(e); is_junction(binary))
      return check_condition(definition, binary->a) && check_condition(definition, binary->b);
    const ast::Test* test = ast::as<ast::Test>(e);
    if (!test) return has_no_test(e);
    const ast::Name* name = ast::as<ast::Name>(test->value);
    const Definition::Parameter* parameter = name ? definition.find(name->name) : nullptr;
    if (parameter && parameter->kind == Definition::Kind::Value && parameter->is_optional) return true;
    return p_.error(e->span, "expected the name of a value that may be left out, as `x: value?`, before `?`"), false;
  }

  // Refuses `x?` in an expression of integers.
  bool has_no_test(const ast::Expr* e) {
    if (!e) return true;
    if (ast::as<ast::Test>(e)) return p_.error(e->span, "`?` stands alone or between `and`, `or` and `not`"), false;
    std::vector<const ast::Expr*> inner;
    if (const ast::Unary* unary = ast::as<ast::Unary>(e)) inner = {unary->value};
    if (const ast::Binary* binary = ast::as<ast::Binary>(e)) inner = {binary->a, binary->b};
    if (const ast::If* choice = ast::as<ast::If>(e)) inner = {choice->condition, choice->then, choice->otherwise};
    if (const ast::Quantifier* all = ast::as<ast::Quantifier>(e)) inner = {all->over, all->condition};
    if (const ast::Comprehension* list = ast::as<ast::Comprehension>(e))
      inner = {list->over, list->condition, list->value};
    if (const ast::List* list = ast::as<ast::List>(e)) inner.assign(list->items.begin(), list->items.end());
    if (const ast::Slice* slice = ast::as<ast::Slice>(e)) inner = {slice->begin, slice->end};
    if (const ast::Index* index = ast::as<ast::Index>(e)) {
      inner.assign(index->indices.begin(), index->indices.end());
      inner.push_back(index->value);
    }
    if (const ast::Call* call = ast::as<ast::Call>(e)) {
      for (const ast::Argument& argument : call->arguments) inner.push_back(argument.value);
    }
    return std::ranges::all_of(inner, [&](const ast::Expr* part) { return has_no_test(part); });
  }

  // The values that are there if a condition holds, or if it does not.
  static void add_present(const ast::Expr* e, bool truth, Names& present) {
    const ast::Test* test = ast::as<ast::Test>(e);
    if (test && truth) present.emplace(ast::as<ast::Name>(test->value)->name);
    const ast::Unary* unary = ast::as<ast::Unary>(e);
    if (unary && unary->op == UnaryOp::Not) add_present(unary->value, !truth, present);
    const ast::Binary* binary = ast::as<ast::Binary>(e);
    if (is_junction(binary) && truth == (binary->op == BinaryOp::And)) {
      add_present(binary->a, truth, present);
      add_present(binary->b, truth, present);
    }
  }

  bool check_operator(const OperatorCall& call, Span span) {
    auto is_it = [&](const ast::Workload& workload) { return workload.name.name == call.op; };
    if (std::ranges::any_of(operators().workloads, is_it)) return true;
    std::vector<std::string> names;
    for (const ast::Workload& workload : operators().workloads) names.emplace_back(workload.name.name);
    std::string near = closest(call.op, names);
    p_.error(span, cat("unknown operator `", call.op, "`"), near.empty() ? "" : cat("did you mean `", near, "`?"));
    return false;
  }

  // The names that a pattern gives a meaning.
  static void bind(const Rewrite& rewrite, const ast::Expr* e, Names& bound) {
    if (const ast::Name* name = ast::as<ast::Name>(e)) {
      bool is_new = bound.emplace(name->name).second;
      for (const auto& [own, part] : rewrite.parts) {
        if (is_new && own == name->name) bind(rewrite, part, bound);
      }
    }
    if (std::optional<OperatorCall> call = operator_call(e)) {
      for (const ast::Expr* operand : call->operands) bind(rewrite, operand, bound);
      for (const ast::Argument& attribute : call->attributes) {
        if (const ast::Name* name = ast::as<ast::Name>(attribute.value)) bound.emplace(name->name);
      }
    }
  }

  RewriteModule& module_;
  Parser p_;
};

}  // namespace

const Definition::Parameter* Definition::find(std::string_view wanted) const {
  auto at = std::ranges::find(parameters, wanted, &Parameter::name);
  return at == parameters.end() ? nullptr : &*at;
}

RewriteModule parse_rewrites(const Source& source, Diagnostics& diagnostics) {
  RewriteModule module{std::make_shared<const Source>(source), std::make_shared<Arena>(), {}, {}};
  ModuleParser(module, diagnostics).run();
  return module;
}

const RewriteModule& built_in_rewrites() {
  static const RewriteModule module = [] {
    std::optional<std::string_view> text = embedded_text(kRewritesPath);
    TW_CHECK(text, "graph/rewrites.tw is not in the binary");
    Source source{kRewritesPath, std::string(*text)};
    Diagnostics diagnostics(source);
    RewriteModule parsed = parse_rewrites(source, diagnostics);
    TW_CHECK(!diagnostics.has_errors(), "graph/rewrites.tw has errors; rewrites_test prints them");
    return parsed;
  }();
  return module;
}

}  // namespace tw::graph
