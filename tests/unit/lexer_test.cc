// Tokens and expressions of the one language: values, spans, precedence, newlines, limits, whole messages.
#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "dsl/text/parse_expr.h"

namespace tw {
namespace {

// The expression printed again, or the messages.
std::string parsed(const std::string& text) {
  Source source{"t", text};
  Diagnostics diagnostics(source);
  Arena arena;
  Parser parser(source, arena, diagnostics);
  const ast::Expr* expr = parser.expr();
  if (expr) parser.end_statement();
  return diagnostics.has_errors() ? diagnostics.render() : ast::to_string(expr);
}

std::string message(const std::string& text) {
  Source source{"t", text};
  Diagnostics diagnostics(source);
  Arena arena;
  Parser parser(source, arena, diagnostics);
  if (parser.expr()) parser.end_statement();
  return diagnostics.all().empty() ? "no error" : diagnostics.all()[0].message;
}

TEST(Lexer, KnowsKindsSpansAndLines) {
  Source source{"t", "ab_1 12 1.5e3 # comment \"\n\"x\\n\\\"\" // <= ->"};
  Diagnostics diagnostics(source);
  std::vector<Token> tokens = lex(source, diagnostics);
  ASSERT_FALSE(diagnostics.has_errors());
  ASSERT_EQ(tokens.size(), 8u);
  EXPECT_EQ(tokens[0].text, "ab_1");
  EXPECT_EQ(tokens[1].integer, 12u);
  EXPECT_EQ(tokens[2].number, 1500.0);
  EXPECT_EQ(tokens[2].span.begin, 8u);
  EXPECT_EQ(tokens[2].span.end, 13u);
  EXPECT_FALSE(tokens[2].after_newline);
  EXPECT_EQ(tokens[3].kind, TokenKind::Text);
  EXPECT_TRUE(tokens[3].after_newline);
  EXPECT_EQ(unquote(tokens[3].text), "x\n\"");
  EXPECT_EQ(tokens[4].text, "//");
  EXPECT_EQ(tokens[6].text, "->");
  EXPECT_EQ(tokens[7].kind, TokenKind::End);
}

TEST(Lexer, ReportsWithPlace) {
  Source source{"t.tw", "a $$ b\n\"open\n12x 99999999999999999999 1e999"};
  Diagnostics diagnostics(source);
  lex(source, diagnostics);
  EXPECT_EQ(diagnostics.render(),
            "t.tw:1:3: error: expected a name, a number or a symbol, found `$`\n"
            "    1 | a $$ b\n"
            "      |   ^~\n"
            "t.tw:2:1: error: this text has no closing `\"` on its line\n"
            "    2 | \"open\n"
            "      | ^\n"
            "t.tw:3:1: error: expected a number, found `12x`\n"
            "    3 | 12x 99999999999999999999 1e999\n"
            "      | ^~~\n"
            "note: a name cannot begin with a digit\n"
            "t.tw:3:5: error: the number `99999999999999999999` is out of range\n"
            "    3 | 12x 99999999999999999999 1e999\n"
            "      |     ^~~~~~~~~~~~~~~~~~~~\n"
            "t.tw:3:26: error: the number `1e999` is out of range\n"
            "    3 | 12x 99999999999999999999 1e999\n"
            "      |                          ^~~~~\n");
}

// What a terminal would obey, hide or turn around; characters of several bytes take one column.
TEST(Diagnostics, ShowWhatAForeignFileHoldsAndMarkItsPlace) {
  auto shown = [](const std::string& line, const std::string& marked) {
    Source source{"a\x1b[2J.tw", "first\n" + line + "\r\nlast"};
    Diagnostics diagnostics(source);
    std::size_t begin = source.text.find(marked);
    diagnostics.error({begin, begin + marked.size()}, "found `" + marked + "`", "not \x07");
    std::string text = diagnostics.render();
    EXPECT_TRUE(text.ends_with("note: not \\x07\n")) << text;
    EXPECT_TRUE(text.starts_with("a\\x1b[2J.tw:2:")) << text;
    return text.substr(text.find("    2 | "), text.find("note: ") - text.find("    2 | "));
  };
  EXPECT_EQ(shown("x = \x1b]0;title\x07 bad", "bad"),
            "    2 | x = \\x1b]0;title\\x07 bad\n      |                      ^~~\n");
  EXPECT_EQ(shown("x = \x1b[31m y", "\x1b[31m"), "    2 | x = \\x1b[31m y\n      |     ^~~~~~~~\n");
  EXPECT_EQ(shown("\tx\ty z", "z"), "    2 | \tx\ty z\n      | \t \t  ^\n");
  EXPECT_EQ(shown("x = \xc3\xa4\xe2\x82\xac z", "z"), "    2 | x = \xc3\xa4\xe2\x82\xac z\n      |        ^\n");
  EXPECT_EQ(shown("x\xe2\x80\xae\xc2\x9b\xff z", "z"), "    2 | x\\u202e\\u009b\\xff z\n      |                   ^\n");
  EXPECT_EQ(shown("x \x7f", "\x7f"), "    2 | x \\x7f\n      |   ^~~~\n");
  Source source{"t", "ab"};
  Diagnostics at_the_end(source);
  at_the_end.error({2, 2}, "more");
  EXPECT_EQ(at_the_end.render(), "t:1:3: error: more\n    1 | ab\n      |   ^\n");
}

TEST(Lexer, StopsAtLimits) {
  Source big{"t", std::string(kMaxSourceBytes + 1, 'a')};
  Diagnostics of_big(big);
  EXPECT_EQ(lex(big, of_big).size(), 1u);
  ASSERT_EQ(of_big.all().size(), 1u);
  EXPECT_EQ(of_big.all()[0].message, "the text has 1048577 bytes; at most 1048576 are read");
  std::string junk;
  for (int i = 0; i < 1000; ++i) junk += "$ ";
  Source source{"t", junk};
  Diagnostics diagnostics(source);
  lex(source, diagnostics);
  EXPECT_EQ(diagnostics.all().size(), static_cast<std::size_t>(kMaxErrors));
}

TEST(Expr, PrintsAsItWasWritten) {
  for (const char* text : {"a + b * c",
                           "(a + b) * c",
                           "a - (b - c)",
                           "a - b - c",
                           "not a == b and c or d",
                           "(not a) + b",
                           "-x[i, j]",
                           "-(a + b)",
                           "-5 + i % -3",
                           "a // b % c",
                           "if a < b then f(x) else (if c then 1 else 2.5) + 1",
                           "f(a, n = 2, m = [1, _, none])",
                           "split(j, [_, v * lanes], tail = partition)",
                           "x[1:]",
                           "x[:k, -m:, :]",
                           "s[-1].extent",
                           "vector_axis(b)?",
                           "[f(x) for x in xs if c(x)]",
                           "[a for (l, t) in zip(p, q)]",
                           "(n, k) -> (n // v, k, n % v)",
                           "l -> kind(l) == S",
                           "() -> ()",
                           "(a,)",
                           "\"q\\\"\\\\\"",
                           "true and false",
                           "1e-05",
                           "-9223372036854775808",
                           "D[]",
                           "a.b.c(1)[2]?",
                           "(x -> x)(1)",
                           "1.0 + 1e+20",
                           "-(1)"}) {
    EXPECT_EQ(parsed(text), text);
  }
}

TEST(Expr, LinesContinueInsideBracketsAndAtOperators) {
  EXPECT_EQ(parsed("f(a,\n  b\n)"), "f(a, b)");
  EXPECT_EQ(parsed("a +\n  b"), "a + b");
  EXPECT_EQ(parsed("a\n  and b\n  * c"), "a and b * c");
  EXPECT_EQ(parsed("a\n- b"), "a");
  EXPECT_EQ(parsed("a\n(b)"), "a");
  EXPECT_EQ(parsed("(a\n- b)"), "a - b");
}

TEST(Expr, ErrorsAreWhole) {
  EXPECT_EQ(parsed("f(a b)"),
            "t:1:5: error: expected `,` or `)`, found `b`\n"
            "    1 | f(a b)\n"
            "      |     ^\n");
  EXPECT_EQ(parsed("a < b < c"),
            "t:1:7: error: comparisons do not chain\n"
            "    1 | a < b < c\n"
            "      |       ^\n"
            "note: write `a < b and b < c`\n");
  EXPECT_EQ(parsed("1 + if a then b else c"),
            "t:1:5: error: expected an expression, found `if`\n"
            "    1 | 1 + if a then b else c\n"
            "      |     ^~\n"
            "note: put `if ...` in parentheses here\n");
  EXPECT_EQ(message("f(n = 1, 2)"), "a positional argument cannot follow a named one");
  EXPECT_EQ(message("(a, 1) -> a"), "expected the name of a parameter before `->`");
  EXPECT_EQ(message("if a then b"), "expected `else`, found end of file");
  EXPECT_EQ(message("9223372036854775808"), "the number `9223372036854775808` is out of range");
  EXPECT_EQ(message("[x for 1 in y]"), "expected the name of a variable, found `1`");
  EXPECT_EQ(message("x.1"), "expected the name of a member, found `1`");
  EXPECT_EQ(message(""), "expected an expression, found end of file");
  EXPECT_EQ(message("a b"), "expected the end of the line, found `b`");
}

TEST(Expr, SpansCoverTheText) {
  Source source{"t", "  a + f(b)[1]"};
  Diagnostics diagnostics(source);
  Arena arena;
  const ast::Expr* expr = Parser(source, arena, diagnostics).expr();
  ASSERT_NE(expr, nullptr);
  EXPECT_EQ(expr->span.begin, 2u);
  EXPECT_EQ(expr->span.end, 13u);
  const ast::Expr* right = ast::as<ast::Binary>(expr)->b;
  EXPECT_EQ(right->span.begin, 6u);
  EXPECT_EQ(right->span.end, 13u);
}

TEST(Expr, HostileTextIsAnError) {
  for (const char* unit : {"(", "[", "-", "not ", "f(", "x[", "if ", "(a, ", "a -> ", "[x for x in "}) {
    std::string deep;
    while (deep.size() < 100000) deep += unit;
    EXPECT_EQ(message(deep), "this is nested deeper than 200 levels") << unit;
  }
  std::string chain = "a";
  while (chain.size() < 500000) chain += " + a";
  EXPECT_EQ(message(chain), "this expression has more than 500 levels");
  std::string tail = "a";
  while (tail.size() < 500000) tail += "?.b(1)";
  EXPECT_EQ(message(tail), "this expression has more than 500 levels");
}

TEST(Parser, RecoversAtTheNextStatement) {
  Source source{"t", "a = (1 +\nb = ]\n{ c = ) } d\ne = 1; f g\nh"};
  Diagnostics diagnostics(source);
  Arena arena;
  Parser parser(source, arena, diagnostics);
  std::vector<std::string> good;
  while (!parser.at_end()) {
    if (parser.accept("}")) continue;
    std::optional<Token> name = parser.expect_name("a name");
    bool fine = name && (!parser.accept("=") || parser.expr()) && parser.end_statement();
    fine ? good.push_back(std::string(name->text)) : parser.recover();
  }
  EXPECT_EQ(join(good, " "), "e h");
  std::vector<std::string> messages;
  for (const Diagnostic& d : diagnostics.all())
    messages.push_back(cat(position_of(source, d.span.begin).line, ": ", d.message));
  EXPECT_EQ(join(messages, "\n"),
            "2: expected `)`, found `=`\n"
            "3: expected a name, found `{`\n"
            "4: expected the end of the line, found `g`");
}

}  // namespace
}  // namespace tw
