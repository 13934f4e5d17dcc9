#include "dsl/text/parse_expr.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "dsl/ir/print.h"

namespace tw {
namespace {

constexpr int kNotStrength = 3;
constexpr int kComparisonStrength = 4;
constexpr u64 kMinMagnitude = u64{1} << 63;

struct Operator {
  std::string_view text;
  BinaryOp op;
};
constexpr Operator kOperators[] = {{"+", BinaryOp::Add},   {"-", BinaryOp::Sub},       {"*", BinaryOp::Mul},
                                   {"/", BinaryOp::Div},   {"//", BinaryOp::FloorDiv}, {"%", BinaryOp::FloorMod},
                                   {"<", BinaryOp::Lt},    {"<=", BinaryOp::Le},       {">", BinaryOp::Gt},
                                   {">=", BinaryOp::Ge},   {"==", BinaryOp::Eq},       {"!=", BinaryOp::Ne},
                                   {"and", BinaryOp::And}, {"or", BinaryOp::Or}};

// Counts an open bracket while it lives.
class Inside {
 public:
  explicit Inside(int& count) : count_(count) { ++count_; }
  ~Inside() { --count_; }
  Inside(const Inside&) = delete;

 private:
  int& count_;
};

int height_above(Array<const ast::Expr*> children) {
  int height = 0;
  for (const ast::Expr* child : children) height = std::max(height, child ? child->height : 0);
  return height + 1;
}

}  // namespace

Parser::Parser(const Source& source, Arena& arena, Diagnostics& diagnostics)
    : arena_(arena), diagnostics_(diagnostics) {
  std::size_t before = diagnostics.all().size();
  tokens_ = lex(source, diagnostics);
  errors_ = static_cast<int>(diagnostics.all().size() - before);
  if (errors_ >= kMaxErrors) next_ = tokens_.size() - 1;
}

// ---- tokens

const Token& Parser::peek(std::size_t ahead) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }

const Token& Parser::take() {
  const Token& token = peek();
  if (!at_end()) ++next_;
  return token;
}

bool Parser::at_name() const { return peek().kind == TokenKind::Name && !is_reserved(peek().text); }

bool Parser::accept(std::string_view characters) {
  if (!at(characters)) return false;
  take();
  return true;
}

bool Parser::expect(std::string_view characters) {
  if (accept(characters)) return true;
  error_expected(cat("`", characters, "`"));
  return false;
}

std::optional<Token> Parser::expect_name(std::string_view what) {
  if (at_name()) return take();
  std::string note = peek().kind == TokenKind::Name ? cat("`", peek().text, "` is a word of the language") : "";
  error_expected(what, note);
  return std::nullopt;
}

std::optional<i64> Parser::expect_integer(std::string_view what) {
  bool negative = at("-") && peek(1).kind == TokenKind::Int;
  if (negative) take();
  if (peek().kind != TokenKind::Int || (peek().integer == kMinMagnitude && !negative)) {
    error_expected(what);
    return std::nullopt;
  }
  u64 magnitude = take().integer;
  return static_cast<i64>(negative ? -magnitude : magnitude);
}

std::optional<double> Parser::expect_number(std::string_view what) {
  bool negative = accept("-");
  if (peek().kind == TokenKind::Int || peek().kind == TokenKind::Float) {
    const Token& token = take();
    double value = token.kind == TokenKind::Int ? static_cast<double>(token.integer) : token.number;
    return negative ? -value : value;
  }
  error_expected(what);
  return std::nullopt;
}

std::optional<Str> Parser::expect_text(std::string_view what) {
  if (peek().kind == TokenKind::Text) return arena_.text(unquote(take().text));
  error_expected(what);
  return std::nullopt;
}

// ---- statements

bool Parser::at_statement_end() const { return at_end() || peek().after_newline || at(";") || at("}"); }

bool Parser::end_statement() {
  if (!at_statement_end()) {
    error_expected("the end of the line");
    return false;
  }
  while (accept(";")) {
  }
  return true;
}

void Parser::recover() {
  bool stuck = next_ == recovered_at_;  // the statement did not take a single token: one must go now
  int open = 0;
  while (!at_end()) {
    if (open == 0 && !stuck && (at("}") || peek().after_newline)) break;
    stuck = false;
    bool separator = open == 0 && at(";");
    if (at("{")) ++open;
    if (at("}") && open > 0) --open;
    take();
    if (separator) break;
  }
  recovered_at_ = next_;
}

Parser::Nesting::Nesting(Parser& parser) : parser_(parser), ok_(++parser.depth_ <= kMaxNesting) {
  if (!ok_) parser.error(parser.peek().span, cat("this is nested deeper than ", kMaxNesting, " levels"));
}

// ---- errors

void Parser::error(Span span, std::string message, std::string note) {
  if (errors_ >= kMaxErrors) return;
  const std::vector<Diagnostic>& all = diagnostics_.all();
  // A parser that could not even begin a statement comes here twice for one token.
  if (!all.empty() && all.back().span.begin == span.begin && errors_ > 0) return;
  diagnostics_.error(span, std::move(message), std::move(note));
  if (++errors_ < kMaxErrors) return;
  diagnostics_.error(span, "too many errors; the rest of the text is not looked at");
  next_ = tokens_.size() - 1;
}

// What somebody may have meant who wrote the token at hand.
std::string Parser::hint(std::string_view expected) const {
  bool is_behind_condition = expected == "the end of the line" || expected == "`then`" || expected.ends_with("`{`");
  if (at("=") && is_behind_condition) return "`==` compares";
  // From here back to the beginning of the line.
  for (std::size_t i = next_;; --i) {
    if (tokens_[i].is("//")) return "a comment begins with `#`; `//` divides";
    if (i == 0 || tokens_[i].after_newline) return "";
  }
}

void Parser::error_expected(std::string_view what, std::string note) {
  if (note.empty()) note = hint(what);
  error(peek().span, cat("expected ", what, ", found ", describe(peek())), std::move(note));
}

Span Parser::span_from(std::size_t begin) const {
  std::size_t end = next_ > 0 ? tokens_[std::min(next_, tokens_.size()) - 1].span.end : begin;
  return {begin, std::max(begin, end)};
}

// ---- expressions

bool Parser::check_height(int height, std::size_t begin) {
  if (height <= ast::kMaxHeight) return true;
  error(span_from(begin), cat("this expression has more than ", ast::kMaxHeight, " levels"),
        "give a part of it a name");
  return false;
}

template <class T, class... Fields>
const ast::Expr* Parser::make(std::size_t begin, std::initializer_list<const ast::Expr*> children, Fields... fields) {
  int height = height_above({children.begin(), children.size()});
  if (!check_height(height, begin)) return nullptr;
  return arena_.make<T>(ast::Expr{T::kKind, span_from(begin), height}, fields...);
}

std::optional<BinaryOp> Parser::operator_here() const {
  if (!continues() && at("-")) return std::nullopt;
  for (const Operator& candidate : kOperators) {
    if (at(candidate.text)) return candidate.op;
  }
  return std::nullopt;
}

const ast::Expr* Parser::expr() {
  Nesting nesting(*this);
  if (!nesting) return nullptr;
  if (at("if")) return if_expr();
  if (at_name() && peek(1).is("->")) {
    std::size_t begin = here();
    const ast::Expr* parameter = word();
    return parameter ? lambda(begin, arena_.list<const ast::Expr*>({parameter})) : nullptr;
  }
  return binary(1);
}

std::optional<std::vector<const ast::Expr*>> Parser::exprs() {
  std::vector<const ast::Expr*> list;
  do {
    list.push_back(expr());
    if (!list.back()) return std::nullopt;
  } while (accept(","));
  return list;
}

const ast::Expr* Parser::if_expr() {
  std::size_t begin = take().span.begin;
  const ast::Expr* condition = expr();
  if (!condition || !expect("then")) return nullptr;
  const ast::Expr* then = expr();
  if (!then || !expect("else")) return nullptr;
  const ast::Expr* otherwise = expr();
  return otherwise ? make<ast::If>(begin, {condition, then, otherwise}, condition, then, otherwise) : nullptr;
}

const ast::Expr* Parser::binary(int weakest) {
  std::size_t begin = here();
  const ast::Expr* left = operand(weakest);
  while (left) {
    std::optional<BinaryOp> op = operator_here();
    int own = op ? strength(*op) : 0;
    if (own == 0 || own < weakest) break;
    Span op_span = take().span;
    const ast::Expr* right = binary(own + 1);
    if (!right) return nullptr;
    left = make<ast::Binary>(begin, {left, right}, *op, op_span, left, right);
    std::optional<BinaryOp> next = operator_here();
    if (left && own == kComparisonStrength && next && strength(*next) == own) {
      error(peek().span, "comparisons do not chain", "write `a < b and b < c`");
      return nullptr;
    }
  }
  return left;
}

const ast::Expr* Parser::operand(int weakest) {
  if (!at("not") || weakest > kNotStrength) return negation();
  Nesting nesting(*this);
  if (!nesting) return nullptr;
  std::size_t begin = take().span.begin;
  const ast::Expr* value = binary(kNotStrength);
  return value ? make<ast::Unary>(begin, {value}, UnaryOp::Not, value) : nullptr;
}

// A minus before a number is part of the number, so that -9223372036854775808 can be said.
const ast::Expr* Parser::negation() {
  if (!at("-")) return postfix();
  Nesting nesting(*this);
  if (!nesting) return nullptr;
  std::size_t begin = take().span.begin;
  if (peek().kind == TokenKind::Int) return integer(true, begin);
  if (peek().kind == TokenKind::Float) {
    double value = -take().number;
    return make<ast::Float>(begin, {}, value);
  }
  const ast::Expr* value = negation();
  return value ? make<ast::Unary>(begin, {value}, UnaryOp::Neg, value) : nullptr;
}

const ast::Expr* Parser::integer(bool negative, std::size_t begin) {
  if (peek().integer == kMinMagnitude && !negative) {
    error(peek().span, cat("the number `", peek().text, "` is out of range"));
    return nullptr;
  }
  u64 magnitude = take().integer;
  return make<ast::Int>(begin, {}, static_cast<i64>(negative ? -magnitude : magnitude));
}

const ast::Expr* Parser::postfix() {
  const ast::Expr* value = primary();
  while (value && continues() && (at("(") || at("[") || at(".") || at("?"))) value = postfix_of(value);
  return value;
}

const ast::Expr* Parser::postfix_of(const ast::Expr* value) {
  std::size_t begin = value->span.begin;
  if (at("(")) return call(value);
  if (at("[")) return index(value);
  if (accept("?")) return make<ast::Test>(begin, {value}, value);
  take();
  std::optional<Token> name = expect_name("the name of a member");
  return name ? make<ast::Member>(begin, {value}, value, arena_.text(name->text)) : nullptr;
}

const ast::Expr* Parser::primary() {
  std::size_t begin = here();
  switch (peek().kind) {
    case TokenKind::Int:
      return integer(false, begin);
    case TokenKind::Float: {
      double value = take().number;
      return make<ast::Float>(begin, {}, value);
    }
    case TokenKind::Text: {
      Str value = arena_.text(unquote(take().text));
      return make<ast::Text>(begin, {}, value);
    }
    case TokenKind::Name:
      return at_quantifier() ? quantifier() : word();
    default:
      break;
  }
  if (at("(")) return parenthesized();
  if (at("[")) return bracketed();
  // Else a body begins where an expression is missing.
  bool has_key = peek(1).kind == TokenKind::Text || (peek(1).kind == TokenKind::Name && peek(2).is(":"));
  if (at("{") && (brackets_ > 0 || has_key)) return dictionary();
  error_expected("an expression");
  return nullptr;
}

const ast::Expr* Parser::word() {
  std::size_t begin = here();
  if (at("true") || at("false")) {
    bool value = take().text == "true";
    return make<ast::Bool>(begin, {}, value);
  }
  if (accept("_")) return make<ast::Hole>(begin, {});
  if (accept("none")) return make<ast::None>(begin, {});
  if (!at_name() && !at("inf") && !at("nan")) {
    bool wants_parentheses = at("if") || at("not");
    error_expected("an expression", wants_parentheses ? cat("put `", peek().text, " ...` in parentheses here") : "");
    return nullptr;
  }
  Str name = arena_.text(take().text);
  return make<ast::Name>(begin, {}, name);
}

const ast::Expr* Parser::call(const ast::Expr* callee) {
  Inside inside(brackets_);
  take();
  std::vector<ast::Argument> arguments;
  int height = callee->height;
  while (!at(")")) {
    ast::Argument argument{};
    if (peek().kind == TokenKind::Name && peek(1).is("=")) {
      argument.name_span = peek().span;
      argument.name = arena_.text(take().text);
      take();
    } else if (!arguments.empty() && !arguments.back().name.empty()) {
      error(peek().span, "a positional argument cannot follow a named one",
            cat("name it too, as in `", arguments.back().name, " = ...`"));
      return nullptr;
    }
    argument.value = expr();
    if (!argument.value) return nullptr;
    height = std::max(height, argument.value->height);
    arguments.push_back(argument);
    if (!accept(",")) break;
  }
  if (!at(")")) {
    error_expected("`,` or `)`");
    return nullptr;
  }
  take();
  std::size_t begin = callee->span.begin;
  if (!check_height(height + 1, begin)) return nullptr;
  return arena_.make<ast::Call>(ast::Expr{ast::Kind::Call, span_from(begin), height + 1}, callee,
                                arena_.copy(arguments));
}

const ast::Expr* Parser::index(const ast::Expr* value) {
  Inside inside(brackets_);
  take();
  std::vector<const ast::Expr*> indices;
  while (!at("]")) {
    indices.push_back(one_index());
    if (!indices.back()) return nullptr;
    if (!accept(",")) break;
  }
  if (!at("]")) {
    error_expected("`,` or `]`");
    return nullptr;
  }
  take();
  std::size_t begin = value->span.begin;
  int height = std::max(height_above(indices), value->height + 1);
  if (!check_height(height, begin)) return nullptr;
  return arena_.make<ast::Index>(ast::Expr{ast::Kind::Index, span_from(begin), height}, value, arena_.copy(indices));
}

const ast::Expr* Parser::one_index() {
  std::size_t begin = here();
  const ast::Expr *from = nullptr, *to = nullptr;
  if (!at(":") && !(from = expr())) return nullptr;
  if (!accept(":")) return from;
  if (!at("]") && !at(",") && !(to = expr())) return nullptr;
  return make<ast::Slice>(begin, {from, to}, from, to);
}

// (e), (), (a,), (a, b), and all of these as the parameters of a lambda.
const ast::Expr* Parser::parenthesized() {
  std::size_t begin = here();
  std::vector<const ast::Expr*> items;
  bool comma = false;
  {
    Inside inside(brackets_);
    take();
    while (!at(")")) {
      items.push_back(expr());
      if (!items.back()) return nullptr;
      comma = accept(",");
      if (!comma) break;
    }
    if (!expect(")")) return nullptr;
  }
  if (at("->") && continues()) return lambda(begin, arena_.copy(items));
  if (items.size() == 1 && !comma) return items[0];
  int height = height_above(items);
  if (!check_height(height, begin)) return nullptr;
  return arena_.make<ast::Tuple>(ast::Expr{ast::Kind::Tuple, span_from(begin), height}, arena_.copy(items));
}

const ast::Expr* Parser::lambda(std::size_t begin, Array<const ast::Expr*> parameters) {
  std::vector<const ast::Name*> names;
  for (const ast::Expr* parameter : parameters) {
    names.push_back(ast::as<ast::Name>(parameter));
    if (!names.back()) {
      error(parameter->span, "expected the name of a parameter before `->`");
      return nullptr;
    }
  }
  take();
  const ast::Expr* body = expr();
  return body ? make<ast::Lambda>(begin, {body}, arena_.copy(names), body) : nullptr;
}

const ast::Expr* Parser::bracketed() {
  std::size_t begin = here();
  Inside inside(brackets_);
  take();
  std::vector<const ast::Expr*> items;
  while (!at("]")) {
    items.push_back(expr());
    if (!items.back()) return nullptr;
    if (items.size() == 1 && at("for")) return comprehension(begin, items[0]);
    if (!accept(",")) break;
  }
  if (!at("]")) {
    error_expected("`,` or `]`");
    return nullptr;
  }
  take();
  int height = height_above(items);
  if (!check_height(height, begin)) return nullptr;
  return arena_.make<ast::List>(ast::Expr{ast::Kind::List, span_from(begin), height}, arena_.copy(items));
}

const ast::Expr* Parser::dictionary() {
  std::size_t begin = here();
  Inside inside(brackets_);
  take();
  std::vector<Str> keys;
  std::vector<const ast::Expr*> values;
  while (!at("}")) {
    Span span = peek().span;
    bool is_name = peek().kind == TokenKind::Name && peek(1).is(":");
    std::optional<Str> key = is_name ? std::optional(arena_.text(take().text)) : expect_text("a key in quotes");
    if (!key || !expect(":")) return nullptr;
    if (std::find(keys.begin(), keys.end(), *key) != keys.end()) {
      error(span, cat("the key ", quote(*key), " is there twice"));
      return nullptr;
    }
    keys.push_back(*key);
    values.push_back(expr());
    if (!values.back()) return nullptr;
    if (!accept(",")) break;
  }
  if (!at("}")) {
    error_expected("`,` or `}`");
    return nullptr;
  }
  take();
  int height = height_above(values);
  if (!check_height(height, begin)) return nullptr;
  return arena_.make<ast::Dictionary>(ast::Expr{ast::Kind::Dictionary, span_from(begin), height}, arena_.copy(keys),
                                      arena_.copy(values));
}

const ast::Name* Parser::plain_name(std::string_view what) {
  if (at_name()) return static_cast<const ast::Name*>(word());
  error_expected(what);
  return nullptr;
}

std::vector<const ast::Name*> Parser::variables() {
  std::vector<const ast::Name*> names;
  bool parenthesis = accept("(");
  do {
    names.push_back(plain_name("the name of a variable"));
    if (!names.back()) return {};
  } while (accept(","));
  if (parenthesis && !expect(")")) return {};
  return names;
}

bool Parser::at_quantifier() const {
  if ((!at("all") && !at("any")) || !peek(1).is("(")) return false;
  if (!peek(2).is("(")) return peek(2).kind == TokenKind::Name && peek(3).is("in");
  std::size_t next = 3;
  while (peek(next).kind == TokenKind::Name && peek(next + 1).is(",")) next += 2;
  return peek(next).kind == TokenKind::Name && peek(next + 1).is(")") && peek(next + 2).is("in");
}

const ast::Expr* Parser::quantifier() {
  std::size_t begin = here();
  bool is_all = take().text == "all";
  Inside inside(brackets_);
  take();
  std::vector<const ast::Name*> names = variables();
  if (names.empty() || !expect("in")) return nullptr;
  const ast::Expr* over = expr();
  if (!over || !expect(":")) return nullptr;
  const ast::Expr* condition = expr();
  if (!condition || !expect(")")) return nullptr;
  return make<ast::Quantifier>(begin, {over, condition}, is_all, arena_.copy(names), over, condition);
}

const ast::Expr* Parser::comprehension(std::size_t begin, const ast::Expr* value) {
  take();
  std::vector<const ast::Name*> names = variables();
  if (names.empty() || !expect("in")) return nullptr;
  const ast::Expr* over = expr();
  if (!over) return nullptr;
  const ast::Expr* condition = nullptr;
  if (accept("if") && !(condition = expr())) return nullptr;
  if (!expect("]")) return nullptr;
  return make<ast::Comprehension>(begin, {value, over, condition}, value, arena_.copy(names), over, condition);
}

}  // namespace tw
