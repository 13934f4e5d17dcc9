#include "runtime/store/trace_file.h"

#include "backends/target.h"
#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/parse_program.h"
#include "dsl/text/workload.h"

namespace tw {
namespace {

constexpr i64 format_version = 1;

// `"text"` with the offset of its first character inside the quotes.
struct QuotedText {
  std::string text;
  std::size_t offset;
};
std::optional<QuotedText> expect_quoted(Parser& parser, std::string_view what) {
  std::size_t begin = parser.here();
  std::optional<Str> text = parser.expect_text(what);
  if (!text) return std::nullopt;
  return QuotedText{std::string(*text), begin + 1};
}

bool parse_head(Parser& parser, TraceFile& file) {
  if (!parser.expect("tracewright")) return false;
  Span place = parser.peek().span;
  std::optional<i64> format = parser.expect_integer("the version of the format");
  if (!format) return false;
  if (*format != format_version) {
    parser.error(place, cat("expected format ", format_version, ", found ", *format),
                 "this file was written by another version of tracewright");
    return false;
  }
  std::optional<QuotedText> version = expect_quoted(parser, "the version of tracewright in quotes");
  if (!version || !parser.expect("target")) return false;
  std::optional<QuotedText> target = expect_quoted(parser, "a target in quotes");
  if (!target) return false;
  std::optional<Target> parsed = parse_target(target->text, target->offset, parser.diagnostics());
  if (!parsed) return false;
  file.version = version->text;
  file.target = to_string(*parsed);
  return true;
}

}  // namespace

std::string print_trace_file(const TraceFile& file) {
  return cat("tracewright ", format_version, " ", quote(file.version), "\ntarget ", quote(file.target), "\n",
             workload_text(file.program.program), "schedule {\n", file.trace.print(), "}\n");
}

std::optional<TraceFile> parse_trace_file(const Source& source, Diagnostics& diagnostics) {
  Arena arena;
  Parser parser(source, arena, diagnostics);
  TraceFile file;
  if (diagnostics.has_errors() || !parse_head(parser, file)) return std::nullopt;
  std::optional<OwnedProgram> program = parse_program(parser);
  if (!program || !parser.expect("schedule") || !parser.expect("{")) return std::nullopt;
  std::optional<Trace> trace = parse_schedule(parser);
  if (!trace || !parser.expect("}")) return std::nullopt;
  if (!parser.at_end()) parser.error_expected("the end of the file");
  if (diagnostics.has_errors()) return std::nullopt;
  file.program = std::move(*program);
  file.trace = std::move(*trace);
  return file;
}

}  // namespace tw
