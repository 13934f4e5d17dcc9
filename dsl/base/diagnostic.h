// Diagnostics: what is wrong with text that a user wrote (.tw, YAML, flags). Several per run, each with file, line,
// column, the line itself, a caret range, and what to do instead. Used by every parser; never by the search.
#pragma once
#include <string>
#include <vector>

namespace tw {

// A text with a name; spans index into it.
struct Source {
  std::string name;  // file name as the user wrote it, or e.g. "record 17"
  std::string text;
};

// [begin, end) in bytes of Source::text.
struct Span {
  std::size_t begin = 0, end = 0;
};

struct Position {
  int line = 1, column = 1;  // both from 1; the column counts bytes
};
Position position_of(const Source& source, std::size_t offset);

enum class Severity { Error, Warning };

struct Diagnostic {
  Severity severity = Severity::Error;
  std::string message;  // one sentence: what was expected, what was found
  Span span;
  std::string note;  // what would be right ("did you mean `split`?"), may be empty
};

// The diagnostics of one source, in order of appearance.
class Diagnostics {
 public:
  explicit Diagnostics(const Source& source) : source_(&source) {}
  void error(Span span, std::string message, std::string note = "");
  void warning(Span span, std::string message, std::string note = "");
  bool has_errors() const { return errors_ > 0; }
  const std::vector<Diagnostic>& all() const { return list_; }
  const Source& source() const { return *source_; }
  // Everything as text for a terminal, whatever the source holds (see dsl/base/utf8.h):
  //   conv.tw:14:12: error: unknown operator `conv2`
  //      14 |   op: conv2
  //         |       ^~~~~
  //   note: did you mean `conv2d`?
  std::string render() const;

 private:
  const Source* source_;
  std::vector<Diagnostic> list_;
  int errors_ = 0;
};

}  // namespace tw
