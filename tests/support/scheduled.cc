#include "support/scheduled.h"

#include <cstdio>
#include <cstdlib>

#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/workload.h"

namespace tw::test {
namespace {

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
}

template <class T>
T value_of(std::optional<T> made, const Diagnostics& diagnostics) {
  if (!made || diagnostics.has_errors()) fail(diagnostics.render());
  return std::move(*made);
}

OwnedProgram program_of(const std::string& use, const std::vector<std::string>& epilogues) {
  Source source{"use", use};
  Diagnostics of_use(source), of_library(*operator_library().source);
  WorkloadUse call = value_of(parse_use(source, of_use), of_use);
  return value_of(instantiate(operator_library(), call.workload, call.arguments, epilogues, of_library), of_library);
}

}  // namespace

Scheduled::Scheduled(const std::string& use, const std::vector<std::string>& epilogues, const std::string& schedule)
    : base_(program_of(use, epilogues)), state_(std::make_unique<State>(*arena_, base_.program)) {
  Source source{"schedule", schedule};
  Diagnostics diagnostics(source);
  Trace trace = value_of(parse_schedule(source, diagnostics), diagnostics);
  Status status = replay(trace, *state_);
  if (!status) fail(explain(status.rejected(), *state_));
}

std::string dense_schedule(const TileOptions& options) {
  std::string text = cat("b = get_block(\"Y\")\ni, j, k = get_loops(b)\ni0, ir = split(i, [_, ", options.rows,
                         "])\nj0, jv = split(j, [_, ", options.columns, "])\nk0, k1 = split(k, [_, ", options.unroll,
                         "])\nreorder([", options.panels_outside ? "j0, i0" : "i0, j0", ", k0, k1, ir, jv])\n");
  if (options.pack) {
    text += cat("w = cache_read(b, 1, \"global\")\ntransform_layout(w, 0, \"write\", (k, n) -> (n // ", options.columns,
                ", k, n % ", options.columns, "), 0)\nannotate(w, \"prepack\", 1)\n");
  }
  text += "promote(b, 0, k0)\nunroll(k1)\nunroll(ir)\nvectorize(jv)\n";
  if (options.parallel) text += cat("parallel(", options.panels_outside ? "j0" : "i0", ")\n");
  return text;
}

}  // namespace tw::test
