#include "graph/rewrites.h"

#include <algorithm>

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

  // Names and operators of patterns are known.
  bool check(const Rewrite& rewrite) {
    bool good = check_operators(rewrite, rewrite.pattern) && check_operators(rewrite, rewrite.replacement);
    for (const auto& [name, part] : rewrite.parts) good = good && check_operators(rewrite, part);
    return good;
  }
  bool check_operators(const Rewrite& rewrite, const ast::Expr* e) {
    if (const ast::Name* name = ast::as<ast::Name>(e)) {
      bool is_part = std::ranges::any_of(rewrite.parts, [&](const auto& part) { return part.first == name->name; });
      if (is_part || rewrite.find(name->name)) return true;
      return p_.error(e->span, cat("unknown name `", name->name, "`: parameters and parts are declared")), false;
    }
    if (ast::as<ast::Int>(e) || ast::as<ast::Float>(e)) return true;
    std::optional<OperatorCall> call = operator_call(e);
    if (!call) return p_.error(e->span, "expected an operator, a name or a number"), false;
    auto is_it = [&](const ast::Workload& workload) { return workload.name.name == call->op; };
    if (std::ranges::none_of(operators().workloads, is_it)) {
      std::vector<std::string> names;
      for (const ast::Workload& workload : operators().workloads) names.emplace_back(workload.name.name);
      std::string near = closest(call->op, names);
      return p_.error(e->span, cat("unknown operator `", call->op, "`"),
                      near.empty() ? "" : cat("did you mean `", near, "`?")),
             false;
    }
    return std::ranges::all_of(call->operands,
                               [&](const ast::Expr* operand) { return check_operators(rewrite, operand); });
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
