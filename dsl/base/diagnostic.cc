#include "dsl/base/diagnostic.h"

#include <algorithm>

#include "dsl/base/text.h"

namespace tw {

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
    out += cat(source_->name, ":", at.line, ":", at.column, ": ",
               diagnostic.severity == Severity::Error ? "error" : "warning", ": ", diagnostic.message, "\n");
    std::size_t line_begin = begin - (at.column - 1);
    std::size_t line_end = std::min(text.find('\n', begin), text.size());
    std::string number = std::to_string(at.line);
    std::string gutter(number.size() < 5 ? 5 - number.size() : 0, ' ');
    out += cat(gutter, number, " | ", text.substr(line_begin, line_end - line_begin), "\n");
    std::size_t end = std::clamp(diagnostic.span.end, begin + 1, std::max(begin + 1, line_end));
    out += cat(std::string(gutter.size() + number.size(), ' '), " | ");
    for (std::size_t i = line_begin; i < begin; ++i) out += text[i] == '\t' ? '\t' : ' ';
    out += '^' + std::string(end - begin - 1, '~') + "\n";
    if (!diagnostic.note.empty()) out += cat("note: ", diagnostic.note, "\n");
  }
  return out;
}

}  // namespace tw
