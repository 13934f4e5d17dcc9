#include <algorithm>

#include "dsl/base/text.h"
#include "dsl/intrinsics/intrinsic.h"
#include "dsl/text/parse_expr.h"
#include "rules/lang/module.h"

namespace tw::rules {
namespace {

class ModuleParser {
 public:
  ModuleParser(std::shared_ptr<const Source> source, Diagnostics& diagnostics)
      : module_(std::make_shared<Module>()),
        parser_(*source, *(module_->arena = std::make_shared<Arena>()), diagnostics) {
    module_->source = std::move(source);
  }

  std::shared_ptr<const Module> run() {
    bool good = true;
    while (!parser_.at_end()) {
      if (declaration()) continue;
      good = false;
      parser_.recover();
    }
    return good && !parser_.diagnostics().has_errors() ? module_ : nullptr;
  }

 private:
  bool declaration() {
    bool is_exported = parser_.accept("export");
    if (parser_.at("fn")) return function(is_exported);
    if (parser_.at("step")) return step(is_exported);
    if (parser_.at("mark")) return mark(is_exported);
    if (is_exported)
      return parser_.error_expected("`fn`, `step` or `mark`", "rules and sets are known to all modules"), false;
    if (parser_.at("import")) return import();
    if (parser_.at("intrinsic")) return intrinsic();
    bool replaces = parser_.accept("replace");
    if (parser_.at("rule") || parser_.at("post")) return rule(replaces);
    if (parser_.at("schedule")) return schedule(replaces);
    if (parser_.at("rules")) return rule_set(replaces);
    parser_.error_expected(replaces ? "`rule`, `post`, `schedule` or `rules`"
                                    : "`rule`, `post`, `schedule`, `fn`, `step`, `rules`, `mark`, `export`, `import`, "
                                      "`intrinsic` or `replace`");
    return false;
  }

  // Declared for the whole process, since a trace may name it after the module is gone.
  bool intrinsic() {
    std::size_t begin = parser_.here();
    std::shared_ptr<const Intrinsic> made = parse_intrinsic(parser_);
    if (!made) return false;
    if (declare_intrinsic(made)) return true;
    parser_.error(parser_.span_from(begin), cat("there is another intrinsic `", made->name, "`"));
    return false;
  }

  std::optional<Type> mark_type() {
    Parser::Nesting nesting(parser_);
    if (!nesting) return std::nullopt;
    if (parser_.accept("int")) return Type::of(Type::Kind::Int);
    if (parser_.accept("text")) return Type::of(Type::Kind::Text);
    if (parser_.accept("number")) return Type::of(Type::Kind::Number);
    if (parser_.accept("value")) return Type::any();
    bool is_list = parser_.at("[");
    if (!is_list && !parser_.at("{")) {
      parser_.error_expected("`int`, `text`, `number`, `value`, a list `[int]` or a dictionary `{int}`");
      return std::nullopt;
    }
    parser_.take();
    std::optional<Type> element = mark_type();
    if (!element || !parser_.expect(is_list ? "]" : "}")) return std::nullopt;
    return is_list ? Type::list(*element) : Type::dictionary(*element);
  }

  bool mark(bool is_exported) {
    parser_.take();
    Mark mark;
    mark.is_exported = is_exported;
    std::size_t begin = parser_.here();
    std::optional<Token> name = parser_.expect_name("the name of the mark");
    if (!name || !parser_.expect(":")) return false;
    mark.name = text(name->text);
    mark.span = parser_.span_from(begin);
    std::optional<Type> type = mark_type();
    if (!type) return false;
    mark.type = *type;
    if (!parser_.at_statement_end() || parser_.peek().kind == TokenKind::Text) {
      std::optional<Str> doc = parser_.expect_text("what the mark says, in quotes");
      if (!doc) return false;
      mark.doc = *doc;
    }
    if (!parser_.end_statement()) return false;
    module_->marks.push_back(mark);
    return true;
  }

  bool import() {
    parser_.take();
    std::size_t begin = parser_.here();
    std::optional<Str> path = parser_.expect_text("the file of a module, in quotes");
    if (!path) return false;
    module_->imports.push_back({*path, parser_.span_from(begin)});
    return parser_.end_statement();
  }

  bool rule(bool replaces) {
    Rule rule;
    rule.replaces = replaces;
    rule.is_post = parser_.take().text == "post";
    rule.visits_program = rule.is_post;
    std::size_t begin = parser_.here();
    std::optional<Token> name = parser_.expect_name("the name of the rule");
    if (!name || !parser_.expect("(")) return false;
    std::optional<Token> argument = parser_.expect_name("the name of the argument");
    if (!argument || !parser_.expect(":")) return false;
    if (parser_.accept("program")) {
      rule.visits_program = true;
    } else if (!parser_.accept("block")) {
      parser_.error_expected("`block` or `program`");
      return false;
    }
    if (!parser_.expect(")")) return false;
    rule.name = text(name->text);
    rule.argument = text(argument->text);
    rule.span = parser_.span_from(begin);
    return clauses_and_body(std::move(rule));
  }

  // schedule NAME for WORKLOAD clauses { statements }
  bool schedule(bool replaces) {
    parser_.take();
    Rule rule{.replaces = replaces};
    std::size_t begin = parser_.here();
    std::optional<Token> name = parser_.expect_name("the name of the schedule");
    if (!name || !parser_.expect("for")) return false;
    std::optional<Token> workload = parser_.expect_name("the name of an operator or workload");
    if (!workload) return false;
    rule.visits_program = true;
    rule.name = text(name->text);
    rule.workload = text(workload->text);
    rule.span = parser_.span_from(begin);
    return clauses_and_body(std::move(rule));
  }

  bool clauses_and_body(Rule rule) {
    while (!parser_.at("{")) {
      if (!clause(rule)) return false;
    }
    if (rule.is_schedule() && rule.placement.where != Placement::Where::Nowhere) {
      parser_.error(rule.placement.span, "a schedule has no place among the rules",
                    "it starts from the program as it is written");
      return false;
    }
    if (!block(rule.body)) return false;
    module_->rules.push_back(std::move(rule));
    return true;
  }

  // doc "..." | param a = x, b = y | when condition
  bool clause(Rule& rule) {
    if (parser_.accept("doc")) {
      std::optional<Str> doc = parser_.expect_text("a text in quotes");
      if (doc) rule.doc = *doc;
      return doc.has_value();
    }
    if (parser_.accept("when")) return (rule.when = parser_.expr()) != nullptr;
    if (parser_.at("before") || parser_.at("after")) return placement(rule);
    if (!parser_.accept("param")) {
      parser_.error_expected("`doc`, `param`, `when`, `before`, `after` or `{`");
      return false;
    }
    do {
      std::optional<Token> name = parser_.expect_name("the name of a parameter");
      if (name && parser_.at(":"))
        return parser_.error_expected("`=`", "parameters take their type from the value"), false;
      if (!name || !parser_.expect("=")) return false;
      const ast::Expr* value = parser_.expr();
      if (!value) return false;
      rule.params.push_back({text(name->text), value});
    } while (parser_.accept(","));
    return true;
  }

  bool placement(Rule& rule) {
    bool is_before = parser_.take().text == "before";
    std::size_t begin = parser_.here();
    std::optional<Token> anchor = parser_.expect_name("the name of a rule");
    if (!anchor) return false;
    rule.placement = {is_before ? Placement::Where::Before : Placement::Where::After, text(anchor->text),
                      parser_.span_from(begin)};
    return true;
  }

  // NAME(a, b), of a function or a step.
  template <class Definition>
  bool head(Definition& out, std::string_view what) {
    parser_.take();
    std::size_t begin = parser_.here();
    std::optional<Token> name = parser_.expect_name(what);
    if (!name || !parser_.expect("(")) return false;
    out.name = text(name->text);
    out.span = parser_.span_from(begin);
    while (!parser_.at(")")) {
      std::optional<Token> parameter = parser_.expect_name("a parameter");
      if (!parameter) return false;
      out.parameters.push_back(text(parameter->text));
      if (!parser_.accept(",")) break;
    }
    return parser_.expect(")");
  }

  bool step(bool is_exported) {
    Step step{.is_exported = is_exported};
    if (!head(step, "the name of the step")) return false;
    step_ = &step;
    bool good = block(step.body);
    step_ = nullptr;
    if (good) module_->steps.push_back(std::move(step));
    return good;
  }

  // return a, b: the last line of a step.
  bool result() {
    std::size_t begin = parser_.here();
    parser_.take();
    Span span = parser_.span_from(begin);
    const ast::Expr* value = assigned();
    if (!value || !parser_.end_statement()) return false;
    if (blocks_ == 1 && parser_.at("}")) return step_->result = value, true;
    parser_.error(span, "`return` is the last line of a step", "give the value a name, and return that");
    return false;
  }

  bool function(bool is_exported) {
    UserFunction function;
    function.is_exported = is_exported;
    if (!head(function, "the name of the function") || !parser_.expect("=")) return false;
    function.body = parser_.expr();
    if (!function.body || !parser_.end_statement()) return false;
    module_->functions.push_back(function);
    return true;
  }

  bool rule_set(bool replaces) {
    parser_.take();
    RuleSet set;
    set.replaces = replaces;
    std::size_t begin = parser_.here();
    std::optional<Token> name = parser_.expect_name("the name of the rule set");
    if (!name) return false;
    std::string words(name->text);
    while (parser_.accept("-")) {
      std::optional<Token> word = parser_.expect_name("the rest of the name");
      if (!word) return false;
      words += cat("-", word->text);
    }
    set.name = text(words);
    set.span = parser_.span_from(begin);
    if (parser_.accept("doc")) {
      std::optional<Str> doc = parser_.expect_text("a text in quotes");
      if (!doc) return false;
      set.doc = *doc;
    }
    if (!parser_.expect("{")) return false;
    while (!parser_.at("}")) {
      const ast::Expr* entry = parser_.expr();
      if (!entry || !set_entry(entry, set) || !parser_.end_statement()) return false;
    }
    parser_.take();
    module_->sets.push_back(std::move(set));
    return true;
  }

  bool set_entry(const ast::Expr* entry, RuleSet& set) {
    if (auto* name = ast::as<ast::Name>(entry)) {
      set.entries.push_back({name->name, name->span, {}});
      return true;
    }
    auto* call = ast::as<ast::Call>(entry);
    auto* callee = call ? ast::as<ast::Name>(call->callee) : nullptr;
    if (!callee) {
      parser_.error(entry->span, "expected the name of a rule, with parameters in parentheses if any");
      return false;
    }
    set.entries.push_back({callee->name, callee->span, {call->arguments.begin(), call->arguments.end()}});
    return true;
  }

  bool block(Statements& out) {
    Parser::Nesting nesting(parser_);
    if (!nesting || !parser_.expect("{")) return false;
    bool good = true;
    ++blocks_;
    while (!parser_.at("}") && !parser_.at_end()) {
      std::size_t before = parser_.here();
      if (statement(out)) continue;
      good = false;
      parser_.recover();
      if (parser_.here() == before && !parser_.at("}")) parser_.take();
    }
    --blocks_;
    return parser_.expect("}") && good;
  }

  // Is the word the first of a statement, and not the name of a value?
  bool begins_statement(std::string_view word) const {
    return parser_.at(word) && !parser_.peek(1).is("=") && !parser_.peek(1).is(",") && !parser_.peek(1).is("[") &&
           !parser_.peek(1).is("~");
  }

  // A word with which statements begin in other languages.
  bool foreign_statement() {
    struct Row {
      std::string_view word;
      const char* instead;
    };
    static constexpr Row rows[] = {
        {"while", "use `for x in range(n)`"},
        {"return", "`skip` ends the rule here, `drop` takes back what it did; a step may end with `return`"},
        {"elif", "write `else if`"},
        {"break", "use `if` inside of the loop, or prefix(list, condition)"},
        {"continue", "use `if` inside of the loop, or a list with a condition: `[x for x in list if ...]`"},
        {"let", "write `name = value`"},
        {"def", "functions are written outside of rules: `fn name(x) = value`"}};
    for (const Row& row : rows) {
      if (!begins_statement(row.word)) continue;
      parser_.error(parser_.peek().span, cat("there is no `", row.word, "`"), row.instead);
      return true;
    }
    return false;
  }

  bool statement(Statements& out) {
    if (step_ && parser_.at("return") && !parser_.peek(1).is("=") && !parser_.peek(1).is("~")) return result();
    if (foreign_statement()) return false;
    Statement s;
    std::size_t begin = parser_.here();
    bool braces = true;
    bool good = false;
    if (parser_.accept("if")) {
      good = if_statement(s);
    } else if (parser_.accept("for")) {
      good = for_statement(s);
    } else if (parser_.accept("either")) {
      good = either_statement(s);
    } else if (parser_.accept("maybe")) {
      s.kind = StatementKind::Either;
      s.alternatives.resize(2);
      good = block(s.alternatives[1].body);
    } else if (parser_.accept("try")) {
      s.kind = StatementKind::Try;
      good = block(s.body) && (!parser_.accept("else") || block(s.otherwise));
    } else {
      braces = false;
      good = simple_statement(s);
    }
    s.span = parser_.span_from(begin);
    if (good && parser_.at("@")) {
      parser_.error(s.span, "samples of a rule or a schedule by hand are open, without a decision",
                    "`tracewright replay` runs a trace with its decisions");
      return false;
    }
    if (!good || (!braces && !parser_.end_statement())) return false;
    while (parser_.accept(";")) {
    }
    if (s.kind == StatementKind::Draw) return draws(s, out);
    out.push_back(std::move(s));
    return true;
  }

  // a, b ~ choices: one sample_categorical(choices) for each name.
  bool draws(const Statement& s, Statements& out) {
    Arena& arena = *module_->arena;
    for (const ast::Expr* target : s.targets) {
      auto* callee = arena.make<ast::Name>(ast::Expr{ast::Kind::Name, s.span}, text("sample_categorical"));
      ast::Argument choices{.name = {}, .name_span = {}, .value = s.value};
      auto* call = arena.make<ast::Call>(ast::Expr{ast::Kind::Call, s.span, s.value->height + 1}, callee,
                                         arena.list<ast::Argument>({choices}));
      Statement draw{.kind = StatementKind::Assign, .span = s.span};
      draw.targets = {target};
      draw.value = call;
      out.push_back(std::move(draw));
    }
    return true;
  }

  bool if_statement(Statement& s) {
    s.kind = StatementKind::If;
    s.value = parser_.expr();
    if (!s.value || !block(s.body)) return false;
    if (!parser_.accept("else")) return true;
    if (!parser_.at("if")) return block(s.otherwise);
    return statement(s.otherwise);
  }

  bool for_statement(Statement& s) {
    s.kind = StatementKind::For;
    bool several = parser_.accept("(");
    do {
      std::optional<Token> name = parser_.expect_name("the name of the variable");
      if (!name) return false;
      s.variables.push_back(text(name->text));
    } while (several && parser_.accept(","));
    if ((several && !parser_.expect(")")) || !parser_.expect("in")) return false;
    s.value = parser_.expr();
    return s.value && block(s.body);
  }

  bool either_statement(Statement& s) {
    s.kind = StatementKind::Either;
    do {
      Alternative alternative;
      if (!parser_.at("{") && !parser_.at("when")) {
        std::optional<Token> name = parser_.expect_name("the name of the variable");
        if (!name || !parser_.expect("in")) return false;
        alternative.variable = text(name->text);
        if (!(alternative.over = parser_.expr())) return false;
      }
      if (parser_.accept("when") && !(alternative.condition = parser_.expr())) return false;
      if (!block(alternative.body)) return false;
      s.alternatives.push_back(std::move(alternative));
    } while (parser_.accept("or"));
    return true;
  }

  bool simple_statement(Statement& s) {
    if (parser_.accept("skip")) return s.kind = StatementKind::Skip, true;
    if (parser_.accept("drop")) return s.kind = StatementKind::Drop, true;
    if (parser_.accept("require")) {
      s.kind = StatementKind::Require;
      s.value = parser_.expr();
      if (s.value && parser_.at(","))
        return parser_.error_expected("the end of the line",
                                      "the `require` of a rule has no text: its condition is what is shown"),
               false;
      return s.value != nullptr;
    }
    std::optional<std::vector<const ast::Expr*>> exprs = parser_.exprs();
    if (!exprs) return false;
    if (parser_.accept("=")) {
      s.kind = StatementKind::Assign;
      s.targets = *exprs;
      for (const ast::Expr* target : s.targets) {
        auto* index = ast::as<ast::Index>(target);
        if (!ast::as<ast::Name>(target) && !ast::as<ast::Hole>(target) &&
            !(index && ast::as<ast::Name>(index->value))) {
          parser_.error(target->span, "expected a name to assign to");
          return false;
        }
      }
      return (s.value = assigned()) != nullptr;
    }
    if (parser_.accept("~")) {
      s.kind = StatementKind::Draw;
      s.targets = *exprs;
      for (const ast::Expr* target : s.targets) {
        if (!ast::as<ast::Name>(target)) return parser_.error(target->span, "expected a name for what is drawn"), false;
      }
      return (s.value = parser_.expr()) != nullptr;
    }
    if (exprs->size() != 1) {
      parser_.error_expected("`=` or `~`");
      return false;
    }
    s.kind = StatementKind::Expression;
    s.value = (*exprs)[0];
    if (!ast::as<ast::Call>(s.value)) {
      parser_.error(s.value->span, "this expression has no effect", "call an instruction, or assign it to a name");
      return false;
    }
    return true;
  }

  // What is behind `=`: one value, or several, which are a tuple.
  const ast::Expr* assigned() {
    std::size_t begin = parser_.here();
    std::optional<std::vector<const ast::Expr*>> values = parser_.exprs();
    if (!values || values->size() == 1) return values ? (*values)[0] : nullptr;
    int height = 1;
    for (const ast::Expr* value : *values) height = std::max(height, value->height + 1);
    return module_->arena->make<ast::Tuple>(ast::Expr{ast::Kind::Tuple, parser_.span_from(begin), height},
                                            module_->arena->copy(*values));
  }

  Str text(std::string_view characters) { return module_->arena->text(characters); }

  std::shared_ptr<Module> module_;
  Parser parser_;
  Step* step_ = nullptr;  // whose body is being read
  int blocks_ = 0;        // braces of statements around here
};

}  // namespace

std::shared_ptr<const Module> parse_module(std::shared_ptr<const Source> source, Diagnostics& diagnostics) {
  return ModuleParser(std::move(source), diagnostics).run();
}

}  // namespace tw::rules
