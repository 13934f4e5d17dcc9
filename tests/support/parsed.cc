#include "support/parsed.h"

#include <gtest/gtest.h>

#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/parse_program.h"

namespace tw::test {
namespace {

template <class T>
T read(const std::string& text, std::optional<T> (*parse)(const Source&, Diagnostics&), T empty) {
  Source source{"test", text};
  Diagnostics diagnostics(source);
  std::optional<T> made = parse(source, diagnostics);
  EXPECT_TRUE(made) << diagnostics.render() << text;
  return made ? std::move(*made) : std::move(empty);
}

}  // namespace

OwnedProgram workload(const std::string& text, const std::string& name, const WorkloadArguments& arguments) {
  Source source{"test", text};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> made =
      instantiate(parse_workloads(source, diagnostics), name, arguments, {}, diagnostics);
  EXPECT_TRUE(made) << diagnostics.render() << text;
  return made ? std::move(*made) : OwnedProgram{std::make_shared<Arena>(), {}};
}

OwnedProgram parsed(const std::string& text) {
  return read<OwnedProgram>(text, parse_program, {std::make_shared<Arena>(), {}});
}
Trace parsed_schedule(const std::string& text) { return read<Trace>(text, parse_schedule, {}); }
TraceFile parsed_trace_file(const std::string& text) { return read<TraceFile>(text, parse_trace_file, {}); }
Target parsed_target(const std::string& text) {
  auto parse = [](const Source& source, Diagnostics& diagnostics) { return parse_target(source.text, 0, diagnostics); };
  return read<Target>(text, parse, {});
}

}  // namespace tw::test
