#include "dsl/text/lexer.h"

#include <algorithm>
#include <charconv>

#include "dsl/base/text.h"

namespace tw {
namespace {

// Longer symbols before their prefixes.
constexpr std::string_view kSymbols[] = {"...", "//", "<=", ">=", "==", "!=", "->", "(", ")", "[",
                                         "]",   "{",  "}",  ",",  ";",  ":",  ".",  "=", "<", ">",
                                         "+",   "-",  "*",  "/",  "%",  "@",  "?",  "|", "~"};
constexpr std::string_view kReserved[] = {"if", "then", "else", "and",   "or",  "not", "for",
                                          "in", "none", "true", "false", "inf", "nan", "_"};

// What people write who come from other languages, and the word for it here.
struct Foreign {
  std::string_view symbol, word;
};
constexpr Foreign kForeign[] = {{"&&", "and"}, {"||", "or"}, {"!", "not"}};
constexpr std::string_view kForeignQuotes[] = {"'", "\u2018", "\u2019", "\u201C", "\u201D"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); }

class Lexer {
 public:
  Lexer(const Source& source, Diagnostics& diagnostics) : text_(source.text), diagnostics_(diagnostics) {}

  std::vector<Token> run() {
    if (text_.size() > kMaxSourceBytes) {
      error(0, 1, cat("the text has ", text_.size(), " bytes; at most ", kMaxSourceBytes, " are read"));
      at_ = text_.size();
    }
    while (skip_blank() && errors_ < kMaxErrors) next();
    add(TokenKind::End, at_);
    return std::move(tokens_);
  }

 private:
  // Moves to the next token; false at the end.
  bool skip_blank() {
    for (; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      if (at_ == text_.size()) break;
      c = text_[at_];
      if (c == '\n')
        newline_ = true;
      else if (c != ' ' && c != '\t' && c != '\r')
        return true;
    }
    return false;
  }

  void next() {
    char c = text_[at_];
    if (is_digit(c)) return number();
    if (is_word(c)) return word();
    if (c == '"') return quoted();
    for (std::string_view symbol : kSymbols) {
      bool is_doubled_bar = symbol == "|" && peek(1) == '|';
      if (!is_doubled_bar && text_.substr(at_, symbol.size()) == symbol) {
        at_ += symbol.size();
        add(TokenKind::Symbol, at_ - symbol.size());
        return;
      }
    }
    if (!foreign_operator() && !foreign_quotes()) stray();
  }

  // Reported once, and read as what is meant.
  bool foreign_operator() {
    for (const Foreign& foreign : kForeign) {
      if (text_.substr(at_, foreign.symbol.size()) != foreign.symbol) continue;
      std::size_t begin = at_;
      at_ += foreign.symbol.size();
      error(begin, at_, cat("there is no operator `", foreign.symbol, "`"), cat("write `", foreign.word, "`"));
      add(TokenKind::Name, begin);
      tokens_.back().text = foreign.word;
      return true;
    }
    return false;
  }

  bool foreign_quotes() {
    auto quote_at = [&](std::size_t at) -> std::size_t {
      for (std::string_view quote : kForeignQuotes) {
        if (text_.substr(at, quote.size()) == quote) return quote.size();
      }
      return 0;
    };
    std::size_t begin = at_, opening = quote_at(at_);
    if (opening == 0) return false;
    std::size_t end = begin + opening;
    while (end < text_.size() && text_[end] != '\n' && quote_at(end) == 0) ++end;
    bool is_closed = end < text_.size() && text_[end] != '\n';
    at_ = is_closed ? end + quote_at(end) : begin + opening;
    error(begin, at_, "texts stand in straight double quotes", "write \"...\"");
    if (is_closed) add(TokenKind::Text, begin);
    return true;
  }

  void word() {
    std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    add(TokenKind::Name, begin);
  }

  // 12, 1.5, 1e-05, 1.e3. A point belongs to the number only if a digit, an exponent or no word follows.
  void number() {
    std::size_t begin = at_;
    bool is_float = false;
    skip_digits();
    if (peek(0) == '.' && (is_digit(peek(1)) || !(is_word(peek(1)) || peek(1) == '.'))) {
      is_float = true;
      ++at_;
      skip_digits();
    }
    std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if ((peek(0) == 'e' || peek(0) == 'E') && is_digit(peek(1 + sign))) {
      is_float = true;
      at_ += 1 + sign;
      skip_digits();
    }
    if (at_ < text_.size() && is_word(text_[at_])) {
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
      return error(begin, at_, cat("expected a number, found `", shown(begin), "`"),
                   "a name cannot begin with a digit");
    }
    const char* first = text_.data() + begin;
    const char* last = text_.data() + at_;
    u64 integer = 0;
    double value = 0;
    std::errc failed = is_float ? std::from_chars(first, last, value).ec : std::from_chars(first, last, integer).ec;
    if (failed != std::errc() || integer > (u64{1} << 63)) {
      return error(begin, at_, cat("the number `", shown(begin), "` is out of range"));
    }
    add(is_float ? TokenKind::Float : TokenKind::Int, begin);
    tokens_.back().integer = integer;
    tokens_.back().number = value;
  }

  void quoted() {
    std::size_t begin = at_++;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_, text_.size());
    if (peek(0) != '"') return error(begin, begin + 1, "this text has no closing `\"` on its line");
    ++at_;
    add(TokenKind::Text, begin);
  }

  // One error for a whole run of characters that can begin nothing.
  void stray() {
    std::size_t begin = at_;
    auto starts_token = [&](char c) {
      return is_word(c) || c == '"' || c == '#' || c == ' ' || c == '\n' || c == '\t' || c == '\r' ||
             std::any_of(std::begin(kSymbols), std::end(kSymbols), [&](std::string_view s) { return s[0] == c; });
    };
    while (at_ < text_.size() && (at_ == begin || !starts_token(text_[at_]))) ++at_;
    error(begin, at_, cat("expected a name, a number or a symbol, found ", printable(begin)));
  }

  std::string printable(std::size_t begin) const {
    unsigned char c = static_cast<unsigned char>(text_[begin]);
    if (c > 32 && c < 127) return cat("`", text_.substr(begin, 1), "`");
    return cat("a byte of value ", static_cast<int>(c));
  }
  std::string shown(std::size_t begin) const {
    std::string_view all = text_.substr(begin, at_ - begin);
    return all.size() <= 40 ? std::string(all) : cat(all.substr(0, 40), "...");
  }
  char peek(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void skip_digits() {
    while (is_digit(peek(0))) ++at_;
  }
  void add(TokenKind kind, std::size_t begin) {
    tokens_.push_back({kind, {begin, at_}, text_.substr(begin, at_ - begin), 0, 0, newline_});
    newline_ = false;
  }
  void error(std::size_t begin, std::size_t end, std::string message, std::string note = "") {
    diagnostics_.error({begin, end}, std::move(message), std::move(note));
    ++errors_;
  }

  std::string_view text_;
  Diagnostics& diagnostics_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  bool newline_ = true;
  int errors_ = 0;
};

}  // namespace

std::vector<Token> lex(const Source& source, Diagnostics& diagnostics) { return Lexer(source, diagnostics).run(); }

bool is_reserved(std::string_view word) {
  return std::find(std::begin(kReserved), std::end(kReserved), word) != std::end(kReserved);
}

std::string unquote(std::string_view token) {
  std::string out;
  for (std::size_t i = 1; i + 1 < token.size(); ++i) {
    if (token[i] != '\\' || i + 2 >= token.size()) {
      out += token[i];
      continue;
    }
    char c = token[++i];
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  return out;
}

std::string describe(const Token& token) {
  if (token.kind == TokenKind::End) return "end of file";
  if (token.text.size() > 40) return cat("`", token.text.substr(0, 40), "...`");
  return cat("`", token.text, "`");
}

}  // namespace tw
