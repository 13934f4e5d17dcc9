// Parser: a cursor over the tokens of one source with everything that the parsers of workloads, rules, schedules and
// programs share: expressions, "expected X, found Y", recovery, limits. It knows no statement.
//
//   expr    = "if" expr "then" expr "else" expr | name "->" expr | "(" names ")" "->" expr | binary
//   binary  = or < and < not < comparisons (do not chain) < + - < * / // % < unary - < postfix   (left-associative)
//   postfix = primary { "(" arguments ")" | "[" indices "]" | "." name | "?" }
//   primary = number | text | name | "_" | "none" | "true" | "false" | "(" ... ")" | "[" ... "]" | "{" ... "}"
//           | ("all" | "any") "(" names "in" expr ":" expr ")"; inf and nan are Names that nothing
//             else can have
//
// Statements end where a line ends outside of brackets, or at ";". A line that begins with a binary operator other than
// "-" continues the line before; "(", "[", "?" and "-" at the beginning of a line do not.
//
// How to write a statement parser: return null (or false) as soon as a call returned null, and let the loop over the
// statements call recover(): every statement reports at most one error and the next one is parsed.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "dsl/text/ast.h"
#include "dsl/text/lexer.h"

namespace tw {

class Parser {
 public:
  static constexpr int kMaxNesting = 200;  // brackets, operators and statements inside one another

  // Source, arena and diagnostics must outlive the parser; `diagnostics` may already hold errors of the lexer's kind.
  Parser(const Source& source, Arena& arena, Diagnostics& diagnostics);

  // ---- tokens
  const Token& peek(std::size_t ahead = 0) const;
  const Token& take();  // at the end: the End token, as often as one likes
  bool at_end() const { return peek().kind == TokenKind::End; }
  bool at(std::string_view characters) const { return peek().is(characters); }  // a symbol or a word
  bool at_name() const;                                                         // a name that is not reserved
  bool accept(std::string_view characters);                                     // takes it if it is there
  bool expect(std::string_view characters);  // takes it, or reports "expected `x`, found `y`"
  // A name that is not reserved, or an error "expected <what>, found `y`"; e.g. what = "the name of a buffer".
  std::optional<Token> expect_name(std::string_view what);
  std::optional<i64> expect_integer(std::string_view what);    // also negative
  std::optional<double> expect_number(std::string_view what);  // integer or float, also negative
  std::optional<Str> expect_text(std::string_view what);       // characters in the arena

  // ---- statements
  // Is the current token beyond the end of a statement: first of its line, ";", "}" or the end?
  bool at_statement_end() const;
  // Takes ";" tokens; an error if something else stands on the line.
  bool end_statement();
  // Skips the rest of a wrong statement: to the first token of a later line, behind ";", or before the "}" that closes
  // the surrounding braces. Braces that open on the way are skipped whole. Called twice in one place it takes a token,
  // so that a loop over statements always ends.
  void recover();
  // Guards recursion of statement parsers: `Nesting nesting(parser); if (!nesting) return null;`. Reports the error
  // itself.
  class Nesting {
   public:
    explicit Nesting(Parser& parser);
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    explicit operator bool() const { return ok_; }

   private:
    Parser& parser_;
    bool ok_;
  };

  // ---- expressions; null after an error, which has been reported
  const ast::Expr* expr();
  // expr { "," expr } up to a token that is not ","; at least one.
  std::optional<std::vector<const ast::Expr*>> exprs();

  // ---- errors
  void error(Span span, std::string message, std::string note = "");
  void error_expected(std::string_view what, std::string note = "");  // "expected <what>, found <current token>"
  // From `begin` to the end of the last token taken.
  Span span_from(std::size_t begin) const;
  std::size_t here() const { return peek().span.begin; }
  Arena& arena() { return arena_; }
  Diagnostics& diagnostics() { return diagnostics_; }

 private:
  friend class Nesting;
  std::string hint(std::string_view expected) const;
  const ast::Expr* binary(int weakest);
  const ast::Expr* operand(int weakest);
  const ast::Expr* negation();
  const ast::Expr* postfix();
  const ast::Expr* postfix_of(const ast::Expr* value);
  const ast::Expr* primary();
  const ast::Expr* word();
  const ast::Expr* if_expr();
  const ast::Expr* call(const ast::Expr* callee);
  const ast::Expr* index(const ast::Expr* value);
  const ast::Expr* one_index();
  const ast::Expr* parenthesized();
  const ast::Expr* bracketed();
  const ast::Expr* dictionary();
  const ast::Expr* comprehension(std::size_t begin, const ast::Expr* value);
  bool at_quantifier() const;  // all(x in ...
  const ast::Expr* quantifier();
  // x, or x, y, or (x, y): the variables of a comprehension or quantifier; empty after an error.
  std::vector<const ast::Name*> variables();
  const ast::Expr* lambda(std::size_t begin, Array<const ast::Expr*> parameters);
  const ast::Expr* integer(bool negative, std::size_t begin);
  const ast::Name* plain_name(std::string_view what);
  std::optional<BinaryOp> operator_here() const;
  bool continues() const { return brackets_ > 0 || !peek().after_newline; }

  // A T with its span from `begin` and a height above its children; null if it is too high.
  template <class T, class... Fields>
  const ast::Expr* make(std::size_t begin, std::initializer_list<const ast::Expr*> children, Fields... fields);
  bool check_height(int height, std::size_t begin);

  Arena& arena_;
  Diagnostics& diagnostics_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  std::size_t recovered_at_ = static_cast<std::size_t>(-1);
  int brackets_ = 0;  // open "(" and "[": newlines inside mean nothing
  int depth_ = 0;
  int errors_ = 0;
};

}  // namespace tw
