// Workload modules: text -> ast::Workload, ast::FunctionText, ast::Epilogue. Names are resolved when a workload is
// instantiated.
#include <algorithm>

#include "dsl/base/text.h"
#include "dsl/text/lists.h"
#include "dsl/text/parse_expr.h"
#include "dsl/text/workload.h"

namespace tw {
namespace {

using ast::AxisPlace, ast::Conditional, ast::Declaration, ast::Epilogue, ast::Expr, ast::FunctionText, ast::Let,
    ast::NamePlace;
using ast::Parameter, ast::Require, ast::StageText, ast::Statement, ast::ToleranceSetting, ast::Workload;

class ModuleParser {
 public:
  ModuleParser(WorkloadModule& module, Diagnostics& diagnostics)
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
    if (p_.accept("workload")) return workload();
    if (p_.accept("fn")) return function();
    if (p_.accept("epilogue")) return epilogue();
    std::string near = closest(p_.peek().text, {"workload", "fn", "epilogue"});
    p_.error_expected("`workload`, `fn` or `epilogue`", near.empty() ? "" : cat("did you mean `", near, "`?"));
    return false;
  }

  std::optional<NamePlace> name(std::string_view what) {
    std::optional<Token> token = p_.expect_name(what);
    if (!token) return std::nullopt;
    return NamePlace{p_.arena().text(token->text), token->span};
  }

  template <class List>
  bool is_new(const List& list, const NamePlace& added, std::string_view what) {
    bool known = std::any_of(list.begin(), list.end(), [&](const auto& item) { return item.name.name == added.name; });
    if (known) p_.error(added.span, cat("there is already ", what, " `", added.name, "` here"));
    return !known;
  }

  // ---- definitions

  bool workload() {
    Workload made{};
    std::optional<NamePlace> own = name("the name of the workload");
    if (!own || !is_new(module_.workloads, *own, "a workload") || !p_.expect("(")) return false;
    made.name = *own;
    while (!p_.at(")")) {
      if (!parameter(made.parameters)) return false;
      if (!p_.accept(",")) break;
    }
    if (!p_.expect(")") || !p_.expect("{")) return false;
    if (!doc(made.doc)) p_.recover();
    bool closed = statements(made.body);
    module_.workloads.push_back(std::move(made));
    return closed && p_.end_statement();
  }

  bool parameter(std::vector<Parameter>& parameters) {
    Parameter made{};
    std::optional<NamePlace> own = name("the name of a parameter");
    if (!own || !is_new(parameters, *own, "a parameter") || !p_.expect(":")) return false;
    made.name = *own;
    if (p_.accept("int")) {
      made.kind = ParameterKind::Integer;
    } else if (p_.accept("ints")) {
      made.kind = ParameterKind::Integers;
    } else if (p_.accept("type")) {
      made.kind = ParameterKind::Type;
    } else {
      p_.error_expected("`int`, `ints` or `type`");
      return false;
    }
    if (p_.accept("=")) {
      made.fallback = p_.expr();
      if (!made.fallback) return false;
    }
    parameters.push_back(made);
    return true;
  }

  bool function() {
    FunctionText made{};
    std::optional<NamePlace> own = name("the name of the function");
    if (!own || !is_new(module_.functions, *own, "a function") || !p_.expect("(")) return false;
    made.name = *own;
    bool builtin = parse_dtype(own->name) || parse_function(own->name) || own->name == "min" || own->name == "max" ||
                   own->name == "lowest" || instantiation::is_list_function(own->name);
    if (builtin) {
      p_.error(own->span, cat("`", own->name, "` is a function of the language"));
      return false;
    }
    while (!p_.at(")")) {
      std::optional<NamePlace> parameter = name("the name of a parameter");
      if (!parameter) return false;
      made.parameters.push_back(*parameter);
      if (!p_.accept(",")) break;
    }
    if (!p_.expect(")") || !p_.expect("=")) return false;
    made.body = p_.expr();
    if (!made.body || !p_.end_statement()) return false;
    module_.functions.push_back(made);
    return true;
  }

  bool epilogue() {
    Epilogue made{};
    std::optional<NamePlace> own = name("the name of the epilogue");
    if (!own || !is_new(module_.epilogues, *own, "an epilogue") || !p_.expect("(")) return false;
    made.name = *own;
    std::optional<NamePlace> value = name("the name of the value");
    if (!value || !p_.expect(")")) return false;
    made.parameter = *value;
    if (p_.accept("=")) {
      made.result = p_.expr();
    } else {
      if (!p_.expect("{")) return false;
      if (!doc(made.doc)) p_.recover();
      if (!statements(made.body, &made.result)) return false;
      if (!made.result) {
        p_.error(made.name.span, "this epilogue has no `return`");
        return false;
      }
    }
    if (!made.result || !p_.end_statement()) return false;
    module_.epilogues.push_back(std::move(made));
    return true;
  }

  bool doc(Str& text) {
    if (!p_.at("doc") || p_.peek(1).is("[") || p_.peek(1).is(":")) return true;
    p_.take();
    std::optional<Str> characters = p_.expect_text("the text of `doc`");
    if (!characters) return false;
    text = *characters;
    return p_.end_statement();
  }

  // ---- statements

  // Up to the closing brace, which is taken. `result`: where a `return` goes; null where there can be none.
  bool statements(std::vector<Statement>& list, const Expr** result = nullptr) {
    Parser::Nesting nesting(p_);
    if (!nesting) return false;
    while (!p_.at("}") && !p_.at_end()) {
      bool fine = result && p_.accept("return") ? (*result = p_.expr()) && p_.end_statement() : statement(list);
      if (!fine) p_.recover();
    }
    return p_.expect("}");
  }

  bool statement(std::vector<Statement>& list) {
    if (p_.at("if")) return conditional(list);
    bool is_stage = p_.peek(1).is("[") || p_.peek(1).is(":") || p_.peek(1).is(",");
    if (is_stage) return stage(list, false);
    if (p_.accept("input")) return declarations(list, Role::Input);
    if (p_.accept("const")) return declarations(list, Role::Constant);
    if (p_.accept("output")) return stage(list, true);
    if (p_.accept("let")) return let(list);
    if (p_.accept("require")) return require(list);
    if (p_.at("tolerance")) return tolerance(list);
    std::string near = closest(p_.peek().text, {"input", "const", "output", "let", "require", "tolerance", "if"});
    p_.error_expected("a statement",
                      near.empty() ? "a stage looks like `D[i: M, j: N] = ...`" : cat("did you mean `", near, "`?"));
    return false;
  }

  bool conditional(std::vector<Statement>& list) {
    p_.take();
    Conditional made{};
    made.condition = p_.expr();
    if (!made.condition || !p_.expect("{") || !statements(made.then)) return false;
    if (p_.accept("else")) {
      bool fine = p_.at("if") ? chained(made.otherwise) : p_.expect("{") && statements(made.otherwise);
      if (!fine) return false;
    } else if (!p_.end_statement()) {
      return false;
    }
    list.push_back({std::move(made)});
    return true;
  }

  bool chained(std::vector<Statement>& list) {
    Parser::Nesting nesting(p_);
    return nesting && conditional(list);
  }

  bool declarations(std::vector<Statement>& list, Role role) {
    do {
      Declaration made{};
      made.role = role;
      std::optional<NamePlace> own = name("the name of a buffer");
      if (!own || !p_.expect(":")) return false;
      made.name = *own;
      const Expr* type = p_.expr();
      if (!type) return false;
      auto* index = ast::as<ast::Index>(type);
      if (!index) {
        p_.error(type->span, "expected a type with a shape", cat("for example `", own->name, ": f32[M, N]`"));
        return false;
      }
      made.type = index->value;
      made.shape = index->indices;
      if (!layout(made.layout)) return false;
      list.push_back({made});
    } while (p_.accept(","));
    return p_.end_statement();
  }

  bool layout(Str& text) {
    if (!p_.accept("layout")) return true;
    std::optional<Str> characters = p_.expect_text("the text of `layout`");
    if (characters) text = *characters;
    return characters.has_value();
  }

  bool let(std::vector<Statement>& list) {
    std::optional<NamePlace> own = name("a name");
    if (!own || !p_.expect("=")) return false;
    const Expr* value = p_.expr();
    if (!value || !p_.end_statement()) return false;
    list.push_back({Let{*own, value}});
    return true;
  }

  bool require(std::vector<Statement>& list) {
    Require made{p_.expr(), {}};
    if (!made.condition) return false;
    if (p_.accept(",")) {
      std::optional<Str> message = p_.expect_text("the message of `require`");
      if (!message) return false;
      made.message = *message;
    }
    list.push_back({made});
    return p_.end_statement();
  }

  bool tolerance(std::vector<Statement>& list) {
    std::size_t begin = p_.take().span.begin;
    std::optional<double> absolute = p_.expect_number("the absolute tolerance");
    if (!absolute || !p_.expect(",")) return false;
    std::optional<double> relative = p_.expect_number("the relative tolerance");
    if (!relative) return false;
    Span span = p_.span_from(begin);
    if (*absolute < 0 || *relative < 0) {
      p_.error(span, "a tolerance cannot be negative");
      return false;
    }
    list.push_back({ToleranceSetting{{*absolute, *relative}, span}});
    return p_.end_statement();
  }

  // ---- stages

  bool stage(std::vector<Statement>& list, bool is_output) {
    StageText made{};
    made.is_output = is_output;
    std::size_t begin = p_.here();
    do {
      std::optional<NamePlace> own = name("the name of a stage");
      if (!own) return false;
      made.names.push_back(*own);
      made.types.push_back(nullptr);
      if (p_.accept(":") && !(made.types.back() = type_name())) return false;
    } while (p_.accept(","));
    if (!p_.expect("[") || !axes(made.axes, "]") || !layout(made.layout) || !p_.expect("=") || !right_side(made))
      return false;
    made.span = p_.span_from(begin);
    list.push_back({std::move(made)});
    return p_.end_statement();
  }

  // A name, or a call such as accumulator(T); not more, because `[` opens the axes here.
  const Expr* type_name() {
    std::optional<NamePlace> own = name("a type");
    if (!own) return nullptr;
    const Expr* base = p_.arena().make<ast::Name>(Expr{ast::Kind::Name, own->span}, own->name);
    if (!p_.accept("(")) return base;
    const Expr* inner = p_.expr();
    if (!inner || !p_.expect(")")) return nullptr;
    ast::Argument argument{{}, {}, inner};
    return p_.arena().make<ast::Call>(Expr{ast::Kind::Call, p_.span_from(own->span.begin), inner->height + 1}, base,
                                      p_.arena().copy(&argument, 1));
  }

  bool axes(std::vector<AxisPlace>& list, std::string_view close) {
    while (!p_.at(close)) {
      std::optional<NamePlace> own = name("the name of an axis");
      if (!own) return false;
      if (!p_.at(":")) {
        p_.error_expected("`:` and the extent of the axis", cat("for example `", own->name, ": N`"));
        return false;
      }
      p_.take();
      const Expr* extent = p_.expr();
      if (!extent) return false;
      list.push_back({*own, extent});
      if (!p_.accept(",")) break;
    }
    return p_.expect(close);
  }

  bool at_reduction(std::size_t ahead) const {
    return te::parse_reducer(p_.peek(ahead).text) && p_.peek(ahead + 1).is("(") &&
           p_.peek(ahead + 2).kind == TokenKind::Name && p_.peek(ahead + 3).is(":");
  }

  bool right_side(StageText& made) {
    if (at_reduction(0)) {
      made.reducer_span = p_.peek().span;
      made.reducer = *te::parse_reducer(p_.take().text);
      p_.take();
      if (!axes(made.reduce_axes, ")")) return false;
      if (p_.accept("in") && !(made.accumulator = type_name())) return false;
    }
    for (std::size_t ahead = 0; !p_.peek(ahead).after_newline && !p_.peek(ahead).is(";"); ++ahead) {
      if (p_.peek(ahead).kind == TokenKind::End) break;
      if (!at_reduction(ahead)) continue;
      p_.error(p_.peek(ahead).span, "a reduction must be the whole right side of a stage",
               cat("give it a stage of its own: `S[...] = ", p_.peek(ahead).text, "(...) ...`"));
      return false;
    }
    made.value = p_.expr();
    return made.value != nullptr;
  }

  WorkloadModule& module_;
  Parser p_;
};

}  // namespace

WorkloadModule parse_workloads(const Source& source, Diagnostics& diagnostics) {
  WorkloadModule module{std::make_shared<const Source>(source), std::make_shared<Arena>(), {}, {}, {}};
  ModuleParser(module, diagnostics).run();
  return module;
}

}  // namespace tw
