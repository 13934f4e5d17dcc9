#include "cli/open_list.h"

#include <cstdio>

namespace tw::cli {

std::optional<LoadedList> open_list(const std::string& path, const std::string& rules, const std::string& strategy) {
  std::string messages;
  std::optional<LoadedList> list = load_list(path, messages, rules, strategy);
  std::fputs(messages.c_str(), stderr);
  return list;
}

bool fits_in_memory(const LoadedList& list, const std::string& only) {
  std::string why = why_not_in_memory(list, only);
  std::fputs(why.c_str(), stderr);
  return why.empty();
}

std::optional<TraceFile> read_trace_file(const std::string& path, const std::string& text) {
  Source source{path, text};
  Diagnostics diagnostics(source);
  std::optional<TraceFile> file = parse_trace_file(source, diagnostics);
  std::fputs(diagnostics.render().c_str(), stderr);
  return file;
}

}  // namespace tw::cli
