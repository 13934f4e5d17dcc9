#include "graph/rewrites.h"

#include <algorithm>
#include <set>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "dsl/text/parse_expr.h"
#include "graph/rewrite_match.h"

namespace tw::graph {
namespace {

constexpr const char* kRewritesPath = "graph/rewrites.tw";

class ModuleParser {
 public:
  ModuleParser(RewriteModule& module, Diagnostics& diagnostics)
      : module_(module), p_(*module.source, *module.arena, diagnostics) {}

  void run() {
    while (!p_.at_end()) {
      std::optional<Rewrite> made = rewrite();
      if (made) module_.rewrites.push_back(std::move(*made));
      if (made) continue;
      p_.recover();
      if (p_.at("}")) p_.take();
    }
  }

 private:
  std::optional<Rewrite> rewrite() {
    if (!p_.expect("rewrite")) return std::nullopt;
    std::optional<Token> name = p_.expect_name("the name of the rewriting");
    if (!name || !p_.expect("(")) return std::nullopt;
    Rewrite made{.name = std::string(name->text), .span = name->span};
    while (!p_.at(")")) {
      if (!parameter(made) || (!p_.at(")") && !p_.expect(","))) return std::nullopt;
    }
    p_.take();
    if (!p_.expect("{")) return std::nullopt;
    while (!p_.at("}")) {
      if (!statement(made)) return std::nullopt;
    }
    p_.take();
    if (!made.replacement) return p_.error(made.span, "there is no `pattern -> replacement`"), std::nullopt;
    return check(made) ? std::optional(std::move(made)) : std::nullopt;
  }

  bool parameter(Rewrite& rewrite) {
    std::optional<Token> name = p_.expect_name("the name of a parameter");
    if (!name || !p_.expect(":")) return false;
    constexpr std::pair<const char*, Rewrite::Kind> kinds[] = {
        {"value", Rewrite::Kind::Value}, {"number", Rewrite::Kind::Number}, {"ints", Rewrite::Kind::Integers}};
    for (const auto& [word, kind] : kinds) {
      if (!p_.accept(word)) continue;
      rewrite.parameters.push_back({std::string(name->text), kind});
      return true;
    }
    return p_.error_expected("`value`, `number` or `ints`"), false;
  }

  bool statement(Rewrite& rewrite) {
    if (p_.accept("when")) {
      rewrite.condition = p_.expr();
      return rewrite.condition && p_.end_statement();
    }
    if (p_.at_name() && p_.peek(1).is("=")) {
      std::string name(p_.take().text);
      p_.take();
      const ast::Expr* part = p_.expr();
      if (part) rewrite.parts.emplace_back(name, part);
      return part && p_.end_statement();
    }
    rewrite.pattern = p_.expr();
    if (!rewrite.pattern || !p_.expect("->")) return false;
    rewrite.replacement = p_.expr();
    return rewrite.replacement && p_.end_statement();
  }

  // Names and operators are known, and the replacement uses what the pattern binds.
  bool check(const Rewrite& rewrite) {
    std::set<std::string, std::less<>> parts, bound;
    for (const auto& [name, part] : rewrite.parts) {
      if (!check_side(rewrite, part, parts, nullptr)) return false;
      if (rewrite.find(name) || !parts.insert(name).second)
        return p_.error(part->span, cat("there is already a `", name, "` here")), false;
    }
    if (!operator_call(rewrite.pattern))
      return p_.error(rewrite.pattern->span, "a pattern begins with an operator"), false;
    if (!check_side(rewrite, rewrite.pattern, parts, nullptr)) return false;
    bind(rewrite, rewrite.pattern, bound);
    return check_side(rewrite, rewrite.replacement, parts, &bound);
  }

  // `bound`: of a replacement, the names that it may use; null for patterns, whose attributes are parameters.
  bool check_side(const Rewrite& rewrite, const ast::Expr* e, const std::set<std::string, std::less<>>& parts,
                  const std::set<std::string, std::less<>>* bound) {
    if (const ast::Name* name = ast::as<ast::Name>(e)) {
      const Rewrite::Parameter* parameter = rewrite.find(name->name);
      bool is_operand = parts.count(name->name) > 0 || (parameter && parameter->kind != Rewrite::Kind::Integers);
      if (!is_operand) {
        const char* why = parameter ? "` is a list, and no operand" : "`: parameters and parts stand before their use";
        return p_.error(e->span, cat(parameter ? "`" : "unknown name `", name->name, why)), false;
      }
      if (!bound || bound->count(name->name) > 0) return true;
      return p_.error(e->span, cat("the pattern does not say what `", name->name, "` is")), false;
    }
    if (ast::as<ast::Int>(e) || ast::as<ast::Float>(e)) return true;
    std::optional<OperatorCall> call = operator_call(e);
    if (!call) return p_.error(e->span, "expected an operator, a name or a number"), false;
    if (!check_operator(*call, e->span)) return false;
    for (const ast::Argument& attribute : call->attributes) {
      const ast::Name* name = ast::as<ast::Name>(attribute.value);
      const Rewrite::Parameter* parameter = name ? rewrite.find(name->name) : nullptr;
      if (!bound && (!parameter || parameter->kind != Rewrite::Kind::Integers))
        return p_.error(attribute.value->span, "expected a parameter of kind `ints`: a pattern takes a list as it is"),
               false;
    }
    return std::ranges::all_of(call->operands,
                               [&](const ast::Expr* operand) { return check_side(rewrite, operand, parts, bound); });
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
  static void bind(const Rewrite& rewrite, const ast::Expr* e, std::set<std::string, std::less<>>& bound) {
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

const Rewrite::Parameter* Rewrite::find(std::string_view wanted) const {
  auto at = std::ranges::find(parameters, wanted, &Parameter::name);
  return at == parameters.end() ? nullptr : &*at;
}

RewriteModule parse_rewrites(const Source& source, Diagnostics& diagnostics) {
  RewriteModule module{std::make_shared<const Source>(source), std::make_shared<Arena>(), {}};
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
