// The lexer of the one language (.tw): workloads, rules, schedules, traces and printed programs all use these tokens.
// Words are never keywords here: a parser decides by position what a Name means (see is_reserved for those that an
// expression may not use). Newlines are not tokens either: a token knows whether it is the first of its line, and the
// parser ends statements there.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/arena.h"
#include "dsl/base/diagnostic.h"

namespace tw {

enum class TokenKind : u8 { End, Int, Float, Text, Name, Symbol };

struct Token {
  TokenKind kind = TokenKind::End;
  Span span;
  std::string_view text;      // the characters in the source, quotes included; lives as long as the Source
  u64 integer = 0;            // of Int: the magnitude; at most 2^63, which is only legal behind a minus
  double number = 0;          // of Float
  bool after_newline = true;  // first token of its line
  bool is(std::string_view characters) const {
    return (kind == TokenKind::Name || kind == TokenKind::Symbol) && text == characters;
  }
};

inline constexpr std::size_t kMaxSourceBytes = 1 << 20;
inline constexpr int kMaxErrors = 20;  // per source; what comes after them is not looked at

// All tokens of the source, the last one of kind End. Comments run from `#` to the end of the line. Errors (stray
// characters, texts without end, numbers out of range, a source above kMaxSourceBytes) go to `diagnostics`; the token
// is left out. Bytes above 127 are legal in comments and texts only.
std::vector<Token> lex(const Source& source, Diagnostics& diagnostics);

// if then else and or not for in none true false inf nan _: these cannot name anything.
bool is_reserved(std::string_view word);

// The characters of a Text token: without quotes, \n \t \" \\ replaced.
std::string unquote(std::string_view token);

// How a message names a token: "`split`", "end of file".
std::string describe(const Token& token);

}  // namespace tw
