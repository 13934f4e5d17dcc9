#include "dsl/base/diagnostic.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "dsl/base/utf8.h"

namespace tw {

namespace {

// A line as a terminal may show it, and what stands below to mark its bytes [begin, end).
struct Excerpt {
  std::string line, mark;
};

Excerpt excerpt(std::string_view line, std::size_t begin, std::size_t end) {
  Excerpt out;
  bool is_marked = false;
  for (std::size_t at = 0; at < line.size();) {
    Shown shown = line[at] == '\t' ? Shown{"\t", 1, 1} : shown_at(line, at);
    out.line += shown.text;
    at += shown.bytes;
    if (at <= begin) out.mark += shown.text == "\t" ? "\t" : std::string(shown.columns, ' ');
    if (at <= begin || (is_marked && at - shown.bytes >= end)) continue;
    out.mark += (is_marked ? "~" : "^") + std::string(shown.columns - 1, '~');
    is_marked = true;
  }
  if (!is_marked) out.mark += '^';
  return out;
}

}  // namespace

Position position_of(const Source& source, std::size_t offset) {
  Position at;
  offset = std::min(offset, source.text.size());
  for (std::size_t i = 0; i < offset; ++i) {
    if (source.text[i] == '\n') {
      ++at.line;
      at.column = 1;
    } else {
      ++at.column;
    }
  }
  return at;
}

void Diagnostics::error(Span span, std::string message, std::string note) {
  list_.push_back({Severity::Error, std::move(message), span, std::move(note)});
  ++errors_;
}

void Diagnostics::warning(Span span, std::string message, std::string note) {
  list_.push_back({Severity::Warning, std::move(message), span, std::move(note)});
}

std::string Diagnostics::render() const {
  std::string out;
  for (const Diagnostic& diagnostic : list_) {
    const std::string& text = source_->text;
    std::size_t begin = std::min(diagnostic.span.begin, text.size());
    Position at = position_of(*source_, begin);
    out += cat(printable(source_->name), ":", at.line, ":", at.column, ": ",
               diagnostic.severity == Severity::Error ? "error" : "warning", ": ", printable(diagnostic.message), "\n");
    std::size_t line_begin = begin - (at.column - 1);
    std::size_t line_end = std::min(text.find('\n', begin), text.size());
    std::string number = std::to_string(at.line);
    std::string gutter(number.size() < 5 ? 5 - number.size() : 0, ' ');
    if (line_end > begin && text[line_end - 1] == '\r') --line_end;
    Excerpt shown = excerpt(std::string_view(text).substr(line_begin, line_end - line_begin), begin - line_begin,
                            std::max(diagnostic.span.end, begin) - line_begin);
    out += cat(gutter, number, " | ", shown.line, "\n", std::string(gutter.size() + number.size(), ' '), " | ",
               shown.mark, "\n");
    if (!diagnostic.note.empty()) out += cat("note: ", printable(diagnostic.note), "\n");
  }
  return out;
}

}  // namespace tw
